#!/usr/bin/env python3
"""Windows for replay: recorded on a GPU, executed again on the embedded device.

    windows.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --binary window_program --graph-binary graph_window_program
        --programs DIR --traces DIR
    windows.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --traces DIR --training
    windows.py --deadheat bin/deadheat --traces DIR --replay

The first form records into DIR and replays where `deadheat` can; where it was built without LLVM, the last one does
the rest on another machine, from a copy of DIR. window_program is window.cu, graph_window_program graph_window.cu; DIR of programs holds tests/programs.
Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

import recording
from claims import claim, end

arguments = argparse.ArgumentParser()
arguments.add_argument("--deadheat", required=True)
arguments.add_argument("--tracer")
arguments.add_argument("--binary")
arguments.add_argument("--graph-binary")
arguments.add_argument("--programs")
arguments.add_argument("--traces", required=True)
arguments.add_argument("--replay", action="store_true")
arguments.add_argument("--training", action="store_true", help="record one step of training jobs, and nothing else")
options = arguments.parse_args()
MOST_OF_TRAINING = 1 << 30  # bytes of its trace; 596 MiB that opaque launches changed made 594 MiB
# Recorded as a whole, and the verdict that the embedded device comes to by itself.
whole = ["shared_reduce", "shared_histogram", "global_sum", "global_neighbour_block", "global_histogram_merge",
         "stream_missing_wait", "stream_copy_overlap", "stream_symbol", "shared_scan", "stream_registered",
         "stream_staging_buffer", "stream_copy_2d", "global_tensor_overlap", "global_tensor_reduce",
         "shared_tensor_multicast", "shared_tensor_pipeline", "shared_tensor_stencil"]
training = ["training", "training-graph"]


def record(name, settings, command, more=None, same=False):
    trace = os.path.join(options.traces, name)
    plain = dict(os.environ, **(more or {}))
    environment = recording.environment(options.tracer, trace, ":buffer=256:window=1" + settings, plain)
    alone = recording.run(command, plain, 150)
    begin = time.time()
    done = recording.run(command, environment, 200)
    if done.returncode == 124:
        print(done.stderr[-20000:])
    said = recording.said(done.stderr)
    print("  %s: %.1f s" % (name, time.time() - begin))
    info = subprocess.run([options.deadheat, "info", trace], text=True, capture_output=True, timeout=60)
    match = re.search(r"^windows +(.*)$", info.stdout, re.M)
    claim(done.returncode == alone.returncode and match and not any("cannot be" in line for line in said),
          "%s: recorded with a window (%s)%s" % (name, match.group(1) if match else "none",
                                                 "; said: %s" % said if said else ""))
    if same:
        claim(done.stdout == alone.stdout != "", "%s: it computes what it computes alone: %s" % (
            name, " ".join(done.stdout.split())[:100] or done.stderr[-2000:]))


def exchange(name, settings, instrumented):
    """The graph's kernels are recorded as long as they are to be, and no longer."""
    trace = os.path.join(options.traces, name)
    command = [options.graph_binary, "0"]
    alone = recording.run(command, None, 60)
    done = recording.run(command, recording.environment(options.tracer, trace, ":kernel=scale|fill" + settings), 100)
    info = subprocess.run([options.deadheat, "info", trace], text=True, capture_output=True, timeout=60)
    match = re.search(r"\((\d+) instrumented, \d+ opaque\)", info.stdout)
    claim(done.returncode == 0 and done.stdout == alone.stdout != "" and match and instrumented(int(match.group(1))),
          "%s: it computes what it computes alone; %s%s" % (name, match.group(0) if match else "no trace",
                                                           "; said: %s" % recording.said(done.stderr)))


class Unable(Exception):
    """This build cannot replay."""


def replay(name):
    """Races; None where there is no report. Raises Unable where this build cannot replay."""
    trace = os.path.join(options.traces, name)
    done = subprocess.run([options.deadheat, "replay", trace, "--json", "-", "--seconds", "10", "--witness-dir",
                           os.path.join(options.traces, "witnesses-" + name)], text=True, capture_output=True, timeout=120)
    if not done.stdout:
        if "no replay" in done.stderr:
            raise Unable
        return claim(False, "%s: no report of replay: %s" % (name, done.stderr.strip()[:500]))
    return json.loads(done.stdout)["races"]


def train():
    """One step out of training jobs, with a fault in one of their own kernels among some 200 opaque ones: launched one
    by one, and as a graph that was captured before."""
    here = os.path.dirname(os.path.abspath(__file__))
    record("training", ":capture-range=nvtx=step 1",
           [sys.executable, os.path.join(here, "train.py"), "--steps", "3", "--fault", "scatter"], recording.TRAIN_FLAGS)
    record("training-graph", ":capture-range=nvtx=launch 3",
           [sys.executable, os.path.join(here, "frameworks_job.py"), "step"], same=True)
    for name in training:
        trace = os.path.join(options.traces, name)
        size = recording.size(trace)
        info = subprocess.run([options.deadheat, "info", trace], text=True, capture_output=True, timeout=60)
        print("\n".join("    " + line[:150] for line in info.stdout.splitlines() if not re.match(r" +\d+ x ", line)))
        claim(0 < size < MOST_OF_TRAINING, "%s: the trace has %.1f MiB" % (name, size / 1048576))


if not options.replay:
    os.makedirs(options.traces, exist_ok=True)
if options.training:
    train()
elif not options.replay:
    for fault in (0, 1):
        # blur is opaque, since it is not asked for.
        for name, binary in (("window", options.binary), ("graph", options.graph_binary)):
            record("%s-%d" % (name, fault), ":capture-range=cudaProfilerApi:kernel=scale|fill", [binary, str(fault)],
                   same=not fault)
    exchange("graph-range", ":capture-range=cudaProfilerApi", lambda launches: launches == 2)
    exchange("graph-budget", ":budget=1", lambda launches: 2 <= launches < 10)
    for name in whole:
        record(name, "", [os.path.join(options.programs, name + ".racy")])
candidates = training if options.training else ["window-0", "window-1", "graph-0", "graph-1", *whole]
if options.replay:
    candidates += training
for name in candidates:
    if not os.path.exists(os.path.join(options.traces, name)):
        continue
    try:
        races = replay(name)
    except Unable:
        print("  this build cannot replay: windows.py --replay on a copy of %s does" % options.traces)
        break
    if races is None:
        continue
    for race in races[:3]:
        print("  %s: %s %s, %s %s" % (name, race["certainty"], race["level"], race["verdict"], race.get("verdict_why", "")))
    if name == "window-0":
        claim(not races, "window-0: no race")
    elif name == "window-1":
        mine = [race for race in races if race["certainty"] == "certain" and "scale" in race["first"]["kernel"] + race["second"]["kernel"]]
        claim(len(mine) == 1 and mine[0]["verdict"] == "harmful", "window-1: the reused block is a harmful race")
        # Three times what was there plus 7, or three times what came.
        example = mine[0]["differences"][0]["example"] if mine and mine[0].get("differences") else {}
        claim({example.get("a"), example.get("b")} == {307, 150007}, "window-1: both outcomes are what they must be: %s" % example)
    elif name.startswith("graph"):
        mine = [race for race in races if race["certainty"] == "certain"]
        claim([race["verdict"] for race in mine] == (["harmful"] if name == "graph-1" else []),
              "%s: %s" % (name, "the missing edge is a harmful race" if mine else "no race that is certain"))
    elif name in training:
        mine = [race for race in races if race["certainty"] == "certain"]
        claim(mine and all("count_words" in race["first"]["kernel"] and race["verdict"] == "harmful" for race in mine),
              "%s: lost counts are harmful" % name)
    else:
        claim(races and all(race["verdict"] == "harmful" for race in races), "%s: harmful" % name)
end()
