"""A train.pt on a real cluster: its image, its pods that come and go during training, its model.

Usage: live.py ADAPTDL [TEST...], with ADAPTDL_TEST_KUBECONFIG, ADAPTDL_TEST_IMAGE and
ADAPTDL_TEST_REGISTRY.
"""

import base64
import os
import re
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
        return run_command([self.world.adaptdl, *words], 0, 300).stdout

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
            status.get("readyReplicas") == status.get("replicas") == count, f"{count} replicas")


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
    name = trainer.submit("--replicas", "2", "--set", "epochs=30", "--tensorboard",
                          "charts")
    wait_until(lambda: world.pods(name), "its first pod", every=0.02)
    print(f"from submit of the folder to the first pod: {time.monotonic() - begun:.2f} s",
          flush=True)
    trainer.wait_said(name, "finished")
    status = world.wait_phase(name, "Succeeded")
    check(status["group"] == 0, "nothing began anew", status)
    # The launcher's pod decides that the job has succeeded; the other ends at about the same time.
    wait_until(lambda: list(world.pods(name).values()) == ["Succeeded"] * 2, "both pods succeed",
               10)
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
    return run_tests([no_image, trains, finishes], given=lambda world: (Trainer(world),),
                     options=(*OPTIONS, "--supervisor-url", "http://127.0.0.1:9",
                              "--supervisor-https-port", "0"), reachable=True)


if __name__ == "__main__":
    sys.exit(main())
