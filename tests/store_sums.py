"""Asks a store with DuckDB and the ready queries, and compares every sum with what reports say.

    store_sums.py STORE QUERIES HOST=REPORT.json … [--plan]

Nothing here comes from dbtime but the queries and the names of columns, which docs/store.md promises.
"""

import json
import sys

import duckdb

STATES = {
    "user_ns": "user",
    "kernel_ns": "kernel",
    "runnable_ns": "runnable",
    "disk_ns": "disk",
    "sleep_ns": "sleep",
    "other_ns": "other",
}


def same(what, found, said):
    if found != said:
        sys.exit(f"{what}: DuckDB finds {found}, reports say {said}")


def main(store, queries, *arguments):
    reports = {}
    for argument in arguments:
        host, path = argument.split("=", 1)
        with open(path) as file:
            reports[host] = json.load(file)
    db = duckdb.connect()
    db.execute("SET VARIABLE store = ?", [store])

    def query(name):
        with open(f"{queries}/{name}.sql") as file:
            cursor = db.execute(file.read())
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    with open(f"{queries}/views.sql") as file:
        db.execute(file.read())
    same("hosts", [row[0] for row in db.execute("SELECT DISTINCT host FROM recordings ORDER BY 1").fetchall()], sorted(reports))

    def ns(seconds):
        return round((seconds or 0) * 1e9)

    # Wait by state of each host, cell by cell. Idle waits in the run queue stand in the ledger by a name of their own.
    found = {}
    for row in query("waits_by_host"):
        found[(row["host"], row["wait_class"], row["wait_event"])] = {
            name: ns(row[column]) for name, column in STATES.items()
        }
    said = {}
    for host, report in reports.items():
        for row in report["ledger"]:
            if row["section"] == "db_time":
                event = row["wait_event"].removesuffix(" (no CPU)")
                said[(host, row["wait_class"], event)] = {name: row[name] for name in STATES}
    same("wait events", sorted(found), sorted(said))
    for key, cells in found.items():
        same(key, cells, said[key])

    # Statements over the fleet.
    statements = {}
    for report in reports.values():
        for row in report["statements"]:
            query_id = int(row["query"] or 0)
            statements[query_id] = statements.get(query_id, 0) + row["total_ns"]
    top = query("top_statements")
    same("statements", {row["statement"]: ns(row["seconds"]) for row in top}, statements)
    texts = {row["statement"]: row["text"] for row in top}
    same("texts", all(text for statement, text in texts.items() if statement), True)

    # The shape of each host on two days.
    days = [row[0] for row in db.execute("SELECT DISTINCT date FROM activity ORDER BY 1").fetchall()]
    db.execute(f"SET VARIABLE day_before = DATE '{days[0]}'")
    db.execute(f"SET VARIABLE day = DATE '{days[1]}'")
    moved = query("changed_hosts")
    same("hosts that are compared", sorted(row["host"] for row in moved), sorted(reports))
    for row in moved:
        shares = []
        for day in days:
            sums = dict(db.execute(
                "SELECT wait_class || ':' || wait_event, sum(ns) FROM time_spent "
                "WHERE section = 'db_time' AND host = ? AND date = ? GROUP BY ALL", [row["host"], day]).fetchall())
            total = sum(sums.values())
            shares.append({wait: float(value) / float(total) for wait, value in sums.items()})
        waits = set(shares[0]) | set(shares[1])
        change = sum(abs(shares[1].get(wait, 0) - shares[0].get(wait, 0)) for wait in waits) * 50
        same(f"change of {row['host']}", round(row["percent_moved"], 6), round(change, 6))

    # Every row once, each with what its ids stand for.
    for column, table in (("session", "sessions"), ("statement", "statements"), ("user_stack", "stacks")):
        lost = db.execute(
            f"SELECT count(*) FROM activity a ANTI JOIN {table} d ON d.recording = a.recording AND d.id = a.{column} "
            f"WHERE {column} <> 0").fetchone()[0]
        same(f"rows whose {column} is not in {table}", lost, 0)
    rows = db.execute("SELECT count(*) FROM activity").fetchone()[0]
    same("rows", db.execute("SELECT count(*) FROM time_spent").fetchone()[0], rows)
    # A partition that is named is all that is read.
    plan = db.execute(
        f"EXPLAIN ANALYZE SELECT sum(ns) FROM activity WHERE date = DATE '{days[0]}' AND hour = 22").fetchall()[0][1]
    print(f"{rows} rows, {len(found)} wait events, {len(top)} statements: the sums are the same")
    print(plan if "--plan" in sys.argv else "", end="")


if __name__ == "__main__":
    main(*[argument for argument in sys.argv[1:] if argument != "--plan"])
