# shellcheck shell=bash
# Debian's kernels in an emulated machine (QEMU, no KVM needed), for the scripts that source this.
#
# A kernel comes as a package and is only unpacked. The machine sees this one's files read-only, and runs a script from them, with its
# output on the console; /mnt, /run and /dev/shm are its own and empty.

repository=$PWD
cached=$repository/target/kernels
work=$(mktemp -d /tmp/dbtime-kernel.XXXXXX)
trap 'rm -rf "$work"' EXIT
PATH=$PATH:/usr/sbin

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# Ends the script because what it needs is not available here. In CI that is a failure.
skip() {
    [ "${CI:-}" != true ] || die "$*"
    echo "SKIPPED: ${0##*/}: $*"
    exit 0
}

[ "$(id -u)" -eq 0 ] || skip "the test on another kernel needs root"
command -v apt-get >/dev/null || skip "the test on another kernel needs apt-get"

# Makes apt use the backports of this release instead of the machine's own sources, on the same mirror.
backports=()
use_backports() {
    local mirror codename label
    # shellcheck disable=SC2016 # apt fills these in.
    read -r mirror codename label < <(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(LABEL)' \
        'Created-By: Packages' 2>/dev/null | awk '$3 == "Debian" && $2 !~ /-/') || true
    [ "${label:-}" = Debian ] || return 1
    mkdir -p "$work/lists/partial"
    echo "deb $mirror $codename-backports main" >"$work/backports.list"
    backports=(-o "Dir::Etc::SourceList=$work/backports.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$work/lists" -o APT::Sandbox::User=root)
    apt-get "${backports[@]}" update >/dev/null 2>&1
}

# fetch_kernel release|backports: prints the file of the newest kernel package, downloading it if it has changed.
fetch_kernel() {
    local options=() of=$1 package
    if [ "$of" = backports ]; then
        use_backports || return 1
        options=("${backports[@]}")
    fi
    package=$(apt-cache "${options[@]}" depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
    [ -n "$package" ] || return 1
    mkdir -p "$cached/$of"
    if ! compgen -G "$cached/$of/${package}_*.deb" >/dev/null; then
        rm -f "$cached/$of"/linux-image-*.deb
        (cd "$cached/$of" && apt-get "${options[@]}" download "$package" >/dev/null 2>&1) || return 1
    fi
    compgen -G "$cached/$of/${package}_*.deb"
}

# make_machine PACKAGE SCRIPT: unpacks a kernel and makes what it boots into; sets $kernel (folder) and $release.
make_machine() {
    local init modules=() module name
    kernel=$work/$(basename "$1" .deb)
    dpkg -x "$1" "$kernel"
    release=$(basename "$kernel"/lib/modules/*)
    depmod -b "$kernel" "$release"
    init=$kernel/init
    mkdir -p "$init"/{bin,modules,proc,sys,dev,host}
    cp /bin/busybox "$init/bin/"
    while read -r _ module; do
        cp "$module" "$init/modules/"
        modules+=("$(basename "$module")")
    done < <(for name in virtio_pci 9pnet_virtio 9p; do
        modprobe -d "$kernel" -S "$release" --show-depends "$name"
    done | grep '^insmod' | awk '!seen[$0]++')
    cat >"$init/init" <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in ${modules[*]}; do /bin/busybox insmod /modules/\$module; done
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=524288,cache=loose host /host
for there in proc sys dev; do /bin/busybox mount -o bind /\$there /host/\$there; done
/bin/busybox mount -t tracefs tracefs /host/sys/kernel/tracing
for own in mnt run; do /bin/busybox mount -t tmpfs tmpfs /host/\$own; done
/bin/busybox mkdir -p /host/dev/shm
/bin/busybox mount -t tmpfs tmpfs /host/dev/shm
/bin/busybox chroot /host /bin/bash $2
/bin/busybox poweroff -f
INIT
    chmod 755 "$init/init"
    (cd "$init" && find . | cpio -o -H newc 2>/dev/null | gzip -1 >"$kernel/initrd.gz")
}

# boot_machine CONSOLE SECONDS MEGABYTES CPUS: runs the machine to its end, for at most SECONDS. All its CPUs share one thread: with one
# each (QEMU 7.2), a CPU that patches code that another is running may wait for it for minutes. In 3 of some 300 recordings one CPU got no
# timer interrupts any more, and the other never returned from dbtime's system call. A machine that hangs says where, and ends.
boot_machine() {
    timeout "$2" qemu-system-x86_64 -cpu max -accel tcg,thread=single -smp "$4" -m "$3" -nographic -no-reboot \
        -kernel "$kernel"/boot/vmlinuz-* -initrd "$kernel/initrd.gz" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check softlockup_panic=1 softlockup_all_cpu_backtrace=1" \
        -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=host,mount_tag=host </dev/null 2>&1 | tr -d '\r' >"$1" || true
}
