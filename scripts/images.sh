#!/usr/bin/env bash
# Regenerates the pictures of README.md and docs/html.md from one run of 'dbtime demo': its flame graphs, and the page of its recording of
# reads from the device. Prints the demo's output, for README.md, so that its table and its pictures are from one run. Needs root, an idle
# machine, Chromium and pngquant. (reads-heat-map.svg and timeline.svg are from other loads: 'dbtime report --latency' and '--timeline',
# with -o.)
#
#   scripts/images.sh [BINARY]      default: target/release/dbtime
set -euo pipefail
cd "$(dirname "$0")/.."
readonly binary=${1:-target/release/dbtime}
readonly images=docs/images

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A screenshot of this page in a window of this size, in few colours: a quarter of the bytes.
picture() {
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=10000 \
        --window-size="$2" --screenshot="$work/picture.png" \
        "file://$1" 2>"$work/chromium.log" || {
        cat "$work/chromium.log" >&2
        exit 1
    }
    pngquant --force --strip 64 --output "$images/$3" "$work/picture.png"
}

"$binary" demo -o "$work/demo"
for from in page-cache device; do
    # As high as it was drawn.
    height=$(grep -oE -m 1 '<svg [^>]* height="[0-9]+"' "$work/demo/$from.svg" | grep -oE '[0-9]+"$' | tr -d '"')
    picture "$work/demo/$from.svg" "1200,$height" "$from.png"
done
"$binary" html "$work/demo/device.dbt" -o "$work/page.html"
picture "$work/page.html" 1180,900 html.png
