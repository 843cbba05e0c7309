#!/usr/bin/env bash
# Runs the unit tests whose inputs are random for longer than the test suite does, and from other seeds: executions
# against the axioms, logs against what happened, accesses in every shape against what is found in them one by one.
# Usage: tools/random.sh [-j N] [--no-build] [--from N] [TIMES [GROUP…]]     (10 when nothing is said)
#        tools/random.sh --pack FOLDER [TIMES [GROUP…]]
#   TIMES       so many times as many inputs as the test suite has, in each process
#   GROUP       oracle, order, filter, log; all of them when none is named
#   -j N        N processes at once, each from seeds of its own
#   --from N    the seeds N behind those of the test suite and on (default: 1000000)
#   --no-build  the binaries are there already
#   --pack      makes a folder for a machine without a compiler: binaries, libraries and this script, which then runs
#               as FOLDER/tools/random.sh --no-build
# Where a test fails, its output is printed, and the command that repeats it; the logs are in build/random.
set -euo pipefail
cd "$(dirname "$0")/.."
groups=(oracle order filter log)
declare -A program=([oracle]=order_test [order]=order_test [filter]=analyzer_test [log]=device_log_test)
declare -A tests=(
  [oracle]='Oracle.ManyExecutions:SlotsOracle.ManyExecutions:Words.*'
  [order]='Clock.SeesWhatWasAdded:Warps.*:Histories*.ShowNothing*'
  [filter]='Scale.Threads*:Scale.TheFirstPass*:Scale.Memory*:Scale.Words*:Dense.*:Atomics.*InTurn:Atomics.Threads*:Runs.FindWhat*:Runs.Threads*:WarpsOfCopies.*:LyingTraces.*:Packed.Records*:Sparse.SaysWhatAMapSays'
  [log]='*TrueOrder.*:DeviceLogRounds.AnOrder*:DeviceLogRounds.NothingIsPut*:Orders/*')

usage() { sed -n '/^# Usage/,/^set/s/^# \?//p' "$0" >&2; exit 2; }

processes=1 build=1 pack= from=1000000
while [ $# -gt 0 ]; do
  case $1 in
    -j) processes=${2:-}; shift ;;
    -j*) processes=${1#-j} ;;
    --no-build) build=0 ;;
    --from) from=${2:-}; shift ;;
    --pack) pack=${2:-}; [ -n "$pack" ] || usage; shift ;;
    -*) usage ;;
    *) break ;;
  esac
  shift
done
times=${1:-10}
[[ $processes =~ ^[1-9][0-9]*$ && $from =~ ^[0-9]+$ && $times =~ ^[1-9][0-9]*$ ]] || usage
shift || true
[ $# = 0 ] || groups=("$@")
for group in "${groups[@]}"; do [ -n "${program[$group]:-}" ] || usage; done
mapfile -t binaries < <(for group in "${groups[@]}"; do echo "${program[$group]}"; done | sort -u)

if [ $build = 1 ]; then
  [ -f build/build.ninja ] || cmake --preset release >/dev/null
  cmake --build build --target "${binaries[@]}"
fi

if [ -n "$pack" ]; then
  rm -rf "$pack"
  mkdir -p "$pack/build/bin" "$pack/build/carried" "$pack/tools"
  cp tools/random.sh "$pack/tools/"
  for binary in "${binaries[@]}"; do
    strip -o "$pack/build/bin/$binary" "build/bin/$binary"
    # All but the C library, which the other machine has and which must be its loader's.
    ldd "build/bin/$binary" | awk '/=> \// && $1 !~ /^(libc|libm|libresolv|libpthread|libdl|librt)\.so/ {print $3}'
  done | sort -u | while read -r library; do cp -L "$library" "$pack/build/carried/"; done
  du -sh "$pack"
  exit 0
fi

mkdir -p build/random
export LD_LIBRARY_PATH="$PWD/build/carried${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" DEADHEAT_SEEDS_TIMES=$times
# One process.
rounds() {
  local number=$1 group status=0 begin
  export DEADHEAT_SEEDS_FROM=$((from + number * 1000000))
  for group in "${groups[@]}"; do
    local log=build/random/$group.$number.log
    begin=$SECONDS
    if "build/bin/${program[$group]}" --gtest_filter="${tests[$group]}" >"$log" 2>&1; then
      echo "$group, from seed $DEADHEAT_SEEDS_FROM: passed in $((SECONDS - begin)) s"
      continue
    fi
    status=1
    { # in one piece, though several processes end at once
      tail -c 20000 "$log"
      echo "$group: failed; repeat with: DEADHEAT_SEEDS_FROM=$DEADHEAT_SEEDS_FROM DEADHEAT_SEEDS_TIMES=$times" \
        "build/bin/${program[$group]} --gtest_filter='${tests[$group]}'"
    } | { report=$(cat); echo "$report"; }
  done
  return $status
}
failed=0
for ((number = 0; number < processes; ++number)); do rounds $number & done
for ((number = 0; number < processes; ++number)); do wait -n || failed=1; done
exit $failed
