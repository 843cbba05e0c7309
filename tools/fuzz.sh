#!/usr/bin/env bash
# Runs every fuzz target for a while, from the seeds in tests/fuzz/seeds, the PTX that the unit tests made, and what
# earlier runs found (build-fuzz/corpus).
# A finding is left in build-fuzz/findings, and the command that repeats it is printed.
# Usage: tools/fuzz.sh [SECONDS [TARGET…]]     (600 seconds a target when nothing is said)
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang++-19 >/dev/null && [ -e /usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.fuzzer-x86_64.a ] ||
  { echo "fuzzing needs clang 19: apt-get install clang-19 libclang-rt-19-dev" >&2; exit 2; }
seconds=${1:-600}
shift || true
[ $# -gt 0 ] || set -- fuzz_ptx fuzz_instrument fuzz_fatbin fuzz_device_log fuzz_trace fuzz_analysis fuzz_suppressions fuzz_options \
  fuzz_witness
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
[ -f build-fuzz/build.ninja ] || cmake --preset fuzz "${launcher[@]}" >/dev/null
cmake --build build-fuzz --target "$@"
failed=0
for target in "$@"; do
  seeds=()
  name=${target#fuzz_}
  [ "$name" != instrument ] || name=ptx
  for folder in "tests/fuzz/seeds/$name" "build/tests/unit/${name}_corpus"; do # the latter: PTX of nvcc
    [ ! -d "$folder" ] || seeds+=("$folder")
  done
  mkdir -p "build-fuzz/corpus/$target" build-fuzz/findings
  echo "$target: $seconds s"
  if ! "build-fuzz/bin/$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -max_len=8192 -print_final_stats=1 \
      -artifact_prefix="build-fuzz/findings/$target-" "build-fuzz/corpus/$target" "${seeds[@]}" \
      >"build-fuzz/$target.log" 2>&1; then
    failed=1
    tail -40 "build-fuzz/$target.log"
    echo "$target: a finding; repeat with: build-fuzz/bin/$target build-fuzz/findings/$target-…"
  fi
  grep -E "number_of_executed_units|new_units_added" "build-fuzz/$target.log" || true
done
exit $failed
