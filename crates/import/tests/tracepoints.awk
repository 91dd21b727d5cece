# System calls in a trace of tracepoints, a second time, whatever the columns are: from sys_enter to sys_exit of a task.
# Prints: calls, ns of them, ns off the CPU in them before the wakeup (asleep) and behind it (woken), events that were dropped.
function ns(text,    part) {
    split(text, part, ".")
    return part[1] * 1e9 + substr(part[2] "000", 1, 9)
}
/EVENTS DROPPED/ {
    match($0, /[0-9]+ EVENTS/)
    dropped += substr($0, RSTART, RLENGTH)
    split("", begin)
}
# COMM-PID [CPU] TIME: and COMM-PID CPUFLAGS TIME:
!match($0, /-[0-9]+ +(\[[0-9]+\]|[0-9]+[^ 0-9][^ ]+) +[0-9]+\.[0-9]+: /) { next }
{
    split(substr($0, RSTART + 1, RLENGTH - 3), column, / +/)
    task = column[1]
    at = ns(column[3])
}
/: .*sys_enter: / { begin[task] = at; delete off[task]; delete woken[task] }
/: .*sched_switch: / { off[task] = at }
/: .*sched_wakeup: / {
    match($0, /(pid=|:)[0-9]+ (\[|prio=)/)
    who = substr($0, RSTART, RLENGTH)
    gsub(/^(pid=|:)| .*$/, "", who)
    woken[who] = at
}
/: .*sys_exit: / && (task in begin) {
    calls++
    took += at - begin[task]
    if (task in off) {
        asleep += woken[task] - off[task]
        ready += at - woken[task]
    }
    delete begin[task]
    delete off[task]
}
END { printf "calls\t%d\nns\t%d\nasleep\t%d\nwoken\t%d\ndropped\t%d\n", calls, took, asleep, ready, dropped }
