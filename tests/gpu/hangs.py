#!/usr/bin/env python3
"""Jobs that hang on a GPU and are killed: `analyze` names from their traces who waits, and who never came.

    hangs.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --binary hang_program --work DIR

hang_program is hang.cu, whose comments mark the lines that must be named. Prints PASS or FAIL a claim; ends in
`N passed, N failed`.
"""
import argparse
import json
import os
import re
import signal
import subprocess

import recording
from claims import claim, end

SECONDS = 25  # until the kill: the recording takes ten of silence for a hang


def line_of(mark):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "hang.cu")) as file:
        return next(number for number, line in enumerate(file, 1) if "// " + mark in line)


def texts_of(options, name):
    """(what the analysis says of synchronization, why it says nothing)"""
    trace = os.path.join(options.work, "hang-" + name)
    process = subprocess.Popen([options.binary, name], start_new_session=True,
                               env=recording.environment(options.tracer, trace, ":buffer=256"))
    try:
        return [], "it ended, with status %d" % process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    said = subprocess.run([options.deadheat, "analyze", "--json", "-", trace], text=True, capture_output=True, timeout=100)
    try:
        return [error["text"] for error in json.loads(said.stdout)["sync_errors"]], ""
    except ValueError:
        return [], "no report: " + said.stderr.strip()[:300]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("deadheat", "tracer", "binary", "work"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    expected = {
        "barriers": [r"96 threads of block 0 \(threads 0-95, .*hang\.cu:%d\) wait at barrier 1; 32 never came: threads 96-127, "
                     r"last seen at .*hang\.cu:%d; likewise in 3 blocks" % (line_of("WAITING"), line_of("LONELY")),
                     r"32 threads of block 0 \(threads 96-127, .*hang\.cu:%d\) wait at barrier 2" % line_of("LONELY")],
        "mbarriers": [r"mbarrier at .* of block 0 has 64 of 65 arrivals in phase 0 \(threads 0-63, .*hang\.cu:%d" %
                      line_of("ARRIVING")],
    }
    for name, patterns in expected.items():
        texts, why_none = texts_of(options, name)
        for pattern in patterns:
            good = any(re.search(pattern, text) for text in texts)
            claim(good, "%s: %s" % (name, pattern if good else why_none or "said %s" % texts))
    end()


if __name__ == "__main__":
    main()
