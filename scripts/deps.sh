#!/usr/bin/env bash
# Installs with apt-get what dbtime needs and this machine lacks (Debian 12 or later, a current Ubuntu).
#
#   scripts/deps.sh GROUP…     GROUP is one or more of
#     build   compile dbtime: C compiler, clang >= 16, libelf, zlib, pkg-config (Rust itself is only looked for)
#     demo    run the demonstration: a PostgreSQL server >= 14 with pgbench
#     package make a Debian package: dpkg-dev
#     test    what the test suite needs besides: dpkg-dev, lintian, Maven, Java, xz, zip, unzip, Python with venv, fio, iproute2,
#             Go and Node (readers of exports), Chromium (reader of pages), debuginfod, perf, bpftrace, libbpf-tools, sysbench
#     lint    check sources: Node with npm, shellcheck
#     kernels what the test on another kernel needs: QEMU, busybox, cpio, kmod
#
# Presence is judged by files and commands, so a machine that has everything never runs a package manager.
set -euo pipefail

# The BPF programs use signed division, which older versions of clang cannot compile for BPF.
readonly CLANG_MIN=16
# The first release that exports my_wait_event_info.
readonly POSTGRES_MIN=14
readonly PRESET=/etc/postgresql-common/createcluster.d/dbtime.conf

missing=()
need_clang=no
need_postgres=no
need_kcache=no

die() {
    echo "deps.sh: $*" >&2
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# One header test for both layouts: Debian puts some headers below the multiarch directory.
have_header() {
    compgen -G "/usr/include/$1" >/dev/null || compgen -G "/usr/include/*/$1" >/dev/null
}

have_clang() {
    local command version
    for command in clang $(compgen -c clang- | grep -E '^clang-[0-9]+$' || true); do
        version=$("$command" -dumpversion 2>/dev/null) || continue
        [ "${version%%.*}" -lt "$CLANG_MIN" ] || return 0
    done
    return 1
}

have_postgres() {
    local directory version
    for directory in /usr/lib/postgresql/*/bin "$(dirname "$(command -v postgres || echo /nowhere/postgres)")"; do
        if [ ! -x "$directory/postgres" ] || [ ! -x "$directory/initdb" ] || [ ! -x "$directory/pgbench" ]; then
            continue
        fi
        version=$("$directory/postgres" --version | grep -oE '[0-9]+' | head -n 1)
        [ "$version" -lt "$POSTGRES_MIN" ] || return 0
    done
    return 1
}

have_kcache() {
    ls /usr/share/postgresql/*/extension/pg_stat_kcache.control >/dev/null 2>&1
}

check_build() {
    if ! have cargo && [ ! -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        die "no Rust toolchain: install one with rustup (https://rustup.rs), then run this again"
    fi
    if ! have cc || ! have make; then missing+=(build-essential); fi
    have_header libelf.h || missing+=(libelf-dev)
    have_header zlib.h || missing+=(zlib1g-dev)
    have pkg-config || missing+=(pkg-config)
    have_clang || need_clang=yes
}

check_demo() {
    have_postgres || need_postgres=yes
}

check_package() {
    have dpkg-shlibdeps || missing+=(dpkg-dev)
}

check_test() {
    check_package
    have lintian || missing+=(lintian)
    have java || missing+=(default-jre-headless)
    have mvn || missing+=(maven)
    have xz || missing+=(xz-utils)
    have unzip || missing+=(unzip)
    have zip || missing+=(zip)
    have fio || missing+=(fio)
    have ip || missing+=(iproute2)
    have go || missing+=(golang-go)
    have node || missing+=(nodejs)
    have npm || missing+=(npm)
    # Ubuntu's is a snap, which cannot be installed everywhere.
    have chromium || grep -qx 'ID=ubuntu' /etc/os-release || missing+=(chromium)
    have strace || missing+=(strace)
    have sysbench || missing+=(sysbench)
    [ -x /usr/bin/time ] || missing+=(time)
    # Server and client of debug files.
    if ! have debuginfod || ! have debuginfod-find; then missing+=(debuginfod); fi
    # Tests of dives need it. systemd mounts it on first use; without systemd, nobody does.
    [ -e /sys/kernel/tracing/trace ] || as_root mount -t tracefs nodev /sys/kernel/tracing ||
        echo "deps.sh: tracefs cannot be mounted: tests of dives will fail" >&2
    # What runs beside recordings.
    have perf || missing+=("$(perf_package)")
    have bpftrace || missing+=(bpftrace)
    have offcputime || [ -x /usr/sbin/offcputime ] || missing+=(libbpf-tools)
    # An independent source for the CPU of statements.
    have_kcache || need_kcache=yes
    # Debian splits ensurepip off: python3 alone makes environments without pip.
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
}

# Debian's package has another name than Ubuntu's.
perf_package() {
    if grep -qx 'ID=ubuntu' /etc/os-release; then echo linux-tools-generic; else echo linux-perf; fi
}

check_lint() {
    have node || missing+=(nodejs)
    have npm || missing+=(npm)
    have shellcheck || missing+=(shellcheck)
}

check_kernels() {
    have qemu-system-x86_64 || missing+=(qemu-system-x86)
    [ -x /bin/busybox ] || missing+=(busybox-static)
    have cpio || missing+=(cpio)
    [ -x /usr/sbin/depmod ] || have depmod || missing+=(kmod)
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        have sudo || die "must be root, or have sudo, to run: $*"
        sudo "$@"
    fi
}

# Debian 12 has 16, which is tested with dbtime; elsewhere the newest that the distribution offers.
clang_package() {
    local newest
    if grep -qx 'ID=debian' /etc/os-release && grep -qx 'VERSION_ID="12"' /etc/os-release; then
        echo clang-16
        return
    fi
    newest=$(apt-cache search --names-only '^clang-[0-9]+$' | sed -E 's/^clang-([0-9]+) .*/\1/' | sort -n | tail -n 1)
    [ "${newest:-0}" -ge "$CLANG_MIN" ] ||
        die "this release offers no clang >= $CLANG_MIN (newest: ${newest:-none}); install one and run this again"
    echo "clang-$newest"
}

install_missing() {
    local package
    have apt-get || die "no apt-get here; install yourself: ${missing[*]}" \
        "$([ "$need_clang" = no ] || echo "clang (>= $CLANG_MIN)")" \
        "$([ "$need_postgres" = no ] || echo "postgresql (>= $POSTGRES_MIN, with pgbench)")"
    as_root apt-get update
    if [ "$need_clang" = yes ]; then
        package=$(clang_package)
        missing+=("$package")
    fi
    if [ "$need_postgres" = yes ]; then
        missing+=(postgresql)
        # dbtime only wants the programs. Without this the package would create and start a cluster; the preset goes
        # away again so that a server package the owner of the machine installs later behaves as usual.
        as_root mkdir -p "$(dirname "$PRESET")"
        trap 'as_root rm -f "$PRESET"' EXIT
        echo 'create_main_cluster = false' | as_root tee "$PRESET" >/dev/null
    fi
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --no-install-recommends "${missing[@]}" ||
        die "apt-get could not install: ${missing[*]}"
    [ "$need_clang" = no ] || have_clang || die "installed $package, but there is still no clang >= $CLANG_MIN"
    [ "$need_postgres" = no ] || have_postgres || die "this release offers no PostgreSQL >= $POSTGRES_MIN"
    if [ "$need_kcache" = yes ]; then
        # For the server that the tests start: the newest.
        package=postgresql-$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -n 1)-pg-stat-kcache
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$package" ||
            die "apt-get could not install: $package"
    fi
}

[ $# -gt 0 ] || set -- --help
for group in "$@"; do
    case $group in
    build | demo | package | test | lint | kernels) "check_$group" ;;
    *)
        echo "usage: scripts/deps.sh build|demo|package|test|lint|kernels …" >&2
        exit 2
        ;;
    esac
done

if [ ${#missing[@]} -gt 0 ] || [ "$need_clang" = yes ] || [ "$need_postgres" = yes ] || [ "$need_kcache" = yes ]; then
    install_missing
fi
