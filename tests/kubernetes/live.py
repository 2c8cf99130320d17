"""A train.pt on a real cluster: its image, its pods that come and go during training, its model.

Usage: live.py ADAPTDL [TEST...], with ADAPTDL_TEST_KUBECONFIG, ADAPTDL_TEST_IMAGE and
ADAPTDL_TEST_REGISTRY.
"""

import base64
import contextlib
import json
import os
import re
import signal
import sys
import time

from commands import User, give_volume
from projects import tensorboard_image
from support import check, check_charts, run_command, skip_all, wait_until, write
from world import OPTIONS, run_tests

REGISTRY = os.environ.get("ADAPTDL_TEST_REGISTRY")


class Trainer:
    """A user with a project and its training image."""

    def __init__(self, world):
        self.world, self.user = world, User(world)
        self.project = os.path.join(world.folder, "digits")
        self.repository = f"{REGISTRY}/team/digits"
        self.pushed = False

    def here(self, *words):
        return run_command([self.world.adaptdl, *words], 0, 400).stdout

    def submit(self, *words, **expected):
        return self.user.run("submit", self.project, "--repo", self.repository,
                             "--checkpoint-storage-class", self.world.space, "-n", "digits", *words,
                             **expected).strip()

    def pod_of(self, name, rank):
        """The newest pod of that rank."""
        pods = [pod for pod in self.world.pods(name) if pod.endswith(f"-{rank}")]
        return pods[-1] if pods else None

    def launcher_said(self, name):
        return str(self.world.log(self.pod_of(name, 0)))

    def prepare(self):
        """Prepares the project, its image, and a storage class of the test's name with a volume."""
        give_volume(self.world, self.world.space)
        if not os.path.exists(self.project):
            self.here("init", "digits", self.project)
        # Without a request, other work on the machine would starve its pods.
        write(os.path.join(self.project, "adaptdljob.yaml"),
              "archive: train.pt\nresources: {cpu: 500m}\n")
        if not self.pushed:
            begun = time.monotonic()
            self.here("image", "push", self.repository + ":torch", "--with-torch")
            print(f"image push --with-torch: {time.monotonic() - begun:.0f} s", flush=True)
        self.pushed = True

    def wait_said(self, name, pattern):
        wait_until(lambda: re.search(pattern, self.launcher_said(name)), pattern, 240)

    def wait_replicas(self, name, count):
        return self.world.wait_status(
            name, lambda status: status.get("phase") == "Running" and
            status.get("readyReplicas") == status.get("replicas") == count, f"{count} replicas",
            240)


def no_image(trainer):
    """Without a training image, submit says how to build one."""
    trainer.here("init", "digits", trainer.project)
    said = trainer.submit(code=1)
    check(f"adaptdl image push {trainer.repository}:torch --with-torch" in said, "what to do", said)


def trains(trainer):
    """Pods join a running group, leave it and are killed: it stays the same group to its end."""
    world, user = trainer.world, trainer.user
    trainer.prepare()
    name = trainer.submit("--replicas", "1", "--set", "epochs=100000")
    trainer.wait_replicas(name, 1)
    trainer.wait_said(name, "epoch")

    begun = time.monotonic()
    user.run("scale", name, "3")
    trainer.wait_replicas(name, 3)
    trainer.wait_said(name, r"replicas [12] -> 3")
    print(f"from 1 to 3 replicas: {time.monotonic() - begun:.1f} s", flush=True)

    user.run("scale", name, "2")
    trainer.wait_replicas(name, 2)
    trainer.wait_said(name, "replicas 3 -> 2")
    world.wait_status(name, lambda status: status.get("train", {}).get("globalBatchSize"),
                      "its hints arrive")
    secret, = world.api.get(f"/api/v1/namespaces/{world.space}/secrets?labelSelector="
                            f"adaptdl%2Fjob%3D{name}")["items"]
    token = base64.b64decode(secret["data"]["token"]).decode()
    check(token not in trainer.launcher_said(name), "its token is in no log")

    victim = next(pod for pod in world.pods(name) if not pod.endswith("-0"))
    world.api.request("DELETE", f"/api/v1/namespaces/{world.space}/pods/{victim}"
                      "?gracePeriodSeconds=0")
    trainer.wait_said(name, "replicas 2 -> 1")
    trainer.wait_replicas(name, 2)
    trainer.wait_said(name, "replicas 2 -> 1(.|\n)*replicas 1 -> 2")
    status = world.status(name)
    check(status["group"] == 0 and status.get("failures", 0) == 0, "nothing began anew", status)
    user.run("cancel", name)
    world.wait_phase(name, "Failed")


def processes_of(world, name, rank):
    """The processes of a pod's adaptdl: its own, then the launcher that it has started."""
    wanted = {f"ADAPTDL_JOB_ID={world.space}/{name}", f"ADAPTDL_REPLICA_RANK={rank}"}
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe").endswith("/adaptdl"):
                with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:
                    variables = set(file.read().split("\0"))
                if wanted <= variables:
                    found.append(("ADAPTDL_SUCCEEDS=1" in variables, int(pid)))
    return [pid for _, pid in sorted(found)]


def submit_telling(trainer, *words, run=()):
    """A job whose launcher prints its events. `run`: further arguments of its command."""
    world, user = trainer.world, trainer.user
    name = trainer.submit(*words)
    container, = world.api.get(world.jobs(name))["spec"]["template"]["spec"]["containers"]
    container["args"] += ["-o", "json", *run]
    change = {"spec": {"suspend": True, "template": {"spec": {"containers": [container]}}}}
    status, answer = world.api.request("PATCH", world.jobs(name), change,
                                       "application/merge-patch+json")
    check(status == 200, "its arguments are changed", answer)
    world.wait_status(name, lambda status: status.get("reason") == "Suspended", "it is suspended")
    user.run("resume", name)
    return name


def told_by(world, pod, kind):
    """The events of that kind in a pod's log."""
    found = []
    for line in str(world.log(pod)).splitlines():
        with contextlib.suppress(ValueError):  # the last one may be cut
            event = json.loads(line)
            if isinstance(event, dict) and event.get("event") == kind:
                found.append(event)
    return found


def steps_of(world, pod):
    return [event["step"] for event in told_by(world, pod, "step")]


def lose_launcher(trainer, name, leads, lose):
    """Another pod leads after lose(), and the same replicas go on, which a new pod joins. Returns
    its rank, and the events of steps that the lost one has told, and this one."""
    world = trainer.world
    count = world.status(name)["replicas"]
    last = trainer.pod_of(name, leads)
    wait_until(lambda: told_by(world, last, "generation")[-1:] and
               told_by(world, last, "generation")[-1]["to"] == count, "all train", 120)
    trained = len(steps_of(world, last))
    wait_until(lambda: len(steps_of(world, last)) > trained + 5, "it trains", 120)
    others = {pod for pod, phase in world.pods(name).items() if phase == "Running"} - {last}
    seen = [told_by(world, last, "step")]  # the log may go with the pod
    begun = time.monotonic()
    lose()
    wait_until(lambda: seen.append(told_by(world, last, "step")) or
               world.status(name).get("launchers", [0])[-1] != leads, "another pod leads", 120)
    leads = world.status(name)["launchers"][-1]
    told = trainer.pod_of(name, leads)
    wait_until(lambda: steps_of(world, told), "training goes on", 120)
    print(f"replica {leads} leads: {time.monotonic() - begun:.1f} s to the next step", flush=True)
    before, after = max(seen, key=len), told_by(world, told, "step")
    steps = [event["step"] for event in after]
    check(steps == list(range(steps[0], steps[0] + len(steps))), "steps are missing", steps[:3])
    check(not told_by(world, told, "resume"), "a checkpoint was read")
    trainer.wait_replicas(name, count)
    wait_until(lambda: [event["to"] for event in told_by(world, told, "generation")][-1:] ==
               [count], "a new pod joins", 240)
    check(others <= set(world.pods(name)), "the others' pods stay", world.pods(name))
    return leads, before, after


def kill_pod(world, name, rank):
    os.kill(processes_of(world, name, rank)[0], signal.SIGKILL)


def launcher_dies(trainer):
    """The pod that leads is killed, twice: each time another one leads, the same replicas go on,
    and a new pod joins them. So it is in the middle of a rescale. The job succeeds."""
    world, user = trainer.world, trainer.user
    trainer.prepare()
    name = submit_telling(trainer, "--replicas", "3", "--set", "epochs=1000000", "--set",
                          "max_time=200s")  # more than the losses take on a busy machine
    trainer.wait_replicas(name, 3)
    wait_until(lambda: steps_of(world, trainer.pod_of(name, 0)), "it trains", 120)
    group, leads = world.status(name)["group"], 0
    for _ in range(2):
        leads, before, after = lose_launcher(trainer, name, leads,
                                             lambda rank=leads: kill_pod(world, name, rank))
        first = after[0]["step"]
        # Its log may be read a moment too early. What it has told last the others may tell again.
        check(first - before[-1]["step"] < 10, "steps are missing", (before[-1], first))
        again = [event["time_s"] for event in before if event["step"] >= first]
        check(not again or again[-1] - again[0] < 1, "much is told again", again)
    user.run("scale", name, "2")
    kill_pod(world, name, leads)
    world.wait_status(name, lambda status: status["launchers"][-1] != leads, "another pod leads",
                      120)
    trainer.wait_replicas(name, 2)
    status = world.wait_phase(name, "Succeeded", 300)
    check(status["group"] == group and status.get("failures", 0) == 0, "nothing began anew", status)
    said = user.run("logs", name)
    check("has joined with 1 slot" in said and said.count("leads the run now") == 3 and
          '"event":"end"' in said, "what its logs tell", said[-3000:])
    kinds = [kind for kind, _ in world.events()]
    check(kinds.count("LauncherReplaced") == 3, "its events", kinds)


def launcher_leaves(trainer):
    """The launcher's pod is deleted as a drain of its node does: its replica leaves, another pod
    leads, and hardly a step is missing. Then the pod that leads is killed and all are told to stop:
    their checkpoint has all steps."""
    world, user = trainer.world, trainer.user
    trainer.prepare()
    name = submit_telling(trainer, "--replicas", "2", "--set", "epochs=1000000")
    trainer.wait_replicas(name, 2)
    wait_until(lambda: steps_of(world, trainer.pod_of(name, 0)), "it trains", 120)
    group, leads = world.status(name)["group"], 0
    for _ in range(2):
        pod = trainer.pod_of(name, leads)
        path = f"/api/v1/namespaces/{world.space}/pods/{pod}"
        leads, before, after = lose_launcher(trainer, name, leads,
                                             lambda path=path: world.api.request("DELETE", path))
        missing = after[0]["step"] - before[-1]["step"] - 1
        check(missing >= 0, "steps are told again", (before[-1], after[0]))
        # The end of its log may have gone with the pod.
        step_s = (before[-1]["time_s"] - before[0]["time_s"]) / len(before)
        check(missing * step_s < 1, "many steps are missing", (missing, step_s))
    status = world.status(name)
    check(status["group"] == group and status.get("failures", 0) == 0, "nothing began anew", status)
    steps = [0]

    def gone():
        pods = world.pods(name)
        for pod in pods:
            steps.extend(steps_of(world, pod))
        return not pods

    gone()
    kill_pod(world, name, leads)
    user.run("suspend", name)
    wait_until(gone, "its pods go", 120)
    user.run("resume", name)
    trainer.wait_replicas(name, 2)
    wait_until(lambda: steps_of(world, trainer.pod_of(name, 0)), "it trains again", 120)
    again = steps_of(world, trainer.pod_of(name, 0))
    check(again[0] > max(steps), "steps are repeated", (max(steps), again[:3]))
    user.run("cancel", name)
    world.wait_phase(name, "Failed")


def launcher_dies_apart(trainer):
    """Where pods share no checkpoint folder, they end with the pod that leads, and all restart."""
    world, user = trainer.world, trainer.user
    trainer.prepare()
    name = submit_telling(trainer, "--replicas", "2", "--set", "epochs=1000000",
                          run=("--checkpoint-dir", "/tmp/own"))
    trainer.wait_replicas(name, 2)
    wait_until(lambda: steps_of(world, trainer.pod_of(name, 0)), "it trains", 120)
    wait_until(lambda: "does not share the launcher's checkpoint folder" in
               str(world.log(trainer.pod_of(name, 1))), "its folder is its own", 60)
    group = world.status(name)["group"]
    kill_pod(world, name, 0)
    world.wait_status(name, lambda status: status["group"] == group + 1, "all restart")
    check(any(kind == "PodFailure" and "no other replica could lead the run on" in note
              for kind, note in world.events()), "why", world.events())
    trainer.wait_replicas(name, 2)
    user.run("cancel", name)
    world.wait_phase(name, "Failed")


def finishes(trainer):
    """Runs to the end with several replicas: all pods succeed, the model can be fetched, and its
    TensorBoard instance has its charts."""
    world, user = trainer.world, trainer.user
    trainer.prepare()
    volume = "charts-" + world.space
    give_volume(world, volume)
    user.run("tensorboard", "create", "charts", "--image", tensorboard_image(world),
             "--storageclass", volume)
    begun = time.monotonic()
    # Long enough for the second replica to join.
    name = trainer.submit("--replicas", "2", "--set", "epochs=1000000", "--set", "max_time=40s",
                          "--tensorboard", "charts")
    wait_until(lambda: world.pods(name), "its first pod", every=0.02)
    print(f"from submit of the folder to the first pod: {time.monotonic() - begun:.2f} s",
          flush=True)
    trainer.wait_said(name, "finished")
    status = world.wait_phase(name, "Succeeded")
    check(status["group"] == 0, "nothing began anew", status)
    # The launcher's pod decides that the job has succeeded; the other ends at about the same time.
    wait_until(lambda: list(world.pods(name).values()) == ["Succeeded"] * 2, "both pods succeed",
               30)
    model = os.path.join(world.folder, "model.pt")
    user.run("cp", f"{name}:/adaptdl/share/model.pt", model)
    with open(model, "rb") as file:
        check(file.read(2) == b"PK", "it is a model")
    said = user.run("logs", name)
    check("has joined with 1 slot" in said and "finished" in said, "what its log tells", said)
    check_charts(os.path.join(world.folder, "volume-" + volume), 100)


def main():
    if not REGISTRY:
        skip_all("there is no docker-registry")
    # Nothing listens at the HTTP address: its pods use HTTPS alone.
    return run_tests([no_image, trains, launcher_dies, launcher_leaves,
                      launcher_dies_apart, finishes], given=lambda world: (Trainer(world),),
                     options=(*OPTIONS, "--supervisor-url", "http://127.0.0.1:9",
                              "--supervisor-https-port", "0"), reachable=True)


if __name__ == "__main__":
    sys.exit(main())
