#!/usr/bin/env python3
"""Kernels that Python makes, with numba or with cuda.core and NVRTC: python_kernels.py (numba|core) (racy|fixed).

Both are the tree reduction of shared_reduce.cu, with and without its barrier. numba's compiler and nvJitLink, and NVRTC,
give machine code alone to the driver."""
import os
import sys

import numpy

BLOCK = 128
INPUT = numpy.arange(BLOCK, dtype=numpy.int32) * 37 % 101 + 1


def with_numba(barrier):
    from numba import config, cuda
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

    @cuda.jit(lineinfo=True)
    def reduce_steps(values, out, barrier):
        shared = cuda.shared.array(BLOCK, "int32")
        t = cuda.threadIdx.x
        shared[t] = values[t]
        cuda.syncthreads()
        half = BLOCK // 2
        while half > 0:
            if t < half:
                shared[t] += shared[t + half]  # @numba
            if barrier:
                cuda.syncthreads()
            half //= 2
        if t == 0:
            out[0] = shared[0]

    out = cuda.to_device(numpy.zeros(1, numpy.int32))
    reduce_steps[1, BLOCK](cuda.to_device(INPUT), out, barrier)
    return int(out.copy_to_host()[0])


def with_core(barrier):
    from cuda.bindings import driver
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    def succeed(result):
        assert result[0] == driver.CUresult.CUDA_SUCCESS, result
        return result[1] if len(result) > 1 else None

    device = Device()
    device.set_current()
    stream = device.create_stream()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "shared_reduce.cu")) as file:
        text = file.read()
    source = text[text.index("constexpr"):text.index("int main")]
    source = "#line %d \"shared_reduce.cu\"\n" % (text[:text.index("constexpr")].count("\n") + 1) + source
    options = ProgramOptions(arch="sm_%s" % device.arch, lineinfo=True, define_macro=None if barrier else "RACY",
                             name="shared_reduce.cu")
    kernel = Program(source, "c++", options=options).compile("cubin", name_expressions=("reduce",)).get_kernel("reduce")
    values = numpy.resize(INPUT, 2 * BLOCK)
    given, out = succeed(driver.cuMemAlloc(values.nbytes)), succeed(driver.cuMemAlloc(8))
    succeed(driver.cuMemcpyHtoDAsync(given, values.ctypes.data, values.nbytes, stream.handle))
    launch(stream, LaunchConfig(grid=2, block=BLOCK), kernel, int(given), int(out))
    stream.sync()
    sums = numpy.zeros(2, numpy.int32)
    succeed(driver.cuMemcpyDtoH(sums.ctypes.data, out, sums.nbytes))
    return int(sums.sum())


print({"numba": with_numba, "core": with_core}[sys.argv[1]](sys.argv[2] == "fixed"))
