"""Elastic training under the service: jobs grow, shrink, wait and resume, and every step runs
once."""

import contextlib
import json
import os
import shutil
import signal
import time

from support import ENDED, check, kill, main, service, wait_until

STEPS_PER_EPOCH = 40  # of slow.pt and divisible.pt, for any number of replicas


def submit(local, epochs, program="slow", **spec):
    return local.submit(local.folder.program(program),
                        **({"settings": [f"epochs={epochs}"], "max_replicas": 2} | spec))


def check_finished(local, name, epochs):
    local.wait_end(name, timeout=200)
    record = local.record(name)
    check(record["step"] == epochs * STEPS_PER_EPOCH, f"{record['step']} steps")
    check(os.path.exists(local.job_file(name, "output", "model.pt")), "no model")


def check_steps_once(local, name):
    """Of a job that was cancelled and never went back: up to its checkpoint, every step ran once.
    Its events do not tell of each step."""
    events, record = local.run_events(name), local.record(name)
    back = [event for event in events if event["event"] in ("resume", "failure")]
    check(not back, "it went back", back)
    epochs = [(event["epoch"], event["step"]) for event in events if event["event"] == "epoch"]
    check(epochs and epochs == [(n, n * STEPS_PER_EPOCH) for n in range(1, len(epochs) + 1)],
          "an epoch has other steps", epochs)
    kept = [event["step"] for event in events if event["event"] == "checkpoint"][-1:]
    check(kept == [record["step"]] == [record["steps"]], "its last checkpoint", kept, record)


def wait_grown(local, name):
    wait_until(lambda: local.runner_status(name).get("replicas") == 2, f"{name} has two replicas")


def makes_room(local, first):
    """A job that has grown gives up a slot while another job trains."""
    wait_grown(local, first)
    second = submit(local, 25)  # 10 s, so that it is seen to run
    local.wait_phase(second, "Running")
    check(local.runner_status(first).get("replicas") == 1, "it has shrunk first")
    check_finished(local, second, 25)


def grows_and_shrinks(folder, random):
    """A single job gets both slots after its first measurements, gives one up to a new job and gets
    it back, all without a restart."""
    with service(folder, "--slots", "2") as local:
        first = submit(local, 12, "divisible")
        local.wait_job(first, lambda job: job["slots"] == "[0,1]", "it has both slots")
        makes_room(local, first)
        wait_grown(local, first)
        check_finished(local, first, 12)
        job = local.job(first)
        check(job["starts"] == 1 and job["restarts"] >= 3, "live rescales", job)


def moves(folder, random):
    """A job that trains moves to slots of another kind, which makes room for a larger one, and
    measures itself on both."""
    def has_measured(kind):
        return lambda job: kind in json.loads(job["hints"] or "{}").get("accelerators", {})

    with service(folder, "--slots", "fast=2,slow=1") as local:
        # Endless: when it is worth a move depends on how long starts take here.
        first = submit(local, 1000000, max_replicas=1)
        local.wait_job(first, has_measured("fast"), "it has measured itself on a fast slot")
        control = local.job_file(first, "control.sock")
        os.rename(control, control + ".away")  # the request to move is lost
        second = local.shell("sleep 1", min_replicas=2, max_replicas=2)
        local.wait_job(first, lambda job: job["slots"] == "[0,2]", "it is to move")
        time.sleep(0.5)
        os.rename(control + ".away", control)
        local.wait_end(second)
        local.wait_job(first, has_measured("slow"), "it has measured itself on the slow slot")
        moved_at = local.runner_status(first)["step"]
        wait_until(lambda: local.runner_status(first).get("step", 0) > moved_at + STEPS_PER_EPOCH,
                   "the end of an epoch there")
        local.ask("cancel", name=first)
        local.wait_end(first, "Cancelled")
        check(local.job(first)["starts"] == 1, "it moved without a restart", local.job(first))
        check_steps_once(local, first)


def linked(folder, random):
    """A program linked with the runtime library grows and shrinks like a train.pt."""
    program = folder.file("linked")
    shutil.copy(os.path.join(folder.material, "..", "linked_program"), program)
    with service(folder, "--slots", "2") as local:
        # Its steps sleep: it would end first where the other one is slow to start.
        first = local.submit(program, kind="executable", settings=["epochs=75"], max_replicas=2)
        makes_room(local, first)
        check_finished(local, first, 75)
        check(local.job(first)["starts"] == 1, "live rescales")


def suspended(folder, random):
    with service(folder, "--slots", "1") as local:
        name = submit(local, 30)
        wait_until(lambda: local.runner_status(name).get("step", 0) > 20, "it trains")
        local.ask("suspend", name=name)
        local.wait_phase(name, "Suspended")
        step = local.record(name)["step"]
        local.ask("resume", name=name)
        wait_until(lambda: local.runner_status(name).get("step", 0) > step, "it goes on")
        check_finished(local, name, 30)
        check(local.record(name).get("state") == "finished", "the record")


def without_service(folder, random):
    """Jobs keep training without a service, and the next service finds them."""
    with service(folder, "--slots", "2") as local:
        # The short job takes some seconds too, so that it still trains when both have started.
        first, second = submit(local, 60, max_replicas=1), submit(local, 20)
        for name in (second, first):
            wait_until(lambda: local.runner_status(name).get("step", 0) > 5, "it trains")
        pid = local.runner_pid(first)
        local.kill()
        wait_until(lambda: not local.runner_status(second), "the short one ends by itself")
        local.start()
        check_finished(local, second, 20)
        check(local.runner_pid(first) == pid, "it was started anew")
        check_finished(local, first, 60)


def fill(path, seconds):
    """Fills the file system for a while."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    time.sleep(seconds)  # the time itself is tested
    os.remove(path)


def chaos(folder, random):
    """Random kills and stops of service, runners and workers; at the end each job has finished,
    once, with all of its steps. ADAPTDL_CHAOS_S=600 makes it longer. If TMPDIR is on a small file
    system of its own (at most 1 GB), the test also fills it."""
    epochs, seconds = 25, float(os.environ.get("ADAPTDL_CHAOS_S", "60"))
    disk = os.statvfs(folder.path)
    small = disk.f_blocks * disk.f_frsize <= 1 << 30
    with service(folder, "--slots", "2") as local:
        # Four kills before a step is finished are normal here.
        names = [submit(local, epochs, retries=20) for _ in range(3)]
        end = time.monotonic() + seconds
        stopped = []
        while time.monotonic() < end:
            time.sleep(random.uniform(0.2, 2.0))  # a random time
            what = random.choice(["service", "runner", "worker", "worker", "stop"] +
                                 ["fill"] * small)
            live = [name for name in names if local.runner_status(name)]
            if what == "service":
                local.kill()
                time.sleep(random.uniform(0, 1))  # without a service
                local.start()
            elif what == "fill":
                fill(folder.file("filler"), random.uniform(0.5, 5))
            elif live:
                name = random.choice(live)
                status = local.runner_status(name)
                pids = [member["pid"] for member in status.get("members", [])]
                if what == "runner":
                    kill(local.runner_pid(name))
                elif pids and what == "worker":
                    kill(random.choice(pids))
                elif pids:
                    stopped.append(random.choice(pids + [local.runner_pid(name)]))
                    kill(stopped[-1], signal.SIGSTOP)
            while stopped and random.random() < 0.5:
                kill(stopped.pop(), signal.SIGCONT)
            if all(local.job(name)["phase"] in ENDED for name in names):
                names.append(submit(local, epochs, retries=20))
        for pid in stopped:
            kill(pid, signal.SIGCONT)
        for name in names:
            check_finished(local, name, epochs)


main(grows_and_shrinks, moves, linked, suspended, without_service, chaos)
