#!/usr/bin/env python3
"""A program with a module that takes long to assemble, recorded on a busy machine: nothing is lost.

    assembly.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --program thrust_sort.fixed --work DIR [--copies N]

While the driver assembles, it keeps the reader of accesses out; kernels that run meanwhile must wait for room, however
long. Copies of the program are recorded at the same time, as many as there are cores, so that assembling takes minutes.
Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import json
import os
import subprocess
import time

import recording
from claims import claim, end

arguments = argparse.ArgumentParser()
for name in ("deadheat", "tracer", "program", "work"):
    arguments.add_argument("--" + name, required=True)
arguments.add_argument("--copies", type=int, default=len(os.sched_getaffinity(0)))
arguments.add_argument("--limit", type=int, default=400, help="seconds")
options = arguments.parse_args()
begun, jobs = time.time(), []
for number in range(options.copies):
    trace = os.path.join(options.work, "assembly-%d" % number)
    jobs.append((trace, subprocess.Popen([options.program], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         env=recording.environment(options.tracer, trace, ":buffer=256"))))
outputs = set()
for number, (trace, job) in enumerate(jobs):
    try:
        output, errors = job.communicate(timeout=max(1, begun + options.limit - time.time()))
    except subprocess.TimeoutExpired:
        job.kill()
        job.communicate()
        claim(False, "copy %d: no end in %d s" % (number, options.limit))
        continue
    outputs.add(output)
    lost = [line for line in recording.said(errors) if "nobody read" in line] + recording.lost(options.deadheat, trace)
    claim(job.returncode == 0 and not lost, "copy %d: status %d after %.0f s; lost: %s" % (
        number, job.returncode, time.time() - begun, lost))
claim(len(outputs) == 1, "all have the same output")
done = subprocess.run([options.deadheat, "analyze", jobs[0][0], "--json", "-"], text=True, capture_output=True)
summary = json.loads(done.stdout)["summary"] if done.returncode in (0, 1) else {}
claim(summary.get("complete") and summary.get("instrumented"), "copy 0: the trace is complete (%s)" % summary)
end()
