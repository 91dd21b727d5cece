"""The engines that ready queries are for, each asked in its own way: all answer with rows of plain Python values.

An engine has a `name`, runs scripts (`run`) and queries (`rows`), is told the days of a query (`set_days`), and says how many
Parquet files it reads for a query (`files_read`). A store that `is_far` is no directory.
"""

import datetime
import decimal
import json
import re


def statements(script):
    """The statements of a script. No text in ours ends a line with a semicolon."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("--")]
    return [text for text in re.split(r";\s*$", "\n".join(lines), flags=re.MULTILINE) if text.strip()]


class DuckDb:
    name = "DuckDB"

    def __init__(self, store):
        import duckdb

        self.is_far = "://" in store
        self.db = duckdb.connect()
        self.db.execute("SET VARIABLE store = ?", [store])

    def run(self, script):
        self.db.execute(script)

    def rows(self, query):
        cursor = self.db.execute(query)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    def set_days(self, day_before, day):
        self.db.execute(f"SET VARIABLE day_before = DATE '{day_before}'; SET VARIABLE day = DATE '{day}'")

    def narrow(self, hosts, dates):
        """Patterns of the part of the store that is seen; none: all of it."""
        for name, pattern in (("hosts", hosts), ("dates", dates)):
            self.db.execute(f"SET VARIABLE {name} = ?" if pattern else f"RESET VARIABLE {name}", [str(pattern)] if pattern else [])

    def files_read(self, query):
        def scans(node):
            if node.get("extra_info", {}).get("Function") == "READ_PARQUET":
                yield int(node["extra_info"]["Total Files Read"])
            for child in node["children"]:
                yield from scans(child)

        plan = self.db.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query}").fetchall()[0][1]
        return sum(scans(json.loads(plan)))


class ClickHouse:
    name = "ClickHouse"

    def __init__(self, store):
        import chdb.session

        self.session = chdb.session.Session()
        self.is_far = store.startswith("http")
        # All sessions of a process share one server.
        self.session.query("DROP DATABASE IF EXISTS dbtime")
        self.session.query("CREATE DATABASE dbtime")
        self.session.query("USE dbtime")
        text = store.replace("\\", "\\\\").replace("'", "\\'")
        self.session.query(f"CREATE OR REPLACE FUNCTION dbtime_store AS () -> '{text}'")

    def run(self, script):
        # As docs/store.md says.
        script = script.replace("FROM file(", "FROM s3(") if self.is_far else script
        for statement in statements(script):
            self.session.query(statement)

    def rows(self, query):
        answer = self.session.query(query.rstrip().rstrip(";"), "JSON")
        answer = json.loads(answer.bytes())
        types = {column["name"]: column["type"] for column in answer["meta"]}

        def plain(name, value):
            if value is None:
                return None
            if "Int" in types[name]:
                return int(value)
            if re.fullmatch(r"(Nullable\()?Date\)?", types[name]):
                return datetime.date.fromisoformat(value)
            return value

        return [{name: plain(name, value) for name, value in row.items()} for row in answer["data"]]

    def set_days(self, day_before, day):
        self.session.query(f"SET param_day_before = '{day_before}'")
        self.session.query(f"SET param_day = '{day}'")

    def files_read(self, query):
        def so_far():
            events = "SELECT value FROM system.events WHERE event = 'EngineFileLikeReadFiles'"
            return sum(row["value"] for row in self.rows(events))

        def read(query):
            before = so_far()
            self.rows(query)
            return so_far() - before

        # Files that are only listed count as read, too.
        return read(query) - read("SELECT count() FROM counted")


class Spark:
    name = "Spark"
    SETTINGS = {
        # There are few rows: most of the time goes into compilation.
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        # So that the plan that is shown is the one that ran.
        "spark.sql.adaptive.enabled": "false",
    }

    def __init__(self, store):
        from pyspark.sql import SparkSession

        builder = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.session.timeZone", "UTC")
        )
        self.session = builder.config(map=self.SETTINGS).getOrCreate()
        self.is_far = "://" in store
        self.session.conf.set("store", store)

    def run(self, script):
        for statement in statements(script):
            self.session.sql(statement)

    def rows(self, query):
        def plain(value):
            is_whole = isinstance(value, decimal.Decimal) and value == value.to_integral_value()
            return int(value) if is_whole else value

        found = self.session.sql(query.rstrip().rstrip(";")).collect()
        return [{name: plain(value) for name, value in row.asDict().items()} for row in found]

    def set_days(self, day_before, day):
        self.session.conf.set("day_before", str(day_before))
        self.session.conf.set("day", str(day))

    def files_read(self, query):
        answer = self.session.sql(query)
        answer.collect()
        scans = answer._jdf.queryExecution().executedPlan().collectLeaves()
        scans = [scans.apply(number) for number in range(scans.size())]
        return sum(
            scan.metrics().apply("numFiles").value() for scan in scans if scan.nodeName().startswith("Scan parquet")
        )


ENGINES = {"duckdb": DuckDb, "clickhouse": ClickHouse, "spark": Spark}
