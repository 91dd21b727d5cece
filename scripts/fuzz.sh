#!/usr/bin/env bash
# Runs fuzz targets one after the other; stops at the first input that breaks one (it is in fuzz/artifacts).
#
#   scripts/fuzz.sh [SECONDS [TARGET…]]     seconds per target: 60; all targets
#
# Needs a nightly compiler (rustup toolchain install nightly); cargo-fuzz is installed if it is missing. Interesting
# inputs stay in fuzz/corpus, where the next run begins. Sample files beside the checkout (../shared/data) are seeds.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CARGO_FUZZ=0.13.2

seconds=${1:-60}
shift || true
cargo +nightly --version >/dev/null 2>&1 || {
    echo "fuzz.sh: no nightly compiler; run: rustup toolchain install nightly" >&2
    exit 1
}
cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked --version "=$CARGO_FUZZ" cargo-fuzz
if [ $# -eq 0 ]; then
    mapfile -t targets < <(cargo +nightly fuzz list)
    set -- "${targets[@]}"
fi
for target in "$@"; do
    corpus=fuzz/corpus/$target
    mkdir -p "$corpus"
    seeds=()
    if [ -d ../shared/data ]; then
        case $target in
        oracle_trace) seeds+=(../shared/data/oracle_10046) ;;
        snapper) seeds+=(../shared/data/snapper) ;;
        oracle_stacks) seeds+=(../shared/data/stack_profiling) ;;
        ftrace) seeds+=(../shared/data/ftrace/vm-6.1 ../shared/data/ftrace/vm-6.12) ;;
        perf_sched_script | perf_sched_timehist) seeds+=(../shared/data/sched) ;;
        perf_script | dtrace) seeds+=("../shared/data/$target") ;;
        strace | perf_trace) seeds+=(../shared/data/strace) ;;
        folded) seeds+=(../shared/data/perf_script ../shared/data/dtrace) ;;
        esac
    fi
    if [ "$target" = ftrace ]; then seeds+=(crates/import/tests/fixtures/trace_cmd); fi
    if [ -d "fuzz/seeds/$target" ]; then seeds+=("fuzz/seeds/$target"); fi
    echo "fuzz.sh: $target, $seconds s"
    cargo +nightly fuzz run "$target" "$corpus" "${seeds[@]}" -- \
        -max_total_time="$seconds" -max_len=65536 -rss_limit_mb=4096 -print_final_stats=1
done
