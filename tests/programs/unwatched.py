#!/usr/bin/env python3
"""Runs every fixed program on the embedded device with nobody watching, with addresses checked and without.

The two run different code: a thread at a time, and whole blocks region by region. Both must end well and print the same.
Programs that the device refuses (exit status 3 of check.h) are counted apart.
"""
import argparse
import os
import pathlib
import subprocess
import sys


def run(binary, runtime, check):
    environment = dict(os.environ, LD_PRELOAD=str(runtime), DEADHEAT_OPTIONS=f"check={check}")
    done = subprocess.run([binary], env=environment, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runtime", required=True, type=pathlib.Path, help="libcudart.so.13 of the embedded device")
    parser.add_argument("--binaries", required=True, type=pathlib.Path)
    options = parser.parse_args()
    binaries = sorted(options.binaries.glob("*.fixed"))
    failed = refused = 0
    for binary in binaries:
        checked, unwatched = (run(binary, options.runtime, check) for check in (1, 0))
        if checked[0] == 3 and unwatched[0] == 3:
            refused += 1
        elif checked != unwatched or checked[0] != 0:
            failed += 1
            print(f"{binary.name}: checked {checked}, not checked {unwatched}")
    print(f"{len(binaries)} programs, {refused} refused, {failed} failed")
    sys.exit(1 if failed or refused == len(binaries) else 0)


if __name__ == "__main__":
    main()
