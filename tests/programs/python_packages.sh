#!/usr/bin/env bash
# Leaves numba-cuda, cuda.core and Taichi in FOLDER/venv, from PyPI (260 MB); python_kernels.py needs them.
# Usage: tests/programs/python_packages.sh FOLDER
# Where they cannot be had, one line says so, the exit status is 0, and the test of their kernels leaves theirs out.
set -euo pipefail
mkdir -p "$1"
cd "$1"
has() { venv/bin/python -c "import $1" >/dev/null 2>&1; }
give_up() {
  echo "no numba-cuda, cuda.core and Taichi: $1 (see $PWD/python.log); the test of their kernels is skipped"
  exit 0
}
has numba.cuda,cuda.core,taichi && exit 0
python3 -m venv venv >python.log 2>&1 || give_up "python3 makes no virtual environment (apt-get install python3-venv)"
install() {
  timeout 240 venv/bin/pip install --quiet --retries 1 --timeout 15 --only-binary :all: "$@" >>python.log 2>&1
}
has numba.cuda,cuda.core || install 'numba-cuda[cu13]==0.30.4' 'cuda-core==1.2.2' ||
  echo "no numba-cuda and cuda.core: PyPI cannot be reached or has none for this Python (see $PWD/python.log)"
has taichi || install 'taichi==1.7.4' ||
  echo "no Taichi: PyPI cannot be reached or has none for this Python (see $PWD/python.log)"
