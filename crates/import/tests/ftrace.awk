# Counts and durations of functions in the text of a function_graph trace, a second time: by lines, without a stack.
# Prints: calls of NAME, ns of NAME as the lines say, ns of the calls (lines at the outermost indentation that are no
# system calls' are left out).
/^#/ || !/\|/ { next }
{
    text = $0
    sub(/\/\* .*: .* \*\/ *$/, "", text) # an event
    n = split(text, column, "|")
    said = column[n]
    match(said, /^ */)
    indent = RLENGTH
    sub(/^ */, "", said)
    duration = column[n - 1]
    gsub(/[^0-9.]/, "", duration)
    ns = int(duration * 1000 + 0.5)
    if (said ~ /\(\) \{$/) {
        name = substr(said, 1, length(said) - 4)
        calls[name]++
    } else if (said ~ /\(\);$/) {
        name = substr(said, 1, length(said) - 3)
        calls[name]++
        took[name] += ns
        if (indent == 2 && name ~ /_sys_/) { whole += ns; roots++ }
    } else if (said ~ /^\} \/\* .* \*\/$/) {
        name = substr(said, 6, length(said) - 8)
        took[name] += ns
        if (indent == 2 && name ~ /_sys_/) { whole += ns; roots++ }
    }
}
END {
    for (name in calls) print "calls " name "\t" calls[name]
    for (name in took) print "ns " name "\t" took[name]
    printf "whole\t%d\nroots\t%d\n", whole, roots
}
