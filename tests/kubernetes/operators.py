"""The operator on a real API server, with pods on a real node: run.py starts both.

Usage: operators.py ADAPTDL [TEST...], with ADAPTDL_TEST_KUBECONFIG and, for pods that run,
ADAPTDL_TEST_IMAGE.
Tests run one after another, each in its own namespace, against one operator.
"""

import concurrent.futures
import json
import os
import sys
import time
import urllib.error
import urllib.request

from support import Failed, check, end, run_command, wait_until
from world import IMAGE, run_tests


def ends(world):
    """A job runs to its end; its pods and their logs stay."""
    name = world.submit("good", "echo from $ADAPTDL_JOB_ID; sleep 1")
    status = world.wait_phase(name, "Succeeded")
    check(status["group"] == 0 and status["completionTimestamp"], "its status", status)
    pod, = world.pods(name)
    check(f"from {world.space}/good" in world.log(pod), "its log", world.log(pod))
    # The last one is written after the status.
    wait_until(lambda: {"Scheduled", "Starting", "Succeeded"} <= {
        reason for reason, _ in world.events()}, "its events", tell=world.events)
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    check(conditions["Complete"] == "True" and conditions["Failed"] == "False", "conditions",
          conditions)


def fails(world):
    """A failed job is retried, then reported with its exit code."""
    name = world.submit("bad", "sleep 1; exit 3", backoffLimit=1)
    # It is in Backoff for a second only.
    world.wait_status(name, lambda status: status.get("reason") == "Backoff" or
                      status.get("group"), "it is tried again")
    status = world.wait_phase(name, "Failed")
    check(status["reason"] == "PodFailure" and "exit code 3" in status["message"], "why", status)
    check(status["group"] == 1 and status["completionTimestamp"], "two starts", status)
    wait_until(lambda: any("attempt 2 of 2" in note for _, note in world.events()), "it was told",
               tell=world.events)


def cannot_start(world):
    """The reason why pods do not start is reported within half a minute, also in a condition."""
    world.api.create(f"/api/v1/namespaces/{world.space}/resourcequotas", {
        "metadata": {"name": "small"}, "spec": {"hard": {"requests.memory": "1Mi"}}})
    volume = {"volumes": [{"name": "data", "configMap": {"name": "no-such-map"}}]}
    claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "no-such-claim"}}]}
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    variable = [{"name": "A",
                 "valueFrom": {"secretKeyRef": {"name": "no-such-secret", "key": "a"}}}]

    def asks(**amounts):
        whole = {name: amount for name, amount in amounts.items() if "/" in name}
        return {"resources": {"requests": amounts, "limits": whole}}
    # The quota limits memory, so all pods must request it.
    little = {"memory": "1Ki", "cpu": "10m"}
    cases = [  # name, image, of the container, of the pod, reason, what the message names
        ("imageless", "localhost/no-such-image:1", asks(**little), {}, "Pull", "no-such-image"),
        ("mountless", None, asks(**little) | mount, volume, "FailedMount", "no-such-map"),
        ("claimless", None, asks(**little) | mount, claim, "Unschedulable", "no-such-claim"),
        ("secretless", None, asks(**little) | {"env": variable}, {}, "CreateContainerConfigError",
         "no-such-secret"),
        ("large", None, asks(memory="100Mi", cpu="10m"), {}, "QuotaExceeded", "requests.memory"),
        ("huge", None, asks(memory="1Ki", cpu="4000"), {}, "Waiting", "cpu"),
        ("gpu", None, asks(**little | {"nvidia.com/gpu": "1"}), {}, "Waiting", "nvidia.com/gpu"),
        ("nowhere", None, asks(**little), {"nodeSelector": {"zone": "moon"}}, "Waiting", "zone"),
    ]
    begun = time.monotonic()
    for name, image, in_container, in_pod, _, _ in cases:
        world.submit(name, image=image, in_container=in_container, in_pod=in_pod)
    for name, _, _, _, reason, named in cases:
        def told(status, reason=reason, named=named):
            conditions = {c["type"]: c for c in status.get("conditions", [])}
            return reason in status.get("reason", "") and named in status.get("message", "") and \
                named in conditions["Ready"]["message"] and \
                conditions["Ready"]["reason"] == status["reason"]
        world.wait_status(name, told, f"{reason}: {named}", 30 - (time.monotonic() - begun))
    name = "imageless"
    status, answer = world.api.request("DELETE", world.jobs(name))
    check(status == 200, "it is deleted", answer)
    wait_until(lambda: not world.pods(name), "its pods are gone")


def grow(world, name):
    """Hints with which a second replica pays."""
    code, text = world.supervisor(name, "PUT", f"/hints/{world.space}/{name}", {
        "initBatchSize": 128, "localBszBounds": [32, 256], "globalBatchSize": None,
        "maxBatchSize": 2048, "maxProfiledReplicas": 1, "gradientAccumulation": False,
        "gradParams": {"norm": 0.001, "var": 5.0}, "rescaleCost": 1.0,
        "perfParams": {"alpha_c": 0.1, "beta_c": 0.01, "alpha_n": 1e-8, "beta_n": 1e-8,
                       "alpha_r": 1e-8, "beta_r": 1e-8, "gamma": 1.0}})
    check(code == 200, "hints", code, text)


def quota(world):
    """A job that grows beyond a quota goes on with what that admits."""
    name = world.submit("grows", maxReplicas=2)
    world.wait_phase(name, "Running")
    world.api.create(f"/api/v1/namespaces/{world.space}/resourcequotas", {
        "metadata": {"name": "one"}, "spec": {"hard": {"pods": "1"}}})
    grow(world, name)
    wait_until(lambda: any("exceeded quota" in note for _, note in world.events()), "it was told",
               60, tell=world.events)
    status = world.wait_status(
        name, lambda status: status.get("phase") == "Running" and status["group"] >= 2,
        "it goes on", 120)
    check(len(status["allocation"]) == status["readyReplicas"] == 1 and
          status.get("failures", 0) == 0, "with one replica", status)
    group = status["group"]
    time.sleep(15)  # several rounds
    status = world.status(name)
    check(status["phase"] == "Running" and status["group"] == group, "it stays so", status)


def rescaled(world):
    """Hints make a job grow: its pods get SIGTERM, exit with 143, and restart as a new group."""
    name = world.submit("grows", maxReplicas=2)
    world.wait_phase(name, "Running")
    check(len(world.pods(name)) == 1, "it begins with one", world.pods(name))
    code, text = world.supervisor(name, "GET", f"/discover/{world.space}/{name}/0?timeout=10")
    check(code == 200 and len(json.loads(text)) == 1, "its address", code, text)
    grow(world, name)
    status = world.wait_status(
        name, lambda status: status.get("phase") == "Running" and status.get("readyReplicas") == 2,
        "two replicas")
    check(status["group"] == 1 and status.get("failures", 0) == 0, "one restart, no failure",
          status)
    check(status["train"]["maxProfiledReplicas"] == 1, "its hints are kept", status)
    policy, = world.api.get(f"/apis/networking.k8s.io/v1/namespaces/{world.space}/networkpolicies")[
        "items"]
    wanted = {"matchLabels": {"adaptdl/job": name}}
    check(policy["spec"]["podSelector"] == wanted and
          policy["spec"]["ingress"] == [{"from": [{"podSelector": wanted}]}] and
          policy["metadata"]["ownerReferences"][0]["name"] == name, "its network policy", policy)

    def logs():
        return sorted(str(world.log(pod)).split(" at ")[0].strip() for pod in world.pods(name))
    # Their programs may not have printed yet.
    wait_until(lambda: logs() == ["start 1 0 of 2", "start 1 1 of 2"], "what its replicas see",
               tell=logs)
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
    """Its pods are stopped, exit with 143, and so show that the job is restartable."""
    name = world.submit("pauses", maxReplicas=1)
    world.wait_phase(name, "Running")
    # Until it has set its trap, it takes no notice of SIGTERM.
    pod, = world.pods(name)
    wait_until(lambda: "start" in str(world.log(pod)), "it prints")
    world.api.request("PATCH", world.jobs(name), {"spec": {"suspend": True}},
                      "application/merge-patch+json")
    status = world.wait_status(name, lambda status: status.get("reason") == "Suspended", "it waits")
    check(status["phase"] == "Pending" and not world.pods(name), "no pods", status)
    check(status.get("restartable") is True, "it has exited with 143 when asked", status)
    world.api.request("PATCH", world.jobs(name), {"spec": {"suspend": False}},
                      "application/merge-patch+json")
    world.wait_status(name, lambda status: status.get("phase") == "Running" and
                      status.get("group") == 1, "it goes on")


def foreign_pod(world):
    """A foreign pod with only a job's label has no effect."""
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


def drained(world):
    """A node that an autoscaler is about to remove is drained: the job writes a checkpoint, waits,
    and resumes."""
    name = world.submit("moves")
    world.wait_phase(name, "Running")
    node, = world.status(name)["allocation"]

    def taint(taints):
        status, answer = world.api.request(
            "PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": taints}},
            "application/merge-patch+json")
        check(status == 200, "taints", answer)
    taint([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}])
    try:
        status = world.wait_phase(name, "Pending")
        check(status.get("failures", 0) == 0 and not world.pods(name), "no failure, no pods",
              status)
    finally:
        taint(None)
    world.wait_status(name, lambda status: status.get("phase") == "Running" and
                      status.get("group") == 1, "it goes on")


def plugin_restarts(world):
    """While a device plugin restarts its node has no GPUs: the job on it keeps its pods, and no
    other one starts there."""
    node, = world.api.get("/api/v1/nodes")["items"]

    def set_gpus(count):
        size = {"nvidia.com/gpu": count}
        status, answer = world.api.request(
            "PATCH", f"/api/v1/nodes/{node['metadata']['name']}/status",
            {"status": {"capacity": size, "allocatable": size}}, "application/merge-patch+json")
        check(status == 200, f"{count} GPUs", answer)
    set_gpus("2")
    try:
        gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "10m"}}}
        name = world.submit("stays", in_container=gpu, restartable=True, maxReplicas=1)
        world.wait_phase(name, "Running")
        pods = world.pods(name)
        set_gpus("0")
        other = world.submit("waits", in_container=gpu, maxReplicas=1)
        world.wait_status(other, lambda status: status.get("reason") == "Waiting",
                          "the other one waits for a GPU")
        time.sleep(3)  # for what must not happen
        status = world.status(name)
        check(status["phase"] == "Running" and not status.get("rescales") and
              world.pods(name) == pods, "the job was touched", status)
        set_gpus("2")
        world.wait_phase(other, "Running")
        check(world.pods(name) == pods, "the job was touched", world.status(name))
    finally:
        set_gpus(None)


def accelerators(world):
    """A job runs only on nodes of the kinds that it names, and says what it waits for."""
    node, = world.api.get("/api/v1/nodes")["items"]

    def label(kind):
        status, answer = world.api.request(
            "PATCH", f"/api/v1/nodes/{node['metadata']['name']}",
            {"metadata": {"labels": {"nvidia.com/gpu.product": kind}}},
            "application/merge-patch+json")
        check(status == 200, "its label", answer)
    name = world.submit("picky", "echo on $ADAPTDL_ACCELERATOR; exec sleep 1000",
                        accelerators=["*H100*", "tesla-t4"])
    world.wait_status(name, lambda status: status.get("reason") == "Waiting" and
                      "*H100*,tesla-t4" in status.get("message", ""), "it waits for such a node")
    label("Tesla-T4")
    try:
        world.wait_phase(name, "Running")
        other = world.submit("other", accelerators=["*A100*"])
        world.wait_status(other, lambda status: "*A100*" in status.get("message", ""), "it waits")
        pod, = world.pods(name)
        wait_until(lambda: world.log(pod) == "on Tesla-T4\n", "its kind",
                   tell=lambda: world.log(pod))
    finally:
        label(None)
    status, answer = world.api.request("POST", world.jobs(), {
        "apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob", "metadata": {"name": "odd"},
        "spec": {"template": {}, "accelerators": [""]}})
    check(status == 422 and "spec.accelerators" in json.dumps(answer), "no name", status, answer)


def placeholders(world):
    """As many placeholders as the jobs justify nodes, one each; others wait for an autoscaler."""
    for old in world.operators:
        old.kill()
    world.operators.clear()
    world.options += ("--min-nodes", "2", "--max-nodes", "4", "--placeholder-image", IMAGE,
                      "--placeholder-spec", json.dumps({"containers": [{
                          "name": "placeholder", "image": IMAGE, "command": ["sleep", "100000"],
                          "resources": {"requests": {"cpu": "1m", "memory": "5Mi"}}}]}),
                      "--expander-interval", "1s", "--scale-down-delay", "3s")
    world.start_operator()

    def found():
        pods = world.api.get("/api/v1/namespaces/adaptdl/pods?labelSelector=adaptdl%2Fplaceholder")
        return sorted(pod["status"]["phase"] for pod in pods["items"])
    wait_until(lambda: found() == ["Pending", "Running"], "one has the node, one waits for another")
    pods = world.api.get("/api/v1/namespaces/adaptdl/pods?labelSelector=adaptdl%2Fplaceholder")
    world.api.request("DELETE", "/api/v1/namespaces/adaptdl/pods/"
                      + pods["items"][0]["metadata"]["name"])
    wait_until(lambda: found() == ["Pending", "Running"], "one that was taken is made anew")


def hostile(world):
    """Jobs of one user that are nested too deeply, or so large that a page of them is more than any
    answer may be, fail as Invalid. Everybody else's run, also under a new operator, and `ls` shows
    all."""
    deep = {"a": 1}
    for _ in range(70):
        deep = {"a": deep}
    world.submit("deep", in_pod={"deep": deep})
    large = {"env": [{"name": "A", "value": "x" * 1_400_000}]}
    many = [world.submit(f"large-{i}", in_container=large) for i in range(25)]
    for round_ in range(2):
        good = world.submit(f"good-{round_}")
        world.wait_phase(good, "Running", 30)
        for name, why in [("deep", "nested too deeply"),
                          *((name, "takes more than") for name in many)]:
            status = world.wait_phase(name, "Failed")
            check(status["reason"] == "Invalid" and why in status["message"], name, status)
        world.stop_operators()
        world.start_operator()
    listed = json.loads(run_command([world.adaptdl, "ls", "-a", "--kubeconfig", world.kubeconfig,
                                     "--namespace", world.space, "-o", "json"], 0).stdout)["jobs"]
    check({"deep", *many, "good-0", "good-1"} == {job["name"] for job in listed}, "ls", listed)


def crowd(world):
    """Thousands of jobs and events of one user, with labels and annotations as large as may be,
    delay nobody else's job, also under a new operator. (Few here; ADAPTDL_TEST_CROWD=5000 by hand.)
    """
    count = int(os.environ.get("ADAPTDL_TEST_CROWD", "200"))
    metadata = {"labels": {f"label-{i}": "x" * 63 for i in range(200)},
                "annotations": {"much": "x" * (250 << 10)}}
    for i in range(20):
        world.submit(f"large-{i}", cpu="1000", metadata=metadata)
    event = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "type": "Normal",
             "reason": "Noise", "action": "Nothing", "reportingController": "adaptdl.org/noise",
             "reportingInstance": "noise", "eventTime": "2026-01-01T00:00:00.000000Z",
             "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": world.space,
                           "name": "none"}}

    def noise(i):
        for k in range(4):
            world.api.create(f"/apis/events.k8s.io/v1/namespaces/{world.space}/events",
                             event | {"metadata": {"name": f"noise-{i}-{k}"}})
        world.submit(f"many-{i}", cpu="1000")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = pool.map(noise, range(count))
        good = world.submit("meanwhile")
        world.wait_phase(good, "Running", 30)
        list(made)
    for round_ in range(2):
        good = world.submit(f"good-{round_}")
        world.wait_phase(good, "Running", 30)
        world.stop_operators()
        world.start_operator()
    listed = json.loads(run_command([world.adaptdl, "ls", "-a", "--kubeconfig", world.kubeconfig,
                                     "--namespace", world.space, "-o", "json"], 0).stdout)["jobs"]
    check(len(listed) == count + 23, "ls", len(listed))


def handed_over(world):
    """A leader exits soon after SIGTERM, and another one leads at once."""
    first, second = world.operators[-1], world.start_operator()
    wait_until(second.ready, "it has seen who leads")
    begun = time.monotonic()
    check(end(first.process) and first.process.returncode == 0, "it ends well", first.log)
    took = time.monotonic() - begun
    check(took < 5, f"it took {took:.1f} s to go", first.log)
    wait_until(second.leads, "the other leads", 7)  # before the lease of the first would end
    world.operators.remove(first)


def apart(world):
    """Separate processes for the components do together what a single one does."""
    world.stop_operators()
    supervisor = world.start_operator("--only", "supervisor")
    allocator = world.start_operator("--only", "allocator,metrics")
    url = wait_until(lambda: supervisor.url("supervisor"), "it serves")
    controller = world.start_operator("--only", "controller", "--supervisor-url", url)
    for one in (allocator, controller):
        wait_until(one.leads, "it leads in its part")
    world.operators.append(world.operators.pop(0))  # the supervisor, which is queried below
    name = world.submit("parts", maxReplicas=2)
    world.wait_status(name, lambda status: status.get("phase") == "Running", "it runs")
    code, text = world.supervisor(name, "PUT", f"/hints/{world.space}/{name}", {
        "initBatchSize": 64, "localBszBounds": [64, 64], "maxProfiledReplicas": 1})
    check(code == 200, "hints", code, text)
    world.wait_status(name, lambda status: status.get("train", {}).get("initBatchSize") == 64,
                      "hints that are written")
    check(allocator.metrics()["adaptdl_allocator_rounds_total"] > 0, "rounds", allocator.metrics())
    try:
        controller.metrics()
        raise Failed("figures of a process that has none")
    except urllib.error.HTTPError as error:
        check(error.code == 404, "no figures", error)
    world.stop_operators()
    wait_until(world.start_operator().leads, "one with all parts leads")


def killed_leader(world):
    """SIGKILL of the leader: the other takes over within 20 s, and nothing is duplicated."""
    second = world.start_operator()
    wait_until(second.ready, "it has read the cluster")
    name = world.submit("stays")
    world.wait_phase(name, "Running")
    # Programs may talk to any operator.
    code, text = world.supervisor(name, "PUT", f"/hints/{world.space}/{name}", {
        "initBatchSize": 64, "localBszBounds": [64, 64], "maxProfiledReplicas": 1})
    check(code == 200 and not second.leads(), "hints to the one that waits", code, text)
    world.wait_status(name, lambda status: status.get("train", {}).get("initBatchSize") == 64,
                      "hints that the one took that does not lead")
    before = world.pods(name)
    world.operators[0].kill()
    late = world.submit("late")
    wait_until(second.leads, "the other leads", 25)
    world.wait_phase(late, "Running")
    check(world.pods(name) == before, "the running job was touched", before, world.pods(name))
    world.operators.pop(0)


if __name__ == "__main__":
    sys.exit(run_tests([ends, fails, cannot_start, quota, rescaled, suspended, foreign_pod, drained,
                        plugin_restarts, accelerators, hostile, crowd, handed_over, apart,
                        killed_leader, placeholders]))
