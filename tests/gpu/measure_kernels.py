#!/usr/bin/env python3
"""What recording costs the six kernels of six_kernels.cu: a table, in ms of event time, and the checks' claims.

    measure_kernels.py --binary six_kernels --tracer lib/libdeadheat.so --work DIR [--memcheck compute-sanitizer]

Claims: every result stays the same, every kernel takes at most 15 times what it takes alone. Ends in `N passed, N failed`.
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
arguments.add_argument("--memcheck")
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


print("| kernel | alone | recorded | times | memcheck | wall, s | trace, MiB | bytes an access |")
print("|---|---|---|---|---|---|---|---|")
for kernel in accesses:
    alone = run(kernel, 5)[0]
    result = run(kernel, 2)[1]  # some add to what is there
    trace = os.path.join(options.work, kernel)
    recorded, same, wall, said = run(
        kernel, 2, recording.environment(options.tracer, trace, ":buffer=32768:budget=30000"))
    checked = run(kernel, 1, before=[options.memcheck])[0] if options.memcheck else None
    size = recording.size(trace)
    claim(recorded is not None, "%s: recorded" % kernel, quiet=True)
    shutil.rmtree(trace, ignore_errors=True)
    if recorded is None:
        print("| %s | %.3f | - | | | %.1f | %.0f | | %s" % (kernel, alone or 0, wall, size / 2**20, said))
        continue
    claim(same == result, "%s: its result changed" % kernel, quiet=True)
    claim(recorded <= 15 * alone, "%s: %.1f times" % (kernel, recorded / alone), quiet=True)
    print("| %s | %.3f | %.3f | %.1f | %s | %.1f | %.0f | %.2f |%s" % (
        kernel, alone, recorded, recorded / alone, "%.2f" % checked if checked else "-", wall, size / 2**20,
        size / 2 / accesses[kernel], " " + "; ".join(said) if said else ""), flush=True)
end()
