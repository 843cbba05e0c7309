#!/usr/bin/env python3
"""Jobs whose kernels frameworks make and load themselves (torch.compile, CUDA graphs, JAX, Triton), alone and recorded.

    frameworks.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --work DIR

They compute the same, what they launch is recorded, and there is no race but the planted one. What frameworks_job.py
cannot import is not tried. Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import concurrent.futures
import json
import os
import sys

import recording
from claims import claim, end

here = os.path.dirname(os.path.abspath(__file__))
job = os.path.join(here, "frameworks_job.py")
# Name: kernels are instrumented, one race at a line with this mark, or races of streams. ATen's kernels come without PTX;
# XLA's have it where it compiles by nvJitLink: None.
STREAMS = "between streams"
jobs = {"compiled": (True, None), "graphs": (True, None), "captured": (False, None), "early": (False, STREAMS),
        "jax": (None, None), "tiles": (True, None), "lost": (True, "LOST")}


def run(options, name):
    base = dict(os.environ, TRITON_CACHE_DIR=os.path.join(options.work, "triton-" + name),
                TORCHINDUCTOR_CACHE_DIR=os.path.join(options.work, "inductor-" + name),
                CUBLAS_WORKSPACE_CONFIG=":4096:8", XLA_PYTHON_CLIENT_PREALLOCATE="false")
    trace = os.path.join(options.work, "frameworks-" + name)
    command = [sys.executable, job, name]
    alone = recording.run(command, base, 150)
    if "No module named" in alone.stderr:
        return alone, None, None
    recorded = recording.run(command, recording.environment(options.tracer, trace, base=base), 200)
    report = recording.run([options.deadheat, "analyze", trace, "--json", "-"], None, 100)
    return alone, recorded, json.loads(report.stdout) if report.returncode in (0, 1) else None


def main():
    arguments = argparse.ArgumentParser()
    for name in ("deadheat", "tracer", "work"):
        arguments.add_argument("--" + name, required=True)
    options = arguments.parse_args()
    with open(job) as source:
        marks = {line.rsplit("  # ", 1)[1].strip(): number for number, line in enumerate(source, 1) if ")  # " in line}
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(jobs)) as workers:
        done = dict(zip(jobs, workers.map(lambda name: run(options, name), jobs)))
    for name, (instrumented, mark) in jobs.items():
        alone, recorded, report = done[name]
        if "No module named" in alone.stderr:
            print("  %s: not tried: %s" % (name, alone.stderr.strip().splitlines()[-1]))
            continue
        claim(recorded and alone.returncode == recorded.returncode == 0 and alone.stdout == recorded.stdout != "",
              "%s: it computes what it computes alone (%s)" % (
                  name, alone.stdout.strip() or (alone.stderr + (recorded.stderr if recorded else ""))[-20000:]))
        if not report:
            claim(False, "%s: no analysis" % name)
            continue
        summary = report["summary"]
        found = [race for race in report["races"] if not race.get("suppressed")]
        lines = {race[side].get("line") for race in found for side in ("first", "second")}
        print("  %s: %d launches, %d instrumented, %d accesses, %d suppressed races" % (
            name, summary["launches"], summary["instrumented"], summary["accesses"], len(report["races"]) - len(found)))
        if mark == STREAMS:
            claim({race["level"] for race in found} == {"stream"}, "%s: %d races of streams" % (name, len(found)))
        else:
            claim(lines == ({marks[mark]} if mark else set()), "%s: races at lines %s" % (name, sorted(map(str, lines))))
        claim(summary["complete"] and instrumented in (None, summary["instrumented"] > 0), "%s: all is recorded" % name)
    end()


if __name__ == "__main__":
    main()
