#!/usr/bin/env bash
# Formats the C++ of the tree, or with --check says what is not formatted (exit status 1).
# CUDA sources are left alone: what is expected of the test programs names their lines. Exit status 77: it cannot tell,
# since there is no clang-format 19 (others format differently) or this is no git checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format-19 >/dev/null || { echo "no clang-format-19: apt-get install clang-format-19" >&2; exit 77; }
git rev-parse --git-dir >/dev/null 2>&1 || { echo "no git checkout: what to format is not known" >&2; exit 77; }
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
git ls-files -co --exclude-standard '*.h' '*.cpp' | xargs -P "$(nproc)" -n 40 clang-format-19 "${mode[@]}"
