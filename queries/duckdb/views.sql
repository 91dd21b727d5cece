-- Views of a store of dbtime for DuckDB. Begin with where it is:
--
--   duckdb -cmd "SET VARIABLE store = 's3://bucket/fleet'" -init queries/duckdb/views.sql
--
-- A file counts when a manifest names it: what a put that is under way, or was killed, has written is in none. Of a recording the
-- manifest of the latest state counts; exact recordings of a flight recorder do not, their time is in
-- others too. Partitions (date, hour, host) are in every table of rows with a time: name them in WHERE,
-- and no other files are read.

CREATE OR REPLACE VIEW recordings AS
SELECT * EXCLUDE (latest)
FROM (
    SELECT host, recording, identity, complete, "start", "end", rows, bytes, damaged, meta,
           row_number() OVER (
               PARTITION BY host, identity
               ORDER BY complete DESC, len(damaged) = 0 DESC, rows DESC, "end" DESC, len(damaged), recording DESC
           ) AS latest
    FROM read_json(
        getvariable('store') || '/recordings/*/*.json',
        columns = {
            host: 'VARCHAR', recording: 'VARCHAR', identity: 'VARCHAR', complete: 'BOOLEAN', "start": 'TIMESTAMPTZ',
            "end": 'TIMESTAMPTZ', rows: 'UBIGINT', bytes: 'UBIGINT', damaged: 'VARCHAR[]', meta: 'JSON'
        },
        maximum_object_size = 67108864
    )
)
WHERE latest = 1 AND (meta->>'$.collector.flight') IS NULL;

CREATE OR REPLACE VIEW activity AS
SELECT * EXCLUDE ("table") FROM read_parquet(getvariable('store') || '/table=activity/*/*/*/*.parquet', hive_partitioning = true,
    hive_types = {'date': DATE, 'hour': UTINYINT, 'host': VARCHAR}, union_by_name = true)
SEMI JOIN recordings USING (host, recording);

CREATE OR REPLACE VIEW counters AS
SELECT * EXCLUDE ("table") FROM read_parquet(getvariable('store') || '/table=counters/*/*/*/*.parquet', hive_partitioning = true,
    hive_types = {'date': DATE, 'hour': UTINYINT, 'host': VARCHAR}, union_by_name = true)
SEMI JOIN recordings USING (host, recording);

CREATE OR REPLACE VIEW sessions AS
SELECT * EXCLUDE ("table") FROM read_parquet(getvariable('store') || '/table=sessions/*/*/*.parquet', hive_partitioning = true,
    hive_types = {'date': DATE, 'host': VARCHAR}, union_by_name = true)
SEMI JOIN recordings USING (host, recording);

CREATE OR REPLACE VIEW statements AS
SELECT * EXCLUDE ("table") FROM read_parquet(getvariable('store') || '/table=statements/*/*/*.parquet', hive_partitioning = true,
    hive_types = {'date': DATE, 'host': VARCHAR}, union_by_name = true)
SEMI JOIN recordings USING (host, recording);

CREATE OR REPLACE VIEW stacks AS
SELECT * EXCLUDE ("table") FROM read_parquet(getvariable('store') || '/table=stacks/*/*/*.parquet', hive_partitioning = true,
    hive_types = {'date': DATE, 'host': VARCHAR}, union_by_name = true)
SEMI JOIN recordings USING (host, recording);

-- Time with its session, and the part of a report in which it stands: db_time, idle, background. Sessions that were not described
-- (their recorder was killed) count as foreground, as in reports.
CREATE OR REPLACE VIEW time_spent AS
SELECT a.*, s.pid, s.backend_type, s."user", s.database, s.application,
       CASE WHEN coalesce(s.backend_type, 'unknown') NOT IN ('client backend', 'parallel worker', 'process', 'unknown')
                THEN 'background'
            WHEN a.idle AND a.state <> 'runnable' THEN 'idle'
            ELSE 'db_time' END AS section
FROM activity a
LEFT JOIN sessions s ON s.host = a.host AND s.recording = a.recording AND s.id = a.session;
