"""`adaptdl __runner`: the process that runs one job of the local cluster in the job's folder."""

import json
import os
import signal
import subprocess
import time

from support import (PATIENCE, ask, check, json_lines, kill, main, read, read_json, stat_fields,
                     status_of, wait_until)

# A stand-in for a Python AdaptDL 0.2.11 program, with the same contract: prints a line per step,
# resumes from the checkpoint with the largest number, and on SIGTERM writes one and exits 143.
SCRIPT = """
import os, signal, sys, time
rank, restarts = (int(os.environ["ADAPTDL_" + name]) for name in ("REPLICA_RANK", "NUM_RESTARTS"))
folder, told = os.environ["ADAPTDL_CHECKPOINT_PATH"], []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
numbers = [int(n.split("-")[1]) for n in os.listdir(folder) if n.startswith("checkpoint-")]
step = 0
if numbers:
    with open(f"{folder}/checkpoint-{max(numbers)}/step") as file:
        step = int(file.read())
print("starts at", step, "of", os.environ["ADAPTDL_NUM_REPLICAS"], flush=True)
while step < int(sys.argv[1]):
    if told:
        if rank == 0:
            os.mkdir(folder + "/_checkpoint")
            with open(folder + "/_checkpoint/step", "w") as file:
                file.write(str(step))
            os.rename(folder + "/_checkpoint", f"{folder}/checkpoint-{restarts}")
            for number in numbers:
                os.remove(f"{folder}/checkpoint-{number}/step")
                os.rmdir(f"{folder}/checkpoint-{number}")
        sys.exit(143)
    step += 1
    print("step", step, flush=True)
    time.sleep(0.02)
"""


class Runner:
    """A job's folder and its runner. `earlier`: the folder as written by a service of format 1."""

    def __init__(self, folder, earlier=False, tensorboard=None, **spec):
        self.folder, self.path = folder, folder.file("job")
        os.mkdir(self.path, 0o700)
        self.process = None
        grant = {"name": "job", "namespace": "default", "directory": folder.path,
                 "min_replicas": 1, "max_replicas": None, "slot_kind": "core",
                 "slots_per_replica": 1, "tensorboard": tensorboard}
        spec = {"format": 1, "arguments": [], "settings": [], "environment": {},
                "grace_s": 20} | spec
        self.write_job(grant | spec if earlier else {"format": 2, "grant": grant, "spec": spec})

    def file(self, name):
        return os.path.join(self.path, name)

    def write_job(self, job):
        self.folder.write("job/job.json", json.dumps(job))

    def start(self, slots, *arguments):
        self.process = self.folder.start(
            [self.folder.binary, "__runner", self.path, "--slots", slots, *arguments], cwd="/",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self.process

    def end(self):
        return self.process.wait(PATIENCE)

    def expect_end(self, code):
        got = self.end()
        check(got == code, f"the runner: exit code {got}, not {code}")

    def read(self, name):
        return read_json(self.file(name))

    def request(self, **request):
        answer = ask(self.file("control.sock"), **request)
        check(answer["ok"], "a request was refused", answer)
        return answer

    def status(self):
        try:
            return self.request(request="status")
        except OSError:
            return {"members": [], "replicas": 0, "slots": None, "step": None}

    def log(self, rank=0):
        try:
            return read(self.file(f"logs/replica-{rank}.log"))
        except OSError:
            return ""

    def wait_log(self, text, rank=0):
        wait_until(lambda: text in self.log(rank), f"{text!r} in the log of replica {rank}")

    def wait_step(self, more):
        step = self.status()["step"] or 0
        wait_until(lambda: (self.status()["step"] or 0) >= step + more, f"{more} more steps")

    def events(self):
        return json_lines(self.file("events.jsonl"))

    def wait_replicas(self, count):
        wait_until(lambda: self.status()["replicas"] == count, f"{count} replicas")

    def wait_slots(self, slots):
        wait_until(lambda: self.status()["slots"] == slots, f"slots {slots}")


def cores_of(pid):
    return status_of(pid, "Cpus_allowed_list")


def command(folder, steps):
    folder.write("train.py", SCRIPT)
    return Runner(folder, kind="command", program="python3", arguments=["train.py", str(steps)])


def script_is_rescaled(folder, draw):
    """An independent program: pinned to its cores, rescaled from 1 to 2 replicas and back, stopped
    and restarted, without missing a step."""
    runner = command(folder, 400)
    runner.start("0")
    runner.wait_log("step 5\n")
    check(cores_of(runner.status()["members"][0]["pid"]) == "0", "not on its core")
    cores = os.cpu_count()
    runner.request(request="scale", replicas=2, **({"slots": [0, 1]} if cores > 1 else {}))
    for rank in (0, 1):  # before that they do not handle SIGTERM
        runner.wait_log("of 2\n", rank)
    runner.wait_replicas(2)
    status = runner.status()
    if cores > 1:
        check(status["slots"] == [0, 1], "other slots", status)
        check([cores_of(m["pid"]) for m in status["members"]] == ["0", "1"], "not on their cores")
    runner.request(request="scale", replicas=1, **({"slots": [1]} if cores > 1 else {}))
    wait_until(lambda: runner.log().count("starts at") == 3, "a third start")
    runner.process.send_signal(signal.SIGTERM)
    runner.expect_end(143)
    check(runner.read("run.json")["state"] == "stopped", "its record", runner.read("run.json"))
    runner.start("0")
    runner.expect_end(0)
    record = runner.read("run.json")
    check(record["state"] == "finished" and record["exit_code"] == 0, "its record", record)
    steps = [int(line.split()[1]) for line in runner.log().splitlines() if line[:4] == "step"]
    check(steps == list(range(1, 401)), "steps are lost, or come twice", steps[:20])


def runner_is_killed(folder, draw):
    """SIGKILL of the runner: its replicas die too, and the next runner continues. A second runner
    at the same time exits at once."""
    runner = command(folder, 300)
    first = runner.start("0")
    runner.wait_log("step 5\n")
    mine = runner.read("runner.json")
    check(mine["pid"] == first.pid and mine["protocol"] == 1, "its record", mine)
    check(runner.start("0").wait(PATIENCE) == 75, "a second runner")
    check(runner.read("runner.json") == mine, "the second one changed the record")
    runner.process = first
    pids = [member["pid"] for member in runner.status()["members"]]
    first.kill()
    runner.end()
    wait_until(lambda: not any(stat_fields(pid) for pid in pids), "dead replicas")
    runner.start("0")
    runner.expect_end(0)
    check(runner.read("run.json")["generation"] == 1, "its number", runner.read("run.json"))


def nothing_elastic(folder, draw):
    """/bin/true succeeds quickly; a missing program gives a message. Uses the earlier format."""
    runner = Runner(folder, earlier=True, kind="command", program="/bin/true")
    times, starts = [], []
    for _ in range(5):
        begun = time.monotonic()
        runner.start("0")
        runner.expect_end(0)
        ended = time.monotonic()
        folder.command("--version")
        times.append(ended - begun)
        starts.append(time.monotonic() - ended)
    check(min(times) - min(starts) < 1.0, "slow", times, starts)
    print(f"    /bin/true takes {min(times) * 1e3:.0f} ms at best", flush=True)
    runner.write_job(runner.read("job.json") | {"program": "./nowhere"})
    runner.start("0")
    runner.expect_end(1)
    check("nowhere" in runner.read("run.json")["reason"], "no reason", runner.read("run.json"))


def archive_moves(folder, draw):
    """A training archive: moves between cores while it trains; its events, record and charts."""
    charts = folder.file("charts")
    runner = Runner(folder, kind="archive", program=folder.program("slow"), tensorboard=charts,
                    settings=["epochs=1000"])
    runner.start("0")
    runner.wait_step(5)
    (member,) = runner.status()["members"]
    check(cores_of(member["pid"]) == "0", "not on its core")
    if os.cpu_count() > 1:
        runner.request(request="scale", replicas=2, slots=[0, 1])
        runner.wait_replicas(2)
        for slots in ([1], [0]):
            runner.request(request="scale", replicas=1, slots=slots)
            runner.wait_slots(slots)
    runner.wait_step(5)
    runner.process.send_signal(signal.SIGTERM)
    runner.expect_end(143)
    record, events = runner.read("run.json"), runner.events()
    check(record["state"] == "stopped" and record["step"] > 10, "its record", record)
    check(not [e for e in events if e["event"] in ("resume", "failure")], "not live", events)
    check(os.listdir(os.path.join(charts, "job")), "no charts")
    runner.start("0")
    runner.wait_step(1)
    # What it reports over its socket may not be written yet.
    wait_until(lambda: [e for e in runner.events() if e["event"] == "resume"], "a resume")
    kill(runner.process.pid)
    runner.end()
    check(runner.events()[-1]["event"] != "end", "its events")


def stretched(folder, draw):
    """Steps as long as in a profile, and hints that match."""
    profile = "placements:\n" + "".join(
        f"  - {{gpus: [{replicas}], atomic: {atomic}, step_s: {0.15 + sync}, sync_s: {sync}}}\n"
        for replicas, sync in ((1, 0.0), (2, 0.05)) for atomic in (1, 1000))
    folder.environment["ADAPTDL_TEST_STRETCH"] = folder.write("profile.yaml", profile)
    runner = Runner(folder, kind="archive", program=folder.program("adaptive"),
                    settings=["epochs=1000"])
    runner.start("0")
    wait_until(lambda: runner.status().get("hints"), "hints")
    runner.wait_step(10)
    hints = runner.status()["hints"]
    check(hints["initBatchSize"] == 24 and hints["maxBatchSize"] == 192, "its batch", hints)
    check(24 <= hints["globalBatchSize"] <= 192, "its present batch", hints)
    check(hints["maxProfiledReplicas"] == 1 and "rescaleCost" not in hints, "no rescale yet", hints)
    check(30000 < hints["remainingProgress"] < 40000, "its end", hints)
    alone = [e["optim_s"] for e in runner.events() if e["event"] == "step"]
    check(alone and 0.15 <= min(alone) < 1, "steps of another length", alone)
    if os.cpu_count() > 1:
        runner.request(request="scale", replicas=2, slots=[0, 1])
        wait_until(lambda: runner.status()["hints"].get("rescaleCost") is not None, "its cost")
        wait_until(lambda: runner.status()["hints"]["maxProfiledReplicas"] == 2, "two measured")
        perf = runner.status()["hints"]["perfParams"]
        check(0.1 < perf["alpha_c"] + 24 * perf["beta_c"] < 0.5, "another step time", perf)
        both = [e["optim_s"] for e in runner.events() if e["event"] == "step"
                and e["replicas"] == 2]
        check(both and all(t >= 0.2 for t in both), "steps of another length", both)
    check(not [e for e in runner.events() if e["event"] == "hints"], "hints are events")
    runner.process.send_signal(signal.SIGTERM)
    runner.expect_end(143)


main(script_is_rescaled, runner_is_killed, nothing_elastic, archive_moves, stretched)
