#!/usr/bin/env python3
"""Device timestamps (timestamps=1): of programs whose times are known, with and without accesses, and of training.

    times.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --binary times --work DIR

`times` is times.cu, built like the other programs. Prints PASS or FAIL a claim; ends in `N passed, N failed`.
"""
import argparse
import collections
import os
import re
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
options = arguments.parse_args()
spun = 2_000_000  # nanoseconds
slack = 100_000   # between the host's clock and the device's, as CUPTI puts them together
outside = 20_000  # events stand before the first kernel and behind the last: what the device takes in between is theirs
drift = 0.02      # of a time: CUPTI's may be another clock than the events'
tick = 1000       # of the device's timer, at most: PTX leaves its rate to the target (PTX ISA, %globaltimer)


def record(name, command, settings):
    trace = os.path.join(options.work, name)
    environment = recording.environment(options.tracer, trace, ":buffer=256:timestamps=1" + settings)
    try:
        done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=90)
    except subprocess.TimeoutExpired:
        return None, None
    for line in recording.said(done.stderr):
        print("  " + line)
    info = subprocess.run([options.deadheat, "info", "--records", trace], text=True, capture_output=True, timeout=60)
    return done, info.stdout.splitlines()


Operation = collections.namedtuple("Operation", "id stream what begin end")


def operations(records):
    """All operations, in the order of submission; begin and end are None where no time is known."""
    times = {}
    for line in records:
        match = re.match(r"time operation (\d+) begins (\d+) takes (\d+)$", line)
        if match:
            number, begin, length = map(int, match.groups())
            assert number not in times, "operation %d has two times" % number
            times[number] = (begin, begin + length)
    found = []
    for line in records:
        match = re.match(r"operation (\d+) stream (\d+) (.*)$", line)
        if match:
            number = int(match.group(1))
            found.append(Operation(number, int(match.group(2)), match.group(3), *times.get(number, (None, None))))
    return found


def overlap(a, b):
    return min(a.end, b.end) - max(a.begin, b.begin)


def known_times(name, settings):
    done, records = record(name, [options.binary], settings)
    if not done or done.returncode:
        return claim(False, "%s: %s" % (name, done.stderr[-500:] if done else "no end in 90 s"))
    phases = {m[0]: (int(m[1]), int(m[2])) for m in re.findall(r"^(\w+) (\d+) (\d+)$", done.stdout, re.M)}
    between_events = int(re.search(r"^events (\d+)$", done.stdout, re.M).group(1))
    all_of_them = operations(records)
    kernels = [o for o in all_of_them if "spin" in o.what]
    transfers = [o for o in all_of_them if re.search(r"cudaMem(cpy|set)Async", o.what)]
    timed = [o for o in kernels + transfers if o.begin]
    right = len(kernels) == 7 and len(transfers) == 2 and len(timed) == 9
    claim(right, "%s: %d kernels and %d transfers, %d with times" % (name, len(kernels), len(transfers), len(timed)))
    if not right:
        return print("\n".join("    " + line[:150] for line in records if line.startswith(("operation", "time"))))
    sequence, together, beside = kernels[1:4], kernels[4:6], [kernels[6], *transfers]
    lengths = [o.end - o.begin for o in kernels[1:]]
    claim(all(length >= spun * 0.99 for length in lengths) and all(length < spun * 1.5 for length in lengths[:5]),
          "%s: kernels took what they spun: %s µs" % (name, ", ".join("%.0f" % (length / 1000) for length in lengths)))
    claim(all(a.end <= b.begin for a, b in zip(sequence, sequence[1:])), "%s: one after the other on one stream" % name)
    whole = sequence[-1].end - sequence[0].begin
    claim(abs(whole - between_events) < drift * between_events + outside,
          "%s: three in a row took %.0f µs, by events %.0f" % (name, whole / 1000, between_events / 1000))
    claim(overlap(*together) > spun / 2, "%s: two streams at the same time, for %.0f µs" % (name, overlap(*together) / 1000))
    claim(overlap(beside[0], beside[1]) > 0 and beside[1].end <= beside[2].begin + tick,
          "%s: a copy beside a kernel for %.0f µs, and a set behind the copy" % (name, overlap(beside[0], beside[1]) / 1000))
    for phase, members in (("sequence", sequence), ("together", together), ("beside", beside)):
        from_, to = phases[phase]
        first, last = min(o.begin for o in members), max(o.end for o in members)
        claim(from_ - slack <= first and last <= to + slack,
              "%s: %s began %.0f µs after the host's first call and ended %.0f µs before it had waited" % (
                  name, phase, (first - from_) / 1000, (to - last) / 1000))


def training():
    done, records = record("times-training", [sys.executable, os.path.join(here, "train.py"), "--plain", "--steps", "10"],
                           ":accesses=0")
    if not done or done.returncode:
        return claim(False, "training: %s" % (done.stderr[-500:] if done else "no end in 90 s"))
    all_of_them = [o for o in operations(records) if re.search(r"kernel|cudaMem(cpy|set)", o.what)]
    timed = [o for o in all_of_them if o.begin]
    claim(timed and len(timed) == len(all_of_them), "training: %d of %d operations have times" % (len(timed), len(all_of_them)))
    streams = collections.defaultdict(list)
    for o in timed:
        streams[o.stream].append(o)
    # What is launched to begin early (programmatic) may begin before what is in front of it ends.
    early = [(a, b) for members in streams.values() for a, b in zip(members, members[1:]) if b.begin < a.begin]
    claim(len(timed) > 100 and not early, "training: on each of %d streams operations begin in the order of submission%s" % (
        len(streams), ": %s" % (early[0],) if early else ""))


known_times("times-operations", ":accesses=0")
known_times("times-accesses", "")
if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0:
    training()
end()
