#!/usr/bin/env bash
# Runs the unit tests under the address and undefined-behaviour sanitizers, then those with threads under the thread
# sanitizer. Each goes to a build tree of its own (build-asan, build-tsan), unit tests only, without the CUDA toolkit:
# what runs inside somebody else's process cannot be sanitized on its own.
# Usage: tools/sanitize.sh [asan|tsan|asan:TEST|tsan:TEST]…     (asan:trace_test: that test alone)
# Each test is built, then run, so that the first say something long before all are built. All of them take hours of two
# cores when nothing is in the compiler's cache, most of it for what includes LLVM; device_test and the tests of engine
# and search come last for that reason.
set -euo pipefail
cd "$(dirname "$0")/.."

# Compiled code that the engine makes is not instrumented, what calls it is.
declare -A tests=(
  [asan]="trace_test ptx_test order_test analyzer_test report_test device_log_test device_test search_test
          engine_stops_test engine_calls_test engine_memory_test"
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
chosen=() # which:test
for argument in "$@"; do
  which=${argument%%:*}
  all=${tests[$which]:?"is not asan or tsan: '$which'"}
  if [ "$which" = "$argument" ]; then
    for test in $all; do chosen+=("$which:$test"); done
  else
    chosen+=("$argument")
  fi
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for entry in "${chosen[@]}"; do
  which=${entry%%:*} test=${entry#*:}
  begin=$SECONDS
  [ -f "build-$which/build.ninja" ] || cmake --preset "$which" "${launcher[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  cmake --build "build-$which" -j "$(nproc)" --target "$test" >"$log" 2>&1 || { tail -50 "$log" >&2; exit 1; }
  built=$((SECONDS - begin)) begin=$SECONDS
  if ! "build-$which/bin/$test" --gtest_brief=1 >"$log" 2>&1; then
    cat "$log" >&2
    echo "$which: $test failed: build-$which/bin/$test" >&2
    exit 1
  fi
  echo "$which: $test built in $built s, passed in $((SECONDS - begin)) s"
done
