#!/usr/bin/env bash
# Runs the unit tests under the address and undefined-behaviour sanitizers, then those with threads under the thread
# sanitizer. Each goes to a build tree of its own (build-asan, build-tsan), unit tests only, without the CUDA toolkit:
# what runs inside somebody else's process cannot be sanitized on its own.
# Usage: tools/sanitize.sh [asan|tsan|asan-llvm|tsan-llvm|asan:TEST|tsan:TEST]…     (none: asan tsan; asan:trace_test: that
# test alone; GTEST_FILTER chooses cases of it)
# Only what a chosen test needs is built, and it runs before the next one is built. With nothing in the compiler's cache
# tsan takes about 8 minutes of processor time to build (80 files) and 3 to run, nearly all of them analyzer_test's; asan
# about twice as long (150 files). The -llvm ones are tests of what compiles and runs kernels: 60 files more that include
# LLVM, 10 to 20 s each.
set -euo pipefail
cd "$(dirname "$0")/.."

# Compiled code that the engine makes is not instrumented, what calls it is.
declare -A tests=(
  [asan]="trace_test ptx_test report_test order_test analyzer_test device_log_test"
  [tsan]="trace_test analyzer_test function_threads_test"
  [asan-llvm]="device_test device_spread_test search_test engine_stops_test engine_calls_test engine_memory_test"
  [tsan-llvm]="device_spread_test device_test"
)
# LLVM is not built with sanitizers, so that what it keeps until the process ends would be listed as leaks.
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:${UBSAN_OPTIONS:-}
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}

[ $# -gt 0 ] || set -- asan tsan
chosen=() # which:test
for argument in "$@"; do
  which=${argument%%:*}
  all=${tests[$which]:?"is none of asan, tsan, asan-llvm, tsan-llvm: '$which'"}
  if [ "$which" = "$argument" ]; then
    for test in $all; do chosen+=("${which%-llvm}:$test"); done
  else
    chosen+=("${which%-llvm}:${argument#*:}")
  fi
done
logs=$(mktemp -d)
log=$logs/build
trap 'rm -rf "$logs"' EXIT

# The cases of a test, shared out to as many processes as there are cores.
run() {
  local program=$1 shards shard processes=() status=0
  shards=$(nproc)
  rm -f "$logs"/shard.*
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard "$program" --gtest_brief=1 >"$logs/shard.$shard" 2>&1 &
    processes+=($!)
  done
  for ((shard = 0; shard < shards; ++shard)); do
    wait "${processes[shard]}" || { status=1; cat "$logs/shard.$shard" >&2; }
  done
  return $status
}

for entry in "${chosen[@]}"; do
  which=${entry%%:*} test=${entry#*:}
  begin=$SECONDS
  [ -f "build-$which/build.ninja" ] || cmake --preset "$which" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  cmake --build "build-$which" -j "$(nproc)" --target "$test" >"$log" 2>&1 || { tail -50 "$log" >&2; exit 1; }
  built=$((SECONDS - begin)) begin=$SECONDS
  run "build-$which/bin/$test" || { echo "$which: $test failed: build-$which/bin/$test" >&2; exit 1; }
  echo "$which: $test built in $built s, passed in $((SECONDS - begin)) s"
done
