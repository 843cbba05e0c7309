"""A small GPT in bf16 with AdamW, a side stream that brings data, two CUDA kernels made by load_inline and one of Triton.

    train.py [--steps N] [--fault none|stream|barrier|record_stream|scatter|refill] [--plain] [--layers N,N…] [--turns]
             [--sequences N]

Prints a hash of all losses on standard output, and the median of the milliseconds that a step took (from one wait for
the device to the next, ten steps each) on standard error. Faults, one at a time: `stream` launches a custom kernel on the
legacy default stream while PyTorch works on another one; `barrier` leaves one out of it; `record_stream` does not tell
the allocator that the side stream's tensor is used elsewhere; `scatter` adds to rows that several blocks share without
atomics; `refill` brings all batches through one page-locked buffer, which it refills without waiting for the copy out of
it. --plain: none of the custom kernels. --layers: under the preload library, every ten steps go with another of these layers of it
(tracer/cupti/layers.h), all of them in turn; what each block took is printed, as JSON. --turns: the process takes turns
with others: before every ten steps it waits for a line on standard input, and after them it prints what the last eight
took, `turn MS CPU-MS` a step. The first two bring back what the others drove out of the caches. The line `recorded` or
`detached` says that the preload library is to record this turn, or is to leave, with CUPTI. --sequences: of 128 words, in
a batch; with the usual 16 a step is as fast as the host can launch it, with 256 the GPU has something to do.
"""
import argparse
import ctypes
import hashlib
import json
import random
import statistics
import sys
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--fault", default="none", choices=["none", "stream", "barrier", "record_stream", "scatter", "refill"])
parser.add_argument("--plain", action="store_true")
parser.add_argument("--layers")
parser.add_argument("--turns", action="store_true")
parser.add_argument("--sequences", type=int, default=16)
options = parser.parse_args()
layers = [int(layer) for layer in options.layers.split(",")] if options.layers else []
change_layers = ctypes.CDLL(None).deadheat_layers if layers else None
ALL_LAYERS = 7  # tracer/cupti/layers.h

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

// y = x / (1 + row mean of |x|), with the row's sum in shared memory.
__global__ void row_scale(const float* x, float* y, int width, bool barrier) {
  __shared__ float part[128];
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += 128) sum += fabsf(x[blockIdx.x * width + i]);
  part[threadIdx.x] = sum;
  if (barrier) __syncthreads();
  float total = 0;
  for (int i = 0; i < 128; ++i) total += part[i];
  for (int i = threadIdx.x; i < width; i += 128) {
    y[blockIdx.x * width + i] = x[blockIdx.x * width + i] / (1.0f + total / width);
  }
}

// How often each word was seen.
__global__ void count_words(const long* words, int* seen, int n, bool atomic) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  if (atomic) atomicAdd(&seen[words[i]], 1);
  else seen[words[i]] += 1;
}

torch::Tensor scale_rows(torch::Tensor x, bool wrong_stream, bool barrier) {
  auto y = torch::empty_like(x);
  cudaStream_t stream = wrong_stream ? cudaStream_t(0) : c10::cuda::getCurrentCUDAStream().stream();
  row_scale<<<x.size(0), 128, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), barrier);
  return y;
}

void count(torch::Tensor words, torch::Tensor seen, bool atomic) {
  const int n = int(words.numel());
  count_words<<<(n + 127) / 128, 128, 0, c10::cuda::getCurrentCUDAStream().stream()>>>(
      words.data_ptr<long>(), seen.data_ptr<int>(), n, atomic);
}
"""
if not options.plain:
    import triton
    import triton.language as tl
    from torch.utils.cpp_extension import load_inline

    extension = load_inline("row_scale_extension",
                            "torch::Tensor scale_rows(torch::Tensor x, bool wrong, bool barrier);"
                            "void count(torch::Tensor words, torch::Tensor seen, bool atomic);",
                            SOURCE, functions=["scale_rows", "count"], verbose=False)

    @triton.jit
    def times(x, y, factor, n, SIZE: tl.constexpr):
        at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)

torch.manual_seed(0)
device = "cuda"
width, vocabulary, length, batch = 512, 1000, 128, options.sequences


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.a(x)).view(n, t, 3, 8, c // 8).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.down(torch.nn.functional.gelu(self.up(self.b(x))))


def scaled(x):
    """0.01 × the scaled rows of x."""
    y = extension.scale_rows(x, options.fault == "stream", options.fault != "barrier")
    z = torch.empty_like(y)
    times[(triton.cdiv(y.numel(), 1024),)](y, z, 0.01, y.numel(), SIZE=1024)
    return z


embedding = torch.nn.Embedding(vocabulary, width).to(device)
blocks = torch.nn.Sequential(*[Block() for _ in range(4)]).to(device, torch.bfloat16)
head = torch.nn.Linear(width, vocabulary).to(device, torch.bfloat16)
optimizer = torch.optim.AdamW([*embedding.parameters(), *blocks.parameters(), *head.parameters()], lr=1e-3)
seen = torch.zeros(vocabulary, dtype=torch.int32, device=device)
work, side = torch.cuda.Stream(), torch.cuda.Stream()
generator = torch.Generator().manual_seed(1)
batches = [torch.randint(0, vocabulary, (batch, length + 1), generator=generator).pin_memory()
           for _ in range(options.steps)]
staging = torch.empty_like(batches[0]).pin_memory()
losses, times_of_ten, begin = [], [], 0.0
turn = None  # when the timed part of the turn began, of time and of CPU
rounds, cpu, taken = [], 0.0, []  # layers still to go in this round; what blocks took: layer, ms of time and of CPU a step
torch.cuda.synchronize()
ranges = torch.cuda.nvtx


def end_turn():
    global turn
    torch.cuda.synchronize()
    if turn:
        print("turn %.4f %.4f" % ((time.perf_counter() - turn[0]) * 125, (time.process_time() - turn[1]) * 125), flush=True)
    turn = None


with torch.cuda.stream(work):
    for step in range(options.steps):
        if options.turns and step % 10 == 0:
            end_turn()
            if step == 0:
                print("turn", flush=True)
            how = sys.stdin.readline().strip()
            if how == "recorded":
                ctypes.CDLL(None).deadheat_layers(ALL_LAYERS)
            elif how == "detached":
                ctypes.CDLL(None).deadheat_detach()
        if options.turns and step % 10 == 2:
            torch.cuda.synchronize()
            turn = time.perf_counter(), time.process_time()
        if step % 10 == 0:
            torch.cuda.synchronize()
            times_of_ten.append(time.time() - begin)
            if layers:
                if step:
                    taken.append((rounds.pop(), times_of_ten[-1] * 100, (time.process_time() - cpu) * 100))
                if not rounds:
                    rounds = random.sample(layers, len(layers))
                change_layers(rounds[-1])
                cpu = time.process_time()
            begin = time.time()
        ranges.range_push("step %d" % step)
        brought = batches[step]
        if options.fault == "refill":
            brought = staging.copy_(brought)
        with torch.cuda.stream(side):
            tokens = brought.to(device, non_blocking=True)
        work.wait_stream(side)
        if options.fault != "record_stream":
            tokens.record_stream(work)
        ranges.range_push("forward")
        x = embedding(tokens[:, :-1])
        if not options.plain:
            with torch.no_grad():
                scale = scaled(x.reshape(-1, width).contiguous())
                extension.count(tokens, seen, options.fault != "scatter")
            x = x + scale.view_as(x)
        x = x.to(torch.bfloat16)
        loss = torch.nn.functional.cross_entropy(head(blocks(x)).float().view(-1, vocabulary), tokens[:, 1:].reshape(-1))
        ranges.range_pop()
        ranges.range_push("backward")
        optimizer.zero_grad()
        loss.backward()
        ranges.range_pop()
        ranges.range_push("optimizer")
        optimizer.step()
        ranges.range_pop()
        losses.append(loss.detach())
        del tokens
        ranges.range_pop()
torch.cuda.synchronize()
if options.turns:
    end_turn()
print("losses", hashlib.sha1(torch.stack(losses).cpu().numpy().tobytes()).hexdigest())
if layers:
    print("blocks", json.dumps(taken))
if len(times_of_ten) > 3:
    print("%.3f ms a step in the median" % statistics.median(t * 100 for t in times_of_ten[2:]), file=sys.stderr)
