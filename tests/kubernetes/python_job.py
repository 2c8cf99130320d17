"""An unmodified Python AdaptDL 0.2.11 program as users submit it: a folder with a Dockerfile, a job
file and a script, on an image with Python.

The image contains the interpreter of ADAPTDL_TEST_PYTHON, its library, the system libraries that
AdaptDL and torch load, and busybox. It does not contain the pip packages, 5 GB of torch and CUDA,
which would take minutes to send and to unpack: the job's template mounts them from this machine.
"""

import glob
import json
import os
import shutil

from support import run_command, write

PYTHON = os.environ.get("ADAPTDL_TEST_PYTHON")
PACKAGES = "/packages"  # where pods find the pip packages
FINISH = "finish"       # in the job's share: rank 0 looks for it after each epoch

FACTS = """
import json, os, sys, sysconfig
import adaptdl.torch
paths = sysconfig.get_paths()
loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
print(json.dumps({"base": os.path.realpath(sys.base_prefix),
                  "version": sysconfig.get_python_version(),
                  "packages": os.path.realpath(paths["purelib"]),
                  "library": os.path.realpath(paths["stdlib"]), "loaded": sorted(loaded)}))
"""

# A typical program, but its steps take a time set by its samples, it ends on request, and its
# gradients are mostly noise, so that a larger batch and another replica pay off.
PROGRAM = """
import os, time
import numpy
import torch
numpy.int = int  # AdaptDL 0.2.11 asks for it, and numpy 1.24 has taken it away
import adaptdl.collective
import adaptdl.torch as adl
from adaptdl.env import num_replicas, num_restarts, replica_rank, share_path

adl.init_process_group("gloo")
torch.manual_seed(1)
x = torch.randn(1000, 8)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True) + 5 * torch.randn(1000, 1))
loader = adl.AdaptiveDataLoader(data, batch_size=20, shuffle=True, drop_last=True)
loader.autoscale_batch_size(200, local_bsz_bounds=(10, 50))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model = adl.AdaptiveDataParallel(model, optimizer)
for epoch in adl.remaining_epochs_until(10000):
    for a, b in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
        time.sleep(0.002 * len(a))
    if replica_rank() == 0:
        print("epoch", epoch, "on", num_replicas(), "start", num_restarts(), "loss", float(loss),
              flush=True)
    if adaptdl.collective.broadcast(os.path.exists(os.path.join(share_path(), "FINISH"))):
        break
if replica_rank() == 0:
    torch.save(model.module.state_dict(), os.path.join(share_path(), "model.pt"))
    print("finished epoch", epoch, flush=True)
"""

JOB = """
apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata:
  generateName: python-
spec:
  maxReplicas: 2
  template:
    spec:
      containers:
      - name: main
        command: [python3, train.py]
        resources: {limits: {nvidia.com/gpu: 1}, requests: {cpu: 50m, memory: 200Mi}}
        volumeMounts: [{name: packages, mountPath: /packages, readOnly: true}]
      volumes: [{name: packages, hostPath: {path: "HOST"}}]
"""


def facts():
    """Facts about the Python of the tests; None if it cannot import AdaptDL."""
    if not PYTHON:
        return None
    done = run_command([PYTHON, "-W", "ignore", "-c", FACTS], timeout=400)
    return json.loads(done.stdout) if done.returncode == 0 else None


def make_image_folder(folder, python):
    """Creates a folder from which `adaptdl image build` builds the image with Python."""
    root = os.path.join(folder, "root")
    libraries = os.path.join(root, "lib", os.path.basename(
        os.path.dirname(next(path for path in python["loaded"] if "/libc.so" in path))))
    for path in (libraries,
                 *(os.path.join(root, name) for name in ("bin", "etc", "usr/local/bin"))):
        os.makedirs(path)
    os.mkdir(os.path.join(root, "tmp"), 0o1777)
    name = f"python{python['version']}"
    shutil.copy(os.path.join(python["base"], "bin", name), os.path.join(root, "usr/local/bin"))
    os.symlink(name, os.path.join(root, "usr/local/bin/python3"))
    shutil.copytree(python["library"], os.path.join(root, "usr/local/lib", name),
                    symlinks=True, ignore=shutil.ignore_patterns(
                        "site-packages", "dist-packages", "test", "tests", "__pycache__",
                        "config-*", "idlelib", "ensurepip", "lib2to3", "tkinter", "turtledemo",
                        "*.a"))
    for path in python["loaded"]:
        if path.startswith((python["packages"], python["library"])):
            continue
        # Under every name that a program may use.
        for link in glob.glob(os.path.join(os.path.dirname(path), "*.so*")):
            if os.path.realpath(link) == os.path.realpath(path):
                shutil.copy(path, os.path.join(libraries, os.path.basename(link)))
    for loader in glob.glob("/lib*/ld-linux*"):
        target = os.path.join(root, loader[1:])
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(loader, target)
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin/busybox"))
    for applet in ("sh", "test", "tar", "cat", "sleep"):  # needed by `cp`
        os.symlink("busybox", os.path.join(root, "bin", applet))
    for file, text in (("passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("group", "root:x:0:\n"),
                       ("nsswitch.conf", "hosts: files dns\n")):
        write(os.path.join(root, "etc", file), text)
    write(os.path.join(folder, "Dockerfile"),
          "FROM scratch\nCOPY root /\nENV PATH=/usr/local/bin:/bin "
          f"PYTHONPATH={PACKAGES} PYTHONDONTWRITEBYTECODE=1\nCMD [\"python3\"]\n")


def make_project(folder, image, python):
    """Creates the folder to submit."""
    for name, text in (("Dockerfile", f"FROM {image}\nWORKDIR /app\nCOPY train.py ./\n"),
                       ("train.py", PROGRAM.replace("FINISH", FINISH)),
                       ("adaptdljob.yaml", JOB.replace("HOST", python["packages"]))):
        write(os.path.join(folder, name), text)
