"""What recording operations costs a training job, against the job alone: processes that take turns.

    turns.py --tracer lib/libdeadheat.so --work DIR [--steps N] [--sets N] [--job COMMAND…]

Several processes of the job (train.py --turns) live at the same time, and one of them works at a time: ten steps, of
which the last eight are timed. In every round each has one turn, in random order, and ratios are taken within the
round: what changes on the machine meanwhile is in both. All processes of a set have the same few cores, the least busy
ones, so that none of them gets better ones than another. As a program it prints what it finds; check_training.py uses
it as a module, and judges.
"""
import argparse
import os
import random
import selectors
import statistics
import subprocess
import sys
import time

import recording

here = os.path.dirname(os.path.abspath(__file__))
# Kinds of process: environment beside the library, or None: without it. The second one alone shows what two processes
# differ by that are the same; `told nothing` is subscribed to CUPTI and enables no callback (tracer/cupti/layers.h).
kinds = {"alone": None, "alone again": None, "told nothing": {"DEADHEAT_LAYERS": "1"}, "recorded": {}}
WAIT = 60  # seconds for any one answer of a process


class Found:
    def __init__(self):
        self.losses = {kind: [] for kind in kinds}
        self.medians = {kind: [] for kind in kinds}  # of the ratios to `alone`, one a set
        self.cpu = {kind: [] for kind in kinds}
        self.statuses = {kind: [] for kind in kinds}  # with which processes ended; of one that was killed not 0
        self.troubles = []  # why sets were given up
        self.step = []  # ms alone, one a set
        self.rounds = 0

    @property
    def cost(self):
        return statistics.median(self.medians["recorded"]) if len(self.medians["recorded"]) >= 3 else None

    @property
    def text(self):
        return "%d rounds in %d sets" % (self.rounds, len(self.step))


def busy_ticks():
    """Ticks that each core worked, by its number."""
    ticks = {}
    with open("/proc/stat") as stat:
        for line in stat:
            words = line.split()
            if words[0].startswith("cpu") and words[0] != "cpu":
                values = [int(word) for word in words[1:9]]
                ticks[int(words[0][3:])] = sum(values) - values[3] - values[4]
    return ticks


def quiet_cores(count):
    """Of the cores that this process may use the least busy neighbours: neighbours share a socket."""
    before = busy_ticks()
    time.sleep(0.5)
    after = busy_ticks()
    allowed = sorted(os.sched_getaffinity(0))
    busy = [after.get(core, 0) - before.get(core, 0) for core in allowed]
    count = min(count, len(allowed))
    first = min(range(len(allowed) - count + 1), key=lambda at: sum(busy[at:at + count]))
    return allowed[first:first + count]


class Process:
    """variables: its environment beside the library, or None: without it."""
    def __init__(self, job, kind, variables, tracer, work, cores):
        environment = dict(os.environ, **recording.TRAIN_FLAGS)
        trace = os.path.join(work, "turns-" + kind.replace(" ", "-"))
        if variables is not None:
            environment = recording.environment(tracer, trace, ":accesses=0", {**environment, **variables})
        self.kind, self.errors, self.trace = kind, trace + ".err", trace
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(job, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.rest = b""

    def line(self):
        """The next line that it prints; empty: it does not in time, or ended."""
        end = time.time() + WAIT
        while b"\n" not in self.rest:
            if time.time() > end or not self.selector.select(end - time.time()):
                return ""
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                return ""
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode(errors="replace")

    def turn(self, how="go"):
        """What it says of its turn: (ms, ms of CPU) a step, or None."""
        try:
            self.process.stdin.write(how.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            return None
        words = self.line().split()
        return (float(words[1]), float(words[2])) if len(words) == 3 and words[0] == "turn" else None

    def losses(self):
        """Their hash; None: it did not say."""
        words = self.line().split()
        return words[1] if len(words) == 2 and words[0] == "losses" else None

    def end(self):
        """Its exit status; prints what the library said, and of a job that failed its last words."""
        try:
            self.process.stdin.close()
        except OSError:  # it is gone already
            pass
        try:
            self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with open(self.errors, errors="replace") as file:
            said = file.read()
        for line in said[-1500:].splitlines() if self.process.returncode else recording.said(said):
            print("  %s: %s" % (self.kind, line))
        return self.process.returncode


def one_set(found, job, rounds, tracer, work):
    """False: a process did not do what it should."""
    cores = quiet_cores(6)
    processes = {kind: Process(job, kind, kinds[kind], tracer, work, cores) for kind in kinds}
    try:
        late = [kind for kind, process in processes.items() if process.line() != "turn"]
        if late:
            found.troubles.append("did not begin: " + ", ".join(late))
            return False
        ratios, cpu, steps = {kind: [] for kind in kinds}, {kind: [] for kind in kinds}, []
        for number in range(rounds):
            order = random.sample(list(kinds), len(kinds))
            took = {kind: processes[kind].turn() for kind in order}
            if not all(took.values()):
                found.troubles.append("ended in round %d: %s" % (number, ", ".join(kind for kind in kinds if not took[kind])))
                return False
            if number < 2:  # they warm up
                continue
            steps.append(took["alone"][0])
            for kind in kinds:
                ratios[kind].append(took[kind][0] / took["alone"][0])
                cpu[kind].append(took[kind][1] / max(took["alone"][1], 1e-6))
        for kind, process in processes.items():
            found.losses[kind].append(process.losses())
        found.step.append(statistics.median(steps))
        found.rounds += len(steps)
        for kind in kinds:
            found.medians[kind].append(statistics.median(ratios[kind]))
            found.cpu[kind].append(statistics.median(cpu[kind]))
        print("  cores %d-%d, alone %.3f ms a step; times that: %s" % (
            cores[0], cores[-1], found.step[-1],
            ", ".join("%s %.3f" % (kind, found.medians[kind][-1]) for kind in kinds if kind != "alone")), flush=True)
        return True
    finally:
        for kind, process in processes.items():
            found.statuses[kind].append(process.end())


def measure(tracer, work, steps, sets, limit, job=None):
    job = job or [sys.executable, os.path.join(here, "train.py"), "--turns", "--steps", str(steps)]
    found, begin, longest = Found(), time.time(), 0
    for _ in range(sets):
        since = time.time()
        if since - begin + longest > limit or not one_set(found, job, steps // 10, tracer, work):
            break
        longest = max(longest, time.time() - since)
    for kind in kinds:
        if kind != "alone" and found.medians[kind]:
            print("  %-12s %.3f times alone (%s), %.3f times its CPU time" % (
                kind, statistics.median(found.medians[kind]), " ".join("%.3f" % m for m in sorted(found.medians[kind])),
                statistics.median(found.cpu[kind])), flush=True)
    return found


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--tracer", required=True)
    arguments.add_argument("--work", required=True)
    arguments.add_argument("--steps", type=int, default=200)
    arguments.add_argument("--sets", type=int, default=5)
    arguments.add_argument("--limit", type=float, default=200, help="seconds")
    arguments.add_argument("--job", nargs=argparse.REMAINDER)
    options = arguments.parse_args()
    result = measure(options.tracer, options.work, options.steps, options.sets, options.limit, options.job)
    print("recorded: %s times alone, %s; losses %s; ended with %s%s" % (
        result.cost and "%.3f" % result.cost, result.text, result.losses, result.statuses,
        "".join("; " + trouble for trouble in result.troubles)))
