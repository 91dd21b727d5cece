-- Views of a dbtime store for Spark SQL, for this session. Begin with its location:
--
--   SET store = /srv/fleet
--
-- A row counts if its recording has a manifest: what was written by a put that is under way, or was killed, has none. Of a recording, the
-- latest state counts; exact recordings of a flight recorder do not, as their time is also in others. Names alone decide all of that: files
-- are opened only for queries that need them. Partitions (date, hour, host) are columns of every table of rows with a time: name them in
-- WHERE, and no other files are opened. Spark lists the files when the views are created: create them again to see what was put since then.
-- A column that a recording of an older dbtime lacks is NULL.

CREATE OR REPLACE TEMPORARY VIEW manifest_names USING binaryFile OPTIONS (path '${store}/recordings', recursiveFileLookup 'true');

CREATE OR REPLACE TEMPORARY VIEW row_names USING binaryFile OPTIONS (path '${store}/table=recordings', recursiveFileLookup 'true');

-- Recordings that count. A store with recordings put by an older dbtime, which have no row, is refused.
UNCACHE TABLE IF EXISTS counted;

CREATE OR REPLACE TEMPORARY VIEW counted AS
SELECT host, recording
FROM (
    SELECT m.host, m.recording, r.rank, r.is_flight,
           row_number() OVER (
               PARTITION BY m.host, left(m.recording, 16) ORDER BY r.rank DESC NULLS LAST, m.recording DESC
           ) AS latest
    FROM (
        SELECT url_decode(regexp_extract(path, '.*/host=([^/]+)/', 1)) AS host,
               regexp_extract(path, '-([0-9a-f]{16}-[0-9a-f]{16})[.]json$', 1) AS recording
        FROM manifest_names
    ) m
    LEFT JOIN (
        SELECT url_decode(regexp_extract(path, '.*/host=([^/]+)/', 1)) AS host,
               regexp_extract(path, '/([0-9a-f]{16}-)[^/]*$', 1) || regexp_extract(path, '-([0-9a-f]{16})[^/-]*$', 1) AS recording,
               regexp_extract(path, '-([0-9a-f]{42})-[^/]*$', 1) AS rank,
               path LIKE '%.flight.parquet' AS is_flight
        FROM row_names
    ) r ON r.host = m.host AND r.recording = m.recording
)
WHERE CASE WHEN latest > 1 THEN false
           WHEN rank IS NULL THEN raise_error('not all recordings of this store are known: run dbtime store upgrade')
           ELSE NOT is_flight END;

CACHE TABLE counted;

-- In paths the bytes of a host are written as %41 unless they are a letter, digit, '.', '-' or '_': Spark takes each for a character.
CREATE OR REPLACE TEMPORARY VIEW recordings_files (
    identity STRING, complete BOOLEAN, start TIMESTAMP, end TIMESTAMP, rows DECIMAL(20, 0), bytes DECIMAL(20, 0),
    damaged ARRAY<STRING>, product STRING, version STRING, cpus BIGINT, meta STRING, recording STRING, date DATE, host STRING
) USING parquet OPTIONS (path '${store}/table=recordings');

CREATE OR REPLACE TEMPORARY VIEW recordings AS
SELECT f.*
FROM (SELECT * EXCEPT (host), decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host FROM recordings_files) f
LEFT SEMI JOIN counted r ON r.host = f.host AND r.recording = f.recording;

CREATE OR REPLACE TEMPORARY VIEW activity_files (
    time TIMESTAMP, session DECIMAL(20, 0), statement DECIMAL(20, 0), wait_class STRING, wait_event STRING, idle BOOLEAN,
    state STRING, session_state STRING, kernel_stack DECIMAL(20, 0), user_stack DECIMAL(20, 0), ns DECIMAL(20, 0),
    count DECIMAL(20, 0), samples DECIMAL(20, 0), fidelity STRING, pooled BOOLEAN, comment DECIMAL(20, 0), recording STRING, date DATE,
    hour INT, host STRING
) USING parquet OPTIONS (path '${store}/table=activity');

CREATE OR REPLACE TEMPORARY VIEW activity AS
SELECT f.*
FROM (SELECT * EXCEPT (host), decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host FROM activity_files) f
LEFT SEMI JOIN counted r ON r.host = f.host AND r.recording = f.recording;

CREATE OR REPLACE TEMPORARY VIEW counters_files (
    time TIMESTAMP, session DECIMAL(20, 0), statement DECIMAL(20, 0), plan DECIMAL(20, 0), source STRING, name STRING, value BIGINT,
    recording STRING, date DATE, hour INT, host STRING
) USING parquet OPTIONS (path '${store}/table=counters');

CREATE OR REPLACE TEMPORARY VIEW counters AS
SELECT f.*
FROM (SELECT * EXCEPT (host), decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host FROM counters_files) f
LEFT SEMI JOIN counted r ON r.host = f.host AND r.recording = f.recording;

CREATE OR REPLACE TEMPORARY VIEW sessions_files (
    id DECIMAL(20, 0), pid BIGINT, started TIMESTAMP, backend_type STRING, user STRING, database STRING, client STRING,
    leader_pid BIGINT, title STRING, service STRING, module STRING, action STRING, client_id STRING, sid STRING,
    application STRING, recording STRING, date DATE, host STRING
) USING parquet OPTIONS (path '${store}/table=sessions');

CREATE OR REPLACE TEMPORARY VIEW sessions AS
SELECT f.*
FROM (SELECT * EXCEPT (host), decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host FROM sessions_files) f
LEFT SEMI JOIN counted r ON r.host = f.host AND r.recording = f.recording;

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
LEFT SEMI JOIN counted r ON r.host = f.host AND r.recording = f.recording;

CREATE OR REPLACE TEMPORARY VIEW stacks_files (
    id DECIMAL(20, 0), frames ARRAY<STRUCT<symbol: STRING, module: STRING, build_id: STRING, offset: DECIMAL(20, 0)>>,
    recording STRING, date DATE, host STRING
) USING parquet OPTIONS (path '${store}/table=stacks');

CREATE OR REPLACE TEMPORARY VIEW stacks AS
SELECT f.*
FROM (SELECT * EXCEPT (host), decode(encode(host, 'ISO-8859-1'), 'UTF-8') AS host FROM stacks_files) f
LEFT SEMI JOIN counted r ON r.host = f.host AND r.recording = f.recording;

-- Time with its session, and the section of a report that it is in: db_time, idle, background. Sessions that were not described (their
-- recorder was killed) count as foreground, as in reports.
CREATE OR REPLACE TEMPORARY VIEW time_spent AS
SELECT a.*, s.pid, s.backend_type, s.user, s.database, s.application,
       CASE WHEN coalesce(s.backend_type, 'unknown') NOT IN ('client backend', 'parallel worker', 'process', 'unknown')
                THEN 'background'
            WHEN a.idle AND a.state <> 'runnable' THEN 'idle'
            ELSE 'db_time' END AS section
FROM activity a
LEFT JOIN sessions s ON s.host = a.host AND s.recording = a.recording AND s.id = a.session;
