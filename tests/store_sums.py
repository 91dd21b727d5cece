"""Asks a store with the ready queries in the engine that they are for, and compares every sum with what dbtime says.

    store_sums.py duckdb|clickhouse|spark STORE DBTIME HOST… [--bucket=URL]

The store is a directory; the bucket, where one is named, has the same recordings, and the engine is asked a second time there.
Nothing here comes from dbtime but the queries, the names of columns, which docs/store.md promises, and the reports.
"""

import datetime
import json
import pathlib
import subprocess
import sys
import urllib.parse

from store_engines import ENGINES

QUERIES = pathlib.Path(__file__).parent.parent / "queries"
DASHBOARD = pathlib.Path(__file__).parent.parent / "dashboards/grafana-store.json"
VIEWS = ("recordings", "activity", "counters", "sessions", "statements", "stacks", "time_spent")
STATES = {
    "user_ns": "user",
    "kernel_ns": "kernel",
    "runnable_ns": "runnable",
    "disk_ns": "disk",
    "sleep_ns": "sleep",
    "other_ns": "other",
}


def ns(seconds):
    return round((seconds or 0) * 1e9)


class Dbtime:
    """What dbtime itself says of a store."""

    def __init__(self, binary, store, hosts):
        self.binary, self.store, self.hosts = binary, store, hosts
        listing = self.ask("store", "list", store)
        # Of each recording that counts: its host, the release of its server, first and last second.
        self.recordings = [
            (of["host"], recording["database"], seconds(recording["start"]), seconds(recording["end"]))
            for of in listing["hosts"]
            for recording in of["recordings"]
            if "flight" not in recording
        ]

    def ask(self, *arguments):
        answer = subprocess.run([self.binary, *arguments, "--format", "json"], capture_output=True, check=True, text=True)
        return json.loads(answer.stdout)

    def report(self, host, period=()):
        return self.ask("report", self.store, "--host", host, *period)

    def recorded(self, host, begin, end):
        """Seconds of a host that were recorded in a period."""
        overlaps = (min(end, last) - max(begin, first) for of, _, first, last in self.recordings if of == host)
        return sum(max(overlap, 0) for overlap in overlaps)


def seconds(moment):
    return datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def day_begin(day):
    return datetime.datetime.combine(day, datetime.time(), datetime.timezone.utc).timestamp()


class Comparison:
    """One engine, held against dbtime."""

    def __init__(self, engine, queries, dbtime):
        self.engine, self.queries, self.dbtime = engine, queries, dbtime
        self.reports = {host: dbtime.report(host) for host in dbtime.hosts}
        self.make_views()
        self.days = [row["date"] for row in engine.rows("SELECT DISTINCT date FROM activity ORDER BY date")]
        self.same("days", len(self.days), 2)
        begins = [day_begin(day) for day in (*self.days, self.days[-1] + datetime.timedelta(days=1))]
        recorded = {host: [dbtime.recorded(host, *day) for day in zip(begins, begins[1:])] for host in dbtime.hosts}
        # Seconds on each day, of hosts that are compared: those of one day only are not.
        self.recorded = {host: days for host, days in recorded.items() if all(days)}
        self.same("a host of one day", len(self.recorded), len(recorded) - 1)
        engine.set_days(*self.days)

    def make_views(self):
        self.engine.run((self.queries / "views.sql").read_text())

    def same(self, what, found, said):
        if found != said:
            sys.exit(f"{what}: {self.engine.name} finds {found}, dbtime says {said}")

    def close(self, what, found, said):
        """For quotients, which engines round in their last digits."""
        if found is None or said is None:
            return self.same(what, found, said)
        if abs(found - said) > 1e-9 * max(abs(said), 1e-3):
            self.same(what, found, said)

    def same_rows(self, what, found, said):
        """For one query asked twice: the order in which an engine adds numbers up changes the last digits of quotients."""
        quotients = "percent", "average_sessions"
        self.same(what, *([{name: row[name] for name in row if name not in quotients} for row in rows] for rows in (found, said)))
        for one, other in zip(found, said):
            for name in quotients:
                self.close(f"{what}, {name}", one.get(name), other.get(name))

    def query(self, name):
        return self.engine.rows((self.queries / f"{name}.sql").read_text())

    def all(self):
        found = [row["host"] for row in self.engine.rows("SELECT DISTINCT host FROM recordings ORDER BY host")]
        self.same("hosts", sorted(found), sorted(self.reports))
        cells = self.waits_by_host()
        self.waits_by_release()
        self.top_statements()
        self.changed_hosts()
        self.regressed_statements()
        if self.engine.name == "ClickHouse":
            self.dashboard()
        rows = self.every_row_once()
        self.only_named_partitions()
        if not self.engine.is_far:
            self.manifests_are_not_opened()
            self.what_is_not_known_is_refused()
        print(f"{self.engine.name}: {rows} rows, {cells} wait events: the sums are the same")

    # Wait by state, cell by cell. Idle waits in the run queue have a name of their own in the ledger.
    def ledger(self, report):
        cells = {}
        for row in report["ledger"]:
            if row["section"] == "db_time":
                event = row["wait_event"].removesuffix(" (no CPU)")
                cells[(row["wait_class"], event)] = {name: row[name] for name in STATES}
        return cells

    def waits_by_host(self):
        found = {}
        for row in self.query("waits_by_host"):
            key = (row["host"], row["wait_class"], row["wait_event"])
            found[key] = {name: ns(row[column]) for name, column in STATES.items()}
            self.same(f"total of {key}", ns(row["total"]), sum(found[key].values()))
        said = {}
        for host, report in self.reports.items():
            for key, cells in self.ledger(report).items():
                said[(host, *key)] = cells
        self.same("wait events", sorted(found), sorted(said))
        for key, cells in found.items():
            self.same(key, cells, said[key])
        return len(found)

    def waits_by_release(self):
        said, recorded, hosts = {}, {}, {}
        for host, release, first, last in self.dbtime.recordings:
            recorded[release] = recorded.get(release, 0) + last - first
            hosts.setdefault(release, set()).add(host)
            # In these stores recordings of a host do not overlap: its period is that of the recording.
            period = [f"{datetime.datetime.fromtimestamp(at, datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}" for at in (first, last)]
            for key, cells in self.ledger(self.dbtime.report(host, ("--from", period[0], "--to", period[1]))).items():
                sums = said.setdefault((release, *key), dict.fromkeys(STATES, 0))
                for name in STATES:
                    sums[name] += cells[name]
        self.same("more than one release", len(recorded) > 1, True)
        rows = self.query("waits_by_release")
        found = {(row["release"], row["wait_class"], row["wait_event"]): row for row in rows}
        self.same("wait events of releases", sorted(found), sorted(said))
        for key, row in found.items():
            self.same(key, {name: ns(row[column]) for name, column in STATES.items()}, said[key])
            total = sum(said[key].values())
            of_release = sum(sum(cells.values()) for (release, *_), cells in said.items() if release == key[0])
            self.same(f"hosts of {key[0]}", row["hosts"], len(hosts[key[0]]))
            self.close(f"percent of {key}", row["percent"], 100 * total / of_release)
            self.close(f"sessions of {key}", row["average_sessions"], total / 1e9 / recorded[key[0]])

    # Statements over the fleet.
    def top_statements(self):
        said = {}
        for report in self.reports.values():
            for row in report["statements"]:
                statement = int(row["query"] or 0)
                sums = said.setdefault(statement, {"total_ns": 0, "runnable_ns": 0, "hosts": 0})
                sums["hosts"] += 1
                for name in ("total_ns", "runnable_ns"):
                    sums[name] += row[name]
        rows = self.query("top_statements")
        found = {
            row["statement"]: {
                "total_ns": ns(row["seconds"]), "runnable_ns": ns(row["run_queue_seconds"]), "hosts": row["hosts"],
            }
            for row in rows
        }
        self.same("statements", found, said)
        everything = sum(sums["total_ns"] for sums in said.values())
        on_cpu = sum(row[state] for report in self.reports.values() for cells in [self.ledger(report)]
                     for row in cells.values() for state in ("user_ns", "kernel_ns"))
        self.same("CPU of statements", sum(ns(row["cpu_seconds"]) for row in rows), on_cpu)
        for row in rows:
            self.close("percent", row["percent"], 100 * said[row["statement"]]["total_ns"] / everything)
            self.same("a text", bool(row["text"]), row["statement"] != 0)

    def of_days(self, host):
        """Reports of a host on both days."""
        ends = [str(day) for day in (*self.days, self.days[-1] + datetime.timedelta(days=1))]
        return [self.dbtime.report(host, ("--from", begin, "--to", end)) for begin, end in zip(ends, ends[1:])]

    # The shape of each host on two days.
    def changed_hosts(self):
        moved = self.query("changed_hosts")
        self.same("hosts that are compared", sorted(row["host"] for row in moved), sorted(self.recorded))
        for row in moved:
            shares = []
            for report in self.of_days(row["host"]):
                sums = {":".join(wait): sum(cells.values()) for wait, cells in self.ledger(report).items()}
                total = sum(sums.values())
                shares.append({wait: value / total for wait, value in sums.items()})
            waits = set(shares[0]) | set(shares[1])
            changes = {wait: shares[1].get(wait, 0) - shares[0].get(wait, 0) for wait in waits}
            self.close(f"change of {row['host']}", row["percent_moved"], sum(map(abs, changes.values())) * 50)
            self.same(f"what grew on {row['host']}", row["more_of"], max(changes, key=changes.get))
            self.close(f"growth on {row['host']}", row["by_percent_of_db_time"], 100 * max(changes.values()))

    def regressed_statements(self):
        recorded, spent, per_transaction = dict(self.recorded), {}, {}
        for host in self.recorded:
            for day, report in enumerate(self.of_days(host)):
                for row in report["statements"]:
                    if row["text"]:
                        spent.setdefault(row["text"], {}).setdefault(host, [0, 0])[day] += row["total_ns"] / 1e9
            part = f"{self.dbtime.store}?host={urllib.parse.quote(host, safe='')}"
            sides = [f"{part}&from={day}&to={day + datetime.timedelta(days=1)}" for day in self.days]
            try:
                difference = self.dbtime.ask("diff", *sides, "--per", "transaction")
            except subprocess.CalledProcessError:
                continue  # It does not count them.
            per_transaction[host] = {
                row["text"]: (row["good"] / 1e6, row["bad"] / 1e6) for row in difference["statements"] if row["text"]
            }
        self.same("hosts that count transactions", list(per_transaction), ["db1"])
        grown = {}
        for text, hosts in spent.items():
            rates = {host: [of / recorded[host][day] for day, of in enumerate(days)] for host, days in hosts.items()}
            growth = sum(max(now - before, 0) for before, now in rates.values())
            if growth > 0:
                grown[text] = growth
                hosts[""] = [sum(days[day] for days in hosts.values()) for day in (0, 1)]
        recorded[""] = [sum(days[day] for days in recorded.values()) for day in (0, 1)]
        rows = self.query("regressed_statements")
        order = list(dict.fromkeys(row["text"] for row in rows))
        self.same("statements that grew", order, sorted(grown, key=grown.get, reverse=True))
        found = {(row["text"], row["host"]): row for row in rows}
        self.same("lines", sorted(found), sorted((text, host) for text in grown for host in spent[text]))
        for (text, host), row in found.items():
            for day, name in enumerate(("before", "now")):
                self.close(f"{text} on '{host}' {name}", row[f"average_sessions_{name}"],
                           spent[text][host][day] / recorded[host][day])
                # Over all hosts it is that of the hosts that count transactions.
                said = per_transaction.get(host or "db1", {}).get(text)
                self.close(f"{text} on '{host}' {name} by transaction", row[f"ms_per_transaction_{name}"], said and said[day])

    # Grafana's dashboard: its queries, with the macros expanded as the plugin does it.
    def dashboard(self):
        board = json.loads(DASHBOARD.read_text())
        sql = {panel["title"]: panel["targets"][0]["rawSql"] for panel in board["panels"]}
        begin, end = day_begin(self.days[0]), day_begin(self.days[-1]) + 86400
        step = 3600
        hosts = ", ".join("'" + host.replace("\\", "\\\\").replace("'", "\\'") + "'" for host in self.reports)

        def expanded(query, begin):
            for macro, text in (("$__fromTime", f"toDateTime({int(begin)})"), ("$__toTime", f"toDateTime({int(end)})"),
                                ("$__interval_s", str(step)), ("${host:sqlstring}", hosts)):
                query = query.replace(macro, text)
            self.same("macros that nobody has expanded", "$" in query, False)
            return query

        choices = [of["query"] for of in board["templating"]["list"] if of["name"] == "host"]
        found = [row["host"] for row in self.engine.rows(expanded(choices[0], begin))]
        self.same("hosts to choose from", sorted(found), sorted(self.reports))

        ledgers = {host: self.ledger(report) for host, report in self.reports.items()}
        total = {host: sum(sum(cells.values()) for cells in ledger.values()) / 1e9 for host, ledger in ledgers.items()}
        queued = sum(cells["runnable_ns"] for ledger in ledgers.values() for cells in ledger.values()) / 1e9
        answers = {title: self.engine.rows(expanded(query, begin)) for title, query in sql.items()}
        for title, rows in answers.items():
            if title.startswith("Average active sessions"):
                self.close(title, sum(row["sessions"] for row in rows) * step, sum(total.values()))
            elif title.startswith("Sessions that wait for a CPU"):
                self.close(title, sum(row["sessions"] for row in rows) * step, queued)
            elif title.startswith("Where DB time went"):
                self.close(title, sum(row["total"] for row in rows), sum(total.values()))
            elif title.startswith("Statements"):
                said = [(str(row["statement"]), row["text"], row["hosts"], ns(row["seconds"])) for row in self.query("top_statements")]
                shown = [(row["query"], row["hosts"], ns(row["seconds"])) for row in rows]
                self.same(title, sorted(shown), sorted((query, hosts, spent) for query, _, hosts, spent in said))
                self.same("texts", {row["query"] for row in rows if row["text"]}, {query for query, text, *_ in said if text})
            elif title.startswith("Hosts"):
                until = {}
                for host, _, _, last in self.dbtime.recordings:
                    until[host] = max(until.get(host, 0), last)
                self.same(title, sorted(row["host"] for row in rows), sorted(until))
                for row in rows:
                    self.same(f"end of {row['host']}", abs(seconds(row["recorded_until"] + "Z") - until[row["host"]]) < 1, True)
            else:
                self.same("panels that are checked", title, "")
        by_host = "Average active sessions by host"
        for host, spent in total.items():
            of_host = sum(row["sessions"] for row in answers[by_host] if row["series"] == host)
            self.close(f"{by_host}: {host}", of_host * step, spent)
        if not self.engine.is_far:
            # The lower of two: files are read to list names only once in a while.
            of_both, of_one = (
                min(self.engine.files_read(expanded(sql[by_host], day)) for _ in range(2))
                for day in (begin, day_begin(self.days[-1]))
            )
            self.same("fewer files for one day", of_one < of_both, True)

    # Every row once, each with what its ids stand for.
    def every_row_once(self):
        def pairs(query):
            return {(row["recording"], row["id"]) for row in self.engine.rows(query)}

        for column, table in (("session", "sessions"), ("statement", "statements"), ("user_stack", "stacks")):
            used = pairs(f"SELECT DISTINCT recording, {column} AS id FROM activity WHERE {column} <> 0")
            self.same(f"ids whose {column} is not in {table}", used - pairs(f"SELECT recording, id FROM {table}"), set())

        def count(table):
            return self.engine.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"]

        rows = count("activity")
        self.same("rows", count("time_spent"), rows)
        return rows

    # Only the named partition is read.
    def only_named_partitions(self):
        host = sorted(self.reports)[-1]
        query = f"SELECT sum(ns) AS ns FROM activity WHERE date = DATE '{self.days[0]}' AND hour = 22"
        opened = self.engine.files_read(query)
        # Files of recordings that do not count may be opened, too.
        is_enough = len(self.reports) <= opened <= len(list(self.hour("*")))
        self.same(f"{opened} files of an hour are those that are needed", is_enough, True)
        self.same("files of an hour of a host", self.engine.files_read(f"{query} AND host = '{host}'"), 1)

        if hasattr(self.engine, "narrow"):
            asked = f"{query} AND host = '{host}'"
            sums = self.engine.rows(asked)
            self.engine.narrow(urllib.parse.quote(host, safe=""), self.days[0])
            self.same("sum of a part of the store", self.engine.rows(asked), sums)
            seen = self.engine.rows("SELECT count(DISTINCT host) AS hosts, count(DISTINCT date) AS dates FROM activity")
            self.same("what is seen of the store", seen, [{"hosts": 1, "dates": 1}])
            self.engine.narrow(None, None)

    def hour(self, host):
        return pathlib.Path(self.dbtime.store).glob(f"table=activity/date={self.days[0]}/hour=22/host={host}/*.parquet")


    # The names of manifests alone say which recordings there are.
    def manifests_are_not_opened(self):
        queries = "waits_by_host", "waits_by_release"
        before = [self.query(name) for name in queries]
        whole = {path: path.read_bytes() for path in pathlib.Path(self.dbtime.store).glob("recordings/*/*.json")}
        for path in whole:
            path.write_bytes(b"{")
        self.make_views()
        for name, rows in zip(queries, before):
            self.same_rows(f"{name} without manifests", self.query(name), rows)
        for path, content in whole.items():
            path.write_bytes(content)

    # A recording without a row, as an older dbtime put it, is not left out silently.
    def what_is_not_known_is_refused(self):
        before = self.query("waits_by_host")
        row = sorted(pathlib.Path(self.dbtime.store).glob("table=recordings/*/host=db1/*.parquet"))[0]
        content = row.read_bytes()
        row.unlink()
        try:
            self.make_views()
            said = f"nothing, and answers with {len(self.query('waits_by_host'))} rows"
        except Exception as error:  # noqa: BLE001: each engine has its own
            said = str(error)
        self.same(f"what to do is said ({said})", "dbtime store upgrade" in said, True)
        self.same("recordings without a row", self.dbtime.ask("store", "list", self.dbtime.store)["without_row"], 1)
        subprocess.run([self.dbtime.binary, "store", "upgrade", self.dbtime.store], check=True, capture_output=True)
        self.same("the row", row.read_bytes(), content)
        self.make_views()
        self.same("sums after the upgrade", self.query("waits_by_host"), before)


def columns(engine):
    return {view: sorted(next(iter(row.values())) for row in engine.rows(f"DESCRIBE {view}")) for view in VIEWS}


def main(name, store, binary, *arguments):
    hosts = [argument for argument in arguments if not argument.startswith("--bucket=")]
    buckets = [argument.removeprefix("--bucket=") for argument in arguments if argument.startswith("--bucket=")]
    dbtime = Dbtime(binary, store, hosts)
    for place in [store, *buckets]:
        engine = ENGINES[name](place)
        Comparison(engine, QUERIES / name, dbtime).all()
        # DuckDB takes the columns that the files have.
        model = ENGINES["duckdb"](store)
        model.run((QUERIES / "duckdb/views.sql").read_text())
        for view, names in columns(model).items():
            if columns(engine)[view] != names:
                sys.exit(f"{view}: {engine.name} has the columns {columns(engine)[view]}, DuckDB {names}")


if __name__ == "__main__":
    main(*sys.argv[1:])
