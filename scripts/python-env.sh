#!/usr/bin/env bash
# Makes target/venv, the Python environment of the tests, with exactly the packages of tests/requirements.txt.
# Does nothing when it is there and the requirements have not changed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VENV=target/venv
readonly REQUIREMENTS=tests/requirements.txt
# A copy of the requirements that were installed, written last: an interrupted run leaves none.
readonly STAMP=$VENV/requirements.installed

mkdir -p target
exec 9>target/venv.lock
flock 9

# A Python that was upgraded or removed leaves an environment that no longer runs.
if cmp -s "$REQUIREMENTS" "$STAMP" && "$VENV/bin/python" -c '' 2>/dev/null; then
    exit 0
fi
python3 -c 'import ensurepip, venv' 2>/dev/null || {
    echo "python-env.sh: python3 with venv is missing; run: scripts/deps.sh test" >&2
    exit 1
}
python3 -m venv --clear "$VENV"
"$VENV/bin/pip" install --quiet --disable-pip-version-check --requirement "$REQUIREMENTS"
cp "$REQUIREMENTS" "$STAMP"
