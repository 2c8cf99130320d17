"""Images built by the program: pushed to a registry that checks them, and run by a node. run.py
starts a cluster with both.

Usage: images.py ADAPTDL [TEST...], with ADAPTDL_TEST_KUBECONFIG, ADAPTDL_TEST_REGISTRY,
ADAPTDL_TEST_CONTAINERD (the node's socket) and ADAPTDL_TEST_BASE (a docker archive with a shell).
"""

import hashlib
import json
import os
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request

from support import (KEPT, Results, check, end_by_sigterm, run_command, skip, skip_all,
                     wait_until, write)
from world import Api

REGISTRY = os.environ.get("ADAPTDL_TEST_REGISTRY")
CONTAINERD = os.environ.get("ADAPTDL_TEST_CONTAINERD")
BASE = os.environ.get("ADAPTDL_TEST_BASE")
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
OCI = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYERS = {DOCKER: "application/vnd.docker.image.rootfs.diff.tar",
          OCI: "application/vnd.oci.image.layer.v1.tar"}
CONFIGS = {DOCKER: "application/vnd.docker.container.image.v1+json",
           OCI: "application/vnd.oci.image.config.v1+json"}
RUN = ["sh", "-c", "cat /adaptdl-app/said && pwd"]
SAID = "from the folder\n/adaptdl-app\n"


def to_registry(method, path, data=None, kind="application/octet-stream"):
    """(status, headers, body)"""
    url = path if path.startswith("http") else f"http://{REGISTRY}/v2/{path}"
    request = urllib.request.Request(url, data, {"Content-Type": kind, "Accept": f"{DOCKER},{OCI}"},
                                     method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def put_blob(repository, data, kind):
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    _, headers, _ = to_registry("POST", f"{repository}/blobs/uploads/", b"")
    place = headers["Location"] + ("&" if "?" in headers["Location"] else "?") + "digest=" + digest
    status, _, body = to_registry("PUT", place, data)
    check(status == 201, "a blob is not taken", body)
    return {"mediaType": kind, "digest": digest, "size": len(data)}


def put_manifest(repository, tag, manifest):
    data = json.dumps(manifest).encode()
    status, headers, body = to_registry("PUT", f"{repository}/manifests/{tag}", data,
                                        manifest["mediaType"])
    return status, body, {"mediaType": manifest["mediaType"], "size": len(data),
                          "digest": headers.get("Docker-Content-Digest")}


def put_base(repository, kind):
    """Pushes an image with a shell and that media type over the registry's protocol: its name."""
    with tarfile.open(BASE) as archive:
        described, = json.load(archive.extractfile("manifest.json"))
        config = archive.extractfile(described["Config"]).read()
        layers = [archive.extractfile(layer).read() for layer in described["Layers"]]
    manifest = {"schemaVersion": 2, "mediaType": kind,
                "config": put_blob(repository, config, CONFIGS[kind]),
                "layers": [put_blob(repository, layer, LAYERS[kind]) for layer in layers]}
    status, body, made = put_manifest(repository, "1", manifest)
    check(status == 201, "the base is not taken", body)
    return made


class Builder:
    def __init__(self, adaptdl, folder):
        self.adaptdl, self.folder, self.count, self.pod = adaptdl, folder, 0, None
        self.api = Api(os.environ["ADAPTDL_TEST_KUBECONFIG"])
        self.project = os.path.join(folder, "project")
        write(os.path.join(self.project, "said"), "from the folder\n")

    def image(self, *words, seconds=120):
        done = run_command([self.adaptdl, "image", *words, "-o", "json"], 0, seconds,
                           env={"HOME": self.folder, "PATH": "/nowhere"} | {
                               name: os.environ[name] for name in KEPT if name in os.environ})
        return json.loads(done.stdout)

    def runs(self, image, command, expected, policy="Always", seconds=90):
        """Checks that a pod of the image prints that, and nothing else."""
        self.count += 1
        path = f"/api/v1/namespaces/default/pods/image-{self.count}"
        self.api.create("/api/v1/namespaces/default/pods", {
            "metadata": {"name": f"image-{self.count}"}, "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [{
                    "name": "main", "image": image, "imagePullPolicy": policy,
                    "command": command}]}})

        def ended():
            status = self.api.get(path)["status"]
            return status["phase"] in ("Succeeded", "Failed") and status
        self.pod = path
        status = wait_until(ended, f"{image} runs", seconds)
        said = self.api.request("GET", path + "/log")[1]
        check(status["phase"] == "Succeeded" and expected in str(said), f"what {image} says", said,
              status)
        self.api.request("DELETE", path)
        return said if isinstance(said, str) else json.dumps(said)  # the output was parsed as JSON


    def logs(self):
        """[(title, lines)] for a failure's report: of the last pod."""
        if not self.pod:
            return []
        return [(self.pod, [json.dumps(self.api.get(self.pod)),
                            *str(self.api.request("GET", self.pod + "/log")[1]).splitlines()])]


def media_type(image):
    place, digest = image.split("@")
    status, headers, body = to_registry("GET", f"{place.split('/', 1)[1]}/manifests/{digest}")
    check(status == 200, "the manifest", body)
    manifest = json.loads(body)
    check(headers["Content-Type"] == manifest.get("mediaType", OCI), "its type", manifest)
    kinds = {layer["mediaType"].removesuffix("+gzip").removesuffix(".gzip")
             for layer in manifest["layers"]}
    check(kinds == {LAYERS[headers["Content-Type"]]} and
          manifest["config"]["mediaType"] == CONFIGS[headers["Content-Type"]], "all of one kind",
          manifest)
    return headers["Content-Type"]


def checks(_builder):
    """The registry refuses incomplete images: otherwise the other tests would prove little."""
    config = put_blob("checks", b"{}", CONFIGS[OCI])
    absent = {"mediaType": LAYERS[OCI] + "+gzip", "digest": "sha256:" + "0" * 64, "size": 1}
    status, body, _ = put_manifest("checks", "1", {"schemaVersion": 2, "mediaType": OCI,
                                                   "config": config, "layers": [absent]})
    check(status == 400 and b"MANIFEST_BLOB_UNKNOWN" in body, "a manifest without its layer",
          status, body)


def program(builder):
    """An image with only this program, without a base."""
    image = builder.image("push", f"{REGISTRY}/made/adaptdl")["image"]
    check(media_type(image) == OCI, "its kind")
    builder.runs(image, ["/adaptdl-app/adaptdl", "--version"], "adaptdl")
    again = builder.image("push", f"{REGISTRY}/made/adaptdl")
    check(again["image"] == image and again["bytes_sent"] == 0, "nothing is sent twice", again)


def folders(builder):
    """A folder on a base of either kind: pushed, and as an archive imported by containerd."""
    for number, kind in enumerate((DOCKER, OCI)):
        put_base(f"base{number}", kind)
        archive = os.path.join(builder.folder, f"{number}.tar")
        name = f"{REGISTRY}/made/folder{number}:1"
        made = builder.image("build", builder.project, "--base", f"{REGISTRY}/base{number}:1",
                             "-t", name, "--archive", archive)
        check(media_type(made["image"]) == kind, f"it stays of {kind}")
        builder.runs(made["image"], RUN, SAID)
        builder.image("build", builder.project, "--base", f"{REGISTRY}/base{number}:1", "--archive",
                      archive)
        run_command(["ctr", "-a", CONTAINERD, "-n", "k8s.io", "images", "import", archive], 0)
        builder.runs("localhost/adaptdl-image:latest", RUN, SAID, "Never")


def of_index(builder):
    """Uses this machine's platform of a multi-platform base; mounts a layer, does not send it."""
    made = put_base("many", OCI)
    other = json.loads(to_registry("GET", f"many/manifests/{made['digest']}")[2])
    other["config"] = put_blob("many", b'{"architecture":"riscv64","os":"linux","rootfs":'
                                       b'{"type":"layers","diff_ids":[]}}', CONFIGS[OCI])
    _, _, stranger = put_manifest("many", "2", other)
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    status, body, _ = put_manifest("many", "all",
                                   {"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        stranger | {"platform": {"os": "linux", "architecture": "riscv64"}},
        made | {"platform": {"os": "linux", "architecture": machine}}]})
    check(status == 201, "the index is not taken", body)
    built = builder.image("build", builder.project, "--base", f"{REGISTRY}/many:all", "-t",
                          f"{REGISTRY}/made/of-many")
    builder.runs(built["image"], RUN, SAID)
    check(built["bytes_sent"] < 10_000, "the base's layer is not sent", built)


def can_train(record):
    """Whether `doctor -o json` reports a worker and a LibTorch."""
    found = {one["name"]: one["status"] for one in json.loads(record)["checks"]}
    return found["worker"] == found["libtorch"] == "ok"


def trains_here(adaptdl):
    return can_train(run_command([adaptdl, "doctor", "-o", "json"]).stdout)


def training(builder):
    """An image with LibTorch, if this program has a worker."""
    if not trains_here(builder.adaptdl):
        skip("this program has no worker, or there is no LibTorch")
    begun = time.monotonic()
    image = builder.image("push", f"{REGISTRY}/made/torch", "--with-torch", seconds=400)["image"]
    pushed = time.monotonic()
    check(media_type(image) == OCI, "its kind")
    said = builder.runs(image, ["/adaptdl-app/adaptdl", "doctor", "-o", "json"], "libtorch",
                        seconds=300)
    check(can_train(said), "it can train", said)
    print(f"       training: pushed in {pushed - begun:.0f} s, pulled and run in "
          f"{time.monotonic() - pushed:.0f} s", flush=True)


def main():
    if not REGISTRY or not CONTAINERD:
        skip_all("no node can run pods here, or there is no docker-registry")
    end_by_sigterm()
    results = Results()
    with tempfile.TemporaryDirectory(prefix="adaptdl-images-") as folder:
        builder = Builder(os.path.abspath(sys.argv[1]), folder)
        for test in (checks, program, folders, of_index, training):
            if len(sys.argv) == 2 or test.__name__ in sys.argv[2:]:
                results.run(test.__name__, test, builder, logs=builder.logs)
    return results.code()


if __name__ == "__main__":
    sys.exit(main())
