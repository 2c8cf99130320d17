"""The operator on a real API server, and its pods on a real node: run.py starts both.

Usage: operator.py ADAPTDL, with ADAPTDL_TEST_KUBECONFIG and, for pods that run, ADAPTDL_TEST_IMAGE.
Tests run one after another, each in a namespace of its own, against one operator.
"""

import base64
import contextlib
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

PATIENCE = 90
GROUP = "/apis/adaptdl.petuum.com/v1"
IMAGE = os.environ.get("ADAPTDL_TEST_IMAGE")
CRD = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                   "../../core/cluster/kubernetes/manifests/crd.yaml")

# By the contract of a Python AdaptDL program: on SIGTERM a checkpoint, then exit 143.
PROGRAM = ("trap 'exit 143' TERM; echo start $ADAPTDL_NUM_RESTARTS $ADAPTDL_REPLICA_RANK of "
           "$ADAPTDL_NUM_REPLICAS at $ADAPTDL_SUPERVISOR_URL; while :; do sleep 0.1; done")


class Failed(Exception):
    pass


def check(condition, sentence, *facts):
    if not condition:
        raise Failed("\n    ".join([sentence, *map(str, facts)]))


def wait_until(condition, sentence, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < end, f"waited {seconds} s for: {sentence}")
        time.sleep(0.1)


class Api:
    """The API server as the administrator of a kubeconfig with certificate files."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        folder = os.path.dirname(path)
        user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
        self.address = urllib.parse.urlparse(cluster["server"])
        self.tls = ssl.create_default_context(
            cafile=os.path.join(folder, cluster["certificate-authority"]))
        self.tls.load_cert_chain(os.path.join(folder, user["client-certificate"]),
                                 os.path.join(folder, user["client-key"]))

    def request(self, method, path, body=None, kind="application/json"):
        """(status, answer)."""
        connection = http.client.HTTPSConnection(self.address.hostname, self.address.port,
                                                 context=self.tls, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body if isinstance(body, (bytes, type(None)))
                               else json.dumps(body), {"Content-Type": kind})
            answer = connection.getresponse()
            data = answer.read()
        try:
            return answer.status, json.loads(data)
        except ValueError:
            return answer.status, data.decode(errors="replace")

    def get(self, path):
        status, answer = self.request("GET", path)
        return answer if status == 200 else None

    def create(self, path, body):
        status, answer = self.request("POST", path, body)
        check(status in (200, 201), f"POST {path}: {status}", answer)
        return answer


class Operator:
    def __init__(self, adaptdl, kubeconfig, folder, number):
        self.log = os.path.join(folder, f"operator-{number}.log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [adaptdl, "operator", "--kubeconfig", kubeconfig, "--namespace", "adaptdl",
                 "--address", "127.0.0.1", "--supervisor-port", "0", "--metrics-port", "0",
                 "--interval", "5", "--policy-option", "horizon=10"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def said(self):
        with open(self.log, errors="replace", encoding="utf-8") as file:
            return file.read()

    def url(self, what):
        found = re.search(what + r" at (http://[^\s/,]+)", self.said())
        return found and found.group(1)

    def leads(self):
        check(self.process.poll() is None, "the operator ended", self.said())
        return " leads;" in self.said()


class World:
    def __init__(self, adaptdl, folder):
        self.adaptdl, self.folder = adaptdl, folder
        self.kubeconfig = os.environ["ADAPTDL_TEST_KUBECONFIG"]
        self.api = Api(self.kubeconfig)
        self.operators, self.count, self.space = [], 0, ""

    def start_operator(self):
        self.count += 1
        operator = Operator(self.adaptdl, self.kubeconfig, self.folder, self.count)
        self.operators.append(operator)
        return operator

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
        wait_until(operator.leads, "it leads", 40)

    def new_namespace(self, name):
        self.space = name.replace("_", "-")
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.space}})
        wait_until(lambda: self.api.get(f"/api/v1/namespaces/{self.space}/serviceaccounts/default"),
                   "its service account")

    def jobs(self, name=""):
        return f"{GROUP}/namespaces/{self.space}/adaptdljobs" + (f"/{name}" if name else "")

    def submit(self, name, script=PROGRAM, image=IMAGE, cpu="100m", **spec):
        container = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent",
                     "command": ["sh", "-c", script], "resources": {"requests": {"cpu": cpu}}}
        self.api.create(self.jobs(), {
            "apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob", "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": [container],
                                           "terminationGracePeriodSeconds": 5}}} | spec})
        return name

    def status(self, name):
        return (self.api.get(self.jobs(name)) or {}).get("status", {})

    def wait_status(self, name, condition, sentence, seconds=PATIENCE):
        try:
            return wait_until(lambda: condition(self.status(name)) and self.status(name),
                              f"{name}: {sentence}", seconds)
        except Failed as failed:
            raise Failed(f"{failed}\n    {self.status(name)}\n    {self.pods(name)}\n"
                         + self.operators[-1].said()[-2000:]) from None

    def wait_phase(self, name, phase, seconds=PATIENCE):
        return self.wait_status(name, lambda status: status.get("phase") == phase, phase, seconds)

    def pods(self, name):
        label = urllib.parse.quote(f"adaptdl/job={name}", safe="")
        found = self.api.get(f"/api/v1/namespaces/{self.space}/pods?labelSelector={label}")
        return {pod["metadata"]["name"]: pod["status"].get("phase") for pod in found["items"]}

    def log(self, pod):
        return self.api.request("GET", f"/api/v1/namespaces/{self.space}/pods/{pod}/log")[1]

    def events(self):
        found = self.api.get(f"/apis/events.k8s.io/v1/namespaces/{self.space}/events")
        return [(event["reason"], event["note"]) for event in found["items"]]

    def supervisor(self, name, method, path, body=None):
        """(status, text), with the job's token."""
        secret = self.api.get(f"/api/v1/namespaces/{self.space}/secrets/adaptdl-token-{name}")
        token = base64.b64decode(secret["data"]["token"]).decode()
        url = self.operators[-1].url("supervisor") + f"/j/{token}{path}"
        request = urllib.request.Request(url, method=method,
                                         data=json.dumps(body).encode() if body else None)
        try:
            with urllib.request.urlopen(request, timeout=40) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def ends(world):
    """A job runs to its end; its pods and their logs stay."""
    name = world.submit("good", "echo from $ADAPTDL_JOB_ID; sleep 1")
    status = world.wait_phase(name, "Succeeded")
    check(status["group"] == 0 and status["completionTimestamp"], "its status", status)
    pod, = world.pods(name)
    check(f"from {world.space}/good" in world.log(pod), "its log", world.log(pod))
    reasons = [reason for reason, _ in world.events()]
    check({"Scheduled", "Starting", "Succeeded"} <= set(reasons), "its events", reasons)
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    check(conditions["Complete"] == "True" and conditions["Failed"] == "False", "conditions",
          conditions)


def fails(world):
    """A failure is tried again, then told with its exit code."""
    name = world.submit("bad", "sleep 1; exit 3", backoffLimit=1)
    world.wait_status(name, lambda status: status.get("reason") == "Backoff", "it is tried again")
    status = world.wait_phase(name, "Failed")
    check(status["reason"] == "PodFailure" and "exit code 3" in status["message"], "why", status)
    check(status["group"] == 1 and status["completionTimestamp"], "two starts", status)


def cannot_start(world):
    """Why a pod does not start is told within half a minute."""
    name = world.submit("imageless", image="localhost/no-such-image:1")
    status = world.wait_status(
        name, lambda status: status.get("reason", "") in ("ErrImagePull", "ImagePullBackOff",
                                                          "ErrImageNeverPull"), "the reason", 40)
    check("no-such-image" in status["message"], "which image", status)
    status, answer = world.api.request("DELETE", world.jobs(name))
    check(status == 200, "it is deleted", answer)
    wait_until(lambda: not world.pods(name), "its pods are gone")


def rescaled(world):
    """Hints make a job grow: its pods are asked to stop, exit 143, and come again as a new group."""
    name = world.submit("grows", maxReplicas=2)
    world.wait_phase(name, "Running")
    check(len(world.pods(name)) == 1, "it begins with one", world.pods(name))
    code, text = world.supervisor(name, "GET", f"/discover/{world.space}/{name}/0?timeout=10")
    check(code == 200 and len(json.loads(text)) == 1, "its address", code, text,
          world.status(name), world.events())
    code, text = world.supervisor(name, "PUT", f"/hints/{world.space}/{name}", {
        "initBatchSize": 128, "localBszBounds": [32, 256], "globalBatchSize": None,
        "maxBatchSize": 2048, "maxProfiledReplicas": 1, "gradientAccumulation": False,
        "gradParams": {"norm": 0.001, "var": 5.0}, "rescaleCost": 1.0,
        "perfParams": {"alpha_c": 0.1, "beta_c": 0.01, "alpha_n": 1e-8, "beta_n": 1e-8,
                       "alpha_r": 1e-8, "beta_r": 1e-8, "gamma": 1.0}})
    check(code == 200, "hints", code, text)
    status = world.wait_status(
        name, lambda status: status.get("phase") == "Running" and status.get("readyReplicas") == 2,
        "two replicas")
    check(status["group"] == 1 and status.get("failures", 0) == 0, "one restart, no failure", status)
    check(status["train"]["maxProfiledReplicas"] == 1, "its hints are kept", status)
    logs = sorted(world.log(pod).split(" at ")[0].strip() for pod in world.pods(name))
    check(logs == ["start 1 0 of 2", "start 1 1 of 2"], "what its replicas see", logs)
    code, text = world.supervisor(name, "GET", f"/discover/{world.space}/{name}/1?timeout=10")
    check(code == 200 and len(set(json.loads(text))) == 2, "their addresses", code, text)
    url = world.operators[-1].url("supervisor")
    for path, expected in ((f"/hints/{world.space}/{name}", 401),
                           (f"/j/wrong/hints/{world.space}/{name}", 403)):
        request = urllib.request.Request(url + path, method="PUT", data=b"{}")
        try:
            urllib.request.urlopen(request, timeout=10).close()
            raise Failed("hints of others are taken")
        except urllib.error.HTTPError as error:
            check(error.code == expected, "without its token", error.code)


def suspended(world):
    name = world.submit("pauses")
    world.wait_phase(name, "Running")
    world.api.request("PATCH", world.jobs(name), {"spec": {"suspend": True}},
                      "application/merge-patch+json")
    status = world.wait_status(name, lambda status: status.get("reason") == "Suspended", "it waits")
    check(status["phase"] == "Pending" and not world.pods(name), "no pods", status)
    world.api.request("PATCH", world.jobs(name), {"spec": {"suspend": False}},
                      "application/merge-patch+json")
    world.wait_status(name, lambda status: status.get("phase") == "Running" and
                      status.get("group") == 1, "it goes on")


def foreign_pod(world):
    """A pod that bears a job's label and nothing else harms nobody."""
    name = world.submit("mine")
    world.wait_phase(name, "Running")
    world.api.create(f"/api/v1/namespaces/{world.space}/pods", {
        "metadata": {"name": "stranger", "labels": {"adaptdl/job": name, "adaptdl": "true"}},
        "spec": {"containers": [{"name": "c", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
                                 "command": ["sleep", "1000"]}],
                 "terminationGracePeriodSeconds": 0}})
    evicted = next(pod for pod in world.pods(name) if pod != "stranger")
    status, answer = world.api.request(
        "POST", f"/api/v1/namespaces/{world.space}/pods/{evicted}/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction",
         "metadata": {"name": evicted, "namespace": world.space}})
    check(status in (200, 201), "it is evicted", answer)
    status = world.wait_status(name, lambda status: status.get("phase") == "Running" and
                               status.get("group") == 1, "it runs again")
    check(status.get("failures", 0) == 0, "an eviction is no failure", status)
    check("stranger" in world.pods(name), "the other pod is left alone", world.pods(name))


def killed_leader(world):
    """kill -9 of the leader: the other acts within 20 s, and nothing is doubled."""
    second = world.start_operator()
    name = world.submit("stays")
    world.wait_phase(name, "Running")
    before = world.pods(name)
    world.operators[0].process.kill()
    world.operators[0].process.wait()
    begun = time.monotonic()
    late = world.submit("late")
    world.wait_phase(late, "Running", 40)
    took = time.monotonic() - begun
    check(took < 25, f"the other took {took:.1f} s to act")
    check(second.leads(), "it leads")
    check(world.pods(name) == before, "the running job was touched", before, world.pods(name))
    world.operators.pop(0)


def main():
    tests = [ends, fails, cannot_start, rescaled, suspended, foreign_pod, killed_leader]
    if not IMAGE:
        print("SKIPPED: no node can run pods here", flush=True)
        return 77
    only = sys.argv[2:]
    with tempfile.TemporaryDirectory(prefix="adaptdl-operator-") as folder:
        world = World(os.path.abspath(sys.argv[1]), folder)
        failures = 0
        try:
            world.prepare()
            for test in tests:
                if only and test.__name__ not in only:
                    continue
                begun = time.monotonic()
                world.new_namespace(test.__name__)
                try:
                    test(world)
                    verdict = "ok    "
                except Failed as failed:
                    print(f"{test.__name__}: {failed}", flush=True)
                    failures += 1
                    verdict = "FAILED"
                world.api.request("DELETE", f"/api/v1/namespaces/{world.space}")
                print(f"{verdict} {test.__name__} {time.monotonic() - begun:.1f} s", flush=True)
        finally:
            for operator in world.operators:
                operator.process.send_signal(signal.SIGTERM)
            for operator in world.operators:
                operator.process.wait(20)
        return 1 if failures else 0


sys.exit(main())
