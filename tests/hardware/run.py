#!/usr/bin/env python3
"""Replays witnesses with `--device gpu` where there is no GPU: the driver is embedded_driver.cpp.

    run.py --deadheat bin/deadheat --driver lib/libdeadheat_test_driver.so --binaries DIR --work DIR [--ptxas PTXAS]

DIR holds NAME.racy of tests/programs. Each program of CASES is checked, and its first witness replayed. Prints a line
for every case that fails, and `N passed, N failed`. Exit status: 0 none failed, 1 otherwise.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys

RUNS = 2
SHOWN, SAME, BEYOND = 1, 0, 2  # exit status: outputs differ, agree, out of reach

# Program, exit status, means, whose bits the second order gives ("b": those of the witness; None: memory that was never
# written shows through, and differs between devices).
CASES = [
    ("global_bytes", SHOWN, "turnstiles", "b"),
    ("global_sum", SHOWN, "turnstiles", None),
    ("global_neighbour_block", SHOWN, "turnstiles", "b"),
    ("shared_index_overlap", SHOWN, "turnstiles", "b"),
    ("shared_async_wait", SHOWN, "turnstiles", None),
    ("shared_async_stages", SHOWN, "turnstiles", None),
    ("stream_two_kernels", SHOWN, "gates", None),
    ("stream_copy_overlap", SHOWN, "gates", "b"),
    ("stream_graph_edge", SHOWN, "gates", None),
    ("stream_while", SHOWN, "gates", None),
    ("stream_if_else", SHOWN, "gates", None),
    # The embedded device begins a dependent launch late, when nothing of the one before it can run; a GPU does not.
    ("stream_dependent_launch", SAME, "delays", None),
    ("stream_symbol", SHOWN, "gates", None),
    ("stream_free_in_use", SHOWN, "gates", None),
    ("global_bulk_reduce", SAME, "delays", None),
    ("global_lock", BEYOND, None, None),
    ("shared_syncwarp_mask", BEYOND, None, None),
]


class Failed(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failed(what)


def replay(options, witness, *more, environment=None, driver=None):
    command = [options.deadheat, "replay", "--device", "gpu", "--driver", driver or options.driver, "--runs", str(RUNS),
               "--json", "-", *more, witness]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **(environment or {})})


def witness_of(options, name):
    directory = os.path.join(options.work, name)
    if not os.path.isdir(directory):
        os.makedirs(directory)
        subprocess.run([options.deadheat, "check", "-o", directory + "/trace", "--witness-dir", directory, "--log-file",
                        directory + "/log", "--", os.path.join(options.binaries, name + ".racy")],
                       capture_output=True, timeout=120, cwd=directory)
    witnesses = sorted(glob.glob(directory + "/*.witness"))
    expect(witnesses, "no witness was made")
    return witnesses[0]


def one(options, name, status, means, other):
    done = replay(options, witness_of(options, name), environment={"DEADHEAT_TEST_DRIVER_KEEP": options.kept})
    expect(done.returncode == status, "exit status %d, not %d: %s" % (done.returncode, status, done.stderr.strip()))
    report = json.loads(done.stdout)["hardware"][0]
    if status == BEYOND:
        expect(report["out_of_reach"], "it is not said why the witness is out of reach")
        return
    expect(report["means"] == means, "means %s, not %s" % (report["means"], means))
    expect(report["shown"] == (status == SHOWN), "shown: %s" % report["shown"])
    orders = {order["order"]: order for order in report["orders"]}
    first, second = orders["first-then-second"], orders["second-then-first"]
    expect(first["runs"] == RUNS and second["runs"] == RUNS, "runs %d, %d" % (first["runs"], second["runs"]))
    expect(first["had_first_then_second"] == RUNS, "the first order was had %d times" % first["had_first_then_second"])
    if status == SAME:
        expect(second["gave_up"] == RUNS and report["why_not"], "no wait gave up, or why is not said")
        return
    expect(second["had_second_then_first"] == RUNS, "the second order was had %d times" % second["had_second_then_first"])
    expect(first["gave_up"] == 0 and second["gave_up"] == 0, "a wait gave up")
    expect(report["differences"], "no differences")
    digests = [{output["digest"] for output in order["outputs"]} for order in (first, second)]
    expect(not digests[0] & digests[1], "both orders share outputs")
    if other == "b":
        likes = [{output["like"] for output in order["outputs"]} for order in (first, second)]
        expect(likes == [{"a"}, {"b"}], "outputs like %s, not the witness's" % likes)


def ends_badly(options):
    """A worker that hangs, and one that dies: counted, and the command ends."""
    witness = witness_of(options, "global_bytes")
    done = replay(options, witness, "--run-seconds", "0.3", environment={"DEADHEAT_TEST_DRIVER_ENDS": "die"})
    report = json.loads(done.stdout)["hardware"][0]
    expect(done.returncode == SAME and not report["shown"], "a worker that dies: status %d" % done.returncode)
    expect("died" in report["orders"][0]["outputs"][0]["ending"], "it is not said that the worker died")


def refusals(options):
    witness = witness_of(options, "global_bytes")
    for driver, said in (("/nowhere/libcuda.so.1", "no GPU driver here"), ("libc.so.6", "the GPU driver has no cuInit")):
        done = replay(options, witness, driver=driver)
        lines = done.stderr.strip().splitlines()
        expect(done.returncode == 2 and len(lines) == 1 and said in lines[0], "driver %s: %s" % (driver, lines))
    for arguments, said in ((["--runs", "0", witness], "1 to 10000"), ([options.work], "directory"), ([], "nothing to"),
                            ([os.path.abspath(__file__)], "not a witness")):
        done = subprocess.run([options.deadheat, "replay", "--device", "gpu", "--driver", options.driver, *arguments],
                              capture_output=True, text=True, timeout=60)
        expect(done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1,
               "%s: %s" % (arguments, done.stderr))


def ptxas(options):
    """What was loaded is PTX for NVIDIA's own assembler too."""
    files = glob.glob(options.kept + "/*.ptx")
    rewritten = 0
    for file in files:
        with open(file) as text:
            rewritten += "%dt_" in text.read()
        done = subprocess.run([options.ptxas, "-arch=sm_90", "-o", "/dev/null", file], capture_output=True, text=True,
                              timeout=60)
        expect(done.returncode == 0, "%s: %s" % (file, done.stderr[:300]))
    expect(rewritten >= 5, "only %d modules with turnstiles" % rewritten)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadheat", required=True)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--ptxas")
    options = parser.parse_args()
    for name in ("deadheat", "driver", "binaries", "work"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    shutil.rmtree(options.work, ignore_errors=True)
    options.kept = os.path.join(options.work, "ptx")
    os.makedirs(options.kept)
    cases = [(case[0], lambda case=case: one(options, *case)) for case in CASES]
    cases += [("workers that end badly", lambda: ends_badly(options)), ("refusals", lambda: refusals(options))]
    if options.ptxas:
        cases.append(("ptxas", lambda: ptxas(options)))
    passed = failed = 0
    for name, run in cases:
        try:
            run()
            passed += 1
        except (Failed, json.JSONDecodeError, subprocess.TimeoutExpired, KeyError) as problem:
            failed += 1
            print("FAIL %s: %s" % (name, problem))
    print("%d passed, %d failed" % (passed, failed))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
