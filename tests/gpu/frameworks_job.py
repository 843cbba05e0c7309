#!/usr/bin/env python3
"""What frameworks make and launch themselves: frameworks_job.py WHAT. Prints a hash of the results.

compiled    a small transformer under torch.compile, six steps: its kernels are loaded from files
graphs      the same in CUDA graphs (mode="reduce-overhead")
captured    a net's forward pass as a CUDA graph, whose next input a side stream brings meanwhile, into a tensor next to
            the one that the graph reads
early       the same, but into that one
step        a whole training step as a CUDA graph, launched eight times in NVTX ranges "launch 0" and so on. A kernel in
            it, count_words, adds without an atomic operation, to what no other kernel reads and what is not hashed
jax         ten steps of a small net under jax.jit, which updates its graphs' nodes and copies beside other streams
tiles       Triton: scaling in place with more threads than elements, a product of matrices, a softmax, a sum
lost        Triton: programs that add to one sum without an atomic operation; line LOST
"""
import hashlib
import sys


def print_hash(arrays):
    print(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16], flush=True)


def transformer(mode):
    import torch
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(1)

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            rows, words, width = x.shape
            q, k, v = self.mix(self.norms[0](x)).view(rows, words, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(rows, words, width))
            return x + self.down(functional.gelu(self.up(self.norms[1](x))))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.blocks = nn.Embedding(1000, 128), nn.Sequential(Block(128), Block(128))
            self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 1000)

        def forward(self, x, y):
            scores = self.head(self.norm(self.blocks(self.words(x))))
            return functional.cross_entropy(scores.reshape(-1, 1000).float(), y.reshape(-1))

    net = Net().cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    step = torch.compile(net, mode=mode)
    losses = []
    for number in range(6):
        words = torch.randint(0, 1000, (4, 65), device="cuda", generator=torch.Generator("cuda").manual_seed(number))
        with torch.autocast("cuda", torch.bfloat16):
            loss = step(words[:, :-1], words[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach().clone())
    print_hash([torch.stack(losses).cpu().numpy()])


def forward_pass(early):
    import torch

    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)).cuda()
    inputs = [torch.randn(512, 256).pin_memory() for _ in range(4)]
    now, coming = (torch.zeros(512, 256, device="cuda") for _ in range(2))  # blocks of one allocation
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    graph = torch.cuda.CUDAGraph()
    outs = []
    with torch.no_grad():
        side.wait_stream(main)
        with torch.cuda.stream(side):
            net(now)
            coming.copy_(inputs[0], non_blocking=True)
        main.wait_stream(side)
        with torch.cuda.graph(graph):
            out = net(now)
        for number in range(1, 5):
            main.wait_stream(side)
            now.copy_(coming)
            side.wait_stream(main)
            graph.replay()
            with torch.cuda.stream(side):
                (now if early else coming).copy_(inputs[number % 4], non_blocking=True)
            outs.append(out.clone())
        torch.cuda.synchronize()
    print("done") if early else print_hash([out.cpu().numpy() for out in outs])


COUNT_WORDS = """extern "C" __global__ void count_words(const long long* words, int* seen, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) seen[words[i]] += 1;
}
"""


def training_step():
    import torch

    torch.manual_seed(1)
    words = torch.zeros(512, dtype=torch.int64, device="cuda")
    wanted = torch.zeros(512, dtype=torch.int64, device="cuda")
    seen = torch.zeros(1000, dtype=torch.int32, device="cuda")
    batches = [torch.randint(0, 1000, (2, 512), device="cuda") for _ in range(8)]
    net = torch.nn.Sequential(torch.nn.Embedding(1000, 256), torch.nn.Linear(256, 512), torch.nn.GELU(),
                              torch.nn.LayerNorm(512), torch.nn.Linear(512, 1000)).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, capturable=True)
    count = torch.cuda._compile_kernel(COUNT_WORDS, "count_words")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(net(words).float(), wanted)
        loss.backward()
        optimizer.step()
        count((4, 1, 1), (128, 1, 1), (words, seen, 512))
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    losses = []
    for number, batch in enumerate(batches):
        torch.cuda.nvtx.range_push("launch %d" % number)
        words.copy_(batch[0])
        wanted.copy_(batch[1])
        graph.replay()
        losses.append(loss.detach().clone())
        torch.cuda.nvtx.range_pop()
    torch.cuda.synchronize()
    print_hash([torch.stack(losses).cpu().numpy(), *(weights.detach().cpu().numpy() for weights in net.parameters())])


def jax_steps():
    import jax
    import jax.numpy as jnp
    import numpy

    def loss(weights, x, y):
        return ((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2).mean()

    step = jax.jit(lambda weights, x, y: jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights, x, y)))
    key = jax.random.PRNGKey(0)
    weights = [jax.random.normal(key, (64, 128)), jax.random.normal(key, (128, 8))]
    for number in range(10):
        x = jax.random.normal(jax.random.PRNGKey(number), (32, 64))
        weights = step(weights, x, jnp.sort(x[:, :8], -1))
    print_hash([numpy.asarray(w) for w in weights])


def triton_kernels(lost):
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def scale(x, factor, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        for first in range(0, columns, BLOCK):
            at = row * columns + first + tl.arange(0, BLOCK)
            tl.store(x + at, tl.load(x + at) * factor)

    @triton.jit
    def softmax(x, out, columns, BLOCK: tl.constexpr):
        at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
        values = tl.load(x + at)
        power = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + at, power / tl.sum(power, axis=0))

    @triton.jit
    def multiply(a, b, out, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
        inner = tl.arange(0, BK)
        sums = tl.zeros((BM, BN), dtype=tl.float32)
        for at in range(0, k, BK):
            left = tl.load(a + rows[:, None] * k + (at + inner)[None, :])
            right = tl.load(b + (at + inner)[:, None] * n + columns[None, :])
            sums = tl.dot(left, right, sums)
        tl.store(out + rows[:, None] * n + columns[None, :], sums)

    @triton.jit
    def total(x, sums, BLOCK: tl.constexpr):
        values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
        tl.atomic_add(sums, tl.sum(values, axis=0))

    @triton.jit
    def total_lost(x, sums, BLOCK: tl.constexpr):
        values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
        tl.store(sums, tl.load(sums) + tl.sum(values, axis=0))  # LOST

    torch.manual_seed(1)
    counts = torch.randint(0, 100, (64, 128), device="cuda")
    sums = torch.zeros(1, dtype=torch.int64, device="cuda")
    if lost:
        total_lost[(64,)](counts, sums, BLOCK=128)
        torch.cuda.synchronize()
        return print("done")
    x = torch.randn(64, 128, device="cuda")
    out = torch.empty_like(x)
    scale[(64,)](x, 3.0, 128, BLOCK=64, num_warps=8)
    softmax[(64,)](x, out, 128, BLOCK=128)
    a, b = (torch.randn(256, 256, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = torch.empty(256, 256, device="cuda")
    multiply[(2, 2)](a, b, product, 256, 256, BM=128, BN=128, BK=64, num_warps=4, num_stages=3)
    total[(64,)](counts, sums, BLOCK=128)
    print_hash([t.cpu().numpy() for t in (x, out, product, sums)])


if __name__ == "__main__":
    {"compiled": lambda: transformer("default"), "graphs": lambda: transformer("reduce-overhead"),
     "captured": lambda: forward_pass(False), "early": lambda: forward_pass(True), "step": training_step, "jax": jax_steps,
     "tiles": lambda: triton_kernels(False), "lost": lambda: triton_kernels(True)}[sys.argv[1]]()
