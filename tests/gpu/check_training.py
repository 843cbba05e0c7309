#!/usr/bin/env python3
"""Trains (train.py) with and without deadheat and looks at what is reported.

    check_training.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --work DIR [--steps N] [--only losses|faults]

Prints PASS or FAIL a claim: losses are the same to the bit, each planted fault is reported with its lines or operations, and
nothing is where none is planted. Ends in `N passed, N failed`.

What operations only cost is printed too, from a few sets of processes that take turns (turns.py); a process differs from
the next by what it got, its addresses and its cores, by more than that cost: cost.py tells it.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

import recording
import turns
from claims import claim, end

here = os.path.dirname(os.path.abspath(__file__))
arguments = argparse.ArgumentParser()
arguments.add_argument("--deadheat", required=True)
arguments.add_argument("--tracer", required=True)
arguments.add_argument("--work", required=True)
arguments.add_argument("--steps", type=int, default=200)
arguments.add_argument("--sets", type=int, default=2, help="of processes that the cost is taken from")
arguments.add_argument("--only", choices=["losses", "faults"])
options = arguments.parse_args()


def train(name=None, settings="", more=(), variables={}, seconds=90):
    """The losses' hash, the median ms of a step, and what was said; name: of the trace, None: not recorded."""
    environment = dict(os.environ, **recording.TRAIN_FLAGS, **variables)
    if name:
        environment = recording.environment(options.tracer, os.path.join(options.work, name), settings, environment)
    begin = time.monotonic()
    done = recording.run([sys.executable, os.path.join(here, "train.py"), *more], environment, seconds)
    print("  %s: %.0f s" % (name or "alone", time.monotonic() - begin))
    losses = re.search(r"losses (\w+)", done.stdout)
    median = re.search(r"([\d.]+) ms a step in the median", done.stderr)
    said = recording.said(done.stderr)
    if not losses or done.returncode:
        print("  status %d: %s" % (done.returncode, done.stderr[-20000:]))
    return losses.group(1) if losses and not done.returncode else None, float(median.group(1)) if median else None, said


def analyze(name):
    try:
        done = subprocess.run([options.deadheat, "analyze", os.path.join(options.work, name), "--json", "-"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=90)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode not in (0, 1):
        print(done.stderr[-2000:])
        return None
    return json.loads(done.stdout)


def describe(race):
    def side(s):
        where = "%s:%s" % (os.path.basename(s["file"]), s["line"]) if s.get("line") else "operation %s" % s["operation"]
        return "%s by %s (%s, %s)" % (s["op"], s["kernel"][:40], where, s.get("called_at", "no range"))
    return "%s %s %s: %s; %s" % (race["certainty"], race["level"], race["kind"], side(race["first"]), side(race["second"]))


def losses_and_cost():
    steps = ["--steps", str(options.steps)]
    found = turns.measure(options.tracer, options.work, options.steps, options.sets, 130)
    statuses = [status for kind in turns.kinds for status in found.statuses[kind]]
    claim(statuses and not any(statuses) and not found.troubles, "%d of %d processes ended with status 0%s" % (
        statuses.count(0), len(statuses), "".join("; " + trouble for trouble in found.troubles)))
    alone = [loss for kind in ("alone", "alone again") for loss in found.losses[kind]]
    right = alone[0] if alone else None
    claim(right and all(loss == right for loss in alone), "%d runs alone have the same losses (%s)" % (len(alone), right))
    for kind, what in (("told nothing", "subscribed to CUPTI, and told nothing"), ("recorded", "operations only")):
        losses = found.losses[kind]
        claim(right and losses and all(loss == right for loss in losses), "%s: the same losses over %d steps, %d times%s" % (
            what, options.steps, sum(loss == right for loss in losses),
            "" if all(loss == right for loss in losses) else ", but also %s" % [loss for loss in losses if loss != right]))
    everything = train("accesses", ":capture-range=nvtx=step 20", steps)
    claim(right and everything[0] == right, "accesses of one step (nvtx:step 20): the same losses; said: %s" % everything[2])


# Trace, fault, what of (level, and two operations) must be reported; None: nothing may be. With PyTorch's own allocator, in
# whose blocks opaque kernels reach what they were given, and with one that makes an allocation of each tensor. Without
# recorded kernels the host is fast, and the next batch comes while this one is still looked at.
faults = [("none", "none", None), ("barrier", "barrier", ("shared", "row_scale", "row_scale")),
          ("stream", "stream", ("stream", "row_scale", "times")),
          ("record_stream", "record_stream", ("stream", "count_words", "cudaMemcpy")),
          ("scatter", "scatter", ("global", "count_words", "count_words")),
          ("refill", "refill", ("stream", "the host itself", "cudaMemcpy")), ("plain", "none", None),
          ("tensors-none", "none", None), ("tensors-record_stream", "record_stream", ("stream", "count_words", "cudaFreeAsync"))]


def faulty(name, fault):
    plain = name == "plain"
    more = ["--plain", "--steps", "8"] if plain else ["--steps", "3", "--fault", fault]
    losses, _, said = train(name, ":accesses=0" if plain else "", more, recording.TENSORS if name.startswith("tensors") else {})
    return losses, said, analyze(name)


def check_faults():
    with concurrent.futures.ThreadPoolExecutor(max_workers=5) as workers:  # nothing is timed any more
        results = list(workers.map(faulty, *zip(*[(name, fault) for name, fault, _ in faults])))
    for (fault, _, wanted), (losses, said, report) in zip(faults, results):
        claim(losses, "fault %s: the job ends" % fault)
        if report is None:
            claim(False, "fault %s: no analysis" % fault)
            continue
        races, summary = report["races"], report["summary"]
        print("  %s: %d launches, %d instrumented, %d accesses, %d races" % (
            fault, summary["launches"], summary["instrumented"], summary["accesses"], len(races)))
        for race in races[:4]:
            print("    " + describe(race))
        for line in said[:4]:
            print("    " + line)
        if not wanted:
            claim(not races and (summary["accesses"] > 0) == (fault != "plain"), "%s: nothing is reported" % fault)
            continue
        level, first, second = wanted

        def found(race):
            kernels = [race[s]["kernel"] for s in ("first", "second")]
            named = any(first in kernels[i] and second in kernels[1 - i] for i in (0, 1))
            return named and race["level"] == level and race["certainty"] == "certain"

        claim(any(found(race) for race in races), "fault %s: reported (%s, %s and %s)" % (fault, *wanted))
        claim(all(race["level"] == level for race in races), "fault %s: nothing else" % fault)


train(None, more=["--steps", "2"], seconds=300)  # builds the extension: 81 s on a machine that has just started
if options.only != "faults":
    losses_and_cost()
if options.only != "losses":
    check_faults()
end()
