"""Jobs whose kernels are compiled while they run, by NVRTC, nvJitLink or nvcc. Prints what they computed.

    compilers_job.py NAME

cupy         kernels of CuPy's own, and one of a source text, which is right
cupy_racy    the same without its barrier
cooperative  CuPy's kernel for a whole grid, which the driver links with CUDA's device runtime
jiterator    functions that PyTorch compiles
torch        a kernel of a source text, compiled by PyTorch, which is right
torch_racy   the same without its barrier
core         a kernel compiled by cuda.core, whose PTX its linker links
core_racy    the same without its barrier, as machine code
Lines of the racy kernels are those of the source text below.
"""
import sys

REVERSE = """extern "C" __global__ void reverse(const float* x, float* y) {
  __shared__ float s[256];
  const int i = blockIdx.x * 256 + threadIdx.x;
  s[threadIdx.x] = x[i];
#ifndef RACY
  __syncthreads();
#endif
  y[i] = s[255 - threadIdx.x];
}
"""
RACE = (4, 8)
WHOLE_GRID = """#include <cooperative_groups.h>
extern "C" __global__ void turn(int* a) {
  auto grid = cooperative_groups::this_grid();
  a[grid.thread_rank()] = grid.thread_rank();
  grid.sync();
  const int other = a[grid.size() - 1 - grid.thread_rank()];
  grid.sync();
  a[grid.thread_rank()] = other;
}
"""


def text(racy):
    return ("#define RACY\n#line 1\n" if racy else "") + REVERSE


def cupy(racy=False):
    import cupy
    x = cupy.arange(1 << 14, dtype=cupy.float32)
    y = cupy.zeros_like(x)
    cupy.RawKernel(text(racy), "reverse")((64,), (256,), (x, y))
    return (float(y.sum()) if not racy else "", float((x * 2 + 1).sum()), float(cupy.sort(x[::-1])[5]),
            int(cupy.bincount(x.astype(cupy.int32) % 7).max()))


def cooperative():
    import cupy
    a = cupy.zeros(1024, dtype=cupy.int32)
    kernel = cupy.RawKernel(WHOLE_GRID, "turn", options=("-std=c++17",), enable_cooperative_groups=True)
    kernel((4,), (256,), (a,))
    return a[:4].tolist(), int(a.sum())


def jiterator():
    import torch
    a = torch.arange(1, 1001, device="cuda", dtype=torch.float32)
    more = torch.cuda.jiterator._create_jit_fn("template <typename T> T more(T x, T y) { return x * y + x; }")
    n = torch.arange(1, 1001, device="cuda")
    return float(more(a, a).sum()), int(torch.gcd(n, n.flip(0)).sum()), float(torch.special.bessel_j0(a).sum())


def torch(racy=False):
    import torch
    x = torch.arange(1 << 14, device="cuda", dtype=torch.float32)
    y = torch.zeros_like(x)
    torch.cuda._compile_kernel(text(racy), "reverse")((64, 1, 1), (256, 1, 1), (x, y))
    return float(y.sum()) if not racy else ""


def core(racy=False):
    import numpy
    try:
        from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch
    except ImportError:
        from cuda.core.experimental import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch
    import torch
    Device().set_current()
    stream = Device().create_stream()
    program = Program(text(racy), code_type="c++", options=ProgramOptions(arch="sm_90"))
    code = program.compile("cubin" if racy else "ptx")
    if not racy:
        code = Linker(code, options=LinkerOptions(arch="sm_90")).link("cubin")
    x = torch.arange(1 << 14, device="cuda", dtype=torch.float32)
    y = torch.zeros_like(x)
    torch.cuda.synchronize()
    launch(stream, LaunchConfig(grid=64, block=256), code.get_kernel("reverse"), x.data_ptr(), y.data_ptr())
    stream.sync()
    return float(y.sum()) if not racy else "", numpy.float32(1).item()


jobs = {"cupy": cupy, "cupy_racy": lambda: cupy(True), "cooperative": cooperative, "jiterator": jiterator, "torch": torch,
        "torch_racy": lambda: torch(True), "core": core, "core_racy": lambda: core(True)}
if __name__ == "__main__":
    print(jobs[sys.argv[1]]())
