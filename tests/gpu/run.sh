#!/usr/bin/env bash
# Everything that needs a GPU, in less than ten minutes. Run on a machine with one, from anywhere:
#
#   tests/gpu/run.sh [BUILD]          BUILD: a finished build of this tree (default: build); made if it is not there
#
# Every program of tests/programs runs alone and recorded: the exit status must be the same, of fixed programs the output
# too, and the races those that the programs are expected to have. Then a training job (check_training.py; with PyTorch),
# and what six kernels cost (measure_kernels.py). Ends in `N passed, N failed`.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
export PATH=$PATH:/usr/local/cuda/bin
if [ ! -e "$build/lib/libdeadheat.so" ]; then
  cmake -S . -B "$build" -G Ninja -DDEADHEAT_BENCH=OFF && cmake --build "$build" --target deadheat deadheat_tracer deadheat_programs || exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/traces" "$work/results"
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64
export work build

one() { # a program
  name=$(basename "$1")
  timeout 60 "$1" > "$work/results/$name.alone" 2> /dev/null
  alone=$?
  timeout 120 env LD_PRELOAD="$PWD/$build/lib/libdeadheat.so" \
    DEADHEAT_OPTIONS="output=$work/traces/$name:device=gpu:buffer=256" "$1" > "$work/results/$name.recorded" 2> "$work/results/$name.said"
  recorded=$?
  if [ $alone != $recorded ]; then
    echo "FAIL $name: exit status $alone alone, $recorded recorded"
  elif [ "${name##*.}" = fixed ] && ! cmp -s "$work/results/$name.alone" "$work/results/$name.recorded"; then
    echo "FAIL $name: its output changed"
  else
    echo "PASS $name"
  fi
  grep '^deadheat' "$work/results/$name.said" | sed "s/^/  $name: /"
}
export -f one
passed=0 failed=0
count() { # a log: its last line is a count
  read -r more_passed _ more_failed _ < <(tail -1 "$1" | tr -d ,)
  passed=$((passed + more_passed)) failed=$((failed + more_failed))
}

say() { echo "-- $1 ($SECONDS s)"; }
say programs
ls "$build"/tests/programs/*.racy "$build"/tests/programs/*.fixed | xargs -P 6 -I{} bash -c 'one {}' > "$work/programs"
grep -v '^PASS' "$work/programs" | sort
passed=$(grep -c '^PASS' "$work/programs") failed=$(grep -c '^FAIL' "$work/programs")
echo "programs: $passed passed, $failed failed"
say races
python3 tests/gpu/compare_races.py --deadheat "$build/bin/deadheat" --programs tests/programs "$work/traces" | tee "$work/races"
count "$work/races"
say kernels
nvcc -O3 -lineinfo -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90 tests/gpu/six_kernels.cu -o "$work/six_kernels"
python3 tests/gpu/measure_kernels.py --binary "$work/six_kernels" --tracer "$build/lib/libdeadheat.so" --work "$work" \
  --memcheck "$(command -v compute-sanitizer)" | tee "$work/kernels"
count "$work/kernels"
say training
if python3 -c 'import torch' 2> /dev/null; then
  python3 tests/gpu/check_training.py --deadheat "$build/bin/deadheat" --tracer "$build/lib/libdeadheat.so" --work "$work" | tee "$work/training"
  count "$work/training"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
