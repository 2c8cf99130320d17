"""A cluster with AdaptDL from install to uninstall, as its users see it: run.py starts the cluster
and a registry.

Usage: end_to_end.py ADAPTDL, with ADAPTDL_TEST_KUBECONFIG, ADAPTDL_TEST_IMAGE,
ADAPTDL_TEST_REGISTRY and ADAPTDL_TEST_PYTHON, a Python with torch and AdaptDL 0.2.11. Users have
the program and a kubeconfig. The node advertises 4 GPUs that do not exist: enough for two jobs that
grow to two replicas each, until a third arrives.
"""

import json
import os
import re
import shutil
import sys
import tempfile

import python_job
from commands import User, give_volume
from images import trains_here
from install import Installed
from support import (Processes, Results, check, end_by_sigterm, last_lines, read, run_command,
                     skip_all, wait_until, write)
from world import GROUP, IMAGE, PROGRAM

REGISTRY = os.environ.get("ADAPTDL_TEST_REGISTRY")
GPUS = 4
SPACE = "team"
VOLUMES = ("first", "second", "third")
PATIENCE = 400
# Of the archive: longer than the others need to come and grow, however slow this machine is.
TIME = ("--set", "epochs=1000000", "--set", "max_time=160s")


class Life:
    def __init__(self, adaptdl, folder):
        self.cluster = Installed(adaptdl)
        self.adaptdl, self.folder, self.space = adaptdl, folder, SPACE
        self.api, self.kubeconfig = self.cluster.api, self.cluster.kubeconfig
        self.user = User(self)
        self.user.environment["ADAPTDL_SUBMIT_REPO"] = f"{REGISTRY}/team/jobs"
        self.processes, self.followed = Processes(), {}

    def status(self, name):
        job = self.api.get(f"{GROUP}/namespaces/{SPACE}/adaptdljobs/{name}")
        return (job or {}).get("status", {})

    def wait_replicas(self, name, count, after=-1):
        """Waits for this number of replicas, of a start later than `after`; returns that start."""
        def there():
            status = self.status(name)
            check(status.get("phase") not in ("Failed", "Succeeded"), f"{name} ended", status)
            return status.get("phase") == "Running" and status.get("readyReplicas") == count and \
                status["group"] > after and [status["group"]]
        return wait_until(there, f"{name} on {count}", PATIENCE)[0]

    def follow(self, name):
        path = os.path.join(self.folder, f"{name}.log")
        with open(path, "wb") as log:
            self.followed[name] = (path, self.processes.start(
                self.user.words("logs", "-f", name), env=self.user.environment, stdout=log,
                stderr=log))

    def said(self, name):
        """The output of `logs -f` for the job so far."""
        return read(self.followed[name][0])

    def logs(self):
        """[(title, lines)] for a failure's report."""
        told = []
        for name, (path, _) in self.followed.items():
            told += [(f"{name}: {json.dumps(self.status(name))}", last_lines(path, 20)),
                     (f"events of {name}", self.user.run("events", name).splitlines())]
        for name in self.followed:
            for pod in pods(self, name):
                said = self.api.request("GET", f"/api/v1/namespaces/{SPACE}/pods/{pod}/log")[1]
                told.append((f"pod {pod}", str(said).splitlines()))
        return told

    def followed_to_the_end(self, name):
        check(self.followed[name][1].wait(PATIENCE) == 0, f"logs -f {name} ends with the job")


def installs(life):
    life.cluster.image = life.cluster.run("image", "push", f"{REGISTRY}/adaptdl")[0].strip()
    # A new job gets room whatever the others have left to do.
    options = [word for option in ("idle=1", "preference=1")
               for word in ("--set", "sched.policyOptions." + option)]
    life.cluster.install("--set", "sched.interval=5s", *options, "--timeout", "120")
    node, = life.api.get("/api/v1/nodes")["items"]
    size = {"nvidia.com/gpu": str(GPUS)}
    status, answer = life.api.request(
        "PATCH", f"/api/v1/nodes/{node['metadata']['name']}/status",
        {"status": {"capacity": size, "allocatable": size}}, "application/merge-patch+json")
    check(status == 200, "the node has GPUs", answer)
    life.api.create("/api/v1/namespaces", {"metadata": {"name": SPACE}})
    for name in VOLUMES:
        give_volume(life, name)


def submits_python(life):
    """Submits a folder with a Dockerfile, as AdaptDL's users do; returns the job's name."""
    python = python_job.facts()
    context = os.path.join(life.folder, "image")
    python_job.make_image_folder(context, python)
    base = life.cluster.run("image", "build", context, "-t", f"{REGISTRY}/team/python")[0].strip()
    shutil.rmtree(context)
    project = os.path.join(life.folder, "project")
    python_job.make_project(project, base, python)
    name = life.user.run("submit", project, "--checkpoint-storage-class", "first").strip()
    life.follow(name)
    return name


def submits_archive(life):
    """Submits a folder with a train.pt, on the training image; returns the job's name."""
    life.cluster.run("image", "push", f"{REGISTRY}/team/jobs:torch", "--with-torch", seconds=400)
    project = os.path.join(life.folder, "digits")
    life.cluster.run("init", "digits", project)
    write(os.path.join(project, "adaptdljob.yaml"),
          json.dumps({"archive": "train.pt", "resources": {"cpu": 0.3, "gpu": 1}}))
    name = life.user.run("submit", project, "-n", "digits", "--replicas", "1:2", *TIME,
                         "--checkpoint-storage-class", "second").strip()
    life.follow(name)
    return name


def submits_command(life, name, replicas, volume):
    name = life.user.run(
        "submit", "--image", IMAGE, "-n", name, "--replicas", replicas, "-f", write_job(life, name),
        "--checkpoint-storage-class", volume).strip()
    life.follow(name)
    return name


def write_job(life, name):
    """Writes the job file of a program that ends on request, like the Python one."""
    script = PROGRAM.replace("while :", f"until test -e $ADAPTDL_SHARE_PATH/{python_job.FINISH}")
    return write(os.path.join(life.folder, f"{name}.yaml"), json.dumps(
        {"command": ["sh", "-c", script], "grace_s": 5, "resources": {"cpu": 0.05, "gpu": 1}}))


def epochs(life, name):
    """[(epoch, replicas, start)] from its log."""
    return [tuple(map(int, found)) for found in re.findall(
        r"epoch (\d+) on (\d+) start (\d+) loss", life.said(name))]


def tells_the_truth(life, names):
    """ls and describe show the API server's state of each job."""
    for attempt in range(20):
        before = {name: life.status(name) for name in names}
        shown = {job["name"]: job for job in life.user.record("ls")["jobs"]}
        table = life.user.run("ls")
        texts = {name: life.user.run("describe", name) for name in names}
        present = {name: pods(life, name) for name in names}
        if before == {name: life.status(name) for name in names}:
            break
        check(attempt < 19, "jobs do not stand still", before)
    check(set(shown) == set(names), "its jobs", shown)
    for name, status in before.items():
        row = next(line for line in table.splitlines() if line.startswith(name)).split()
        check(shown[name]["phase"] == status["phase"] == row[2] and status["phase"] in texts[name],
              "the phase", shown[name], row, texts[name], status)
        check(shown[name]["replicas"] == len(status["allocation"]), "its replicas", shown[name],
              status)
        for pod in present[name]:
            check(pod in texts[name], f"pod {pod}", texts[name])


def pods(life, name):
    found = life.api.get(f"/api/v1/namespaces/{SPACE}/pods?labelSelector=adaptdl%2Fjob%3D{name}")
    return [pod["metadata"]["name"] for pod in found["items"]]


def finish(life, name):
    path = write(os.path.join(life.folder, python_job.FINISH))
    life.user.run("cp", path, f"{name}:/share/{python_job.FINISH}")


def lives(life):
    """Two jobs train and grow, one gives up a replica for a third, and all succeed. Returns their
    names."""
    python = submits_python(life)
    began = life.wait_replicas(python, 1)
    wait_until(lambda: epochs(life, python), "it trains", PATIENCE)
    # Its hints arrive after half a minute, and make it grow.
    grown = life.wait_replicas(python, 2, began)
    hints = life.status(python)["train"]
    check(hints["initBatchSize"] == 20 and hints["gradParams"]["var"] > 0, "its hints", hints)
    # Two starts: the first finds that torch.load refuses AdaptDL's checkpoint.
    wait_until(lambda: any(on == 2 for _, on, _ in epochs(life, python)), "it trains on 2",
               2 * PATIENCE)
    if live := trains_here(life.adaptdl):
        other = submits_archive(life)
        life.wait_replicas(other, 2)  # also by hints, but without a restart
        wait_until(lambda: "replicas 1 -> 2" in life.said(other), "it has grown live", PATIENCE)
    else:
        print("without a train.pt: this program has no worker, or there is no LibTorch", flush=True)
        other = submits_command(life, "other", "2", "second")
        life.wait_replicas(other, 2)
    # All GPUs are in use.
    third = submits_command(life, "third", "1", "third")
    life.wait_replicas(third, 1)
    given = wait_until(lambda: [name for name in (python, other)
                                if len(life.status(name).get("allocation", [])) == 1],
                       "one gives a replica")
    check(len(given) == 1, "one gives a replica", life.status(python), life.status(other))
    life.wait_replicas(given[0], 1)
    check(not live or life.status(other)["group"] == 0, "a train.pt is not started again")
    print(f"{given[0]} has given a replica to {third}", flush=True)
    if given[0] == python:
        shrunk = life.status(python)["group"]
        check(shrunk > grown, "it was started again")
        wait_until(lambda: any(start == shrunk for _, _, start in epochs(life, python)),
                   "it trains on 1 again", PATIENCE)
    names = [python, other, third]
    tells_the_truth(life, names)
    for name in [python, third] + ([] if live else [other]):
        finish(life, name)
    for name in names:
        wait_until(lambda: life.status(name).get("completionTimestamp"), f"{name} ends", 400)
        life.user.run("wait", name, "--timeout", "10")
        life.followed_to_the_end(name)
    tells_the_truth(life, names)
    check(all(life.status(name)["phase"] == "Succeeded" for name in names), "all succeed")
    trained(life, python)
    if live:
        model = os.path.join(life.folder, "digits.pt")
        life.user.run("cp", f"{other}:/share/model.pt", model)
        with open(model, "rb") as file:
            check(file.read(2) == b"PK", "it is a model")
    return names


def trained(life, name):
    """The restarts lost nothing, logs showed everything, and cp fetches the trained model."""
    done = epochs(life, name)
    check([epoch for epoch, _, _ in done] == list(range(len(done))), "every epoch, once", done)
    check({on for _, on, _ in done} == {1, 2}, "on", done)
    # AdaptDL's checkpoint is a pickle: the first restart finds that out, and is no failure.
    status = life.status(name)
    check(status.get("loadPickles") and not status.get("failures"), "its torch.load", status)
    check(f"finished epoch {len(done) - 1}" in life.said(name), "its end", life.said(name)[-500:])
    check(not life.status(name).get("failures"), "no failure", life.status(name))
    model = os.path.join(life.folder, "model.pt")
    life.user.run("cp", f"{name}:/share/model.pt", model)
    loaded = run_command(
        [python_job.PYTHON, "-c", f"import torch; print(torch.load({model!r})['weight'].shape)"],
        timeout=PATIENCE)
    check(loaded.stdout == "torch.Size([1, 8])\n", "the model", loaded)


def uninstalls(life, names, before):
    """Deletes the jobs, then the operator: the cluster is as before."""
    life.user.run("delete", *names)
    wait_until(lambda: not life.api.get(
        f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims")["items"], "claims go with their jobs",
        PATIENCE)
    life.api.request("DELETE", f"/api/v1/namespaces/{SPACE}")
    life.cluster.run("uninstall")
    take_volumes(life)
    wait_until(lambda: life.cluster.all_objects() == before, "all is as it was", PATIENCE,
               tell=lambda: life.cluster.all_objects() ^ before)


def take_volumes(life):
    for name in VOLUMES:
        life.api.request("DELETE", f"/api/v1/persistentvolumes/{name}")


def whole_life(life):
    before = life.cluster.all_objects()
    installs(life)
    uninstalls(life, lives(life), before)


def main():
    if not IMAGE or not REGISTRY or not python_job.facts():
        skip_all("no node can run pods here, there is no docker-registry, or ADAPTDL_TEST_PYTHON "
                 "names no Python with torch and AdaptDL")
    end_by_sigterm()
    results = Results()
    with tempfile.TemporaryDirectory(prefix="adaptdl-end-") as folder:
        life = Life(os.path.abspath(sys.argv[1]), folder)
        try:
            results.run("whole_life", whole_life, life, logs=life.logs)
        finally:
            life.processes.close()
    return results.code()


if __name__ == "__main__":
    sys.exit(main())
