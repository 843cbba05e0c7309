#!/usr/bin/env python3
"""What a call costs the thread that makes it, by layers of the library: launches, events, copies, questions.

    calls.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --binary calls --work DIR [--rounds N]
             [--against OTHER.so]

calls is calls.cu. Of a job that its host holds up (cost.py) this says more exactly what is CUPTI's and what ours:
nanoseconds a call, hot and cold, beside the process alone and with another build. Each is run three times, in turn; of
each number the least is printed. Fails where the library recorded nothing. Ends in `N passed, N failed`.
"""
import argparse
import os
import subprocess

import recording
from claims import claim, end

arguments = argparse.ArgumentParser()
for name in ("deadheat", "tracer", "binary", "work"):
    arguments.add_argument("--" + name, required=True)
arguments.add_argument("--against", help="another build of the library, by any name")
arguments.add_argument("--rounds", type=int, default=5)
options = arguments.parse_args()
builds = [None, options.tracer] + ([options.against] if options.against else [])
names = {-1: "without CUPTI", **dict(enumerate(recording.LAYERS))}
least = {}  # nanoseconds, by build, call and layer


def run(number, build):
    trace = os.path.join(options.work, "calls-%d" % number)
    environment = recording.environment(build, trace, ":accesses=0") if build else None
    done = subprocess.run([options.binary, str(options.rounds)], text=True, capture_output=True, env=environment,
                          timeout=120)
    if done.returncode or not done.stdout.endswith("done\n"):
        claim(False, "%s: status %d: %s" % (build or "alone", done.returncode, done.stderr[-300:]))
        end()
    for call, layer, took in (line.split() for line in done.stdout.splitlines()[:-1]):
        key = number, call, int(layer)
        least[key] = min(float(took), least.get(key, float("inf")))
    if build:
        found = recording.launches(options.deadheat, trace)
        claim(found > 200 * options.rounds, "%s recorded %d launches" % (build, found), quiet=True)


for _ in range(3):
    for number, build in enumerate(builds):
        run(number, build)
calls = sorted({call for _, call, _ in least})
print("  nanoseconds a call          " + "".join("%14s" % call for call in calls))
print("  %-28s" % "alone" + "".join("%14.0f" % least[0, call, 0] for call in calls))
for number, build in list(enumerate(builds))[1:]:
    print("  under " + build)
    for layer, name in names.items():
        print("    %-26s" % name + "".join("%14.0f" % least[number, call, layer] for call in calls))
claim(True, "calls of %d builds were measured" % (len(builds) - 1))
end()
