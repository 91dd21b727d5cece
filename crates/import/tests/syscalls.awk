# A second computation of what an strace file says, for the tests: name, then calls, errors and microseconds of every system
# call; and of all calls the microseconds between the end of one and the begin of the next (outside; overlap where it is negative). For files of one task, without
# interrupted calls.

function microseconds(text,    parts) {
    split(text, parts, ".")
    return parts[1] * 1000000 + parts[2]
}

{
    line = $0
    sub(/^[0-9]+  +/, "", line)
    start = -1
    if (match(line, /^[0-9]+\.[0-9][0-9][0-9][0-9][0-9][0-9] /)) {
        start = microseconds(substr(line, 1, RLENGTH - 1))
        line = substr(line, RLENGTH + 1)
    }
}

match(line, /^[a-z_0-9]+\(/) {
    name = substr(line, 1, RLENGTH - 1)
    calls[name]++
    if (line ~ /= -1 E[A-Z0-9]+ \([^)]*\)( <[0-9.]+>)?$/) errors[name]++
    us = -1
    if (match(line, /<[0-9]+\.[0-9]+>$/)) us = microseconds(substr(line, RSTART + 1, RLENGTH - 2))
    if (us >= 0) time[name] += us
    if (start >= 0 && end > 0 && start > end) outside += start - end
    if (start >= 0 && end > 0 && start < end) overlap += end - start
    end = (us >= 0) ? start + us : 0
}

END {
    for (name in calls) printf "%s\t%d\t%d\t%.0f\n", name, calls[name], errors[name], time[name]
    printf "outside\t0\t0\t%.0f\n", outside
    printf "overlap\t0\t0\t%.0f\n", overlap
}
