"""Parses the scripts of `dbtime oracle-map`, `oracle-snap` and `oracle-latch` by the Oracle dialect of sqlfluff.

    oracle_map_grammar.py SCRIPT [NAME=VALUE...]

SQL*Plus's own commands (SET, COLUMN, PROMPT, HOST, / and EXIT: one a line) are no SQL: SET is checked against SQL*Plus's list of
system variables. Its variables (&NAME) have the values that are given. Exits with 1 and says what is wrong when anything else is not
Oracle's SQL.
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
    "SERVEROUTPUT": r"ON SIZE (UNLIMITED|\d+) FORMAT (WRAPPED|WORD_WRAPPED|TRUNCATED)|OFF",
}


def is_command(line):
    if line.strip() in ("EXIT", "/"):
        return True
    if re.fullmatch(r"(PROMPT|HOST) \S.*", line.strip()):
        return True
    if re.fullmatch(r"COLUMN \w+( NEW_VALUE \w+)?( NOPRINT)?", line.strip()):
        return True
    match = re.fullmatch(r"SET (\w+) (\w[\w ]*)", line.strip())
    return bool(match) and re.fullmatch(VARIABLES.get(match[1], "(?!)"), match[2]) is not None


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    for name, value in (argument.split("=", 1) for argument in sys.argv[2:]):
        text = re.sub(rf"&{name}\b", lambda _: value, text)
    lines = text.splitlines()
    sql, inside, block = [], False, False
    for number, line in enumerate(lines, 1):
        # SQL*Plus ends a statement at an empty line, but for a block of PL/SQL, which a slash ends.
        if inside and not block and not line.strip():
            sys.exit(f"line {number}: an empty line inside a statement")
        ends_block = block and line.strip() == "/"
        command = ends_block or (not inside and is_command(line))
        if ends_block:
            inside = block = False
        elif line.strip() and not command and not line.lstrip().startswith("--"):
            block = block or line.strip() == "DECLARE"
            inside = block or not line.rstrip().endswith(";")
        sql.append("" if command else line)
    if inside:
        sys.exit("the last statement has no end")
    sql = "\n".join(sql) + "\n"
    parsed = Linter(dialect="oracle").parse_string(sql)
    if parsed.violations:
        sys.exit("\n".join(f"line {v.line_no}: {v.desc()}" for v in parsed.violations))
    # Those of a block are part of it.
    statements = len(list(parsed.tree.recursive_crawl("statement", recurse_into=False)))
    if parsed.tree.is_type("unparsable") or list(parsed.tree.recursive_crawl("unparsable")):
        sys.exit("not Oracle's SQL")
    print(f"{statements} statements")


main()
