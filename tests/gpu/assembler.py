#!/usr/bin/env python3
"""Instrumented modules are assembled by ptxas, as a process of its own: one that crashes or hangs costs the recording.

    assembler.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --binary window --work DIR

The job is window.cu, without its fault. Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import json
import os
import shutil
import subprocess
import time

import recording
from claims import claim, end

arguments = argparse.ArgumentParser()
for name in ("deadheat", "tracer", "binary", "work"):
    arguments.add_argument("--" + name, required=True)
options = arguments.parse_args()
work = os.path.join(options.work, "assembler")
shutil.rmtree(work, ignore_errors=True)
os.mkdir(work)
true_ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"


def script(name, then):
    """A ptxas that answers what the library asks it, and does that with modules."""
    path = os.path.join(work, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\nif grep -q deadheat_empty /proc/self/fd/3; then exec %s \"$@\"; fi\n%s\n" % (true_ptxas, then))
    os.chmod(path, 0o755)
    return path


def run(name, **variables):
    """The job recorded: whether it ended as it should, what the library said, the report, cubins of processes apart."""
    made, trace = os.path.join(work, name + "-made"), os.path.join(work, name + "-trace")
    os.mkdir(made)
    environment = recording.environment(options.tracer, trace, ":buffer=256")
    environment.update({"DEADHEAT_CACHE": "0", **variables}, DEADHEAT_KEEP_PTX=made)
    begun = time.monotonic()
    job = subprocess.run(COMMAND, env=environment, text=True, capture_output=True, timeout=200)
    seconds = time.monotonic() - begun
    done = subprocess.run([options.deadheat, "analyze", trace, "--json", "-"], text=True, capture_output=True, timeout=200)
    report = json.loads(done.stdout) if done.returncode in (0, 1) else None
    cubins = [file for file in os.listdir(made) if file.endswith(".cubin")]
    return (job.returncode, job.stdout) == alone, recording.said(job.stderr), report["summary"] if report else {}, cubins, seconds


COMMAND = [options.binary, "0"]
done = subprocess.run(COMMAND, text=True, capture_output=True, timeout=60)
alone = (done.returncode, done.stdout)

as_alone, said, apart, cubins, seconds = run("apart")
claim(as_alone and not said and cubins and apart.get("instrumented"),
      "%d module(s) assembled apart are loaded, %s of %s launches recorded (%.1f s; said %s)" % (
          len(cubins), apart.get("instrumented"), apart.get("launches"), seconds, said))
as_alone, said, driver, cubins, seconds = run("driver", DEADHEAT_PTXAS="0")
claim(as_alone and not said and not cubins and driver.get("instrumented"),
      "the driver assembles where it is told to (%.1f s; said %s)" % (seconds, said))
claim(apart.get("accesses") == driver.get("accesses") and apart.get("instrumented") == driver.get("instrumented"),
      "both record the same accesses (%s, %s)" % (apart.get("accesses"), driver.get("accesses")))
log = os.path.join(work, "log")
kept = dict(DEADHEAT_CACHE=os.path.join(work, "kept"), DEADHEAT_PTXAS=script("logging", 'echo made >> %s\nexec %s "$@"' % (log, true_ptxas)))
for name, expected in (("keeping", True), ("kept", False)):
    as_alone, said, summary, cubins, seconds = run(name, **kept)
    made = os.path.exists(log)
    claim(as_alone and not said and made == expected and summary == apart,
          "%s: modules are %s, the same is recorded (%.1f s; said %s)" % (
              name, "assembled and kept" if expected else "what an earlier run kept", seconds, said))
    if made:
        os.unlink(log)
for name, then, why in (("crash", "kill -SEGV $$", "signal 11"), ("hang", "sleep 1000", "did not end within 3 s")):
    as_alone, said, summary, cubins, seconds = run(name, DEADHEAT_PTXAS=script(name, then), DEADHEAT_PTXAS_SECONDS="3")
    claim(as_alone and len(said) == 1 and why in said[0] and not cubins and summary.get("instrumented") == 0,
          "%s: the job runs on, unrecorded (%.1f s; said %s)" % (name, seconds, said))
# Of another architecture: the driver refuses it (CUDA_ERROR_NO_BINARY_FOR_GPU), once the job has asked for its own.
other = script("other", 'for word; do shift; case $word in -arch=*) word=-arch=sm_120;; esac; set -- "$@" "$word"; done\n'
                        "sed 's/^[.]target .*/.target sm_75/' /proc/self/fd/3 > %s/other.ptx\n"
                        'for word; do shift; case $word in /proc/self/fd/3) word=%s/other.ptx;; esac; set -- "$@" "$word"; done\n'
                        'exec %s "$@"' % (work, work, true_ptxas))
as_alone, said, summary, cubins, _ = run("other", DEADHEAT_PTXAS=other)
claim(as_alone and cubins and len(said) >= 1 and "did not load its instrumented code" in said[0],
      "machine code that the driver refuses: the job gets its own, and sees no error (said %s)" % said)
as_alone, said, summary, cubins, _ = run("refuse", DEADHEAT_PTXAS=script("refuse", "exit 255"))
claim(as_alone and not said and not cubins and summary.get("instrumented") == apart.get("instrumented"),
      "one that refuses: the driver assembles (said %s)" % said)
end()
