#!/usr/bin/env bash
# Leaves numba-cuda and cuda.core in FOLDER/venv, from PyPI (200 MB); python_kernels.py needs them.
# Usage: tests/programs/python_packages.sh FOLDER
# Where they cannot be had, one line says so, the exit status is 0, and the test of their kernels skips itself.
set -euo pipefail
mkdir -p "$1"
cd "$1"
venv/bin/python -c 'import numba.cuda, cuda.core' 2>/dev/null && exit 0
give_up() {
  echo "no numba-cuda and cuda.core: $1 (see $PWD/python.log); the test of their kernels is skipped"
  exit 0
}
python3 -m venv venv >python.log 2>&1 || give_up "python3 makes no virtual environment (apt-get install python3-venv)"
timeout 240 venv/bin/pip install --quiet --retries 1 --timeout 15 'numba-cuda[cu13]==0.30.4' 'cuda-core==1.2.2' >>python.log 2>&1 ||
  give_up "PyPI cannot be reached or has no such packages for this Python"
