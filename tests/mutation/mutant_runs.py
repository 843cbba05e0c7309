"""Runs a program and its mutants under deadheat, and says what came of it."""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import launch_oracle
import stream_oracle

# Memory errors that no missing synchronization makes.
UNRELATED = ("leak", "api-error")


def interpreter():
    """Of the oracle, which takes less there: the packed PyPy, the machine's, or else what runs this."""
    packed = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", "interpreter", "bin", "pypy3"))
    for found in (packed, shutil.which("pypy3")):
        try:
            if found and subprocess.run([found, "-c", "import launch_oracle"], cwd=os.path.dirname(launch_oracle.__file__),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
                return found
        except OSError:
            pass
    return sys.executable


# how: ends, fails, hangs, or cut where there was not the time to say; races: {pair of places: how many pairs of accesses},
# those that a suppression names too; count: entries without those; errors: how many other findings; conflicts: what an
# oracle says of the run (None: nothing); trace: the folder
Run = collections.namedtuple("Run", "how races count errors conflicts seconds trace")


class Runner:
    def __init__(self, deadheat, host_calls, cache, deadline=0):
        """cache: a folder for compiled kernels; a mutant's run compiles the one that it changes."""
        self.deadheat, self.host_calls, self.deadline = os.path.abspath(deadheat), host_calls, deadline
        self.cache, self.interpreter = cache, interpreter()
        libraries = os.path.join(os.path.dirname(self.deadheat), "..", "lib")
        self.library = " ".join(os.path.join(libraries, name) for name in ("libcudart.so.13", "libcuda.so.1"))

    def time_left(self, limit):
        return min(limit, self.deadline - time.monotonic()) if self.deadline else limit

    def run(self, binary, directory, limit, host=None, loads_from="", only=()):
        """Records and analyzes; PTX is in directory/ptx. host: variables of host_calls.cpp; loads_from: the variable that
        tells a program where the PTX is that it loads by itself; only: the kernels of whose launches accesses are
        recorded, as the PTX names them; nothing: all."""
        begin = time.monotonic()
        trace = os.path.join(directory, "trace")
        shutil.rmtree(trace, ignore_errors=True)
        said = lambda how: Run(how, {}, 0, 0, None, time.monotonic() - begin, trace)
        preload = self.library if host is None else "%s %s" % (self.host_calls, self.library)
        ptx = os.path.join(directory, "ptx")
        # Each program has a cache of its own: whoever adds to one looks at all of it.
        plain = dict(os.environ, DEADHEAT_CACHE=os.path.join(self.cache, os.path.basename(binary)))
        environment = dict(plain, LD_PRELOAD=preload, **(host or {}), **({loads_from: ptx} if loads_from else {}),
                           DEADHEAT_OPTIONS="output=%s:ptx=%s:cores=1" % (trace, ptx) + (
                               ":kernel=^(%s)$" % "|".join(map(re.escape, sorted(only))) if only else ""))
        patience = self.time_left(limit)
        status, errors = self.wait([binary], directory, environment, patience)
        if status is None and patience < limit:
            return said("cut")
        if not os.path.isdir(trace):
            return said("fails")
        report = os.path.join(directory, "report.json")
        if os.path.exists(report):
            os.remove(report)
        analyzed, _ = self.wait([self.deadheat, "analyze", "--jobs", "1", "--json", report, trace], directory,
                                plain, max(1, self.time_left(limit)))
        if analyzed is None or not os.path.exists(report):
            return said("cut" if self.time_left(limit) < limit else "fails")
        seconds = time.monotonic() - begin
        with open(report) as file:
            content = json.load(file)
        # Memory errors too: whoever does not wait at the end reads shared memory of a block that is gone.
        found = [error for error in content["memory_errors"] if error.get("kind") not in UNRELATED]
        found = len(content["sync_errors"]) + len(found)
        place = lambda side: (side.get("kernel"), side.get("file"), side.get("line"), side.get("op"))
        races = collections.Counter()
        for race in content["races"]:
            races[place(race["first"]), place(race["second"])] += race["occurrences"]
        hangs = not found and not content["summary"]["races"] and (status is None or b"the device hangs" in errors)
        how = "hangs" if hangs else "ends" if status == 0 else "skips" if status == 77 else "fails"
        conflicts = None
        if host is not None and "MUTATE_CALL" in host:
            conflicts = self.pairs(trace)
        return Run(how, races, content["summary"]["races"], found, conflicts, seconds, trace)

    def pairs(self, trace):
        """What stream_oracle.py finds; None when that is not decided."""
        records = self.records(trace)
        return None if records is None else stream_oracle.unordered_conflicts(records.split("\n"))

    def records(self, trace):
        """All that was recorded, as text; None when it cannot be read."""
        said = subprocess.run([self.deadheat, "info", "--records", trace], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
        return said.stdout if said.returncode == 0 else None

    def beside(self, trace):
        """{kernel: kernels of launches that may run beside one of its}, as stream_oracle.py has it."""
        return stream_oracle.beside((self.records(trace) or "").split("\n"))

    def overlaps(self, trace, kernel):
        """May a launch of that kernel (empty: any) run beside the launch in front of it? Only what lets it may, and only
        when a launch stands directly in front of it in its stream: there is nothing else to wait for (CUDA programming
        guide, programmatic dependent launch). It may where records are lost."""
        before = {}  # stream → was it a launch
        records = self.records(trace)
        if records is None or re.search(r"^warning: ", records, re.M):
            return True
        for line in records.split("\n"):
            if match := re.match(r"operation \d+ stream (\S+) .*?(?:\blaunch \d+ kernel (.*) module .*|$)", line):
                stream, launched = match.groups()
                if launched and kernel in ("", launched) and re.search(r"\bprogrammatic\b", line) and before.get(stream):
                    return True
                before[stream] = launched is not None
        return False

    def conflicts(self, trace, kernel):
        """Pairs of accesses of kernels (of launches of that one, or of any) that launch_oracle.py finds unordered; None
        when it says nothing."""
        with subprocess.Popen([self.deadheat, "info", "--records", trace], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as records:  # the oracle in a process of its own: it takes long
            try:
                said = subprocess.run([self.interpreter, launch_oracle.__file__, "--pairs", "--kernel", kernel, "--ptx",
                                       os.path.join(os.path.dirname(trace), "ptx")],
                                      env=dict(os.environ, PYPY_GC_NURSERY="32M"), stdin=records.stdout, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, check=False, timeout=self.time_left(1800))
            except subprocess.TimeoutExpired:
                records.kill()
                return None
        return set(said.stdout.splitlines()) if said.returncode == 0 and records.returncode == 0 else None

    def kernels(self, directory):
        """Those that ran, as people write them; None when the trace cannot be read."""
        said = subprocess.run([self.deadheat, "info", os.path.join(directory, "trace")], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return set(re.findall(r"^\s+\d+ x (.*)$", said.stdout, re.M)) if said.returncode == 0 else None

    @staticmethod
    def wait(command, directory, environment, limit):
        """(exit status, None when it had to be stopped; standard error)"""
        process = subprocess.Popen(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        try:
            said = process.communicate(timeout=max(0.1, limit))[1]
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[1]
