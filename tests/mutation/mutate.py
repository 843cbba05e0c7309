#!/usr/bin/env python3
"""Takes synchronization out of right programs, one piece at a time, and counts how often deadheat notices.

    mutate.py [--deadheat build/bin/deadheat] [--binaries build/tests/programs] [-j N] [--sample N] [--state FILE]
              [--budget SECONDS] [--results FILE] [NAME…]
    mutate.py --pack FOLDER
    mutate.py --state FILE --results FILE --page-only

For every race-free program (the fixed twins, and those of tests/programs/real), in turn:
  - PTX (ptx_mutations.py): each barrier, fence and wait of its kernels is dropped, each scope narrowed to the block, each
    acquire and release made relaxed. The embedded device loads the changed PTX in place of the program's own
    (DEADHEAT_OPTIONS, ptx=DIR). Of templates' instances that stand at the same source lines one is taken.
  - the host's calls (host_calls.cpp), of programs about streams: each wait, event record and graph edge dropped, each
    piece of work moved to a stream that waits for nobody.
deadheat records and analyzes each mutant's run. A mutant is

    reported    deadheat finds a race or another error that it does not find in the program itself, or more pairs of
                accesses of a race that it does find there (libraries have known ones, which are suppressed)
    hangs       the run no longer ends, and deadheat says who waits
    unchanged   the relation on the recorded accesses is what it was: an oracle (launch_oracle.py, stream_oracle.py) finds
                no two accesses that conflict unordered but those of the program itself, or the run does not execute the
                instruction (a trap in its place does not show), or explained.txt says why
    missed      none of these
    stillborn   of host's calls: the runtime refuses the program

A line of explained.txt is PROGRAM, MUTATION, source line and a part of the PTX instruction (or number and name of the
call), then the reason:

    shared_reduce  drop 17 bar.sync  : the last round's barrier; nothing follows it

Exit status: 0 when at least 90 of 100 mutants that change something are reported, no explanation is idle and no program
left out (but one that skips), 1 otherwise, 3 while some are not tried. --sample N takes N mutants, the same ones every
time: what CI runs. All of them take hours of
one core: --state FILE keeps what is known (a line of JSON a mutant), --budget SECONDS ends a slice, --results FILE writes
the page. Mutants are taken from all programs in turn, so that a slice says something of each; --fastest-first takes more of
them. A program whose mutants the file has all is not run again, unless it or deadheat has changed. --pack makes a folder, and
FOLDER.tar.xz of what is in it, for a larger machine that has Python: there, with LD_LIBRARY_PATH=FOLDER/libraries,
FOLDER/tests/mutation/mutate.py -j 32 --budget 500 --state FILE. From the file that comes back, --page-only writes the page
without running anything.

Programs of libraries launch hundreds of kernels. A mutant's run records the accesses of launches of the changed kernel alone,
and of launches that may run beside one of these: what a kernel synchronizes orders accesses of no others. What that shows
besides new races, or besides a relation that is what it was, is not taken for granted: the mutant is run again with all
accesses recorded.
"""
import argparse
import collections
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import ptx_mutations
import results_page
import slices
from mutant_runs import Runner

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
LIBRARY = os.path.join(ROOT, "tests", "programs", "real")
LEAST = 0.9  # of the mutants that count must be reported
SECONDS_A_RUN = 20  # and twenty times what the program itself takes; a mutant that is still at it hangs

Job = collections.namedtuple("Job", "program kind file mutation key")


class Program:
    """A program, its own run, and its mutations."""

    def __init__(self, binary, work, options):
        self.binary = binary
        self.name = os.path.basename(binary)[:-len(".fixed")]
        self.directory = os.path.join(work, self.name)
        self.every_instance = options.every_instance
        self.library, self.loads_from = os.path.exists(os.path.join(LIBRARY, self.name + ".cu")), ""
        if self.library:
            with open(os.path.join(LIBRARY, self.name + ".cu")) as source:
                found = re.search(r"^// Mutants: (\w+) names the folder of its PTX, (\w+)", source.read(), re.M)
            if found:
                self.loads_from, self.loads = found.groups()
        self.problem, self.own_run, self.prepared = "", "", False
        self.jobs, self.limit, self.seconds, self.known = [], 0, 0, {}
        self.lock, self.own_conflicts = threading.Lock(), {}
        self.own_pairs = []  # of operations that streams do not order: its kernels hand each other messages
        self.beside = {}  # kernel → those to record, as the PTX has them, of launches that may run beside one of its
        self.digest = ""  # of all that a mutant's outcome depends on

    def prepare(self, runner):
        os.makedirs(os.path.join(self.directory, "ptx"))
        if self.loads_from:
            for file in glob.glob(os.path.join(os.path.dirname(self.binary), self.loads, "*.*")):
                shutil.copy(file, os.path.join(self.directory, "ptx"))
        run = runner.run(self.binary, self.directory, 600, None, self.loads_from)
        self.known, self.seconds, self.own_run = run.races, run.seconds, run.how
        if run.how != "ends" or run.errors:
            self.problem = "its own run %s with %d findings" % (run.how, run.errors + run.count)
            return
        self.limit = SECONDS_A_RUN + 20 * run.seconds
        kernels = runner.kernels(self.directory)
        if kernels is None:
            self.problem = "its trace cannot be read"
            return
        for file in sorted(glob.glob(os.path.join(self.directory, "ptx", "*.ptx"))):
            with open(file) as content:
                text = content.read()
            digest = hashlib.sha256(text.encode()).hexdigest()[:12]
            for mutation in ptx_mutations.mutations_of(text, kernels, self.every_instance):
                key = "%s %s %s %d" % (self.name, digest, mutation.what, mutation.line + 1)
                self.jobs.append(Job(self, "ptx", file, mutation, key))
        if self.library and self.jobs:
            self.find_beside(runner)
        if self.name.startswith("stream_") and runner.host_calls:
            self.own_pairs = runner.pairs(os.path.join(self.directory, "trace")) or []
            self.host(runner)

    def find_beside(self, runner):
        """In a run without accesses, since traces are large; and what is not recorded is compiled by then."""
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            run = self.run_with(runner, directory, "", None, only=("nothing",))
            groups = runner.beside(run.trace) if run.how == "ends" and not run.errors else {}
        entries = {}
        for file in glob.glob(os.path.join(self.directory, "ptx", "*.ptx")):
            with open(file) as content:
                names = ptx_mutations.demangled(re.findall(r"\.entry\s+([\w$]+)", content.read()))
            entries.update({readable: name for name, readable in names.items()})
        self.beside = {kernel: [entries[other] for other in group] for kernel, group in groups.items() if group <= entries.keys()}

    def conflicts(self, runner, kernel):
        """What launch_oracle.py finds in the program itself, asked for once a kernel."""
        with self.lock:
            if kernel not in self.own_conflicts:
                self.own_conflicts[kernel] = runner.conflicts(os.path.join(self.directory, "trace"), kernel)
            return self.own_conflicts[kernel]

    def host(self, runner):
        calls = os.path.join(self.directory, "calls")
        run = runner.run(self.binary, self.directory, self.limit, {"MUTATE_LIST": calls})
        if run.how != "ends" or run.errors or run.count:
            self.problem = "its run with host_calls.cpp %s with %d findings" % (run.how, run.errors + run.count)
            return
        if not os.path.exists(calls):  # it makes none of the runtime's
            return
        with open(calls) as file:
            listed = file.read()
        digest = hashlib.sha256(listed.encode()).hexdigest()[:12]
        for line in listed.splitlines():
            number, call, what = line.split()
            if what != "nothing":
                mutation = ptx_mutations.Mutation(what, int(number) - 1, int(number), call, None, "", "")
                self.jobs.append(Job(self, "host", "", mutation, "%s %s host %s" % (self.name, digest, number)))

    def attempt(self, runner, job):
        """The mutant's row; None when there was not the time to say."""
        if runner.time_left(self.seconds) < self.seconds:
            return None
        dependency = "griddepcontrol" in job.mutation.old  # it orders launches that may overlap
        if job.mutation.kernel in self.beside and not dependency:
            row = self.attempt_alone(runner, job)
            if row != "unsaid":
                return row
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            if job.kind == "host":
                run = self.run_with(runner, directory, None, None, {"MUTATE_CALL": str(job.mutation.source)})
                return None if run.how == "cut" else row_of(job, run)
            run = self.run_with(runner, directory, job.file, job.mutation)
            if run.how == "cut":
                return None
            row = row_of(job, run)
            if row["outcome"] != "missed":
                return row
            # Traces of libraries are large: without need only launches of the changed kernel are looked at.
            kernel = "" if dependency or not self.library else job.mutation.kernel
            if dependency and not runner.overlaps(run.trace, job.mutation.kernel):
                conflicts = own = set()
            else:
                conflicts = runner.conflicts(run.trace, kernel)
                own = self.conflicts(runner, kernel) if conflicts else set()
            if own is not None and conflicts is not None:
                new = sorted(conflicts - own)
                row["conflicts"] = len(new)
                row["example"] = new[0] if new else ""
                row["outcome"] = "missed" if new else "unchanged"
        if row["outcome"] == "missed" or row["conflicts"] is None:  # is it executed at all? a trap in its place would show
            with tempfile.TemporaryDirectory(dir=self.directory) as directory:
                trap = self.run_with(runner, directory, job.file, ptx_mutations.trap(job.mutation))
            if trap.how == "cut":
                return None
            if trap.how == "ends" and not trap.errors:
                row["outcome"], row["executed"] = "unchanged", False
        return row

    def attempt_alone(self, runner, job):
        """Likewise, with the accesses of launches of the changed kernel alone, and of those that may run beside one of them:
        what a kernel synchronizes orders accesses of no others. Where it shows anything but new races, or no change, it says
        "unsaid": the run with all accesses has to tell."""
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            run = self.run_with(runner, directory, job.file, job.mutation, only=self.beside[job.mutation.kernel])
            if run.how == "cut":
                return None
            row = row_of(job, run)
            if row["outcome"] == "reported" and not run.errors:
                return row
            if row["outcome"] != "missed":
                return "unsaid"
            conflicts = runner.conflicts(run.trace, job.mutation.kernel)
            own = self.conflicts(runner, job.mutation.kernel) if conflicts else set()
            if conflicts is None or own is None or conflicts - own:
                return "unsaid"
            row["conflicts"], row["example"], row["outcome"] = 0, "", "unchanged"
            return row

    def run_with(self, runner, directory, file, mutation, host=None, only=()):
        ptx = os.path.join(directory, "ptx")
        shutil.copytree(os.path.join(self.directory, "ptx"), ptx, copy_function=os.link)
        if mutation:
            target = os.path.join(ptx, os.path.basename(file))
            with open(target) as text:
                changed = ptx_mutations.apply(text.read(), mutation)
            os.remove(target)  # its link
            with open(target, "w") as text:
                text.write(changed)
        return runner.run(self.binary, directory, self.limit, host, self.loads_from, only)


def row_of(job, run):
    known = job.program.known
    conflicts = None if run.conflicts is None else [pair for pair in run.conflicts if pair not in job.program.own_pairs]
    findings = len(run.races.keys() - known.keys()) + run.errors
    grown = sum(count > known.get(race, count) for race, count in run.races.items())
    row = {"key": job.key, "program": job.program.name, "library": job.program.library, "kind": job.kind,
           "mutation": job.mutation.what, "line": job.mutation.source, "ptx_line": job.mutation.line + 1,
           "instruction": job.mutation.old.strip(), "new": (job.mutation.new or "").strip(), "findings": findings,
           "grown": grown, "run": run.how, "seconds": round(run.seconds, 1),
           "conflicts": None if conflicts is None else len(conflicts)}
    if findings or grown:
        row["outcome"] = "reported"
    elif run.how == "hangs":
        row["outcome"] = "hangs"
    elif job.kind == "host" and run.how == "fails":
        row["outcome"] = "stillborn"
    elif conflicts == []:
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


def host_calls_library(folder):
    """Compiles host_calls.cpp; nothing where there is no compiler."""
    library = os.path.join(folder, "libhost_calls.so")
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if not compiler:
        print("left out: the host's calls: no C++ compiler")
        return None
    subprocess.run([compiler, "-std=c++17", "-O1", "-shared", "-fPIC", os.path.join(HERE, "host_calls.cpp"), "-o", library,
                    "-ldl"], check=True)
    return library


def libraries_of(*files):
    """Those that they are linked against, without what every system has in a state of its own."""
    said = subprocess.run(["ldd", *files], text=True, stdout=subprocess.PIPE, check=True).stdout
    return {path for path in re.findall(r"=> (/\S+)", said)
            if not re.match(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+)\.so", os.path.basename(path))}


def pack_interpreter(folder):
    """PyPy, and what the oracle imports; nothing where there is none."""
    found = shutil.which("pypy3")
    if not found:
        return set()
    code = "import launch_oracle, sys; print(*(m.__file__ for m in sys.modules.values() if getattr(m, '__file__', None)))"
    modules = subprocess.run([found, "-c", code], text=True, stdout=subprocess.PIPE, check=True, cwd=HERE).stdout.split()
    home = os.path.dirname([path for path in modules if os.path.basename(path) == "os.py"][0])
    for path in modules:
        if path.startswith(home):
            target = os.path.join(folder, "lib", os.path.basename(home), os.path.relpath(path, home))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(path, target)
    os.makedirs(os.path.join(folder, "bin"))
    shutil.copy(os.path.realpath(found), os.path.join(folder, "bin", "pypy3"))
    return libraries_of(os.path.realpath(found))


def pack(options):
    """What is needed to go on elsewhere, in the same places as here, and as one archive."""
    build, programs = os.path.join(options.pack, "build"), os.path.join(options.pack, "build", "tests", "programs")
    shutil.rmtree(options.pack, ignore_errors=True)
    for folder in (os.path.join(build, "bin"), os.path.join(build, "lib"), programs,
                   os.path.join(options.pack, "tests", "programs")):
        os.makedirs(folder)
    here = os.path.dirname(os.path.dirname(os.path.abspath(options.deadheat)))
    for name in ("bin/deadheat", "lib/libcudart.so.13", "lib/libcuda.so.1"):
        subprocess.run(["strip", "-o", os.path.join(build, name), os.path.join(here, name)], check=True)
    shutil.copytree(os.path.join(here, "share"), os.path.join(build, "share"))
    for binary in glob.glob(os.path.join(options.binaries, "*.fixed")):
        subprocess.run(["strip", "-o", os.path.join(programs, os.path.basename(binary)), binary], check=True)
    for module in glob.glob(os.path.join(options.binaries, "*.fixed.ptx")):
        shutil.copy(module, programs)
    for file in glob.glob(os.path.join(options.binaries, "triton", "*.ptx")):  # and how each is launched
        for found in glob.glob(file[:-len("ptx")] + "*"):
            os.makedirs(os.path.join(programs, "triton"), exist_ok=True)
            shutil.copy(found, os.path.join(programs, "triton"))
    shutil.copytree(LIBRARY, os.path.join(options.pack, "tests", "programs", "real"))
    shutil.copytree(HERE, os.path.join(options.pack, "tests", "mutation"), ignore=shutil.ignore_patterns("__pycache__"))
    host_calls_library(os.path.join(options.pack, "tests", "mutation"))
    libraries = libraries_of(*(os.path.join(here, name) for name in ("bin/deadheat", "lib/libcudart.so.13", "lib/libcuda.so.1")))
    os.makedirs(os.path.join(options.pack, "libraries"))
    libraries = {path for path in libraries if not os.path.realpath(path).startswith(here)}
    for library in libraries | pack_interpreter(os.path.join(options.pack, "interpreter")):
        subprocess.run(["strip", "-o", os.path.join(options.pack, "libraries", os.path.basename(library)), library], check=True)
    archive = os.path.abspath(options.pack) + ".tar.xz"
    subprocess.run(["tar", "-C", options.pack, "-cJf", archive, "."], check=True, env=dict(os.environ, XZ_OPT="-3 -T0"))
    print("%s: %.1f MiB" % (archive, os.path.getsize(archive) / 2**20))
    return 0


def known_rows(path, doubtful=False):
    """{key: row} of a state file. Its last line may be cut, by whatever ended the run. Where the oracle said nothing of
    what was missed, it is asked again unless `doubtful`."""
    known = {}
    if path and os.path.exists(path):
        with open(path) as file:
            for line in file:
                try:
                    row = json.loads(line)
                    if row["outcome"] != "missed" or row["conflicts"] is not None:
                        known[row["key"]] = row
                    elif doubtful:
                        known.setdefault(row["key"], row)
                except (ValueError, KeyError):
                    pass
    return known


def digest_of(*files):
    found = hashlib.sha256()
    for name in files:
        with open(name, "rb") as file:
            found.update(file.read())
    return found.hexdigest()[:16]


def finished_in(path, known):
    """{program: (its digest, keys of its mutants)} of those whose mutants have all been tried, as a state file has it."""
    digests, jobs = {}, {}
    for line in open(path) if path and os.path.exists(path) else ():
        if line.startswith('{"prepared"') and line.endswith("}\n"):
            entry = json.loads(line)
            digests[entry["prepared"]], jobs[entry["prepared"]] = entry.get("digest"), entry["jobs"]
    keys = collections.defaultdict(list)
    for key, row in known.items():
        keys[row["program"]].append(key)
    return {name: (digest, keys[name]) for name, digest in digests.items() if digest and len(keys[name]) == jobs[name]}


def prepared_in(path):
    """{program: how many mutants it has} of a state file."""
    found = {}
    with open(path) as file:
        for line in file:
            if line.startswith('{"prepared"'):
                entry = json.loads(line)
                found[entry["prepared"]] = entry["jobs"]
    return found


def attempt_all(options, binaries, known):
    """Tries what `known` (rows by key) lacks. Returns (rows in order, how many of each program were not tried, names of programs that were
    left out)."""
    deadline = time.monotonic() + options.budget if options.budget else 0
    lock = threading.Lock()  # of the state file
    state = open(options.state, "a") if options.state else None
    if state and state.tell():
        state.write("\n")  # a line that was cut stays alone
    with tempfile.TemporaryDirectory() as work:
        host_calls = os.path.abspath(options.host_calls or os.path.join(HERE, "libhost_calls.so"))
        runner = Runner(options.deadheat, host_calls if os.path.exists(host_calls) else host_calls_library(work),
                        os.path.abspath(options.cache or os.path.join(work, "cache")), deadline)
        programs = [Program(binary, work, options) for binary in binaries]
        finished = {} if options.sample else finished_in(options.state, known)
        product = digest_of(runner.deadheat, *runner.library.split(" ")) if options.state else ""

        def prepare(program):
            program.digest = product + digest_of(program.binary)
            digest, keys = finished.get(program.name, ("", []))
            if state and digest == program.digest:
                program.jobs = [Job(program, "", "", None, key) for key in keys]
                program.prepared = True
                return []
            program.prepare(runner)
            if program.problem:
                print("left out: %s: %s" % (program.name, program.problem), flush=True)
                program.jobs = []
            if options.sample:
                program.jobs = program.jobs[::max(1, -(-len(program.jobs) * len(binaries) // options.sample))]
            if state and program.own_run != "cut":
                with lock:
                    whole = not program.problem and not options.sample
                    state.write(json.dumps({"prepared": program.name, "jobs": len(program.jobs),
                                            "digest": program.digest if whole else ""}) + "\n")
                    state.flush()
            program.prepared = program.own_run in ("skips", "cut") or not program.problem
            return [job for job in program.jobs if job.key not in known]

        def done(job, row):
            if row is None:
                return
            known[job.key] = row
            if options.verbose:
                print("%(outcome)-9s %(program)s %(mutation)s line %(line)d: %(instruction)s" % row, flush=True)
            if state:
                with lock:
                    state.write(json.dumps(row) + "\n")
                    state.flush()

        spent = collections.defaultdict(list)
        for row in known.values():
            spent[row["program"]].append(row["seconds"])
        mean = {name: 1 + sum(seconds) / len(seconds) for name, seconds in spent.items()}
        cost = (lambda job: mean.get(job.program.name, 1 + job.program.seconds)) if options.fastest_first else None
        slices.run(options.jobs, programs, prepare, lambda job: job.program.attempt(runner, job), done, cost)
        jobs = [job for program in programs for job in program.jobs]
    if state:
        state.close()
    not_tried = collections.Counter(job.program.name for job in jobs if job.key not in known)
    not_tried.update(program.name for program in programs if program.own_run == "cut")  # how many is not known
    left_out = [program.name for program in programs if not program.prepared]
    if not runner.host_calls:
        left_out.append("the host's calls")
    return [known[job.key] for job in jobs if job.key in known], not_tried, left_out


def starts(program):
    try:
        return subprocess.run([program, "--version"], stdout=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", default=os.path.join(ROOT, "build", "bin", "deadheat"))
    parser.add_argument("--binaries", default=os.path.join(ROOT, "build", "tests", "programs"), help="compiled programs")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="try N mutants, spread over the programs")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--state", metavar="FILE", help="keep what became of each mutant, and do not try it again")
    parser.add_argument("--budget", type=float, default=0, metavar="SECONDS", help="leave the rest untried after so long")
    parser.add_argument("--cache", metavar="FOLDER", default="", help="keep compiled kernels")
    parser.add_argument("--fastest-first", action="store_true", help="rather than of all programs in turn")
    parser.add_argument("--results", metavar="FILE", help="write the page")
    parser.add_argument("--page-only", action="store_true", help="of what the state file knows")
    parser.add_argument("--not-tried", type=int, default=0, metavar="N", help="with it: of a state file that does not say so")
    parser.add_argument("--every-instance", action="store_true", help="of templates too")
    parser.add_argument("--host-calls", metavar="FILE", default="", help="host_calls.cpp, compiled")
    parser.add_argument("--pack", metavar="FOLDER", help="gather what another machine needs")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    if options.pack:
        return pack(options)
    if not options.page_only and not starts(options.deadheat):
        sys.exit("%s does not start: nothing is tried" % options.deadheat)
    binaries = [os.path.abspath(path) for path in sorted(glob.glob(os.path.join(options.binaries, "*.fixed")))
                if not options.names or os.path.basename(path)[:-len(".fixed")] in options.names]
    if options.sample:  # fewer programs too, since each is run once as it is; the library's kernels take long to compile
        binaries = [path for path in binaries if not os.path.exists(
            os.path.join(LIBRARY, os.path.basename(path)[:-len(".fixed")] + ".cu"))]
        binaries = binaries[::max(1, len(binaries) // options.sample)]
    begin = time.monotonic()
    if options.page_only:
        rows, jobs = list(known_rows(options.state, True).values()), prepared_in(options.state)
        tried = collections.Counter(row["program"] for row in rows)
        lacking = {name: number - tried[name] for name, number in jobs.items() if number > tried[name]}
        not_tried = collections.Counter({"some": options.not_tried} if options.not_tried else lacking)
        left_out = []
        binaries = [os.path.join(options.binaries, name + ".fixed") for name in set(jobs) | {row["program"] for row in rows}]
    else:
        rows, not_tried, left_out = attempt_all(options, binaries, known_rows(options.state))
    idle = explain(rows)
    if options.sample or options.names or not_tried or left_out:
        idle = []
    for row in rows:
        if row["outcome"] == "missed":
            print("missed: %(program)s %(mutation)s line %(line)d (%(kind)s %(ptx_line)d): %(instruction)s -> '%(new)s' "
                  "(run %(run)s)" % row + ("" if row["conflicts"] else ", or unchanged: the oracle says nothing"))
        elif row["kind"] == "host" and row["outcome"] == "reported" and row["conflicts"] == 0:
            print("only deadheat sees: %(program)s %(mutation)s call %(line)d: %(instruction)s" % row)
    if left_out:
        print("left out in all: %d: %s" % (len(left_out), ", ".join(left_out)))
    for entry in idle:
        print("idle explanation: %s %s %s %s" % entry[:4])
    counts = collections.Counter(row["outcome"] for row in rows)
    share = results_page.share(rows)
    print("%d mutants of %d programs in %.0f s: %d reported, %d hang, %d missed (%.1f %% noticed), %d unchanged, "
          "%d stillborn, %d not tried" % (
              len(rows), len(binaries), time.monotonic() - begin, counts["reported"], counts["hangs"], counts["missed"],
              100 * share, counts["unchanged"], counts["stillborn"], sum(not_tried.values())))
    if options.results:
        with open(options.results, "w") as file:
            names = [os.path.basename(path)[:-len(".fixed")] for path in binaries]
            file.write(results_page.page(rows, not_tried, names))
    if not_tried:
        return 3
    return 0 if rows and share >= LEAST and not idle and not left_out else 1


if __name__ == "__main__":
    sys.exit(main())
