-- Reads the statistics, the time model and the waits of sessions twice, some seconds apart: the growth is what the sessions did, for
-- `dbtime report snap.csv`. It only reads, and needs no licence pack.
--
--   dbtime oracle-snap > snap.sql
--   sqlplus -s / as sysdba @snap.sql 1090,1091 10 > snap.csv
--
-- SIDs, separated by commas without blanks, or `all`; then seconds. Oracle 11.2 and later. Any user will do that may read
-- V$INSTANCE, V$SESSION, V$SESSTAT, V$STATNAME, V$SESS_TIME_MODEL and V$SESSION_EVENT (SELECT_CATALOG_ROLE). Which sessions are
-- read can be narrowed down at each `WHERE`, in the same way at all five. The wait is that of the host (`sleep`), because
-- DBMS_LOCK needs a grant. docs/import.md says what the lines mean.
SET ECHO OFF
SET FEEDBACK OFF
SET HEADING OFF
SET PAGESIZE 0
SET LINESIZE 32767
SET LONG 32767
SET TRIMOUT ON
SET TRIMSPOOL ON
SET TAB OFF
SET VERIFY OFF
SET DEFINE ON
SET WRAP ON
PROMPT dbtime-oracle-snap 1

SELECT 'instance,"' || i.instance_name || '","' || i.version || '",.'
FROM v$instance i;

-- All in one statement, for a single time. A wait in progress is not in V$SESSION_EVENT: it has its own line.
SELECT 'session,' || TO_CHAR(SYSTIMESTAMP AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.FF6"Z"')
       || ',' || s.sid || ',' || s.serial#
       || ',' || ROUND((SYSDATE - s.logon_time) * 86400)
       || ',"' || s.type || '"'
       || ',"' || REPLACE(TRANSLATE(s.username, CHR(10) || CHR(13), '  '), '"', '""') || '"'
       || ',"' || REPLACE(TRANSLATE(s.program, CHR(10) || CHR(13), '  '), '"', '""') || '"'
       || ',.'
FROM v$session s
WHERE LOWER('&1') = 'all' OR INSTR(',&1,', ',' || s.sid || ',') > 0
UNION ALL
SELECT 'stat,' || TO_CHAR(SYSTIMESTAMP AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.FF6"Z"')
       || ',' || s.sid || ',' || s.serial# || ',"' || n.name || '",' || v.value || ',.'
FROM v$session s
JOIN v$sesstat v ON v.sid = s.sid
JOIN v$statname n ON n.statistic# = v.statistic#
WHERE v.value <> 0 AND (LOWER('&1') = 'all' OR INSTR(',&1,', ',' || s.sid || ',') > 0)
UNION ALL
SELECT 'time,' || TO_CHAR(SYSTIMESTAMP AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.FF6"Z"')
       || ',' || s.sid || ',' || s.serial# || ',"' || m.stat_name || '",' || m.value || ',.'
FROM v$session s
JOIN v$sess_time_model m ON m.sid = s.sid
WHERE m.value <> 0 AND (LOWER('&1') = 'all' OR INSTR(',&1,', ',' || s.sid || ',') > 0)
UNION ALL
SELECT 'wait,' || TO_CHAR(SYSTIMESTAMP AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.FF6"Z"')
       || ',' || s.sid || ',' || s.serial# || ',"' || e.event || '","' || e.wait_class || '"'
       || ',' || e.time_waited_micro || ',' || e.total_waits || ',.'
FROM v$session s
JOIN v$session_event e ON e.sid = s.sid
WHERE LOWER('&1') = 'all' OR INSTR(',&1,', ',' || s.sid || ',') > 0
UNION ALL
SELECT 'waiting,' || TO_CHAR(SYSTIMESTAMP AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.FF6"Z"')
       || ',' || s.sid || ',' || s.serial# || ',"' || s.event || '","' || s.wait_class || '"'
       || ',' || s.wait_time_micro || ',.'
FROM v$session s
WHERE s.state = 'WAITING' AND (LOWER('&1') = 'all' OR INSTR(',&1,', ',' || s.sid || ',') > 0);
PROMPT read,.
HOST sleep &2
/
PROMPT read,.

EXIT
