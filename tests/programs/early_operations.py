#!/usr/bin/env python3
"""What is reported hangs on the order of operations, not on when the log says that they were performed.

    early_operations.py --deadheat build/bin/deadheat --rewrite build/bin/early_operations --binaries build/tests/programs
                        [--jobs N] [NAME…]

Records every twin of several streams, writes its trace again with each operation performed as soon as it was submitted,
and analyzes both: they must have the same races. NAME: beginnings of programs' names; none: stream_.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

LEFT_OUT = {"stream_host_told.fixed": "a function waits for what the host submits behind it"}


def races_of(options, trace, work):
    done = subprocess.run([options.deadheat, "analyze", trace, "--json", "-"], cwd=work, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=150)
    report = json.loads(done.stdout)

    def side(of):
        return "%s at %s:%s" % (of["op"], os.path.basename(of["file"]) if of["file"] else of["kernel"], of["line"])
    return {(race["level"], race["class"], race["kind"], race["certainty"],
             *sorted((side(race["first"]), side(race["second"])))) for race in report["races"]}, report["summary"]["complete"]


def problems_of(options, binary):
    with tempfile.TemporaryDirectory() as work:
        recorded, rewritten = os.path.join(work, "recorded"), os.path.join(work, "rewritten")
        subprocess.run([options.deadheat, "record", "-o", recorded, "--", binary], cwd=work, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=150)
        done = subprocess.run([options.rewrite, recorded, rewritten], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            return [done.stderr.strip()]
        blobs = os.path.join(recorded, "blobs")
        if os.path.isdir(blobs):
            shutil.copytree(blobs, os.path.join(rewritten, "blobs"), dirs_exist_ok=True)
        before, after = races_of(options, recorded, work), races_of(options, rewritten, work)
        return ["recorded, %s; rewritten, %s" % (before, after)] if before != after else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--deadheat", "--rewrite", "--binaries"):
        parser.add_argument(name, required=True, type=os.path.abspath)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", default=["stream_"])
    options = parser.parse_args()
    binaries = sorted(binary for name in options.names for twin in ("racy", "fixed")
                      for binary in glob.glob("%s/%s*.%s" % (options.binaries, name, twin))
                      if os.path.basename(binary) not in LEFT_OUT)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for binary, problems in zip(binaries, pool.map(lambda binary: problems_of(options, binary), binaries)):
            for problem in problems:
                print("FAIL %s: %s" % (os.path.basename(binary), problem))
            failed += bool(problems)
    print("%d of %d traces show the same races" % (len(binaries) - failed, len(binaries)))
    return 1 if failed or not binaries else 0


if __name__ == "__main__":
    sys.exit(main())
