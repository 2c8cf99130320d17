"""Installs into a real cluster, with an image built and pushed by the program itself, and
uninstalls: run.py starts the cluster and a registry.

Usage: install.py ADAPTDL [TEST...], with ADAPTDL_TEST_KUBECONFIG, ADAPTDL_TEST_IMAGE and
ADAPTDL_TEST_REGISTRY. Tests run one after another, on one installation.
"""

import base64
import json
import os
import re
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request

from support import Results, check, end_by_sigterm, read, run_command, skip_all, wait_until, write
from world import GROUP, IMAGE, Api

REGISTRY = os.environ.get("ADAPTDL_TEST_REGISTRY")
SPACE = "adaptdl"
MANIFESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                         "../../core/cluster/kubernetes/install/manifests")
# Kinds that come and go by themselves, or record the past.
NOT_COMPARED = {"events", "componentstatuses"}


class Installed:
    def __init__(self, adaptdl):
        self.adaptdl = adaptdl
        self.kubeconfig = os.environ["ADAPTDL_TEST_KUBECONFIG"]
        self.api = Api(self.kubeconfig)
        self.image = ""

    def run(self, *arguments, code=0, seconds=240):
        """(stdout, stderr) of a command, which must end with that exit code."""
        command = [self.adaptdl, *arguments]
        if arguments[0] in ("install", "upgrade", "uninstall", "policy"):
            command += ["--kubeconfig", self.kubeconfig]
        done = run_command(command, code, seconds)
        return done.stdout, done.stderr

    def install(self, *arguments, **expected):
        return self.run("install", "--image", self.image, *arguments, **expected)

    def pods(self):
        found = self.api.get(f"/api/v1/namespaces/{SPACE}/pods?labelSelector="
                             "app.kubernetes.io/name%3Dadaptdl-operator")
        return found["items"]

    def logs(self):
        """[(title, lines)] for a failure's report."""
        told = []
        for pod in self.pods():
            name = pod["metadata"]["name"]
            said = self.api.request("GET", f"/api/v1/namespaces/{SPACE}/pods/{name}/log")[1]
            told.append((name, [json.dumps(pod["status"])[:2000], *str(said).splitlines()]))
        return told

    def create_job(self, name, spec):
        return self.api.request("POST", f"{GROUP}/namespaces/default/adaptdljobs", {
            "apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob",
            "metadata": {"name": name}, "spec": spec})

    def job(self, name):
        return self.api.get(f"{GROUP}/namespaces/default/adaptdljobs/{name}") or {}

    def all_objects(self):
        """All objects in the cluster, by kind, namespace and name."""
        groups = [("/api/v1", self.api.get("/api/v1"))]
        for group in self.api.get("/apis")["groups"]:
            version = group["preferredVersion"]["groupVersion"]
            groups.append((f"/apis/{version}", self.api.get(f"/apis/{version}")))
        objects = set()
        for path, group in groups:
            if group is None:  # its last definition was just deleted
                objects.add((path, "", "not served"))
                continue
            for kind in group["resources"]:
                if "/" in kind["name"] or "list" not in kind["verbs"] or \
                        kind["name"] in NOT_COMPARED:
                    continue
                listed = self.api.get(f"{path}/{kind['name']}")
                if listed is None:  # its definition was just deleted
                    objects.add((kind["name"], "", "not served"))
                    continue
                for item in listed["items"]:
                    metadata = item["metadata"]
                    if metadata.get("namespace") == "kube-node-lease":
                        continue
                    objects.add((kind["name"], metadata.get("namespace", ""), metadata["name"]))
        return objects


def job_spec(script, **more):
    return {"template": {"spec": {"containers": [{
        "name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script], "resources": {"requests": {"cpu": "50m"}}}],
        "terminationGracePeriodSeconds": 2}}, **more}


def unknown_kind(world):
    """Without the Prometheus operator, its objects are refused before any change."""
    for value in ("serviceMonitor", "prometheusRule"):
        _, said = world.install("--set", f"metrics.{value}.enabled=true", code=1)
        check(f"leave metrics.{value}.enabled false" in said, "the value is named", said)
    check(not world.api.get(f"/api/v1/namespaces/{SPACE}"), "nothing was done")


def not_pulled(world):
    """A missing image is reported, and the wait ends."""
    _, said = world.run("install", "--image", f"{REGISTRY}/none:1", "--timeout", "30", code=124)
    check(re.search(r"not ready within 30 s: pod \S+: (ErrImagePull|ImagePullBackOff)", said),
          "why", said)


def no_room(world):
    # The memory request of AdaptDL's chart is above the default limit.
    _, said = world.install("--set", "sched.resources.requests.cpu=1000", "--set",
                            "sched.resources.requests.memory=1Gi", "--timeout", "30", code=124)
    check("Unschedulable" in said and "Insufficient cpu" in said, "why", said)


def ready(world):
    """It is ready when install says so: two operators, one of them leader; then nothing differs."""
    _, said = world.install("--set", "sched.interval=5s", "--timeout", "90")
    check("installed in namespace adaptdl" in said, "it says so", said)
    pods = wait_until(lambda: len(world.pods()) == 2 and world.pods(), "those of before are gone")
    states = [[c["ready"] for c in pod["status"]["containerStatuses"]] for pod in pods]
    check(states == [[True], [True]], "two pods are ready", states)

    def holder():
        lease = world.api.get("/apis/coordination.k8s.io/v1/namespaces/"
                              f"{SPACE}/leases/adaptdl-operator")
        return lease and lease["spec"]["holderIdentity"].split("_")[0]
    # An operator is ready before it stands for election.
    wait_until(lambda: holder() in [pod["metadata"]["name"] for pod in pods], "one of them leads",
               tell=holder)
    _, said = world.run("upgrade")
    check("nothing to change" in said, "the same again changes nothing", said)
    world.run("install", "--image", world.image, "--namespace", "other", code=1)


def runs_a_job(world):
    script = "echo $ADAPTDL_SUPERVISOR_URL; echo rank $RANK at $MASTER_ADDR; sleep 1"
    status, answer = world.create_job("first", job_spec(script, minReplicas=2))
    check(status == 201, "it is taken", answer)
    wait_until(lambda: world.job("first").get("status", {}).get("phase") == "Succeeded",
               "the job succeeds")
    space = "/api/v1/namespaces/default"
    _, pod = sorted(world.api.get(f"{space}/pods?labelSelector=adaptdl%2Fjob%3Dfirst")["items"],
                    key=lambda pod: pod["metadata"]["name"])
    said = world.api.request("GET", f"{space}/pods/{pod['metadata']['name']}/log")[1]
    check(f"http://adaptdl-supervisor.{SPACE}.svc:8080/j/" in said, "the supervisor's address",
          said)
    # The name of rank 0's pod in the job's Service; this cluster has no DNS.
    service = pod["spec"]["subdomain"]
    check(f"rank 1 at first-0-0.{service}\n" in said, "the address of rank 0", said)
    check(world.api.get(f"{space}/services/{service}"), "the Service", service)


def denied_nothing(world):
    """The operators were denied nothing: their role has all permissions that they need."""
    for pod in world.pods():
        said = world.api.request("GET", f"/api/v1/namespaces/{SPACE}/pods/"
                                 f"{pod['metadata']['name']}/log")[1]
        check("forbidden" not in str(said).lower(), "a request was forbidden", said)


def refuses(world):
    """The webhook reports the invalid field of a job, and admits valid jobs."""
    spec = job_spec("sleep 1")
    del spec["template"]["spec"]["containers"][0]["name"]
    status, answer = world.create_job("nameless", spec)
    check(status == 422 and "spec.template: spec.containers[0].name: Required value" in
          answer["message"], "the field is named", status, answer)
    status, answer = world.create_job("odd", job_spec("sleep 1", startDeadlineSeconds="soon"))
    check(status == 422 and "startDeadlineSeconds" in answer["message"], "by the schema", answer)
    status, answer = world.api.request(
        "PATCH", f"{GROUP}/namespaces/default/adaptdljobs/first",
        {"spec": {"preemptible": False}}, "application/merge-patch+json")
    check(status == 422 and "updates to job spec are forbidden" in answer["message"], "a change",
          status, answer)
    status, answer = world.api.request(
        "PATCH", f"{GROUP}/namespaces/default/adaptdljobs/first",
        {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")
    check(status == 200, "labels may change", answer)


def as_operator(world, method, path, body=None):
    """(status, message) of a request with the operators' credentials. Nothing is stored."""
    token = world.api.create(f"/api/v1/namespaces/{SPACE}/serviceaccounts/adaptdl/token",
                             {"spec": {}})["status"]["token"]
    request = urllib.request.Request(
        f"https://{world.api.address.netloc}{path}?dryRun=All", method=method,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
    tls = ssl.create_default_context(cafile=os.path.join(os.path.dirname(world.kubeconfig),
                                                         "pki/ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=30, context=tls) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["message"]


def owned(kind, **fields):
    """An object with a job as its owner."""
    owner = {"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob", "name": "x", "uid": "x"}
    return {"apiVersion": "v1", "kind": kind,
            "metadata": {"name": "tried", "ownerReferences": [owner]}, **fields}


def tied(world):
    """Who has the operators' credentials may make only what belongs to jobs, where jobs may be."""
    container = {"name": "main", "image": IMAGE}
    pod = owned("Pod", spec={"containers": [container]})
    secret = owned("Secret", data={})
    default, system = "/api/v1/namespaces/default/", "/api/v1/namespaces/kube-system/"
    for kind, thing in (("pods", pod), ("secrets", secret)):
        status, said = as_operator(world, "POST", default + kind, thing)
        check(status == 201, "what belongs to a job", said)
        status, said = as_operator(world, "POST", system + kind, thing)
        check(status == 422 and "in the namespaces of the cluster itself" in said, "kube-system",
              status, said)
        del thing["metadata"]["ownerReferences"]
        status, said = as_operator(world, "POST", default + kind, thing)
        check(status == 422 and "only what belongs to an AdaptDLJob" in said, "of no job", status,
              said)
    name = world.pods()[0]["metadata"]["name"]
    status, said = as_operator(world, "DELETE", f"/api/v1/namespaces/{SPACE}/pods/{name}")
    check(status == 422 and "only what belongs to an AdaptDLJob" in said, "another's pod", status,
          said)


def in_namespaces(world):
    """With job.namespaces the operators run jobs there only, and may not do more."""
    world.api.create("/api/v1/namespaces", {"metadata": {"name": "others"}})
    try:
        world.run("upgrade", "--set", "job.namespaces=[default]", "--timeout", "90")
        wait_until(lambda: len(world.pods()) == 2, "those of before are gone")
        elsewhere = f"{GROUP}/namespaces/others/adaptdljobs"
        job = {"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob",
               "metadata": {"name": "elsewhere"}, "spec": job_spec("sleep 1")}
        world.api.create(elsewhere, job)
        status, answer = world.create_job("here", job_spec("sleep 1"))
        check(status == 201, "a job there", answer)
        wait_until(lambda: world.job("here").get("status", {}).get("phase") == "Succeeded",
                   "it succeeds")
        check("status" not in world.api.get(elsewhere + "/elsewhere"), "the other is left alone")
        pod = owned("Pod", spec={"containers": [{"name": "main", "image": IMAGE}]})
        status, said = as_operator(world, "POST", "/api/v1/namespaces/others/pods", pod)
        check(status == 403 and "cannot create resource" in said, "no right elsewhere", status,
              said)
        world.run("upgrade", "--set", "job.namespaces=[]", "--timeout", "90")
        wait_until(lambda: world.api.get(elsewhere + "/elsewhere").get("status", {}).get(
            "phase") == "Succeeded", "all namespaces again")
    finally:
        world.api.request("DELETE", f"{GROUP}/namespaces/default/adaptdljobs/here")
        world.api.request("DELETE", "/api/v1/namespaces/others")


def measured(world):
    """The running operator serves the series used by the dashboard and the alerts."""
    text = ""
    for pod in world.pods():
        status, answer = world.api.request(
            "GET", f"/api/v1/namespaces/{SPACE}/pods/{pod['metadata']['name']}:9091/proxy/metrics")
        check(status == 200, "its metrics", answer)
        text += answer
    check("\nadaptdl_leader 1" in text and "\nadaptdl_leader 0" in text, "one leads", text)
    check('adaptdl_jobs{phase="Succeeded"} 1' in text, "the job is counted", text)
    for file in ("dashboard.json", "alerts.yaml"):
        series = re.findall(r"\b(?:adaptdl|rest_client)_[a-z_]+",
                            read(os.path.join(MANIFESTS, file)))
        for name in set(series):
            check(f"# TYPE {name} " in text, f"{file}: {name}")


def port_of(pod, name):
    port, = [port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]
             if port["name"] == name]
    return port


def serves_https(world):
    """Live jobs' launchers can reach the supervisor over HTTPS, and know its certificate."""
    secret = world.api.get(f"/api/v1/namespaces/{SPACE}/secrets/adaptdl-supervisor-certificate")
    tls = ssl.create_default_context(
        cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())
    for pod in world.pods():
        place = pod["status"]["podIP"], port_of(pod, "supervisor-tls")
        with socket.create_connection(place, timeout=10) as plain, \
                tls.wrap_socket(plain, server_hostname="adaptdl-supervisor") as secure:
            secure.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            check(b" 200 " in secure.recv(1000), "it answers")


def knows_callers(world):
    """With webhook.clientCA only the API server is answered, which shows a certificate."""
    pki = os.path.join(os.path.dirname(world.kubeconfig), "pki")

    def upgrade(authority):
        values = write(os.path.join(pki, "values.json"), json.dumps(
            {"webhook": {"clientCA": authority, "failurePolicy": "Fail"}}))
        world.run("upgrade", "--values", values, "--timeout", "90")
        wait_until(lambda: len(world.pods()) == 2, "those of before are gone")

    upgrade(read(os.path.join(pki, "ca.crt")))
    spec = job_spec("sleep 1")
    del spec["template"]["spec"]["containers"][0]["name"]
    status, answer = world.create_job("nameless", spec)
    check(status == 422 and "containers[0].name" in answer["message"], "it is answered", answer)
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    place = world.pods()[0]["status"]["podIP"], port_of(world.pods()[0], "validator")
    try:
        with socket.create_connection(place, timeout=10) as plain, tls.wrap_socket(plain) as secure:
            secure.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            told = secure.recv(1000)
    except ssl.SSLError as error:
        told = str(error).encode()
    check(b" 200 " not in told and b"CERTIFICATE_REQUIRED" in told.upper().replace(b" ", b"_"),
          "who shows none is not", told)
    upgrade(None)


def all_serve_certificate(world):
    """Whether each operator uses the certificate in the secret."""
    secret = world.api.get(f"/api/v1/namespaces/{SPACE}/secrets/adaptdl-webhook-certificate")
    current = ssl.PEM_cert_to_DER_cert(base64.b64decode(secret["data"]["tls.crt"]).decode())
    for pod in world.pods():
        try:
            served = ssl.get_server_certificate((pod["status"]["podIP"],
                                                 port_of(pod, "validator")), timeout=5)
        except OSError:
            return False
        if ssl.PEM_cert_to_DER_cert(served) != current:
            return False
    return True


def rotates(world):
    """Certificates and their CA are renewed in time; every call meanwhile is answered."""
    world.run("upgrade", "--set", "webhook.failurePolicy=Fail", "--set",
              "webhook.certificateLifetime=15s", "--timeout", "90")
    wait_until(lambda: len(world.pods()) == 2, "those of before are gone")
    # The existing certificate is valid for long: deleting it forces a renewal.
    world.api.request("DELETE",
                      f"/api/v1/namespaces/{SPACE}/secrets/adaptdl-webhook-certificate")
    spec = job_spec("sleep 1")
    del spec["template"]["spec"]["containers"][0]["name"]
    wait_until(lambda: world.api.get(
        f"/api/v1/namespaces/{SPACE}/secrets/adaptdl-webhook-certificate"), "another secret")
    wait_until(lambda: world.create_job("nameless", spec)[0] == 422, "it answers again")
    wait_until(lambda: all_serve_certificate(world), "both operators have it")
    pods = {pod["metadata"]["name"] for pod in world.pods()}
    certificates, authorities, most = set(), set(), 0
    end = time.monotonic() + 75
    while time.monotonic() < end:
        status, answer = world.create_job("nameless", spec)
        check(status == 422 and "containers[0].name" in answer["message"], "a call failed", answer)
        secret = world.api.get(f"/api/v1/namespaces/{SPACE}/secrets/adaptdl-webhook-certificate")
        certificates.add(secret["data"]["tls.crt"])
        bundle = base64.b64decode(secret["data"]["ca.crt"]).decode()
        most = max(most, bundle.count("BEGIN"))
        authorities.add(bundle.split("-----END")[0])
        time.sleep(0.5)  # the interval of the calls
    check(len(certificates) >= 4 and len(authorities) >= 2 and most == 2, "they were made anew",
          len(certificates), len(authorities), most)
    # A pod from before the upgrade may have ended meanwhile.
    restarts = [status["restartCount"] for pod in world.pods()
                for status in pod["status"]["containerStatuses"]]
    check({pod["metadata"]["name"] for pod in world.pods()} <= pods and not any(restarts),
          "no operator was restarted", restarts)


def upgraded(world):
    """An upgrade keeps earlier values; one more is changed, and shown."""
    wait_until(lambda: len(world.pods()) == 2, "those of before are gone")
    _, said = world.run("upgrade", "--set", "sched.replicas=1", "--dry-run")
    check("spec.replicas: 2 -> 1" in said, "the change is shown", said)
    check(len(world.pods()) == 2, "nothing was done")
    world.run("upgrade", "--set", "sched.replicas=1")
    pod, = wait_until(lambda: len(world.pods()) == 1 and world.pods(), "one operator")
    arguments = pod["spec"]["containers"][0]["args"]
    check(arguments[arguments.index("--interval") + 1] == "5s", "what was given before", arguments)
    world.run("upgrade", "--set", "sched.replicas=2")
    events = world.api.get(f"/api/v1/namespaces/{SPACE}/events")["items"]
    failed = [event["message"] for event in events if event["reason"] == "FailedPreStopHook"]
    check(not failed, "those that went served until the Services had dropped them", failed)


def another_policy(world):
    """`policy set` restarts the operators with the policy and keeps their other values."""
    said, _ = world.run("policy", "show", "-o", "json")
    check(json.loads(said)["policy"] == "proportional", "the default", said)
    world.run("policy", "set", "pollux", "fairness=-2")

    def replaced():
        given = [pod["spec"]["containers"][0]["args"] for pod in world.pods()]
        return len(given) == 2 and all("pollux" in each and "fairness=-2" in each and "5s" in each
                                       for each in given)
    wait_until(replaced, "operators with that policy")
    said, _ = world.run("policy", "show", "-o", "json")
    check(json.loads(said)["options"]["fairness"] == -2, "it is kept", said)
    world.run("policy", "set", "greatest", code=2)
    world.run("policy", "set", "proportional")


def uninstalled(world):
    """uninstall refuses while jobs exist, except with --keep-jobs; afterwards nothing is left."""
    _, said = world.run("uninstall", code=1)
    check("1 AdaptDLJob" in said and "--keep-jobs" in said, "jobs are in its way", said)
    world.run("uninstall", "--keep-jobs")
    check(world.job("first")["status"]["phase"] == "Succeeded", "the job is still there")
    world.api.request("DELETE", f"{GROUP}/namespaces/default/adaptdljobs/first")
    wait_until(lambda: not world.job("first"), "it is deleted")
    world.run("uninstall")
    _, said = world.run("uninstall")
    check("AdaptDL is not installed" in said, "there is nothing more", said)


def keeps_images(world):
    """The registry's volume is kept, and reused."""
    arguments = ["--set", "docker-registry.enabled=true", "--set",
                 "docker-registry.service.type=ClusterIP", "--set",
                 "docker-registry.persistence.enabled=true", "--timeout", "0"]
    claims = f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims/adaptdl-registry"
    _, said = world.install(*arguments)
    check("+ PersistentVolumeClaim adaptdl-registry" in said, "it is made", said)
    made = world.api.get(claims)
    _, said = world.install(*arguments)
    check("nothing to change" in said, "the same again changes nothing", said)
    _, said = world.run("uninstall")
    check("such as PersistentVolumeClaim adaptdl-registry" in said, "it is in the way", said)
    _, said = world.install(*arguments)
    check("PersistentVolumeClaim" not in said, "it is there", said)
    check(world.api.get(claims)["metadata"]["uid"] == made["metadata"]["uid"], "the same", made)
    world.run("upgrade", "--set", "docker-registry.persistence.enabled=false", "--timeout", "0")
    check(world.api.get(claims), "it stays")
    world.api.request("DELETE", claims)
    wait_until(lambda: not world.api.get(claims), "it is deleted")
    world.run("uninstall")


def nothing_is_left(world, before):
    # Waits until the cluster has finished its own cleanup.
    wait_until(lambda: not world.all_objects() - before, "nothing is left",
               tell=lambda: world.all_objects() ^ before)
    check(not before - world.all_objects(), "something of others went",
          before - world.all_objects())


def main():
    if not IMAGE or not REGISTRY:
        skip_all("no node can run pods here, or there is no docker-registry")
    end_by_sigterm()
    world = Installed(os.path.abspath(sys.argv[1]))
    world.image = world.run("image", "push", f"{REGISTRY}/adaptdl")[0].strip()
    before = world.all_objects()
    results = Results()
    for test in (unknown_kind, not_pulled, no_room, ready, runs_a_job, refuses, tied, measured,
                 serves_https, knows_callers, rotates, in_namespaces, upgraded, another_policy,
                 denied_nothing, uninstalled, keeps_images):
        if len(sys.argv) > 2 and test.__name__ not in sys.argv[2:]:
            continue
        # Each test needs the ones before it.
        if not results.run(test.__name__, test, world, logs=world.logs):
            return results.code()
    results.run("nothing_is_left", nothing_is_left, world, before)
    return results.code()


if __name__ == "__main__":
    sys.exit(main())
