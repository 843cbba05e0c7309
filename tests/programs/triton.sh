#!/usr/bin/env bash
# Leaves the PTX that Triton gives for triton_kernels.py in FOLDER. Triton comes from PyPI into FOLDER/venv (300 MB).
# Usage: tests/programs/triton.sh FOLDER
# Where it cannot be had, one line says so, the exit status is 0, and real/triton_kernels.cu skips itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
[ attention.ptx -nt "$here/triton_kernels.py" ] && exit 0
give_up() {
  echo "no Triton: $1 (see $PWD/triton.log); the test of its kernels is skipped"
  exit 0
}
if [ ! -x venv/bin/python ] || ! venv/bin/python -c 'import triton' 2>/dev/null; then
  python3 -m venv venv >triton.log 2>&1 || give_up "python3 makes no virtual environment (apt-get install python3-venv)"
  timeout 240 venv/bin/pip install --quiet --retries 1 --timeout 15 triton==3.9.0 setuptools >>triton.log 2>&1 ||
    give_up "PyPI cannot be reached or has no triton 3.9.0 for this Python"
fi
export TRITON_CACHE_DIR=$PWD/cache TRITON_DEFAULT_FP_FUSION=1
timeout 240 venv/bin/python "$here/triton_kernels.py" "$PWD" >>triton.log 2>&1 || give_up "triton_kernels.py fails"
