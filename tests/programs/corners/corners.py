#!/usr/bin/env python3
"""Corners of the rules, many to a program: what is named races_* must be reported, what is named ordered_* must not.

    corners.py --deadheat build/bin/deadheat --source launch.cu --binary launch

Names are those of kernels, or of the namespaces around them. Where lines of a case end in "// @race", one race must be
between these lines. Exit status: 0 all are as they say, 1 not.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

NAME = r"\b((?:races|ordered)_\w+)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--binary", required=True)
    options = parser.parse_args()
    marked = {} # by case: numbers of lines
    with open(options.source) as file:
        cases, name = set(), None
        for number, line in enumerate(file, 1):
            for name in re.findall(r"(?:__global__ void |CASE\()" + NAME, line):
                cases.add(name)
            if line.rstrip().endswith("// @race"):
                marked.setdefault(name, set()).add(number)
        cases = sorted(cases)
    deadheat = os.path.abspath(options.deadheat)
    with tempfile.TemporaryDirectory() as work:
        trace, report = os.path.join(work, "trace"), os.path.join(work, "report.json")
        ran = subprocess.run([deadheat, "record", "-o", trace, "--", os.path.abspath(options.binary)], cwd=work, text=True,
                             stdout=subprocess.PIPE, timeout=120, check=False)
        subprocess.run([deadheat, "analyze", trace, "--json", report], cwd=work, stdout=subprocess.DEVNULL, timeout=120,
                       check=False)
        with open(report) as file:
            content = json.load(file)
    problems = []
    if ran.returncode or ran.stdout != "%d cases\n" % len(cases):
        problems.append("status %d, said %r, of %d cases" % (ran.returncode, ran.stdout, len(cases)))
    if not content["summary"]["complete"] or content["memory_errors"] or content["sync_errors"]:
        problems.append("the trace is not complete, or has errors")
    found, between = {}, {}
    for race in content["races"]:
        names = {name for side in ("first", "second") for name in re.findall(NAME, race[side].get("kernel") or "")}
        if len(names) != 1:
            problems.append("a race of no case, or of several: %s and %s" % (race["first"], race["second"]))
        for name in names:
            found[name] = race["why"]
            between.setdefault(name, []).append({race[side].get("line") for side in ("first", "second")})
    # What the device records for itself after a graph is no event of the program's.
    if "event" in found.get("races_instances_of_one_graph", "").replace("no event", ""):
        problems.append("races_instances_of_one_graph names an event: " + found["races_instances_of_one_graph"])
    for name in cases:
        if name.startswith("races_") != (name in found):
            problems.append("%s: %s" % (name, found.get(name, "no race found")))
        elif name in marked and not any(lines and lines <= marked[name] for lines in between[name]):
            problems.append("%s: no race between the lines %s: %s" % (name, sorted(marked[name]), between[name]))
    for problem in problems:
        print(problem)
    print("%d cases, %d of them races; %d problems" % (len(cases), sum(name.startswith("races") for name in cases),
                                                     len(problems)))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
