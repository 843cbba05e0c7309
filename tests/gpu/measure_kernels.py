#!/usr/bin/env python3
"""What recording costs the six kernels of six_kernels.cu: a table, in ms of event time, and the checks' claims.

    measure_kernels.py --binary six_kernels --tracer lib/libdeadheat.so --work DIR [--sanitizer compute-sanitizer]

The log fits into its buffer; sustained: million accesses a second of a launch whose log does not, so that its warps wait
for room. memcheck and racecheck are the sanitizer's. Claims: every result stays the same, nothing is lost, every kernel takes
at most 15 times what it takes alone. Ends in `N passed, N failed`.
"""
import argparse
import os
import re
import shutil
import subprocess
import time

import recording
from claims import claim, end

arguments = argparse.ArgumentParser()
arguments.add_argument("--binary", required=True)
arguments.add_argument("--tracer", required=True)
arguments.add_argument("--work", required=True)
arguments.add_argument("--sanitizer")
options = arguments.parse_args()
accesses = {"sgemm": 1024**3 * 2 + 1024**3 // 8 + 1024**2, "reduce": 64 << 20, "histogram": 128 << 20,
            "embedding": 16 << 20, "jacobi": 4096**2 * 7, "saxpy": 192 << 20}


def run(kernel, repeats, environment=os.environ, before=()):
    begin = time.time()
    try:
        done = subprocess.run([*before, options.binary, kernel, str(repeats)], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
    except subprocess.TimeoutExpired:
        return None, None, 100.0, "timeout"
    match = re.search(kernel + r" ([\d.]+) (\w+)", done.stdout)
    said = recording.said(done.stderr)
    return (float(match.group(1)), match.group(2), time.time() - begin, said) if match else (None, None, 0.0, said)


def under(tool, kernel):
    """Event time in ms under a tool of the sanitizer's, as text."""
    if not options.sanitizer:
        return "-"
    time_taken, _, wall, _ = run(kernel, 1, before=[options.sanitizer, "--tool", tool])
    return "%.4g" % time_taken if time_taken else "none in %.0f s" % wall


def recorded_run(kernel, repeats, buffer):
    """What run() gives, and the trace's bytes."""
    trace = os.path.join(options.work, kernel)
    settings = ":buffer=%d:budget=30000" % buffer
    done = run(kernel, repeats, recording.environment(options.tracer, trace, settings))
    size = recording.size(trace)
    shutil.rmtree(trace, ignore_errors=True)
    return *done, size


print("| kernel | alone | recorded | times | memcheck | racecheck | wall, s | trace, MiB | bytes an access | sustained |")
print("|---|---|---|---|---|---|---|---|---|---|")
for kernel in accesses:
    alone = run(kernel, 5)[0]
    once, twice = (run(kernel, repeats)[1] for repeats in (1, 2))  # some add to what is there
    recorded, same, wall, said, size = recorded_run(kernel, 2, 32768)
    slow, same_slowly, _, said_slowly, _ = recorded_run(kernel, 1, 64)
    claim(recorded is not None and slow is not None, "%s: recorded (%s %s)" % (kernel, said, said_slowly), quiet=True)
    if recorded is None or slow is None:
        continue
    claim(same == twice and same_slowly == once, "%s: its result changed" % kernel, quiet=True)
    claim(not said and not said_slowly, "%s: accesses are lost (%s %s)" % (kernel, said, said_slowly), quiet=True)
    claim(recorded <= 15 * alone, "%s: %.1f times" % (kernel, recorded / alone), quiet=True)
    print("| %s | %.3f | %.3f | %.1f | %s | %s | %.1f | %.0f | %.2f | %.0f |%s" % (
        kernel, alone, recorded, recorded / alone, under("memcheck", kernel), under("racecheck", kernel), wall, size / 2**20,
        size / 2 / accesses[kernel], accesses[kernel] / slow / 1e3, " " + "; ".join(said + said_slowly)), flush=True)
end()
