#!/usr/bin/env python3
"""What recording operations only costs a step of a training job.

    cost.py --deadheat bin/deadheat --tracer lib/libdeadheat.so --work DIR [--against OTHER.so]
            [--batches N] [--limit SECONDS] [--sequences N] [--no-aim] [--job COMMAND…]

A batch is a dozen processes of the job (train.py --plain --turns), begun together and alive at the same time, of which one
works at a time: ten steps, of which the last eight are timed. Five of them run alone. Seven run under the library, which
records one of their turns and leaves the next to the job, in random order: it enables nothing then, and takes CUPTI out
of the process (cuptiFinalize). With --against there are four of each kind: alone, under the library, and under that
other build of it; the builds are compared with each other, and nothing is claimed of what they cost. In a round every
process has two turns, one after the other, on the same few cores, which change from round to round; all of it in random
order.

Two processes that are the same differ by several percent for as long as they live: by the addresses that they got, by
what of the caches they have. So the cost is first taken within each process, recorded against detached, where that
cancels; and then against the processes that run alone, where it does not, so that much less can be told. Addresses are
left to chance on purpose: were they fixed, alone and recorded would have one layout each, and the difference of these
two layouts would be part of the result, however often it is measured.

Of every number the median over processes is printed with an interval that holds it in 90 of 100 cases: what processes
drawn at random from those of each batch say (bootstrap). What every process recorded is counted in its trace: one that
recorded less than a launch a step is a failure, since its turns cost nothing for another reason. Prints PASS or FAIL a
claim; ends in `N passed, N failed`.
"""
import argparse
import os
import random
import statistics
import sys
import time

import recording
import turns
from claims import claim, end

here = os.path.dirname(os.path.abspath(__file__))
COUNTS = {"alone": 5, "recorded": 7}  # processes of a batch
COUNTS_OF_TWO = {"alone": 4, "recorded": 4, "other": 4}  # with another build
STEPS = 10  # of a turn
AIM = 1.05
WARM = 2  # rounds
arguments = argparse.ArgumentParser()
arguments.add_argument("--deadheat", required=True)
arguments.add_argument("--tracer", required=True)
arguments.add_argument("--against", help="another build of the library, by any name")
arguments.add_argument("--work", required=True)
arguments.add_argument("--batches", type=int, default=5)
arguments.add_argument("--rounds", type=int, default=13, help="of a batch")
arguments.add_argument("--limit", type=float, default=210, help="seconds after which no further batch is begun")
arguments.add_argument("--sequences", type=int, default=16, help="in a batch of the job's: train.py")
arguments.add_argument("--no-aim", action="store_true", help="say what it costs, and claim nothing")
arguments.add_argument("--job", nargs=argparse.REMAINDER)
options = arguments.parse_args()
counts = COUNTS_OF_TWO if options.against else COUNTS
tracers = {"recorded": options.tracer, "other": options.against}
steps = (options.rounds + WARM) * 2 * STEPS
job = options.job or [sys.executable, os.path.join(here, "train.py"), "--plain", "--turns", "--steps", str(steps),
                      "--sequences", str(options.sequences)]


def groups_of_cores():
    """Neighbours, four each: enough for the threads of the job and the library's."""
    allowed = sorted(os.sched_getaffinity(0))
    size = min(4, len(allowed))
    return [allowed[at:at + size] for at in range(0, len(allowed) - size + 1, size)]


def move(process, cores):
    """All of its threads."""
    for thread in os.listdir("/proc/%d/task" % process.process.pid):
        try:
            os.sched_setaffinity(int(thread), cores)
        except ProcessLookupError:
            pass


def interval(statistic, batches, draws=2000):
    """(value, low, high) of a statistic of batches, each a tuple of lists with one entry a process."""
    chance = random.Random(1)
    drawn = sorted(statistic([tuple(chance.choices(part, k=len(part)) for part in batch) for batch in batches])
                   for _ in range(draws))
    return statistic(batches), drawn[draws // 20], drawn[-1 - draws // 20]


def median_of(part):
    return lambda batches: statistics.median(value for batch in batches for value in batch[part])


def quotient_of(part, other):
    return lambda batches: median_of(part)(batches) / median_of(other)(batches)


def text(found):
    return "%.3f (90 %%: %.3f to %.3f)" % found


class Batch:
    def __init__(self, number):
        self.trouble = ""
        self.processes = [(kind, turns.Process(job, "%s-%d" % (kind, i), None if kind == "alone" else {},
                                               tracers.get(kind), options.work, os.sched_getaffinity(0)))
                          for kind, count in counts.items() for i in range(count)]
        self.number = number
        self.taken = [[] for _ in self.processes]  # by process and round: what turn took, (ms, ms of CPU) each
        self.losses = []

    def run(self):
        late = [process.kind for _, process in self.processes if process.line() != "turn"]
        if late:
            self.trouble = "did not begin: " + ", ".join(late)
            return
        groups = groups_of_cores()
        for number in range(options.rounds + WARM):
            cores = groups[number % len(groups)]
            for _, process in self.processes:
                move(process, cores)
            took = [{} for _ in self.processes]
            for at in random.sample(range(len(self.processes)), len(self.processes)):
                kind, process = self.processes[at]
                turns_of_it = ["one", "other"] if kind == "alone" else ["recorded", "detached"]
                for how in random.sample(turns_of_it, 2):
                    took[at][how] = process.turn(how)
                    if not took[at][how]:
                        self.trouble = "%s ended in round %d, when it was to be %s" % (process.kind, number, how)
                        return
            if number >= WARM:
                for at, turn in enumerate(took):
                    self.taken[at].append(turn)
        self.losses = [process.losses() for _, process in self.processes]

    def end(self):
        return [process.end() for _, process in self.processes]

    def launches(self, kind):
        """What the traces of processes of that kind have, a recorded step each. Once they have ended."""
        recorded = STEPS * (options.rounds + WARM)
        return [recording.launches(options.deadheat, process.trace) / recorded
                for its_kind, process in self.processes if its_kind == kind]

    def within(self, what):
        """Of each kind: one turn against the other, of the recorded ones recorded against detached, medians over rounds.
        what: 0 of time, 1 of CPU time."""
        found = {kind: [] for kind in counts}
        for (kind, _), rounds in zip(self.processes, self.taken):
            over, under = ("one", "other") if kind == "alone" else ("recorded", "detached")
            found[kind].append(statistics.median(turn[over][what] / max(turn[under][what], 1e-6) for turn in rounds))
        return tuple(found.values())

    def against_alone(self, how):
        """Levels of the processes of each kind, of the recorded ones when they are `how`: medians over rounds of what a
        turn took against the round's middle turn alone."""
        middle = [statistics.median(turn[name][0] for (kind, _), rounds in zip(self.processes, self.taken)
                                    if kind == "alone" for turn in [rounds[number]] for name in turn)
                  for number in range(options.rounds)]
        level = {kind: [] for kind in counts}
        for (kind, _), rounds in zip(self.processes, self.taken):
            names = ["one", "other"] if kind == "alone" else [how]
            level[kind].append(statistics.median(turn[name][0] / middle[number] for number, turn in enumerate(rounds)
                                                 for name in names))
        return tuple(level.values())

    def step(self):
        return statistics.median(turn[name][0] for (kind, _), rounds in zip(self.processes, self.taken)
                                 if kind == "alone" for turn in rounds for name in turn)


os.environ["PYTHONHASHSEED"] = "0"  # of all of them
begun, longest, batches, statuses, losses = time.time(), 0, [], [], []
launches = {kind: [] for kind in tracers if kind in counts}  # a recorded step, by process
for number in range(options.batches):
    since = time.time()
    if since - begun + longest > options.limit:
        break
    batch = Batch(number)
    try:
        batch.run()
    finally:
        statuses += batch.end()
    longest = max(longest, time.time() - since)
    if batch.trouble:
        print("  batch %d: %s" % (number + 1, batch.trouble))
        continue
    batches.append(batch)
    losses += batch.losses
    for kind in launches:
        launches[kind] += batch.launches(kind)
    print("  batch %d, %.0f s: alone %.3f ms a step%s" % (number + 1, time.time() - since, batch.step(), "".join(
        "; %s against detached, by process: %s" % (kind, " ".join("%.3f" % value for value in sorted(found)))
        for kind, found in zip(counts, batch.within(0)) if kind != "alone")), flush=True)
claim(batches and not any(statuses), "%d of %d processes ended with status 0" % (statuses.count(0), len(statuses)))
if not batches:
    end()
for kind, found in launches.items():
    claim(min(found) >= 1, "%s has %.1f to %.1f launches a recorded step in the traces of its %d processes, at least 1" % (
        tracers[kind], min(found), max(found), len(found)))
time_within, cpu_within = ([batch.within(what) for batch in batches] for what in (0, 1))
detached, recorded = ([batch.against_alone(how) for batch in batches] for how in ("detached", "recorded"))
print("  within processes, of %s, %d rounds each:" % (
    ", ".join("%d %s" % (count * len(batches), kind) for kind, count in counts.items()), options.rounds))
print("    alone, one turn against the other     %s" % text(interval(median_of(0), time_within)))
for part, kind in enumerate(counts):
    if part:
        print("    %-37s %s; CPU time %s" % (kind + ", against detached", text(interval(median_of(part), time_within)),
                                           text(interval(median_of(part), cpu_within))))
        print("    quarters over processes               %s" % " ".join("%.3f" % value for value in statistics.quantiles(
            [value for batch in time_within for value in batch[part]], n=4)))
print("  between processes, against those alone:")
for part, kind in enumerate(counts):
    if part:
        print("    %-37s %s" % (kind + ": detached", text(interval(quotient_of(part, 0), detached))))
        print("    %-37s %s" % ("recorded", text(interval(quotient_of(part, 0), recorded))))
print("    quarters over processes alone         %s" % " ".join("%.3f" % value for value in statistics.quantiles(
    [value for batch in recorded for value in batch[0]], n=4)))
claim(len(set(losses)) == 1 and None not in losses, "all have the same losses over %d steps" % steps)
if options.against:
    for name, found in (("time", time_within), ("CPU time", cpu_within)):
        print("  %s against %s, each against itself detached: %s of %s" % (
            options.tracer, options.against, text(interval(quotient_of(1, 2), found)), name))
if options.no_aim or options.against:
    end()
cost, against = interval(median_of(1), time_within), interval(quotient_of(1, 0), recorded)
claim(cost[2] <= AIM, "operations only cost %s times a step of the same process without, at most %.2f" % (text(cost), AIM))
claim(against[0] <= AIM, "operations only: %s times a step of jobs that run alone, at most %.2f in the middle" % (
    text(against), AIM))
end()
