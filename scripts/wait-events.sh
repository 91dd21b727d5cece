#!/usr/bin/env bash
# Makes the tables of PostgreSQL wait events, crates/collect/src/postgres/wait_events/MAJOR.tsv, and verifies them.
#
#   scripts/wait-events.sh [--check] [MAJOR…]     all majors below target/postgres by default
#
# The names come from the server itself: for every builtin id a debugger has an idle backend of a throw-away server call
# pgstat_get_wait_event_type() and pgstat_get_wait_event(), the functions behind pg_stat_activity. The table is then
# compared with two sources that share nothing with the way it was made: from 17 on, the view pg_wait_events; for every
# version, pg_stat_activity against *my_wait_event_info read from the memory of each process. Only a table that passes
# is installed. With --check nothing is installed: what the server says must be in the installed table.
#
# Needs scripts/postgres-builds.sh to have run, gdb, psql, and root or a system that lets a user trace any process of
# his own (kernel.yama.ptrace_scope=0). A new major: add its build to postgres-builds.sh, run this, list the new table in
# wait_events.rs. POSTGRES_BUILDS=/usr/lib/postgresql checks the distribution's server instead.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022

readonly TABLES=crates/collect/src/postgres/wait_events
readonly BUILDS=${POSTGRES_BUILDS:-target/postgres}

die() {
    echo "wait-events.sh: $*" >&2
    exit 1
}

# The server refuses to run as root: root runs it under an account that owns nothing.
as_server_user() {
    if [ "$(id -u)" -eq 0 ]; then
        (cd / && exec runuser -u nobody -- "$@")
    else
        "$@"
    fi
}

sql() {
    psql --no-psqlrc --quiet --no-align --tuples-only --field-separator=$'\t' --host="$work" --username=dbtime \
        --dbname=postgres --set=ON_ERROR_STOP=1 "$@"
}

quiet_gdb() {
    # A process that never answers would hang the call: the limit turns that into a failure.
    timeout 120 gdb -nx -batch -iex 'set debuginfod enabled off' -iex 'set auto-load off' "$@"
}

start_server() {
    as_server_user "$bin/initdb" --pgdata="$work/data" --username=dbtime --auth=trust --encoding=UTF8 --locale=C \
        --no-sync >"$work/initdb.log" 2>&1 || die "initdb failed: $(tail -n 3 "$work/initdb.log")"
    # The archiver is there to have one more background process to compare.
    as_server_user "$bin/pg_ctl" start --silent --wait --pgdata="$work/data" --log="$work/data/server.log" \
        --options="-c listen_addresses= -c unix_socket_directories=$work -c fsync=off -c shared_buffers=16MB \
                   -c archive_mode=on -c archive_command=true" \
        >/dev/null || die "the server of PostgreSQL $major does not start: $(tail -n 3 "$work/data/server.log")"
}

stop_server() {
    [ -n "${work:-}" ] || return 0
    exec 7>&-
    if [ -e "$work/data/postmaster.pid" ]; then
        as_server_user "$bin/pg_ctl" stop --silent --mode=immediate --pgdata="$work/data" || true
    fi
    rm -rf "$work"
    work=
}

# Sessions in known states: waiting for its client, for a lock, for a timeout.
start_sessions() {
    exec 7> >(sql >/dev/null 2>&1)
    echo "set application_name = 'holder'; select pg_advisory_lock(1);" >&7
    wait_until holder "state = 'idle' and wait_event = 'ClientRead'"
    PGAPPNAME=waiter sql --command='select pg_advisory_lock(1)' >/dev/null 2>&1 &
    PGAPPNAME=sleeper sql --command='select pg_sleep(3600)' >/dev/null 2>&1 &
    wait_until waiter "wait_event = 'advisory'"
    wait_until sleeper "wait_event = 'PgSleep'"
}

wait_until() {
    local name=$1 condition=$2 attempt
    for attempt in {1..100}; do
        [ -z "$(sql --command="select 1 from pg_stat_activity where application_name = '$name' and $condition")" ] ||
            return 0
        sleep 0.1
    done
    die "session $name did not reach: $condition ($attempt attempts)"
}

# Writes the rows of the table: id, class, name.
read_names() {
    local pid
    pid=$(sql --command="select pid from pg_stat_activity where application_name = 'holder'")
    cat >"$work/names.py" <<'PYTHON'
import gdb
import os

ID_MAX = 0xFFFF  # the server looks at 16 bits
GAP = 64  # builtin ids may have gaps, but none this wide
UNKNOWN = ("unknown wait event", "???")
AT_RUN_TIME = object()

gdb.execute("set confirm off")
gdb.execute("set language c")
# The name of an id that was never registered is an error in some versions. elog(ERROR) would leave the called function
# by longjmp, which gdb cannot follow; a breakpoint stops it before that.
for function in ("errstart", "errstart_cold"):
    gdb.Breakpoint(function)


def call(function, info):
    try:
        text = gdb.parse_and_eval(f"((const char *(*)(unsigned int)) {function})({info}u)")
    except gdb.error as error:
        frames = []
        frame = gdb.newest_frame()
        while frame is not None and frame.type() != gdb.DUMMY_FRAME:
            frames.append(frame)
            frame = frame.older()
        names = [each.name() for each in frames]
        if frame is None or not any(name in ("errstart", "errstart_cold") for name in names):
            raise error
        frames[-1].select()
        gdb.execute("return")
        return AT_RUN_TIME
    return None if int(text) == 0 else text.string()


def rows(class_id, class_name):
    # From some id on, names are given at run time (extensions' LWLock tranches, custom wait events): one row, its name
    # ending in "#", stands for all of them.
    last = call("pgstat_get_wait_event", class_id | ID_MAX)
    gap = 0
    for number in range(ID_MAX):
        info = class_id | number
        name = call("pgstat_get_wait_event", info)
        if name is AT_RUN_TIME:
            yield info, "custom#"
            return
        if class_name == "LWLock" and name == "extension":
            yield info, "extension#"
            return
        if name is None or name in UNKNOWN or name.startswith("<unassigned"):
            gap += 1
            if gap > GAP:
                return
            continue
        gap = 0
        yield info, name
        if name == last:  # the class has one event, whatever the id
            return


with open(os.environ["NAMES"], "w", encoding="ascii") as table:
    for byte in range(1, 256):
        class_id = byte << 24
        class_name = call("pgstat_get_wait_event_type", class_id)
        if class_name is None or class_name in UNKNOWN:
            continue
        for info, name in rows(class_id, class_name):
            table.write(f"0x{info:08X}\t{class_name}\t{name}\n")
PYTHON
    NAMES=$work/names quiet_gdb -p "$pid" -x "$work/names.py" >"$work/gdb.log" 2>&1 ||
        die "gdb failed on PostgreSQL $major: $(tail -n 5 "$work/gdb.log")"
    [ -s "$work/names" ] || die "gdb found no names in PostgreSQL $major: $(tail -n 5 "$work/gdb.log")"
    [ -n "$(sql --command="select 1 from pg_stat_activity where application_name = 'holder'")" ] ||
        die "the backend did not survive the calls"
}

# From 17 on the server lists its own events.
compare_with_view() {
    [ "$major" -ge 17 ] || return 0
    sql --command='select type, name from pg_wait_events' | LC_ALL=C sort >"$work/view"
    cut -f 2,3 "$work/names" | grep -v '#$' | LC_ALL=C sort >"$work/listed"
    diff "$work/view" "$work/listed" >"$work/difference" ||
        die "pg_wait_events (<) and the table (>) of PostgreSQL $major differ: $(cat "$work/difference")"
    echo "  pg_wait_events: $(wc -l <"$work/view") names, all identical"
}

waiting() {
    sql --command='select wait_event_type, wait_event from pg_stat_activity where pid = '"$1"' and wait_event is not null'
}

# What the memory of each process says must be what the server shows for it.
compare_with_activity() {
    local pid before info memory compared=()
    for pid in $(sql --command='select pid from pg_stat_activity where pid <> pg_backend_pid() order by pid'); do
        before=$(waiting "$pid")
        info=$(quiet_gdb -p "$pid" -ex 'printf "info 0x%08X\n", **(unsigned int **) &my_wait_event_info' 2>/dev/null |
            sed -n 's/^info //p')
        # Only a process that stayed in its wait can be compared.
        if [ -z "$before" ] || [ "$before" != "$(waiting "$pid")" ]; then continue; fi
        memory=$(awk -F '\t' -v info="$info" '$1 == info { print $2 "\t" $3 }' "$work/names")
        [ "$memory" = "$before" ] ||
            die "PostgreSQL $major, process $pid: memory has $info (${memory:-not in the table}), the server says $before"
        compared+=("${before/$'\t'/:}")
    done
    for expected in Client:ClientRead Lock:advisory Timeout:PgSleep; do
        [[ " ${compared[*]} " == *" $expected "* ]] || die "PostgreSQL $major: no process in $expected could be compared"
    done
    echo "  pg_stat_activity: ${#compared[@]} processes, all identical: ${compared[*]}"
}

make_table() {
    local major=$1 bin version
    bin=$(cd "$BUILDS/$major/bin" && pwd) || die "no build of PostgreSQL $major; run: scripts/postgres-builds.sh $major"
    as_server_user test -x "$bin/postgres" || die "the server's account cannot execute $bin/postgres"
    work=$(mktemp -d "${TMPDIR:-/tmp}/wait-events.XXXXXX")
    [ "$(id -u)" -ne 0 ] || chown nobody "$work"
    trap stop_server EXIT
    start_server
    start_sessions
    version=$(sql --command='show server_version')
    echo "PostgreSQL $version"
    read_names
    compare_with_view
    compare_with_activity
    {
        echo "# Wait events of PostgreSQL $major: id, class, name. Made by scripts/wait-events.sh from the server $version."
        cat "$work/names"
    } >"$work/table"
    if [ "$check" = no ]; then
        cp "$work/table" "$TABLES/$major.tsv"
        chmod 644 "$TABLES/$major.tsv"
        echo "  $TABLES/$major.tsv: $(wc -l <"$work/names") events"
    else
        compare_with_installed
    fi
    stop_server
}

# Minor releases append events to a class (15.19 has one more than 15.18) and never moved an id, so what any minor release
# has must be in the installed table, made from the newest; rows that an older one lacks are shown. The earliest ones
# (14.0, 15.1, 17.0) fail here for the spelling of a few LWLock names, corrected later.
compare_with_installed() {
    tail -n +2 "$TABLES/$major.tsv" | LC_ALL=C sort >"$work/installed"
    LC_ALL=C sort "$work/names" >"$work/sorted"
    LC_ALL=C comm -13 "$work/installed" "$work/sorted" >"$work/difference"
    [ ! -s "$work/difference" ] ||
        die "$TABLES/$major.tsv lacks or contradicts: $(cat "$work/difference")"
    echo "  $TABLES/$major.tsv: $(wc -l <"$work/sorted") events, all identical"
    LC_ALL=C comm -23 "$work/installed" "$work/sorted" | sed 's/^/  not in this server: /'
}

for command in gdb psql; do
    command -v "$command" >/dev/null || die "$command is missing"
done
check=no
if [ "${1:-}" = --check ]; then
    check=yes
    shift
fi
if [ $# -eq 0 ]; then
    mapfile -t majors < <(find "$BUILDS" -mindepth 1 -maxdepth 1 -name '[0-9]*' -printf '%f\n' | sort -n)
    [ ${#majors[@]} -gt 0 ] || die "no builds in $BUILDS; run: scripts/postgres-builds.sh"
    set -- "${majors[@]}"
fi
mkdir -p "$TABLES"
for major in "$@"; do
    make_table "$major"
done
