#!/usr/bin/env python3
"""What a host calls while a recorded kernel waits for room in the buffer of accesses: nothing waits for long.

    busy.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --binary busy --work DIR [CALL...]

busy is busy.cu. Whoever reads the buffer needs the driver, which some calls keep for themselves until the kernel has ended:
a kernel that waits for room, and a reader that waits for the driver, would wait for each other. Prints PASS or FAIL a
call; ends in `N passed, N failed`.
"""
import argparse
import concurrent.futures
import os
import subprocess

import recording
from claims import claim, end

arguments = argparse.ArgumentParser()
for name in ("deadheat", "tracer", "binary", "work"):
    arguments.add_argument("--" + name, required=True)
arguments.add_argument("calls", nargs="*")
options = arguments.parse_args()
LONG = 10  # seconds; a warp gives up after 40


def run(call):
    """(seconds of the call, of the kernel, what was computed, what was said and lost); text: what went wrong"""
    trace = os.path.join(options.work, "busy-" + call)
    done = recording.run([options.binary, call], recording.environment(options.tracer, trace, ":buffer=16:budget=8000"), 40)
    if done.returncode:
        return "status %d: %s" % (done.returncode, done.stderr[-20000:])
    name, took, kernel, result = done.stdout.split()
    return float(took), float(kernel), result, recording.said(done.stderr) + recording.lost(options.deadheat, trace)


calls = options.calls or subprocess.run([options.binary], text=True, capture_output=True, check=True).stdout.split()
alone = subprocess.run([options.binary, calls[0]], text=True, capture_output=True, check=True).stdout.split()
with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, min(6, (os.cpu_count() or 2) // 2))) as workers:
    for call, found in zip(calls, workers.map(run, calls)):
        good = not isinstance(found, str) and found[1] < LONG and found[2] == alone[3] and not found[3]
        claim(good, "%s while a recorded kernel fills the buffer: %s" % (
            call, found if isinstance(found, str) else "%.2f s, the kernel %.2f s, %s %s" % found))
end()
