#!/usr/bin/env bash
# Installs into target/readers what opens the exports in the tests: pprof from the Go module proxy, speedscope from npm.
# (Perfetto's protos come with the Python environment, see python-env.sh.) Does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly READERS=$PWD/target/readers
# The newest that Go 1.19 of Debian 12 compiles.
readonly PPROF=v0.0.0-20230602150820-91b7bce49751
readonly SPEEDSCOPE=1.25.0

if [ ! -x "$READERS/pprof-$PPROF/pprof" ]; then
    GOBIN=$READERS/pprof-$PPROF go install "github.com/google/pprof@$PPROF"
    ln -sfn "pprof-$PPROF" "$READERS/pprof"
fi
if [ ! -d "$READERS/speedscope-$SPEEDSCOPE" ]; then
    mkdir -p "$READERS/unpack"
    (cd "$READERS/unpack" && npm pack --silent "speedscope@$SPEEDSCOPE" >/dev/null && tar xzf "speedscope-$SPEEDSCOPE.tgz")
    mv "$READERS/unpack/package" "$READERS/speedscope-$SPEEDSCOPE"
    rm -r "$READERS/unpack"
    ln -sfn "speedscope-$SPEEDSCOPE" "$READERS/speedscope"
fi
