"""Right jobs of many kinds, small: survey_job.py NAME. Prints what they computed, as a hash where it is much.

What libraries do behind a call is what these are about: other compilers, loaders, allocators, processes and threads.
"""
import hashlib
import sys
import tempfile


def shown(*tensors):
    import torch
    return hashlib.sha256(b"".join(
        torch.as_tensor(tensor).detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        for tensor in tensors)).hexdigest()[:16]


def seeded():
    import torch
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    return torch


def trained(net, batches, dtype, **options):
    """Losses and weights."""
    torch = seeded()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, **options)
    losses = []
    for x, y in batches:
        with torch.autocast("cuda", dtype):
            loss = torch.nn.functional.cross_entropy(net(x).float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return torch.stack(losses), *net.parameters()


def batches(torch, count, *shape):
    return [(torch.randn(*shape, device="cuda"), torch.randint(0, 10, shape[:1], device="cuda")) for _ in range(count)]


def convolutions():
    torch = seeded()
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, groups=4),
                        nn.GroupNorm(4, 64), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1),
                        nn.Linear(64, 10)).cuda().to(memory_format=torch.channels_last)
    return shown(*trained(net, batches(torch, 4, 16, 3, 32, 32), torch.float16, fused=True))


def recurrent():
    torch = seeded()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.head = torch.nn.LSTM(16, 64, 2, batch_first=True), torch.nn.Linear(64, 10)

        def forward(self, x):
            return self.head(self.cells(x)[0][:, -1])

    return shown(*trained(Net().cuda(), batches(torch, 3, 8, 20, 16), torch.bfloat16))


def attention():
    torch = seeded()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    found = []
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH):
        q, k, v = (torch.randn(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        with sdpa_kernel(backend):
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            out.float().square().sum().backward()
        found += [out, q.grad] if backend != SDPBackend.EFFICIENT_ATTENTION else [out]
    return shown(*found)


def flexible_attention():
    torch = seeded()
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    q, k, v = (torch.randn(1, 2, 256, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: i - j < 100, None, None, 256, 256)
    return shown(torch.compile(flex_attention)(q, k, v, block_mask=mask))


def algebra():
    torch = seeded()
    a = torch.randn(64, 64, device="cuda", dtype=torch.float64)
    spd = a @ a.T + 64 * torch.eye(64, device="cuda", dtype=torch.float64)
    sparse = (a * (a > 1)).to_sparse_csr()
    numbers = torch.randint(0, 50, (10000,), device="cuda")
    return shown(torch.linalg.cholesky(spd), torch.linalg.solve(spd, a), torch.linalg.eigvalsh(spd), torch.linalg.svdvals(a),
                 torch.linalg.qr(a)[1].abs(), sparse @ a, torch.fft.rfft(a).abs(), numbers.sort()[0], numbers.unique(),
                 numbers.bincount(), torch.topk(a, 5)[0], torch.nonzero(a > 1), torch.randperm(1000, device="cuda"))


def scripted():
    """TorchScript's fuser compiles with NVRTC."""
    torch = seeded()

    @torch.jit.script
    def fused(x, y):
        return torch.sigmoid(x * y + x) * torch.tanh(y) - x

    x, y = torch.randn(2, 4096, device="cuda")
    for _ in range(5):
        out = fused(x, y)
    return shown(out)


def tuned():
    torch = seeded()
    x, w = torch.randn(256, 256, device="cuda", dtype=torch.bfloat16), torch.randn(256, 256, device="cuda", dtype=torch.bfloat16)
    out = torch.compile(lambda x, w: torch.relu(x @ w) + 1, mode="max-autotune-no-cudagraphs")(x, w)
    return bool(torch.allclose(out.float(), (torch.relu(x @ w) + 1).float(), rtol=0.02, atol=0.5))


def ahead_of_time():
    """AOTInductor: a shared library that loads its kernels from files."""
    torch = seeded()

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.layer_norm(x * torch.sigmoid(x), (64,)).softmax(-1)

    x = torch.randn(32, 64, device="cuda")
    path = torch._inductor.aoti_compile_and_package(torch.export.export(Net(), (x,)))
    return shown(torch._inductor.aoti_load_package(path)(x))


def descriptors():
    """Triton with tensor descriptors (TMA), pipelines and wgmma, and its own tuning."""
    torch = seeded()
    import triton
    import triton.language as tl

    @triton.autotune([triton.Config({"BK": 32}, num_stages=2), triton.Config({"BK": 64}, num_stages=3)], key=["k"])
    @triton.jit
    def multiply(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        left = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
        right = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[BK, BN])
        to = tl.make_tensor_descriptor(out, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
        row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
        sums = tl.zeros((BM, BN), dtype=tl.float32)
        for at in range(0, k, BK):
            sums = tl.dot(left.load([row, at]), right.load([at, column]), sums)
        to.store([row, column], sums.to(tl.bfloat16))

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    a, b = (torch.randint(-4, 5, (256, 256), device="cuda").to(torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    multiply[(2, 2)](a, b, out, 256, 256, 256, BM=128, BN=128)
    return shown(out), bool((out == a @ b).all())


def loaded():
    """Worker processes, pinned memory, prefetching on a side stream."""
    torch = seeded()
    data = torch.utils.data.TensorDataset(torch.arange(640.0).view(64, 10), torch.arange(64) % 10)
    loader = torch.utils.data.DataLoader(data, 16, num_workers=2, pin_memory=True)
    net, side = torch.nn.Linear(10, 10).cuda(), torch.cuda.Stream()
    found = []
    for x, y in loader:
        with torch.cuda.stream(side):
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        for tensor in (x, y):
            tensor.record_stream(torch.cuda.current_stream())
        found.append(torch.nn.functional.cross_entropy(net(x), y).detach())
    return shown(torch.stack(found))


def child(queue, back):
    tensor = queue.get()
    tensor += 1
    back.put(float(tensor.sum()))


def processes():
    """A tensor handed to another process (CUDA's IPC)."""
    torch = seeded()
    ways = torch.multiprocessing.get_context("spawn")
    queue, back = ways.Queue(), ways.Queue()
    process = ways.Process(target=child, args=(queue, back))
    process.start()
    tensor = torch.arange(1000, device="cuda")
    queue.put(tensor)
    found = back.get(timeout=100)
    process.join()
    return found, float(tensor.sum())


def distributed():
    torch = seeded()
    import torch.distributed as ranks
    meeting = tempfile.TemporaryDirectory()
    ranks.init_process_group("nccl", init_method="file://%s/meet" % meeting.name, rank=0, world_size=1)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 10).cuda(), device_ids=[0])
    found = trained(net, batches(torch, 3, 16, 32), torch.bfloat16)
    total = torch.ones(8, device="cuda")
    work = ranks.all_reduce(total, async_op=True)
    work.wait()
    result = shown(*found, total)
    ranks.destroy_process_group()
    return result


def graphed():
    """Checkpointing, scaled gradients, a step as a CUDA graph."""
    torch = seeded()
    nn = torch.nn
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)).cuda()
    x, y = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
    net = torch.cuda.make_graphed_callables(net, (x,))
    optimizer, scaler = torch.optim.AdamW(net.parameters(), capturable=True), torch.amp.GradScaler("cuda")
    for _ in range(4):
        out = torch.utils.checkpoint.checkpoint(lambda x: net(x) * 2, x, use_reentrant=False)
        scaler.scale(nn.functional.cross_entropy(out, y)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return shown(*net.parameters())


def profiled():
    """Another subscriber to CUPTI, inside the job."""
    torch = seeded()
    a = torch.randn(256, 256, device="cuda")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]):
        b = a @ a
        torch.cuda.synchronize()
    return shown(b)


def threads():
    """Host threads with streams of their own, and backward passes."""
    torch = seeded()
    import concurrent.futures

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.full((256, 256), float(number), device="cuda", requires_grad=True)
            (x.sin() * x).sum().backward()
            torch.cuda.current_stream().synchronize()
            return shown(x.grad)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(work, range(8)))


def segments():
    """PyTorch's allocator over mapped memory (PYTORCH_CUDA_ALLOC_CONF=expandable_segments)."""
    torch = seeded()
    kept = [torch.full((1 << 20,), float(number), device="cuda") for number in range(12)]
    total = sum(float(tensor.sum()) for tensor in kept)
    del kept[::2]
    torch.cuda.empty_cache()
    more = torch.arange(3 << 20, device="cuda")
    return total, int(more.sum()), float(sum(tensor[0] for tensor in kept))


def language_model():
    torch = seeded()
    from transformers import GPT2Config, GPT2LMHeadModel
    net = GPT2LMHeadModel(GPT2Config(vocab_size=200, n_positions=64, n_embd=64, n_layer=2, n_head=2)).cuda()
    words = torch.randint(0, 200, (4, 32), device="cuda")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        loss = net(words, labels=words).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return shown(torch.stack(losses)), net.generate(words[:1, :4], max_new_tokens=8, do_sample=False, pad_token_id=0).tolist()


def arrays():
    """CuPy: its own compilers, libraries, pools, graphs and streams."""
    import cupy
    from cupyx import jit
    x = cupy.arange(4096, dtype=cupy.float32)

    @jit.rawkernel()
    def twice(x, y, n):
        at = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        if at < n:
            y[at] = x[at] * 2

    y = cupy.zeros_like(x)
    twice[16, 256](x, y, x.size)
    square = cupy.ElementwiseKernel("T x", "T y", "y = x * x", "deadheat_square")
    norm = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "deadheat_norm")

    @cupy.fuse
    def more(x):
        return cupy.sqrt(x) + x

    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        z = square(y) + more(x)
        stream.synchronize()
    m = x[:1024].reshape(32, 32) + cupy.eye(32, dtype=cupy.float32) * 1e4
    return (float(y.sum()), float(z[::7].sum()), float(norm(x[:50])), round(float(cupy.linalg.det(m / 1e4)), 4),
            int(cupy.argsort(-x)[3]), float(abs(cupy.fft.fft(x[:64])).max()), cupy.histogram(x, 4)[0].tolist())


def traced():
    """JAX: convolutions, loops, libraries, sorting."""
    import jax
    import jax.numpy as jnp
    import numpy
    key = jax.random.PRNGKey(0)
    x = jax.random.normal(key, (2, 16, 16, 3))
    kernel = jax.random.normal(key, (3, 3, 3, 8))
    convolved = jax.jit(lambda x, k: jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    a = jax.random.normal(key, (32, 32))
    spd = a @ a.T + 32 * jnp.eye(32)
    scanned = jax.jit(lambda a: jax.lax.scan(lambda c, row: (c * 0.5 + row, c), jnp.zeros(32), a)[1])
    found = [convolved(x, kernel), jnp.linalg.cholesky(spd), scanned(a), jnp.sort(a), jnp.fft.rfft(a).real,
             jax.grad(lambda a: jnp.tanh(a @ a).sum())(a), jnp.cumsum(a)]
    return [hashlib.sha256(numpy.asarray(f).tobytes()).hexdigest()[:8] for f in found]


jobs = {job.__name__: job for job in (
    convolutions, recurrent, attention, flexible_attention, algebra, scripted, tuned, ahead_of_time, descriptors, loaded,
    processes, distributed, graphed, profiled, threads, segments, language_model, arrays, traced)}
if __name__ == "__main__":
    print(jobs[sys.argv[1]](), flush=True)
