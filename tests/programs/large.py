#!/usr/bin/env python3
"""Runs the programs of real/ that take sizes at larger ones than the tests do; too slow for CI.

    large.py --deadheat build/bin/deadheat --binaries build/tests/programs [--sizes 50000,300000] [NAME…]

Prints a line for each program and size: seconds and trace size of the recording, seconds of the analysis, accesses,
races that count, and the program's own last line. Names choose programs by their beginning. Exit status: 0 where every
answer is the host's, every trace complete and no race counts, else 1.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TIME_LIMIT = 1800  # seconds, for one step
# Whose library code races at these sizes by a mistake of its own: real/NAME.expected.json says which race.
KNOWN = {"cub_transform": 1}


def timed(command):
    start = time.monotonic()
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT)
    return time.monotonic() - start, process.returncode, process.stdout.decode(errors="replace")


def bytes_in(folder):
    return sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(folder) for name in names)


def one(options, name, size, folder):
    trace, report = os.path.join(folder, "trace"), os.path.join(folder, "report.json")
    binary = os.path.abspath(os.path.join(options.binaries, name + ".fixed"))
    record, status, out = timed([options.deadheat, "record", "-o", trace, "--", binary, str(size)])
    answer = (out.splitlines() or ["no output"])[-1]
    analyze, _, _ = timed([options.deadheat, "analyze", "--json", report, trace])
    with open(report) as text:
        summary = json.load(text)["summary"]
    good = (status == 0 and answer.startswith("ok ") and summary["complete"] and
            summary["races"] == KNOWN.get(name, 0))
    print("%-4s %-20s %9d %8.1f %8.1f %8.1f %12d %6d  %s" % (
        "ok" if good else "FAIL", name, size, record, analyze, bytes_in(trace) / 1e6, summary["accesses"],
        summary["races"], answer))
    sys.stdout.flush()
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True, help="the deadheat command")
    parser.add_argument("--binaries", required=True, help="folder that holds NAME.fixed")
    parser.add_argument("--sizes", default="50000,300000", help="elements, comma between")
    parser.add_argument("names", nargs="*", help="beginnings of program names; all without")
    options = parser.parse_args()
    print("%-4s %-20s %9s %8s %8s %8s %12s %6s" % ("", "program", "size", "record", "analyze", "MB", "accesses", "races"))
    good = True
    for source in sorted(glob.glob(os.path.join(HERE, "real", "*.cu"))):
        name = os.path.splitext(os.path.basename(source))[0]
        with open(source) as text:
            if "argument_count" not in text.read():
                continue
        if options.names and not any(name.startswith(chosen) for chosen in options.names):
            continue
        for size in options.sizes.split(","):
            with tempfile.TemporaryDirectory() as folder:
                good &= one(options, name, int(size), folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
