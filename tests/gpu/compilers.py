#!/usr/bin/env python3
"""Jobs whose kernels are compiled while they run (compilers_job.py), alone and under `deadheat record`; and nvcc there.

    compilers.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --work DIR

They compute the same, all their kernels are instrumented, and the races are those at the planted lines. nvcc makes the
same kinds of files as alone. Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import sys

import recording
from claims import claim, end
from compilers_job import RACE, jobs

here = os.path.dirname(os.path.abspath(__file__))
# Flags, and whether PTX is in what comes out; None: a file of the kind that nvcc makes alone.
NVCC = [("-cubin -arch=sm_90a", None), ("-ptx -arch=sm_90", None), ("-fatbin -gencode arch=compute_90a,code=sm_90a", True),
        ("-c -gencode arch=compute_90,code=sm_90", True), ("-c -arch=sm_90 -dlto", None), ("-c -rdc=true -arch=sm_90", True)]


def recorded(options, trace, command):
    return recording.run([options.deadheat, "record", "-o", trace, "--device", "gpu", "--", *command], None, 200)


def run(options, name):
    command = [sys.executable, os.path.join(here, "compilers_job.py"), name]
    trace = os.path.join(options.work, "compilers-" + name)
    shutil.rmtree(trace, ignore_errors=True)
    alone = recording.run(command, None, 150)
    if "No module named" in alone.stderr:
        return alone, None, None
    job = recorded(options, trace, command)
    report = recording.run([options.deadheat, "analyze", trace, "--json", "-"], None, 100)
    return alone, job, json.loads(report.stdout) if report.returncode in (0, 1) else None


def nvcc(options, flags, ptx):
    source = os.path.join(options.work, "compilers.cu")
    made = os.path.join(options.work, "compilers-made")
    with open(source, "w") as file:
        file.write("__global__ void k(int* a) { a[threadIdx.x] = 1; }\n")
    command = ["nvcc", *flags.split(), source, "-o", made]
    bytes_ = []
    for run in (lambda: recording.run(command, None, 100),
                lambda: recorded(options, os.path.join(options.work, "compilers-nvcc"), command)):
        done = run()
        if done.returncode:
            claim(False, "nvcc %s (%s)" % (flags, done.stderr.strip()[-200:]))
            return
        with open(made, "rb") as file:
            bytes_.append(file.read())
    # An entry of a fat binary begins with its kind, 1 for PTX, and version (tracer/ptx/fatbin.h).
    claim(b"\x01\x00\x01\x01" in bytes_[1] if ptx else bytes_[0][:4] == bytes_[1][:4], "nvcc %s" % flags)


def main():
    arguments = argparse.ArgumentParser()
    for name in ("deadheat", "tracer", "work"):
        arguments.add_argument("--" + name, required=True)
    options = arguments.parse_args()
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(jobs)) as workers:
        done = dict(zip(jobs, workers.map(lambda name: run(options, name), jobs)))
    for name, (alone, job, report) in done.items():
        if "No module named" in alone.stderr:
            print("  %s: not tried: %s" % (name, alone.stderr.strip().splitlines()[-1]))
            continue
        claim(job and alone.returncode == job.returncode == 0 and alone.stdout == job.stdout != "",
              "%s: it computes what it computes alone (%s)" % (
                  name, alone.stdout.strip() or (alone.stderr + (job.stderr if job else ""))[-20000:]))
        if not report:
            claim(False, "%s: no analysis" % name)
            continue
        summary = report["summary"]
        found = [race for race in report["races"] if not race.get("suppressed")]
        lines = {(race["first"].get("line"), race["second"].get("line")) for race in found}
        print("  %s: %d launches, %d instrumented, %d accesses" % (
            name, summary["launches"], summary["instrumented"], summary["accesses"]))
        claim(lines == ({RACE} if name.endswith("_racy") else set()), "%s: races at lines %s" % (name, sorted(lines, key=str)))
        claim(summary["complete"] and summary["instrumented"] > 0, "%s: all is recorded" % name)
    for flags, ptx in NVCC:
        nvcc(options, flags, ptx)
    end()


if __name__ == "__main__":
    main()
