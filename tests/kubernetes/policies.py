"""Jobs and the operators on a network that enforces NetworkPolicies: all that must connect does,
and strangers do not.

Usage: policies.py ADAPTDL [TEST...], with ADAPTDL_TEST_KUBERNETES as for run.py, and
ADAPTDL_TEST_KUBE_ROUTER, the path of kube-router, which enforces the policies. The cluster has a
network namespace of its own, and so have the rules of kube-router: they go with it.

Connections to a Service come from the node here (services.py), which policies always admit. So what
policies say of the operators is tried at their pods' addresses.
"""

import contextlib
import itertools
import os
import shutil
import sys
import tempfile

import live
import run
from cluster import NODE
from images import trains_here
from install import SPACE, Installed, port_of
from live import REGISTRY, Trainer, processes_of
from support import Results, check, end_by_sigterm, read, run_command, skip_all, wait_until
from support.checks import Skipped
from support.networks import new_namespace
from world import IMAGE, World

ROUTER = os.environ.get("ADAPTDL_TEST_KUBE_ROUTER")
POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
STRANGERS, READERS = "strangers", "readers"  # namespaces; pods of the second may read metrics
BRIDGED = "/proc/sys/net/bridge/bridge-nf-call-iptables"
PORTS = {"supervisor", "supervisor-tls", "metrics", "validator"}  # of an operator
PORT = 7000
SERVER = f"exec busybox httpd -f -p {PORT} -h /tmp"
# Several times: what a new pod may reach it may reach a moment later.
CONNECT = ("for i in 1 2 3 4 5; do for place in {}; do nc -w 1 ${{place%:*}} ${{place#*:}} "
           "-e true 2>/dev/null && echo $place; done; sleep 1; done; true")


class Lab(World):
    """Pods that try to connect, and the operators that `adaptdl install` has made."""

    def __init__(self, adaptdl, folder):
        super().__init__(adaptdl, folder)
        self.installed, self.trainer = Installed(adaptdl), Trainer(self)
        self.numbers = itertools.count()

    def pod(self, space, script, labels=None):
        """Creates a pod; returns its path."""
        pods = f"/api/v1/namespaces/{space}/pods"
        name = f"pod-{next(self.numbers)}"
        self.api.create(pods, {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                     "securityContext": {"runAsNonRoot": True, "runAsUser": 65532,
                                         "seccompProfile": {"type": "RuntimeDefault"}},
                     "containers": [{
                         "name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
                         "command": ["sh", "-c", script],
                         "securityContext": {"allowPrivilegeEscalation": False,
                                             "capabilities": {"drop": ["ALL"]}}}]}})
        return f"{pods}/{name}"

    def reached(self, places, *whose):
        """Those of the places, as ADDRESS:PORT, that pods can connect to: for each (namespace,
        labels) what a new pod can."""
        paths = [self.pod(space, CONNECT.format(" ".join(places)), labels)
                 for space, labels in whose]
        found = []
        for path in paths:
            wait_until(lambda: self.api.get(path)["status"]["phase"] == "Succeeded", f"{path} ends")
            found.append(set(str(self.api.request("GET", path + "/log")[1]).split()))
            self.api.request("DELETE", path)
        return found

    def address_of(self, path):
        return wait_until(lambda: (status := self.api.get(path)["status"])["phase"] == "Running" and
                          status["podIP"], f"{path} runs")

    def job_pods(self, name):
        return self.api.get(f"/api/v1/namespaces/{self.space}/pods?labelSelector="
                            f"adaptdl%2Fjob%3D{name}")["items"]

    def upgrade(self, value):
        self.installed.run("upgrade", "--set", value, "--timeout", "90")
        wait_until(lambda: len(self.installed.pods()) == 2, "those of before are gone")

    def check_closed(self, name, places):
        """Only pods with the job's label in its namespace reach these places."""
        job, other = ({"adaptdl": "true", "adaptdl/job": each} for each in (name, "other"))
        strangers = [(self.space, {}), (self.space, other), (STRANGERS, {}), (STRANGERS, job)]
        *reached, own = self.reached(places, *strangers, (self.space, job))
        check(not any(reached), "strangers reach", *zip(strangers, reached, strict=True))
        check(own == set(places), "one with its label reaches all", own, places)

    def logs(self):
        return [*super().logs(), *self.installed.logs()]


def listens_at(pid):
    """The TCP ports of a process's network at which others may connect."""
    found = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            for line in list(file)[1:]:
                _, local, _, state = line.split()[:4]
                address, port = local.split(":")
                if state == "0A" and address not in ("0100007F", "0" * 24 + "01000000"):
                    found.add(int(port, 16))
    return found


def enforced(lab):
    """The network obeys a policy that admits nothing, else the other tests prove nothing."""
    place = f"{lab.address_of(lab.pod(lab.space, SERVER))}:{PORT}"
    whose = [(STRANGERS, {}), (lab.space, {})]
    wait_until(lambda: all(lab.reached([place], *whose)), "it is reached without a policy")
    lab.api.create(POLICIES.format(lab.space), {
        "metadata": {"name": "none"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}})
    wait_until(lambda: not any(lab.reached([place], *whose)), "the policy is obeyed")


def operators(lab):
    """Jobs' pods reach the supervisor, and everybody the webhook, and the metrics unless the values
    name who may read them. Nobody else reaches anything."""
    def open_to(*whose):
        """What each of such pods reaches of both operators."""
        places = {name: {f"{pod['status']['podIP']}:{port_of(pod, name)}"
                         for pod in lab.installed.pods()} for name in PORTS}
        found = lab.reached(set().union(*places.values()), *whose)
        for name, reached in itertools.product(places, found):
            check(len(places[name]) == 2 and len(places[name] & reached) != 1,
                  f"{name} of both alike", places, reached)
        return [{name for name in places if places[name] & reached} for reached in found]

    job = (STRANGERS, {"adaptdl": "true"})
    found = open_to((STRANGERS, {}), (SPACE, {}), job)
    check(found == [{"metrics", "validator"}] * 2 + [PORTS], "two strangers and a job's pod reach",
          *found)
    lab.upgrade('metrics.from=[{"namespaceSelector": {"matchLabels": '
                f'{{"kubernetes.io/metadata.name": "{READERS}"}}}}}}]')
    wait_until(lambda: open_to((STRANGERS, {}), job, (READERS, {})) == [
        {"validator"}, PORTS - {"metrics"}, {"metrics", "validator"}],
        "a stranger, a job's pod, and a reader reach what they may")


def talks(lab):
    """The replicas of a command reach each other; strangers reach none of them, until a policy of
    their user's admits them."""
    name = lab.submit("talks", SERVER, minReplicas=2, maxReplicas=2)
    lab.wait_phase(name, "Running")
    addresses = [pod["status"]["podIP"] for pod in lab.job_pods(name)]
    for rank, address in itertools.product((0, 1), addresses):
        words = lab.trainer.user.words("exec", name, "--replica", str(rank), "--", "nc", "-w", "2",
                                       address, str(PORT), "-e", "true")
        wait_until(lambda: run_command(words, env=lab.trainer.user.environment).returncode == 0,
                   f"replica {rank} reaches {address}")
    places = [f"{address}:{PORT}" for address in addresses]
    lab.check_closed(name, places)
    lab.api.create(POLICIES.format(lab.space), {"metadata": {"name": "more"}, "spec": {
        "podSelector": {"matchLabels": {"adaptdl/job": name}},
        "ingress": [{"from": [{"namespaceSelector": {}}]}]}})
    wait_until(lambda: lab.reached(places, (STRANGERS, {})) == [set(places)], "strangers may now")


def live_job(lab):
    """Strangers reach no port at which the pods of a live job listen."""
    lab.trainer.prepare()
    name = lab.trainer.submit("--replicas", "2", "--set", "epochs=1000000")
    lab.trainer.wait_replicas(name, 2)
    lab.trainer.wait_said(name, "epoch")
    places = [f"{pod['status']['podIP']}:{port}" for pod in lab.job_pods(name)
              for port in listens_at(processes_of(lab, name, pod["metadata"]["annotations"][
                  "adaptdl/rank"])[0])]
    check(len(places) >= 2, "they listen", places)
    lab.check_closed(name, places)
    lab.trainer.user.run("cancel", name)
    lab.wait_phase(name, "Failed")


def without(lab):
    """With job.networkPolicies=false jobs have no policy, and everybody reaches their pods."""
    lab.upgrade("job.networkPolicies=false")
    name = lab.submit("open", SERVER, maxReplicas=1)
    lab.wait_phase(name, "Running")
    pod, = lab.job_pods(name)
    place = f"{pod['status']['podIP']}:{PORT}"
    wait_until(lambda: any(lab.reached([place], (STRANGERS, {}))), "a stranger reaches it")
    found = lab.api.get(POLICIES.format(lab.space))["items"]
    check(not found, "it has no policy", found)


def trains(lab):
    live.trains(lab.trainer)


def finishes(lab):
    live.finishes(lab.trainer)


def try_all(lab):
    """Returns the exit code."""
    tests = [enforced, operators, talks]
    if trains_here(lab.adaptdl):
        tests += [live_job, trains, finishes]
    else:
        print("without a train.pt: this program has no worker, or there is no LibTorch", flush=True)
    for space in (STRANGERS, READERS):
        lab.new_namespace(space)
    lab.installed.image = lab.installed.run("image", "push", f"{REGISTRY}/adaptdl")[0].strip()
    lab.installed.install("--set", "sched.interval=5s", "--timeout", "90")
    results = Results()
    for test in [*tests, without]:  # the last one upgrades
        if len(sys.argv) > 2 and test.__name__ not in sys.argv[2:]:
            continue
        lab.new_namespace(test.__name__)
        results.run(test.__name__, test, lab, logs=lab.logs)
        lab.api.request("DELETE", f"/api/v1/namespaces/{lab.space}")
    return results.code()


def use(cluster, environment):
    """Runs this program again, with the cluster, whose network now enforces policies."""
    cluster.start("kube-router", ROUTER, "--run-firewall=true", "--run-router=false",
                  "--run-service-proxy=false", "--kubeconfig", cluster.path("admin"),
                  "--hostname-override", NODE, "--health-port", "0",
                  "--service-cluster-ip-range", f"10.{cluster.network}.16.0/20")
    try:
        return run.run([sys.executable, os.path.abspath(__file__), *sys.argv[1:]], environment, [])
    finally:
        cluster.end("kube-router")


def main():
    if "ADAPTDL_TEST_KUBECONFIG" in os.environ:
        if not IMAGE or not REGISTRY:
            skip_all("no node can run pods here, or there is no docker-registry")
        end_by_sigterm()
        # Below the cluster's folder, which goes even if this process is killed.
        beside = os.path.dirname(os.environ["ADAPTDL_TEST_KUBECONFIG"])
        with tempfile.TemporaryDirectory(dir=beside) as folder, \
                contextlib.closing(Lab(os.path.abspath(sys.argv[1]), folder)) as lab:
            return try_all(lab)
    if not ROUTER:
        skip_all("ADAPTDL_TEST_KUBE_ROUTER names no kube-router: no network policy was tried")
    missing = [name for name in ("iptables", "ipset") if not shutil.which(name)]
    if missing:
        skip_all(f"kube-router needs {', '.join(missing)}")
    try:
        os.close(new_namespace())
    except Skipped as reason:
        skip_all(reason)
    if not os.path.exists(BRIDGED) or read(BRIDGED).strip() != "1":
        skip_all("this kernel shows iptables no packets between pods (br_netfilter)")
    run_command(["ip", "link", "set", "lo", "up"], 0)
    return run.on_node(use)


if __name__ == "__main__":
    sys.exit(main())
