#!/usr/bin/env bash
# Runs every fuzz target for a while, from the seeds in tests/fuzz/seeds, the PTX that the unit tests made, and what
# earlier runs found (build-fuzz/corpus, and tests/fuzz/found.tar.xz from long ones). tests/fuzz/RESULTS.md: the last long run.
# A finding is left in build-fuzz/findings, and the command that repeats it is printed.
# Usage: tools/fuzz.sh [-j N] [--no-build] [--keep FOLDER] [SECONDS [TARGET…]]     (600 seconds when nothing is said)
#        tools/fuzz.sh --pack FOLDER
#        tools/fuzz.sh --traces [OPTION…]     recordings of real programs, damaged in every way: tests/cli/damage_traces.py
#   -j N        N processes at once; where there are more than targets, several of one share what they find, and what
#               they spent is added up at the end: -j 18 300 is ten minutes for each of nine targets
#   --keep      leaves in FOLDER/TARGET what was found and reaches code that no seed reaches, the least of it that does
#   --no-build  the binaries are there already
#   --pack      makes a folder for a machine without a compiler: binaries, libraries, seeds and this script, which
#               then runs as FOLDER/tools/fuzz.sh --no-build
set -euo pipefail
cd "$(dirname "$0")/.."
all=(fuzz_names fuzz_analysis fuzz_instrument fuzz_device_log fuzz_ptx fuzz_trace fuzz_witness fuzz_fatbin fuzz_suppressions fuzz_options)

usage() { sed -n '/^# Usage/,/^set/s/^# \?//p' "$0" >&2; exit 2; }

processes=1 build=1 pack= keep=
while [ $# -gt 0 ]; do
  case $1 in
    -j) processes=${2:-}; shift ;;
    -j*) processes=${1#-j} ;;
    --no-build) build=0 ;;
    --traces)
      shift
      exec python3 tests/cli/damage_traces.py --deadheat build/bin/deadheat --rewrite build/tests/cli/rewrite_trace \
        --twins build/tests/programs --keep build-fuzz/traces "$@" ;;
    --keep) keep=${2:-}; [ -n "$keep" ] || usage; shift ;;
    --pack) pack=${2:-}; [ -n "$pack" ] || usage; shift ;;
    -*) usage ;;
    *) break ;;
  esac
  shift
done
[[ $processes =~ ^[1-9][0-9]*$ ]] || usage
seconds=${1:-600}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || usage
shift || true
targets=("$@")
[ $# -gt 0 ] || targets=("${all[@]}")

if [ $build = 1 ]; then
  command -v clang++-19 >/dev/null && [ -e /usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.fuzzer-x86_64.a ] ||
    { echo "fuzzing needs clang 19: apt-get install clang-19 libclang-rt-19-dev" >&2; exit 2; }
  [ -f build-fuzz/build.ninja ] || cmake --preset fuzz >/dev/null
  # A source that changes while it is compiled (a pull, an editor) is older than the object that was made without it,
  # and ninja, which compares the two times, leaves that object as it is: a class has two shapes in one program then,
  # and crashes without a fault in it. What changed since a build began is therefore touched and built once more; the
  # time stays there when a build fails or is cut off, for the next.
  begun='build-fuzz/begun'
  changed() { find . -mindepth 1 \( -name '.*' -o -name __pycache__ -o -path './build*' \) -prune -o -type f -newer "$begun" "$@"; }
  while :; do
    [ ! -e $begun ] || changed -exec touch -c {} +
    touch $begun
    cmake --build build-fuzz --target "${targets[@]}"
    [ -n "$(changed -print -quit)" ] || break
    echo "sources changed while they were compiled: building again"
  done
  rm -f $begun
fi
for target in "${targets[@]}"; do
  [ -x "build-fuzz/bin/$target" ] || { echo "no such program: build-fuzz/bin/$target" >&2; exit 2; }
done

if [ -f tests/fuzz/found.tar.xz ] && [ ! -e build-fuzz/corpus/unpacked ]; then
  mkdir -p build-fuzz/corpus
  tar -C build-fuzz/corpus -xJf tests/fuzz/found.tar.xz && touch build-fuzz/corpus/unpacked
fi

# The folders with a target's seeds, one a line.
seeds_of() {
  local name=${1#fuzz_} folder
  [ "$name" != instrument ] || name=ptx
  for folder in "tests/fuzz/seeds/$name" "build/tests/unit/${name}_corpus"; do # the latter: PTX of nvcc
    [ ! -d "$folder" ] || echo "$folder"
  done
}

if [ -n "$pack" ]; then
  rm -rf "$pack"
  mkdir -p "$pack/build-fuzz/bin" "$pack/build-fuzz/carried" "$pack/tests/fuzz" "$pack/tools"
  cp tools/fuzz.sh "$pack/tools/"
  cp -r tests/fuzz/seeds "$pack/tests/fuzz/"
  for target in "${targets[@]}"; do # what was found before, and the PTX of nvcc
    mapfile -t found < <(find "build-fuzz/corpus/$target" -maxdepth 0 2>/dev/null; seeds_of "$target" | grep ^build/ || true)
    mkdir -p "$pack/build-fuzz/corpus/$target"
    [ ${#found[@]} = 0 ] || find "${found[@]}" -type f -exec cp {} "$pack/build-fuzz/corpus/$target/" \;
  done
  for target in "${targets[@]}"; do
    strip -o "$pack/build-fuzz/bin/$target" "build-fuzz/bin/$target"
    # All but the C library, which the other machine has and which must be its loader's.
    ldd "build-fuzz/bin/$target" | awk '/=> \// && $1 !~ /^(libc|libm|libresolv|libpthread|libdl|librt)\.so/ {print $3}'
  done | sort -u | while read -r library; do cp -L "$library" "$pack/build-fuzz/carried/"; done
  du -sh "$pack"
  exit 0
fi

# A target's program, in the libraries that were carried here, if any.
run() {
  LD_LIBRARY_PATH="build-fuzz/carried${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
}

# One process. Processes of one target share a folder and look into it now and then (libFuzzer, -reload).
fuzz() {
  local target=$1 number=$2 log="build-fuzz/$1.$2.log" seeds
  mapfile -t seeds < <(seeds_of "$target")
  mkdir -p "build-fuzz/corpus/$target" build-fuzz/findings
  local status=0 begin=$SECONDS
  run "build-fuzz/bin/$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -max_len=8192 -reload=10 \
    -print_final_stats=1 -artifact_prefix="build-fuzz/findings/$target-" "build-fuzz/corpus/$target" "${seeds[@]}" \
    >"$log" 2>&1 || status=$?
  awk -v seconds=$((SECONDS - begin)) '/number_of_executed_units/ {n = $2} /new_units_added/ {a = $2}
      END {print n + 0, a + 0, seconds}' "$log" >"$log.sum"
  [ $status = 0 ] || { # in one piece, though several processes end at once
    tail -40 "$log"
    echo "$target: a finding; repeat with: build-fuzz/bin/$target build-fuzz/findings/$target-…"
  } | { report=$(cat); echo "$report"; }
  return $status
}

# What of a target's findings is worth keeping: those that reach what neither a seed nor another of them does.
keep() {
  local target=$1 seeds
  mapfile -t seeds < <(seeds_of "$target")
  local merged="build-fuzz/$target.merge"
  rm -rf "$merged"
  mkdir -p "$keep/$target" "$merged"
  seeds+=("$keep/$target") # kept before
  [ ${#seeds[@]} = 0 ] || find "${seeds[@]}" -type f -exec cp {} "$merged/" \;
  (cd "$merged" && find . -type f) >"build-fuzz/$target.seeds"
  run timeout 90 "build-fuzz/bin/$target" -merge=1 -rss_limit_mb=4096 -timeout=20 -max_len=8192 "$merged" \
    "build-fuzz/corpus/$target" >"build-fuzz/$target.merge.log" 2>&1 || echo "$target: not merged in time" >&2
  (cd "$merged" && xargs -r -d '\n' rm -f) <"build-fuzz/$target.seeds"
  find "$merged" -type f -exec mv {} "$keep/$target/" \;
  echo "$target: $(find "$keep/$target" -type f | wc -l) inputs kept"
}

# The processes: each target has its share of N, at least one.
queue=()
for i in "${!targets[@]}"; do
  share=$((processes / ${#targets[@]} + (i < processes % ${#targets[@]} ? 1 : 0)))
  for ((number = 1; number == 1 || number <= share; number++)); do queue+=("${targets[i]} $number"); done
done
echo "${#targets[@]} targets, ${#queue[@]} processes, $processes at once, $seconds s each"
for target in "${targets[@]}"; do rm -f build-fuzz/"$target".*.log{,.sum}; done
failed=0 running=0
for entry in "${queue[@]}"; do
  if [ $running -ge "$processes" ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
  # shellcheck disable=SC2086
  fuzz $entry &
  running=$((running + 1))
done
while [ $running -gt 0 ]; do
  wait -n || failed=1
  running=$((running - 1))
done
for target in "${targets[@]}"; do
  cat build-fuzz/"$target".*.log.sum | awk -v target="$target" '{n += $1; a += $2; s += $3}
      END {printf "%s: %d inputs, %d of them new to it, in %d s of %d processes\n", target, n, a, s, NR}'
done
if [ -n "$keep" ]; then
  running=0
  for target in "${targets[@]}"; do
    [ $running -lt "$processes" ] || { wait -n || true; running=$((running - 1)); }
    keep "$target" &
    running=$((running + 1))
  done
  wait
fi
exit $failed
