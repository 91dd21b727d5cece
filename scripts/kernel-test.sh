#!/usr/bin/env bash
# Records a PostgreSQL on Debian's own kernel, in an emulated machine (QEMU, no KVM needed): two minutes.
#
# What remains true under emulation is checked: a sleeper sleeps, a computation computes, accounts are complete. Debian 12's kernel 6.1
# lacks bpf_task_from_pid, so this also tests the task-iterator engine; scripts/kernel-test.sh backports records on the kernel of the
# backports (6.12), with the pid-list engine.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/kernel-machine.sh
. scripts/kernel-machine.sh

binaries=$(dirname "$(find /usr/lib/postgresql -path '*/bin/initdb' | sort -V | tail -n 1)")
if ! package=$(fetch_kernel "${1:-release}"); then
    [ "${1:-release}" = release ] || skip "the kernel of this distribution's $1 is not available"
    die "this distribution's kernel (linux-image-amd64) is not available"
fi

# initdb is slow under emulation, so the cluster is made here.
install -d -o postgres "$work/data"
chmod 711 "$work"
su postgres -c "$binaries/initdb -D $work/data -A trust" >/dev/null
cat >>"$work/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '/mnt'
shared_buffers = '16MB'
fsync = off
# A minute after the start, in the middle of a recording, autovacuum's workers would begin, and the sleeper would be woken: the alarm of
# this timeout goes off although the client was authenticated long ago.
autovacuum = off
authentication_timeout = 600
# Compiling the computation takes 0.1 s on a real machine, and here longer than a recording.
jit = off
CONF
cat >"$work/inside.sh" <<INSIDE
export PATH=$binaries:/usr/sbin:/usr/bin:/sbin:/bin
chmod 1777 /mnt
cp -a $work/data /mnt/data
su postgres -c "$binaries/pg_ctl -D /mnt/data -l /mnt/log -w -t 120 start" >/dev/null || cat /mnt/log
(su postgres -c "$binaries/psql -h /mnt -qc 'SELECT pg_sleep(1000)'" >/dev/null 2>&1 &)
(su postgres -c "$binaries/psql -h /mnt -qc 'SELECT sum(sqrt(i)) FROM generate_series(1, 1000000000) i'" >/dev/null 2>&1 &)
# From now on the computation computes and spills: the machine is slow, so starting a session may take longer than a recording.
until ls /mnt/data/base/pgsql_tmp/* >/dev/null 2>&1; do sleep 1; done
$repository/target/debug/dbtime record --statistics --postgres /mnt/data -d 6 -o /mnt/r.dbt
echo "RECORD EXIT \$?"
for level in switch calls; do
    $repository/target/debug/dbtime record --postgres /mnt/data -d 4 --exact=\$level --wakers -o /mnt/\$level.dbt
    echo "EXACT EXIT \$?"
done
echo "SCHED BEGIN"
$repository/target/debug/dbtime sched --postgres /mnt/data -d 3 --summary --format json
echo "SCHED EXIT \$?"
(for n in 1 2 3 4 5 6 7 8 9; do su postgres -c "$binaries/psql -h /mnt -qAtc 'SELECT count(*) FROM pg_class'" >/dev/null 2>&1; done &)
echo "LATCH BEGIN"
$repository/target/debug/dbtime latch --exact --postgres /mnt/data -d 5 --format json
echo "LATCH EXIT \$?"
echo "SNAP BEGIN"
$repository/target/debug/dbtime snap 3 1 all --postgres /mnt/data --format json
echo "SNAP EXIT \$?"
# This is a terminal, where slow commands say that they are working: not in the middle of JSON.
report() { $repository/target/debug/dbtime report "\$@" --format json 2>/mnt/said || cat /mnt/said; }
echo "JSON BEGIN"
report /mnt/r.dbt
echo "JSON END"
report /mnt/r.dbt --snapshot
echo "SNAPSHOT END"
for level in switch calls; do
    report /mnt/\$level.dbt
    echo "EXACT END"
done
INSIDE

make_machine "$package" "$work/inside.sh"
boot_machine "$work/console" 600 3072 2

# The failure is printed last, below the output of the machine.
python3 - "$work/console" "$release" 2>"$work/failure" <<'CHECK' || { tail -n 60 "$work/console"; grep -a -A 14 'dbtime: \| EXIT ' "$work/console" || true; cat "$work/failure" >&2; die "failed on Linux $release"; }
import json, sys
text = open(sys.argv[1], errors="replace").read()
assert "RECORD EXIT 0" in text, "record did not end well"
assert text.count("EXACT END") == 2, "the machine did not come to its end in time"
assert "LATCH EXIT 0" in text, "latch --exact did not end well"
assert "SCHED EXIT 0" in text, "sched did not end well"
switches = text.split("SCHED BEGIN")[1].split("SCHED EXIT")[0]
queries = json.loads(switches[switches.index("{\"sched\""):])["sched"]["statements"]
computing = [query for query in queries if "sqrt" in (query["text"] or "")]
assert len(computing) == 1 and computing[0]["run_ns"] > 1e9, queries
latches = text.split("LATCH BEGIN")[1].split("LATCH EXIT")[0]
exact = json.loads(latches[latches.index("{"):])["exact"]
assert exact["gets"] > 100 and exact["lost"] == 0, exact
assert "SNAP EXIT 0" in text, "snap did not end well"
snapped = text.split("SNAP BEGIN")[1].split("SNAP EXIT")[0]
waits = {line["name"] for session in json.loads(snapped[snapped.index("{"):])["sessions"] for line in session["lines"] if line["type"] == "WAIT"}
assert "Timeout:PgSleep" in waits, waits
report = json.loads(text.split("JSON BEGIN\n")[1].split("\nJSON END")[0])
assert report["meta"]["host"]["kernel"] == sys.argv[2], report["meta"]["host"]
row = {(r["wait_class"], r["wait_event"]): r for r in report["ledger"] if r["section"] == "db_time"}
sleeper, computing = row["Timeout", "PgSleep"], row["CPU", "CPU"]
assert sleeper["sleep_ns"] >= 0.99 * sleeper["total_ns"] > 5e9, sleeper
# The result set spills to files, in a wait event of its own; runnable because the machine is small.
assert computing["user_ns"] + computing["kernel_ns"] + computing["runnable_ns"] >= 0.95 * computing["total_ns"] > 4e9, computing
for session in report["sessions"]:
    assert abs(session["accounted_ns"] - session["elapsed_ns"]) <= 0.01 * session["elapsed_ns"], session
assert report["quality"]["samples"] > 1000 and report["quality"]["lost"] == 0, report["quality"]
# Where the sampler walks over all tasks, nothing notes moments: the report says so.
assert any("no timer that notes" in reason for reason in report["quality"]["reasons"]) != ("pid-list" in report["meta"]["engine"]), report["quality"]["reasons"]
snapshot = json.loads(text.split("\nJSON END\n")[1].split("SNAPSHOT END")[0])
counted = {line["name"] for session in snapshot["sessions"] for line in session["lines"] if line["type"] == "STAT"}
# What else grows within six seconds depends on how slow the emulation is.
assert counted >= {"utime", "voluntary_ctxt_switches", "wchar", "syscw"}, counted
assert text.count("EXACT EXIT 0") == 2, "record --exact did not end well"
for exact in text.split("SNAPSHOT END\n")[1].split("EXACT END")[:2]:
    exact = json.loads(exact)
    for session in exact["sessions"]:
        # Of one that begins in the last moment there are samples, but no time yet.
        elapsed_ns = session["elapsed_ns"] or 0
        assert abs(session["accounted_ns"] - elapsed_ns) <= 0.001 * elapsed_ns, session
    row = {(r["wait_class"], r["wait_event"]): r for r in exact["ledger"] if r["section"] == "db_time"}
    assert row["Timeout", "PgSleep"]["sleep_ns"] >= 0.999 * row["Timeout", "PgSleep"]["total_ns"] > 3e9, row
    assert exact["quality"]["lost"] == 0, exact["quality"]
print(f"Linux {sys.argv[2]}: recorded with the {report['meta']['engine']}, {report['quality']['samples']} samples")
CHECK
