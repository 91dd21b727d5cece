#!/usr/bin/env bash
# Makes dbtime_VERSION_ARCH.deb from what 'make install' installs: there is no second list of files.
#
#   scripts/deb.sh BINARY DIRECTORY     the command that was built, and where to put the package
#
# The same commit and the same binary give the same package: it has the date of the last commit (or SOURCE_DATE_EPOCH), and its
# author as maintainer (or DEBFULLNAME and DEBEMAIL).
set -euo pipefail
umask 022
export LC_ALL=C

[ $# -eq 2 ] || {
    echo "usage: scripts/deb.sh BINARY DIRECTORY" >&2
    exit 2
}
binary=$(realpath "$1")
directory=$(realpath "$2")
cd "$(dirname "$0")/.."
[ -x "$binary" ] || {
    echo "deb.sh: $binary is not there: run 'make build' first" >&2
    exit 1
}

version=$("$binary" --version)
readonly version=${version#dbtime }
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
maintainer="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"

work=$(mktemp -d "$directory/deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
readonly root=$work/root
readonly doc=$root/usr/share/doc/dbtime
mkdir -p "$root/DEBIAN" "$root/etc/dbtime" "$work/debian"
# mktemp makes directories that nobody else may enter.
chmod 755 "$work" "$root"

"${MAKE:-make}" --silent --no-print-directory install DESTDIR="$root" PREFIX=/usr BINARY="$binary"
strip --strip-unneeded "$root/usr/bin/dbtime"
# The example becomes the file that the unit reads; dpkg keeps changes to it.
mv "$doc/agent.toml" "$root/etc/dbtime/agent.toml"
echo /etc/dbtime/agent.toml >"$root/DEBIAN/conffiles"
gzip -9n "$root"/usr/share/man/man1/*.1
cat packaging/copyright NOTICE >"$doc/copyright"
gzip -9nc CHANGELOG.md >"$doc/CHANGELOG.md.gz"
gzip -9nc >"$doc/changelog.gz" <<END
dbtime ($version) unstable; urgency=medium

  * What changed is in CHANGELOG.md.gz.

 -- $maintainer  $(date -uRd "@$SOURCE_DATE_EPOCH")
END

# dpkg-shlibdeps wants the control file of a source package, and there is none.
printf 'Source: dbtime\n\nPackage: dbtime\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O -e"$root/usr/bin/dbtime")
cat >"$root/DEBIAN/control" <<END
Package: dbtime
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)
Depends: ${depends#shlibs:Depends=}
Suggests: postgresql
Section: database
Priority: optional
Description: shows where database time really goes
 For every session of a PostgreSQL server dbtime splits elapsed time by wait
 event and by what the operating system says the process was doing: user code,
 kernel code, waiting for a CPU, blocked on disk, asleep. Kernel and user stacks
 are below. The parts add up to the elapsed time.
 .
 It records with BPF, needs no extension and no restart of the server, and no
 connection to it. The agent, a unit of systemd that is neither enabled nor
 started by installing, records every server of a host for good.
END
install -m 755 packaging/postinst packaging/prerm packaging/postrm "$root/DEBIAN"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

readonly package=$directory/dbtime_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
