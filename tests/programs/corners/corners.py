#!/usr/bin/env python3
"""Corners of the rules, many to a program: what is named races_* must be reported, what is named ordered_* must not; what is
named errs_* has synchronization errors and no race.

    corners.py --deadheat build/bin/deadheat --source launch.cu --binary launch

Names are those of kernels, or of the namespaces around them. Where lines of a case, or of the function template that is all
its body, end in "// @race", one race must be between these lines. Suppressed races do not count. Cases that are variants of the same lines say which pairs of them must race, and no others do: lines
end in "// @label", the case's in "// races label-label, label-label". Exit status: 0 all are as they say, 1 not.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

NAME = r"\b((?:races|ordered|errs)_\w+)"


def read_source(path):
    """(names of cases; by case: numbers of the lines that it marks; labels by number of line; by case: pairs of labels)"""
    cases, marked, labels, pairs, name = set(), {}, {}, {}, None
    bodies = {}  # by case: the function template that is all its body
    with open(path) as file:
        for number, line in enumerate(file, 1):
            for name in re.findall(r"(?:__global__ void |CASE\()" + NAME, line):
                cases.add(name)
                bodies.update((name, body) for body in re.findall(r"\{ (\w+)<.*\}$", line))
            for name in re.findall(r"^__device__ .*?(\w+)\(", line):
                pass  # lines marked from here on are the function's
            said = re.search(r"// (?:@(\w+)|races ([\w, -]+))$", line.rstrip())
            if said and said.group(1) == "race":
                marked.setdefault(name, set()).add(number)
            elif said and said.group(1):
                labels[number] = said.group(1)
            elif said:
                pairs[name] = {tuple(sorted(pair.split("-"))) for pair in said.group(2).split(", ")}
    marked.update((case, marked[body]) for case, body in bodies.items() if case.startswith("races_") and body in marked)
    return sorted(cases), marked, labels, pairs


def label_of(side, labels, source):
    """That of the innermost line which has one; else where the side is."""
    for frame in side.get("inlined") or [side]:
        if os.path.basename(frame.get("file") or "") == source and frame.get("line") in labels:
            return labels[frame["line"]]
    return "%s:%s" % (os.path.basename(side.get("file") or "?"), side.get("line"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--binary", required=True)
    options = parser.parse_args()
    cases, marked, labels, pairs = read_source(options.source)
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
    if not content["summary"]["complete"] or content["memory_errors"]:
        problems.append("the trace is not complete, or has errors")
    found, between, labelled = {}, {}, {}
    for race in content["races"]:
        if race.get("suppressed"):
            continue
        names = {name for side in ("first", "second") for name in re.findall(NAME, race[side].get("kernel") or "")}
        if len(names) != 1:
            problems.append("a race of no case, or of several: %s and %s" % (race["first"], race["second"]))
        for name in names:
            found[name] = race["why"]
            between.setdefault(name, []).append({race[side].get("line") for side in ("first", "second")})
            labelled.setdefault(name, set()).add(tuple(sorted(
                label_of(race[side], labels, os.path.basename(options.source)) for side in ("first", "second"))))
    # What the device records for itself after a graph is no event of the program's.
    if "event" in found.get("races_instances_of_one_graph", "").replace("no event", ""):
        problems.append("races_instances_of_one_graph names an event: " + found["races_instances_of_one_graph"])
    erring = {name for error in content["sync_errors"] for name in re.findall(NAME, error.get("kernel") or "") or ["?"]}
    wrong = erring ^ {name for name in cases if name.startswith("errs_")}
    if wrong:
        problems.append("synchronization errors: %s" % sorted(wrong))
    for name in cases:
        if name.startswith("races_") != (name in found):
            problems.append("%s: %s" % (name, found.get(name, "no race found")))
        elif name in marked and not any(lines and lines <= marked[name] for lines in between[name]):
            problems.append("%s: no race between the lines %s: %s" % (name, sorted(marked[name]), between[name]))
        elif name in pairs and pairs[name] != labelled[name]:
            problems.append("%s: races %s, should be %s" % (name, *(
                ", ".join(sorted("-".join(pair) for pair in some)) for some in (labelled[name], pairs[name]))))
    for problem in problems:
        print(problem)
    print("%d cases, %d of them races; %d problems" % (len(cases), sum(name.startswith("races") for name in cases),
                                                     len(problems)))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
