"""Parses the scripts of `dbtime oracle-map` and `oracle-snap` by the Oracle dialect of sqlfluff; usage: oracle_map_grammar.py SCRIPT

SQL*Plus's own commands (SET, PROMPT, HOST, / and EXIT: one a line) are no SQL: SET is checked against SQL*Plus's list of system
variables. Exits with 1 and says what is wrong when anything else is not Oracle's SQL.
"""

import re
import sys

from sqlfluff.core import Linter

# "System Variables Summary" of the SQL*Plus User's Guide, as far as the script uses them, with the values they take.
VARIABLES = {
    "ECHO": "ON|OFF",
    "FEEDBACK": r"ON|OFF|\d+",
    "HEADING": "ON|OFF",
    "PAGESIZE": r"\d+",
    "LINESIZE": r"\d+",
    "LONG": r"\d+",
    "TRIMOUT": "ON|OFF",
    "TRIMSPOOL": "ON|OFF",
    "TAB": "ON|OFF",
    "VERIFY": "ON|OFF",
    "DEFINE": "ON|OFF",
    "WRAP": "ON|OFF",
}


def is_command(line):
    if line.strip() in ("EXIT", "/"):
        return True
    if re.fullmatch(r"(PROMPT|HOST) \S.*", line.strip()):
        return True
    match = re.fullmatch(r"SET (\w+) (\w+)", line.strip())
    return bool(match) and re.fullmatch(VARIABLES.get(match[1], "(?!)"), match[2]) is not None


def main():
    lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
    sql, inside = [], False
    for number, line in enumerate(lines, 1):
        # SQL*Plus ends a statement at an empty line.
        if inside and not line.strip():
            sys.exit(f"line {number}: an empty line inside a statement")
        command = not inside and is_command(line)
        if line.strip() and not command and not line.startswith("--"):
            inside = not line.rstrip().endswith(";")
        sql.append("" if command else line)
    sql = "\n".join(sql) + "\n"
    parsed = Linter(dialect="oracle").parse_string(sql)
    if parsed.violations:
        sys.exit("\n".join(f"line {v.line_no}: {v.desc()}" for v in parsed.violations))
    statements = len(list(parsed.tree.recursive_crawl("statement")))
    if parsed.tree.is_type("unparsable") or list(parsed.tree.recursive_crawl("unparsable")):
        sys.exit("not Oracle's SQL")
    print(f"{statements} statements")


main()
