"""Reads a recording with DuckDB, as a user would, and compares every sum with what the report says.

    duckdb_sums.py RECORDING REPORT.json

Nothing here comes from dbtime but the column names, which docs/SCHEMA.md promises.
"""

import json
import sys

import duckdb

STATES = {
    "user_ns": ["user"],
    "kernel_ns": ["kernel"],
    "runnable_ns": ["runnable"],
    "disk_ns": ["disk"],
    "sleep_ns": ["sleep"],
    "other_ns": ["cpu", "stopped", "unknown"],
}
ON_CPU = "state IN ('user', 'kernel', 'cpu')"
IN_A_WAIT = "section = 'db_time' AND NOT called_idle AND wait_class NOT IN ('CPU', 'unknown')"


def main(recording, report_path):
    with open(report_path) as file:
        report = json.load(file)
    db = duckdb.connect()
    for table in ("activity", "counters", "sessions", "stacks"):
        # The doubled quote is for paths; DuckDB takes no parameter in a view.
        files = f"{recording}/{table}/*.parquet".replace("'", "''")
        db.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}')")
    db.execute("""
        CREATE VIEW facts AS
        WITH known AS (
            SELECT a.*, s.pid,
                   CASE WHEN s.backend_type NOT IN ('client backend', 'parallel worker', 'unknown') THEN 'background'
                        WHEN a.idle AND a.state <> 'runnable' THEN 'idle'
                        ELSE 'db_time' END AS section
            FROM activity a JOIN sessions s ON s.id = a.session
        )
        SELECT * REPLACE (
                   wait_event || CASE WHEN idle AND section = 'db_time' THEN ' (no CPU)' ELSE '' END AS wait_event,
                   idle AND section <> 'db_time' AS idle
               ),
               idle AS called_idle
        FROM known
    """)

    def rows(sql):
        return db.execute(sql).fetchall()

    def one(sql):
        return rows(sql)[0][0] or 0

    checked = 0

    def same(what, found, said):
        nonlocal checked
        checked += 1
        if found != said:
            sys.exit(f"{what}: DuckDB finds {found}, the report says {said}")

    same("rows without a session", one("SELECT count(*) FROM activity"), one("SELECT count(*) FROM facts"))
    for column in ("kernel_stack", "user_stack"):
        lost = one(f"SELECT count(*) FROM activity WHERE {column} <> 0 AND {column} NOT IN (SELECT id FROM stacks)")
        same(f"rows whose {column} is not in stacks", lost, 0)

    # The ledger, cell by cell.
    sums = ", ".join(
        "coalesce(sum(ns) FILTER (WHERE state IN ({})), 0)::BIGINT".format(", ".join(f"'{state}'" for state in states))
        for states in STATES.values()
    )
    found = {
        row[:4]: row[4:]
        for row in rows(f"""
            SELECT section, wait_class, wait_event, idle, {sums}, sum(ns)::BIGINT, sum(samples)::BIGINT
            FROM facts GROUP BY ALL
        """)
    }
    columns = [*STATES, "total_ns", "samples"]
    said = {
        (row["section"], row["wait_class"], row["wait_event"], row["idle"]): tuple(row[name] for name in columns)
        for row in report["ledger"]
    }
    same("wait events of the ledger", sorted(found), sorted(said))
    for key, values in found.items():
        for name, value, other in zip(columns, values, said[key]):
            same(f"{key} {name}", value, other)

    db_time = one("SELECT sum(ns)::BIGINT FROM facts WHERE section = 'db_time'")
    same("DB time", db_time, report["db_time_ns"])
    view = report["database_view"]
    foreground_cpu = one(f"SELECT sum(ns)::BIGINT FROM facts WHERE section <> 'background' AND {ON_CPU}")
    same("CPU in the database's view", foreground_cpu, view["cpu_ns"])
    same("waits in the database's view", one(f"SELECT sum(ns)::BIGINT FROM facts WHERE {IN_A_WAIT}"), view["wait_ns"])
    twice = one(f"SELECT sum(ns)::BIGINT FROM facts WHERE {IN_A_WAIT} AND {ON_CPU}")
    same("counted twice", twice, view["double_counted_ns"])

    # Sessions: what the rows add up to, and the kernel's own totals.
    of_session = dict(rows("SELECT session::VARCHAR, sum(ns)::BIGINT FROM activity GROUP BY ALL"))
    elapsed = dict(rows("""
        SELECT session::VARCHAR, sum(value)::BIGINT FROM counters
        WHERE source = 'kernel' AND name = 'elapsed_ns' GROUP BY ALL
    """))
    torn = dict(rows("""
        SELECT session::VARCHAR, sum(value)::BIGINT FROM counters
        WHERE source = 'dbtime' AND name = 'torn' GROUP BY ALL
    """))
    same("sessions with time", sorted(of_session), sorted(s["id"] for s in report["sessions"] if s["accounted_ns"]))
    for session in report["sessions"]:
        who = f"pid {session['pid']}"
        same(f"{who} accounted", of_session.get(session["id"], 0), session["accounted_ns"])
        same(f"{who} elapsed", elapsed.get(session["id"]), session["elapsed_ns"])
        same(f"{who} torn", torn.get(session["id"], 0), session["torn"])

    # The types are what a user expects of a recording: moments are moments, in UTC.
    kinds = dict(rows("SELECT column_name, column_type FROM (DESCRIBE activity)"))
    same("type of activity.time", kinds["time"], "TIMESTAMP WITH TIME ZONE")
    if not db_time or checked < 50:
        sys.exit(f"the recording is too empty to prove anything: {checked} checks, DB time {db_time}")
    print(f"{checked} sums are the same")


if __name__ == "__main__":
    main(*sys.argv[1:])
