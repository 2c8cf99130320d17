"""The image to train in: `adaptdl image push --with-torch`, to a real registry and out of it into a
folder that becomes the root of a container, or as much of one as namespaces make.

Needs docker-registry and root; skipped, aloud, without.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

from harness import MARK, PATIENCE, check, main, wait_until

SKIPPED = 77
CONFIG = """version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: {address}}}
"""
UNSHARE = ["unshare", "--pid", "--fork", "--mount"]
# What a container's runtime does. The mounts end with the namespace.
ENTER = """
mount -t proc proc "$0/proc" && mount -t tmpfs none "$0/dev" && mkdir "$0/dev/shm" || exit 99
for device in null zero random urandom; do
    : > "$0/dev/$device" && mount --bind "/dev/$device" "$0/dev/$device" || exit 99
done
exec chroot "$0" "$@"
"""


class Registry:
    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.name = "127.0.0.1:%d" % probe.getsockname()[1]
        path = os.path.join(folder.path, "registry.yml")
        with open(path, "w") as file:
            file.write(CONFIG.format(folder=os.path.join(folder.path, "registry"),
                                     address=self.name))
        self.process = subprocess.Popen(["docker-registry", "serve", path],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self.answers, "an answer of docker-registry")

    def answers(self):
        check(self.process.poll() is None, "docker-registry has ended")
        try:
            with urllib.request.urlopen(f"http://{self.name}/v2/", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def get(self, path, target=None):
        """The bytes; into `target`, a pipe, if given."""
        request = urllib.request.Request(
            f"http://{self.name}/v2/team/torch/{path}",
            headers={"Accept": "application/vnd.oci.image.manifest.v1+json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            if target is None:
                return answer.read()
            return shutil.copyfileobj(answer, target, 1 << 20)

    def close(self):
        self.process.kill()
        self.process.wait()


def push(folder, registry, **environment):
    """(layers, configuration, bytes that were sent)"""
    done = subprocess.run(
        [folder.binary, "image", "push", registry.name + "/team/torch", "--with-torch", "-o", "json"],
        env=folder.environment | environment, cwd=folder.path, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=400)
    check(done.returncode == 0, "image push failed", done.stderr)
    print(done.stderr, end="")
    result = json.loads(done.stdout)
    manifest = json.loads(registry.get("manifests/" + result["digest"]))
    config = json.loads(registry.get("blobs/" + manifest["config"]["digest"]))
    return manifest["layers"], config, result["bytes_sent"]


def unpack(registry, layers, root):
    for layer in layers:
        with subprocess.Popen(["tar", "-xzpf", "-", "-C", root], stdin=subprocess.PIPE) as tar:
            registry.get("blobs/" + layer["digest"], tar.stdin)
            tar.stdin.close()
            check(tar.wait(PATIENCE) == 0, "tar cannot unpack a layer", layer)


class Container:
    """`adaptdl run` of the digits as process 1, in the root alone, with the image's environment."""

    def __init__(self, folder, root, config, *arguments):
        self.talk = os.path.join(folder.path, "talk")
        variables = dict(line.split("=", 1) for line in config["config"]["Env"])
        with open(self.talk, "wb") as talk:
            self.process = subprocess.Popen(
                [*UNSHARE, "/bin/sh", "-c", ENTER, root, *config["config"]["Entrypoint"], "run",
                 "/work/train.pt", "-o", "json", "--threads", "1", *arguments],
                # Runtimes set HOME, too, to / for a user that /etc/passwd lacks.
                env=variables | {"PATH": os.environ["PATH"], "HOME": "/", MARK: folder.path},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=talk, text=True)
        self.events = []

    def next(self):
        line = self.process.stdout.readline()
        check(line, "no event, but the end", self.said())
        self.events.append(json.loads(line))
        return self.events[-1]

    def signal(self, number):
        """To process 1, which is the only child of `unshare`."""
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            (child,) = file.read().split()
        os.kill(int(child), number)

    def said(self):
        with open(self.talk, errors="replace") as file:
            return file.read()

    def end(self, code):
        self.events += [json.loads(line) for line in self.process.stdout]
        got = self.process.wait(PATIENCE)
        self.process.stdout.close()
        check(got == code, f"exit code {got}, not {code}", self.events[-1:], self.said())
        return self.events[-1]


def trains_where_nothing_else_is(folder, draw):
    """Every file that training needs is in the image. Process 1 stops by SIGTERM, with a checkpoint,
    and the next container goes on from it to the end. LibTorch's layer is sent once."""
    registry = Registry(folder)
    try:
        layers, config, sent = push(folder, registry)
        check(len(layers) == 3, "not the layers of libraries, LibTorch and the program", layers)
        torch = max(layers, key=lambda layer: layer["size"])
        check(torch == layers[1] and sent > torch["size"], "LibTorch is not in the middle", layers)
        later, _, sent_later = push(folder, registry, SOURCE_DATE_EPOCH="1000000000")
        check(later[1] == torch and later[2] != layers[2], "the wrong layers changed", later)
        check(0 < sent_later < torch["size"], "LibTorch was sent again", sent_later)

        root = os.path.join(folder.path, "root")
        for name in ("work", "proc", "dev"):
            os.makedirs(os.path.join(root, name))
        unpack(registry, layers, root)
    finally:
        registry.close()
    digits = os.path.join(folder.path, "digits")
    code, _, said = folder.command("init", "digits", digits)
    check(code == 0, "init failed", said)
    shutil.copytree(digits, os.path.join(root, "work"), dirs_exist_ok=True)

    first = Container(folder, root, config, "--replicas", "2", "--set", "epochs=3")
    check(first.next()["event"] == "start" and first.events[0]["pid"] == 1, "it is not process 1",
          first.events)
    while first.next().get("step", 0) < 5:
        pass
    first.signal(signal.SIGTERM)
    end = first.end(143)
    check(end["event"] == "end" and end["checkpoint"], "it left no checkpoint", end)
    folder.check_nothing_left()

    second = Container(folder, root, config, "--replicas", "1", "--set", "epochs=3")
    check(second.end(0)["result"] == "finished", "an odd end", second.events[-1])
    resumed = [event["step"] for event in second.events if event["event"] == "resume"]
    check(resumed and resumed[0] >= 5, "it did not go on from the checkpoint", resumed)
    model = os.path.join(root, second.events[-1]["model"].lstrip("/"))
    check(os.path.getsize(model) > 1000, "there is no model", model)


def why_not():
    if not shutil.which("docker-registry"):
        return "there is no docker-registry in PATH; install the package of that name"
    try:
        if os.geteuid() == 0 and subprocess.run([*UNSHARE, "true"], check=False).returncode == 0:
            return ""
    except FileNotFoundError:
        pass
    return "it needs root, and the right to make namespaces"


if __name__ == "__main__":
    if reason := why_not():
        print("SKIPPED:", reason)
        sys.exit(SKIPPED)
    main(trains_where_nothing_else_is)
