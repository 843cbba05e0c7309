#!/usr/bin/env python3
"""Several GPUs: two devices in one process with peer copies, and torchrun with one log a process.

    multi.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --binary multi --work DIR [--only PART]

For a machine with two GPUs; with one it says so, and tries what one can do. `multi` is multi.cu, built like the other
programs. Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import recording
from claims import claim, end

here = os.path.dirname(os.path.abspath(__file__))
arguments = argparse.ArgumentParser()
arguments.add_argument("--deadheat", required=True)
arguments.add_argument("--tracer", required=True)
arguments.add_argument("--binary", required=True)
arguments.add_argument("--work", required=True)
arguments.add_argument("--only", choices=("process", "flags", "torchrun", "sharded"))
options = arguments.parse_args()


# One machine without a network: ranks meet on the loopback interface. NVLink multicast stays off: machines are shared.
alone_settings = dict(os.environ, NCCL_NVLS_ENABLE="0", NCCL_IB_DISABLE="1", NCCL_SOCKET_IFNAME="lo",
                      GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="4")


def recorded_into(trace, settings=""):
    return recording.environment(options.tracer, trace, ":buffer=256" + settings, alone_settings)


def run(command, environment=None, limit=90):
    """As subprocess.run; whoever is late goes with all of its children, which else would hold its pipes open."""
    process = subprocess.Popen(command, env=environment or alone_settings, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=limit)
        return subprocess.CompletedProcess(command, process.returncode, out, err)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            out, err = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            out, err = "", ""
        return subprocess.CompletedProcess(command, 124, out, err[-500:] + "no end in %d s" % limit)


def analyze(trace):
    done = run([options.deadheat, "analyze", trace, "--json", "-"])
    return json.loads(done.stdout) if done.returncode in (0, 1) and done.stdout else None


def one_process():
    alone = run([options.binary, "0"])
    claim(alone.returncode == 0, "the program alone (%s)" % (alone.stderr.strip()[-200:] or "nothing said"))
    if "one device" in alone.stdout:
        return print("one device: peer copies are not tried")
    for fault in (0, 1):
        trace = os.path.join(options.work, "multi-%d" % fault)
        recorded = run([options.binary, str(fault)], recorded_into(trace))
        claim(recorded.returncode == 0 and (fault or recorded.stdout == alone.stdout),
              "two devices: the program ends as alone (%s)" % (recorded.stderr.strip()[-200:] or "nothing said"))
        report = analyze(trace)
        if not report:
            claim(False, "two devices: no analysis")
            continue
        summary = report["summary"]
        claim(summary["instrumented"] == 3 and summary["complete"], "two devices: all accesses are there (%s)" % summary)
        names = {(race["first"]["kernel"], race["second"]["kernel"]) for race in report["races"]}
        if fault:
            wanted = [race for race in report["races"] if race["level"] == "stream" and race["certainty"] == "certain" and
                      any("cudaMemcpyPeer" in race[side]["kernel"] for side in ("first", "second")) and
                      any("consume" in race[side]["kernel"] for side in ("first", "second"))]
            claim(wanted and len(report["races"]) == len(wanted), "two devices: the copy races with the kernel that reads: %s" % names)
        else:
            claim(not report["races"], "two devices: nothing is reported where the stream waits: %s" % names)


def flags():
    alone = run([options.binary, "flags", "0"])
    claim(alone.returncode == 0, "flags, the program alone (%s)" % (alone.stderr.strip()[-200:] or "nothing said"))
    if "one device" in alone.stdout:
        return
    for fault in (0, 1):
        trace = os.path.join(options.work, "flags-%d" % fault)
        recorded = run([options.binary, "flags", str(fault)], recorded_into(trace))
        claim(recorded.returncode == 0 and (fault or recorded.stdout == alone.stdout),
              "flags: the program ends as alone (%s)" % (recorded.stderr.strip()[-200:] or "nothing said"))
        report = analyze(trace)
        races = report["races"] if report else []
        texts = ["%s:%d %s:%d %s" % (race["first"]["kernel"], race["first"]["line"], race["second"]["kernel"],
                                     race["second"]["line"], race["why"]) for race in races]
        if fault:
            claim(any("on different devices" in text or "on another device" in text for text in texts),
                  "flags of device scope do not reach the other device: %s" % texts)
        else:
            claim(report and not races, "flags of system scope reach the other device: %s" % texts)


def training():
    """The command and how many ranks it has; none without PyTorch."""
    try:
        import torch
    except ImportError:
        return print("no PyTorch: torchrun is not tried")
    ranks = min(2, torch.cuda.device_count())
    # torchrun's workers look for each other under the machine's own name, which need not be known anywhere.
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1",
            "--nproc-per-node=%d" % ranks, os.path.join(here, "multi_train.py"), "--steps", "20"], ranks


def torchrun(command, ranks):
    runs = [run(command) for _ in range(2)]
    for failed_run in runs:
        if failed_run.returncode:
            print("  status %d: %s" % (failed_run.returncode, failed_run.stderr[-1500:]), flush=True)
    if any(each.returncode == 124 for each in runs):
        return claim(False, "torchrun alone does not end: nothing to compare with")
    alone = [re.findall(r"losses (\w+)", each.stdout) for each in runs]
    claim(alone[0] and alone[0] == alone[1], "torchrun with %d ranks: two runs alone agree (%s)" % (ranks, alone[0]))
    for name, pattern in (("rank", "%q{RANK}"), ("process", "%p")):
        folder = os.path.join(options.work, "torchrun-" + name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        done = run(command, recorded_into(os.path.join(folder, pattern), ":kernel=nothing"))
        claim(done.returncode == 0 and re.findall(r"losses (\w+)", done.stdout) == alone[0],
              "torchrun, %s in the name: the same losses (%s)" % (pattern, done.stderr.strip()[-800:] if done.returncode else "status 0"))
        traces = sorted(os.listdir(folder))
        claim(len(traces) == ranks and (name != "rank" or traces == [str(rank) for rank in range(ranks)]),
              "torchrun, %s in the name: a trace a rank: %s" % (pattern, traces))
        for trace in traces:
            report = analyze(os.path.join(folder, trace))
            summary = report["summary"] if report else None
            claim(summary and summary["launches"] > 20 * 10, "torchrun, trace %s: %s" % (trace, summary))
            certain = [race for race in (report["races"] if report else []) if race["certainty"] == "certain"]
            claim(report and not certain, "torchrun, trace %s: no certain race (%d possible)" % (
                trace, len(report["races"]) if report else 0))
    # All ranks in one trace: a log a process.
    trace = os.path.join(options.work, "torchrun-together")
    done = run(command, recorded_into(trace, ":accesses=0"))
    logs = [name for name in os.listdir(trace) if name.endswith(".log")] if os.path.isdir(trace) else []
    claim(done.returncode == 0 and len(logs) == ranks, "torchrun, one trace: a finished log a rank: %s" % logs)
    report = analyze(trace)
    claim(report and report["summary"]["launches"] > ranks * 20 * 10, "torchrun, one trace: it is analyzed as a whole: %s" %
          (report["summary"] if report else None))


def sharded(command, ranks):
    """FSDP: parameters gathered and gradients scattered beside the computation, by streams of their own."""
    command = command + ["--sharded"]
    runs = [run(command) for _ in range(2)]
    alone = [re.findall(r"losses (\w+)", each.stdout) for each in runs]
    same = alone[0] and alone[0] == alone[1]
    claim(same, "sharded, %d ranks: two runs alone agree (%s, %s)" % (
        ranks, alone[0], runs[0].stderr.strip()[-800:] if runs[0].returncode else "status 0"))
    if not same:
        return
    trace = os.path.join(options.work, "sharded")
    shutil.rmtree(trace, ignore_errors=True)
    done = run(command, recorded_into(trace, ":accesses=0"))
    claim(done.returncode == 0 and re.findall(r"losses (\w+)", done.stdout) == alone[0],
          "sharded: the same losses (%s)" % (done.stderr.strip()[-800:] if done.returncode else "status 0"))
    report = analyze(trace)
    claim(report and report["summary"]["launches"] > ranks * 20 * 30, "sharded: analyzed (%s)" % (report and report["summary"]))
    for race in (report["races"] if report else [])[:8]:
        print("  %s, %s: %s with %s" % (race["level"], race["certainty"], race["first"]["kernel"][:90],
                                        race["second"]["kernel"][:90]))
    claim(report and not report["races"], "sharded: no race, possible ones neither")


if options.only in (None, "process"):
    one_process()
if options.only in (None, "flags"):
    flags()
ranked = training() if options.only not in ("process", "flags") else None
if ranked:
    for part in (torchrun, sharded):
        if options.only in (None, part.__name__):
            part(*ranked)
end()
