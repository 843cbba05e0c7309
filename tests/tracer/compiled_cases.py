"""Machine code that the job's process made itself (compiled_job.cpp): what it was made of is what is recorded."""
import os
import shutil
import subprocess

from assembler_cases import FAKE
from tracer_case import options, over_embedded


def compiled(case, how, **variables):
    """The races of the job's kernel, by their lines; None where the driver refused the machine code."""
    shutil.rmtree(case.trace, ignore_errors=True)
    done = case.device(how, options.nvrtc, options.nvjitlink, options.nvrtc_user, job="compiled_job", variables=variables)
    assert (done.returncode, done.stderr) == (0, ""), (done.returncode, done.stderr)
    if "not loaded" in done.stdout:
        return None
    return [(race["level"], os.path.basename(race["first"]["file"]), race["first"]["line"], race["second"]["line"])
            for race in case.analysis()["races"]]


def needs_compilers(test):
    test.needs_compilers = True
    return over_embedded(test)


FOUND = [("shared", "turned.cu", 3, 4)]


@needs_compilers
def compiled_by_nvrtc(case):
    for how in ("looked_up", "other", "default", "default_global", "linked", "table", "global"):
        assert compiled(case, how) == FOUND, how


@needs_compilers
def linked_by_nvjitlink(case):
    for how in ("jit_link", "jit_link_code", "jit_link_lto"):
        assert compiled(case, how) == FOUND, how


@needs_compilers
def linked_by_the_driver(case):
    """And not where a part of it is unknown."""
    variables = {"EMBEDDED_LINKER": "machine code", "DEADHEAT_PTXAS": FAKE}
    assert compiled(case, "driver", **variables) == FOUND
    assert compiled(case, "library", **variables) is None


@needs_compilers
def told_to_nvcc(case):
    """What nvcc makes holds PTX of what it is made for; and it makes all that it makes alone."""
    source, made = os.path.join(case.work, "a.cu"), os.path.join(case.work, "a")
    with open(source, "w") as file:
        file.write("__global__ void k(int* a) { a[threadIdx.x] = 1; }\n")
    for flags, ptx in (("-fatbin -gencode arch=compute_90a,code=sm_90a", True), ("-cubin -arch=sm_90a", False),
                       ("-c -rdc=true -gencode=arch=compute_80,code=sm_80", True), ("-dc -arch=sm_90 -dlto", None)):
        done = subprocess.run([options.nvcc, *flags.split(), source, "-o", made], text=True, capture_output=True,
                              env=dict(os.environ, LD_PRELOAD=os.path.abspath(options.tracer)), timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (flags, done)
        with open(made, "rb") as file:
            # An entry of a fat binary begins with its kind, 1 for PTX, and version (tracer/ptx/fatbin.h).
            assert ptx is None or (b"\x01\x00\x01\x01" in file.read()) == ptx, flags


def exports_only_what_it_means(case):
    """No symbol of another library is taken over by accident: of libstdc++'s, say, which is part of the library."""
    symbols = subprocess.run(["nm", "-D", "--defined-only", options.tracer], text=True, capture_output=True, check=True)
    names = {line.split()[2] for line in symbols.stdout.splitlines() if line.split()[1] != "A"}
    nvrtc = {"%s@libnvrtc.so.%d" % (name, major) for name in ("nvrtcCompileProgram", "nvrtcGetCUBIN")
             for major in (12, 13)}
    assert names == nvrtc | {"InitializeInjection", "InitializeInjectionNvtx2", "_exit", "_Exit", "abort", "__assert_fail",
                             "dlsym", "deadheat_layers", "deadheat_detach",
                             "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"}, names
    needed = subprocess.run(["readelf", "-d", options.tracer], text=True, capture_output=True, check=True)
    libraries = {line.split("[")[1].rstrip("]") for line in needed.stdout.splitlines() if "(NEEDED)" in line}
    assert libraries <= {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}, libraries


def told_to_compiler_caches(case):
    """A cache that runs nvcc, as ccache does, neither keeps nor brings what it makes here."""
    for name, expected in (("nvcc", "1\n"), ("gcc", "\n")):
        path = os.path.join(case.work, name)
        with open(path, "w") as file:
            file.write("echo $CCACHE_DISABLE\n")
        environment = {key: value for key, value in os.environ.items() if key != "CCACHE_DISABLE"}
        done = subprocess.run(["sh", path, "-c", "a.cu"], text=True, capture_output=True, timeout=60,
                              env=dict(environment, LD_PRELOAD=os.path.abspath(options.tracer)))
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, ""), (name, done)


cases = [exports_only_what_it_means, compiled_by_nvrtc, linked_by_nvjitlink, linked_by_the_driver, told_to_nvcc,
         told_to_compiler_caches]
