#!/usr/bin/env python3
"""Where the time goes that recording operations costs: which part CUPTI's, which of our layers.

    overhead.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --work DIR [--steps N] [--rounds N]

Trains (train.py --plain) under the library. Every ten steps go with fewer or more of its layers (tracer/cupti/layers.h),
in random order, so that they share process, clocks and neighbours; ratios are taken within a round of all layers. In the
lowest one CUPTI is there, and not subscribed to: what that costs is no part of this (check_training.py has it in).

Prints ratios, PASS or FAIL for the aim (all layers against none, at most 1.05), and `N passed, N failed`.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

import recording
from claims import claim, end

here = os.path.dirname(os.path.abspath(__file__))
arguments = argparse.ArgumentParser()
arguments.add_argument("--deadheat", required=True)
arguments.add_argument("--tracer", required=True)
arguments.add_argument("--work", required=True)
arguments.add_argument("--steps", type=int, default=1600, help="of a process")
arguments.add_argument("--rounds", type=int, default=3, help="of processes, one after the other")
arguments.add_argument("--limit", type=float, default=95, help="seconds after which no further process is started")
options = arguments.parse_args()
names = recording.LAYERS
layers = range(len(names))
trace = os.path.join(options.work, "overhead")
begun = time.time()


def train():
    """What train.py says of its blocks: (layer, ms a step, ms of CPU a step)."""
    environment = recording.environment(options.tracer, trace, ":accesses=0")
    command = [sys.executable, os.path.join(here, "train.py"), "--plain", "--steps", str(options.steps), "--layers",
               ",".join(map(str, layers))]
    try:
        done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        print("  no end in 60 s")
        return []
    for line in recording.said(done.stderr):
        print("  " + line)
    found = re.search(r"^blocks (.*)$", done.stdout, re.M)
    if not found or done.returncode:
        print("  status %d: %s" % (done.returncode, done.stderr[-2000:]))
        return []
    blocks = [tuple(block) for block in json.loads(found.group(1))]
    return blocks[len(names):]  # the first ones warm up: one round of all layers


def middle(values, form="%.3f"):
    if len(values) < 3:
        return "?"
    low, half, high = statistics.quantiles(values, n=4)
    return (form + " (quarters " + form + " to " + form + ")") % (half, low, high)


under, ratios, cpu = ({layer: [] for layer in layers} for _ in range(3))  # ms a step, one a process; ratios, one a round
for number in range(options.rounds):
    if time.time() - begun > options.limit * (1 - 1 / (options.rounds + 1)):
        break
    blocks = train()
    if {b[0] for b in blocks} != set(layers):
        claim(False, "process %d: not every layer has a block" % (number + 1))
        continue
    for layer in layers:
        under[layer].append(statistics.median([b[1] for b in blocks if b[0] == layer]))
        cpu[layer].append(statistics.median([b[2] for b in blocks if b[0] == layer]))
    for at in range(0, len(blocks), len(names)):
        a_round = {b[0]: b[1] for b in blocks[at:at + len(names)]}
        if len(a_round) == len(names):
            for layer in layers:
                ratios[layer].append(a_round[layer] / a_round[0])
    print("  process %d: %s ms a step" % (
        number + 1, ", ".join("%s %.3f" % (names[layer], under[layer][-1]) for layer in layers)), flush=True)
print("  %-28s %s" % ("layer", "times `not subscribed`, in the same round of the same process (%d rounds)" % len(ratios[0])))
for layer in layers:
    print("  %-28s %s; CPU %s ms a step" % (names[layer], middle(ratios[layer]), ", ".join("%.3f" % c for c in cpu[layer])))
done = subprocess.run([options.deadheat, "info", trace], text=True, capture_output=True)
print("  one of these traces:\n" + "\n".join("    " + line[:150] for line in done.stdout.splitlines()[:30]))
top = len(names) - 1
right = len(ratios[top]) >= 5 and statistics.median(ratios[top]) <= 1.05
claim(right, "operations only: %.3f times a step of the same process when CUPTI is not subscribed to" %
      statistics.median(ratios[top] or [9]))
end()
