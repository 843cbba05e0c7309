#!/usr/bin/env python3
"""`deadheat check` on python_kernels.py: what numba, cuda.core, Taichi and Triton make of reductions and exchanges, without
their barrier, atomic operation or second array, races, at its line (Taichi's kernels have none), and harms; with it there is
nothing. What packages are not there for is left out. Exit status 77: none are there."""
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


def has(python, modules):
    """Does that Python have them? Triton compiles a module of its own, with a C compiler and Python's headers."""
    check = "import os, shutil, sysconfig, " + modules
    if "triton" in modules:
        check += "; assert shutil.which('gcc') and os.path.exists(sysconfig.get_path('include') + '/Python.h')"
    return os.path.exists(python) and subprocess.run([python, "-c", check], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                                     check=False).returncode == 0


def check(deadheat, python, maker, twin, place):
    """What is wrong with the run, as text."""
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "report.json")
        command = [os.path.abspath(deadheat), "check", "--device", "embedded", "--json", report, "-o", scratch + "/trace", "--",
                   python, str(HERE / "python_kernels.py"), maker, twin]
        environment = dict(os.environ, TRITON_CACHE_DIR=scratch + "/triton", TRITON_DEFAULT_FP_FUSION="1")
        done = subprocess.run(command, text=True, capture_output=True, cwd=scratch, env=environment, timeout=240, check=False)
        found = json.load(open(report)) if os.path.exists(report) else {"races": [], "summary": {}}
    print(maker, twin, done.stdout.strip())
    races = found["races"]
    counted = [race for race in races if not race.get("suppressed")]
    at = {(os.path.basename(race[side]["file"] or ""), race[side]["line"]) for race in counted for side in ("first", "second")}
    right = all((race["level"], race["verdict"]) == (place[0], "harmful") for race in counted)
    right &= place[1:] in at if twin == "racy" else not counted
    right &= done.returncode == (twin == "racy") and found.get("program_status") == 0
    right &= found["summary"].get("complete") is True
    return "" if right else "%s %s: status %d, %s\n%s" % (maker, twin, done.returncode, sorted(at), done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deadheat", required=True)
    parser.add_argument("--python", required=True, help="one that has numba, cuda.core and Taichi")
    parser.add_argument("--triton", required=True, help="one that has Triton")
    options = parser.parse_args()
    makers = {"numba": (options.python, "numba.cuda", ("shared", "python_kernels.py", line_of("python_kernels.py", "numba"))),
              "grid": (options.python, "numba.cuda", ("global", "python_kernels.py", line_of("python_kernels.py", "grid"))),
              "core": (options.python, "cuda.core", ("shared", "shared_reduce.cu", line_of("shared_reduce.cu", "A"))),
              "taichi": (options.python, "taichi", ("global", "", None)),
              "triton": (options.triton, "triton", ("global", "python_kernels.py", line_of("python_kernels.py", "triton")))}
    makers = {maker: how for maker, how in makers.items() if has(*how[:2]) or print("left out, packages are missing:", maker)}
    wrong = [check(options.deadheat, python, maker, twin, place)
             for maker, (python, _, place) in makers.items() for twin in ("racy", "fixed")]
    print("".join(wrong), end="")
    return 77 if not makers else 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
