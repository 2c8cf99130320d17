"""Steps per second of one and of two replicas, and all-reduces, each compared with a peer's."""

import json
import os
import statistics
import subprocess
import sys

from figures import HERE, MODELS, Loop, OurRun, alternate, emit, interval, new_folder, note
from support import free_port


KEEP_MEMORY = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=1073741824"


def ratio(found, ours, theirs, part):
    return [a[part] / b[part] for a, b in zip(found[ours], found[theirs])]


def report(found, ours, theirs, name, **more):
    """Details of a ratio: ratios of total times and of CPU times, and milliseconds per step."""
    total = sum(t for t, _ in found[ours]) / sum(t for t, _ in found[theirs])
    return {"of_sums": total, "cpu_ratio": interval(ratio(found, ours, theirs, 1))[0],
            "ms": statistics.median(t for t, _ in found[ours]) * 1e3,
            f"{theirs}_ms": statistics.median(t for t, _ in found[theirs]) * 1e3, "model": name,
            **more}


def peer(options, *arguments):
    return [options.python, os.path.join(HERE, "peer_loops.py"), options.peers,
            *map(str, arguments)]


def bare(options, folder, name):
    batch, classes, shape = MODELS[name]
    return [os.path.join(options.build, "tests/bench/bare_loop"), folder.program(name), str(batch),
            str(classes), *map(str, shape)]


def one_replica(options):
    """Figures 1 and 2."""
    for name in options.models:
        folder = new_folder(options)
        programs = {}
        try:
            programs["ours"] = OurRun(folder, name)
            programs["bare"] = Loop([bare(options, folder, name)])
            # Part of a bare loop's time is malloc returning memory to the system in each step,
            # which the runtime prevents: this shows the remaining difference.
            programs["kept"] = Loop([bare(options, folder, name)], GLIBC_TUNABLES=KEEP_MEMORY)
            if options.python:
                programs["plain"] = Loop([peer(options, "plain", name)])
                programs["adaptdl"] = start_petuum(options, name)
            programs = {key: value for key, value in programs.items() if value}
            found = alternate(programs, options.rounds or 21, options.block_s)
        finally:
            for program in programs.values():
                if program:
                    program.close()
            folder.close()
        emit("one_replica_to_bare_loop", ratio(found, "ours", "bare", 0), "time ratio",
             at_most=1.02, **report(found, "ours", "bare", name))
        emit("one_replica_to_bare_loop_keeping_memory", ratio(found, "ours", "kept", 0),
             "time ratio",
             **report(found, "ours", "kept", name))
        if "plain" in found:
            emit("one_replica_to_plain_python", ratio(found, "ours", "plain", 0), "time ratio",
                 at_most=1.0, **report(found, "ours", "plain", name))
        if "adaptdl" in found:
            bare_speedup = 1 / interval(ratio(found, "bare", "adaptdl", 0))[0]
            emit("one_replica_to_python_adaptdl", ratio(found, "adaptdl", "ours", 0), "speed ratio",
                 at_least=0.95 * bare_speedup, bare_loop_reaches=bare_speedup,
                 **report(found, "ours", "adaptdl", name))


def open_loop(options):
    """The tutorial's program in the open loop, beside a bare loop."""
    program = os.path.join(options.build, "tests/bench/open_loop")
    programs = {}
    try:
        programs["open"] = Loop([[program, "open"]])
        programs["bare"] = Loop([[program, "bare"]])
        programs["kept"] = Loop([[program, "bare"]], GLIBC_TUNABLES=KEEP_MEMORY)
        found = alternate(programs, options.rounds or 21, options.block_s)
    finally:
        for started in programs.values():
            started.close()
    for other, name in (("bare", "open_loop_to_bare_loop"),
                        ("kept", "open_loop_to_bare_loop_keeping_memory")):
        emit(name, ratio(found, "open", other, 0), "time ratio", at_most=1.02,
             **report(found, "open", other, "tutorial"))


def start_petuum(options, name):
    try:
        return Loop([peer(options, "adaptdl", name)], ADAPTDL_MASTER_ADDR="127.0.0.1",
                    ADAPTDL_MASTER_PORT=str(free_port()), ADAPTDL_NUM_REPLICAS="1",
                    ADAPTDL_NUM_NODES="1")
    except SystemExit as problem:
        note(f"without Python AdaptDL: {problem}")
        return None


def two_replicas(options):
    """Figure 3."""
    if not options.python:
        note("DDP is left out: --python names no Python with torch")
        return
    for name in options.models:
        folder = new_folder(options)
        store = os.path.join(folder.path, "store")
        programs = {}
        try:
            programs["ours"] = OurRun(folder, name, replicas=2)
            programs["ddp"] = Loop([peer(options, "ddp", name, rank, 2, store)
                                    for rank in range(2)])
            found = alternate(programs, options.rounds or 21, options.block_s)
        finally:
            for program in programs.values():
                program.close()
            folder.close()
        emit("two_replicas_to_ddp", ratio(found, "ddp", "ours", 0), "speed ratio", at_least=1.1,
             **report(found, "ours", "ddp", name))


def all_reduce(options):
    """Figure 4."""
    ours, theirs, fraction = {}, {}, {}
    gloo = None
    folder = new_folder(options)
    if options.python:
        store = os.path.join(folder.path, "store")
        gloo = Loop([peer(options, "gloo", rank, 2, store) for rank in range(2)])
    else:
        note("gloo is left out: --python names no Python with torch")
    try:
        for _ in range(options.rounds or 7):
            if gloo:
                gloo.tell("round")
                for line in map(json.loads, gloo.lines_until("done")):
                    theirs.setdefault(line["bytes"], []).append(line["median"])
            done = subprocess.run([os.path.join(options.build, "tests/bench/bench_allreduce")],
                                  check=True, capture_output=True, text=True)
            for line in map(json.loads, done.stdout.splitlines()):
                if line["name"] == "allreduce":
                    ours.setdefault(line["bytes"], []).append(line["median"])
                    fraction.setdefault(line["bytes"], []).append(line["memcpy_fraction"])
    finally:
        if gloo:
            gloo.close()
        folder.close()
    for size, times in ours.items():
        emit("all_reduce", times, "ms", bytes=size, processes=2)
        emit("all_reduce_of_memcpy", fraction[size], "fraction of a memcpy's bandwidth", bytes=size)
        if theirs:
            emit("all_reduce_to_gloo", [b / a for a, b in zip(times, theirs[size])], "speed ratio",
                 at_least=2.0, bytes=size, gloo_ms=statistics.median(theirs[size]))


def policies(options):
    """Times of scheduling policies and of a whole round; the programs print their figures."""
    sys.stdout.flush()
    for name in ("bench_policies", "bench_large_policies", "bench_large_round"):
        subprocess.run([os.path.join(options.build, "tests", "bench", name)], check=True)
