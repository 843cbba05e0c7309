#!/usr/bin/env bash
# Formats the C++ of the tree, or with --check says what is not formatted (exit status 1).
# CUDA sources are left alone: what is expected of the test programs names their lines.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format-19 >/dev/null || { echo "no clang-format-19: apt-get install clang-format-19" >&2; exit 2; }
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)
git ls-files '*.h' '*.cpp' | xargs clang-format-19 "${mode[@]}"
