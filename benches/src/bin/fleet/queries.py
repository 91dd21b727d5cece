"""How long the ready queries and reports take on a store in a directory, and what they read, as Markdown.

    queries.py STORE DBTIME [--rounds N] [--engines duckdb,clickhouse,spark]

Every engine runs in a process of its own. Bytes are those that it asked the kernel for (rchar of /proc), manifests and all. What a report
needs is counted from outside, row by row: the part of each file of the tables that it reads whose rows lie in the period, and of
sessions, statements and stacks the part that these rows name. Nothing is asserted about time.
"""

import argparse
import calendar
import glob
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "tests"))

from store_engines import ClickHouse, DuckDb, Spark  # noqa: E402

QUERIES = ["top_statements", "waits_by_host", "waits_by_release", "changed_hosts", "regressed_statements"]
# Queries that take longer than this run only twice.
LONG_S = 60


class FleetSpark(Spark):
    """As Spark is when nobody has set it up for a few rows."""

    SETTINGS = {
        "spark.driver.memory": "4g",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
    }

    def __init__(self, store):
        super().__init__(store)
        self.session.sparkContext.setLogLevel("ERROR")


ENGINES = {"duckdb": DuckDb, "clickhouse": ClickHouse, "spark": FleetSpark}


def bytes_asked_for():
    """By this process and those that it started (Spark is one)."""
    total = 0
    own = str(pathlib.Path("/proc/self").resolve().name)
    family, found = {own}, True
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            text = pathlib.Path(path).read_text()
        except OSError:
            continue
        parents[path.split("/")[2]] = text.rsplit(")", 1)[1].split()[1]
    while found:
        found = {pid for pid, parent in parents.items() if parent in family} - family
        family |= found
    for pid in family:
        try:
            total += int(pathlib.Path(f"/proc/{pid}/io").read_text().split()[1])
        except OSError:
            pass
    return total


def largest_resident():
    """Of this process and its children now living, bytes."""
    total = 0
    for path in glob.glob("/proc/[0-9]*/status"):
        try:
            text = pathlib.Path(path).read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        own = pathlib.Path("/proc/self").resolve().name
        if own in (fields["Pid"].strip(), fields["PPid"].strip()) or fields["Name"].strip() == "java":
            total = max(total, int(fields.get("VmHWM", "0 kB").split()[0]) * 1024)
    return total


def measure(rounds, work):
    """Seconds of each round, and bytes of the last one."""
    times = []
    while len(times) < rounds and not (len(times) >= 2 and min(times) > LONG_S):
        before, begin = bytes_asked_for(), time.monotonic()
        work()
        times.append(time.monotonic() - begin)
        asked = bytes_asked_for() - before
    return {"times": times, "bytes": asked}


def one_engine(name, store, rounds, host, day_before, day, hour, queries):
    engine = ENGINES[name](store)
    folder = ROOT / "queries" / name
    answers = {"views.sql": measure(rounds, lambda: engine.run((folder / "views.sql").read_text()))}
    engine.set_days(day_before, day)
    texts = {"manifests alone": "SELECT count(*) FROM recordings"}
    texts["one host, one hour"] = (
        "SELECT wait_event, sum(ns) AS ns FROM time_spent "
        f"WHERE host = '{host}' AND date = DATE '{day}' AND hour = {hour} AND section = 'db_time' GROUP BY wait_event"
    )
    texts |= {f"{query}.sql": (folder / f"{query}.sql").read_text() for query in queries.split(",")}
    for query, text in texts.items():
        try:
            answers[query] = measure(rounds, lambda: engine.rows(text))
        except Exception as e:  # noqa: BLE001: one that fails keeps no other from being measured
            answers[query] = {"failed": str(e).splitlines()[0][:200]}
        print(json.dumps({query: answers[query]}), file=sys.stderr, flush=True)
    return {"answers": answers, "resident": largest_resident()}


def seconds(answer):
    if "failed" in answer:
        return answer["failed"]
    return f"{min(answer['times']):.2f} / {statistics.median(answer['times']):.2f}"


def megabytes(name, answer):
    """What ClickHouse reads is not in rchar: it would be shown as less than the manifests alone have."""
    return "not counted" if name == "clickhouse" or "bytes" not in answer else f"{answer['bytes'] / 1e6:.1f}"


def needed(files, store, begin, end):
    """Bytes of a report's files whose rows lie in a period, or are named by such rows."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    total, named = 0.0, {"sessions": set(), "statements": set(), "stacks": set()}
    for file in files:
        if file["hour"] is None:
            continue
        table = pq.read_table(file["path"])
        moments = table["time"].cast("int64")
        inside = table.filter(pc.and_(pc.greater_equal(moments, begin), pc.less(moments, end)))
        total += file["bytes"] * len(inside) / len(table)
        named["sessions"] |= {(file["recording"], id) for id in inside["session"].to_pylist()}
        for column, what in (("statement", "statements"), ("kernel_stack", "stacks"), ("user_stack", "stacks")):
            if column in inside.column_names:
                named[what] |= {(file["recording"], id) for id in inside[column].to_pylist()}
    for file in files:
        if file["hour"] is None:
            ids = pq.read_table(file["path"], columns=["id"])["id"].to_pylist()
            total += file["bytes"] * sum((file["recording"], id) in named[file["table"]] for id in ids) / len(ids)
    return total


# Tables that the report reads: what it opens, as strace shows.
OF_A_REPORT = ("activity", "counters", "sessions", "statements", "stacks")


def report(store, dbtime, host, begin, end, rounds):
    moments = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)) for moment in (begin, end)]
    command = [dbtime, "report", store, "--host", host, "--from", moments[0], "--to", moments[1], "--format", "json"]
    times = []
    for _ in range(rounds):
        started = time.monotonic()
        said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        times.append(time.monotonic() - started)
    files, manifests = [], 0
    for path in glob.glob(f"{store}/recordings/host={host}/*.json"):
        text = pathlib.Path(path).read_text()
        manifest = json.loads(text)
        if manifest["start"] >= moments[1] or manifest["end"] <= moments[0]:
            continue
        manifests += len(text)
        for file in manifest["files"]:
            if file["table"] not in OF_A_REPORT:
                continue
            hour = "" if file["hour"] is None else f"/hour={file['hour']:02}"
            file["recording"] = manifest["recording"]
            file["path"] = (
                f"{store}/table={file['table']}/date={file['date']}{hour}/host={host}/{manifest['recording']}.{file['part']}.parquet"
            )
            if file["hour"] is None or (file["from_us"] < end * 1e6 and file["to_us"] >= begin * 1e6):
                files.append(file)
    return {
        "times": times,
        "read": said["store"]["read_bytes"],
        "of": said["store"]["bytes"],
        "files": len(files),
        "manifests": manifests,
        "needed": needed(files, store, begin * 1_000_000, end * 1_000_000),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("dbtime")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", default=",".join(QUERIES), help="of those that ask the whole store")
    parser.add_argument("--engines", default="duckdb,clickhouse,spark")
    parser.add_argument("--one", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, host, day_before, day, hour, queries = arguments.one
        print(json.dumps(one_engine(name, arguments.store, arguments.rounds, host, day_before, day, hour, queries)))
        return
    store = str(pathlib.Path(arguments.store).resolve())
    hosts = sorted(pathlib.Path(path).name.removeprefix("host=") for path in glob.glob(f"{store}/recordings/*"))
    days = sorted(pathlib.Path(path).name.removeprefix("date=") for path in glob.glob(f"{store}/table=activity/*"))
    host, day_before, day = hosts[len(hosts) // 2], days[-2], days[-1]
    hours = sorted(glob.glob(f"{store}/table=activity/date={day}/hour=*"))
    hour = int(pathlib.Path(hours[len(hours) // 2]).name.removeprefix("hour="))
    midnight = calendar.timegm(time.strptime(day, "%Y-%m-%d"))
    begin_of_hour = midnight + hour * 3_600
    print("| dbtime report, one host | s (least / median) | MB read | MB of these recordings | MB needed | read / needed |")
    print("|---|---:|---:|---:|---:|---:|")
    for what, begin, end in (
        ("5 minutes", begin_of_hour, begin_of_hour + 300),
        ("1 hour", begin_of_hour, begin_of_hour + 3_600),
        ("1 day", midnight, midnight + 86_400),
    ):
        one = report(store, arguments.dbtime, host, begin, end, arguments.rounds)
        print(
            f"| {what} | {seconds(one)} | {one['read'] / 1e6:.2f} | {one['of'] / 1e6:.2f} | {one['needed'] / 1e6:.2f} "
            f"| {one['read'] / one['needed']:.2f} |",
            flush=True,
        )
    found = {}
    for name in arguments.engines.split(","):
        command = [sys.executable, __file__, store, arguments.dbtime, "--rounds", str(arguments.rounds)]
        command += ["--one", name, host, day_before, day, str(hour), arguments.queries]
        answer = subprocess.run(command, stdout=subprocess.PIPE)
        if answer.returncode == 0:
            found[name] = json.loads(answer.stdout.splitlines()[-1])
    print("\n| query |", " | ".join(f"{name}, s | MB read" for name in found), "|")
    print("|---|" + "---:|---:|" * len(found))
    queries = list(next(iter(found.values()))["answers"])
    for query in queries:
        cells = [found[name]["answers"][query] for name in found]
        cells = [f"{seconds(cell)} | {megabytes(name, cell)}" for name, cell in zip(found, cells)]
        print(f"| {query} |", " | ".join(cells), "|")
    resident = ", ".join(f"{name} {of['resident'] / 1e6:.0f} MB" for name, of in found.items())
    print(f"\nLargest resident set: {resident}.")


if __name__ == "__main__":
    main()
