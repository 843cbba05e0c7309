#!/usr/bin/env python3
"""`deadheat check` on python_kernels.py: what numba and cuda.core make of a reduction without its barrier races, at its
line, and harms; with the barrier there is nothing. Exit status 77: the packages are not there."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def line_of(file, marker):
    with open(HERE / file) as text:
        return next(number for number, line in enumerate(text, 1) if re.search(r"[#/]\s*@%s\s*$" % marker, line))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deadheat", required=True)
    parser.add_argument("--python", required=True, help="one that has the packages")
    options = parser.parse_args()
    if subprocess.run([options.python, "-c", "import numba.cuda, cuda.core"], stderr=subprocess.DEVNULL,
                      check=False).returncode if os.path.exists(options.python) else True:
        print("no numba-cuda and cuda.core for", options.python)
        return 77
    failed = 0
    places = {"numba": ("python_kernels.py", line_of("python_kernels.py", "numba")),
              "core": ("shared_reduce.cu", line_of("shared_reduce.cu", "A"))}
    for maker, place in places.items():
        answers = {}
        for twin in ("racy", "fixed"):
            with tempfile.TemporaryDirectory() as scratch:
                report = os.path.join(scratch, "report.json")
                # No GPU is asked for where there is one.
                command = [os.path.abspath(options.deadheat), "check", "--device", "embedded", "--json", report, "-o", scratch + "/trace", "--",
                           options.python, str(HERE / "python_kernels.py"), maker, twin]
                done = subprocess.run(command, text=True, capture_output=True, cwd=scratch, timeout=240, check=False)
                found = json.load(open(report)) if os.path.exists(report) else {"races": [], "summary": {}}
            answers[twin] = done.stdout
            seen = {(race["level"], race["verdict"], os.path.basename(race[side]["file"] or ""), race[side]["line"])
                    for race in found["races"] for side in ("first", "second")}
            expected = {("shared", "harmful", *place)} if twin == "racy" else set()
            whole = found["summary"].get("complete") and found.get("program_status") == 0
            if seen != expected or done.returncode != len(expected) or not whole:
                failed += 1
                print("%s %s: status %d, %s, complete %s\n%s" % (maker, twin, done.returncode, sorted(seen), whole, done.stderr))
        print(maker, answers)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
