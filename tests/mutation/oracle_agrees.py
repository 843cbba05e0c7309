#!/usr/bin/env python3
"""Holds the analyzer against launch_oracle.py on recorded programs: both must name the same pairs of source lines.

    oracle_agrees.py --deadheat build/bin/deadheat --binaries build/tests/programs [-j N] [NAME…]

NAME is that of a binary, with its twin (shared_sum.racy); all of them but those that
look at the order of sums or at precision, and the corners, where none is named. Of the analyzer, data races between
accesses of kernels are looked at, of one launch or of several, those too that a suppression names. Exit status: 0 when they agree, on
some pairs at least, and the oracle says nothing of one program in five at most.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile

import launch_oracle

FOUND = 1  # exit status of analyze: there are findings
MOST_UNKNOWN = 5  # one of so many programs
CORNERS = ("launch", "idioms", "handover", "pipelines", "clusters", "locks", "storage", "synchronizers", "vectors",
           "dependents", "streams", "copies")


def lines_of_oracle(records, ptx):
    place = {}
    for line in records:
        if line.startswith("site "):
            word = line.split(" ", 2)
            place[word[1]] = line.split(" at ", 1)[1] if " at " in line else "?"
    pairs = launch_oracle.unordered_conflicts(records, 300, ptx=ptx)
    return {tuple(sorted((place[one], place[other]))) for sites in pairs.values() for one, other in sites}


def lines_of_analyzer(report):
    def place(side):  # innermost, as the oracle has it
        frame = (side.get("inlined") or [side])[0]
        return "%s:%d" % (frame["file"], frame["line"]) if frame.get("file") else "?"
    of_kernels = lambda race: all(side.get("launch") for side in (race["first"], race["second"]))
    return {tuple(sorted((place(race["first"]), place(race["second"])))) for race in report["races"]
            if race["class"] == "data" and of_kernels(race)}


def compare(deadheat, binary):
    """(what differs, as text; how many pairs of lines the oracle finds, or why it says nothing)"""
    name = os.path.basename(binary)
    with tempfile.TemporaryDirectory() as directory:
        trace, report = os.path.join(directory, "trace"), os.path.join(directory, "report.json")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, "check": False}
        ptx = os.path.join(directory, "ptx")
        os.mkdir(ptx)
        libraries = os.path.join(os.path.dirname(os.path.abspath(deadheat)), "..", "lib")
        preload = " ".join(os.path.join(libraries, name) for name in ("libcudart.so.13", "libcuda.so.1"))
        environment = dict(os.environ, LD_PRELOAD=preload, DEADHEAT_OPTIONS="output=%s:ptx=%s" % (trace, ptx))
        subprocess.run([binary], env=environment, **quiet)
        analyzed = subprocess.run([deadheat, "analyze", "--jobs", "1", "--json", report, trace], **quiet).returncode
        records = subprocess.run([deadheat, "info", "--records", trace], text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, check=False)
        if analyzed not in (0, FOUND) or records.returncode or not os.path.exists(report):
            return "%s: analyze ends with %d, info with %d\n" % (name, analyzed, records.returncode), 0
        with open(report) as file:
            found = lines_of_analyzer(json.load(file))
        try:
            expected = lines_of_oracle(records.stdout.split("\n"), ptx)
        except launch_oracle.Unknown as reason:
            return "", str(reason)
    text = ""
    for pairs, what in ((found - expected, "only the analyzer"), (expected - found, "only the oracle")):
        text += "".join("%s: %s: %s and %s\n" % (name, what, *pair) for pair in sorted(pairs))
    return text, len(expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth of them")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    paths = [path for twin in ("racy", "fixed") for path in glob.glob(os.path.join(options.binaries, "*." + twin))]
    paths += [os.path.join(options.binaries, "corners_" + name) for name in CORNERS]
    binaries = [path for path in paths if (os.path.basename(path) in options.names if options.names else
                                           os.path.basename(path).startswith(("shared_", "global_", "stream_", "corners_")))]
    binaries = [os.path.abspath(path) for path in sorted(binaries)][::options.every]
    differ = unknown = pairs = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for binary, (text, found) in zip(binaries, pool.map(lambda path: compare(options.deadheat, path), binaries)):
            differ += bool(text)
            print(text, end="")
            if isinstance(found, str):
                unknown += 1
                print("%s: the oracle says nothing: %s" % (os.path.basename(binary), found))
            else:
                pairs += found
    print("%d programs: %d differ, the oracle says nothing of %d; %d pairs of lines in all" % (
        len(binaries), differ, unknown, pairs))
    return 1 if differ or not pairs or MOST_UNKNOWN * unknown > len(binaries) else 0


if __name__ == "__main__":
    sys.exit(main())
