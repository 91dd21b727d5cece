#!/usr/bin/env bash
# Records a PostgreSQL on Debian's own kernel, in an emulated machine (QEMU, no KVM needed): half a minute.
#
# The kernel comes as a package and is only unpacked. The machine sees this one's files read-only and runs
# target/debug/dbtime and the installed PostgreSQL from them. Checked is what emulation leaves true: a sleeper sleeps, a
# computation computes, accounts are complete. Debian 12's kernel 6.1 lacks bpf_task_from_pid, so that this is also the
# test of the task-iterator engine.
set -euo pipefail
cd "$(dirname "$0")/.."

repository=$PWD
work=$(mktemp -d /tmp/dbtime-kernel.XXXXXX)
trap 'rm -rf "$work"' EXIT
die() {
    echo "kernel-test.sh: $*" >&2
    exit 1
}

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    [ "${CI:-}" != true ] || die "needs root and apt-get"
    echo "SKIPPED: the test on another kernel needs root and apt-get"
    exit 0
fi
binaries=$(dirname "$(find /usr/lib/postgresql -path '*/bin/initdb' | sort -V | tail -n 1)")

# The kernel, and the modules it needs to see this machine's files.
cached=target/kernels
mkdir -p "$cached"
package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
[ -n "$package" ] || die "this distribution has no package linux-image-amd64"
if ! compgen -G "$cached/${package}_*.deb" >/dev/null; then
    rm -f "$cached"/linux-image-*.deb
    (cd "$cached" && apt-get download "$package" 2>/dev/null) || die "the package $package cannot be had"
fi
dpkg -x "$cached/${package}"_*.deb "$work/kernel"
release=$(basename "$work"/kernel/lib/modules/*)
PATH=$PATH:/usr/sbin depmod -b "$work/kernel" "$release"
mkdir -p "$work"/init/{bin,modules,proc,sys,dev,host}
cp /bin/busybox "$work/init/bin/"
modules=()
while read -r _ module; do
    cp "$module" "$work/init/modules/"
    modules+=("$(basename "$module")")
done < <(for name in virtio_pci 9pnet_virtio 9p; do
    PATH=$PATH:/usr/sbin modprobe -d "$work/kernel" -S "$release" --show-depends "$name"
done | grep '^insmod' | awk '!seen[$0]++')
cat >"$work/init/init" <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in ${modules[*]}; do /bin/busybox insmod /modules/\$module; done
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=524288,cache=loose host /host
for there in proc sys dev; do /bin/busybox mount -o bind /\$there /host/\$there; done
/bin/busybox mount -t tmpfs tmpfs /host/mnt
/bin/busybox mkdir -p /host/dev/shm
/bin/busybox mount -t tmpfs tmpfs /host/dev/shm
/bin/busybox chroot /host /bin/bash $work/inside.sh
/bin/busybox poweroff -f
INIT
chmod 755 "$work/init/init"
(cd "$work/init" && find . | cpio -o -H newc 2>/dev/null | gzip -1 >"$work/initrd.gz")

# initdb is slow under emulation: the cluster is made here.
install -d -o postgres "$work/data"
chmod 711 "$work"
su postgres -c "$binaries/initdb -D $work/data -A trust" >/dev/null
cat >>"$work/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '/mnt'
shared_buffers = '16MB'
fsync = off
CONF
cat >"$work/inside.sh" <<INSIDE
export PATH=$binaries:/usr/sbin:/usr/bin:/sbin:/bin
chmod 1777 /mnt
cp -a $work/data /mnt/data
su postgres -c "$binaries/pg_ctl -D /mnt/data -l /mnt/log -w -t 120 start" >/dev/null || cat /mnt/log
(su postgres -c "$binaries/psql -h /mnt -qc 'SELECT pg_sleep(100)'" >/dev/null 2>&1 &)
(su postgres -c "$binaries/psql -h /mnt -qc 'SELECT sum(sqrt(i)) FROM generate_series(1, 1000000000) i'" >/dev/null 2>&1 &)
sleep 4
$repository/target/debug/dbtime record --postgres /mnt/data -d 6 -o /mnt/r.dbt
echo "RECORD EXIT \$?"
for level in switch calls; do
    $repository/target/debug/dbtime record --postgres /mnt/data -d 4 --exact=\$level --wakers -o /mnt/\$level.dbt
    echo "EXACT EXIT \$?"
done
echo "JSON BEGIN"
$repository/target/debug/dbtime report /mnt/r.dbt --format json
echo "JSON END"
for level in switch calls; do
    $repository/target/debug/dbtime report /mnt/\$level.dbt --format json
    echo "EXACT END"
done
INSIDE

timeout 300 qemu-system-x86_64 -cpu max -accel tcg,thread=multi -smp 2 -m 3072 -nographic -no-reboot \
    -kernel "$work"/kernel/boot/vmlinuz-* -initrd "$work/initrd.gz" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check" \
    -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=host,mount_tag=host </dev/null 2>&1 | tr -d '\r' >"$work/console" || true

python3 - "$work/console" "$release" <<'CHECK' || { tail -n 60 "$work/console"; die "failed on Linux $release"; }
import json, sys
text = open(sys.argv[1], errors="replace").read()
assert "RECORD EXIT 0" in text, "record did not end well"
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
assert text.count("EXACT EXIT 0") == 2, "record --exact did not end well"
for exact in text.split("JSON END\n")[1].split("EXACT END")[:2]:
    exact = json.loads(exact)
    for session in exact["sessions"]:
        assert abs(session["accounted_ns"] - session["elapsed_ns"]) <= 0.001 * session["elapsed_ns"], session
    row = {(r["wait_class"], r["wait_event"]): r for r in exact["ledger"] if r["section"] == "db_time"}
    assert row["Timeout", "PgSleep"]["sleep_ns"] >= 0.999 * row["Timeout", "PgSleep"]["total_ns"] > 3e9, row
    assert exact["quality"]["lost"] == 0, exact["quality"]
print(f"Linux {sys.argv[2]}: recorded with the {report['meta']['engine']}, {report['quality']['samples']} samples")
CHECK
