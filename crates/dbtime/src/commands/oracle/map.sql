-- Makes the MAP of this Oracle instance for `dbtime record --oracle MAP`: which process is which session, where in the SGA it
-- keeps its wait event, and what the events are called. It only reads, and needs no licence pack.
--
--   dbtime oracle-map > map.sql
--   sqlplus -s / as sysdba @map.sql > map.csv
--
-- On the database's host, as SYSDBA (X$ tables), in a multitenant database in the root container. docs/oracle-live.md says what
-- the lines mean. Run it again when new sessions have connected: a recording notices that the file has changed.
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
SET DEFINE OFF
SET WRAP ON

SELECT 'instance,"' || i.instance_name || '","' || i.version || '",.'
FROM v$instance i;

SELECT 'session,' || s.sid || ',' || s.serial# || ',' || p.spid
       || ',"' || s.type || '"'
       || ',"' || REPLACE(TRANSLATE(s.username, CHR(10) || CHR(13), '  '), '"', '""') || '"'
       || ',"' || REPLACE(TRANSLATE(s.program, CHR(10) || CHR(13), '  '), '"', '""') || '"'
       || ',"' || REPLACE(TRANSLATE(s.module, CHR(10) || CHR(13), '  '), '"', '""') || '"'
       || ',0x' || TRIM(TO_CHAR(TO_NUMBER(RAWTOHEX(s.saddr), 'XXXXXXXXXXXXXXXX') + c.opc, 'XXXXXXXXXXXXXXXX'))
       || ',0x' || TRIM(TO_CHAR(TO_NUMBER(RAWTOHEX(s.saddr), 'XXXXXXXXXXXXXXXX') + c.tim, 'XXXXXXXXXXXXXXXX'))
       || ',0x' || TRIM(TO_CHAR(TO_NUMBER(RAWTOHEX(s.saddr), 'XXXXXXXXXXXXXXXX') + c.sqh, 'XXXXXXXXXXXXXXXX'))
       || ',0x' || TRIM(TO_CHAR(TO_NUMBER(RAWTOHEX(s.saddr), 'XXXXXXXXXXXXXXXX') + c.num, 'XXXXXXXXXXXXXXXX'))
       || ',.'
FROM v$session s
JOIN v$process p ON p.addr = s.paddr
CROSS JOIN (
    SELECT MAX(CASE f.kqfconam WHEN 'KSUSEOPC' THEN f.kqfcooff END) AS opc,
           MAX(CASE f.kqfconam WHEN 'KSUSETIM' THEN f.kqfcooff END) AS tim,
           MAX(CASE f.kqfconam WHEN 'KSUSESQH' THEN f.kqfcooff END) AS sqh,
           MAX(CASE f.kqfconam WHEN 'KSUSENUM' THEN f.kqfcooff END) AS num
    FROM x$kqfta t
    JOIN x$kqfco f ON f.kqfcotab = t.indx
    WHERE t.kqftanam = 'X$KSUSE'
) c
ORDER BY s.sid;

SELECT 'event,' || e.event# || ',"' || e.name || '","' || e.wait_class || '",.'
FROM v$event_name e
ORDER BY e.event#;

SELECT 'end,' || a.sessions || ',' || b.events || ',.'
FROM (SELECT COUNT(*) AS sessions FROM v$session s JOIN v$process p ON p.addr = s.paddr) a
CROSS JOIN (SELECT COUNT(*) AS events FROM v$event_name) b;

EXIT
