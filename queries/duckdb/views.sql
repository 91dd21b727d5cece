-- Views of a dbtime store for DuckDB. Begin with its location:
--
--   duckdb -cmd "SET VARIABLE store = 's3://bucket/fleet'" -init queries/duckdb/views.sql
--
-- A row counts if its recording has a manifest: what was written by a put that is under way, or was killed, has none. Of a recording, the
-- latest state counts; exact recordings of a flight recorder do not, as their time is also in others. Names alone decide all of that: files
-- are listed, and opened only for queries that need them. Partitions (date, hour, host) are columns of every table of rows with a time:
-- name them in WHERE, and no other files are opened. A column that a recording of an older dbtime lacks is NULL.

-- Listing names takes longer the more there are. For a large store, choose a part of it by patterns of what is in paths; the views see
-- nothing else then:
--
--   SET VARIABLE hosts = 'db1'; SET VARIABLE dates = '2026-10-1*';
CREATE OR REPLACE MACRO folders_of_host() AS 'host=' || coalesce(getvariable('hosts'), '*');
CREATE OR REPLACE MACRO files_by_hour(name) AS
    getvariable('store') || '/table=' || name || '/date=' || coalesce(getvariable('dates'), '*') || '/*/' || folders_of_host()
    || '/*.parquet';
CREATE OR REPLACE MACRO files_by_day(name) AS getvariable('store') || '/table=' || name || '/*/' || folders_of_host() || '/*.parquet';

-- A part of a path: of several folders of one name the last one, which is the store's own.
CREATE OR REPLACE MACRO path_part(path, name) AS url_decode(regexp_extract(path, '.*/' || name || '=([^/]+)/', 1));

-- Recordings that count. A store with recordings put by an older dbtime, which have no row, is refused.
CREATE OR REPLACE VIEW counted AS
SELECT host, recording
FROM (
    SELECT m.host, m.recording, r.rank, r.is_flight,
           row_number() OVER (
               PARTITION BY m.host, left(m.recording, 16) ORDER BY r.rank DESC NULLS LAST, m.recording DESC
           ) AS latest
    FROM (
        SELECT path_part(file, 'host') AS host,
               regexp_extract(file, '-([0-9a-f]{16}-[0-9a-f]{16})\.json$', 1) AS recording
        FROM glob(getvariable('store') || '/recordings/' || folders_of_host() || '/*.json')
    ) m
    LEFT JOIN (
        SELECT path_part(file, 'host') AS host,
               regexp_extract(file, '/([0-9a-f]{16}-)[^/]*$', 1) || regexp_extract(file, '-([0-9a-f]{16})[^/-]*$', 1) AS recording,
               regexp_extract(file, '-([0-9a-f]{42})-[^/]*$', 1) AS rank,
               file LIKE '%.flight.parquet' AS is_flight
        FROM glob(files_by_day('recordings'))
    ) r USING (host, recording)
)
WHERE CASE WHEN latest > 1 THEN false
           WHEN rank IS NULL THEN error('not all recordings of this store are known: run dbtime store upgrade')
           ELSE NOT is_flight END;

-- For read_parquet: columns with their types, by name, so that it opens no file to find out which there are.
CREATE OR REPLACE MACRO columns_of(names, types) AS
    map(names, list_transform(list_zip(names, types), lambda c: {name: c[1], type: c[2], default_value: NULL}));

CREATE OR REPLACE VIEW recordings AS
SELECT * EXCLUDE (filename)
FROM (
    SELECT * REPLACE (path_part(filename, 'host') AS host), path_part(filename, 'date')::DATE AS date
    FROM read_parquet(
        files_by_day('recordings'), hive_partitioning = false, filename = true,
        schema = columns_of(
            ['identity', 'complete', 'start', 'end', 'rows', 'bytes', 'damaged', 'product', 'version', 'cpus', 'meta', 'host',
             'recording'],
            ['VARCHAR', 'BOOLEAN', 'TIMESTAMPTZ', 'TIMESTAMPTZ', 'UBIGINT', 'UBIGINT', 'VARCHAR[]', 'VARCHAR', 'VARCHAR',
             'UINTEGER', 'VARCHAR', 'VARCHAR', 'VARCHAR']
        )
    )
)
SEMI JOIN counted USING (host, recording);

CREATE OR REPLACE VIEW activity AS
SELECT * EXCLUDE (filename)
FROM (
    SELECT * REPLACE (path_part(filename, 'host') AS host), path_part(filename, 'date')::DATE AS date,
           path_part(filename, 'hour')::UTINYINT AS hour
    FROM read_parquet(
        files_by_hour('activity'), hive_partitioning = false, filename = true,
        schema = columns_of(
            ['time', 'session', 'statement', 'wait_class', 'wait_event', 'idle', 'state', 'session_state', 'kernel_stack',
             'user_stack', 'ns', 'count', 'samples', 'fidelity', 'pooled', 'comment', 'host', 'recording'],
            ['TIMESTAMPTZ', 'UBIGINT', 'UBIGINT', 'VARCHAR', 'VARCHAR', 'BOOLEAN', 'VARCHAR', 'VARCHAR', 'UBIGINT', 'UBIGINT',
             'UBIGINT', 'UBIGINT', 'UBIGINT', 'VARCHAR', 'BOOLEAN', 'UBIGINT', 'VARCHAR', 'VARCHAR']
        )
    )
)
SEMI JOIN counted USING (host, recording);

CREATE OR REPLACE VIEW counters AS
SELECT * EXCLUDE (filename)
FROM (
    SELECT * REPLACE (path_part(filename, 'host') AS host), path_part(filename, 'date')::DATE AS date,
           path_part(filename, 'hour')::UTINYINT AS hour
    FROM read_parquet(
        files_by_hour('counters'), hive_partitioning = false, filename = true,
        schema = columns_of(
            ['time', 'session', 'statement', 'plan', 'source', 'name', 'value', 'host', 'recording'],
            ['TIMESTAMPTZ', 'UBIGINT', 'UBIGINT', 'UBIGINT', 'VARCHAR', 'VARCHAR', 'BIGINT', 'VARCHAR', 'VARCHAR']
        )
    )
)
SEMI JOIN counted USING (host, recording);

CREATE OR REPLACE VIEW sessions AS
SELECT * EXCLUDE (filename)
FROM (
    SELECT * REPLACE (path_part(filename, 'host') AS host), path_part(filename, 'date')::DATE AS date
    FROM read_parquet(
        files_by_day('sessions'), hive_partitioning = false, filename = true,
        schema = columns_of(
            ['id', 'pid', 'started', 'backend_type', 'user', 'database', 'client', 'leader_pid', 'title', 'service', 'module',
             'action', 'client_id', 'sid', 'application', 'host', 'recording'],
            ['UBIGINT', 'UINTEGER', 'TIMESTAMPTZ', 'VARCHAR', 'VARCHAR', 'VARCHAR', 'VARCHAR', 'UINTEGER', 'VARCHAR', 'VARCHAR',
             'VARCHAR', 'VARCHAR', 'VARCHAR', 'VARCHAR', 'VARCHAR', 'VARCHAR', 'VARCHAR']
        )
    )
)
SEMI JOIN counted USING (host, recording);

CREATE OR REPLACE VIEW statements AS
SELECT * EXCLUDE (filename)
FROM (
    SELECT * REPLACE (path_part(filename, 'host') AS host), path_part(filename, 'date')::DATE AS date
    FROM read_parquet(
        files_by_day('statements'), hive_partitioning = false, filename = true,
        schema = columns_of(
            ['id', 'text', 'sql_id', 'plan_steps', 'callers', 'hash_value', 'user_id', 'depth', 'command', 'alike', 'binds',
             'bound_executions', 'bound_execution_count', 'host', 'recording'],
            ['UBIGINT', 'VARCHAR', 'VARCHAR',
             'STRUCT(plan UBIGINT, id UBIGINT, parent UBIGINT, operation VARCHAR, executions UBIGINT, rows UBIGINT,
                     consistent_gets UBIGINT, physical_reads UBIGINT, physical_writes UBIGINT, elapsed_us UBIGINT)[]',
             'STRUCT(statement UBIGINT, calls UBIGINT, elapsed_us UBIGINT)[]', 'UBIGINT', 'UINTEGER', 'UINTEGER', 'UINTEGER',
             'UBIGINT', 'STRUCT("values" VARCHAR[], executions UBIGINT, elapsed_us UBIGINT, rows UBIGINT)[]',
             'STRUCT(time_us BIGINT, elapsed_us UBIGINT, "values" STRUCT("position" UINTEGER, "value" VARCHAR)[])[]', 'UBIGINT',
             'VARCHAR', 'VARCHAR']
        )
    )
)
SEMI JOIN counted USING (host, recording);

CREATE OR REPLACE VIEW stacks AS
SELECT * EXCLUDE (filename)
FROM (
    SELECT * REPLACE (path_part(filename, 'host') AS host), path_part(filename, 'date')::DATE AS date
    FROM read_parquet(
        files_by_day('stacks'), hive_partitioning = false, filename = true,
        schema = columns_of(
            ['id', 'frames', 'host', 'recording'],
            ['UBIGINT', 'STRUCT(symbol VARCHAR, module VARCHAR, build_id VARCHAR, "offset" UBIGINT)[]', 'VARCHAR', 'VARCHAR']
        )
    )
)
SEMI JOIN counted USING (host, recording);

-- Includes sessions of recordings that do not count: rows that count find their own.
CREATE OR REPLACE VIEW all_sessions AS
SELECT * EXCLUDE (filename) REPLACE (path_part(filename, 'host') AS host)
FROM read_parquet(
    files_by_day('sessions'), hive_partitioning = false, filename = true,
    schema = columns_of(
        ['id', 'pid', 'backend_type', 'user', 'database', 'application', 'host', 'recording'],
        ['UBIGINT', 'UINTEGER', 'VARCHAR', 'VARCHAR', 'VARCHAR', 'VARCHAR', 'VARCHAR', 'VARCHAR']
    )
);

-- Time with its session, and the section of a report that it is in: db_time, idle, background. Sessions that were not described (their
-- recorder was killed) count as foreground, as in reports.
CREATE OR REPLACE VIEW time_spent AS
SELECT a.*, s.pid, s.backend_type, s."user", s.database, s.application,
       CASE WHEN coalesce(s.backend_type, 'unknown') NOT IN ('client backend', 'parallel worker', 'process', 'unknown')
                THEN 'background'
            WHEN a.idle AND a.state <> 'runnable' THEN 'idle'
            ELSE 'db_time' END AS section
FROM activity a
LEFT JOIN all_sessions s ON s.host = a.host AND s.recording = a.recording AND s.id = a.session;
