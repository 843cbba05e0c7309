#!/usr/bin/env python3
"""Records programs on the embedded device and compares both accounts of their instrumented runs (compare_logs.cpp).

    run.py --deadheat bin/deadheat --compare bin/compare_logs --work DIR BINARY|MODULE.ptx…

Modules are only instrumented, with nothing left out. Prints compare_logs' line a program and `N passed, N failed`. A program that the embedded device refuses counts as
neither. Where ptxas is at hand, every instrumented module must assemble. Exit status: 0 none failed and some passed, 1 otherwise.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys


def assembler():
    found = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    return found if os.access(found, os.X_OK) else None


def assemble(ptxas, folder):
    """What ptxas says against a module in the folder; None: they all assemble."""
    for name in sorted(os.listdir(folder)):
        target = "sm_90"
        with open(os.path.join(folder, name)) as module:
            for line in module:
                if line.startswith(".target"):  # sm_90a assembles for nothing else
                    wanted = line.split()[1].rstrip(",")
                    if int(re.search(r"\d+", wanted).group()) > 90 or wanted.endswith("a"):
                        target = wanted
                    break
        done = subprocess.run([ptxas, "-arch=" + target, "-O1", os.path.join(folder, name), "-o", os.devnull],
                              capture_output=True, text=True)
        if done.returncode:
            return (done.stderr or done.stdout).strip().splitlines()[0]
    return None


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--deadheat", required=True)
    arguments.add_argument("--compare", required=True)
    arguments.add_argument("--work", required=True)
    arguments.add_argument("binaries", nargs="+")
    options = arguments.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    os.makedirs(options.work)
    ptxas = assembler()
    passed = failed = 0
    for number, binary in enumerate(options.binaries):
        trace = os.path.join(options.work, os.path.basename(binary))
        module = binary.endswith(".ptx")
        record = [options.deadheat, "record", "--device", "embedded", "-o", trace, "--", os.path.abspath(binary)]
        done = subprocess.run(["true"] if module else record, capture_output=True, text=True, timeout=60)
        if "not supported by the embedded device" in done.stderr:
            continue
        modules = trace + ".ptx"
        os.makedirs(modules)
        try:
            # Every second one as if its buffers were drained while it runs.
            result = subprocess.run([options.compare, "--ptx", modules, "--slices", str(1 + number % 2 * 4),
                                     binary if module else trace],
                                    capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            failed += 1
            print("FAIL %s: no result in two minutes" % trace)
            continue
        good = result.returncode == 0 and result.stdout.startswith("PASS")
        line = result.stdout.strip() or "FAIL %s: %s" % (trace, (result.stderr or done.stderr).strip())
        refused = assemble(ptxas, modules) if good and ptxas else None
        if refused:
            good, line = False, "FAIL %s: %s" % (trace, refused)
        passed, failed = passed + good, failed + (not good)
        print(line, flush=True)
        shutil.rmtree(modules, ignore_errors=True)
        shutil.rmtree(trace, ignore_errors=True)
    print("%d passed, %d failed" % (passed, failed))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
