-- Views of a dbtime store for ClickHouse, created in the current database. Define its location before they are created:
--
--   CREATE FUNCTION dbtime_store AS () -> 'https://bucket.s3.eu-central-1.amazonaws.com/fleet';
--
-- They read a directory. For a bucket, let them read with s3 instead, which takes the same arguments:
--
--   sed 's/FROM file(/FROM s3(/' queries/clickhouse/views.sql
--
-- A row counts if its recording has a manifest: what was written by a put that is under way, or was killed, has none. Of a recording, the
-- latest state counts; exact recordings of a flight recorder do not, as their time is also in others. Names alone decide all of that: files
-- are listed, and opened only for queries that need them. Partitions (date, hour, host) are columns of every table of rows with a time:
-- name them in WHERE, and no other files are opened. A column that a recording of an older dbtime lacks is empty, 0 or false.

-- Recordings that count, as in paths: there a host has %41 and the like for what is not a letter, digit, '.', '-' or '_'. A store with
-- recordings put by an older dbtime, which have no row, is refused.
CREATE OR REPLACE VIEW counted AS
SELECT host, recording
FROM (
    SELECT m.host AS host, m.recording AS recording, ifNull(r.rank, '') AS known_rank, ifNull(r.is_flight, 0) AS is_flight,
           row_number() OVER (PARTITION BY m.host, substring(m.recording, 1, 16) ORDER BY known_rank DESC, m.recording DESC) AS latest
    FROM (
        SELECT extract(path, '.*/host=([^/]+)/') AS host, extract(path, '-([0-9a-f]{16}-[0-9a-f]{16})\\.json$') AS recording
        FROM (SELECT arrayJoin(groupArray(_path)) AS path FROM file(dbtime_store() || '/recordings/*/*.json', 'One', 'dummy UInt8'))
    ) m
    LEFT JOIN (
        SELECT extract(path, '.*/host=([^/]+)/') AS host,
               concat(extract(path, '/([0-9a-f]{16}-)[^/]*$'), extract(path, '-([0-9a-f]{16})[^/-]*$')) AS recording,
               extract(path, '-([0-9a-f]{42})-[^/]*$') AS rank, path LIKE '%.flight.parquet' AS is_flight
        FROM (
            -- At once: a file is a block of its own, and processing each takes longer than listing it.
            SELECT arrayJoin(groupArray(_path)) AS path
            FROM file(dbtime_store() || '/table=recordings/*/*/*.parquet', 'One', 'dummy UInt8')
        )
    ) r ON r.host = m.host AND r.recording = m.recording
)
WHERE NOT throwIf(latest = 1 AND known_rank = '', 'not all recordings of this store are known: run dbtime store upgrade')
  AND latest = 1 AND NOT is_flight;

CREATE OR REPLACE VIEW recordings AS
SELECT *
FROM (
    SELECT * REPLACE (decodeURLComponent(host) AS host)
    FROM file(dbtime_store() || '/table=recordings/*/*/*.parquet', 'Parquet',
        'identity String, complete Bool, start DateTime64(6, \'UTC\'), end DateTime64(6, \'UTC\'), rows UInt64, bytes UInt64,
         damaged Array(String), product String, version String, cpus UInt32, meta String,
         host LowCardinality(String), recording String, date Date')
    WHERE (extract(_path, '.*/host=([^/]+)/'), concat(substring(_file, 1, 17), extract(_file, '-([0-9a-f]{16})[^-]*$'))) IN (SELECT host, recording FROM counted)
);

CREATE OR REPLACE VIEW activity AS
SELECT *
FROM (
    SELECT * REPLACE (decodeURLComponent(host) AS host)
    FROM file(dbtime_store() || '/table=activity/*/*/*/*.parquet', 'Parquet',
        'time DateTime64(6, \'UTC\'), session UInt64, statement UInt64, wait_class String, wait_event String, idle Bool,
         state String, session_state String, kernel_stack UInt64, user_stack UInt64, ns UInt64, count UInt64, samples UInt64,
         fidelity String, pooled Bool, comment UInt64, host LowCardinality(String), recording String, date Date, hour UInt8')
    WHERE (extract(_path, '.*/host=([^/]+)/'), substring(_file, 1, 33)) IN (SELECT host, recording FROM counted)
);

CREATE OR REPLACE VIEW counters AS
SELECT *
FROM (
    SELECT * REPLACE (decodeURLComponent(host) AS host)
    FROM file(dbtime_store() || '/table=counters/*/*/*/*.parquet', 'Parquet',
        'time DateTime64(6, \'UTC\'), session UInt64, statement UInt64, plan UInt64, source String, name String, value Int64,
         host LowCardinality(String), recording String, date Date, hour UInt8')
    WHERE (extract(_path, '.*/host=([^/]+)/'), substring(_file, 1, 33)) IN (SELECT host, recording FROM counted)
);

CREATE OR REPLACE VIEW sessions AS
SELECT *
FROM (
    SELECT * REPLACE (decodeURLComponent(host) AS host)
    FROM file(dbtime_store() || '/table=sessions/*/*/*.parquet', 'Parquet',
        'id UInt64, pid UInt32, started DateTime64(6, \'UTC\'), backend_type String, user String, database String, client String,
         leader_pid UInt32, title String, service String, module String, action String, client_id String, sid String,
         application String, host LowCardinality(String), recording String, date Date')
    WHERE (extract(_path, '.*/host=([^/]+)/'), substring(_file, 1, 33)) IN (SELECT host, recording FROM counted)
);

CREATE OR REPLACE VIEW statements AS
SELECT *
FROM (
    SELECT * REPLACE (decodeURLComponent(host) AS host)
    FROM file(dbtime_store() || '/table=statements/*/*/*.parquet', 'Parquet',
        'id UInt64, text String, sql_id String,
         plan_steps Array(Tuple(plan UInt64, id UInt64, parent UInt64, operation String, executions UInt64, rows UInt64,
                                consistent_gets UInt64, physical_reads UInt64, physical_writes UInt64, elapsed_us UInt64)),
         callers Array(Tuple(statement UInt64, calls UInt64, elapsed_us UInt64)),
         hash_value UInt64, user_id Nullable(UInt32), depth Nullable(UInt32), command Nullable(UInt32), alike UInt64,
         binds Array(Tuple(values Array(String), executions UInt64, elapsed_us UInt64, rows UInt64)),
         bound_executions Array(Tuple(time_us Int64, elapsed_us UInt64,
                                      values Array(Tuple(position UInt32, value Nullable(String))))),
         bound_execution_count UInt64, host LowCardinality(String), recording String, date Date')
    WHERE (extract(_path, '.*/host=([^/]+)/'), substring(_file, 1, 33)) IN (SELECT host, recording FROM counted)
);

CREATE OR REPLACE VIEW stacks AS
SELECT *
FROM (
    SELECT * REPLACE (decodeURLComponent(host) AS host)
    FROM file(dbtime_store() || '/table=stacks/*/*/*.parquet', 'Parquet',
        'id UInt64, frames Array(Tuple(symbol String, module String, build_id String, offset UInt64)),
         host LowCardinality(String), recording String, date Date')
    WHERE (extract(_path, '.*/host=([^/]+)/'), substring(_file, 1, 33)) IN (SELECT host, recording FROM counted)
);

-- Includes sessions of recordings that do not count: rows that count find their own.
CREATE OR REPLACE VIEW all_sessions AS
SELECT * REPLACE (decodeURLComponent(host) AS host)
FROM file(dbtime_store() || '/table=sessions/*/*/*.parquet', 'Parquet',
    'id UInt64, pid UInt32, backend_type String, user String, database String, application String,
     host LowCardinality(String), recording String, date Date');

-- Time with its session, and the section of a report that it is in: db_time, idle, background. Sessions that were not described (their
-- recorder was killed) count as foreground, as in reports.
CREATE OR REPLACE VIEW time_spent AS
SELECT a.*, s.pid AS pid, s.backend_type AS backend_type, s.user AS user, s.database AS database, s.application AS application,
       multiIf(coalesce(s.backend_type, 'unknown') NOT IN ('client backend', 'parallel worker', 'process', 'unknown'),
                   'background',
               a.idle AND a.state <> 'runnable', 'idle',
               'db_time') AS section
FROM activity a
LEFT JOIN all_sessions s ON s.host = a.host AND s.recording = a.recording AND s.id = a.session
SETTINGS join_use_nulls = 1;
