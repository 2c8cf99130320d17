"""Thousands of hostile objects from a real API server reach the operator, and harm nobody else.

Usage: hostile.py COUNT SEED ADAPTDL, with ADAPTDL_TEST_KUBERNETES as for run.py. Users of one
namespace create odd jobs (odd_objects.py) until the API server has taken COUNT, give many of them
odd statuses, and create pods that say they are theirs. The pods go to nodes that exist only as
objects. Meanwhile a good job begins every 20 s in another namespace, on the real node: its pod must
be there within 30 s. At last come jobs that take much memory to be parsed, and many that are as
large as a job may be; each of these gets its pod. In the end the operator is still the same
process, of a bounded size, and `adaptdl ls` shows all.
"""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import sys
import tempfile
import threading
import time
import unicodedata

import run
from cluster import NODE
from odd_objects import as_json, drawn, good_job, odd_job, odd_pod, odd_pod_status, odd_status
from support import Failed, Results, check, run_command, shortened, status_of, wait_until
from world import GROUP, World

HOSTILE, GOOD = "hostile", "good"
ALIVE = 500  # hostile jobs at once: the store must not fill
THREADS = 6
LINGER_S = 3  # of each batch, once complete
BETWEEN_S = 20  # two good jobs
WITHIN_S = 30  # a good job's pod is there
ANSWER_S = 300  # that the API server may be too busy
LIMIT_MIB = 512 // 2  # half of the operator's memory, as `adaptdl install` sets it
DENSE, DENSE_JOBS = 430_000, 20  # empty lists in a job
LARGE, LARGE_JOBS = 1_000_000, 100  # bytes of a text in a job
FAKE, FAKE_NODES = "fake-0", 3
REAL = {"key": "example.org/real", "value": "yes", "effect": "NoSchedule"}  # a taint
MERGE = "application/merge-patch+json"
# Answers with less than the whole objects.
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = METADATA.replace("Metadata;", "MetadataList;")
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


class FakeNodes(threading.Thread):
    """Nodes without a kubelet: this thread renews their leases, so that they count as ready."""

    def __init__(self, api):
        super().__init__(daemon=True)
        self.api, self.over = api, threading.Event()
        size = {"cpu": "64", "memory": "512Gi", "pods": "1000", "nvidia.com/gpu": "8"}
        for number in range(FAKE_NODES):
            name = f"fake-{number}"
            api.create("/api/v1/nodes", {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"capacity": size, "allocatable": size, "conditions": [
                    {"type": "Ready", "status": "True", "reason": "KubeletReady"}]}})
        self.start()

    def run(self):
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        while True:
            now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
            for number in range(FAKE_NODES):
                name = f"fake-{number}"
                spec = {"spec": {"holderIdentity": name, "leaseDurationSeconds": 40,
                                 "renewTime": now}}
                with contextlib.suppress(OSError, http.client.HTTPException):
                    if self.api.request("PATCH", f"{leases}/{name}", spec, MERGE)[0] == 404:
                        self.api.request("POST", leases, spec | {"metadata": {"name": name}})
            if self.over.wait(10):
                return

    def stop(self):
        self.over.set()
        self.join(30)


class GoodJobs(threading.Thread):
    """Submits a good job every 20 s until stop(). `taken`: [(seconds until its pod was there,
    seconds until it ran)]."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.over, self.taken, self.problems = world, threading.Event(), [], []
        self.start()

    def one(self, number):
        begun = time.monotonic()
        name = self.world.submit(
            f"good-{number}", "sleep 2", cpu="20m", in_pod={
                "nodeSelector": {"kubernetes.io/hostname": NODE}, "tolerations": [REAL | {
                    "operator": "Equal"}], "terminationGracePeriodSeconds": 0})
        wait_until(lambda: self.world.pods(name), f"{name} has a pod", 4 * WITHIN_S)
        there = time.monotonic() - begun
        self.world.wait_status(name, lambda status: status.get("phase") in ("Running", "Succeeded"),
                               "it runs", 4 * WITHIN_S)
        self.taken.append((there, time.monotonic() - begun))
        self.world.wait_phase(name, "Succeeded", 4 * WITHIN_S)

    def run(self):
        for number in itertools.count():
            due = time.monotonic() + BETWEEN_S
            try:
                self.one(number)
            except (Failed, OSError, http.client.HTTPException) as problem:
                self.problems.append(str(problem))
            if self.over.wait(max(0, due - time.monotonic())):
                return

    def stop(self):
        self.over.set()
        self.join(9 * WITHIN_S)
        check(not self.is_alive(), "the last good job does not end")


class Storm:
    def __init__(self, world, seed):
        self.world, self.api, self.seed = world, world.api, seed
        self.jobs = f"{GROUP}/namespaces/{HOSTILE}/adaptdljobs"
        self.pods = f"/api/v1/namespaces/{HOSTILE}/pods"
        self.numbers = itertools.count()
        self.lock = threading.Lock()
        self.counts, self.problems = {}, []

    def send(self, what, method, path, body, kind="application/json"):
        """The metadata of the object that is accepted, text if they are nested too deeply for
        Python; None if it is refused."""
        try:
            status, answer = self.api.request(method, path, as_json(body), kind, METADATA)
        except (OSError, http.client.HTTPException):  # it hangs up on too large requests
            status, answer = 0, None
        taken = status in (200, 201)
        with self.lock:
            key = f"{what} {'accepted' if taken else 'refused'}"
            self.counts[key] = self.counts.get(key, 0) + 1
        return answer if taken else None

    def patiently(self, method, path, body=None, **options):
        """Asks until there is an answer: the API server may be too busy to be in time."""
        def answer():
            try:
                status, answer = self.api.request(method, path, body, **options)
            except (OSError, http.client.HTTPException):
                return None
            return None if status == 429 or status >= 500 else (status, answer)
        return wait_until(answer, f"an answer to {method} {path}", ANSWER_S, 1)

    def one(self, number):
        """Creates a hostile job with all that belongs to it; returns whether it was accepted."""
        draw = drawn(self.seed, number)
        name = f"odd-{number}"
        made = self.send("jobs", "POST", self.jobs, odd_job(draw, name, self.world.image))
        if not isinstance(made, dict):
            return made is not None
        name = made["metadata"]["name"]  # a mutation may have changed it
        for _ in range(draw.choice((0, 0, 1, 1, 2))):
            self.send("statuses", "PATCH", f"{self.jobs}/{name}/status", odd_status(draw), MERGE)
        if draw.random() < 0.15:
            self.intrude(draw, made)
        if draw.random() < 0.1:
            self.send("changes", "PATCH", f"{self.jobs}/{name}",
                      {"spec": {"suspend": True, "maxReplicas": draw.choice((1, 2**31 - 1))}},
                      MERGE)
        return True

    def intrude(self, draw, job):
        for i in range(draw.choice((1, 1, 3))):
            pod = self.send("pods", "POST", self.pods, odd_pod(
                draw, f"{job['metadata']['name'][:40]}-pod-{i}", job))
            if isinstance(pod, dict):
                self.send("statuses of pods", "PATCH",
                          f"{self.pods}/{pod['metadata']['name']}/status", odd_pod_status(draw),
                          "application/strategic-merge-patch+json")

    def batch(self, count):
        """Creates jobs until `count` more are accepted."""
        left, over = itertools.count(), threading.Event()

        def some():
            while not over.is_set() and next(left) < count:
                while not over.is_set() and not self.one(next(self.numbers)):
                    pass
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            try:
                for done in [pool.submit(some) for _ in range(THREADS)]:
                    done.result()
            finally:
                over.set()  # the others too, if one fails or this program is to end

    def create(self, names, text):
        """A job of each name, which stands for NAME in the text."""
        def one(name):
            named = text.replace(b'"NAME"', as_json(name))
            status, answer = self.patiently("POST", self.jobs, named, accept=METADATA)
            check(status in (201, 409), name, answer)  # 409: it was made, but the answer was late
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(one, names))

    def dense(self):
        """Jobs near the API server's limit that take thirty times their length once parsed."""
        job = good_job(drawn(self.seed, 0), "NAME", self.world.image)
        job["spec"]["template"]["large"] = "DENSE"
        self.create([f"dense-{number}" for number in range(DENSE_JOBS)],
                    as_json(job).replace(b'"DENSE"', b"[" + b"[]," * DENSE + b"[]]"))

    def large(self):
        """Jobs that are nearly as large as a job may be, and whose pods are, too."""
        job = good_job(drawn(self.seed, 0), "NAME", self.world.image)
        job["spec"] |= {"minReplicas": 1, "maxReplicas": 1}
        pod = job["spec"]["template"]["spec"]
        pod["nodeSelector"] = {"kubernetes.io/hostname": FAKE}
        pod["containers"][0]["env"] = [{"name": "LARGE", "value": LARGE * "x"}]
        names = {f"large-{number}" for number in range(LARGE_JOBS)}
        self.create(names, as_json(job))
        found = f"{self.pods}?labelSelector=adaptdl/job={{}}"

        def missing():
            names.difference_update([name for name in names if self.patiently(
                "GET", found.format(name), accept=METADATA_LIST)[1]["items"]])
            return names
        wait_until(lambda: not missing(), "the large jobs have pods", 120, 1)

    def alive(self):
        """The names of the jobs, in pages: all at once keep the API server busy."""
        names, more = [], ""
        while more is not None:
            status, page = self.patiently(
                "GET", f"{self.jobs}?includeObject=None&limit=100&continue={more}", accept=TABLE)
            check(status == 200, "the hostile jobs are listed", page)
            names += [row["cells"][0] for row in page["rows"] or ()]
            more = page["metadata"].get("continue")
        return names

    def clear(self):
        with contextlib.suppress(OSError):  # the deletion goes on if the answer is late
            self.api.request("DELETE", self.jobs)

        def without_finalizers(name):
            self.api.request("PATCH", f"{self.jobs}/{name}", {"metadata": {"finalizers": None}},
                             MERGE, METADATA)
            self.api.request("DELETE", f"{self.jobs}/{name}")

        def gone():
            try:
                with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
                    left = self.alive()
                    list(pool.map(without_finalizers, left))
                # No kubelet ends them.
                self.api.request("DELETE", self.pods + "?gracePeriodSeconds=0")
                return not left and not self.api.get(self.pods + "?limit=1")["items"]
            except (OSError, TypeError, Failed, http.client.HTTPException):  # an answer is late
                return False
        wait_until(gone, "the hostile jobs and their pods are gone", 300, 0.5)

    def check_shown(self):
        """`adaptdl ls` shows all, and prints nothing that a terminal would obey."""
        known = set(self.alive())
        words = [self.world.adaptdl, "ls", "-a", "--kubeconfig", self.world.kubeconfig,
                 "--namespace", HOSTILE]
        shown = json.loads(run_command([*words, "-o", "json"], 0).stdout)["jobs"]
        names = {job["name"] for job in shown}
        # Jobs may be deleted meanwhile: by their owners' absence, or after their end. One may come
        # whose answer was late.
        after = set(self.alive())
        check(known & after <= names <= known | after, "ls shows all",
              *[shortened(sorted(names ^ known))])
        text = run_command(words, 0).stdout
        odd = {char for char in text if unicodedata.category(char) == "Cc" and char not in "\n\t"}
        if odd:
            self.problems.append(f"ls prints control characters: {sorted(odd)}")


def prepare(world):
    """An operator that leads, a tainted real node, and the namespaces; returns the operator."""
    world.prepare()
    status, answer = world.api.request("PATCH", f"/api/v1/nodes/{NODE}",
                                       {"spec": {"taints": [REAL]}}, MERGE)
    check(status == 200, "the real node's taint", answer)
    world.new_namespace(HOSTILE)
    world.new_namespace(GOOD)
    operator, = world.operators
    return operator


def life(world, count, seed):
    operator = prepare(world)
    nodes = FakeNodes(world.api)
    storm, good = Storm(world, seed), GoodJobs(world)
    begun = time.monotonic()
    left = count
    while left:
        size = min(ALIVE, left)
        storm.batch(size)
        left -= size
        time.sleep(LINGER_S)  # while the operator meets them
        storm.check_shown()
        check(operator.process.poll() is None, "the operator ended", operator.process.returncode)
        print(f"{time.monotonic() - begun:6.1f} s: {count - left} jobs; good: "
              f"{[tuple(round(s, 1) for s in taken) for taken in good.taken[-3:]]}; peak "
              f"{status_of(operator.process.pid, 'VmHWM')} kB; {counters(operator)}", flush=True)
        storm.clear()
    for heavy in storm.dense, storm.large:
        heavy()
        time.sleep(LINGER_S)
        storm.check_shown()
        storm.clear()
        print(f"{time.monotonic() - begun:6.1f} s: {heavy.__name__} jobs; peak "
              f"{status_of(operator.process.pid, 'VmHWM')} kB", flush=True)
    good.stop()
    nodes.stop()
    report(operator, storm, good, time.monotonic() - begun)
    check(not good.problems, "good jobs that did not run", *good.problems)
    check(not storm.problems, "problems", *set(storm.problems))
    late = [taken for taken in good.taken if taken[0] > WITHIN_S]
    check(not late, f"good jobs that had no pod within {WITHIN_S} s", *late)
    check(operator.process.poll() is None, "the operator ended", operator.process.returncode)
    peak = int(status_of(operator.process.pid, "VmHWM")) // 1024
    check(peak < LIMIT_MIB, f"the operator took {peak} MiB")


def counters(operator):
    return {name.removeprefix("adaptdl_").removesuffix("_total"): int(value)
            for name, value in operator.metrics().items()
            if "{" not in name and name.endswith("_total")}


def report(operator, storm, good, took):
    worst = [max(times) for times in zip(*good.taken, strict=True)] or ["-", "-"]
    print(f"{took:.0f} s; {storm.counts}; {len(good.taken)} good jobs, the worst with its pod "
          f"after {worst[0]:.1f} s and running after {worst[1]:.1f} s; the operator's peak "
          f"{int(status_of(operator.process.pid, 'VmHWM')) / 1024:.0f} MiB", flush=True)


def use(_cluster, environment):
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    results = Results()
    with tempfile.TemporaryDirectory(prefix="adaptdl-hostile-") as folder:
        world = World(os.path.abspath(sys.argv[3]), folder, environment["ADAPTDL_TEST_KUBECONFIG"],
                      image=environment["ADAPTDL_TEST_IMAGE"])
        try:
            results.run(f"hostile (seed {seed})", life, world, count, seed, logs=world.logs)
        finally:
            world.close()
    return results.code()


if __name__ == "__main__":
    sys.exit(run.on_node(use))
