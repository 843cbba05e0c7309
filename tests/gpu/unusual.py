#!/usr/bin/env python3
"""A job that is stopped in the middle and goes on, one that takes all of the GPU's memory, cooperative grids of as many
blocks as fit, one that aborts over what a race made, and a job under LD_PRELOAD alone: recorded.

    unusual.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --binary unusual --work DIR

unusual is unusual.cu. Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import json
import os
import signal
import subprocess
import time

import recording
from claims import claim, end

arguments = argparse.ArgumentParser()
for name in ("deadheat", "tracer", "binary", "work"):
    arguments.add_argument("--" + name, required=True)
options = arguments.parse_args()


def run(what, trace=None, stop=False, buffer=64, more=""):
    """(status, output, what the library said, whether it was stopped in the middle)"""
    environment = recording.environment(options.tracer, trace, ":buffer=%d:budget=8000%s" % (buffer, more)) if trace else dict(os.environ)
    job = subprocess.Popen([options.binary, what], env=environment, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    begun, stopped = "", False
    try:
        if stop:
            begun = job.stdout.readline()
            for _ in range(3):  # wherever its threads and the device are
                time.sleep(0.2)
                os.kill(job.pid, signal.SIGSTOP)
                stopped = job.poll() is None
                time.sleep(2)
                os.kill(job.pid, signal.SIGCONT)
        output, errors = job.communicate(timeout=60)
    except (subprocess.TimeoutExpired, ProcessLookupError) as why:
        job.kill()
        job.wait()
        return None, "", [str(why)], stopped
    return job.returncode, begun + output, recording.said(errors) if job.returncode == 0 else [errors[-300:]], stopped


def analyze(trace):
    done = subprocess.run([options.deadheat, "analyze", trace, "--json", "-"], text=True, capture_output=True, timeout=100)
    return json.loads(done.stdout) if done.returncode in (0, 1) else None


alone = run("stopped")
trace = os.path.join(options.work, "unusual-stopped")
status, output, said, stopped = run("stopped", trace, True)
claim(status == 0 and output == alone[1] and not said and stopped,
      "stopped three times for 2 s while it was recorded: it ends as alone (%s; said %s)" % (output.split("\n")[-2:], said))
report, lost = analyze(trace), recording.lost(options.deadheat, trace)
wanted = 60 * 2 * (1 << 19)
claim(report and report["summary"]["complete"] and report["summary"]["accesses"] == wanted and not report["races"]
      and not lost, "stopped: all %d accesses of 60 launches are recorded (%s; lost %s)" % (
          wanted, report and report["summary"], lost))
# What the driver's own parts and the clones take is not given back: at most two pieces of 256 MiB.
for what in ("crowded", "pool", "window"):
    alone = run(what)
    trace = os.path.join(options.work, "unusual-" + what)
    status, output, said, _ = run(what, trace, buffer=4096,
                                  more=":window=1:capture-range=cudaProfilerApi" if what == "window" else "")
    numbers = [[int(word) for word in text.split() if word.isdigit()] for text in (alone[1], output)]
    given_back = ["accesses were recorded in", "window was kept in"][:2 if what == "window" else 1]
    claim(status == 0 and alone[0] == 0 and len(said) == len(given_back)
          and all(of in line and "has it back" in line for of, line in zip(given_back, said))
          and [len(each) for each in numbers] == [3, 3] and numbers[0][2] == numbers[1][2]
          and all(0 <= a - b <= 2 for a, b in zip(numbers[0][:2], numbers[1][:2])),
          "%s: it has all of the memory (alone %s, recorded %s; said %s)" % (what, numbers[0], numbers[1], said))
    report, lost = analyze(trace), recording.lost(options.deadheat, trace)
    wanted = 41 * 2 * (1 << 16)
    claim(report and report["summary"]["complete"] and report["summary"]["accesses"] == wanted and not report["races"]
          and not lost, "%s: all %d accesses are recorded (%s; lost %s)" % (
              what, wanted, report and report["summary"], lost))
info = subprocess.run([options.deadheat, "info", trace], text=True, capture_output=True, timeout=60).stdout
lines = [line for line in info.splitlines() if line.startswith("windows")]
claim(len(lines) == 1 and "1" in lines[0] and "cannot" not in lines[0], "window: it can be executed again (%s)" % lines)
for what in ("cooperative", "shared"):
    alone = run(what)
    trace = os.path.join(options.work, "unusual-" + what)
    status, output, said, _ = run(what, trace)
    claim(status == 0 and output == alone[1], "%s: it ends as alone (%s; said %s)" % (what, output.strip(), said))
    report = analyze(trace)
    summary = report["summary"] if report else {"instrumented": 0}
    if summary["instrumented"]:
        lost = recording.lost(options.deadheat, trace)
        claim(summary["complete"] and not report["races"] and not said and not lost,
              "%s: the grid is recorded, no race (lost %s)" % (what, lost))
    else:
        claim(what == "cooperative" and any("of its blocks fit" in line for line in said),
              "%s: it runs as it is, since fewer blocks would fit, and that is said (%s)" % (what, said))
# What the host aborts over is what it was told of kernels: that is in the trace.
for what in ("throws", "asserts"):
    alone = run(what)
    trace = os.path.join(options.work, "unusual-" + what)
    status, output, said, _ = run(what, trace)
    claim(alone[0] == status == -signal.SIGABRT, "%s: it is aborted as alone (%s, recorded %s; said %s)" % (
        what, alone[0], status, said))
    report, lost = analyze(trace), recording.lost(options.deadheat, trace)
    claim(report and report["summary"]["complete"] and report["summary"]["accesses"] == 4 and report["races"] and not lost,
          "%s: the race before it is reported (%s; lost %s)" % (what, report and report["summary"], lost))
# Nothing but LD_PRELOAD, twice: the second run gets a trace of its own.
folder = os.path.join(options.work, "unusual-preloaded")
os.makedirs(folder)
bare = {name: value for name, value in os.environ.items() if not name.startswith("DEADHEAT_")}
bare["LD_PRELOAD"] = os.path.abspath(options.tracer)
for name in ("run.deadheat", "run-2.deadheat"):
    job = subprocess.run([os.path.abspath(options.binary), "shared"], env=bare, cwd=folder, text=True, capture_output=True,
                         timeout=60)
    trace = os.path.join(folder, name)
    report = analyze(trace)
    claim(job.returncode == 0 and report and report["summary"]["complete"] and report["summary"]["launches"]
          and any(trace in line for line in recording.said(job.stderr)),
          "preloaded and told nothing: %s is recorded (said %s)" % (name, recording.said(job.stderr)))
end()
