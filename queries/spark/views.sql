-- Views of a store of dbtime for Spark SQL, of this session. Begin with where it is:
--
--   SET store = /srv/fleet
--
-- A file counts when a manifest names it: what a put that is under way, or was killed, has written is in none. Of a recording the
-- manifest of the latest state counts; exact recordings of a flight recorder do not, their time is in
-- others too. Partitions (date, hour, host) are in every table of rows with a time: name them in WHERE,
-- and no other files are read. Spark lists the files when the views are made: make them again to see what was put since then.
-- A column that a recording of an older dbtime lacks is NULL.

CREATE OR REPLACE TEMPORARY VIEW manifests (
    host STRING, recording STRING, identity STRING, complete BOOLEAN, start TIMESTAMP, end TIMESTAMP, rows DECIMAL(20, 0),
    bytes DECIMAL(20, 0), damaged ARRAY<STRING>, meta STRING
) USING json OPTIONS (path '${store}/recordings');

-- In paths the bytes of a host are written as %41 where they are no letter, digit, '.', '-' or '_': Spark takes each for a character.
CREATE OR REPLACE TEMPORARY VIEW recordings AS
SELECT decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host, recording, identity, complete, start, end, rows, bytes, damaged, meta
FROM (
    SELECT *,
           row_number() OVER (
               PARTITION BY host, identity
               ORDER BY complete DESC, size(damaged) = 0 DESC, rows DESC, end DESC, size(damaged), recording DESC
           ) AS latest
    FROM manifests
)
WHERE latest = 1 AND get_json_object(meta, '$.collector.flight') IS NULL;

CREATE OR REPLACE TEMPORARY VIEW activity_files (
    time TIMESTAMP, session DECIMAL(20, 0), statement DECIMAL(20, 0), wait_class STRING, wait_event STRING, idle BOOLEAN,
    state STRING, session_state STRING, kernel_stack DECIMAL(20, 0), user_stack DECIMAL(20, 0), ns DECIMAL(20, 0),
    count DECIMAL(20, 0), samples DECIMAL(20, 0), fidelity STRING, pooled BOOLEAN, comment DECIMAL(20, 0), recording STRING, date DATE,
    hour INT, host STRING
) USING parquet OPTIONS (path '${store}/table=activity');

CREATE OR REPLACE TEMPORARY VIEW activity AS
SELECT f.*
FROM (SELECT * EXCEPT (host), decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host FROM activity_files) f
LEFT SEMI JOIN recordings r ON r.host = f.host AND r.recording = f.recording;

CREATE OR REPLACE TEMPORARY VIEW counters_files (
    time TIMESTAMP, session DECIMAL(20, 0), statement DECIMAL(20, 0), plan DECIMAL(20, 0), source STRING, name STRING, value BIGINT,
    recording STRING, date DATE, hour INT, host STRING
) USING parquet OPTIONS (path '${store}/table=counters');

CREATE OR REPLACE TEMPORARY VIEW counters AS
SELECT f.*
FROM (SELECT * EXCEPT (host), decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host FROM counters_files) f
LEFT SEMI JOIN recordings r ON r.host = f.host AND r.recording = f.recording;

CREATE OR REPLACE TEMPORARY VIEW sessions_files (
    id DECIMAL(20, 0), pid BIGINT, started TIMESTAMP, backend_type STRING, user STRING, database STRING, client STRING,
    leader_pid BIGINT, title STRING, service STRING, module STRING, action STRING, client_id STRING, sid STRING,
    application STRING, recording STRING, date DATE, host STRING
) USING parquet OPTIONS (path '${store}/table=sessions');

CREATE OR REPLACE TEMPORARY VIEW sessions AS
SELECT f.*
FROM (SELECT * EXCEPT (host), decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host FROM sessions_files) f
LEFT SEMI JOIN recordings r ON r.host = f.host AND r.recording = f.recording;

CREATE OR REPLACE TEMPORARY VIEW statements_files (
    id DECIMAL(20, 0), text STRING, sql_id STRING,
    plan_steps ARRAY<STRUCT<
        plan: DECIMAL(20, 0), id: DECIMAL(20, 0), parent: DECIMAL(20, 0), operation: STRING, executions: DECIMAL(20, 0),
        rows: DECIMAL(20, 0), consistent_gets: DECIMAL(20, 0), physical_reads: DECIMAL(20, 0), physical_writes: DECIMAL(20, 0),
        elapsed_us: DECIMAL(20, 0)>>,
    callers ARRAY<STRUCT<statement: DECIMAL(20, 0), calls: DECIMAL(20, 0), elapsed_us: DECIMAL(20, 0)>>,
    hash_value DECIMAL(20, 0), user_id BIGINT, depth BIGINT, command BIGINT, alike DECIMAL(20, 0),
    binds ARRAY<STRUCT<values: ARRAY<STRING>, executions: DECIMAL(20, 0), elapsed_us: DECIMAL(20, 0), rows: DECIMAL(20, 0)>>,
    bound_executions ARRAY<STRUCT<
        time_us: BIGINT, elapsed_us: DECIMAL(20, 0), values: ARRAY<STRUCT<position: BIGINT, value: STRING>>>>,
    bound_execution_count DECIMAL(20, 0), recording STRING, date DATE, host STRING
) USING parquet OPTIONS (path '${store}/table=statements');

CREATE OR REPLACE TEMPORARY VIEW statements AS
SELECT f.*
FROM (SELECT * EXCEPT (host), decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host FROM statements_files) f
LEFT SEMI JOIN recordings r ON r.host = f.host AND r.recording = f.recording;

CREATE OR REPLACE TEMPORARY VIEW stacks_files (
    id DECIMAL(20, 0), frames ARRAY<STRUCT<symbol: STRING, module: STRING, build_id: STRING, offset: DECIMAL(20, 0)>>,
    recording STRING, date DATE, host STRING
) USING parquet OPTIONS (path '${store}/table=stacks');

CREATE OR REPLACE TEMPORARY VIEW stacks AS
SELECT f.*
FROM (SELECT * EXCEPT (host), decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host FROM stacks_files) f
LEFT SEMI JOIN recordings r ON r.host = f.host AND r.recording = f.recording;

-- Time with its session, and the part of a report in which it stands: db_time, idle, background. Sessions that were not described
-- (their recorder was killed) count as foreground, as in reports.
CREATE OR REPLACE TEMPORARY VIEW time_spent AS
SELECT a.*, s.pid, s.backend_type, s.user, s.database, s.application,
       CASE WHEN coalesce(s.backend_type, 'unknown') NOT IN ('client backend', 'parallel worker', 'process', 'unknown')
                THEN 'background'
            WHEN a.idle AND a.state <> 'runnable' THEN 'idle'
            ELSE 'db_time' END AS section
FROM activity a
LEFT JOIN sessions s ON s.host = a.host AND s.recording = a.recording AND s.id = a.session;
