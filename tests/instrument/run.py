#!/usr/bin/env python3
"""Records programs on the embedded device and compares both accounts of their instrumented runs (compare_logs.cpp).

    run.py --deadheat bin/deadheat --compare bin/compare_logs --work DIR [--settles] [--left-out N] BINARY|MODULE.ptx…

Every program is compared twice: with what its buffers hold given at once, and in slices, as if they were drained while it
runs. With --settles some of it all must have been put in order before its end. Modules are only instrumented, with nothing
left out. Where ptxas is at hand, every instrumented module must assemble; where libnvJitLink is, which is the driver's
assembler, instrumented modules that are given as such must link.

Prints compare_logs' line a program and `N passed, N failed`. A program that the embedded device refuses, or whose log is
larger than the rings of compare_logs, is left out; at most N may be. Exit status: 0 none failed and some passed, 1 otherwise.
"""
import argparse
import ctypes
import os
import re
import shutil
import subprocess
import sys

SLICES = 5


def assembler():
    found = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    return found if os.access(found, os.X_OK) else None


def target_of(path):
    with open(path) as module:
        for line in module:
            if line.startswith(".target"):  # sm_90a assembles for nothing else
                wanted = line.split()[1].rstrip(",")
                return wanted if int(re.search(r"\d+", wanted).group()) > 90 or wanted.endswith("a") else "sm_90"
    return "sm_90"


def assemble(ptxas, folder):
    """What ptxas says against a module in the folder; None: they all assemble."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        done = subprocess.run([ptxas, "-arch=" + target_of(path), "-O1", path, "-o", os.devnull], capture_output=True,
                              text=True)
        if done.returncode:
            return (done.stderr or done.stdout).strip().splitlines()[0]
    return None


def link(library, path):
    """Links the module as cuLinkAddData and cuLinkComplete do; raises OSError where there is no such library. Exits with 1
    where it does not link; the library may end the process, too."""
    jit = ctypes.CDLL(library)
    handle = ctypes.c_void_p()
    options = (ctypes.c_char_p * 1)(("-arch=" + target_of(path)).encode())
    with open(path, "rb") as module:
        text = module.read() + b"\0"
    ptx = 2  # NVJITLINK_INPUT_PTX
    sys.exit(bool(jit.nvJitLinkCreate(ctypes.byref(handle), ctypes.c_uint32(1), options) or
                  jit.nvJitLinkAddData(handle, ptx, text, ctypes.c_size_t(len(text)), b"module") or
                  jit.nvJitLinkComplete(handle)))


def refused_by_linker(ptxas, folder):
    """What the driver's assembler has against a module in the folder; None: nothing, or it is not at hand."""
    library = os.path.join(os.path.dirname(os.path.realpath(ptxas)), "..", "lib64", "libnvJitLink.so")
    if not os.path.exists(library):
        return None
    for name in sorted(os.listdir(folder)):
        done = subprocess.run([sys.executable, __file__, "--link", library, os.path.join(folder, name)])
        if done.returncode:
            return "%s does not link: status %d" % (name, done.returncode)
    return None


def compare(options, slices, folder, what):
    """compare_logs' line; instrumented modules go into the folder."""
    command = [options.compare, "--ptx", folder, "--slices", str(slices), what]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "FAIL %s: no result in two minutes" % what
    line = done.stdout.strip() or "FAIL %s: %s" % (what, done.stderr.strip() or "it says nothing")
    return line if line.startswith("FAIL") or not done.returncode else "FAIL %s: status %d" % (what, done.returncode)


def judge(options, ptxas, binary):
    """The line of a program or a module: PASS, FAIL or LEFT OUT."""
    trace = os.path.join(options.work, os.path.basename(binary))
    modules = trace + ".ptx"
    os.makedirs(modules)
    if binary.endswith(".ptx"):
        line = compare(options, 1, modules, binary)
    else:
        record = [options.deadheat, "record", "--device", "embedded", "-o", trace, "--", os.path.abspath(binary)]
        try:
            done = subprocess.run(record, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return "FAIL %s: it does not end in a minute" % binary
        if "not supported by the embedded device" in done.stderr:
            return "LEFT OUT %s: not supported by the embedded device" % binary
        line = compare(options, 1, modules, trace)
        if line.endswith("its log is larger than the rings"):
            return "LEFT OUT" + line[len("FAIL"):]
        if line.startswith("PASS"):
            line = compare(options, SLICES, modules, trace)
    refused = assemble(ptxas, modules) if line.startswith("PASS") and ptxas else None
    if binary.endswith(".ptx") and ptxas and not refused:
        refused = refused_by_linker(ptxas, modules)
    return "FAIL %s: %s" % (trace, refused) if refused else line


def main():
    if sys.argv[1:2] == ["--link"]:
        link(*sys.argv[2:])
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--deadheat", required=True)
    arguments.add_argument("--compare", required=True)
    arguments.add_argument("--work", required=True)
    arguments.add_argument("--settles", action="store_true", help="something must be put in order early")
    arguments.add_argument("--left-out", type=int, default=0, metavar="N", help="so many may be, at most")
    arguments.add_argument("binaries", nargs="+")
    options = arguments.parse_args()
    ptxas = assembler()
    lines = []
    for binary in options.binaries:
        shutil.rmtree(options.work, ignore_errors=True)
        os.makedirs(options.work)
        lines.append(judge(options, ptxas, binary))
        print(lines[-1], flush=True)
    shutil.rmtree(options.work, ignore_errors=True)
    settled = sum(int(match.group(1)) for match in re.finditer(r" (\d+) settled early$", "\n".join(lines), re.M))
    left_out = sum(line.startswith("LEFT OUT") for line in lines)
    failed = sum(line.startswith("FAIL") for line in lines)
    print("%d records settled early; %d left out, at most %d may be" % (settled, left_out, options.left_out))
    failed += (left_out > options.left_out) + (options.settles and not settled)
    passed = sum(line.startswith("PASS") for line in lines)
    print("%d passed, %d failed" % (passed, failed))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
