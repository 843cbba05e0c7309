#!/usr/bin/env bash
# Everything that needs a GPU. Run on a machine with one, from anywhere:
#
#   tests/gpu/run.sh [--only PART,PART…] [--names REGEX] [--narrow] [BUILD]
#   tests/gpu/run.sh [--names REGEX] --pack FILE [BUILD]
#
# --pack: makes an archive of the build, and of the libraries that it needs, for a machine without a compiler: unpacked
# in the root of a copy of this tree it is its build.
# BUILD: a finished build of this tree (default: build); made if it is not there. --names: of the programs, only those
# whose names match, such as 'thrust_(sort|by_key)'. --narrow: what kernels write goes through one buffer of 256 KiB, so
# that warps wait for room all the time. Without --only all parts run that need not be asked for by name, in
# some eleven minutes on sixteen cores; `--only first` and `--only second` are its halves, each under six.
# Parts, in this order:
#   cost       what recording operations only costs a training job whose batches give the GPU something to do (cost.py;
#              with PyTorch; four minutes); where it is asked for
#   hostcost   the same with small batches, where a step is as fast as the host can launch it; said, and no claim made;
#              where it is asked for
#   overhead   where the time goes that recording operations costs (overhead.py; with PyTorch); where it is asked for
#   calls      what a launch, an event and a copy cost their thread, by layers of the library (calls.py; a minute); where
#              it is asked for
#   kernels    what six kernels cost (measure_kernels.py)
#   training   a training job alone and recorded: losses, what recording costs (check_training.py; with PyTorch)
#   times      device timestamps, of work whose times are known (times.py)
#   programs   every program of tests/programs, alone and recorded: the exit status must be the same, of fixed programs
#              the output too
#   races      the traces of programs show the races that they are expected to have (compare_races.py)
#   agents     boxes of tensors (TMA) and multiplications of warpgroups (agents.py)
#   texels     fetches from textures and accesses of surfaces are those of the embedded device (texels.py)
#   unusual    a job that is stopped and goes on, cooperative grids of as many blocks as fit, LD_PRELOAD alone (unusual.py)
#   busy       what a host calls while a recorded kernel fills the buffer: nothing waits for long (busy.py)
#   assembler  modules are assembled by a process of its own, over whose crash the job runs on (assembler.py)
#   windows    windows for replay: recorded, and executed again on the embedded device, where this build has it
#              (windows.py; the traces go to $OUT/windows where OUT is set, for `windows.py --replay` elsewhere)
#   conditions graphs whose bodies run as the device decides: WHILE, IF and SWITCH nodes (conditions.py)
#   faults     the training job with faults planted, one at a time
#   frameworks jobs whose kernels frameworks make and load: torch.compile, its CUDA graphs, JAX, Triton (frameworks.py)
#   compilers  jobs whose kernels are compiled while they run: CuPy, PyTorch, cuda.core, nvcc (compilers.py)
#   survey     right jobs of many kinds, under deadheat record as users call it: they compute the same, and nobody is accused
#              (survey.py; some five minutes); where it is asked for
#   step       the window over one step of training jobs, one of them as a graph, recorded and, where this build can, replayed (windows.py);
#              where it is asked for: some three minutes
#   hangs      jobs that hang and are killed: who waits is named (hangs.py; a minute); only where it is asked for
#   multi      several GPUs: peer copies in one process, torchrun (multi.py); only where it is asked for
# What is timed comes first, and alone. Says how long each part took; ends in `N passed, N failed`.
set -uo pipefail
cd "$(dirname "$0")/../.."
first=programs,races,conditions,faults,agents,texels,unusual,busy,assembler
second=kernels,training,windows,times,frameworks,compilers
only=$second,$first
parts=cost,hostcost,overhead,calls,kernels,training,times,programs,races,agents,texels,unusual,busy,assembler,windows,conditions,faults,frameworks,compilers,survey,step,hangs,multi
names=.
build=build
pack=
while [ $# -gt 0 ]; do
  case $1 in
    --only) only=${2:?--only without parts}; shift ;;
    --only=*) only=${1#*=} ;;
    --names) names=${2:?--names without an expression}; shift ;;
    --names=*) names=${1#*=} ;;
    --narrow) export DEADHEAT_RINGS=1x256 ;;
    --pack) pack=${2:?--pack without a file}; shift ;;
    -*) echo "usage: $0 [--only PART,PART…] [--names REGEX] [--narrow] [--pack FILE] [BUILD]" >&2; exit 2 ;;
    *) build=$1 ;;
  esac
  shift
done
case $only in first) only=$first ;; second) only=$second ;; esac
for part in ${only//,/ }; do
  case ,$parts, in
    *,"$part",*) ;;
    *) echo "$0: no part '$part' (there are $parts)" >&2; exit 2 ;;
  esac
done
chosen() { case ,$only, in *,"$1",*) return 0 ;; esac; return 1; }
if chosen races && ! chosen programs; then only=$only,programs; fi

export PATH=$PATH:/usr/local/cuda/bin
if [ ! -e "$build/lib/libdeadheat.so" ]; then
  cmake -S . -B "$build" -G Ninja -DDEADHEAT_BENCH=OFF &&
    cmake --build "$build" --target deadheat deadheat_tracer deadheat_programs || exit 2
fi
if [ -n "$pack" ]; then
  stage=$(mktemp -d)
  trap 'rm -rf "$stage"' EXIT
  to=$stage/$build
  mkdir -p "$to/bin" "$to/lib" "$to/carried" "$to/tests/programs"
  strip -o "$to/bin/deadheat" "$build/bin/deadheat"
  cp -a "$build"/lib/*.so* "$to/lib/"
  rm -f "$to/lib/libdeadheat_test_driver.so" # stands in for a GPU, and would bring libLLVM along
  find "$to/lib" -type f -exec strip {} +
  [ ! -d "$build/share" ] || cp -a "$build/share" "$to/"
  ls "$build"/tests/programs/*.racy "$build"/tests/programs/*.fixed "$build"/tests/programs/*.ptx 2> /dev/null |
    grep -E "/[^/]*($names)[^/]*$" | xargs -I{} cp {} "$to/tests/programs/"
  # All but the C library, which the other machine has and which must be its loader's, and CUDA's.
  ldd "$to/bin/deadheat" "$to"/lib/*.so* | awk '/=> \// && $1 !~ /^(libc|libm|libresolv|libpthread|libdl|librt|libcu.*|libnv.*)\.so/ {print $3}' |
    sort -u | grep -v -e "^$PWD/" -e "^$stage/" | xargs -I{} cp -L {} "$to/carried/"
  tar -C "$stage" -cf - "$build" | xz -T0 -6 > "$pack"
  ls -l "$pack"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/traces" "$work/results"
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64:$PWD/$build/carried
export work build
tools=(--deadheat "$build/bin/deadheat" --tracer "$build/lib/libdeadheat.so" --work "$work")
jobs=$((($(nproc) * 3 + 3) / 4))

one() { # a program
  name=$(basename "$1")
  timeout 60 "$1" > "$work/results/$name.alone" 2> /dev/null
  alone=$?
  timeout 200 env LD_PRELOAD="$PWD/$build/lib/libdeadheat.so" \
    DEADHEAT_OPTIONS="output=$work/traces/$name:device=gpu:buffer=256" "$1" \
    > "$work/results/$name.recorded" 2> "$work/results/$name.said"
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

compile() { # NAME of tests/gpu/NAME.cu
  nvcc -O3 -lineinfo -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90 \
    "tests/gpu/$1.cu" -o "$work/$1"
}
needs_torch() { # else says that the part is not tried
  python3 -c 'import torch' 2> /dev/null && return
  echo "no PyTorch: not tried"
  echo "0 passed, 0 failed"
  return 1
}

kernels() {
  compile six_kernels || return
  python3 tests/gpu/measure_kernels.py --binary "$work/six_kernels" --tracer "$build/lib/libdeadheat.so" --work "$work" \
    --sanitizer "$(command -v compute-sanitizer)"
}
programs() {
  # The largest first: assembling the instrumented code of some takes a minute and a half.
  ls -S "$build"/tests/programs/*.racy "$build"/tests/programs/*.fixed | grep -E "/[^/]*($names)[^/]*$" |
    xargs -P "$jobs" -I{} bash -c 'one {}' | tee "$work/programs" | grep --line-buffered -v '^PASS'
  [ -s "$work/programs" ] || return
  echo "$(grep -c '^PASS' "$work/programs") passed, $(grep -c '^FAIL' "$work/programs") failed"
}
races() {
  python3 tests/gpu/compare_races.py --deadheat "$build/bin/deadheat" --programs tests/programs "$work/traces"
}
windows() {
  compile window && compile graph_window || return
  python3 tests/gpu/windows.py --deadheat "$build/bin/deadheat" --tracer "$build/lib/libdeadheat.so" \
    --binary "$work/window" --graph-binary "$work/graph_window" --programs "$build/tests/programs" --traces "${OUT:-$work}/windows"
}
conditions() {
  compile conditions || return
  python3 tests/gpu/conditions.py "${tools[@]}" --binary "$work/conditions"
}
frameworks() {
  needs_torch || return 0
  python3 tests/gpu/frameworks.py "${tools[@]}"
}
compilers() {
  needs_torch || return 0
  python3 tests/gpu/compilers.py "${tools[@]}"
}
survey() {
  needs_torch || return 0
  python3 tests/gpu/survey.py "${tools[@]}"
}
times() {
  compile times || return
  python3 tests/gpu/times.py "${tools[@]}" --binary "$work/times"
}
step() {
  needs_torch || return 0
  python3 tests/gpu/windows.py --deadheat "$build/bin/deadheat" --tracer "$build/lib/libdeadheat.so" \
    --traces "${OUT:-$work}/windows" --training
}
agents() {
  nvcc -std=c++20 -O3 -lineinfo -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_90a,code=compute_90a \
    tests/gpu/agents.cu -o "$work/agents" || return
  python3 tests/gpu/agents.py "${tools[@]}" --binary "$work/agents"
}
texels() {
  nvcc -std=c++17 -O2 -lineinfo -cudart shared -gencode arch=compute_90,code=compute_90 -Itests/programs \
    tests/instrument/texture_forms.cu -o "$work/texture_forms" || return
  python3 tests/gpu/texels.py "${tools[@]}" --binary "$work/texture_forms"
}
unusual() {
  compile unusual || return
  python3 tests/gpu/unusual.py "${tools[@]}" --binary "$work/unusual"
}
busy() {
  compile busy || return
  python3 tests/gpu/busy.py "${tools[@]}" --binary "$work/busy"
}
assembler() {
  compile window || return
  python3 tests/gpu/assembler.py "${tools[@]}" --binary "$work/window"
}
hangs() {
  compile hang || return
  python3 tests/gpu/hangs.py "${tools[@]}" --binary "$work/hang"
}
multi() {
  compile multi || return
  python3 tests/gpu/multi.py "${tools[@]}" --binary "$work/multi"
}
train() {
  needs_torch || return 0
  python3 tests/gpu/check_training.py "${tools[@]}" "$@"
}
cost() {
  needs_torch || return 0
  python3 tests/gpu/cost.py "${tools[@]}" --sequences 256
}
hostcost() {
  needs_torch || return 0
  python3 tests/gpu/cost.py "${tools[@]}" --no-aim
}
overhead() {
  needs_torch || return 0
  python3 tests/gpu/overhead.py "${tools[@]}"
}
calls() {
  compile calls || return
  python3 tests/gpu/calls.py "${tools[@]}" --binary "$work/calls"
}
training() { train --only losses; }
faults() { train --only faults; }

passed=0 failed=0
for part in ${parts//,/ }; do
  chosen "$part" || continue
  begin=$SECONDS
  echo "-- $part"
  $part | tee "$work/said"
  if [[ $(tail -1 "$work/said") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
  else
    echo "FAIL $part: it did not come to its end"
    failed=$((failed + 1))
  fi
  echo "-- $part: $((SECONDS - begin)) s"
done
echo "-- all of it: $SECONDS s"
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
