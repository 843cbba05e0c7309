#!/usr/bin/env bash
# Runs the unit tests under the address and undefined-behaviour sanitizers, then those with threads under the thread
# sanitizer. Each goes to a build tree of its own (build-asan, build-tsan), unit tests only, without the CUDA toolkit:
# what runs inside somebody else's process cannot be sanitized on its own.
# Usage: tools/sanitize.sh [asan|tsan]…
set -euo pipefail
cd "$(dirname "$0")/.."

# Compiled code that the engine makes is not instrumented, what calls it is.
declare -A tests=(
  [asan]="ptx_test trace_test report_test order_test analyzer_test search_test device_test engine_stops_test
          engine_calls_test engine_memory_test"
  [tsan]="trace_test order_test analyzer_test"
)
# LLVM is not built with sanitizers, so that what it keeps until the process ends would be listed as leaks.
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:${UBSAN_OPTIONS:-}
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}
export CCACHE_DIR="${CCACHE_DIR:-$PWD/.ccache}"
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

[ $# -gt 0 ] || set -- asan tsan
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for which in "$@"; do
  wanted=(${tests[$which]:?"is not asan or tsan: '$which'"})
  begin=$SECONDS
  cmake --preset "$which" "${launcher[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  nice cmake --build "build-$which" -j "$(nproc)" --target "${wanted[@]}" >"$log" 2>&1 || { tail -50 "$log" >&2; exit 1; }
  echo "$which: built in $((SECONDS - begin)) s"
  for test in "${wanted[@]}"; do
    begin=$SECONDS
    if ! "build-$which/bin/$test" --gtest_brief=1 >"$log" 2>&1; then
      cat "$log" >&2
      echo "$which: $test failed: build-$which/bin/$test" >&2
      exit 1
    fi
    echo "$which: $test passed in $((SECONDS - begin)) s"
  done
done
