#!/usr/bin/env python3
"""Records programs on the embedded device and compares both accounts of their instrumented runs (compare_logs.cpp).

    run.py --deadheat bin/deadheat --compare bin/compare_logs --work DIR [--settles] [--left-out N] BINARY|MODULE.ptx…

Every program is compared twice: with what its buffers hold given at once, and in slices, as if they were drained while it
runs. With --settles some of it all must have been put in order before its end. Modules are only instrumented, with nothing
left out. Where ptxas is at hand, every instrumented module must assemble.

Prints compare_logs' line a program and `N passed, N failed`. A program that the embedded device refuses, or whose log is
larger than the rings of compare_logs, is left out; at most N may be. Exit status: 0 none failed and some passed, 1 otherwise.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

SLICES = 5


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


def compare(options, slices, folder, what):
    """compare_logs' line; instrumented modules go into the folder."""
    command = [options.compare, "--ptx", folder, "--slices", str(slices), what]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "FAIL %s: no result in two minutes" % what
    line = done.stdout.strip() or "FAIL %s: %s" % (what, done.stderr.strip() or "it says nothing")
    return line if line.startswith("FAIL") or not done.returncode else "FAIL %s: status %d" % (what, done.returncode)


def judge(options, ptxas, binary):
    """The line of a program or a module: PASS, FAIL or LEFT OUT."""
    trace = os.path.join(options.work, os.path.basename(binary))
    modules = trace + ".ptx"
    os.makedirs(modules)
    if binary.endswith(".ptx"):
        line = compare(options, 1, modules, binary)
    else:
        record = [options.deadheat, "record", "--device", "embedded", "-o", trace, "--", os.path.abspath(binary)]
        try:
            done = subprocess.run(record, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return "FAIL %s: it does not end in a minute" % binary
        if "not supported by the embedded device" in done.stderr:
            return "LEFT OUT %s: not supported by the embedded device" % binary
        line = compare(options, 1, modules, trace)
        if line.endswith("its log is larger than the rings"):
            return "LEFT OUT" + line[len("FAIL"):]
        if line.startswith("PASS"):
            line = compare(options, SLICES, modules, trace)
    refused = assemble(ptxas, modules) if line.startswith("PASS") and ptxas else None
    return "FAIL %s: %s" % (trace, refused) if refused else line


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--deadheat", required=True)
    arguments.add_argument("--compare", required=True)
    arguments.add_argument("--work", required=True)
    arguments.add_argument("--settles", action="store_true", help="something must be put in order early")
    arguments.add_argument("--left-out", type=int, default=0, metavar="N", help="so many may be, at most")
    arguments.add_argument("binaries", nargs="+")
    options = arguments.parse_args()
    ptxas = assembler()
    lines = []
    for binary in options.binaries:
        shutil.rmtree(options.work, ignore_errors=True)
        os.makedirs(options.work)
        lines.append(judge(options, ptxas, binary))
        print(lines[-1], flush=True)
    shutil.rmtree(options.work, ignore_errors=True)
    settled = sum(int(match.group(1)) for match in re.finditer(r" (\d+) settled early$", "\n".join(lines), re.M))
    left_out = sum(line.startswith("LEFT OUT") for line in lines)
    failed = sum(line.startswith("FAIL") for line in lines)
    print("%d records settled early; %d left out, at most %d may be" % (settled, left_out, options.left_out))
    failed += (left_out > options.left_out) + (options.settles and not settled)
    passed = sum(line.startswith("PASS") for line in lines)
    print("%d passed, %d failed" % (passed, failed))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
