# The numbers of a SQL trace, worked out a second time and in another way: everything is kept, and at the end every call and
# every wait looks for the call that holds it among those that follow. Prints "name<TAB>value", microseconds.
function field(line, name,    rest) {
    if (!match(line, name "=[0-9]+")) return ""
    return substr(line, RSTART + length(name) + 1, RLENGTH - length(name) - 1) + 0
}
function min(a, b) { return a < b ? a : b }
function max(a, b) { return a > b ? a : b }
function record(line,    ela, event, tim, dep, cursor, kind, c, e, parts, obj) {
    tim = field(line, "tim")
    if (line ~ /^WAIT #/) {
        # Since 10g every wait says when it ended: one that does not is cut.
        if (tim == "") return
        match(line, /nam='[^']*'/); event = substr(line, RSTART + 5, RLENGTH - 6)
        match(line, /ela= *[0-9]+/); ela = substr(line, RSTART + 4, RLENGTH - 4) + 0
        count[event]++; total[event] += ela; waits += ela
        is_idle = event == "SQL*Net message from client"
        if (is_idle) idle += ela
        from = 0; if (ela > 0) for (from = 1; from * 2 <= ela; from *= 2) {}
        hist[event " from " from]++; hist_us[event " from " from] += ela; longest[event] = max(longest[event], ela)
        blocks = 0
        if (event ~ /^(db file (sequential|scattered|parallel) read|db file single write|direct path (read|write)( temp)?)$/) {
            if (match(line, / (blocks|block cnt)=[0-9]+/)) { blocks = substr(line, RSTART, RLENGTH); sub(/.*=/, "", blocks) }
            else blocks = field(line, event ~ /parallel/ ? "p2" : "p3")
            if (match(line, / obj#=-?[0-9]+/)) {
                obj = substr(line, RSTART + 6, RLENGTH - 6)
                object["object_waits:" obj ":" event]++; object["object_wait_us:" obj ":" event] += ela
                object["object_blocks:" obj ":" event] += blocks
            }
        }
        size[event " blocks " blocks + 0]++
        split(line, parts, /[#:]/); cursor = parts[2]; assumed = 0
        # Of no cursor: it goes to the one before.
        if (cursor == 0 && session in before) { cursor = before[session]; assumed = 1 }
        if (cursor != 0) before[session] = cursor
        sql = sql_of[session "/" cursor]; stat[sql (is_idle ? " idle_us" : " wait_us")] += ela
        n = ++lines[session]; what[session, n] = "wait"; end[session, n] = tim; us[session, n] = ela
        idle_of[session, n] = is_idle; sql_at[session, n] = sql; cursor_at[session, n] = cursor; assumed_at[session, n] = assumed
        sum[session] += ela
        first = first == "" ? tim - ela : min(first, tim - ela)
    } else if (line ~ /^(PARSE|EXEC|FETCH|CLOSE|UNMAP|SORT UNMAP) #[0-9]+:c=[0-9]+,e=[0-9]+,/ || line ~ /^LOB[A-Z]+: .*,c=[0-9]+,e=[0-9]+,/) {
        if (tim == "") return
        match(line, /c=[0-9]+/); c = substr(line, RSTART + 2, RLENGTH - 2) + 0
        match(line, /,e=[0-9]+/); e = substr(line, RSTART + 3, RLENGTH - 3) + 0
        split(line, parts, /[#:]/); kind = line; sub(/[ :].*/, "", kind); if (line ~ /^LOB/) kind = "LOB"
        cursor = kind == "LOB" ? 0 : parts[2]
        if (kind != "LOB") before[session] = cursor
        n = ++lines[session]; what[session, n] = kind; end[session, n] = tim; us[session, n] = e; cpu[session, n] = c
        dep = field(line, ",dep"); dep_at[session, n] = kind == "LOB" ? 1e9 : dep + 0; cursor_at[session, n] = cursor
        sql = sql_of[session "/" cursor]; sql_at[session, n] = sql
        if (kind ~ /^(PARSE|EXEC|FETCH)$/) {
            calls(sql, "", line, e, c)
            if (kind == "EXEC") { stat[sql " executions"]++; if (dep == 0) outer++ }
            if (kind == "PARSE") calls(sql, "parse_", line, e, c)
            if (kind == "FETCH") calls(sql, "fetch_", line, e, c)
        }
        first = first == "" ? tim - e : min(first, tim - e)
    } else if (line ~ /^PARSING IN CURSOR/) {
        split(line, parts, /[# ]/); cursor = parts[5]; before[session] = cursor
        sql_of[session "/" cursor] = match(line, /sqlid='[^']*'/) ? substr(line, RSTART + 7, RLENGTH - 8) : ""
        text = 1
    } else if (line ~ /^XCTEND /) {
        # How it ended is said before when it did.
        if (line !~ /rd_only=[01]/) return
        if (line ~ /rd_only=1/) read_only++; else if (line ~ /rlbk=1/) rollbacks++; else commits++
    } else if (line !~ /^(ERROR|PARSE ERROR) /) return
    if (tim != "") last = max(last, tim)
}
function calls(sql, of, line, e, c) {
    stat[sql " " of "calls"]++; stat[sql " " of "elapsed_us"] += e; stat[sql " " of "cpu_us"] += c
    stat[sql " " of "rows"] += field(line, ",r"); stat[sql " " of "misses"] += field(line, ",mis")
    stat[sql " " of "consistent_gets"] += field(line, ",cr"); stat[sql " " of "current_gets"] += field(line, ",cu")
    stat[sql " " of "physical_reads"] += field(line, ",p")
}
# The call that holds call `n`: the next one above it in whose time its middle lies, before or at the next call of depth 0.
function holder(s, n,    j, middle, begin, slack) {
    middle = end[s, n] - us[s, n] + int(us[s, n] / 2)
    for (j = next_call[s, n]; j > 0; j = next_call[s, j]) {
        begin = end[s, j] - us[s, j]; slack = min(10, int(us[s, j] / 2))
        if (what[s, j] == "LOB" || dep_at[s, j] < dep_at[s, n])
            if (end[s, n] >= begin - slack && middle >= begin - slack && middle <= end[s, j] + slack) return j
        if (dep_at[s, j] == 0) return 0
    }
    return 0
}
# Hands the parts of wait `n` to the calls that hold them.
function give(s, n,    j, begin, from, to, left, part) {
    from = end[s, n] - us[s, n]; to = end[s, n]; left = us[s, n]
    for (j = next_call[s, n]; j > 0 && left > 0; j = next_call[s, j]) {
        begin = end[s, j] - us[s, j]
        part = min(max(0, min(to, end[s, j]) - max(from, begin)), left)
        own_waits[s, j] += part; if (!idle_of[s, n]) own_waits_but_idle[s, j] += part
        left -= part; to = min(to, max(begin, from))
        # A parse waits before it is told what is parsed.
        if (part > 0 && part * 2 >= us[s, n] && !assumed_at[s, n] && !idle_of[s, n] && what[s, j] != "LOB" &&
            cursor_at[s, j] == cursor_at[s, n] && sql_at[s, j] != sql_at[s, n]) {
            stat[sql_at[s, n] " wait_us"] -= us[s, n]; stat[sql_at[s, j] " wait_us"] += us[s, n]; sql_at[s, n] = sql_at[s, j]
        }
        if (part > 0 && left == 0 && assumed_at[s, n] && cursor_at[s, j] != cursor_at[s, n]) stat[sql_at[s, n] " assumed_wait_us"] += part
        if (dep_at[s, j] == 0) break
    }
    if (left > 0 && assumed_at[s, n]) stat[sql_at[s, n] " assumed_wait_us"] += left
}
# True when a call, or one around it, is of a kind.
function is_in(s, n, kinds,    j) {
    for (j = n; j > 0; j = held_by[s, j]) if (what[s, j] ~ kinds) return 1
    return 0
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
    named = "^(PARSE|EXEC|FETCH)$"; but_close = "^(PARSE|EXEC|FETCH|LOB|UNMAP|SORT)$"
    for (s in lines) {
        for (n = lines[s]; n > 0; n--) {
            next_call[s, n] = following[s]
            if (what[s, n] != "wait") following[s] = n
        }
        for (n = 1; n <= lines[s]; n++) {
            if (what[s, n] == "wait") { give(s, n); continue }
            held_by[s, n] = j = holder(s, n)
            inside_e[s, j] += us[s, n]; inside_c[s, j] += cpu[s, n]
        }
        for (n = 1; n <= lines[s]; n++) {
            if (what[s, n] == "wait") continue
            j = held_by[s, n]
            if (what[s, n] ~ named && !is_in(s, j, named)) { call_e += us[s, n]; call_c += cpu[s, n] }
            if (j == "" || j == 0) all_c += cpu[s, n]
            if (what[s, n] ~ but_close && !is_in(s, j, but_close)) interval_c += cpu[s, n]
            if (is_in(s, n, named)) held += own_waits_but_idle[s, n]
            inside = own_waits[s, n] + inside_e[s, n]
            sum[s] += max(0, us[s, n] - inside); beyond += max(0, inside - us[s, n])
            if (what[s, n] ~ named) {
                stat[sql_at[s, n] " own_elapsed_us"] += us[s, n] - inside_e[s, n]
                stat[sql_at[s, n] " own_cpu_us"] += cpu[s, n] - inside_c[s, n]
            }
        }
    }
    printf "call_elapsed_us\t%.0f\ncall_cpu_us\t%.0f\ncall_wait_us\t%.0f\ncall_idle_us\t%.0f\n", call_e, call_c, waits - idle, idle
    printf "outer_executions\t%d\n", outer
    printf "wait_outside_calls_us\t%.0f\n", waits - idle - held
    printf "interval_duration_us\t%.0f\ninterval_cpu_us\t%.0f\ninterval_wait_us\t%.0f\n", first == "" ? 0 : last - first, interval_c, waits
    printf "all_cpu_us\t%.0f\n", all_c
    printf "waits_beyond_calls_us\t%.0f\n", beyond
    printf "commits\t%d\nrollbacks\t%d\nread_only_ends\t%d\n", commits, rollbacks, read_only
    for (event in count) printf "event %s\t%.0f\nevents %s\t%.0f\n", event, total[event], event, count[event]
    for (bucket in hist) printf "count %s\t%.0f\nus %s\t%.0f\n", bucket, hist[bucket], bucket, hist_us[bucket]
    for (event in longest) printf "longest %s\t%.0f\n", event, longest[event]
    for (event in size) printf "size %s\t%.0f\n", event, size[event]
    for (name in object) printf "%s\t%.0f\n", name, object[name]
    for (sql in stat) printf "sql %s\t%.0f\n", sql, stat[sql]
    for (session in sum) printf "session %s\t%.0f\n", session, sum[session]
}
