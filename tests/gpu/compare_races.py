#!/usr/bin/env python3
"""Checks that traces from a GPU show the races that the programs are expected to have.

    compare_races.py --deadheat bin/deadheat --programs tests/programs TRACES

TRACES holds one trace a program, named NAME.racy or NAME.fixed. Each is analyzed, and its races are compared with
NAME.expected.json as sets of (level, class, kind, sides): verdicts are replay's. A race that has a "gpu" there, which
says why, may be missing, or be a possible one of opaque kernels; where it is not, that is said. A twin that has a "gpu"
there may show possible races besides, and one that has "on_gpu" shows the races named there, for the reason that is said.
Prints a line for each that differs, and ends in
`N passed, N failed`. Exit status: 0 none failed, 1 some did.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import run_program  # noqa: E402


def races_of(deadheat, trace, source):
    process = subprocess.run([deadheat, "analyze", trace, "--json", "-"], capture_output=True, text=True, timeout=120)
    if process.returncode not in (0, 1):
        return None, process.stderr.strip()
    report = json.loads(process.stdout)
    markers = {line: name for name, line in run_program.markers_of(source).items()}
    found = set()
    for race in report["races"]:
        if race.get("suppressed"):  # a known one of the libraries
            continue
        sides = [run_program.found_side(race[which], source, markers) for which in ("first", "second")]
        kind = race["certainty"] + " " if race["certainty"] != "certain" else ""
        found.add((kind + race["level"], race["class"], run_program.kind_of(race["kind"]), tuple(sorted(sides))))
    return found, "opaque launches" if report["summary"]["opaque"] else ""


def key_of(race):
    return (race["level"], race["class"], run_program.kind_of(race["kind"]),
            tuple(sorted((race["first"], race["second"]))))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--deadheat", required=True)
    arguments.add_argument("--programs", required=True)
    arguments.add_argument("traces")
    options = arguments.parse_args()
    passed = failed = 0
    workers = concurrent.futures.ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 2) // 2))
    analyses = []
    for name in sorted(os.listdir(options.traces)):
        program, twin = name.rsplit(".", 1)
        source = next((path for path in (os.path.join(options.programs, program + ".cu"),
                                         os.path.join(options.programs, "real", program + ".cu"))
                       if os.path.exists(path)), None)
        if not source:
            continue
        with open(os.path.splitext(source)[0] + ".expected.json") as text:
            expectation = json.load(text)
        races = expectation.get(twin, {}).get("races", [])
        on_gpu = expectation.get(twin, {}).get("on_gpu")
        if on_gpu:
            races = on_gpu["races"]
            print("  %s: others than on the embedded device: %s" % (name, on_gpu["why"]))
        expected = {key_of(race) for race in races}
        excused = {key_of(race): race["gpu"] for race in races if "gpu" in race}
        blurred = expectation.get(twin, {}).get("gpu")
        analyses.append((name, expected, excused, blurred, workers.submit(races_of, options.deadheat,
                                                        os.path.join(options.traces, name), source)))
    for name, expected, excused, blurred, analysis in analyses:
        found, note = analysis.result()
        for key in sorted(set(excused) - (found or set())):
            print("  %s: %s is not shown: %s" % (name, key, excused[key]))
            expected.discard(key)
            found = found and {other for other in found if not other[0].startswith("possible ")}
        if blurred:
            print("  %s: %d possible races: %s" % (name, sum(key[0].startswith("possible ") for key in found or ()), blurred))
            found = found and {key for key in found if not key[0].startswith("possible ")}
        for key in sorted(set(excused) & (found or set())):
            print("  %s: idle \"gpu\", the race is shown: %s" % (name, key))
        if found == expected:
            passed += 1
            continue
        failed += 1
        if found is None:
            print("FAIL %s: %s" % (name, note))
            continue
        for key in sorted(expected - found):
            print("FAIL %s: missing %s%s" % (name, key, " (%s)" % note if note else ""))
        for key in sorted(found - expected):
            print("FAIL %s: unexpected %s%s" % (name, key, " (%s)" % note if note else ""))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
