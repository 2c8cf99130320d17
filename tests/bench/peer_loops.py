"""Training loops of the peers, which run a requested number of steps; needs a Python with torch.

    peer_loops.py PEERS plain|adaptdl MODEL
    peer_loops.py PEERS ddp MODEL RANK PROCESSES STORE
    peer_loops.py PEERS gloo RANK PROCESSES STORE

Prints "ready"; then for every line N on standard input runs N steps and prints the seconds they
took. gloo: runs one round of all-reduces for every line, and prints one JSON object per size.
"""

import argparse
import sys
import time

sys.path.insert(0, sys.argv[1])

import torch
import torch.distributed as dist

import ddp
import model

WARMUP = 5


def serve(run_step, *_):
    for _ in range(WARMUP):
        run_step()
    print("ready", flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        for _ in range(int(line)):
            run_step()
        print(time.perf_counter() - begun, flush=True)
    sys.exit(0)


def plain(name):
    net = model.build(name)
    opt = model.optimizer(net)
    data = model.batches(name)
    serve(lambda: model.step(net, opt, next(data)))


def petuum(name):
    import adaptdl_loop
    ddp.agreed_rates = serve  # imported by its worker() when called
    adaptdl_loop.worker(argparse.Namespace(model=name, adaptive=False, blocks=0, block_s=0))


def join(rank, processes, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank),
                            world_size=int(processes))


def distributed(name, rank, processes, store):
    join(rank, processes, store)
    ddp.agreed_rates = serve
    ddp.time_steps(name, int(rank), argparse.Namespace(blocks=0, block_s=0))


def gloo(rank, processes, store):
    join(rank, processes, store)
    print("ready", flush=True)
    for _ in sys.stdin:
        for size, count in ddp.SIZES.items():
            ddp.time_allreduce(size, count, int(rank))
        print("done", flush=True)


torch.set_num_threads(1)
{"plain": plain, "adaptdl": petuum, "ddp": distributed, "gloo": gloo}[sys.argv[2]](*sys.argv[3:])
