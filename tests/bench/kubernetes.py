"""Figures of the operator on a cluster of fake nodes; prints one line of JSON each.

Usage: kubernetes.py ADAPTDL BINARIES [--nodes N] [--jobs N] [--tainted]

BINARIES is a folder as for tests/kubernetes/run.py, with bin/kwok. A round lasts from reading the
cluster's state to the last write of an allocation, as in the operator's own metric. The API server,
its store, the scheduler and kwok share the machine. Two operators run; at the end the leader is
killed. The program fails if a job has duplicate pods or restarts, which no figure would show.
"""

import argparse
import base64
import http.client
import json
import os
import sys
import tempfile
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../kubernetes")]

import cluster  # noqa: E402
import fake_nodes  # noqa: E402
from support import check, cpu_s, end_by_sigterm, free_port, last_lines, status_of, wait_until  # noqa: E402
from world import World  # noqa: E402

INTERVAL_S = 15
LOOK_S = 1  # between checks, which themselves load the operator or the API server
SPACE = "bench"


def emit(name, value, unit, at_most=None, **about):
    line = {"name": name, **about, "unit": unit, "value": float(f"{value:.4g}")}
    if at_most is not None:
        line |= {"target": f"<= {at_most}", "met": value <= at_most}
    print(json.dumps(line | {"load": os.getloadavg()[0]}), flush=True)


def memory_mb(process, key):
    return int(status_of(process.pid, key)) / 1024


def written_requests(metrics):
    return sum(value for name, value in metrics.items()
               if name.startswith("rest_client_requests_total") and 'method="GET"' not in name)


def hints(grows):
    """Hints of a program that gains from a second replica, or loses."""
    cost = 1e-8 if grows else 10.0
    return {"initBatchSize": 128, "localBszBounds": [32, 256], "maxBatchSize": 2048,
            "maxProfiledReplicas": 4, "gradientAccumulation": False, "rescaleCost": 1.0,
            "gradParams": {"norm": 0.001, "var": 5.0},
            "perfParams": {"alpha_c": 0.1, "beta_c": 0.01, "alpha_n": cost, "beta_n": 1e-8,
                           "alpha_r": cost, "beta_r": 1e-8, "gamma": 1.0}}


class Bench:
    def __init__(self, world, options):
        self.world, self.api, self.options = world, world.api, options
        self.names = [f"job-{number:04}" for number in range(options.jobs)]
        self.tokens = {}

    @property
    def leader(self):
        return next(operator for operator in self.world.operators if operator.leads())

    def submit(self, names):
        container = {"name": "main", "image": "nowhere/none:1", "resources": {
            "limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1", "memory": "1Gi"}}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
        if self.options.tainted:
            spec["tolerations"] = [{"key": fake_nodes.TAINT["key"], "operator": "Exists"}]

        def some(part):
            for name in part:
                self.api.create(self.world.jobs(), {
                    "apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob",
                    "metadata": {"name": name},
                    "spec": {"template": {"spec": spec}, "maxReplicas": 2}})
        fake_nodes.in_parallel(some, names)

    def statuses(self):
        jobs = self.api.get(self.world.jobs())
        return {job["metadata"]["name"]: job.get("status", {}) for job in jobs["items"]}

    def settle(self, condition, sentence):
        wait_until(lambda: condition(self.statuses()), sentence, 600, LOOK_S)

    def pods(self):
        """(job, group, rank) of each."""
        pods = self.api.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]
        return [(pod["metadata"]["labels"]["adaptdl/job"],
                 pod["metadata"]["annotations"]["adaptdl/group"],
                 pod["metadata"]["annotations"]["adaptdl/rank"]) for pod in pods]

    def read_tokens(self):
        for secret in self.api.get(f"/api/v1/namespaces/{SPACE}/secrets")["items"]:
            name = secret["metadata"]["labels"]["adaptdl/job"]
            self.tokens[name] = base64.b64decode(secret["data"]["token"]).decode()

    def post(self, names, grows):
        """Posts hints to the supervisor over persistent HTTP connections, as programs do."""
        address = urllib.parse.urlparse(self.leader.url("supervisor"))

        def some(part):
            connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
            for name in part:
                connection.request("PUT", f"/j/{self.tokens[name]}/hints/{SPACE}/{name}",
                                   json.dumps(hints(grows)))
                answer = connection.getresponse()
                check(answer.status == 200, name, answer.status, answer.read())
                answer.read()
            connection.close()
        begun = time.monotonic()
        fake_nodes.in_parallel(some, names)
        return time.monotonic() - begun

    def wait_round(self):
        rounds = self.leader.metrics()["adaptdl_allocator_rounds_total"]
        wait_until(lambda: self.leader.metrics()["adaptdl_allocator_rounds_total"] > rounds,
                   "a round", 2 * INTERVAL_S + 5, LOOK_S)

    def change(self, what, to_grow, to_shrink, at_most):
        """Measures the round after new hints, and the cost of everything that follows."""
        self.wait_round()  # so that the next one sees all hints at once
        changed = len(to_grow) + len(to_shrink)
        before, cpu_before = self.leader.metrics(), cpu_s(self.leader.process.pid)
        self.post(to_grow, True)
        self.post(to_shrink, False)
        emit("hints sent", cpu_s(self.leader.process.pid) - cpu_before,
             "operator's processor seconds",
             jobs=changed)

        def figures():
            now = self.leader.metrics()
            changes = "adaptdl_allocator_changes_total"
            return now if now[changes] - before[changes] >= changed else None
        cpu_before = cpu_s(self.leader.process.pid)
        now = wait_until(figures, "the round", 60 + INTERVAL_S, LOOK_S)
        rounds = now["adaptdl_allocator_rounds_total"] - before["adaptdl_allocator_rounds_total"]
        emit("round", now["adaptdl_allocator_round_seconds"], "s", at_most, changed=what,
             jobs=changed, rounds=rounds, policy_s=now["adaptdl_allocator_policy_seconds"],
             processor_s=round(cpu_s(self.leader.process.pid) - cpu_before, 2))
        begun = time.monotonic()
        self.settle(lambda all_: all(
            all_[name].get("phase") == "Running" and all_[name].get("readyReplicas") == count
            for names, count in ((to_grow, 2), (to_shrink, 1)) for name in names), "all run")
        emit("restarted", time.monotonic() - begun, "s", changed=what)
        now = self.leader.metrics()
        emit("writing requests", (written_requests(now) - written_requests(before)) / changed,
             "for each changed job", changed=what, pods=now["adaptdl_pods_created_total"] -
             before["adaptdl_pods_created_total"], conflicts=now["adaptdl_conflicts_total"] -
             before["adaptdl_conflicts_total"])
        emit("processor time, hints to last pod", cpu_s(self.leader.process.pid) - cpu_before, "s",
             changed=what)

    def idle(self):
        rounds = self.leader.metrics()["adaptdl_allocator_rounds_total"]
        before, cpu_before = self.leader.metrics(), cpu_s(self.leader.process.pid)
        now = wait_until(lambda: (now := self.leader.metrics())[
            "adaptdl_allocator_rounds_total"] >= rounds + 2 and now, "two rounds", 60, LOOK_S)
        emit("writing requests when nothing changes",
             written_requests(now) - written_requests(before), "in two rounds, beside the lease's")
        emit("round", now["adaptdl_allocator_round_seconds"], "s", changed="nothing",
             policy_s=now["adaptdl_allocator_policy_seconds"],
             processor_s=round((cpu_s(self.leader.process.pid) - cpu_before) / 2, 2))

    def kill_leader(self):
        before, pods = self.statuses(), sorted(self.pods())
        leader = self.leader
        other = next(operator for operator in self.world.operators if operator is not leader)
        leader.kill()
        self.world.operators.remove(leader)
        begun = time.monotonic()
        self.submit(["late"])
        wait_until(lambda: self.statuses().get("late", {}).get("allocation"), "it is allocated", 60)
        emit("leader killed, the other acts", time.monotonic() - begun, "s", 20)
        check(other.leads(), "it leads")
        self.settle(lambda all_: all_["late"].get("phase") == "Running", "it runs")
        self.wait_round()  # of the new leader
        now = self.statuses()
        check([now[name]["group"] for name in self.names] ==
              [before[name]["group"] for name in self.names], "a job started anew")
        mine = sorted(pod for pod in self.pods() if pod[0] != "late")
        check(mine == pods and len(set(mine)) == len(mine), "pods were made or doubled")
        emit("memory", memory_mb(other.process, "VmHWM"), "MB", 300, of="the other, at most")

    def run(self):
        begun = time.monotonic()
        fake_nodes.add(self.api, self.options.nodes, self.options.tainted)
        wait_until(lambda: sum(
            any(c["type"] == "Ready" and c["status"] == "True"
                for c in node.get("status", {}).get("conditions", [])) and
            all(taint["key"] == fake_nodes.TAINT["key"] for taint in node["spec"].get("taints", []))
            for node in self.api.get("/api/v1/nodes")["items"]) == self.options.nodes,
                   "the nodes are ready", 300)
        emit("nodes ready", time.monotonic() - begun, "s", nodes=self.options.nodes)
        self.world.start_operator()
        self.world.new_namespace(SPACE)
        begun, cpu_before = time.monotonic(), cpu_s(self.leader.process.pid)
        self.submit(self.names)
        emit("jobs submitted", time.monotonic() - begun, "s", jobs=len(self.names))
        self.settle(lambda all_: len(all_) == len(self.names) and all(
            status.get("phase") == "Running" for status in all_.values()), "all run")
        emit("all jobs run", time.monotonic() - begun, "s",
             processor_s=round(cpu_s(self.leader.process.pid) - cpu_before, 2))
        self.read_tokens()
        self.post(self.names, False)
        self.settle(lambda all_: all(status.get("train") for status in all_.values()), "all hints")
        self.wait_round()  # which may still change allocations
        self.idle()
        some = self.names[:len(self.names) // 10]
        rest = self.names[len(some):]
        self.change("a tenth", some, [], 2)
        self.change("all", rest, some, 10)
        emit("memory", memory_mb(self.leader.process, "VmHWM"), "MB", 300, of="the leader, at most")
        self.kill_leader()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adaptdl")
    parser.add_argument("binaries")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--tainted", action="store_true", help="the nodes; the jobs tolerate it")
    options = parser.parse_args()
    end_by_sigterm()
    with tempfile.TemporaryDirectory(prefix="adaptdl-kube-") as folder:
        started = cluster.Cluster(options.binaries, folder)
        world = None
        try:
            started.up(with_node=False, manager_options=fake_nodes.MANAGER_OPTIONS)
            started.start_scheduler(requests=500)
            fake_nodes.start_kwok(started, free_port())
            world = World(os.path.abspath(options.adaptdl), folder, started.path("admin"), (
                "--interval", f"{INTERVAL_S}s"))
            world.prepare()
            Bench(world, options).run()
        finally:
            if world:
                for operator in world.operators:
                    print(*last_lines(operator.log, 20), sep="\n", file=sys.stderr)
            try:
                if world:
                    world.close()
            finally:
                started.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
