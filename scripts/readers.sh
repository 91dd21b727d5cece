#!/usr/bin/env bash
# Installs into target/readers what opens the exports in the tests: pprof from the Go module proxy, speedscope from npm; also from npm, what
# drives a browser (Chromium itself is installed by deps.sh), and Azurite, Microsoft's emulator of Azure's object store. From Debian, a
# Prometheus without the service that its package starts. (Perfetto's protos come with the Python environment, see python-env.sh.) Does
# nothing if they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly READERS=$PWD/target/readers
# The newest that Debian 12's Go 1.19 compiles.
readonly PPROF=v0.0.0-20230602150820-91b7bce49751
readonly SPEEDSCOPE=1.25.0
# Later ones need more than Debian 12's Node 18.
readonly PLAYWRIGHT=1.60.0

if [ ! -x "$READERS/pprof-$PPROF/pprof" ]; then
    GOBIN=$READERS/pprof-$PPROF go install "github.com/google/pprof@$PPROF"
    ln -sfn "pprof-$PPROF" "$READERS/pprof"
fi
# An npm package without dependencies.
npm_package() {
    local name=$1 version=$2
    [ ! -d "$READERS/$name-$version" ] || return 0
    mkdir -p "$READERS/unpack"
    (cd "$READERS/unpack" && npm pack --silent "$name@$version" >/dev/null && tar xzf "$name-$version.tgz")
    mv "$READERS/unpack/package" "$READERS/$name-$version"
    rm -r "$READERS/unpack"
    ln -sfn "$name-$version" "$READERS/$name"
}

npm_package speedscope "$SPEEDSCOPE"
npm_package playwright-core "$PLAYWRIGHT"

# Azurite and its dependencies, as locked in tests/azurite.
if ! cmp -s tests/azurite/package-lock.json "$READERS/azurite/package-lock.json"; then
    rm -rf "$READERS/azurite"
    mkdir -p "$READERS/unpack"
    cp tests/azurite/package*.json "$READERS/unpack"
    (cd "$READERS/unpack" && npm ci --silent --no-audit --no-fund)
    mv "$READERS/unpack" "$READERS/azurite"
fi

if [ ! -x "$READERS/prometheus/usr/bin/prometheus" ]; then
    mkdir -p "$READERS/unpack"
    (
        cd "$READERS/unpack"
        apt-get download --quiet=2 prometheus || (apt-get update --quiet=2 && apt-get download --quiet=2 prometheus)
        dpkg -x prometheus_*.deb prometheus
    )
    mv "$READERS/unpack/prometheus" "$READERS/prometheus"
    rm -r "$READERS/unpack"
fi
