"""`adaptdl run --deterministic`: bitwise the same weights, losses and metrics for any replicas.

By hand, more random schedules, each with its seed: --only schedule --times 50.
"""

import hashlib
import os
import signal

from support import Network, check, free_port, kill, main, read_json

STEPS = 4 * 33  # of 720 samples, in batches of 22, the last of each pass of 16


def weights_of(run):
    """The digest of all tensors in its folder's last checkpoint: parameters, buffers, optimizer."""
    folder = run.of("start")[0]["checkpoint_dir"]
    newest = max(name for name in os.listdir(folder) if name.startswith("step-"))
    digest = hashlib.sha256(newest.encode())
    for entry in sorted(read_json(os.path.join(folder, newest, "manifest.json"))["tensors"],
                        key=lambda entry: entry["name"]):
        with open(os.path.join(folder, newest, entry["file"]), "rb") as file:
            file.seek(entry["offset"])
            digest.update(entry["name"].encode() + file.read(entry["bytes"]))
    return digest.hexdigest()


def results_of(runs):
    """What must be the same: the weights at the end, every step's loss, every validation."""
    losses, metrics = {}, {}
    for run in runs:
        for event in run.of("step"):
            check(losses.setdefault(event["step"], event["loss"]) == event["loss"],
                  f"step {event['step']} was repeated with another loss")
        metrics |= {event["step"]: event["metrics"] for event in run.of("validation")}
    return losses, metrics, weights_of(runs[0])  # the last may only say that all was done


def same(ours, expected, what):
    for step in sorted(ours[0]):  # those around a death of all may have been said by nobody
        check(ours[0][step] == expected[0].get(step),
              f"{what}: the first other loss is that of step {step}", ours[0][step],
              expected[0].get(step))
    check(all(ours[1][step] == expected[1][step] for step in ours[1]), f"{what}: other metrics",
          ours[1], expected[1])
    check(ours[2] == expected[2], f"{what}: other weights, in spite of the same losses")


def alone(folder, *arguments):
    run = folder.run(folder.program("random"), "--deterministic", "--name", "alone", *arguments)
    run.expect_end(0, 200)
    run.check_steps(last=STEPS)
    check(run.of("batch")[0]["atomic"] == 3 and run.of("step")[0]["batch"] == 22, "other shards",
          run.of("batch"))
    return results_of([run])


def numbers_of_replicas(folder, draw):
    """Aligned ranges of shards, others, and more replicas than shards; another number of shards
    gives other weights."""
    expected = alone(folder)
    for replicas in (2, 3, 8):
        run = folder.run(folder.program("random"), "--deterministic", "--name", f"of-{replicas}",
                         "--replicas", str(replicas))
        run.expect_end(0, 200)
        run.check_steps(last=STEPS)
        check({e["replicas"] for e in run.of("step")} == {replicas}, "other replicas")
        same(results_of([run]), expected, f"{replicas} replicas")
    results = []
    for replicas in ("1", "4"):
        run = folder.run(folder.program("random"), "--deterministic", "--name", f"3-by-{replicas}",
                         "--replicas", replicas, "--set", "deterministic_shards=3")
        run.expect_end(0, 200)
        results.append(results_of([run]))
    same(results[1], results[0], "4 replicas for 3 shards")
    check(results[0][2] != expected[2], "3 and 8 shards give the same bits")


class Schedule:
    """A run that is rescaled, killed and restarted at random; each start is on 1 to 3 hosts."""

    def __init__(self, folder, draw, most_hosts):
        self.folder, self.draw, self.most_hosts = folder, draw, most_hosts
        self.network = Network(folder, most_hosts) if most_hosts > 1 else None
        self.runs, self.told = [], []

    def start(self):
        hosts = self.draw.randint(1, self.most_hosts)
        replicas = self.draw.randint(1, 8 if hosts == 1 else 3)
        words = ["--deterministic", "--name", "schedule", "--max-restarts", "1000",
                 "--replicas", str(replicas)]
        port, self.others = free_port(), []
        self.told.append(f"{hosts} hosts with {replicas} replicas each")
        for host in range(hosts):
            before = self.network.on(host) if self.network else []
            if hosts > 1:
                words_of_host = [*words, "--nnodes", str(hosts), "--rdzv-endpoint",
                                 f"{self.network.address(0)}:{port}", "--rdzv-key",
                                 self.folder.file("hosts.key")]
            else:
                words_of_host = words
            run = self.folder.run(self.folder.program("random"), *words_of_host, before=before)
            if host == 0:
                self.run = run
                if hosts > 1:
                    run.says("waiting for hosts")
            else:
                self.others.append(run)
        self.runs.append(self.run)
        self.run.wait_for(lambda events: any(e["event"] in ("step", "end") for e in events) or None,
                          "its first step", 200)

    def ended(self):
        return self.run.process.poll() is not None or bool(self.run.of("end"))

    def disturb(self):
        """One random event; returns whether the run must be started again."""
        what = self.draw.choice(["scale", "scale", "kill", "kill", "stop", "launcher"])
        self.told.append(f"{what} after step {self.run.last_step()}")
        if what == "scale":
            self.run.request(request="scale", replicas=self.draw.randint(1, 8))
        elif what == "kill":
            members = list(self.run.members().values())
            for pid in self.draw.sample(members, self.draw.randint(1, min(2, len(members)))):
                kill(pid)
        elif what == "stop":
            self.run.signal(signal.SIGTERM)
        else:
            kill(self.run.process.pid)
        return what in ("stop", "launcher")

    def play(self):
        self.start()
        for _ in range(12):
            if self.ended():
                break
            try:
                until = self.run.last_step() + self.draw.randint(1, 25)
                self.run.wait_for(lambda events: any(
                    e["event"] == "end" or (e.get("step", 0) >= until and e["event"] == "step")
                    for e in events), f"step {until}", 200)
                again = not self.ended() and self.disturb()
            except (OSError, ValueError):
                break  # it is ending
            if again:
                self.run.end(200)
                self.end_others()
                if self.run.of("end") and self.run.end_event()["result"] == "finished":
                    break
                self.start()
        code = self.run.end(300)
        self.end_others()
        if not (self.run.of("end") and self.run.end_event()["result"] == "finished"):
            check(code == 143, f"exit code {code}")
        print("    " + "; ".join(self.told), flush=True)

    def end_others(self):
        for other in self.others:
            if other.process.poll() is None:
                other.signal(signal.SIGTERM)
            other.end(100)


def play(folder, draw, most_hosts):
    expected = alone(folder)
    schedule = Schedule(folder, draw, most_hosts)
    try:
        schedule.play()
        # The last steps alone, if it was stopped at the very end.
        if schedule.run.end_event()["result"] != "finished":
            schedule.most_hosts = 1
            schedule.start()
            schedule.run.expect_end(0, 200)
        same(results_of(schedule.runs), expected, "; ".join(schedule.told))
    finally:
        if schedule.network:
            schedule.network.close()


def schedule(folder, draw):
    """Rescales, deaths of replicas and of the launcher, stops and restarts."""
    play(folder, draw, 1)


def schedule_of_hosts(folder, draw):
    """The same on up to three hosts."""
    play(folder, draw, 3)


def refused(folder, draw):
    """What cannot be the same every time is refused."""
    for setting, sentence in (
            ("batch.adaptive=true", "contradicts deterministic: the batch would follow"),
            ("max_time=1h", "contradicts deterministic: training would end by the clock"),
            ("data.continuous=true", "contradicts deterministic: a place in the batch"),
            ("batch.atomic_max=2", "2 is less than the 3 samples of a shard")):
        run = folder.run(folder.program("random"), "--deterministic", "--set", setting)
        run.expect_end(1)
        run.says(sentence)


main(numbers_of_replicas, schedule, schedule_of_hosts, refused)
