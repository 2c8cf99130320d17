"""Builds the folder for ADAPTDL_TEST_KUBERNETES of run.py: Kubernetes from its Go modules, and two
images. Keeps files that exist already.

Usage: binaries.py FOLDER [--check] [--kwok]

Needs Go 1.24 or newer in PATH, its module proxy, and Debian's busybox-static; takes 8 minutes on 2
CPUs and 5 GB of Go's cache. --check only reports what is missing, with exit code 1; --kwok adds
kwok, which simulates thousands of nodes, for tests/bench/kubernetes.py. Exit code 77: it cannot be
built here; the last line is the reason.
"""

import argparse
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

KUBERNETES, ETCD, KWOK = "1.34.3", "3.6.5", "0.7.0"
PARTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
TOOLS = {"pause": "pause.go", "sandbox-sweep": "sandbox_sweep.go"}
IMAGES = ("adaptdl-pause", "adaptdl-busybox")
HERE = os.path.dirname(os.path.abspath(__file__))
LEAST_GO = (1, 24)
CANNOT = 77


class Cannot(Exception):
    """The reason why nothing can be built here."""


class Builder:
    def __init__(self, folder):
        self.folder, self.bin = folder, os.path.join(folder, "bin")

    def missing(self, kwok):
        wanted = [f"bin/{name}" for name in ("etcd", *PARTS, *TOOLS)]
        wanted += [f"images/{name}.tar" for name in IMAGES] + (["bin/kwok"] if kwok else [])
        return [name for name in wanted if not whole(os.path.join(self.folder, name))]

    def build(self, kwok):
        self.check_go()
        os.makedirs(self.bin, exist_ok=True)
        os.makedirs(os.path.join(self.folder, "images"), exist_ok=True)
        # One at a time: a process that waits then finds everything built.
        with open(os.path.join(self.folder, ".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with tempfile.TemporaryDirectory(dir=self.folder) as work:
                missing = self.missing(kwok)
                if any(f"bin/{name}" in missing for name in (*PARTS, *TOOLS)):
                    self.kubernetes(os.path.join(work, "kubernetes"))
                if "bin/etcd" in missing:
                    self.etcd(os.path.join(work, "etcd"))
                if "bin/kwok" in missing:
                    self.kwok(os.path.join(work, "kwok"))
            self.images()

    def go(self, module, *arguments):
        done = subprocess.run(["go", *arguments], cwd=module, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, check=False, env=os.environ | {
                                  "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off",
                                  "GOGC": "400",  # memory for a sixth of the time
                                  "GOFLAGS": "-mod=mod -trimpath"})
        if done.returncode != 0:
            raise Cannot(f"go {' '.join(arguments)[:200]}: {done.stderr.strip()[-2000:]}")
        return done.stdout.strip()

    def check_go(self):
        if not shutil.which("go"):
            raise Cannot("Go is not in PATH")
        version = self.go(None, "env", "GOVERSION")
        found = re.match(r"go(\d+)\.(\d+)", version)
        if not found or tuple(map(int, found.groups())) < LEAST_GO:
            raise Cannot(f"Go in PATH is {version}: {LEAST_GO[0]}.{LEAST_GO[1]} or newer is needed")

    def module(self, folder, *requirements):
        os.makedirs(folder)
        self.go(folder, "mod", "init", "adaptdl.test/" + os.path.basename(folder))
        for requirement in requirements:
            self.go(folder, "mod", "edit", "-require=" + requirement)

    def programs(self, folder, flags, targets, name=""):
        """Builds in another folder, then moves: so they are complete. `name`: for one file."""
        made = os.path.join(folder, "made")
        os.makedirs(made)
        # Nobody debugs them: without DWARF they are made in five sixths of the time.
        self.go(folder, "build", "-gcflags", "all=-dwarf=false", "-ldflags", "-s -w " + flags,
                "-o", os.path.join(made, name), *targets)
        for name in os.listdir(made):
            os.replace(os.path.join(made, name), os.path.join(self.bin, name))

    def kubernetes(self, folder):
        say(f"building Kubernetes {KUBERNETES}")
        self.module(folder, f"k8s.io/kubernetes@v{KUBERNETES}")
        # Kubernetes's repository contains its parts in staging folders; they are modules too.
        description = json.loads(self.go(folder, "mod", "download", "-json",
                                         f"k8s.io/kubernetes@v{KUBERNETES}"))
        with open(description["GoMod"], encoding="utf-8") as file:
            parts = set(re.findall(r"(k8s\.io/[a-z0-9-]+) (?:=> \./staging|v0\.0\.0$)", file.read(),
                                   re.MULTILINE))
        for part in sorted(parts):
            self.go(folder, "mod", "edit",
                    f"-replace={part}={part}@v0.{KUBERNETES.split('.', 1)[1]}")
        for name, source in TOOLS.items():
            os.makedirs(os.path.join(folder, name))
            shutil.copy(os.path.join(HERE, "node", source), os.path.join(folder, name, "main.go"))
        major, minor, _ = KUBERNETES.split(".")
        facts = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor,
                 "gitTreeState": "clean"}
        flags = " ".join(f"-X k8s.io/{place}.{name}={value}" for name, value in facts.items()
                         for place in ("component-base/version", "client-go/pkg/version"))
        self.programs(folder, flags, [f"k8s.io/kubernetes/cmd/{part}" for part in PARTS]
                      + [f"./{name}" for name in TOOLS])

    def etcd(self, folder):
        say(f"building etcd {ETCD}")
        self.module(folder, *(f"go.etcd.io/etcd/{part}@v{ETCD}" for part in (
            "server/v3", "api/v3", "client/pkg/v3", "client/v3", "pkg/v3")))
        self.programs(folder, "", ["go.etcd.io/etcd/server/v3"], "etcd")

    def kwok(self, folder):
        say(f"building kwok {KWOK}")
        self.module(folder, f"sigs.k8s.io/kwok@v{KWOK}")
        self.programs(folder, f"-X sigs.k8s.io/kwok/pkg/consts.Version=v{KWOK}",
                      ["sigs.k8s.io/kwok/cmd/kwok"])

    def images(self):
        busybox = shutil.which("busybox")
        if not busybox:
            raise Cannot("busybox is missing: Debian's package busybox-static has it")
        links = subprocess.run([busybox, "--list"], capture_output=True, text=True,
                               check=True).stdout.split()
        self.image("adaptdl-pause", {"pause": os.path.join(self.bin, "pause")}, [], "/pause")
        self.image("adaptdl-busybox", {"bin/busybox": busybox}, links, "sh")

    def image(self, name, programs, links, command):
        """An archive with one layer, like those of `docker save`."""
        path = os.path.join(self.folder, "images", name + ".tar")
        if whole(path):
            return
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            for folder in ("bin", "etc", "proc", "sys", "dev", "root", "var", "tmp"):
                add(tar, folder, kind=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
            add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", mode=0o644)
            add(tar, "etc/group", b"root:x:0:\n", mode=0o644)
            add(tar, "etc/nsswitch.conf", b"hosts: files dns\n", mode=0o644)
            for place, program in programs.items():
                with open(program, "rb") as file:
                    add(tar, place, file.read())
            for link in links:
                if link != "busybox":
                    add(tar, f"bin/{link}", kind=tarfile.SYMTYPE, link="busybox")
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine,
                                                              os.uname().machine)
        digest = hashlib.sha256(layer.getvalue()).hexdigest()
        config = {"architecture": machine, "os": "linux",
                  "config": {"Cmd": [command], "Env": ["PATH=/bin:/usr/bin"]},
                  "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}
        manifest = [{"Config": "config.json", "Layers": ["layer.tar"],
                     "RepoTags": [f"localhost/{name}:1"]}]
        with tarfile.open(path + ".new", "w") as tar:
            add(tar, "manifest.json", json.dumps(manifest).encode())
            add(tar, "config.json", json.dumps(config).encode())
            add(tar, "layer.tar", layer.getvalue())
        os.replace(path + ".new", path)


def add(tar, name, data=b"", kind=tarfile.REGTYPE, mode=0o755, link=""):
    entry = tarfile.TarInfo(name)
    entry.size, entry.type, entry.mode, entry.linkname = len(data), kind, mode, link
    tar.addfile(entry, io.BytesIO(data))


def whole(path):
    return os.path.isfile(path) and os.path.getsize(path) > 0


def say(sentence):
    print(f"{os.path.basename(__file__)}: {sentence}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--kwok", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which removes what is half made
    builder = Builder(os.path.abspath(options.folder))
    missing = builder.missing(options.kwok)
    if missing and options.check:
        say(f"{options.folder} lacks {', '.join(missing)}")
        return 1
    if not missing:
        return 0
    try:
        builder.build(options.kwok)
    except (Cannot, OSError) as problem:
        say(str(problem))
        return CANNOT
    return 0


if __name__ == "__main__":
    sys.exit(main())
