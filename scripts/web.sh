#!/usr/bin/env bash
# Checks the page in web/: its types, its sources with oxlint, its tests, and that web/dist matches the sources. (A build of dbtime needs no
# Node: it uses web/dist as it is.) After changing the sources: npm run build in web/, and commit web/dist with them.
set -euo pipefail
cd "$(dirname "$0")/../web"

# Packages are pinned by version and checksum; npm decides where they come from.
if grep -q '"resolved"' package-lock.json; then
    echo "web.sh: package-lock.json has registry URLs: remove them (npm install --omit-lockfile-registry-resolved)" >&2
    exit 1
fi
npm ci --silent --no-audit --no-fund
npm run --silent check
npm run --silent test
checked_in=$(sha256sum dist/*)
npm run --silent build
[ "$checked_in" = "$(sha256sum dist/*)" ] || {
    echo "web.sh: web/dist was out of date and has been rebuilt: commit it" >&2
    exit 1
}
