"""Replicas that nobody launches find each other by ADAPTDL_* variables, and train as under the
launcher."""

import contextlib
import json
import os
import re
import shutil
import signal
import sys

from support import (check, end, free_port, kill, main, read, run_command, service, skip,
                     wait_until)

PATIENCE = 120
LISTENS = """import socket, sys
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
with open(sys.argv[1], "wb", 0) as out:
    while True:
        out.write(packets.recv(1 << 16))
"""
LAST = 4 * 61  # steps of the program: 1442 images in batches of 24


class Group:
    """Replicas of a program, each started with nothing but variables."""

    def __init__(self, folder, name, replicas, *words, program="open_program", **more):
        self.folder, self.name, self.replicas = folder, name, replicas
        if not os.path.exists(folder.file("digits")):
            code, said, error = folder.command("init", "digits", folder.file("digits"))
            check(code == 0, "no example", said, error)
        if not os.path.exists(folder.file("digits", program)):
            shutil.copy(os.path.join(folder.material, "..", program), folder.file("digits"))
        self.words = [folder.file("digits", program), *words]
        self.variables = {"ADAPTDL_MASTER_ADDR": "127.0.0.1",
                          "ADAPTDL_MASTER_PORT": str(free_port()),
                          "ADAPTDL_NUM_REPLICAS": str(replicas),
                          "ADAPTDL_CHECKPOINT_PATH": folder.file("kept")} | more
        if "ADAPTDL_LIBTORCH" in os.environ:
            self.variables["LD_LIBRARY_PATH"] = os.path.join(os.environ["ADAPTDL_LIBTORCH"], "lib")
        self.processes = {}
        self.places = {}  # by rank: what starts it on another host

    def log(self, rank):
        return self.folder.file(f"{self.name}-{rank}.log")

    def said(self, rank=0):
        return read(self.log(rank)) if os.path.exists(self.log(rank)) else ""

    def start(self, rank, **more):
        with open(self.log(rank), "wb") as log:
            self.processes[rank] = self.folder.start(
                self.places.get(rank, []) + self.words,
                self.variables | {"ADAPTDL_REPLICA_RANK": str(rank)} | more,
                cwd=self.folder.file("digits"), stdout=log, stderr=log)
        return self

    def start_all(self):
        for rank in reversed(range(self.replicas)):  # rank 0 last: the others wait for it
            self.start(rank)
        return self

    def wait_epoch(self, epoch=0):
        wait_until(lambda: f"epoch {epoch}:" in self.said(), f"epoch {epoch}", PATIENCE,
                   tell=self.said)

    def expect(self, code, ranks=None):
        for rank in self.processes if ranks is None else ranks:
            self.processes[rank].wait(PATIENCE)
            found = self.processes[rank].returncode
            check(found == code, f"replica {rank} of {self.name} ended with {found}, not {code}",
                  self.said(rank))


def checkpoints(folder):
    """Steps of the checkpoints that are there."""
    names = os.listdir(folder.file("kept")) if os.path.exists(folder.file("kept")) else []
    return sorted(int(name.removeprefix("step-")) for name in names if name.startswith("step-"))


def epochs_in(text):
    return [int(epoch) for epoch in re.findall(r"epoch (\d+):", text)]


def model(path):
    with open(path, "rb") as file:
        return file.read()


def same_as_launched(folder, draw):
    """Both loops give the same model, to the last bit, as two replicas of `adaptdl run`."""
    group = Group(folder, "open", 2)
    run = folder.run(group.words[0], "--replicas", "2")
    run.expect_end(0)
    for name, words in ("open", ()), ("closed", ("closed",)):
        kept = folder.file("kept-" + name)
        Group(folder, name, 2, *words, ADAPTDL_CHECKPOINT_PATH=kept).start_all().expect(0)
        check(model(folder.file("digits/model.pt")) == model(run.end_event()["model"]),
              f"{name}: another model")
        os.remove(folder.file("digits/model.pt"))


def interrupted(folder, draw):
    """SIGINT or SIGTERM to any replica ends all after a checkpoint; any number of them goes on."""
    group = Group(folder, "first", 2, "slow").start_all()
    group.wait_epoch()
    group.processes[draw.randrange(2)].send_signal(draw.choice([signal.SIGINT, signal.SIGTERM]))
    group.expect(143)
    first = checkpoints(folder)[-1]
    check(61 <= first < LAST, "no checkpoint of where it was", checkpoints(folder))
    group = Group(folder, "second", 3, "slow", "closed").start_all()
    wait_until(lambda: checkpoints(folder)[-1] > first, "progress", PATIENCE, tell=group.said)
    for process in group.processes.values():  # as a scheduler does
        process.terminate()
    group.expect(143)
    group = Group(folder, "third", 1).start_all()
    group.expect(0)
    check(epochs_in(group.said())[-1] == 3, "it did not go on to the end", group.said())
    check(checkpoints(folder)[-1] == LAST, "another last step", checkpoints(folder))


def death(folder, draw):
    """Where a replica dies, the others save what all have trained, and say so."""
    for dies, replicas in (0, 3), (draw.choice([1, 2]), 3):
        group = Group(folder, f"dies-{dies}", replicas, "slow").start_all()
        # The second group begins where the first one has ended, in whatever epoch.
        wait_until(lambda group=group: epochs_in(group.said()), "an epoch", PATIENCE,
                   tell=group.said)
        before = len(epochs_in(group.said()))
        kill(group.processes[dies].pid)
        others = [rank for rank in range(replicas) if rank != dies]
        group.expect(143, others)
        for rank in others:
            check("has died" in group.said(rank), "it does not say why", group.said(rank))
        check(checkpoints(folder)[-1] >= 61 * before, "steps are lost", checkpoints(folder))
    group = Group(folder, "rest", 2).start_all()
    group.expect(0)
    check(checkpoints(folder)[-1] == LAST, "another last step", checkpoints(folder))


def stopped(folder, draw):
    """One that was stopped holds up the others only for so long; continued, it ends."""
    group = Group(folder, "stopped", 3, "slow", ADAPTDL_HANG_TIMEOUT="2").start_all()
    group.wait_epoch()
    one = draw.choice([1, 2])
    group.processes[one].send_signal(signal.SIGSTOP)
    group.expect(143, [0, 3 - one])
    said = f"replica {one} made no progress"
    check(said in group.said() and said in group.said(3 - one), "another reason", group.said())
    check(checkpoints(folder)[-1] >= 61, "steps are lost", checkpoints(folder))
    group.processes[one].send_signal(signal.SIGCONT)
    group.expect(1, [one])
    check("ADAPTDL_HANG_TIMEOUT" in group.said(one), "another reason", group.said(one))


def waits(folder, draw):
    """A replica says for whom it waits, and not for ever; one that does not fit is refused."""
    soon = {"ADAPTDL_JOIN_TIMEOUT": "0.5"}
    late = Group(folder, "late", 2, **soon)
    late.start(0).expect(1)
    check("no replica with rank 1 has come" in late.said(), "another reason", late.said())
    late.start(1).expect(1, [1])
    check(late.variables["ADAPTDL_MASTER_PORT"] in late.said(1), "no address", late.said(1))
    check("does not answer" in late.said(1), "another reason", late.said(1))

    group = Group(folder, "group", 2)
    group.start(0)
    wait_until(lambda: "waiting for 1 of 2 replicas at 127.0.0.1:" in group.said(), "a word",
               PATIENCE, tell=group.said)
    stranger = Group(folder, "stranger", 3,
                     ADAPTDL_MASTER_PORT=group.variables["ADAPTDL_MASTER_PORT"])
    stranger.start(1).expect(1)
    check("ADAPTDL_NUM_REPLICAS is 3 here and 2 on rank 0" in stranger.said(1), "another reason",
          stranger.said(1))
    group.start(1).expect(0)

    # Before training there is nothing to save: all end at once.
    stopped = Group(folder, "stopped", 2).start(0)
    wait_until(lambda: "waiting for" in stopped.said(), "a word", PATIENCE, tell=stopped.said)
    stopped.processes[0].terminate()
    stopped.expect(143)


def under_a_scheduler(folder, draw):
    """As the command of a job: the supervisor tells where rank 0 is and gets hints; the scheduler
    stops and starts replicas, and starts all again when one dies."""
    group = Group(folder, "job", 1)
    with service(folder, "--slots", "2") as local:
        name = local.submit(group.words[0], "slow", "--", directory=folder.file("digits"),
                            environment={key: group.variables[key] for key in ("LD_LIBRARY_PATH",)
                                         if key in group.variables})

        def trained(epoch):
            wait_until(lambda: f"epoch {epoch}:" in local.logs(name), f"epoch {epoch}", PATIENCE)

        trained(0)
        local.wait_job(name, lambda job: job["hints"] and json.loads(job["hints"])["perfParams"],
                       "hints")
        local.ask("scale", name=name, min=2, max=2)
        # Epoch 1 may have ended before that, if the hints came late.
        members = wait_until(lambda: next((found for found in [
            local.runner_status(name).get("members", [])] if len(found) == 2), None), "a rescale")
        trained(1)
        victim = draw.choice(members)
        check(kill(victim["pid"]), "the replica is gone already")
        local.wait_end(name, timeout=PATIENCE)
        check(sorted(set(epochs_in(local.logs(name)))) == [0, 1, 2, 3], "epochs are missing",
              local.logs(name))
        last = os.listdir(local.job_file(name, "checkpoints"))
        check(f"step-{LAST:012}" in last, "another last step", last)


def exchanged(folder, draw):
    """Values of a program that trains nothing; and what the others see when a replica dies."""
    group = Group(folder, "values", 3, program="collective_program").start_all()
    group.expect(0)
    for rank in range(3):
        said = dict(line.split(" ", 1) for line in group.said(rank).splitlines())
        refused = said.pop("refused")
        check("differ in type or shape" in refused, "another refusal", refused)
        check(said == {"sum": "7.5", "count": "3", "largest": "20", "smallest": "-1", "mean": "6",
                       "ranks": "012", "word": "first", "later": str(3 * 4950), "still": "3"},
              f"rank {rank} has other values", said)
    dying = Group(folder, "dying", 3, "die", program="collective_program").start_all()
    dying.expect(7, [1])
    dying.expect(3, [0, 2])
    for rank in (0, 2):
        check("sum 7.5\nerror " in dying.said(rank), "no error", dying.said(rank))


class Cable:
    """Two hosts, as far as a network tells, and the cable between them."""

    def __init__(self, folder):
        self.folder = folder
        hold = ["unshare", "--net", "sleep", "600"]
        if run_command([*hold[:2], "true"]).returncode != 0:
            skip("it needs the right to make network namespaces")
        self.hosts = [folder.start(hold) for _ in range(2)]
        here = os.readlink("/proc/self/ns/net")
        for host in self.hosts:
            wait_until(lambda host=host: os.readlink(f"/proc/{host.pid}/ns/net") != here,
                       "a network of its own")
        a, b = (str(host.pid) for host in self.hosts)
        run_command(["ip", "link", "add", "cable", "netns", a, "type", "veth", "peer", "name",
                     "cable", "netns", b], 0)
        for i in range(2):
            for words in (["addr", "add", f"10.77.0.{i + 1}/24", "dev", "cable"],
                          ["link", "set", "lo", "up"], ["link", "set", "cable", "up"]):
                self.ip(i, *words)

    def close(self):
        for host in self.hosts:
            end(host)

    def on(self, host):
        return ["nsenter", f"--net=/proc/{self.hosts[host].pid}/ns/net"]

    def ip(self, host, *words):
        run_command([*self.on(host), "ip", *words], 0)

    @contextlib.contextmanager
    def heard(self, name):
        """What goes through the cable meanwhile."""
        path = self.folder.file(name + ".packets")
        listener = self.folder.start([*self.on(1), sys.executable, "-c", LISTENS, path])
        wait_until(lambda: os.path.exists(path), "a listener")
        try:
            yield lambda: read(path)
        finally:
            end(listener)

    def group(self, folder, name, *words):
        group = Group(folder, name, 2, *words, ADAPTDL_MASTER_ADDR="10.77.0.1")
        group.places = {0: self.on(0), 1: self.on(1)}
        return group


def two_hosts(folder, draw):
    """Between hosts the model is the same; when the network fails, what was trained is kept."""
    cable = Cable(folder)
    models = []
    for group, key in ((Group(folder, "here", 2), ""), (cable.group(folder, "apart"), ""),
                       (cable.group(folder, "trusted"), "of these replicas alone")):
        group.variables["ADAPTDL_CHECKPOINT_PATH"] = folder.file("kept-" + group.name)
        group.variables["ADAPTDL_LINK_KEY"] = key
        with cable.heard(group.name) as heard:
            group.start_all().expect(0)
        models.append(model(folder.file("digits/model.pt")))
        os.remove(folder.file("digits/model.pt"))
        check(('"type":"join"' in heard()) == (group.name == "apart"), "who hears what", group.name)
    check(models[0] == models[1] == models[2], "another model")

    group = cable.group(folder, "stranger")
    group.variables["ADAPTDL_LINK_KEY"] = "of these replicas alone"
    group.start(0).start(1, ADAPTDL_LINK_KEY="of other replicas")
    group.expect(1, [1])
    check("cannot trust each other" in group.said(1), "it does not say why", group.said(1))
    group.processes[0].terminate()
    group.expect(143, [0])

    group = cable.group(folder, "cut", "slow").start_all()
    group.wait_epoch()
    cable.ip(1, "link", "set", "cable", "down")
    group.expect(143)
    for rank in range(2):
        check("has died" in group.said(rank), "it does not say why", group.said(rank))
    check(checkpoints(folder)[-1] >= 61, "steps are lost", checkpoints(folder))
    cable.ip(1, "link", "set", "cable", "up")
    group = cable.group(folder, "rest").start_all()
    group.expect(0)
    check(checkpoints(folder)[-1] == LAST, "another last step", checkpoints(folder))
    cable.close()


main(exchanged, same_as_launched, interrupted, death, stopped, waits, two_hosts, under_a_scheduler)
