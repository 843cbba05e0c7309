#!/usr/bin/env bash
# Installs what the build needs and is missing (Debian 12, Ubuntu 24.04), then configures and builds ./build.
# Usage: tools/setup.sh [cmake target…]
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache git python3 llvm-19-dev clang-format-19 zlib1g-dev libzstd-dev liblz4-dev libxxhash-dev libfmt-dev
          nlohmann-json3-dev libboost-program-options-dev libboost-context-dev libgtest-dev libgmock-dev
          librapidcheck-dev libbenchmark-dev python3-jsonschema python3-venv)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing: ${missing[*]}"
  sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null || true)
if [ -z "$nvcc" ]; then
  echo "no nvcc found: install the CUDA 13 toolkit, or set CUDA_HOME; going on without CUDA programs" >&2
fi

[ -f build/build.ninja ] || cmake --preset release >build-configure.log 2>&1 ||
  { cat build-configure.log >&2; exit 1; }
rm -f build-configure.log
if [ $# -gt 0 ]; then
  cmake --build build --target "$@"
else
  cmake --build build
fi
