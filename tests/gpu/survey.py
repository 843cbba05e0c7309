#!/usr/bin/env python3
"""Right jobs of many kinds (survey_job.py), alone and under `deadheat record` as a user calls it.

    survey.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --work DIR [--seconds N] [JOB…]

They end as alone and compute the same, the trace can be analysed, and nobody is accused. Jobs whose results differ from
run to run are said. Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import time

import recording
from claims import claim, end
from survey_job import jobs

here = os.path.dirname(os.path.abspath(__file__))
VARIABLES = {"segments": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
             "traced": {"XLA_FLAGS": "--xla_gpu_deterministic_ops=true"}}  # algorithms are not chosen by their time


def run(options, name):
    command = [sys.executable, os.path.join(here, "survey_job.py"), name]
    trace = os.path.join(options.work, "survey-" + name)
    seconds = []

    def job(limit, words=()):
        folder = os.path.join(options.work, "survey-caches", "%s-%d" % (name, len(seconds)))
        begin = time.monotonic()
        # Neither run finds what the other compiled.
        base = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", XLA_PYTHON_CLIENT_PREALLOCATE="false",
                    TRITON_CACHE_DIR=os.path.join(folder, "triton"), TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"),
                    CUPY_CACHE_DIR=os.path.join(folder, "cupy"), **VARIABLES.get(name, {}))
        done = recording.run([*words, *command], base, limit)
        seconds.append(time.monotonic() - begin)
        return done

    shutil.rmtree(trace, ignore_errors=True)
    alone = job(options.seconds / 2)
    recorded = job(options.seconds, [options.deadheat, "record", "-o", trace, "--device", "gpu", "--"])
    again = job(options.seconds / 2) if alone.stdout != recorded.stdout else alone
    report = subprocess.run([options.deadheat, "analyze", trace, "--json", "-"], text=True, capture_output=True, timeout=200)
    return alone, recorded, again, json.loads(report.stdout) if report.returncode in (0, 1) else report.stderr, seconds


def told(name, alone, recorded, again, report, seconds):
    if alone.returncode and "No module named" in alone.stderr:
        print("  %s: not tried: %s" % (name, alone.stderr.strip().splitlines()[-1]))
        return
    if alone.returncode:
        print("  %s: fails alone: %s" % (name, alone.stderr.strip()[-300:]))
        return
    for line in sorted(set(recording.said(recorded.stderr))):
        if not line.startswith("deadheat: recorded"):
            print("    " + line)
    claim(recorded.returncode == 0, "%s: it ends as alone (%d; %.0f s, %.0f alone) %s" % (
        name, recorded.returncode, seconds[1], seconds[0], recorded.stderr.strip()[-600:] if recorded.returncode else ""))
    if alone.stdout != again.stdout:
        print("  %s: alone it differs from run to run" % name)
    else:
        claim(alone.stdout == recorded.stdout, "%s: it computes what it computes alone (%s)" % (name, alone.stdout.strip()))
    if isinstance(report, str):
        claim(False, "%s: no analysis: %s" % (name, report.strip()[-300:]))
        return
    summary = report["summary"]
    found = [race for race in report["races"] if not race.get("suppressed")]
    print("  %s: %d launches, %d instrumented, %d accesses%s" % (
        name, summary["launches"], summary["instrumented"], summary["accesses"], "" if summary["complete"] else ", incomplete"))
    claim(not found, "%s: no race %s" % (name, ["%s %s: %s" % (
        race.get("certainty"), race["level"], " | ".join("%s %s:%s, operation %s" % (
            race[side]["op"], str(race[side].get("kernel"))[:80], race[side].get("line"), race[side].get("launch"))
            for side in ("first", "second"))) for race in found[:4]]))


def main():
    arguments = argparse.ArgumentParser()
    for name in ("deadheat", "tracer", "work"):
        arguments.add_argument("--" + name, required=True)
    arguments.add_argument("--seconds", type=float, default=150, help="that a recorded job may take; alone half of it")
    arguments.add_argument("jobs", nargs="*", default=list(jobs), metavar="JOB")
    options = arguments.parse_args()
    with concurrent.futures.ThreadPoolExecutor(max_workers=10) as workers:
        doing = {workers.submit(run, options, name): name for name in options.jobs}
        for done in concurrent.futures.as_completed(doing):
            told(doing[done], *done.result())
    end()


if __name__ == "__main__":
    main()
