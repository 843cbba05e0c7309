#!/usr/bin/env python3
"""Writes the PTX that Triton gives for a few kernels, for real/triton_kernels.cu.

    triton_kernels.py FOLDER

Compiles for sm_80, for which no GPU is needed, and the products once more for sm_90 (NAME_90), whose warpgroups multiply
(wgmma), with copies that run ahead. FOLDER gets NAME.ptx and NAME.launch for each kernel: entry point, threads a block,
bytes of dynamic shared memory, and pointer parameters that Triton adds behind the kernel's own.
"""
import os
import re
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def vector_add(a, b, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    power = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, power / tl.sum(power, axis=0), mask=at < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + 1e-5)
    result = centred * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(out + row * columns + at, result, mask=inside)


@triton.jit
def scan(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0)
    tl.store(out + row * columns + at, tl.cumsum(values, axis=0), mask=at < columns)


@triton.jit
def matmul(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + (start + inner)[None, :],
                       mask=(rows[:, None] < m) & ((start + inner)[None, :] < k), other=0.0)
        right = tl.load(b + (start + inner)[:, None] * n + columns[None, :],
                        mask=((start + inner)[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def attention(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    # Flash attention: keys and values block by block, with a running maximum and sum.
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    depth = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + depth[None, :], mask=rows[:, None] < length, other=0.0)
    most = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    result = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, length, BN):
        inside = start + columns < length
        keys = tl.load(k + (start + columns)[None, :] * D + depth[:, None], mask=inside[None, :], other=0.0)
        scores = tl.dot(queries, keys) * scale
        scores = tl.where(inside[None, :], scores, -float("inf"))
        higher = tl.maximum(most, tl.max(scores, axis=1))
        power = tl.exp(scores - higher[:, None])
        shrink = tl.exp(most - higher)
        total = total * shrink + tl.sum(power, axis=1)
        values = tl.load(v + (start + columns)[:, None] * D + depth[None, :], mask=inside[:, None], other=0.0)
        result = tl.dot(power.to(tl.float16), values, result * shrink[:, None])
        most = higher
    tl.store(out + rows[:, None] * D + depth[None, :], result / total[:, None], mask=rows[:, None] < length)


KERNELS = [  # function, types of the parameters in order, constants, warps; 90: for that target, sizes are multiples of 16
    (vector_add, ["*fp32", "*fp32", "*fp32", "i32"], {"BLOCK": 256}, 4),
    (softmax, ["*fp32", "*fp32", "i32"], {"BLOCK": 256}, 4),
    (layer_norm, ["*fp32", "*fp32", "*fp32", "*fp32", "i32"], {"BLOCK": 256}, 4),
    (scan, ["*i32", "*i32", "i32"], {"BLOCK": 512}, 4),
    (matmul, ["*fp16", "*fp16", "*fp32", "i32", "i32", "i32"], {"BM": 32, "BN": 32, "BK": 32}, 4),
    (attention, ["*fp16", "*fp16", "*fp16", "*fp32", "i32", "fp32"], {"BM": 32, "BN": 32, "D": 32}, 4),
    (matmul, ["*fp16", "*fp16", "*fp32", "i32", "i32", "i32"], {"BM": 64, "BN": 64, "BK": 32}, 4, 90),
    (attention, ["*fp16", "*fp16", "*fp16", "*fp32", "i32", "fp32"], {"BM": 64, "BN": 64, "D": 64}, 4, 90),
]


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for function, types, constants, warps, *target in KERNELS:
        name = "_".join([function.fn.__name__] + [str(t) for t in target])
        names = list(function.arg_names)
        signature = dict(zip(names, types + ["constexpr"] * len(constants)))
        source = ASTSource(fn=function, signature=signature, constexprs={(names.index(key),): value for key, value in constants.items()})
        if target:
            aligned = [n for n, kind in enumerate(types) if kind != "fp32"]
            source.attrs = {(n,): [["tt.divisibility", 16]] for n in aligned}
        compiled = triton.compile(source, target=GPUTarget("cuda", *target or [80], 32), options={"num_warps": warps})
        ptx = compiled.asm["ptx"]
        entry = re.search(r"\.entry\s+(\w+)\s*\((.*?)\)", ptx, re.S)
        parameters = len(re.findall(r"\.param", entry.group(2)))
        with open(os.path.join(folder, name + ".ptx"), "w") as out:
            out.write(ptx)
        with open(os.path.join(folder, name + ".launch"), "w") as out:
            out.write("%s %d %d %d\n" % (entry.group(1), warps * 32, compiled.metadata.shared, parameters - len(types)))


if __name__ == "__main__":
    main()
