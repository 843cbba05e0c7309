#!/usr/bin/env bash
# Sets up, builds and runs all tests. Arguments go to ctest: tools/test.sh -R shared_
# The end tells what the tests that failed said.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
log=build/test.log
status=0
ctest --test-dir build --output-on-failure -j "$(nproc)" "$@" 2>&1 | tee "$log" || status=$?
[ $status = 0 ] || awk '
  function tell(i) {
    if (failed) print "\n" failed
    for (i = lines > 25 ? lines - 25 : 0; i < lines; ++i) print "  " line[i]
    failed = ""
    lines = 0
  }
  /% tests passed/ { tell(); print ""; closing = 1 }
  closing { print; next }
  /^ *Start +[0-9]+: / { tell() }
  /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / { tell(); if (/\*\*\*/ && !/\*\*\*Skipped/) failed = $0; next }
  failed { line[lines++] = $0 }' "$log"
exit $status
