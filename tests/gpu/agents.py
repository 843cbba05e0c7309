#!/usr/bin/env python3
"""Boxes of tensors (TMA) and multiplications of warpgroups (wgmma), recorded: each fault is found, and nothing else.

    agents.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --binary agents --work DIR

agents is agents.cu, whose comments mark the lines that race. Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import json
import os

import recording
from claims import claim, end

here = os.path.dirname(os.path.abspath(__file__))
expected = {"load": {"LOAD", "SUM"}, "reuse": {"LOAD", "ADD"}, "store": {"FILL", "STORE"},
            "multiply": {"MULTIPLY", "OVERWRITE"}}


def run(command, environment=None):
    return recording.run(command, environment, 60)


def main():
    arguments = argparse.ArgumentParser()
    for name in ("deadheat", "tracer", "binary", "work"):
        arguments.add_argument("--" + name, required=True)
    options = arguments.parse_args()
    with open(os.path.join(here, "agents.cu")) as source:
        marks = {line.rsplit("// ", 1)[1].strip(): number for number, line in enumerate(source, 1) if ";  // " in line}
    for what, sides in expected.items():
        for twin in ("fixed", "racy"):
            name = "%s %s" % (what, twin)
            trace = os.path.join(options.work, "agents-%s-%s" % (what, twin))
            alone = run([options.binary, what, twin])
            recorded = run([options.binary, what, twin], recording.environment(options.tracer, trace, ":buffer=256"))
            as_alone = alone.returncode == recorded.returncode == 0 and (twin == "racy" or alone.stdout == recorded.stdout)
            claim(as_alone, "%s: it ends as alone (%s)" % (
                name, (alone.stderr + recorded.stderr).strip()[-300:] or recorded.stdout.strip()))
            done = run([options.deadheat, "analyze", trace, "--json", "-"])
            if done.returncode not in (0, 1):
                claim(False, "%s: no analysis: %s" % (name, done.stderr.strip()[-300:]))
                continue
            report = json.loads(done.stdout)
            found = {frozenset(race[side].get("line") for side in ("first", "second")) for race in report["races"]}
            wanted = {frozenset(marks[side] for side in sides)} if twin == "racy" else set()
            lines = [sorted(map(str, pair)) for pair in found]
            claim(found == wanted, "%s: races between lines %s, found %s" % (name, [sorted(pair) for pair in wanted], lines))
            claim(report["summary"]["instrumented"] == 1 and report["summary"]["complete"],
                  "%s: all is recorded (%s)" % (name, report["summary"]))
    end()


if __name__ == "__main__":
    main()
