#!/usr/bin/env bash
# Everything that needs a GPU. Run on a machine with one, from anywhere:
#
#   tests/gpu/run.sh [BUILD]          BUILD: a finished build of this tree (default: build); made if it is not there
#
# Every program of tests/programs runs alone and recorded: the exit status must be the same, of fixed programs the output
# too, and the races those that the programs are expected to have. Ends in `N passed, N failed`.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
if [ ! -e "$build/lib/libdeadheat.so" ]; then
  cmake -S . -B "$build" -G Ninja -DDEADHEAT_BENCH=OFF && cmake --build "$build" --target deadheat deadheat_tracer deadheat_programs || exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/traces"
export LD_LIBRARY_PATH=/usr/local/cuda/lib64:${LD_LIBRARY_PATH:-}
passed=0 failed=0
for program in "$build"/tests/programs/*.racy "$build"/tests/programs/*.fixed; do
  name=$(basename "$program")
  timeout 30 "$program" > "$work/alone" 2> /dev/null
  alone=$?
  timeout 60 env LD_PRELOAD="$PWD/$build/lib/libdeadheat.so" \
    DEADHEAT_OPTIONS="output=$work/traces/$name:device=gpu:buffer=256" "$program" > "$work/recorded" 2> "$work/said"
  recorded=$?
  if [ $alone != $recorded ]; then
    echo "FAIL $name: exit status $alone alone, $recorded recorded"
    failed=$((failed + 1))
  elif [ "${name##*.}" = fixed ] && ! cmp -s "$work/alone" "$work/recorded"; then
    echo "FAIL $name: its output changed"
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
done
python3 tests/gpu/compare_races.py --deadheat "$build/bin/deadheat" --programs tests/programs "$work/traces" | tee "$work/races"
read -r more_passed _ more_failed _ < <(tail -1 "$work/races" | tr -d ,)
echo "$((passed + more_passed)) passed, $((failed + more_failed)) failed"
[ $((failed + more_failed)) = 0 ]
