# The numbers of a SQL trace, worked out a second time and in another way: everything is kept, and every wait is
# compared with the next call of depth 0 of its session. Prints "name<TAB>value", microseconds.
function field(line, name,    rest) {
    if (!match(line, name "=[0-9]+")) return ""
    return substr(line, RSTART + length(name) + 1, RLENGTH - length(name) - 1) + 0
}
function min(a, b) { return a < b ? a : b }
function max(a, b) { return a > b ? a : b }
function record(line,    ela, event, tim, dep, begin, inside, i, kind, cursor) {
    tim = field(line, "tim")
    if (line ~ /^WAIT #/) {
        match(line, /nam='[^']*'/); event = substr(line, RSTART + 5, RLENGTH - 6)
        match(line, /ela= *[0-9]+/); ela = substr(line, RSTART + 4, RLENGTH - 4) + 0
        count[event]++; total[event] += ela; waits += ela
        if (event == "SQL*Net message from client") idle += ela
        from = 0; if (ela > 0) for (from = 1; from * 2 <= ela; from *= 2) {}
        hist[event " from " from]++; hist_us[event " from " from] += ela; longest[event] = max(longest[event], ela)
        blocks = 0
        if (event ~ /^(db file (sequential|scattered|parallel) read|db file single write|direct path (read|write)( temp)?)$/) {
            if (match(line, / (blocks|block cnt)=[0-9]+/)) { blocks = substr(line, RSTART, RLENGTH); sub(/.*=/, "", blocks) }
            else blocks = field(line, event ~ /parallel/ ? "p2" : "p3")
        }
        size[event " blocks " blocks + 0]++
        split(line, parts, /[#:]/); sql = sql_of[session "/" parts[2]]
        if (event != "SQL*Net message from client") stat[sql " wait_us"] += ela; else stat[sql " idle_us"] += ela
        n = ++kept[session]; end_of[session, n] = tim; ela_of[session, n] = ela
        sum[session] += ela
    } else if (line ~ /^(PARSE|EXEC|FETCH|CLOSE|UNMAP|SORT UNMAP) #[0-9]+:c=[0-9]+,e=[0-9]+,/ || line ~ /^LOB[A-Z]+: .*,c=[0-9]+,e=[0-9]+,/) {
        e = field(line, ",e"); c = field(line, "[:,]c")
        match(line, /c=[0-9]+/); c = substr(line, RSTART + 2, RLENGTH - 2) + 0
        match(line, /,e=[0-9]+/); e = substr(line, RSTART + 3, RLENGTH - 3) + 0
        split(line, parts, /[#:]/); cursor = session "/" parts[2]
        kind = line; sub(/ #.*/, "", kind)
        if (kind ~ /^(PARSE|EXEC|FETCH)$/) {
            sql = sql_of[cursor]; stat[sql " calls"]++; stat[sql " executions"] += kind == "EXEC"
            stat[sql " elapsed_us"] += e; stat[sql " cpu_us"] += c; stat[sql " rows"] += field(line, ",r"); stat[sql " misses"] += field(line, ",mis")
            stat[sql " consistent_gets"] += field(line, ",cr"); stat[sql " current_gets"] += field(line, ",cu"); stat[sql " physical_reads"] += field(line, ",p")
        }
        if (kind ~ /^(PARSE|EXEC|FETCH)$/ && parsed_dep[cursor] + 0 == 0) { call_e += e; call_c += c }
        if (first == "" && tim != "") first = tim - e
        dep = field(line, ",dep")
        if (dep + 0 == 0) {
            cpu += c
            if (tim == "") tim = last_of[session]
            begin = tim - e; inside = 0
            for (i = settled[session] + 1; i <= kept[session]; i++)
                inside += max(0, min(end_of[session, i], tim) - max(end_of[session, i] - ela_of[session, i], begin))
            settled[session] = kept[session]
            sum[session] += max(0, e - inside)
            beyond += max(0, inside - e)
        }
    } else if (line ~ /^PARSING IN CURSOR/) {
        split(line, parts, /[# ]/); cursor = session "/" parts[5]
        parsed_dep[cursor] = field(line, " dep")
        sql_of[cursor] = match(line, /sqlid='[^']*'/) ? substr(line, RSTART + 7, RLENGTH - 8) : ""
        text = 1
    } else if (line !~ /^(XCTEND|ERROR|PARSE ERROR) /) return
    if (tim != "") { last = tim; last_of[session] = tim }
}
{ sub(/\r$/, "") }
text { if (/^END OF STMT/) text = 0; next }
/^Unix process pid: / { session = $4 + 0 }
/^\*\*\* SESSION ID:\(/ { session = $0; sub(/^[^(]*\(/, "", session); sub(/\).*/, "", session); next }
/^\*\*\* \[ Unix process pid: / { session = $6; next }
match($0, /tim=[0-9]+WAIT #/) {
    cut = RSTART + RLENGTH - 6
    record(substr($0, 1, cut - 1)); record(substr($0, cut)); next
}
{ record($0) }
END {
    printf "call_elapsed_us\t%.0f\ncall_cpu_us\t%.0f\ncall_wait_us\t%.0f\ncall_idle_us\t%.0f\n", call_e, call_c, waits - idle, idle
    printf "interval_duration_us\t%.0f\ninterval_cpu_us\t%.0f\ninterval_wait_us\t%.0f\n", first == "" ? 0 : last - first, cpu, waits
    printf "waits_beyond_calls_us\t%.0f\n", beyond
    for (event in count) printf "event %s\t%.0f\nevents %s\t%.0f\n", event, total[event], event, count[event]
    for (bucket in hist) printf "count %s\t%.0f\nus %s\t%.0f\n", bucket, hist[bucket], bucket, hist_us[bucket]
    for (event in longest) printf "longest %s\t%.0f\n", event, longest[event]
    for (event in size) printf "size %s\t%.0f\n", event, size[event]
    for (sql in stat) printf "sql %s\t%.0f\n", sql, stat[sql]
    for (session in sum) printf "session %s\t%.0f\n", session, sum[session]
}
