#!/usr/bin/env python3
"""Kernels that Python makes, with numba, with cuda.core and NVRTC, with Taichi or with Triton:
python_kernels.py (numba|grid|core|taichi|triton) (racy|fixed).

numba's and cuda.core's are the tree reduction of shared_reduce.cu, with and without its barrier; in "grid" it is numba's
barrier of all blocks, which CUDA's device runtime has, that is there or not; Taichi's adds to each element the one before
it, in place or not; Triton's adds up what programs find, by an atomic operation or without one. Machine code alone is given
to the driver, by numba's compiler and nvJitLink, by NVRTC, by ptxas; by Taichi, PTX. Triton runs here without PyTorch."""
import ctypes
import os
import sys

BLOCK = 128


def numbers():
    import numpy
    return numpy.arange(BLOCK, dtype=numpy.int32) * 37 % 101 + 1


def with_numba(barrier):
    import numpy
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
    reduce_steps[1, BLOCK](cuda.to_device(numbers()), out, barrier)
    return int(out.copy_to_host()[0])


def with_grid(barrier):
    import numpy
    from numba import config, cuda
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

    @cuda.jit(lineinfo=True)
    def turn_around(values, out, barrier):
        i = cuda.grid(1)
        grid = cuda.cg.this_grid()
        values[i] = values[i] * 3
        if barrier:
            grid.sync()
        out[i] = values[BLOCK - 1 - i] + i  # @grid

    out = cuda.to_device(numpy.zeros(BLOCK, numpy.int32))
    turn_around[2, BLOCK // 2](cuda.to_device(numbers()), out, barrier)
    return int((out.copy_to_host() * numpy.arange(BLOCK)).sum())


def with_core(barrier):
    import numpy
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
    values = numpy.resize(numbers(), 2 * BLOCK)
    given, out = succeed(driver.cuMemAlloc(values.nbytes)), succeed(driver.cuMemAlloc(8))
    succeed(driver.cuMemcpyHtoDAsync(given, values.ctypes.data, values.nbytes, stream.handle))
    launch(stream, LaunchConfig(grid=2, block=BLOCK), kernel, int(given), int(out))
    stream.sync()
    sums = numpy.zeros(2, numpy.int32)
    succeed(driver.cuMemcpyDtoH(sums.ctypes.data, out, sums.nbytes))
    return int(sums.sum())


def with_taichi(elsewhere):
    os.environ["ENABLE_TAICHI_HEADER_PRINT"] = "0"
    import taichi as ti
    # It keeps a state of random numbers for each thread that the device can run at once: here for few. What it lays out in
    # the memory that it takes for them just fits where that begins at a whole page.
    ti.init(arch=ti.cuda, device_memory_GB=0.1, saturating_grid_dim=8, max_block_dim=BLOCK, offline_cache=False,
            log_level=ti.ERROR)
    values, sums = ti.field(ti.i32, shape=8 * BLOCK), ti.field(ti.i32, shape=8 * BLOCK)

    @ti.kernel
    def fill():
        for i in values:
            values[i] = i * 37 % 101

    @ti.kernel
    def add_neighbours():
        for i in values:
            if i > 0:
                if ti.static(elsewhere):
                    sums[i] = values[i] + values[i - 1]
                else:
                    values[i] = values[i] + values[i - 1]

    fill()
    add_neighbours()
    return int((sums if elsewhere else values).to_numpy().sum())


try:  # its kernels must be functions of a module
    import triton
    import triton.language as tl

    @triton.jit
    def add_up(values, out, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
        sum = tl.sum(tl.load(values + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
        if ATOMIC:
            tl.atomic_add(out, sum)
        else:
            before = tl.load(out)
            tl.store(out, before + sum)  # @triton
except ImportError:
    pass


class Memory:
    """Of the device, as a kernel's argument."""
    dtype = "i32"

    def __init__(self, driver, values):
        self.driver, self.address, self.bytes = driver, ctypes.c_uint64(), 4 * len(values)
        self.host = (ctypes.c_int32 * len(values))(*values)
        assert driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(self.bytes)) == 0
        assert driver.cuMemcpyHtoD_v2(self.address, self.host, ctypes.c_size_t(self.bytes)) == 0
        assert driver.cuCtxSynchronize() == 0

    def data_ptr(self):
        return self.address.value

    def values(self):
        assert self.driver.cuMemcpyDtoH_v2(self.host, self.address, ctypes.c_size_t(self.bytes)) == 0
        return list(self.host)


def with_triton(atomic):
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    values, out = Memory(driver, range(2 * BLOCK)), Memory(driver, [0])
    add_up[(2,)](values, out, atomic, BLOCK)
    return out.values()[0]


makers = {"numba": with_numba, "grid": with_grid, "core": with_core, "taichi": with_taichi, "triton": with_triton}
print(makers[sys.argv[1]](sys.argv[2] == "fixed"))
