#!/usr/bin/env python3
"""Graphs with conditional nodes on a GPU: what their bodies did is in the trace, as often as the device decided.

    conditions.py --deadheat bin/deadheat --tracer libdeadheat.so --work DIR --binary conditions

The binary counts on the device how often each of its bodies ran, and prints that; the trace must have as many launches
of the kernel, with accesses, none of them opaque. With a fault planted a certain race must be found, without none.
Prints PASS or FAIL a case, and `N passed, N failed`.
"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys

CASES = ["loop", "either", "choice", "again", "barrier"]
COUNTED = ["collatz", "look", "choose", "add_up", "first_body", "second_body", "odd_body"]
ALONE, RECORDED = 60, 180  # seconds


def run(arguments, words, trace=None):
    """Lines of its output, what was said, and its status."""
    variables = dict(os.environ)
    if trace:
        shutil.rmtree(trace, ignore_errors=True)
        variables.update(LD_PRELOAD=os.path.abspath(arguments.tracer),
                         DEADHEAT_OPTIONS="output=%s:device=gpu:buffer=256" % trace)
    done = subprocess.run([arguments.binary, *words], env=variables, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=RECORDED if trace else ALONE)
    return done.stdout.splitlines(), done.stderr, done.returncode


def launches_of(arguments, trace):
    """How often the trace has each kernel, by its name without parameters."""
    done = subprocess.run([arguments.deadheat, "info", "--records", trace], text=True, stdout=subprocess.PIPE, timeout=120)
    counts = collections.Counter()
    for line in done.stdout.splitlines():
        kernel = line.partition(" kernel ")[2].partition("(")[0]
        for name in COUNTED:
            counts[name] += bool(re.search(r"(^|[\s\d])%s" % name, kernel))
    return counts


def problems(arguments, what, fault):
    trace = os.path.join(arguments.work, "conditions-%s-%d" % (what, fault))
    alone, said, status = run(arguments, [what, str(fault)])
    if status or alone[-1:] != ["done"]:
        return ["alone: status %d, %s" % (status, said.strip() or alone)]
    recorded, said, status = run(arguments, [what, str(fault)], trace)
    found = []
    if status or recorded[-1:] != ["done"]:
        return ["recorded: status %d, %s" % (status, said.strip() or recorded)]
    if not fault and recorded != alone:
        found.append("its output changed: %s, alone %s" % (recorded, alone))
    done = subprocess.run([arguments.deadheat, "analyze", trace, "--json", "-"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120)
    if not done.stdout:
        return found + ["analyze: " + done.stderr.strip()]
    report = json.loads(done.stdout)
    summary = report["summary"]
    if summary["opaque"] or not summary["complete"]:
        found.append("opaque %d, complete %s; said: %s" % (summary["opaque"], summary["complete"], said.strip()))
    counts = launches_of(arguments, trace)
    for line in recorded:
        match = re.fullmatch(r"(\w+) (\d+)", line)
        if match and counts[match.group(1)] != int(match.group(2)):
            found.append("%s ran %s times, the trace has %d" % (*match.groups(), counts[match.group(1)]))
    certain = [race for race in report["races"] if race["certainty"] == "certain"]
    if bool(certain) != bool(fault) or len(certain) != len(report["races"]):
        found.append("%d certain races, %d in all" % (len(certain), len(report["races"])))
    return found


def main():
    parser = argparse.ArgumentParser()
    for name in ("deadheat", "tracer", "work", "binary"):
        parser.add_argument("--" + name, required=True)
    arguments = parser.parse_args()
    passed = failed = 0
    for what in CASES:
        for fault in (0, 1):
            try:
                found = problems(arguments, what, fault)
            except subprocess.TimeoutExpired as late:
                found = ["no end within %d s" % late.timeout]
            print("%s %s %s%s" % ("FAIL" if found else "PASS", what, "fault" if fault else "right",
                                  ": " + "; ".join(found) if found else ""), flush=True)
            passed += not found
            failed += bool(found)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


sys.exit(main())
