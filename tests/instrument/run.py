#!/usr/bin/env python3
"""Records programs on the embedded device and compares both accounts of their instrumented runs (compare_logs.cpp).

    run.py --deadheat bin/deadheat --compare bin/compare_logs --work DIR BINARY…

Prints compare_logs' line a program and `N passed, N failed`. A program that the embedded device refuses counts as
neither. Exit status: 0 none failed and some passed, 1 otherwise.
"""
import argparse
import os
import shutil
import subprocess
import sys


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--deadheat", required=True)
    arguments.add_argument("--compare", required=True)
    arguments.add_argument("--work", required=True)
    arguments.add_argument("binaries", nargs="+")
    options = arguments.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    os.makedirs(options.work)
    passed = failed = 0
    for binary in options.binaries:
        trace = os.path.join(options.work, os.path.basename(binary))
        record = [options.deadheat, "record", "--device", "embedded", "-o", trace, "--", os.path.abspath(binary)]
        done = subprocess.run(record, capture_output=True, text=True, timeout=60)
        if "not supported by the embedded device" in done.stderr:
            continue
        result = subprocess.run([options.compare, trace], capture_output=True, text=True, timeout=120)
        good = result.returncode == 0 and result.stdout.startswith("PASS")
        passed, failed = passed + good, failed + (not good)
        print(result.stdout.strip() or "FAIL %s: %s" % (trace, (result.stderr or done.stderr).strip()))
        shutil.rmtree(trace, ignore_errors=True)
    print("%d passed, %d failed" % (passed, failed))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
