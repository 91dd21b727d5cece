"""A second computation of 'dbtime report SESSION.trc SESSION.strace', by brute force: every wait against every call.

    waits_beside_calls.py TRACE STRACE

Prints JSON: the shift of the clock that most waits of one call allow, and by wait event the time in each system call, in none, and
how many waits have one call inside. Times in nanoseconds, the shift in microseconds."""

import datetime
import json
import re
import sys


def waits_of(path):
    """Begin, length and event of every wait; times of day by the first line that has one and the first tim."""
    wall = first = None
    found = []
    for line in open(path, errors="replace"):
        day = re.match(r"\*\*\* (\d+-\d+-\d+T[\d:.]+[-+]\d\d:\d\d)", line)
        if day and wall is None:
            wall = round(datetime.datetime.fromisoformat(day[1]).timestamp() * 1e6)
        tim = re.search(r"\btim=(\d+)", line)
        if tim and first is None:
            first = int(tim[1])
        wait = re.match(r"WAIT #\d+: nam='([^']*)' ela= (\d+) .*tim=(\d+)", line)
        if wait:
            found.append((int(wait[3]) - int(wait[2]), int(wait[2]), wait[1]))
    return [(begin + wall - first, length, event) for begin, length, event in found]


def calls_of(path):
    found = []
    for line in open(path, errors="replace"):
        call = re.match(r"(?:\d+\s+)?(\d+)\.(\d{6}) (\w+)\(.*<(\d+)\.(\d{6})>$", line)
        if call:
            found.append((int(call[1] + call[2]), int(call[4] + call[5]), call[3]))
    return found


def shift_of(waits, calls):
    """Every call of nine tenths of a wait allows a range of shifts; the middle of what most of them allow."""
    ranges = []
    for begin, length, _ in waits:
        if length < 1000:
            continue
        for at, took, _ in calls:
            if abs(at - begin) <= 2_000_000 and length * 0.9 <= took <= length + 1:
                ranges.append((at + took - begin - length - 1, at - begin + 1))
    places = sorted({place for of in ranges for place in of})
    count = {place: sum(low <= place <= high for low, high in ranges) for place in places}
    most = max(count.values())
    best = [place for place in places if count[place] == most]
    return (min(best), max(best), most)


def overlap(one, other):
    return max(0, min(one[0] + one[1], other[0] + other[1]) - max(one[0], other[0]))


def main():
    waits, calls = waits_of(sys.argv[1]), calls_of(sys.argv[2])
    low, high, matches = shift_of(waits, calls)
    # Nanoseconds, so that half microseconds are whole.
    waits = [(begin * 1000 + (low + high) * 500, length * 1000, event) for begin, length, event in waits]
    calls = [(at * 1000, took * 1000, name) for at, took, name in calls]
    begin = max(min(wait[0] for wait in waits), min(call[0] for call in calls))
    end = min(max(wait[0] + wait[1] for wait in waits), max(call[0] + call[1] for call in calls))
    waits = [wait for wait in waits if begin <= wait[0] and wait[0] + wait[1] <= end]
    calls = [call for call in calls if begin <= call[0] and call[0] + call[1] <= end]
    rows = {}
    for wait in waits:
        row = rows.setdefault(wait[2], {"count": 0, "ns": 0, "one": 0, "none": 0, "calls": {}, "inside": {}})
        inside = 0
        for call in calls:
            both = overlap(wait, call)
            if both:
                row["calls"][call[2]] = row["calls"].get(call[2], 0) + both
            if wait[0] <= call[0] + call[1] // 2 <= wait[0] + wait[1]:
                inside += 1
                row["inside"][call[2]] = row["inside"].get(call[2], 0) + 1
        row["count"] += 1
        row["ns"] += wait[1]
        row["one"] += inside == 1
        row["none"] += inside == 0
    outside = {}
    for call in calls:
        if not any(wait[0] <= call[0] + call[1] // 2 <= wait[0] + wait[1] for wait in waits):
            of = outside.setdefault(call[2], {"count": 0, "ns": 0})
            of["count"] += 1
            of["ns"] += call[1] - sum(overlap(wait, call) for wait in waits)
    print(json.dumps({
        "shift": [low, high], "matches": matches, "elapsed": end - begin,
        "waits": rows, "outside": outside, "calls": len(calls),
    }))


main()
