"""The training image: pushed by `adaptdl image push --with-torch` to a real registry, and fetched
into a folder that becomes the root of a container made of namespaces.

Needs docker-registry and root; skipped with a message otherwise.
"""

import json
import os
import shutil
import signal
import subprocess
import urllib.request

from support import (MARK, PATIENCE, Registry, check, children_of, has_registry, main, run_command,
                     skip_all)

UNSHARE = ["unshare", "--pid", "--fork", "--mount"]
# The work of a container runtime. The mounts end with the namespace.
ENTER = """
mount -t proc proc "$0/proc" && mount -t tmpfs none "$0/dev" && mkdir "$0/dev/shm" || exit 99
for device in null zero random urandom; do
    : > "$0/dev/$device" && mount --bind "/dev/$device" "$0/dev/$device" || exit 99
done
exec chroot "$0" "$@"
"""


def fetch(registry, path, target=None):
    """Returns the bytes, or writes them to the pipe `target` if given."""
    request = urllib.request.Request(
        f"http://{registry.name}/v2/team/torch/{path}",
        headers={"Accept": "application/vnd.oci.image.manifest.v1+json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        if target is None:
            return answer.read()
        return shutil.copyfileobj(answer, target, 1 << 20)


def push(folder, registry, **environment):
    """(layers, configuration, bytes that were sent)"""
    done = run_command(
        [folder.binary, "image", "push", registry.name + "/team/torch", "--with-torch", "-o",
         "json"],
        0, 400, env=folder.environment | environment, cwd=folder.path)
    print(done.stderr, end="")
    # PyTorch's wheels have CUDA; only with GPUs does bootstrap install all that this needs.
    check("for CPUs and GPUs" in done.stderr or "CUDA libraries need files" in done.stderr,
          "what of GPUs?", done.stderr)
    result = json.loads(done.stdout)
    manifest = json.loads(fetch(registry, "manifests/" + result["digest"]))
    config = json.loads(fetch(registry, "blobs/" + manifest["config"]["digest"]))
    return manifest["layers"], config, result["bytes_sent"]


def unpack(registry, layers, root):
    for layer in layers:
        with subprocess.Popen(["tar", "-xzpf", "-", "-C", root], stdin=subprocess.PIPE) as tar:
            fetch(registry, "blobs/" + layer["digest"], tar.stdin)
            tar.stdin.close()
            check(tar.wait(PATIENCE) == 0, "tar cannot unpack a layer", layer)


class Container:
    """`adaptdl run` of the digits as process 1, in the image's root and with its environment."""

    def __init__(self, folder, root, config, *arguments):
        self.log = folder.file("container.log")
        variables = dict(line.split("=", 1) for line in config["config"]["Env"])
        with open(self.log, "wb") as log:
            self.process = folder.processes.start(
                [*UNSHARE, "/bin/sh", "-c", ENTER, root, *config["config"]["Entrypoint"], "run",
                 "/work/train.pt", "-o", "json", "--threads", "1", *arguments],
                # Runtimes also set HOME, to / for a user missing in /etc/passwd.
                env=variables | {"PATH": os.environ["PATH"], "HOME": "/", MARK: folder.path},
                stdout=subprocess.PIPE, stderr=log, text=True)
        self.events = []

    def next(self):
        line = self.process.stdout.readline()
        check(line, "no event, but the end", self.events[-1:])
        self.events.append(json.loads(line))
        return self.events[-1]

    def signal(self, number):
        """Sends a signal to process 1, the only child of `unshare`."""
        (child,) = children_of(self.process.pid)
        os.kill(child, number)

    def end(self, code):
        self.events += [json.loads(line) for line in self.process.stdout]
        got = self.process.wait(PATIENCE)
        check(got == code, f"exit code {got}, not {code}", self.events[-1:])
        return self.events[-1]


def trains_where_nothing_else_is(folder, draw):
    """The image contains every file that training needs. Process 1 stops on SIGTERM with a
    checkpoint, and the next container resumes from it. LibTorch's layer is sent once."""
    with Registry(folder.path) as registry:
        layers, config, sent = push(folder, registry)
        check(len(layers) == 3, "not the layers of libraries, LibTorch and the program", layers)
        torch = max(layers, key=lambda layer: layer["size"])
        check(torch == layers[1] and sent > torch["size"], "LibTorch is not in the middle", layers)
        later, _, sent_later = push(folder, registry, SOURCE_DATE_EPOCH="1000000000")
        check(later[1] == torch and later[2] != layers[2], "the wrong layers changed", later)
        check(0 < sent_later < torch["size"], "LibTorch was sent again", sent_later)

        root = folder.file("root")
        for name in ("work", "proc", "dev"):
            os.makedirs(os.path.join(root, name))
        unpack(registry, layers, root)
    digits = folder.file("digits")
    code, _, said = folder.command("init", "digits", digits)
    check(code == 0, "init failed", said)
    shutil.copytree(digits, os.path.join(root, "work"), dirs_exist_ok=True)

    first = Container(folder, root, config, "--replicas", "2", "--set", "epochs=1000000")
    check(first.next()["event"] == "start" and first.events[0]["pid"] == 1, "it is not process 1",
          first.events)
    while first.next().get("step", 0) < 5:
        pass
    first.signal(signal.SIGTERM)
    end = first.end(143)
    check(end["event"] == "end" and end["checkpoint"], "it left no checkpoint", end)
    folder.check_nothing_left()

    epochs = sum(event["event"] == "epoch" for event in first.events) + 2  # there is more to do
    second = Container(folder, root, config, "--replicas", "1", "--set", f"epochs={epochs}")
    check(second.end(0)["result"] == "finished", "an odd end", second.events[-1])
    resumed = [event["step"] for event in second.events if event["event"] == "resume"]
    check(resumed and resumed[0] >= 5, "it did not go on from the checkpoint", resumed)
    model = os.path.join(root, second.events[-1]["model"].lstrip("/"))
    check(os.path.getsize(model) > 1000, "there is no model", model)


def why_not():
    if not has_registry():
        return "there is no docker-registry in PATH; install the package of that name"
    try:
        if os.geteuid() == 0 and subprocess.run([*UNSHARE, "true"], check=False).returncode == 0:
            return ""
    except FileNotFoundError:
        pass
    return "it needs root, and the right to make namespaces"


if __name__ == "__main__":
    if reason := why_not():
        skip_all(reason)
    main(trains_where_nothing_else_is)
