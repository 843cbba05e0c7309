#!/usr/bin/env python3
"""Replays witnesses on the GPU, both orders of each, and prints a table.

    replay_witnesses.py --deadheat bin/deadheat [--runs N] [--jobs N] [--driver LIB] [--json FILE] FOLDER

FOLDER holds NAME/race-N.witness, NAME beginning with the level (shared_, global_, stream_): `deadheat check
--witness-dir FOLDER/NAME` makes them, on any machine. Exit status: 0, or 1 when a witness could not be replayed.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import subprocess
import sys


def replay(options, witness):
    command = [options.deadheat, "replay", "--device", "gpu", "--runs", str(options.runs), "--json", "-", witness]
    if options.driver:
        command += ["--driver", options.driver]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    try:
        return json.loads(done.stdout)["hardware"][0], ""
    except (json.JSONDecodeError, KeyError):
        return None, done.stderr.strip()


def describe(order):
    return "%s: first first in %d of %d, second first in %d" % (
        order["order"], order["had_first_then_second"], order["runs"], order["had_second_then_first"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--driver")
    parser.add_argument("--json", help="file for all reports")
    parser.add_argument("folder")
    options = parser.parse_args()
    witnesses = sorted(glob.glob(options.folder + "/*/*.witness"))
    reports, shown, tried, failed = {}, collections.Counter(), collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for witness, (report, error) in zip(witnesses, pool.map(lambda w: replay(options, w), witnesses)):
            name = os.path.relpath(witness, options.folder)
            if report is None:
                failed += 1
                print("%-50s could not be replayed: %s" % (name, error))
                continue
            reports[name] = report
            if report["out_of_reach"]:
                print("%-50s out of reach: %s" % (name, report["out_of_reach"]))
                continue
            level = name.split("_")[0]
            tried[level] += 1
            shown[level] += report["shown"]
            verdict = "shown" if report["shown"] else "not shown: " + report["why_not"]
            print("%-50s %s (%s; %s)" % (name, verdict, report["means"], "; ".join(map(describe, report["orders"]))))
    print(", ".join("%s: %d of %d shown" % (level, shown[level], tried[level]) for level in sorted(tried)))
    if options.json:
        with open(options.json, "w") as out:
            json.dump(reports, out, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
