"""Shared code of the operator's tests: the API server as its administrator, operators as processes
on this machine, jobs and their pods.
"""

import base64
import contextlib
import http.client
import json
import os
import re
import ssl
import sys
import tempfile
import urllib.parse
import urllib.request

from support import (PATIENCE, Processes, Results, check, end, end_by_sigterm, kill_child,
                     logs_below, read, read_json, skip_all, wait_until)

GROUP = "/apis/adaptdl.petuum.com/v1"
IMAGE = os.environ.get("ADAPTDL_TEST_IMAGE")
CRD = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                   "../../core/cluster/kubernetes/install/manifests/crd.yaml")

# The contract of a Python AdaptDL program: on SIGTERM a checkpoint, then exit code 143.
PROGRAM = ("trap 'exit 143' TERM; echo start $ADAPTDL_NUM_RESTARTS $ADAPTDL_REPLICA_RANK of "
           "$ADAPTDL_NUM_REPLICAS at $ADAPTDL_SUPERVISOR_URL; while :; do sleep 0.1; done")


OPTIONS = ("--interval", "5")  # of operators: fast rounds


class Api:
    """The API server, used as administrator with a kubeconfig that has certificate files."""

    def __init__(self, path):
        config = read_json(path)
        folder = os.path.dirname(path)
        user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
        self.address = urllib.parse.urlparse(cluster["server"])
        self.tls = ssl.create_default_context(
            cafile=os.path.join(folder, cluster["certificate-authority"]))
        self.tls.load_cert_chain(os.path.join(folder, user["client-certificate"]),
                                 os.path.join(folder, user["client-key"]))

    def request(self, method, path, body=None, kind="application/json",
                accept="application/json"):
        """(status, answer)."""
        connection = http.client.HTTPSConnection(self.address.hostname, self.address.port,
                                                 context=self.tls, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body if isinstance(body, (bytes, type(None)))
                               else json.dumps(body), {"Content-Type": kind, "Accept": accept})
            answer = connection.getresponse()
            data = answer.read()
        try:
            return answer.status, json.loads(data)
        except (ValueError, RecursionError):
            return answer.status, data.decode(errors="replace")

    @contextlib.contextmanager
    def stream(self, path):
        """The lines of an answer, as they arrive."""
        connection = http.client.HTTPSConnection(self.address.hostname, self.address.port,
                                                 context=self.tls, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            if answer.status != 200:
                raise OSError(f"GET {path}: {answer.status}")
            yield answer

    def get(self, path):
        status, answer = self.request("GET", path)
        return answer if status == 200 else None

    def create(self, path, body):
        status, answer = self.request("POST", path, body)
        check(status in (200, 201), f"POST {path}: {status}", answer)
        return answer


class Place:
    """Where an operator runs. `before`: what starts it on another host; None: as of the World."""

    def __init__(self, before=(), kubeconfig=None, address=None):
        self.before, self.kubeconfig, self.address = before, kubeconfig, address


class Operator:
    def __init__(self, world, number, options, place):
        self.place = place
        self.log = os.path.join(world.folder, f"operator-{number}.log")
        with open(self.log, "ab") as log:
            self.process = world.processes.start(
                [*place.before, world.adaptdl, "operator", "--kubeconfig",
                 place.kubeconfig or world.kubeconfig, "--namespace", "adaptdl",
                 "--address", place.address or world.address, "--supervisor-port", "0",
                 "--metrics-port", "0", *options], stdout=log, stderr=log)

    def said(self):
        return read(self.log)

    def url(self, what):
        found = re.search(what + r" at (http://[^\s/,]+)", self.said())
        return found and found.group(1)

    def metrics(self):
        """{series: value}"""
        with urllib.request.urlopen(self.url("metrics") + "/metrics", timeout=20) as answer:
            lines = answer.read().decode().split("\n")
        return {name: float(value) for name, value in (
            line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))}

    def leads(self):
        check(self.process.poll() is None, "the operator ended", self.log)
        return " leads;" in self.said()

    def ready(self):
        """Whether it has read the cluster and takes part in the leader election."""
        try:
            with urllib.request.urlopen(self.url("metrics") + "/readyz", timeout=20) as answer:
                return answer.status == 200
        except (OSError, TypeError):
            return False

    def kill(self):
        kill_child(self.process)


class World:
    def __init__(self, adaptdl, folder, kubeconfig=None, options=OPTIONS, image=IMAGE,
                 reachable=False):
        self.adaptdl, self.folder, self.options = adaptdl, folder, options
        self.kubeconfig = kubeconfig or os.environ["ADAPTDL_TEST_KUBECONFIG"]
        self.api = Api(self.kubeconfig)
        self.processes = Processes()
        self.operators, self.count, self.space, self.image = [], 0, "", image
        self.address = self.node_address() if reachable else "127.0.0.1"

    def node_address(self):
        """The address at which pods reach processes of this machine."""
        node, = self.api.get("/api/v1/nodes")["items"]
        return next(address["address"] for address in node["status"]["addresses"]
                    if address["type"] == "InternalIP")

    def next_place(self):
        return Place()

    def start_operator(self, *more):
        self.count += 1
        operator = Operator(self, self.count, (*self.options, *more), self.next_place())
        self.operators.append(operator)
        return operator

    def stop_operators(self):
        # One SIGTERM each: a second one ends an operator before it has released its lease.
        for operator in self.operators:
            check(end(operator.process), "an operator does not end", operator.log)
        self.operators.clear()

    def close(self):
        try:
            self.stop_operators()
        finally:
            self.processes.close()

    def prepare(self):
        with open(CRD, "rb") as file:
            status, answer = self.api.request(
                "PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
                "adaptdljobs.adaptdl.petuum.com?fieldManager=test&force=true", file.read(),
                "application/apply-patch+yaml")
        check(status in (200, 201), "the definition is not taken", answer)
        wait_until(lambda: self.api.get(GROUP + "/adaptdljobs"), "the definition is served")
        self.api.create("/api/v1/namespaces", {"metadata": {"name": "adaptdl"}})
        operator = self.start_operator()
        wait_until(operator.leads, "it leads")

    def new_namespace(self, name):
        self.space = name.replace("_", "-")
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.space}})
        wait_until(lambda: self.api.get(f"/api/v1/namespaces/{self.space}/serviceaccounts/default"),
                   "its service account")

    def jobs(self, name=""):
        return f"{GROUP}/namespaces/{self.space}/adaptdljobs" + (f"/{name}" if name else "")

    def submit(self, name, script=PROGRAM, image=None, cpu="100m", in_container=None, in_pod=None,
               metadata=None, **spec):
        container = {"name": "main", "image": image or self.image,
                     "imagePullPolicy": "IfNotPresent",
                     "command": ["sh", "-c", script],
                     "resources": {"requests": {"cpu": cpu}}} | (in_container or {})
        self.api.create(self.jobs(), {
            "apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob",
            "metadata": {"name": name} | (metadata or {}),
            "spec": {"template": {"spec": {"containers": [container],
                                           "terminationGracePeriodSeconds": 5} |
                                  (in_pod or {})}} | spec})
        return name

    def status(self, name):
        return (self.api.get(self.jobs(name)) or {}).get("status", {})

    def wait_status(self, name, condition, sentence, seconds=PATIENCE):
        return wait_until(lambda: condition(self.status(name)) and self.status(name),
                          f"{name}: {sentence}", seconds, tell=lambda: self.status(name))

    def wait_phase(self, name, phase, seconds=PATIENCE):
        return self.wait_status(name, lambda status: status.get("phase") == phase, phase, seconds)

    def pods(self, name):
        label = urllib.parse.quote(f"adaptdl/job={name}", safe="")
        found = self.api.get(f"/api/v1/namespaces/{self.space}/pods?labelSelector={label}")
        return {pod["metadata"]["name"]: pod["status"].get("phase") for pod in found["items"]}

    def pods_by_phase(self):
        found = self.api.get(f"/api/v1/namespaces/{self.space}/pods")
        return [pod["status"].get("phase") for pod in found["items"]]

    def log(self, pod):
        return self.api.request("GET", f"/api/v1/namespaces/{self.space}/pods/{pod}/log")[1]

    def events(self):
        found = self.api.get(f"/apis/events.k8s.io/v1/namespaces/{self.space}/events")
        return [(event["reason"], event["note"]) for event in found["items"]]

    def logs(self):
        """[(title, lines)] for a failure's report: the namespace, then the operators' logs."""
        told = []
        with contextlib.suppress(OSError, TypeError):  # the API server may be what fails
            for job in self.api.get(self.jobs())["items"]:
                name = job["metadata"]["name"]
                told.append((f"job {name}", [str(job.get("status")), f"pods: {self.pods(name)}"]))
            told.append(("events", [f"{reason}: {note}" for reason, note in self.events()]))
            pods = self.api.get(f"/api/v1/namespaces/{self.space}/pods")["items"]
            told += [(f"pod {name}", str(self.log(name)).splitlines())
                     for name in [pod["metadata"]["name"] for pod in pods][-2:]]
        return told[-5:] + logs_below(self.folder)

    def supervisor(self, name, method, path, body=None):
        """Sends a request with the job's token; returns (status, text)."""
        secret, = self.api.get(f"/api/v1/namespaces/{self.space}/secrets?labelSelector="
                               f"adaptdl%2Fjob%3D{name}")["items"]
        token = base64.b64decode(secret["data"]["token"]).decode()
        operator = self.operators[-1]
        request = urllib.request.Request(operator.url("supervisor") + f"/j/{token}{path}",
                                         method=method,
                                         data=json.dumps(body).encode() if body else None)

        def ask():
            try:
                with urllib.request.urlopen(request, timeout=40) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()
        return self.beside(operator, ask)

    def beside(self, _operator, function):
        """The result of a function that is called on the operator's host."""
        return function()


def run_tests(tests, given=lambda world: (world,), reachable=False, options=OPTIONS):
    """Runs tests of an operator, each in its own namespace; returns the program's exit code.

    The program's arguments are the path of adaptdl and names of tests; without names all run.
    Tests are called with given(world). With `reachable`, pods can connect to the operator.
    """
    if not IMAGE:
        skip_all("no node can run pods here")
    adaptdl, *only = sys.argv[1:]
    end_by_sigterm()
    results = Results()
    with tempfile.TemporaryDirectory(prefix="adaptdl-world-") as folder:
        world = World(os.path.abspath(adaptdl), folder, options=options, reachable=reachable)
        arguments = given(world)
        try:
            world.prepare()
            for test in tests:
                if only and test.__name__ not in only:
                    continue
                world.new_namespace(test.__name__)
                results.run(test.__name__, test, *arguments, logs=world.logs)
                world.api.request("DELETE", f"/api/v1/namespaces/{world.space}")
        finally:
            world.close()
    return results.code()
