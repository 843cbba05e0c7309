#!/usr/bin/env bash
# Sets up, builds and runs all tests. Arguments go to ctest: tools/test.sh -R shared_
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
exec ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
