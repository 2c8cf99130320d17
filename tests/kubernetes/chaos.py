"""Kills the components of a cluster at random, and checks that every job ends correctly.

Usage: chaos.py SECONDS SEED ADAPTDL, with ADAPTDL_TEST_KUBERNETES as for run.py. Kills two
operators, the API server, its store, the kubelet and the jobs' programs with SIGKILL and restarts
them; evicts and deletes pods. Meanwhile it submits jobs. Each must end once, with the right phase,
and the events of the API's watches must obey the rules of history.py.
"""

import os
import random
import signal
import sys
import tempfile
import time

import run
from history import ENDED, Recorder, broken_rules
from support import Failed, Results, check, wait_until
from world import World

SPACE = "chaos"
LIVING = 5  # jobs at once
PAUSE_S = (1, 5)  # between two faults
SETTLE_S = 400  # for remaining jobs after the last fault
TRAP = "trap 'exit 143' TERM; "
PROGRAMS = {  # name -> script, fields of the spec, final phase
    "trains": (TRAP + "n=0; while [ $n -lt 60 ]; do sleep 0.1; n=$((n+1)); done", {}, "Succeeded"),
    "pair": (TRAP + "n=0; while [ $n -lt 40 ]; do sleep 0.1; n=$((n+1)); done",
             {"minReplicas": 2, "maxReplicas": 2}, "Succeeded"),
    "grows": (TRAP + "n=0; while [ $n -lt 80 ]; do sleep 0.1; n=$((n+1)); done",
              {"maxReplicas": 3}, "Succeeded"),
    # Only its first pod finishes; the others come and go meanwhile.
    "live": (TRAP + "n=0; while [ $n -lt 100 ] || [ $ADAPTDL_REPLICA_RANK != 0 ]; "
             "do sleep 0.1; n=$((n+1)); done", {"maxReplicas": 3, "liveRescale": True},
             "Succeeded"),
    "fails": ("sleep 1; exit 3", {"backoffLimit": 1}, "Failed"),
}
HINTS = {"initBatchSize": 128, "localBszBounds": [32, 256], "maxBatchSize": 2048,
         "maxProfiledReplicas": 2, "gradientAccumulation": False, "rescaleCost": 1.0,
         "gradParams": {"norm": 0.001, "var": 5.0},
         "perfParams": {"alpha_c": 0.1, "beta_c": 0.01, "alpha_n": 1e-8, "beta_n": 1e-8,
                        "alpha_r": 1e-8, "beta_r": 1e-8, "gamma": 1.0}}


class Chaos:
    def __init__(self, cluster, world, rng):
        self.cluster, self.world, self.rng = cluster, world, rng
        self.expected, self.count, self.done = {}, 0, {}

    # ---- jobs

    def submit(self):
        kind = self.rng.choice(list(PROGRAMS))
        script, spec, phase = PROGRAMS[kind]
        self.count += 1
        name = f"{kind}-{self.count}"
        # Programs are killed too: only those that fail by themselves may run out of retries.
        self.world.submit(name, script, cpu="50m", **({"backoffLimit": 1000} | spec))
        self.expected[name] = phase

    def statuses(self):
        jobs = self.world.api.get(self.world.jobs())
        return {job["metadata"]["name"]: job.get("status", {}) for job in jobs["items"]}

    def tend(self):
        statuses = self.statuses()
        while sum(status.get("phase") not in ENDED for status in statuses.values()) < LIVING:
            self.submit()
            statuses[f"new-{self.count}"] = {}
        for name, status in statuses.items():
            if name.startswith(("grows", "live")) and status.get("phase") == "Running" and \
                    not status.get("train"):
                self.world.supervisor(name, "PUT", f"/hints/{SPACE}/{name}", HINTS)

    # ---- faults

    def kill_operator(self):
        self.rng.choice(self.world.operators).kill()

    def end_operator(self):
        self.rng.choice(self.world.operators).process.terminate()

    def kill_api_server(self):
        self.cluster.kill("kube-apiserver")

    def kill_store(self):
        self.cluster.kill("etcd")

    def kill_kubelet(self):
        self.cluster.kill("kubelet")

    def pick_pod(self):
        found = self.world.api.get(f"/api/v1/namespaces/{SPACE}/pods?fieldSelector="
                                   "status.phase%3DRunning")
        return self.rng.choice(found["items"]) if found and found["items"] else None

    def delete_pod(self):
        pod = self.pick_pod()
        if pod:
            self.world.api.request("DELETE", f"/api/v1/namespaces/{SPACE}/pods/"
                                   + pod["metadata"]["name"])

    def evict_pod(self):
        pod = self.pick_pod()
        if pod:
            name = pod["metadata"]["name"]
            self.world.api.request("POST", f"/api/v1/namespaces/{SPACE}/pods/{name}/eviction", {
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": name, "namespace": SPACE}})

    def kill_program(self):
        pod = self.pick_pod()
        if pod:
            container = pod["status"]["containerStatuses"][0].get("containerID", "//")
            self.cluster.ctr("tasks", "kill", "-s", "SIGKILL", container.split("//")[1])

    MISFORTUNES = (kill_operator, kill_operator, end_operator, kill_api_server, kill_store,
                   kill_kubelet, delete_pod, evict_pod, kill_program, kill_program)

    def mend(self):
        """Restarts what is down."""
        for name, process in list(self.cluster.processes.items()):
            if process.poll() is not None:
                self.cluster.start(name, *self.cluster.commands[name])
        for operator in list(self.world.operators):
            if operator.process.poll() is not None:
                check(operator.process.returncode in (0, 1, -signal.SIGKILL),
                      f"an operator ended with {operator.process.returncode}", operator.log)
                self.world.operators.remove(operator)
        while len(self.world.operators) < 2:
            self.world.start_operator()

    def go_on(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            misfortune = self.rng.choice(self.MISFORTUNES)
            print(f"{end - time.monotonic():6.1f} s left: {misfortune.__name__}", flush=True)
            try:
                misfortune(self)
                self.done[misfortune.__name__] = self.done.get(misfortune.__name__, 0) + 1
                time.sleep(self.rng.uniform(0, 1))  # while the killed component is down
                self.mend()
                time.sleep(self.rng.uniform(*PAUSE_S))  # a random time
                self.tend()
            except (OSError, TypeError, Failed) as problem:
                # The component asked is down. The operators must cope with that, not this program.
                if isinstance(problem, Failed) and "an operator ended" in str(problem):
                    raise
                self.mend()

    def all_ended(self):
        self.mend()
        try:
            statuses = self.statuses()
        except (OSError, TypeError):
            return None
        ended = all(statuses.get(name, {}).get("phase") in ENDED for name in self.expected)
        return ended and statuses

    def check_end(self, jobs, pods):
        statuses = wait_until(self.all_ended, "every job ends", SETTLE_S)
        for name, phase in self.expected.items():
            check(statuses[name]["phase"] == phase, f"{name} is to be {phase}", statuses[name])
        wait_until(lambda: all(
            phase in ENDED for phase in self.world.pods_by_phase()), "no pod is left running", 120)
        jobs.stop()
        pods.stop()
        problems = broken_rules(jobs.events, pods.events, self.excused_creations())
        check(not problems, "rules that were broken", *problems)

    def excused_creations(self):
        """Versions of pods that an operator created after it had led: none of a killed one."""
        return set()

    def life(self, seconds):
        self.world.prepare()
        self.world.start_operator()
        self.world.new_namespace(SPACE)
        jobs = Recorder(self.world.api, self.world.jobs())
        pods = Recorder(self.world.api, f"/api/v1/namespaces/{SPACE}/pods")
        self.go_on(seconds)
        self.check_end(jobs, pods)
        gaps = sum(kind == "GAP" for _, kind, _ in jobs.events + pods.events)
        print(f"{len(self.expected)} jobs ended as they should after {self.done}; "
              f"{len(jobs.events)} + {len(pods.events)} events, {gaps} gaps", flush=True)

    def logs(self):
        left = [f"{name}: {status}; pods {self.world.pods(name)}"
                for name, status in self.statuses().items() if status.get("phase") not in ENDED]
        return [("jobs that have not ended", left), *self.world.logs()]


def seed_of(text):
    """0: one that is drawn. The results name it."""
    return int(text) or random.randrange(1, 10 ** 6)


def use(cluster, environment):
    seconds, seed = float(sys.argv[1]), seed_of(sys.argv[2])
    results = Results()
    with tempfile.TemporaryDirectory(prefix="adaptdl-chaos-") as folder:
        world = World(os.path.abspath(sys.argv[3]), folder, environment["ADAPTDL_TEST_KUBECONFIG"],
                      image=environment["ADAPTDL_TEST_IMAGE"])
        chaos = Chaos(cluster, world, random.Random(seed))
        try:
            results.run(f"chaos (seed {seed})", chaos.life, seconds, logs=chaos.logs)
        finally:
            chaos.mend()
            world.close()
    return results.code()


if __name__ == "__main__":
    run.PATIENCE_S = float(sys.argv[1]) + 600
    sys.exit(run.on_node(use))
