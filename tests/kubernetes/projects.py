"""Folders submitted as images in the cluster's registry, and TensorBoard instances, on a real API
server and a real node: run.py starts both.

Usage: projects.py ADAPTDL [TEST...], with ADAPTDL_TEST_KUBECONFIG and ADAPTDL_TEST_IMAGE.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import sys
import threading
import time
import urllib.request

import services
from commands import User, give_volume
from support import PATIENCE, Registry, check, has_registry, run_command, skip, wait_until, write
from world import IMAGE, run_tests


def free_node_port():
    """An unused port in the node-port range of Services."""
    while True:
        port = random.randint(30000, 32767)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def pass_on(listener, port):
    """Forwards its connections to that port of this machine."""
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=services.serve, args=(client, [("127.0.0.1", port)]),
                             daemon=True).start()


@contextlib.contextmanager
def cluster_registry(world, push_port=True):
    """Docker-registries of this machine as the Service adaptdl-registry, the way `adaptdl install`
    arranges them; without `push_port` the way AdaptDL's chart does. The Service's port is a port of
    the node, because no kube-proxy runs. The API server forwards requests only to pods, so there is
    a pod with the node's address, whose connections are forwarded."""
    port = free_node_port()
    node, = world.api.get("/api/v1/nodes")["items"]
    address = next(each["address"] for each in node["status"]["addresses"]
                   if each["type"] == "InternalIP")
    listener = socket.create_server((address, 0), backlog=100)
    with contextlib.ExitStack() as stack:
        stack.enter_context(Registry(world.folder, port, read_only=push_port))
        pushed_to = stack.enter_context(Registry(world.folder)) if push_port else None
        stack.callback(listener.close)
        stack.callback(listener.shutdown, socket.SHUT_RDWR)
        threading.Thread(target=pass_on, args=(listener, port), daemon=True).start()
        space = f"/api/v1/namespaces/{world.space}"
        for former in ("services/adaptdl-registry", "pods/registry"):
            world.api.request("DELETE", f"{space}/{former}?gracePeriodSeconds=0")
        wait_until(lambda: not world.api.get(space + "/pods/registry"), "no pod of a former one")
        labels = {"app": "docker-registry"}
        world.api.create(space + "/services", {
            "metadata": {"name": "adaptdl-registry", "labels": labels},
            "spec": {"type": "NodePort", "selector": labels, "ports": [{
                "name": "registry", "port": 5000, "targetPort": listener.getsockname()[1],
                "nodePort": port}]}})
        world.api.create(space + "/pods", {
            "metadata": {"name": "registry", "labels": labels},
            "spec": {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [{
                "name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
                "command": ["sleep", "3600"],
                "ports": [{"name": "push", "containerPort": pushed_to.port}] if pushed_to else []
            }]}})
        wait_until(lambda: world.api.get(
            space + "/services/adaptdl-registry:registry/proxy/v2/") is not None, "it answers")
        yield port


def image_of(world, name):
    job = world.api.get(world.jobs(name))
    return job["spec"]["template"]["spec"]["containers"][0]["image"]


def registry(world, user):
    """submit of a folder without a repository: pushes through the API server; the node pulls."""
    if not has_registry():
        skip("there is no docker-registry")
    give_volume(world, "registry")
    folder = os.path.join(world.folder, "project")
    write(os.path.join(folder, "greeting"), b"pulled\n")
    write(os.path.join(folder, "large"), os.urandom(20 << 20))
    write(os.path.join(folder, "adaptdljob.yaml"), b"""
apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {generateName: project-}
spec:
  maxReplicas: 1
  template: {spec: {containers: [{name: main, command: [/busybox, cat, greeting]}]}}
""")
    # The busybox of the node's image, from which the test builds a base.
    shutil.copy(shutil.which("busybox") or "/bin/busybox", os.path.join(folder, "busybox"))
    write(os.path.join(folder, "Dockerfile"),
        "FROM scratch\nCOPY busybox /busybox\nCOPY greeting large /adaptdl-app/\n"
        "WORKDIR /adaptdl-app\n")
    words = ["submit", folder, "--checkpoint-storage-class", "registry"]
    try:
        told = user.run(*words, code=1)
        check("has no registry of its own" in told and "ADAPTDL_SUBMIT_REPO" in told, "the way out",
              told)
        with cluster_registry(world) as port:
            begun = time.monotonic()
            name = user.run(*words, "--proxy-port", "59283").strip()
            took = time.monotonic() - begun
            image = image_of(world, name)
            check(image.startswith(f"localhost:{port}/adaptdl-submit@sha256:"), "the image", image)
            user.run("wait", name, "--timeout", "60")
            check(user.run("logs", name).strip().endswith("pulled"), "what it printed")
            begun = time.monotonic()
            again = user.run(*words).strip()
            print(f"submit of 20 MB: {took:.2f} s, once more: {time.monotonic() - begun:.2f} s",
                  flush=True)
            check(image_of(world, again) == image, "the same image")
            for job in (name, again):
                user.run("delete", "--force", job)
            try:
                urllib.request.urlopen(urllib.request.Request(
                    f"http://127.0.0.1:{port}/v2/adaptdl-submit/blobs/uploads/", method="POST"))
                check(False, "others cannot write")
            except urllib.error.HTTPError as error:
                check(error.code == 405, "others cannot write", error)
            pushed = run_command([world.adaptdl, "image", "push"], env=user.environment)
            repository, _, digest = pushed.stdout.strip().partition("@")
            check(repository == f"localhost:{port}/adaptdl-submit", "image push", pushed)
            urllib.request.urlopen(urllib.request.Request(
                f"http://127.0.0.1:{port}/v2/adaptdl-submit/manifests/{digest}",
                headers={"Accept": "application/vnd.oci.image.manifest.v1+json"})).close()
        with cluster_registry(world, push_port=False) as port:
            old = user.run(*words).strip()
            check(image_of(world, old).startswith(f"localhost:{port}/"), "that of AdaptDL's chart")
            user.run("delete", "--force", old)
        check("cannot use the registry" in (told := user.run(*words, code=1)),
              "a registry that is away", told)
    finally:
        world.api.request("DELETE", "/api/v1/persistentvolumes/registry")


# Stands in for TensorBoard: serves its arguments and the jobs' files over HTTP.
STAND_IN = """#!/bin/sh
case "$*" in
"--bind_all --logdir=/adaptdl/tensorboard") place=6006 ;;
"--host=127.0.0.1 --logdir=/adaptdl/tensorboard") place=127.0.0.1:6006 ;;
*) exit 1 ;;
esac
exec busybox httpd -f -p $place -h /adaptdl/tensorboard
"""


def tensorboard_image(world):
    """Busybox with a program `tensorboard`, in the node's registry."""
    folder = os.path.join(world.folder, "tensorboard")
    write(os.path.join(folder, "tensorboard"), STAND_IN)
    os.chmod(os.path.join(folder, "tensorboard"), 0o755)
    shutil.copy(shutil.which("busybox"), os.path.join(folder, "busybox"))
    for applet in ("sh", "grep"):
        if not os.path.lexists(os.path.join(folder, applet)):
            os.symlink("busybox", os.path.join(folder, applet))
    write(os.path.join(folder, "Dockerfile"),
        b"FROM scratch\nCOPY busybox sh grep tensorboard /bin/\nENV PATH=/bin\n")
    return run_command([world.adaptdl, "image", "build", folder, "-t",
                        os.environ["ADAPTDL_TEST_REGISTRY"] + "/tensorboard"], 0,
                       env={"HOME": world.folder, "PATH": "/nowhere"}).stdout.strip()


def hidden_tensorboard(world, user):
    """Without --nodeport only `proxy` reaches an instance: no other pod, and no node."""
    if not os.environ.get("ADAPTDL_TEST_REGISTRY"):
        skip("there is no docker-registry")
    give_volume(world, "hidden")
    try:
        user.run("tensorboard", "create", "hidden", "--image", tensorboard_image(world),
                 "--storageclass", "hidden")
        proxy = user.start("tensorboard", "proxy", "hidden")
        try:
            urllib.request.urlopen(proxy.stdout.readline().split()[-1], timeout=20).close()
        except urllib.error.HTTPError as error:
            check(error.code == 404, "its empty folder is shown", error)
        space = f"/api/v1/namespaces/{world.space}"
        pod, = world.api.get(f"{space}/pods")["items"]
        try:
            urllib.request.urlopen(f"http://{pod['status']['podIP']}:6006/", timeout=5).close()
            check(False, "the pod's address is closed")
        except OSError as error:
            check("refused" in str(error), "the pod's address is closed", error)
        check(not world.api.get(f"{space}/services")["items"], "no Service")
        proxy.send_signal(signal.SIGINT)
        check(proxy.wait(PATIENCE) == 0, "Ctrl-C", proxy.communicate())
        user.run("tensorboard", "delete", "hidden")
    finally:
        world.api.request("DELETE", "/api/v1/persistentvolumes/hidden")


def tensorboards(world, user):
    """tensorboard create, list, proxy and delete; submit --tensorboard."""
    def tensorboard(verb, *words, **options):
        return user.run("tensorboard", verb, *words, **options)

    def objects():
        label = "?labelSelector=adaptdl%2Ftensorboard%3Dcurves"
        space = f"namespaces/{world.space}"
        return [each["metadata"] for path in (
            f"/apis/apps/v1/{space}/deployments", f"/api/v1/{space}/services",
            f"/api/v1/{space}/persistentvolumeclaims", f"/api/v1/{space}/pods")
            for each in world.api.get(path + label)["items"]]

    if not os.environ.get("ADAPTDL_TEST_REGISTRY"):
        skip("there is no docker-registry")
    give_volume(world, "curves")
    give_volume(world, "checkpoints")
    words = ["--image", tensorboard_image(world), "--nodeport", "--storageclass", "curves"]
    try:
        check("TensorBoard instance curves not found" in user.run(
            "submit", "--image", IMAGE, "--tensorboard", "curves", "--", "true", code=1), "submit")
        check(tensorboard("create", "curves", *words) ==
              "Successfully created TensorBoard instance curves\n", "create")
        check("already" in tensorboard("create", "curves", *words, code=1), "twice")
        owners = [each["ownerReferences"][0] for each in objects() if each["name"] ==
                  "adaptdl-tensorboard-curves" and "ownerReferences" in each]
        check(len(owners) == 2 and all(o["apiVersion"] == "apps/v1" for o in owners), "owners",
              owners)
        name = user.run("submit", "--image", IMAGE, "-n", "writes", "--tensorboard", "curves",
                        "--checkpoint-storage-class", "checkpoints", "--", "sh", "-c",
                        "echo shown > $ADAPTDL_TENSORBOARD_LOGDIR/index.html; "
                        "trap 'exit 143' TERM; while :; do sleep 0.1; done").strip()
        user.run("wait", name, "--for", "running", "--timeout", "60")
        check(name in tensorboard("delete", "curves", code=1), "it is in use")
        user.run("cancel", name)
        proxy = user.start("tensorboard", "proxy", "curves")
        told = proxy.stdout.readline()
        check(told.startswith("Proxying to TensorBoard instance curves at http://127.0.0.1:"), told)
        with urllib.request.urlopen(told.split()[-1], timeout=20) as answer:
            check(answer.read() == b"shown\n", "what it shows")
        # Its Deployment's status may come later than its pod's.
        instance, = wait_until(
            lambda: [one for one in json.loads(tensorboard("list", "-o", "json"))["instances"]
                     if one["ready"]], "it is ready")
        check(instance["size"] == "1Gi" and instance["node_port"], instance)
        rows = [row.split() for row in tensorboard("list").splitlines()]
        check(rows == [["NAME", "NODEPORT", "SIZE", "READY"],
                       ["curves", str(instance["node_port"]), "1Gi", "1/1"]], "the table", rows)
        # Another pod replaces it, on the same port.
        pod, = [each["name"] for each in objects() if each["name"].count("-") == 4]
        world.api.request("DELETE",
                          f"/api/v1/namespaces/{world.space}/pods/{pod}?gracePeriodSeconds=0")
        wait_until(lambda: shows(told.split()[-1]), "the next pod is shown")
        proxy.send_signal(signal.SIGINT)
        check(proxy.wait(PATIENCE) == 0, "Ctrl-C", proxy.communicate())
        user.run("wait", name, "--timeout", "60", code=103)
        check(tensorboard("delete", "curves") ==
              "Successfully deleted TensorBoard instance curves\n", "delete")
        wait_until(lambda: not objects(), "all of it goes")
        check("TensorBoard instance curves not found" in tensorboard("delete", "curves", code=1),
              "twice")
    finally:
        for volume in ("curves", "checkpoints"):
            world.api.request("DELETE", "/api/v1/persistentvolumes/" + volume)


def shows(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read() == b"shown\n"
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(run_tests([registry, tensorboards, hidden_tensorboard],
                       given=lambda world: (world, User(world))))
