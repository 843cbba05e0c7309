"""A small GPT in bf16 with AdamW, a side stream that brings data, and a custom CUDA kernel made by load_inline.

    train.py [--steps N] [--fault none|stream|barrier]

Prints a hash of all losses on standard output and the milliseconds a step on standard error. Faults: `stream` launches
the custom kernel on the legacy default stream while PyTorch works on another one; `barrier` leaves one out of it.
"""
import argparse
import hashlib
import sys
import time

import torch
from torch.utils.cpp_extension import load_inline

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--fault", default="none", choices=["none", "stream", "barrier"])
options = parser.parse_args()

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

// y = x * row scale, with the scale's row sum in shared memory.
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

torch::Tensor scale_rows(torch::Tensor x, bool wrong_stream, bool barrier) {
  auto y = torch::empty_like(x);
  cudaStream_t stream = wrong_stream ? cudaStream_t(0) : c10::cuda::getCurrentCUDAStream().stream();
  row_scale<<<x.size(0), 128, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), barrier);
  return y;
}
"""
extension = load_inline("row_scale_extension", "torch::Tensor scale_rows(torch::Tensor x, bool wrong, bool barrier);",
                        SOURCE, functions=["scale_rows"], verbose=False)

torch.manual_seed(0)
device = "cuda"
width, vocabulary, length, batch = 512, 1000, 128, 16


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


embedding = torch.nn.Embedding(vocabulary, width).to(device)
blocks = torch.nn.Sequential(*[Block() for _ in range(4)]).to(device, torch.bfloat16)
head = torch.nn.Linear(width, vocabulary).to(device, torch.bfloat16)
optimizer = torch.optim.AdamW([*embedding.parameters(), *blocks.parameters(), *head.parameters()], lr=1e-3)
work, side = torch.cuda.Stream(), torch.cuda.Stream()
generator = torch.Generator().manual_seed(1)
losses, begin = [], 0.0
torch.cuda.synchronize()
with torch.cuda.stream(work):
    for step in range(options.steps):
        if step == min(10, options.steps - 1):
            torch.cuda.synchronize()
            begin = time.time()
        host = torch.randint(0, vocabulary, (batch, length + 1), generator=generator).pin_memory()
        with torch.cuda.stream(side):
            tokens = host.to(device, non_blocking=True)
        work.wait_stream(side)
        tokens.record_stream(work)
        x = embedding(tokens[:, :-1])
        with torch.no_grad():
            scale = extension.scale_rows(x.reshape(-1, width).contiguous(), options.fault == "stream",
                                         options.fault != "barrier")
        x = (x + 0.01 * scale.view_as(x)).to(torch.bfloat16)
        loss = torch.nn.functional.cross_entropy(head(blocks(x)).float().view(-1, vocabulary), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
torch.cuda.synchronize()
end = time.time()
print("losses", hashlib.sha1(torch.stack(losses).cpu().numpy().tobytes()).hexdigest())
print("%.3f ms a step" % ((end - begin) / max(options.steps - 10, 1) * 1e3), file=sys.stderr)
