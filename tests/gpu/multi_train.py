"""A little network trained by torchrun, gradients summed by NCCL: multi_train.py [--steps N] [--sharded]

--sharded: its parameters lie in parts on all ranks (fully_shard, FSDP2), in bf16, and are gathered by streams of their own.
Rank 0 prints a hash of all losses. Runs under `torchrun --nproc-per-node=N`, or alone.
"""
import argparse
import datetime
import hashlib
import os

import torch
import torch.distributed as distributed

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--sharded", action="store_true")
options = parser.parse_args()
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
if world > 1:
    distributed.init_process_group("nccl", timeout=datetime.timedelta(seconds=60),
                                   device_id=torch.device("cuda", torch.cuda.current_device()))
torch.manual_seed(0)
if options.sharded:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    def block():
        return torch.nn.Sequential(torch.nn.LayerNorm(256), torch.nn.Linear(256, 1024), torch.nn.GELU(),
                                   torch.nn.Linear(1024, 256))

    model = torch.nn.Sequential(*[block() for _ in range(6)]).cuda()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in list(model) + [model]:
        fully_shard(part, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
else:
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
generator = torch.Generator(device="cuda").manual_seed(rank + 1)
losses = []
for step in range(options.steps):
    torch.cuda.nvtx.range_push("step %d" % step)
    x = torch.randn(64, 256, device="cuda", generator=generator)
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for p in [] if options.sharded else model.parameters():
        if world > 1:
            distributed.all_reduce(p.grad)
        p.grad /= world
    optimizer.step()
    losses.append(loss.detach())
    torch.cuda.nvtx.range_pop()
torch.cuda.synchronize()
if world > 1:
    distributed.destroy_process_group()
if rank == 0:
    print("losses", hashlib.sha1(torch.stack(losses).cpu().numpy().tobytes()).hexdigest())
