#!/usr/bin/env bash
# Sets up, builds, and runs the main job on real CUDA programs: record, analyze, replay, and the witness again.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh deadheat cudart_embedded demo_programs
deadheat=$PWD/build/bin/deadheat
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
# Runs a command that may find races: exit status 0 and 1 are both results.
finds() { step "$*"; "$@" || [ $? = 1 ]; }

programs=$PWD/build/tests/programs
cd "$work"
step deadheat record -o run.deadheat -- "$programs/shared_reduce.racy"
"$deadheat" record -o run.deadheat -- "$programs/shared_reduce.racy"
step deadheat info run.deadheat
"$deadheat" info run.deadheat
finds "$deadheat" analyze run.deadheat
finds "$deadheat" replay run.deadheat --race 1 -o witnesses
finds "$deadheat" replay --witness witnesses/race-1.witness

printf '\n--- the same in one command, on a race between two streams\n'
finds "$deadheat" check -- "$programs/stream_missing_wait.racy"
printf '\n--- and on a program that is right\n'
step deadheat check -- "$programs/shared_reduce.fixed"
"$deadheat" check -- "$programs/shared_reduce.fixed"
