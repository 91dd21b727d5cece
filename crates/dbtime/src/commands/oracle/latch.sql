-- Samples many times which session holds which latch, like LatchProfX, for `dbtime report latch.csv`. It only reads, and
-- needs no licence pack.
--
--   dbtime oracle-latch > latch.sql
--   sqlplus -s / as sysdba @latch.sql all % 100000 10 > latch.csv
--
-- 1. SIDs, separated by commas without blanks, or `all`  2. latches with names LIKE this (% = all; no quotes)
-- 3. samples, at most 10,000,000  4. seconds, at most 600. It ends with whichever comes first, or after 200,000 lines.
--
-- Oracle 10.2 and later. As SYS it reads X$KSUPRLAT and X$KSLLW, which know how a latch is held and where in the code it was taken
-- (in a multitenant database: in the root container); as any other user who may read V$INSTANCE, V$SESSION, V$LATCHHOLDER and
-- V$LATCH_CHILDREN (SELECT_CATALOG_ROLE) it reads V$LATCHHOLDER, which does not. It samples without a pause, so it keeps one CPU
-- busy while it runs. Its own session is left out. docs/import.md says what the lines mean.
SET ECHO OFF
SET FEEDBACK OFF
SET HEADING OFF
SET PAGESIZE 0
SET LINESIZE 32767
SET TRIMOUT ON
SET TRIMSPOOL ON
SET TAB OFF
SET VERIFY OFF
SET DEFINE ON
SET WRAP ON
SET SERVEROUTPUT ON SIZE UNLIMITED FORMAT WRAPPED
PROMPT dbtime-oracle-latch 1

-- Lines below that begin with one of these two names become comments, depending on the user.
COLUMN only_sys NEW_VALUE only_sys NOPRINT
COLUMN only_others NEW_VALUE only_others NOPRINT
SELECT 'instance,"' || i.instance_name || '","' || i.version || '",.' AS line,
       CASE SYS_CONTEXT('USERENV', 'SESSION_USER') WHEN 'SYS' THEN '' ELSE '--' END AS only_sys,
       CASE SYS_CONTEXT('USERENV', 'SESSION_USER') WHEN 'SYS' THEN '--' ELSE '' END AS only_others
FROM v$instance i;

DECLARE
    wanted_samples CONSTANT PLS_INTEGER := LEAST(&3, 10000000);
    wanted_seconds CONSTANT NUMBER := LEAST(&4, 600);
    most_lines CONSTANT PLS_INTEGER := 200000;
    -- A sample that takes longer is left out: it is not known when the latch was held during it.
    slow CONSTANT INTERVAL DAY TO SECOND := NUMTODSINTERVAL(0.1, 'SECOND');
    own_sid CONSTANT NUMBER := TO_NUMBER(SYS_CONTEXT('USERENV', 'SID'));

    -- The current latch holders, read again each time it is opened.
    CURSOR holders IS
        SELECT /*+ ORDERED USE_NL(s) */
               l.sid, s.serial#, l.laddr, l.gets, l.name, l.hmode, l.code, l.label, s.sql_id,
               CASE WHEN s.state = 'WAITING' THEN s.wait_class END AS wait_class,
               CASE WHEN s.state = 'WAITING' THEN s.event END AS event
        FROM (
&only_sys      SELECT /*+ ORDERED USE_NL(w) */
&only_sys             h.ksuprsid AS sid, RAWTOHEX(h.ksuprlat) AS laddr, h.ksulagts AS gets, h.ksuprlnm AS name,
&only_sys             h.ksuprlmd AS hmode, w.ksllwnam AS code, w.ksllwlbl AS label
&only_sys      FROM x$ksuprlat h
&only_sys      LEFT JOIN x$ksllw w ON w.indx = h.ksulawhr
&only_others   SELECT h.sid, RAWTOHEX(h.laddr) AS laddr, h.gets, h.name,
&only_others          CAST(NULL AS VARCHAR2(64)) AS hmode, CAST(NULL AS VARCHAR2(80)) AS code,
&only_others          CAST(NULL AS VARCHAR2(80)) AS label
&only_others   FROM v$latchholder h
        ) l
        LEFT JOIN v$session s ON s.sid = l.sid
        WHERE (LOWER('&1') = 'all' OR INSTR(',&1,', ',' || l.sid || ',') > 0)
          AND LOWER(l.name) LIKE LOWER('&2')
          AND l.sid <> own_sid;

    TYPE holder_list IS TABLE OF holders%ROWTYPE;
    TYPE address_set IS TABLE OF PLS_INTEGER INDEX BY VARCHAR2(32);
    held holder_list;
    seen address_set;
    began TIMESTAMP;
    look_began TIMESTAMP;
    look_ended TIMESTAMP;
    stretch_began TIMESTAMP;
    samples PLS_INTEGER := 0;
    stretch_samples PLS_INTEGER := 0;
    lines PLS_INTEGER := 0;
    stretch_lines PLS_INTEGER := 0;

    FUNCTION moment(t IN TIMESTAMP) RETURN VARCHAR2 IS
    BEGIN
        RETURN TO_CHAR(t, 'YYYY-MM-DD"T"HH24:MI:SS.FF6"Z"');
    END;

    FUNCTION quoted(text IN VARCHAR2) RETURN VARCHAR2 IS
    BEGIN
        RETURN '"' || REPLACE(TRANSLATE(text, CHR(10) || CHR(13), '  '), '"', '""') || '"';
    END;

    PROCEDURE put(line IN VARCHAR2) IS
    BEGIN
        DBMS_OUTPUT.PUT_LINE(line || ',.');
    END;

    -- Reports what was sampled since `stretch_began`, without a gap.
    PROCEDURE end_stretch(t IN TIMESTAMP) IS
    BEGIN
        IF stretch_samples > 0 THEN
            put('taken,' || moment(stretch_began) || ',' || moment(t) || ',' || stretch_samples || ',' || stretch_lines);
        END IF;
        stretch_samples := 0;
        stretch_lines := 0;
    END;
BEGIN
    began := SYS_EXTRACT_UTC(SYSTIMESTAMP);
    look_began := began;
    stretch_began := began;
    WHILE samples < wanted_samples AND lines < most_lines
          AND look_began < began + NUMTODSINTERVAL(wanted_seconds, 'SECOND') LOOP
        OPEN holders;
        FETCH holders BULK COLLECT INTO held LIMIT 10000;
        CLOSE holders;
        look_ended := SYS_EXTRACT_UTC(SYSTIMESTAMP);
        IF look_ended < look_began OR look_ended - look_began > slow THEN
            end_stretch(look_began);
            stretch_began := look_ended;
        ELSE
            FOR n IN 1 .. held.COUNT LOOP
                put('held,' || moment(look_began) || ',' || held(n).sid || ',' || held(n).serial#
                    || ',' || held(n).laddr || ',' || held(n).gets || ',' || quoted(held(n).name)
                    || ',' || quoted(held(n).hmode) || ',' || quoted(held(n).code) || ',' || quoted(held(n).label)
                    || ',' || quoted(held(n).sql_id) || ',' || quoted(held(n).wait_class)
                    || ',' || quoted(held(n).event));
                seen(held(n).laddr) := 1;
            END LOOP;
            samples := samples + 1;
            stretch_samples := stretch_samples + 1;
            lines := lines + held.COUNT;
            stretch_lines := stretch_lines + held.COUNT;
            -- One stretch a second.
            IF TO_CHAR(look_ended, 'SS') <> TO_CHAR(stretch_began, 'SS') THEN
                end_stretch(look_ended);
                stretch_began := look_ended;
            END IF;
        END IF;
        look_began := look_ended;
    END LOOP;
    end_stretch(look_began);
    -- Which of the latches of the same name they are.
    FOR child IN (SELECT RAWTOHEX(c.addr) AS laddr, c.child# AS child_number FROM v$latch_children c) LOOP
        IF seen.EXISTS(child.laddr) THEN
            put('child,' || child.laddr || ',' || child.child_number);
        END IF;
    END LOOP;
    put('sampled,' || samples || ',' || lines);
END;
/

SELECT 'session,' || s.sid || ',' || s.serial#
       || ',"' || s.type || '"'
       || ',"' || REPLACE(TRANSLATE(s.username, CHR(10) || CHR(13), '  '), '"', '""') || '"'
       || ',"' || REPLACE(TRANSLATE(s.program, CHR(10) || CHR(13), '  '), '"', '""') || '"'
       || ',.'
FROM v$session s
WHERE LOWER('&1') = 'all' OR INSTR(',&1,', ',' || s.sid || ',') > 0;
PROMPT end,.

EXIT
