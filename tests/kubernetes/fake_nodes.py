"""Thousands of nodes without processes: kwok simulates them, and reports that their pods run."""

import json
import threading

GPUS, TAINT = 8, {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
# They renew leases rarely, because renewals would keep a small machine busy.
MANAGER_OPTIONS = ("--node-monitor-grace-period", "120s", "--kube-api-qps", "200",
                   "--kube-api-burst", "400")


def start_kwok(cluster, port):
    config = cluster.write("kwok.json", json.dumps({
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration",
        "options": {"nodePlayStageParallelism": 32, "podPlayStageParallelism": 32,
                    "nodeLeaseParallelism": 32}}))
    cluster.start("kwok", cluster.binary("kwok"),
                  "--kubeconfig", cluster.path("admin"), "--config", config, "--cidr",
                  "10.215.0.0/16", "--manage-nodes-with-annotation-selector",
                  "kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds", "160",
                  "--server-address", f"127.0.0.1:{port}", "-v", "WARN")


def add(api, count, tainted=False):
    """Creates nodes fake-0, fake-1, ... with 64 CPUs, 512 GiB and 8 GPUs; they are ready soon."""
    size = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}

    def some(numbers):
        for number in numbers:
            name = f"fake-{number}"
            api.create("/api/v1/nodes", {
                "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"},
                             "labels": {
                    "type": "kwok", "kubernetes.io/hostname": name}},
                "spec": {"taints": [TAINT] if tainted else []},
                "status": {"capacity": size, "allocatable": size}})
    in_parallel(some, range(count))


def in_parallel(work, items, threads=8):
    """Calls work(a part of the items) on several threads; raises an exception of any."""
    problems = []

    def guarded(part):
        try:
            work(part)
        except Exception as problem:  # of any kind: the waiting thread raises it
            problems.append(problem)
    running = [threading.Thread(target=guarded, args=(items[n::threads],)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if problems:
        raise problems[0]
