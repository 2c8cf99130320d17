"""Measures the cost of rescales, deaths, checkpoints and starts."""

import ctypes
import glob
import os
import random
import shutil
import signal
import statistics
import time

from figures import Loop, emit, new_folder
from support import wait_until

STEPS_BETWEEN = 3  # in addition to those that a rescale event waits for


def start(options, folder, program, *arguments):
    """Starts a run of an archive or of the sleep program, with a batch that 1 to 3 replicas can
    divide."""
    if program == "sleep":
        path = shutil.copy(os.path.join(options.build, "tests/bench/sleep_program"), folder.path)
    else:
        path = folder.program(program)
        arguments = ("--set=batch.initial=12", "--set=checkpoint_interval_s=1000000", *arguments)
    return folder.run(path, "--fresh", *arguments)


def broadcasts(folder):
    """Seconds of the sleep program's plain broadcasts, at the root."""
    found = []
    for path in glob.glob(os.path.join(folder.path, "*.run", "logs", "*.log")):
        with open(path, errors="replace") as file:
            found += [float(line.split()[-1]) for line in file if "broadcast " in line]
    return found


def seen_from_outside(run, event):
    """The pause of a rescale, computed from rank 0's step events around it."""
    at = {e["step"]: e["time_s"] for e in run.of("step")}
    first = event["step"]
    after = [at[s + 1] - at[s] for s in range(first, first + 5) if s + 1 in at]
    return at[first] - at[first - 1] - statistics.median(after)


def rescale(options):
    """Figure 5."""
    for program in options.programs:
        folder = new_folder(options)
        pauses, outside, transfers, sizes = {}, {}, [], []
        try:
            run = start(options, folder, program, "--replicas", "1:3", "--replicas-at", "0:1")
            run.wait_step(10)
            size = 1
            for _ in range(options.rounds or 20):
                for to in (2, 3, 1):
                    seen = run.count()
                    run.request(request="scale", replicas=to)
                    event = run.wait_event("rescale", after=seen, to=to)
                    pauses.setdefault((size, to), []).append(event["pause_s"])
                    if event["bytes"]:
                        transfers.append(event["transfer_s"])
                        sizes.append(event["bytes"])
                    run.wait_steps_more(STEPS_BETWEEN)
                    outside.setdefault((size, to), []).append(seen_from_outside(run, event))
                    size = to
            run.check_steps()
            plain = broadcasts(folder)
        finally:
            folder.close()
        for (before, after), values in pauses.items():
            emit("rescale_pause", values, "s", at_most=0.3, program=program,
                 change=f"{before}->{after}",
                 seen_from_outside_s=statistics.median(outside[before, after]))
        emit("state_transfer", transfers, "s", program=program, bytes=max(sizes, default=0))
        if plain:
            middle = statistics.median(plain)
            emit("state_transfer_to_broadcast", [t / middle for t in transfers], "time ratio",
                 at_most=1.5, program=program, broadcast_s=middle)


def kill(options):
    """Figure 6."""
    for program in options.programs:
        kill_replicas(options, program, 0)
        kill_replicas(options, program, 1)


def has_spares(run, count):
    states = [member["state"] for member in run.request(request="status")["members"]]
    return states.count("spare") == count


def kill_replicas(options, program, spares):
    draw = random.Random(1)
    folder = new_folder(options)
    pauses, joins, in_place = [], [], []
    lost = 0
    try:
        run = start(options, folder, program, "--replicas", "3", "--spares", str(spares))
        run.wait_step(10)
        for _ in range(options.rounds or 20):
            wait_until(lambda: has_spares(run, spares), "the spares")
            run.wait_steps_more(5 + draw.randrange(4))
            time.sleep(draw.random() * 0.1)  # a random time within a step
            seen, members = run.count(), run.members()
            victim = draw.choice(list(members.values()))
            at = time.monotonic() - run.started
            os.kill(victim, signal.SIGKILL)
            run.wait_event("generation", after=seen, to=3)
            joins.append(run.wait_event("rescale", after=seen, to=3)["pause_s"])
            after = run.events[seen:]
            pauses += [e["pause_s"] for e in after if e["event"] == "rescale" and e["to"] == 2]
            alone = next(i for i, e in enumerate(after) if e["event"] == "generation")
            in_place.append(next(e["time_s"] for e in after[alone:] if e["event"] == "step"
                                 and e["replicas"] == 3) - at)
        steps = [event["step"] for event in run.of("step")]
        lost = len(steps) - len(set(steps)) + max(steps) - len(set(steps))
        step_s = statistics.median(e["step_s"] for e in run.of("step") if e["replicas"] == 2)
    finally:
        folder.close()
    if spares > 0:
        emit("kill_spare_in_place", in_place, "s", at_most=1, program=program)
        return
    emit("kill_pause", pauses, "s", at_most=0.3 + step_s, program=program, step_s=step_s)
    emit("kill_lost_steps", [lost], "steps", at_most=0, program=program)
    emit("kill_newcomer_in_place", in_place, "s", at_most=2.5, program=program)
    emit("kill_newcomer_pause", joins, "s", at_most=0.3, program=program)


SOURCE, TARGET = bytearray(), bytearray()  # kept, so that their pages stay allocated


def memcpy_s(size):
    if len(SOURCE) != size:
        SOURCE[:], TARGET[:] = b"\1" * size, b"\2" * size
    to = (ctypes.c_char * size).from_buffer(TARGET)
    what = (ctypes.c_char * size).from_buffer(SOURCE)
    begun = time.perf_counter()
    ctypes.memmove(to, what, size)
    return time.perf_counter() - begun


def checkpoint(options):
    """Figure 7. Excludes the first checkpoint, whose buffer is not touched yet."""
    folder = new_folder(options)
    try:
        run = start(options, folder, "large", "--replicas", "1", "--set=checkpoint_interval_s=1")
        held, excess, copies, sizes = [], [], [], []
        run.wait_event("checkpoint")
        for _ in range(options.rounds or 20):
            seen = run.count()
            event = run.wait_event("checkpoint", after=seen)
            run.wait_step(event["step"] + 2)
            held.append(event.get("held_up_s", float("nan")))
            sizes.append(event["bytes"])
            copies.append(memcpy_s(event["bytes"]))
            at = {e["step"]: e["time_s"] for e in run.of("step")}
            gaps = [at[s + 1] - at[s] for s in at if s + 1 in at]
            excess.append(at[event["step"] + 1] - at[event["step"]] - statistics.median(gaps))
    finally:
        folder.close()
    copy = statistics.median(copies)
    about = {"bytes": sizes[-1], "memcpy_s": copy}
    emit("checkpoint_held_up", held, "s", at_most=max(0.010, 1.2 * copy), **about)
    emit("checkpoint_step_excess", excess, "s", target="none: the copy runs beside the step",
         **about)


def begin(options):
    """Figure 8."""
    for name in options.models:
        folder = new_folder(options)
        ours, loading = [], []
        try:
            command = [os.path.join(options.build, "tests/bench/bare_loop"), folder.program(name)]
            for number in range((options.rounds or 20) + 1):
                loop = Loop([command], words=("loaded",))
                loaded = time.monotonic() - loop.started
                loop.close()
                run = start(options, folder, name, "--replicas", "1")
                run.wait_step(1)
                first = time.monotonic() - run.started
                run.abandon()
                folder.check_nothing_left()
                if number > 0:  # the first one fills the page cache
                    ours.append(first)
                    loading.append(loaded)
        finally:
            folder.close()
        emit("start_to_first_step", [a - b for a, b in zip(ours, loading)],
             "s above loading LibTorch",
             at_most=1.0, model=name, start_s=statistics.median(ours),
             loading_s=statistics.median(loading))
