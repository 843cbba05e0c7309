#!/usr/bin/env python3
"""How fast harmful races are witnessed, how short the witnesses are, and whether fixed programs ever differ.

    witnesses.py --deadheat build/bin/deadheat --binaries build/tests/programs [--repeat 100] [--vary 200] [NAME…]

For every program whose expected file calls a race harmful: records it, replays it, and prints for each such race the
schedules tried, the context switches of the witness, how many threads suffice for it, and the seconds that replaying all
races of the program took; then the witness is run again --repeat times, and must give the same digests. For every fixed
twin without order-dependent atomics, and without "varies", a reason, in its expected file: runs --vary schedules with
old values of memory, which must all give one output.
--repeat 0 or --vary 0 leaves that part out. Prints the medians last; exit status 1 when something was not as it must be.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import run_program

MOST_SWITCHES = 6  # that a race of two threads may need
MOST_OF_SEVERAL = 32  # that one may need whose accesses are of whole warps, or of nobody's turn:
OF_SEVERAL = ("cp.", "st.async", "red.async", "ldmatrix", "stmatrix", "wmma", "wgmma")
HERE = os.path.dirname(os.path.abspath(__file__))


def record(options, binary, work):
    trace = os.path.join(work, os.path.basename(binary) + ".deadheat")
    command = [options.deadheat, "record", "-o", trace, "--", binary]
    subprocess.run(command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    return trace if os.path.isdir(trace) else None


def harmful(options, source, expectation, work):
    """Rows of the table, and problems."""
    name = os.path.splitext(os.path.basename(source))[0]
    binary = os.path.join(options.binaries, name + ".racy")
    trace = record(options, binary, work)
    if not trace:
        return [], [name + ": not recorded"]
    report_file = os.path.join(work, name + ".json")
    begin = time.monotonic()
    subprocess.run([options.deadheat, "replay", trace, "--json", report_file, "-o", os.path.join(work, name)],
                   cwd=work, capture_output=True, timeout=600)
    seconds = time.monotonic() - begin
    with open(report_file) as text:
        races = json.load(text)["races"]
    markers = {line: marker for marker, line in run_program.markers_of(source).items()}
    rows, problems = [], []
    for expected in expectation["racy"]["races"]:
        if expected["verdict"] != "harmful":
            continue
        sides = sorted((expected["first"], expected["second"]))
        matching = [race for race in races if race["level"] == expected["level"] and sides == sorted(
            run_program.found_side(race[side], source, markers) for side in ("first", "second"))]
        race = next((race for race in matching if race.get("verdict") == "harmful"), None)
        row = {"program": name, "sides": "/".join(sides), "seconds": seconds, "witness": race is not None}
        rows.append(row)
        if race is None:
            continue
        row["schedules"] = race["schedules"]
        row["switches"] = race.get("interleaving", {}).get("context_switches")
        row["smaller"] = race.get("interleaving", {}).get("smaller")
        row["two"] = not any(race[side].get("opcode", "").startswith(OF_SEVERAL) for side in ("first", "second"))
        # Of a fault that is harmful the first race alone is given the time for a better witness.
        row["two"] = row["two"] and not race.get("same_fault_as")
        most = MOST_SWITCHES if row["two"] else MOST_OF_SEVERAL
        if row["switches"] is not None and row["switches"] > most:
            problems.append("%s: %d context switches, of at most %d" % (name, row["switches"], most))
        row["why"] = race.get("verdict_why", "")
        if "other accesses changed places" in row["why"]:
            row["others"] = True
        digests = set()
        for _ in range(options.repeat):
            again = os.path.join(work, "again.json")
            subprocess.run([options.deadheat, "replay", "--witness", race["witness"], "--json", again],
                           cwd=work, capture_output=True, timeout=300)
            with open(again) as text:
                witness = json.load(text)["witness"]
            digests.add((witness["digest_a"], witness["digest_b"], witness["as_recorded"]))
        if options.repeat and (len(digests) != 1 or not next(iter(digests))[2]):
            problems.append("%s: the witness gave %d digests in %d runs" % (name, len(digests), options.repeat))
    return rows, problems


def fixed(options, source, work):
    name = os.path.splitext(os.path.basename(source))[0]
    trace = record(options, os.path.join(options.binaries, name + ".fixed"), work)
    if not trace:
        return None, [name + ": not recorded"]
    report = os.path.join(work, "vary.json")
    begin = time.monotonic()
    done = subprocess.run([options.deadheat, "replay", trace, "--vary", str(options.vary), "--json", report],
                          cwd=work, capture_output=True, timeout=1800)
    if done.returncode not in (0, 1):
        return None, ["%s: %s" % (name, done.stderr.decode(errors="replace").strip()[-300:])]
    with open(report) as text:
        variation = json.load(text)["variation"]
    variation["seconds"] = time.monotonic() - begin
    problems = []
    if variation["schedules"] != options.vary:
        problems.append("%s.fixed: %d schedules of %d" % (name, variation["schedules"], options.vary))
    if variation["outputs"] != 1:
        problems.append("%s.fixed: %d outputs, first in schedule %d" % (name, variation["outputs"], variation["first"]))
    return variation, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True, help="the deadheat command")
    parser.add_argument("--binaries", required=True, help="folder that holds NAME.racy and NAME.fixed")
    parser.add_argument("--repeat", type=int, default=100, help="runs of each witness")
    parser.add_argument("--vary", type=int, default=200, help="schedules of each fixed twin")
    parser.add_argument("--only", choices=["harmful", "fixed"], help="only one of the two parts")
    parser.add_argument("names", nargs="*", help="beginnings of program names; all without")
    options = parser.parse_args()
    options.deadheat, options.binaries = os.path.abspath(options.deadheat), os.path.abspath(options.binaries)
    rows, variations, problems = [], [], []
    with tempfile.TemporaryDirectory() as work:
        for source in sorted(glob.glob(os.path.join(HERE, "*.cu"))):
            name = os.path.splitext(os.path.basename(source))[0]
            if options.names and not any(name.startswith(n) for n in options.names):
                continue
            with open(os.path.splitext(source)[0] + ".expected.json") as text:
                expectation = json.load(text)
            if options.only != "fixed" and any(r["verdict"] == "harmful" for r in expectation["racy"]["races"]):
                found, wrong = harmful(options, source, expectation, work)
                rows += found
                problems += wrong
                for row in found:
                    print("%-28s %-12s %6.1f s  %s" % (row["program"], row["sides"], row["seconds"], (
                        "%4d schedules  %s context switches%s%s" % (
                            row["schedules"], "-" if row["switches"] is None else row["switches"],
                            "  %(threads)d of %(of_threads)d threads in %(blocks)d of %(of_blocks)d blocks" %
                            row["smaller"] if row["smaller"] else "",
                            "  (others changed places)" if row.get("others") else "")
                        if row["witness"] else "NO WITNESS")))
            if options.only != "harmful" and options.vary and not expectation["fixed"].get("order_dependent") and \
                    not expectation["fixed"]["races"] and not name.startswith("order_"):
                if "varies" in expectation["fixed"]:
                    print("%-28s fixed        not looked at: %s" % (name, expectation["fixed"]["varies"]))
                    continue
                variation, wrong = fixed(options, source, work)
                problems += wrong
                if variation:
                    variations.append(variation)
                    print("%-28s fixed        %6.1f s  %d schedules  %d old values  %d output%s" % (
                        name, variation["seconds"], variation["schedules"], variation["old_reads"],
                        variation["outputs"], "" if variation["outputs"] == 1 else "s  DIFFERS"))
            sys.stdout.flush()
    print()
    if rows:
        seen = [row for row in rows if row["witness"]]
        switches = [row["switches"] for row in seen if row["switches"] is not None and row["two"]]
        others = [row["switches"] for row in seen if row["switches"] is not None and not row["two"]]
        print("%d of %d harmful races witnessed (%.1f %%)" % (len(seen), len(rows), 100 * len(seen) / len(rows)))
        if seen:
            print("median of %g schedules and %.2f s (all races of the program); most: %d schedules, %.1f s" % (
                statistics.median(row["schedules"] for row in seen), statistics.median(row["seconds"] for row in seen),
                max(row["schedules"] for row in seen), max(row["seconds"] for row in seen)))
        if switches:
            print("context switches: median %g, most %d; at most %d in %d of %d" % (
                statistics.median(switches), max(switches), MOST_SWITCHES, sum(s <= MOST_SWITCHES for s in switches),
                len(switches)))
        if others:
            print("of asynchronous copies, matrix accesses and further races of a fault: median %g, most %d" % (
                statistics.median(others), max(others)))
        smaller = [row["smaller"] for row in seen if row["smaller"]]
        print("fewer threads suffice in %d, two threads in %d" % (
            sum(s["threads"] < s["of_threads"] for s in smaller), sum(s["threads"] == 2 for s in smaller)))
        print("other accesses changed places in %d of %d" % (sum(bool(row.get("others")) for row in seen), len(seen)))
        if len(seen) < 0.95 * len(rows):
            problems.append("fewer than 95 % witnessed")
    if variations:
        print("%d fixed twins, %d schedules, %d reads of old values: %d twins with one output" % (
            len(variations), sum(v["schedules"] for v in variations), sum(v["old_reads"] for v in variations),
            sum(v["outputs"] == 1 for v in variations)))
    if not rows and not variations:
        problems.append("nothing was looked at")
    for problem in problems:
        print("PROBLEM " + problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
