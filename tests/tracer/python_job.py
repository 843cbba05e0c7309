"""A job in Python over embedded_cuda.cpp: python_job.py held|released

Launches a kernel twice, with Python's lock held or released during the call (ctypes.PyDLL, ctypes.CDLL): from a line of
this file, and from one of a module that looks installed, on behalf of this file. Prints the two lines' numbers and "done".
"""
import ctypes
import gc
import sys

TEXT = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 to)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}
"""
cuda = ctypes.CDLL("libcuda.so.1")
launching = ctypes.PyDLL("libcuda.so.1") if sys.argv[1] == "held" else cuda


def check(result):
    assert result == 0, result


check(cuda.cuInit(0))
module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
check(cuda.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(TEXT)))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"fill"))
check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)))
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
arguments = (function, 1, 1, 1, 64, 1, 1, 0, None, parameters, None)


def line():
    return sys._getframe(1).f_lineno


installed = {"launching": launching, "arguments": arguments, "check": check}
exec(compile("def launch():\n    check(launching.cuLaunchKernel(*arguments))\n", "/usr/lib/python3/dist-packages/x.py",
             "exec"), installed)
collecting = gc.isenabled()
lines = [line() + 1]
check(launching.cuLaunchKernel(*arguments))
lines.append(line() + 1)
installed["launch"]()
check(cuda.cuCtxSynchronize())
assert gc.isenabled() == collecting
print(*lines)
print("done")
