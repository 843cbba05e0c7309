#!/usr/bin/env python3
"""Runs all programs of this folder and prints what was expected of them beside what was found.

    table.py --deadheat build/bin/deadheat --binaries build/tests/programs [--work DIR] [--jobs N] [NAME…]

The folder of binaries holds NAME.racy and NAME.fixed, as the build leaves them. Names choose programs by their
beginning (shared, stream_graph). Exit status: 0 all agree, 1 not.
"""
import argparse
import concurrent.futures
import glob
import os
import sys
import tempfile
import time

import run_program

HERE = os.path.dirname(os.path.abspath(__file__))


def programs(names):
    """(source, twin) of every twin, in the order of the table."""
    sources = sorted(glob.glob(os.path.join(HERE, "*.cu"))) + sorted(glob.glob(os.path.join(HERE, "real", "*.cu")))
    for source in sources:
        if names and not any(os.path.basename(source).startswith(name) for name in names):
            continue
        if os.path.dirname(source) == HERE:
            yield source, "racy"
        yield source, "fixed"


def one(options, source, twin):
    name = os.path.splitext(os.path.basename(source))[0]
    binary = os.path.join(options.binaries, "%s.%s" % (name, twin))
    if os.path.exists(binary):
        start = time.monotonic()
        result = run_program.check(options.deadheat, source, twin, binary, options.work)
        result.seconds = time.monotonic() - start
    else:
        result = run_program.Result(name, twin)
        result.problems.append("no binary " + binary)
        result.seconds = 0.0
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True, help="the deadheat command")
    parser.add_argument("--binaries", required=True, help="folder that holds NAME.racy and NAME.fixed")
    parser.add_argument("--work", help="folder for traces and reports (a temporary one without)")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("names", nargs="*", help="beginnings of program names; all without")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        options.work = options.work or temporary
        return table(options)


def table(options):
    twins = list(programs(options.names))
    with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
        results = []
        print("%-4s %-28s %-6s %6s  %s" % ("", "program", "twin", "s", "expected | found"))
        for result in pool.map(lambda twin: one(options, *twin), twins):
            results.append(result)
            expected, found = "; ".join(result.expected) or "-", "; ".join(result.found) or "-"
            # What a library's program says of itself: how many answers agree with the host's, at which sizes.
            answer = "  (%s)" % result.answer if result.answer.startswith(("ok ", "skipped: ")) else ""
            print("%-4s %-28s %-6s %6.1f  %s%s" % (
                "skip" if result.skipped else "ok" if result.passed else "FAIL", result.name, result.twin, result.seconds,
                expected if expected == found else expected + " | " + found, answer))
            for problem in result.problems:
                print("       " + problem.replace("\n", "\n       "))
            sys.stdout.flush()

    agree = sum(result.passed for result in results)
    racy = [result for result in results if result.expected]
    clean = [result for result in results if not result.expected]
    expected_races = sum(len(result.expected) for result in racy)
    found_races = sum(len(set(result.expected) & set(result.found)) for result in racy)
    false_races = sum(len(set(result.found) - set(result.expected)) for result in results)
    print()
    print("%d of %d twins as expected" % (agree, len(results)))
    print("%d of %d expected races found, with verdict, in %d racy programs" %
          (found_races, expected_races, len(racy)))
    print("%d races found that were not expected; %d of %d race-free twins are clean" %
          (false_races, sum(not result.found for result in clean), len(clean)))
    return 0 if agree == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
