#!/usr/bin/env python3
"""Takes synchronization out of right programs, one instruction at a time, and counts how often deadheat notices.

    mutate.py --deadheat build/bin/deadheat --binaries build/tests/programs [--sample N] [--json FILE] [NAME…]

For every race-free program (the fixed twins, and those of tests/programs/real) each barrier, fence and wait of its PTX
is dropped (a wait for an mbarrier's phase finds it complete at once), each scope narrowed to the block, each acquire and
release made relaxed, in turn. The embedded device loads
the changed PTX in place of the program's own (DEADHEAT_OPTIONS, ptx=DIR), deadheat records and analyzes the run.

A mutant is *reported* when deadheat finds a race or another error, or the run no longer ends (a barrier that somebody still waits at).
One that is not reported either does not change the relation on the recorded accesses, and explained.txt says why, or
is *missed*. A line of explained.txt is PROGRAM, MUTATION, source line and a part of the PTX instruction, then the reason:

    shared_reduce  drop 17 bar.sync  : the last round's barrier; nothing follows it

Exit status: 0 when at least 90 of 100 mutants that are not explained are reported and no explanation is idle,
1 otherwise. --sample N takes N mutants, the same ones every time: what CI runs.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST = 0.9  # of the mutants that count must be reported
TIME_LIMIT = 20  # seconds a run; a mutant that is still at it hangs

# line from 0, of the PTX; source: line of the program, from .loc; new None: the line goes
Mutation = collections.namedtuple("Mutation", "what line source old new")


def opcode_of(text):
    """The opcode of a line that is one instruction, without its predicate; nothing otherwise."""
    match = re.match(r"\s*(?:@!?%?\w+\s+)?([a-z][\w:.]*)\b[^;]*;\s*$", text)
    return match.group(1) if match else ""


def drop_barrier(opcode):
    plain = re.match(r"(bar|barrier)(\.cta)?\.(sync|arrive)|bar\.warp\.sync|barrier\.cluster", opcode)
    return None if plain else ""


# The rules: name, and opcode → new opcode; None drops the instruction, "" leaves it.
ORDERED = r"(ld|st|atom|red|mbarrier)\."


def narrow(opcode):
    if opcode.startswith("membar."):
        return "membar.cta" if opcode in ("membar.gl", "membar.sys") else ""
    if re.match(r"fence\.(sc|acq_rel|acquire|release)", opcode) or re.match(ORDERED, opcode):
        if re.search(r"\.(gpu|sys|cluster)(?=\.|$)", opcode):
            return re.sub(r"\.(gpu|sys|cluster)(?=\.|$)", ".cta", opcode)
        if re.match(r"(atom|red)\.", opcode) and ".cta" not in opcode and ".shared" not in opcode:
            return re.sub(r"^(atom|red)", r"\1.relaxed.cta", opcode)  # without them it is relaxed at device scope
    return ""


def weaken(opcode):
    if re.match(ORDERED, opcode) and re.search(r"\.(acquire|release|acq_rel)(?=\.|$)", opcode):
        return re.sub(r"\.(acquire|release|acq_rel)(?=\.|$)", ".relaxed", opcode)
    return ""


def drop_fence(opcode):
    return None if re.match(r"membar\.|fence\.(sc|acq_rel|acquire|release|proxy|mbarrier_init)", opcode) else ""


def drop_wait(opcode):
    return None if re.match(r"cp\.async\.(wait_|bulk\.wait_)|griddepcontrol\.wait", opcode) else ""


RULES = [("drop", drop_barrier), ("drop", drop_fence), ("drop", drop_wait), ("narrow", narrow), ("weaken", weaken)]


def no_phase_wait(line):
    """A line that waits for an mbarrier's phase, as if that were complete; nothing for other lines."""
    wait = re.compile(r"mbarrier\.(?:try_wait|test_wait)[\w.:]*\s+(%?\w+)\s*,[^;]*;")
    return wait.sub(r"setp.eq.u32 \1, 0, 0;", line) if wait.search(line) else ""


def mutations_of(text):
    found, source = [], 0
    for number, line in enumerate(text.split("\n")):
        if match := re.match(r"\s*\.loc\s+\d+\s+(\d+)\s+\d+(?:.*inlined_at\s+\d+\s+(\d+))?", line):
            source = int(match.group(2) or match.group(1))
        if new := no_phase_wait(line):
            found.append(Mutation("drop", number, source, line, new))
        opcode = opcode_of(line)
        if not opcode:
            continue
        for what, rule in RULES:
            new = rule(opcode)
            if new != "":
                found.append(Mutation(what, number, source, line, None if new is None else line.replace(opcode, new, 1)))
    return found


def apply(text, mutation):
    lines = text.split("\n")
    assert lines[mutation.line] == mutation.old
    lines[mutation.line] = "" if mutation.new is None else mutation.new
    return "\n".join(lines)


class Runner:
    def __init__(self, deadheat):
        self.deadheat = os.path.abspath(deadheat)
        self.library = os.path.join(os.path.dirname(self.deadheat), "..", "lib", "libcudart.so.13")

    def run(self, binary, directory):
        """Records and analyzes; PTX is in directory/ptx. ("ends", races) or ("hangs", 0) or ("fails", 0)."""
        trace = os.path.join(directory, "trace")
        shutil.rmtree(trace, ignore_errors=True)
        environment = dict(os.environ, LD_PRELOAD=self.library,
                           DEADHEAT_OPTIONS="output=%s:ptx=%s" % (trace, os.path.join(directory, "ptx")))
        status, said = self.wait([binary], directory, environment)
        if not os.path.isdir(trace):
            return "fails", 0
        report = os.path.join(directory, "report.json")
        if os.path.exists(report):
            os.remove(report)
        analyzed, _ = self.wait([self.deadheat, "analyze", "--json", report, trace], directory, dict(os.environ))
        if analyzed is None or not os.path.exists(report):
            return "fails", 0
        with open(report) as file:
            content = json.load(file)
        # Memory errors too: whoever does not wait at the end reads shared memory of a block that is gone.
        count = content["summary"]["races"] + len(content["sync_errors"]) + len(content["memory_errors"])
        if count:
            return "ends", count
        if status is None or b"the device hangs" in said:  # deadheat says where each thread waits
            return "hangs", 0
        return ("ends" if status == 0 else "fails"), 0

    @staticmethod
    def wait(command, directory, environment):
        """(exit status, None when it had to be stopped; standard error)"""
        process = subprocess.Popen(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        try:
            said = process.communicate(timeout=TIME_LIMIT)[1]
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[1]


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


def prepare(runner, binary, work):
    """(mutations by PTX file) of a program, after its own run was seen to be clean."""
    name = os.path.basename(binary)
    directory = os.path.join(work, name)
    os.makedirs(os.path.join(directory, "ptx"))
    how, races = runner.run(binary, directory)
    if (how, races) != ("ends", 0):
        return name, directory, None, "its own run %s with %d findings" % (how, races)
    found = []
    for file in sorted(glob.glob(os.path.join(directory, "ptx", "*.ptx"))):
        with open(file) as text:
            found += [(file, mutation) for mutation in mutations_of(text.read())]
    return name, directory, found, ""


def try_mutant(runner, binary, base, number, file, mutation):
    directory = os.path.join(base, str(number))
    shutil.copytree(os.path.join(base, "ptx"), os.path.join(directory, "ptx"))
    target = os.path.join(directory, "ptx", os.path.basename(file))
    with open(target) as text:
        changed = apply(text.read(), mutation)
    with open(target, "w") as text:
        text.write(changed)
    outcome = runner.run(binary, directory)
    shutil.rmtree(directory, ignore_errors=True)
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True)
    parser.add_argument("--binaries", required=True, help="compiled programs")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="try N mutants, spread over the programs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", metavar="FILE", help="write every mutant and what became of it")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    runner = Runner(options.deadheat)
    binaries = [os.path.abspath(path) for path in sorted(glob.glob(os.path.join(options.binaries, "*.fixed")))
                if not options.names or os.path.basename(path)[:-len(".fixed")] in options.names]
    if options.sample:  # fewer programs too, since each is run once as it is; the library's kernels take long to compile
        binaries = [path for path in binaries if not os.path.basename(path).startswith(("cub_", "stream_", "order_"))]
        binaries = binaries[::max(1, len(binaries) // options.sample)]
    begin = time.monotonic()
    explained, used = explanations(), set()
    counts, rows, failures = collections.Counter(), [], []
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = []
        for binary, (name, base, found, problem) in zip(
                binaries, pool.map(lambda path: prepare(runner, path, work), binaries)):
            if found is None:
                print("left out: %s: %s" % (name, problem))
                continue
            if options.sample:
                found = found[::max(1, -(-len(found) * len(binaries) // options.sample))]
            for number, (file, mutation) in enumerate(found):
                jobs.append((name[:-len(".fixed")], mutation,
                             pool.submit(try_mutant, runner, binary, base, number, file, mutation)))
        for name, mutation, future in jobs:
            how, races = future.result()
            reason = ""
            if races:
                outcome = "reported"
            elif how == "hangs":
                outcome = "hangs"
            else:
                outcome = "missed"
                for entry in explained:
                    program, what, source, part, why = entry
                    if (program, what, int(source)) == (name, mutation.what, mutation.source) and part in mutation.old:
                        outcome, reason = "explained", why
                        used.add(entry)
            counts[outcome] += 1
            rows.append({"program": name, "mutation": mutation.what, "line": mutation.source, "ptx_line": mutation.line + 1,
                         "instruction": mutation.old.strip(), "new": (mutation.new or "").strip(), "outcome": outcome,
                         "races": races, "run": how, "reason": reason})
            if outcome == "missed":
                failures.append(rows[-1])
    for row in failures:
        print("missed: %(program)s %(mutation)s line %(line)d (of the PTX %(ptx_line)d): %(instruction)s -> '%(new)s' (run %(run)s)" % row)
    noticed = counts["reported"] + counts["hangs"]
    counted = noticed + counts["missed"]
    share = noticed / counted if counted else 0
    idle = [] if options.sample or options.names else [entry for entry in explained if entry not in used]
    for entry in idle:
        print("idle explanation: %s %s %s %s" % entry[:4])
    print("%d mutants of %d programs in %.0f s: %d reported, %d hang, %d missed (%.1f %% noticed), %d explained" % (
        len(rows), len(binaries), time.monotonic() - begin, counts["reported"], counts["hangs"], counts["missed"],
        100 * share, counts["explained"]))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 0 if counted and share >= LEAST and not idle else 1


if __name__ == "__main__":
    sys.exit(main())
