#!/usr/bin/env bash
# Dives into system calls on Debian's own kernels, in emulated machines (QEMU, no KVM needed), both at the same time: two minutes.
#
# The release's kernel (Debian 12: 6.1) has function_graph in its top-level trace only, that of the backports (6.12) in private instances
# too. Structure and safety are checked, never times, which mean nothing under emulation: every call of the program is there, the engine is
# the one that this kernel allows, and all settings of the kernel's trace are the same before and after, even if dbtime was killed in the
# middle.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/kernel-machine.sh
. scripts/kernel-machine.sh

cc -O2 -Wall -static -o "$work/calls" tests/programs/calls.c
head -c 8192 /dev/urandom >"$work/file"
chmod 755 "$work"
# What runs inside; test_kernel fills in CALLS, FILE, ENGINE, PROBES, BESIDE and MODULE.
cat >"$work/inside" <<'INSIDE'
cd /mnt || exit 1
export TMPDIR=/mnt
T=/sys/kernel/tracing
# A few functions: all of them would take too long, see below.
FUNCTIONS='vfs_read,rw_verify_area,filemap_*,*_read_iter,touch_atime,hrtimer_*,*nanosleep*,schedule'

fail() {
    echo "FAILED: $*"
}
# equal WHAT FOUND EXPECTED
equal() {
    if [ "$2" = "$3" ]; then echo "ok: $1: $2"; else fail "$1: found '$2', not '$3'"; fi
}
settings() {
    local file
    for file in current_tracer tracing_on trace_clock buffer_size_kb set_ftrace_pid set_ftrace_notrace_pid set_event \
        set_event_pid set_event_notrace_pid set_graph_function set_graph_notrace set_ftrace_filter set_ftrace_notrace \
        max_graph_depth tracing_thresh events/enable; do
        echo "$file: $(cat "$T/$file")"
    done
    (cd "$T" && grep . options/*)
    cat $T/per_cpu/cpu*/stats | grep entries
    ls $T/instances
}
# stopped PROGRAM…: starts it; it stops itself; sets $pid.
stopped() {
    "$@" &
    pid=$!
    until grep -q 'T (stopped)' "/proc/$pid/status"; do sleep 0.05; done
}
# begun: waits until the dive that was started last traces.
begun() {
    until grep -q '^tracing' said; do
        kill -0 "$dive" || return
        sleep 0.1
    done
}
# dive CALL COUNT [FILE] -- OPTION…: dives into a program that makes this many calls; "said" has the messages, "text" the trace.
dive() {
    local call=$1 program=(CALLS)
    while [ "$1" != -- ]; do
        program+=("$1")
        shift
    done
    shift
    rm -f said text
    stopped "${program[@]}"
    $DBTIME dive -p "$pid" --call "$call" -d 100 --raw text "$@" 2>said &
    dive=$!
    begun
    kill -CONT "$pid"
    wait "$pid"
    wait "$dive"
    exit_code=$?
    grep '^note: ' said
    echo "dive $call: exit $exit_code, $(grep '^tracing' said), $(cut -d' ' -f1 /proc/uptime) s up"
}

# unchanged WHEN: all settings are as they were at first.
unchanged() {
    settings >after
    if diff before after; then echo "ok: settings $1 are as before"; else fail "settings $1"; fi
}
graph_is_on() {
    cat $T/current_tracer $T/instances/*/current_tracer 2>/dev/null | grep -c function_graph
}

engine() {
    sed -n 's/^tracing [^ ]* of pid [0-9]* with //p' said
}

# The buffer takes its full size at its first use, which does not count as a change by a dive.
echo 1408 >$T/buffer_size_kb
settings >before

# Calls from the page cache, and calls that sleep: all of them are there, whole, with what they call.
dive pread64 20 FILE -- --functions "$FUNCTIONS"
equal "engine for pread64" "$(engine)" "ftrace function_graph in ENGINE"
equal "calls of pread64" "$(grep -c '} /\* __x64_sys_pread64 \*/' text)" 20
equal "calls of vfs_read in it" "$(grep -c '} /\* vfs_read \*/' text)" 20
unchanged "after pread64"
dive nanosleep 20 -- --functions "$FUNCTIONS"
equal "engine for nanosleep" "$(engine)" "ftrace function_graph in ENGINE"
equal "calls of nanosleep" "$(grep -c '} /\* __x64_sys_nanosleep \*/' text)" 20
equal "calls of do_nanosleep in it" "$(grep -c '} /\* do_nanosleep \*/' text)" 20
# A timer may fire before the task has left the CPU: then the task stays.
asleep=$(grep -c "sched_switch: prev_comm=calls prev_pid=$pid .*prev_state=S" text)
equal "it left the CPU to sleep, at most once a call ($asleep)" $((asleep > 0 && asleep <= 20)) 1
unchanged "after nanosleep"

# The other engines: fentry/fexit programs, on all functions that are reached and on some of a module.
dive pread64 20 FILE -- --engine fentry
equal "engine of programs that functions call" "$(engine | sed 's/ on [0-9]* functions//')" fentry/fexit
functions=$(engine | sed -n 's/.* on \([0-9]*\) functions/\1/p')
equal "functions that the call reaches, no more than 100 ($functions)" $((functions >= 80 && functions <= 100)) 1
equal "what is reached is known" "$(grep -c 'is not known' said)" 0
equal "calls by programs that functions call" "$(grep -c '} /\* __x64_sys_pread64 \*/' text)" 20
equal "calls of vfs_read in it" "$(grep -c '} /\* vfs_read \*/' text)" 20
equal "calls of rw_verify_area in it" "$(grep -c '} /\* rw_verify_area \*/' text)" 20
equal "nothing is missing" "$(grep -c ' are missing' said)" 0
unchanged "after programs that functions call"
dive pread64 20 FILE -- --engine fentry --functions 'vfs_read,v9fs_*'
functions=$(engine | sed -n 's/.* on \([0-9]*\) functions/\1/p')
equal "functions of a module too ($functions)" $((functions > 50)) 1
# Linux 6.1 reads what it has in memory without the module.
equal "calls of a module's function" "$(grep -c '} /\* v9fs_file_read_iter \*/' text)" MODULE
dive nanosleep 20 -- --engine fentry --functions 'hrtimer_nanosleep,do_nanosleep,schedule'
equal "sleeps by programs that functions call" "$(grep -c '} /\* do_nanosleep \*/' text)" 20
equal "what gives up the CPU returns" "$(grep -c '} /\* schedule \*/' text)" "$(grep -c ' schedule() {' text)"
unchanged "after sleeps by programs that functions call"

# Probes at functions (a few: one by one they take long to remove), and tracepoints.
PROBED='vfs_read,rw_verify_area,filemap_read,hrtimer_nanosleep,do_nanosleep'
dive pread64 20 FILE -- --engine probes --functions "$PROBED"
equal "engine of programs" "$(engine | sed 's/ on [0-9]* functions//')" PROBES
equal "calls by programs" "$(grep -c '} /\* __x64_sys_pread64 \*/' text)" 20
equal "calls of vfs_read in it" "$(grep -c '} /\* vfs_read \*/' text)" 20
unchanged "after programs"
dive nanosleep 20 -- --engine probes --functions "$PROBED"
equal "sleeps by programs" "$(grep -c '} /\* do_nanosleep \*/' text)" 20
asleep=$(grep -c "sched_switch: prev_comm=calls prev_pid=$pid .*prev_state=S" text)
equal "it left the CPU to sleep, at most once a call ($asleep)" $((asleep > 0 && asleep <= 20)) 1
dive nanosleep 20 -- --engine tracepoints
equal "calls by tracepoints" "$(grep -c 'sys_exit: NR 35 = ' text)" 20
equal "timers by tracepoints" "$(grep -c " hrtimer_start: .*function=hrtimer_wakeup" text)" 20
equal "timer of samples" "$(grep -c '^# dbtime sampling: period_ns=' text)" 1
equal "its own tracepoints" "$(grep -c perf_swevent_hrtimer text)" 0
unchanged "after tracepoints"

# If a dive is killed in the middle, the next one restores what it changed.
stopped CALLS nanosleep 1
$DBTIME dive -p "$pid" --call nanosleep -d 100 --functions '*nanosleep*' --raw text 2>said &
dive=$!
begun
equal "function graphs while it dives" "$(graph_is_on)" 1
equal "another dive meanwhile" "$($DBTIME dive --restore 2>&1 | grep -c "another 'dbtime dive' is running (pid $dive)")" 1
kill -9 "$dive"
wait "$dive" 2>/dev/null
equal "function graphs after kill -9" "$(graph_is_on)" 1
$DBTIME dive --restore 2>said
equal "exit code of the next one" $? 0
cat said
equal "it says that it restored" "$(grep -c "restored settings that a killed dive" said)" 1
unchanged "after kill -9 and the next dive"
kill -9 "$pid"

# If a dive is ended by a signal, it restores everything itself.
stopped CALLS nanosleep 1
$DBTIME dive -p "$pid" --call nanosleep -d 100 --functions '*nanosleep*' --raw text 2>said &
dive=$!
begun
kill -TERM "$dive"
wait "$dive"
equal "exit code after TERM, without calls" $? 3
unchanged "after TERM"
kill -9 "$pid"

# A tracer that somebody else uses is left alone.
echo vfs_fsync >$T/set_ftrace_filter
echo function >$T/current_tracer
dive nanosleep 5 -- --functions '*nanosleep*'
equal "engine beside another tracer" "$(engine | sed 's/ on [0-9]* functions//')" "BESIDE"
equal "calls beside another tracer" "$(grep -c '} /\* __x64_sys_nanosleep \*/' text)" 5
equal "the other tracer" "$(cat $T/current_tracer) of $(cat $T/set_ftrace_filter)" "function of vfs_fsync"
echo nop >$T/current_tracer
echo >$T/set_ftrace_filter
unchanged "after the other tracer"

# All functions of the kernel.
dive pread64 3 FILE -- -n 2 --engine function-graph
equal "engine for all functions" "$(engine)" "ftrace function_graph in ENGINE"
equal "calls with all functions" "$(grep -c '} /\* __x64_sys_pread64 \*/' text)" 3
equal "other system calls" "$(grep '__x64_sys_' text | grep -vc '__x64_sys_pread64')" 0
equal "tens of thousands of functions" "$(sed -n 's/^note: \([0-9]*\)[0-9][0-9][0-9][0-9] kernel functions .*/many/p' said)" many
unchanged "after all functions"
INSIDE

# test_kernel PACKAGE PLACE PROBES BESIDE MODULE: boots it; PLACE is where function_graph is available, PROBES how programs are attached,
# BESIDE the engine that is left when somebody uses the kernel's top-level trace, MODULE how often 20 reads call 9p.
test_kernel() {
    local inside=$work/${1##*/}.sh console=$work/${1##*/}.console
    make_machine "$1" "$inside"
    {
        sed "s|CALLS|$work/calls|; s|FILE --|$work/file --|; s|\$DBTIME|$repository/target/debug/dbtime|
            s|ENGINE|$2|; s|PROBES$|$3|; s|BESIDE|$4|; s|MODULE|$5|" "$work/inside"
        echo 'echo "ALL DONE"'
    } >"$inside"
    # One CPU: emulated ones that patch code that another is running wait for each other for minutes, and crash at times.
    boot_machine "$console" 400 2048 1
    if ! grep -q '^ALL DONE' "$console" || grep -q '^FAILED' "$console"; then
        tail -n 120 "$console"
        echo "failed on Linux $release" >&2
        return 1
    fi
    echo "Linux $release: $(grep -c '^ok: ' "$console") checks"
}

release_package=$(fetch_kernel release) || die "this distribution's kernel (linux-image-amd64) is not available"
# At the same time: each has one CPU.
test_kernel "$release_package" "the top-level instance" kprobes fentry/fexit 0 &
first=$!
if package=$(fetch_kernel backports); then
    test_kernel "$package" "a private instance" kprobe.multi \
        "ftrace function_graph in a private instance" 20 || failed=1
else
    without_backports=1
fi
wait "$first" || failed=1
[ -z "${failed:-}" ] || die "see above"
[ -z "${without_backports:-}" ] || skip "the kernel of this distribution's backports is not available"
