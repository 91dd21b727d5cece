# Values of bind variables of each execution, by the plainest rule: the lines `value=` between `BINDS #N:` and the next
# `EXEC #N:`, with the number of the variable. One line for each execution of a cursor that was parsed in the trace, in its order.
/^PARSING IN CURSOR #/ { is_parsed[$4] = 1 }
/^BINDS #/ { cursor = $2; sub(/:.*/, "", cursor); values[cursor] = ""; has[cursor] = 1; in_binds = 1; next }
# The time of day may stand between.
/^[A-Z=]|^\*\*\* [^0-9]/ { in_binds = 0 }
in_binds && /^ Bind#/ { position = $1; sub(/^Bind#/, "", position) }
in_binds && /^  value=/ { value = $0; sub(/^  value=/, "", value); values[cursor] = values[cursor] " " position "=" value }
/^EXEC #/ {
    executed = $2; sub(/:.*/, "", executed)
    if (executed in has && executed in is_parsed) print values[executed]
    delete has[executed]
}
