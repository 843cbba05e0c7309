#!/usr/bin/env python3
"""Runs every fixed program on the embedded device: recorded, and with nobody watching with addresses checked, on one core
and with blocks spread over several, and not checked.

They run different code: a thread at a time, whole blocks region by region, blocks at the same time. All must end well
and print the same. Programs that the device refuses (exit status 3 of check.h) are counted apart. Racy programs, too,
do on several cores what they do on one.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile


def run(binary, runtime, settings):
    preload = "%s:%s" % (runtime, runtime.parent / "libcuda.so.1")  # for those that are linked with the driver
    environment = dict(os.environ, LD_PRELOAD=preload, DEADHEAT_OPTIONS=settings)
    done = subprocess.run([binary], env=environment, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runtime", required=True, type=pathlib.Path, help="libcudart.so.13 of the embedded device")
    parser.add_argument("--binaries", required=True, type=pathlib.Path)
    parser.add_argument("--part", type=int, default=0, help="which of --parts the programs are taken from")
    parser.add_argument("--parts", type=int, default=1)
    options = parser.parse_args()
    binaries = sorted(options.binaries.glob("*.fixed"))[options.part::options.parts]
    failed = refused = 0
    for binary in binaries:
        with tempfile.TemporaryDirectory() as scratch:
            ways = ("output=" + scratch + "/trace", "cores=1", "cores=3:spread-after=0", "check=0")
            recorded, checked, spread, unwatched = (run(binary, options.runtime, settings) for settings in ways)
        if all(way[0] == 3 for way in (recorded, checked, spread, unwatched)):
            refused += 1
        elif not recorded == checked == spread == unwatched or checked[0] != 0:
            failed += 1
            print(f"{binary.name}: recorded {recorded}, checked {checked}, spread {spread}, not checked {unwatched}")
    for binary in sorted(options.binaries.glob("*.racy"))[options.part::options.parts]:
        checked, spread = (run(binary, options.runtime, way) for way in ("cores=1", "cores=3:spread-after=0"))
        if checked != spread:
            failed += 1
            print(f"{binary.name}: on one core {checked}, spread {spread}")
    print(f"{len(binaries)} programs, {refused} refused, {failed} failed")
    sys.exit(1 if failed or refused == len(binaries) else 0)


if __name__ == "__main__":
    main()
