#!/usr/bin/env python3
"""Takes synchronization out of right programs, one piece at a time, and counts how often deadheat notices.

    mutate.py --deadheat build/bin/deadheat --binaries build/tests/programs [-j N] [--sample N] [--state FILE]
              [--results FILE] [NAME…]

For every race-free program (the fixed twins, and those of tests/programs/real), in turn:
  - PTX (ptx_mutations.py): each barrier, fence and wait of its kernels is dropped, each scope narrowed to the block, each
    acquire and release made relaxed. The embedded device loads the changed PTX in place of the program's own
    (DEADHEAT_OPTIONS, ptx=DIR). Of templates' instances that stand at the same source lines one is taken.
  - the host's calls (host_calls.cpp), of programs about streams: each wait, event record and graph edge dropped, each
    piece of work moved to a stream that waits for nobody.
deadheat records and analyzes each mutant's run. A mutant is

    reported    deadheat finds a race or another error that it does not find in the program itself (libraries have known
                ones, which are suppressed, and so would be what a mutant adds to them)
    hangs       the run no longer ends, and deadheat says who waits
    unchanged   the relation on the recorded accesses is what it was: stream_oracle.py finds that no two operations
                conflict unordered, or the run does not execute the instruction (a trap in its place does not show), or
                explained.txt says why
    missed      none of these
    stillborn   of host's calls: the runtime refuses the program

A line of explained.txt is PROGRAM, MUTATION, source line and a part of the PTX instruction (or number and name of the
call), then the reason:

    shared_reduce  drop 17 bar.sync  : the last round's barrier; nothing follows it

Exit status: 0 when at least 90 of 100 mutants that change something are reported and no explanation is idle, 1 otherwise.
--sample N takes N mutants, the same ones every time: what CI runs. All of them take hours of one core: --state FILE keeps
what is known, --seconds N ends a slice (exit status 3 while some are not tried), --results FILE writes the page.
"""
import argparse
import collections
import concurrent.futures
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import ptx_mutations
import results_page
import stream_oracle

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(HERE, "..", "programs", "real")
LEAST = 0.9  # of the mutants that count must be reported
SECONDS_A_RUN = 20  # and twenty times what the program itself takes; a mutant that is still at it hangs
# Memory errors that no missing synchronization makes.
UNRELATED = ("leak", "api-error")

# how: ends, fails, hangs; races: pairs of places, those that a suppression names too; count: without those; errors: how many
# other findings
Run = collections.namedtuple("Run", "how races count errors conflicts seconds")
Job = collections.namedtuple("Job", "program kind file mutation key")


class Runner:
    def __init__(self, deadheat, host_calls):
        self.deadheat, self.host_calls = os.path.abspath(deadheat), host_calls
        self.library = os.path.join(os.path.dirname(self.deadheat), "..", "lib", "libcudart.so.13")

    def run(self, binary, directory, limit, host=None):
        """Records and analyzes; PTX is in directory/ptx. host: variables of host_calls.cpp."""
        begin = time.monotonic()
        trace = os.path.join(directory, "trace")
        shutil.rmtree(trace, ignore_errors=True)
        preload = self.library if host is None else "%s %s" % (self.host_calls, self.library)
        environment = dict(os.environ, LD_PRELOAD=preload, **(host or {}),
                           DEADHEAT_OPTIONS="output=%s:ptx=%s" % (trace, os.path.join(directory, "ptx")))
        status, said = self.wait([binary], directory, environment, limit)
        seconds = time.monotonic() - begin
        if not os.path.isdir(trace):
            return Run("fails", frozenset(), 0, 0, None, seconds)
        report = os.path.join(directory, "report.json")
        if os.path.exists(report):
            os.remove(report)
        analyzed, _ = self.wait([self.deadheat, "analyze", "--json", report, trace], directory, dict(os.environ), limit)
        if analyzed is None or not os.path.exists(report):
            return Run("fails", frozenset(), 0, 0, None, seconds)
        with open(report) as file:
            content = json.load(file)
        # Memory errors too: whoever does not wait at the end reads shared memory of a block that is gone.
        errors = [error for error in content["memory_errors"] if error.get("kind") not in UNRELATED]
        errors = len(content["sync_errors"]) + len(errors)
        place = lambda side: (side.get("kernel"), side.get("file"), side.get("line"), side.get("op"))
        races = frozenset((place(race["first"]), place(race["second"])) for race in content["races"])
        hangs = not errors and not content["summary"]["races"] and (status is None or b"the device hangs" in said)
        how = "hangs" if hangs else "ends" if status == 0 else "fails"
        conflicts = None
        if host is not None and "MUTATE_CALL" in host:
            records = subprocess.run([self.deadheat, "info", "--records", trace], text=True, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, check=False).stdout
            conflicts = stream_oracle.unordered_conflicts(records.split("\n"))
        return Run(how, races, content["summary"]["races"], errors, conflicts, seconds)

    def kernels(self, directory):
        """Those that ran, as people write them."""
        said = subprocess.run([self.deadheat, "info", os.path.join(directory, "trace")], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        return set(re.findall(r"^\s+\d+ x (.*)$", said, re.M))

    @staticmethod
    def wait(command, directory, environment, limit):
        """(exit status, None when it had to be stopped; standard error)"""
        process = subprocess.Popen(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        try:
            said = process.communicate(timeout=limit)[1]
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[1]


class Program:
    """A program, its own run, and its mutations."""

    def __init__(self, binary, work, options):
        self.binary = binary
        self.name = os.path.basename(binary)[:-len(".fixed")]
        self.directory = os.path.join(work, self.name)
        self.every_instance = options.every_instance
        self.library = os.path.exists(os.path.join(LIBRARY, self.name + ".cu"))
        self.problem, self.jobs, self.limit, self.known = "", [], 0, frozenset()

    def prepare(self, runner):
        os.makedirs(os.path.join(self.directory, "ptx"))
        run = runner.run(self.binary, self.directory, 600)
        self.known = run.races
        if run.how != "ends" or run.errors or run.count:
            self.problem = "its own run %s with %d findings" % (run.how, run.errors + run.count)
            return self
        self.limit = SECONDS_A_RUN + 20 * run.seconds
        kernels = runner.kernels(self.directory)
        for file in sorted(glob.glob(os.path.join(self.directory, "ptx", "*.ptx"))):
            with open(file) as content:
                text = content.read()
            digest = hashlib.sha256(text.encode()).hexdigest()[:12]
            for mutation in ptx_mutations.mutations_of(text, kernels, self.every_instance):
                key = "%s %s %s %d" % (self.name, digest, mutation.what, mutation.line + 1)
                self.jobs.append(Job(self, "ptx", file, mutation, key))
        if self.name.startswith("stream_") and runner.host_calls:
            self.host(runner)
        return self

    def host(self, runner):
        calls = os.path.join(self.directory, "calls")
        run = runner.run(self.binary, self.directory, self.limit, {"MUTATE_LIST": calls})
        if run.how != "ends" or run.errors or run.count:
            self.problem = "its run with host_calls.cpp %s with %d findings" % (run.how, run.errors + run.count)
            return
        with open(calls) as file:
            listed = file.read()
        digest = hashlib.sha256(listed.encode()).hexdigest()[:12]
        for line in listed.splitlines():
            number, call, what = line.split()
            if what != "nothing":
                mutation = ptx_mutations.Mutation(what, int(number) - 1, int(number), call, None, "")
                self.jobs.append(Job(self, "host", "", mutation, "%s %s host %s" % (self.name, digest, number)))

    def attempt(self, runner, job, number, deadline):
        if deadline and time.monotonic() > deadline:
            return None
        if job.kind == "host":
            return row_of(job, self.run_with(runner, number, None, None, {"MUTATE_CALL": str(job.mutation.source)}))
        row = row_of(job, self.run_with(runner, number, job.file, job.mutation))
        if row["outcome"] == "missed": # is it executed at all? a trap in its place would show
            trap = self.run_with(runner, number, job.file, ptx_mutations.trap(job.mutation))
            if trap.how == "ends" and not trap.errors:
                row["outcome"], row["executed"] = "unchanged", False
        return row

    def run_with(self, runner, number, file, mutation, host=None):
        directory = os.path.join(self.directory, str(number))
        shutil.copytree(os.path.join(self.directory, "ptx"), os.path.join(directory, "ptx"))
        if mutation:
            target = os.path.join(directory, "ptx", os.path.basename(file))
            with open(target) as text:
                changed = ptx_mutations.apply(text.read(), mutation)
            with open(target, "w") as text:
                text.write(changed)
        run = runner.run(self.binary, directory, self.limit, host)
        shutil.rmtree(directory, ignore_errors=True)
        return run


def row_of(job, run):
    findings = len(run.races - job.program.known) + run.errors
    row = {"program": job.program.name, "library": job.program.library, "kind": job.kind, "mutation": job.mutation.what,
           "line": job.mutation.source, "ptx_line": job.mutation.line + 1, "instruction": job.mutation.old.strip(),
           "new": (job.mutation.new or "").strip(), "findings": findings, "run": run.how,
           "conflicts": None if run.conflicts is None else len(run.conflicts)}
    if findings:
        row["outcome"] = "reported"
    elif run.how == "hangs":
        row["outcome"] = "hangs"
    elif job.kind == "host" and run.how == "fails":
        row["outcome"] = "stillborn"
    elif run.conflicts == []:
        row["outcome"] = "unchanged"
    else:
        row["outcome"] = "missed"
    return row


def explanations():
    """[(program, mutation, source line, part of the instruction, reason)]"""
    found = []
    path = os.path.join(HERE, "explained.txt")
    with open(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = re.match(r"(\S+)\s+(\S+)\s+(\d+)\s+(.+?)\s+: (.+)$", line)
            if not match:
                sys.exit("%s:%d: expected PROGRAM MUTATION LINE INSTRUCTION : REASON" % (path, number))
            found.append(match.groups())
    return found


def explain(rows):
    """Marks what explained.txt explains; returns the explanations that explain nothing."""
    explained, used = explanations(), set()
    for row in rows:
        row["reason"] = ""
        if row["outcome"] != "missed":
            continue
        for entry in explained:
            program, what, source, part, why = entry
            if (program, what, int(source)) == (row["program"], row["mutation"], row["line"]) and part in row["instruction"]:
                row["outcome"], row["reason"] = "unchanged", why
                used.add(entry)
                break
    return [entry for entry in explained if entry not in used]


def host_calls_library(work):
    """Compiles host_calls.cpp; nothing where there is no compiler."""
    library = os.path.join(work, "libhost_calls.so")
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if not compiler:
        print("left out: the host's calls: no C++ compiler")
        return None
    subprocess.run([compiler, "-std=c++17", "-O1", "-shared", "-fPIC", os.path.join(HERE, "host_calls.cpp"), "-o", library,
                    "-ldl"], check=True)
    return library


def attempt_all(options, binaries, known):
    """Tries what `known` (rows by key) lacks. Returns (rows in order, how many were not tried)."""
    deadline = time.monotonic() + options.seconds if options.seconds else 0
    rows, not_tried = [], 0
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runner = Runner(options.deadheat, options.host_calls or host_calls_library(work))
        programs = [Program(binary, work, options) for binary in binaries]
        tried = []
        for program, prepared in zip(programs, [pool.submit(program.prepare, runner) for program in programs]):
            prepared.result()
            if program.problem:
                print("left out: %s: %s" % (program.name, program.problem))
                continue
            jobs = program.jobs
            if options.sample:
                jobs = jobs[::max(1, -(-len(jobs) * len(binaries) // options.sample))]
            for number, job in enumerate(jobs):
                waits = None if job.key in known else pool.submit(program.attempt, runner, job, number, deadline)
                tried.append((job, waits))
        for job, waits in tried:
            row = known[job.key] if waits is None else waits.result()
            if row is None:
                not_tried += 1
                continue
            if options.verbose and waits is not None:
                print("%(outcome)-9s %(program)s %(mutation)s line %(line)d: %(instruction)s" % row, flush=True)
            known[job.key] = row
            rows.append(row)
            if options.state and waits is not None:
                with open(options.state + ".new", "w") as file:
                    json.dump(known, file, indent=0)
                os.replace(options.state + ".new", options.state)
    return rows, not_tried


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True)
    parser.add_argument("--binaries", required=True, help="compiled programs")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="try N mutants, spread over the programs")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--state", metavar="FILE", help="keep what became of each mutant, and do not try it again")
    parser.add_argument("--seconds", type=float, default=0, metavar="N", help="begin no mutant after so long")
    parser.add_argument("--results", metavar="FILE", help="write the page")
    parser.add_argument("--every-instance", action="store_true", help="of templates too")
    parser.add_argument("--host-calls", metavar="FILE", help="host_calls.cpp, compiled")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    binaries = [os.path.abspath(path) for path in sorted(glob.glob(os.path.join(options.binaries, "*.fixed")))
                if not options.names or os.path.basename(path)[:-len(".fixed")] in options.names]
    if options.sample:  # fewer programs too, since each is run once as it is; the library's kernels take long to compile
        binaries = [path for path in binaries if not os.path.exists(
            os.path.join(LIBRARY, os.path.basename(path)[:-len(".fixed")] + ".cu"))]
        binaries = binaries[::max(1, len(binaries) // options.sample)]
    known = {}
    if options.state and os.path.exists(options.state):
        with open(options.state) as file:
            known = json.load(file)
    begin = time.monotonic()
    rows, not_tried = attempt_all(options, binaries, known)
    idle = explain(rows)
    if options.sample or options.names or not_tried:
        idle = []
    for row in rows:
        if row["outcome"] == "missed":
            print("missed: %(program)s %(mutation)s line %(line)d (%(kind)s %(ptx_line)d): %(instruction)s -> '%(new)s' "
                  "(run %(run)s)" % row)
        elif row["kind"] == "host" and row["outcome"] == "reported" and row["conflicts"] == 0:
            print("only deadheat sees: %(program)s %(mutation)s call %(line)d: %(instruction)s" % row)
    for entry in idle:
        print("idle explanation: %s %s %s %s" % entry[:4])
    counts = collections.Counter(row["outcome"] for row in rows)
    share = results_page.share(rows)
    print("%d mutants of %d programs in %.0f s: %d reported, %d hang, %d missed (%.1f %% noticed), %d unchanged, "
          "%d stillborn, %d not tried" % (
              len(rows), len(binaries), time.monotonic() - begin, counts["reported"], counts["hangs"], counts["missed"],
              100 * share, counts["unchanged"], counts["stillborn"], not_tried))
    if options.results:
        with open(options.results, "w") as file:
            names = [os.path.basename(path)[:-len(".fixed")] for path in binaries]
            file.write(results_page.page(rows, not_tried, names))
    if not_tried:
        return 3
    return 0 if rows and share >= LEAST and not idle else 1


if __name__ == "__main__":
    sys.exit(main())
