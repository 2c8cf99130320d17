"""Hostile API objects for tests: jobs, statuses of jobs and pods, each a good one with mutations.

Every function draws from the random.Random that it is given, so a seed gives the same object again.
"""

import contextlib
import json
import random
import re

TEXTS = ("", " ", "x", "-1", "0x10", "1e999", "NaN", "null", "\0", "a\nb\r\n\tc",
         "\x1b[2J\x1b[31mred", "\x9b31m", "\u202egnp.exe", "\ud800", "\ufeff", "e\u0301" * 40,
         "\U0001f9e8" * 64,
         "../../etc/passwd", "%s%n%p", "{{.}} $(A) ${B} `id`", "x" * 63, "x" * 64, "x" * 5000,
         "Running", "Succeeded", "Stopping", "fake-0", "9999-12-31T23:59:59Z",
         "0000-00-00T00:00:00Z", "2026-01-01T00:00:00.999999999999Z", "2026-02-30T25:61:61+99:99",
         "1E", "9223372036854775807Ei", "-5", "1n", "0.0000000001", "99999999999999999999999")
NUMBERS = (0, 1, -1, 3, 127, 2**31 - 1, 2**31, -2**31 - 1, 2**53 + 1, 2**63 - 1, -2**63, 2**63,
           2**64, 0.1, 1.5, -0.0, 5e-324, 1e308, -1e308)
OTHERS = (None, True, False, [], {}, [None], [[]], [{}], {"": ""}, [1, "a", None, {}], ["x"] * 3000)
LONG = 200_000  # characters of the longest text
LONGEST = 1_300_000  # rarely: near the API server's limit of one object
STATUS_FIELDS = (
    "phase", "reason", "message", "allocation", "why", "group", "replicas", "readyReplicas",
    "rescales", "failures", "restartable", "loadPickles", "startTime", "completionTimestamp",
    "retryTime", "retryDelay", "groupStartTime", "heldSince", "attainedService", "train",
    "conditions")
PHASES = ("Pending", "Starting", "Running", "Stopping", "Succeeded", "Failed")
TIMES = ("1970-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
SPEC_FIELDS = ("minReplicas", "maxReplicas", "requestedReplicas", "preemptible", "restartable",
               "accelerators", "liveRescale", "suspend", "cancel", "backoffLimit",
               "startDeadlineSeconds", "ttlSecondsAfterFinished", "unknown")


def as_json(thing):
    """The text of a request; "nested N" becomes N objects in each other, for which json.dumps has
    not enough stack."""
    def nested(found):
        depth = int(found.group(1))
        return '{"a":' * depth + "1" + "}" * depth
    return re.sub(r'"nested (\d+)"', nested, json.dumps(thing)).encode()


def odd(draw):
    """Any value but a sensible one."""
    kind = draw.random()
    if kind < 0.45:
        return draw.choice(TEXTS)
    if kind < 0.75:
        return draw.choice(NUMBERS)
    if kind < 0.95:
        return draw.choice(OTHERS)
    if kind < 0.965:
        return draw.choice("x\u00e9\x01\u4e00") * draw.choice((1000, 1000, 1000, LONG // 3))
    # The API server's work grows with the square of the depth.
    return f"nested {draw.choice((10, 59, 64, 65, 70, 200, 2000 if kind > 0.995 else 100))}"


def places(thing):
    """Every (container, key) below `thing`."""
    if isinstance(thing, (dict, list)):
        keys = list(thing) if isinstance(thing, dict) else range(len(thing))
        for key in keys:
            yield thing, key
            yield from places(thing[key])


def mutate(draw, thing):
    """Changes one place: removed, replaced, wrapped, repeated, or with an odd neighbour."""
    found = list(places(thing))
    if not found:
        return
    container, key = draw.choice(found)
    way = draw.randrange(6)
    if way == 0:
        del container[key]
    elif way == 1:
        container[key] = [container[key]] * draw.choice((1, 2, 100))
    elif way == 2:
        container[key] = {draw.choice(TEXTS): container[key]}
    elif way == 3 and isinstance(container, dict):
        container[draw.choice(TEXTS)] = odd(draw)
    else:
        container[key] = odd(draw)


# ---- jobs


def good_job(draw, name, image):
    container = {"name": "main", "image": image, "command": ["sh", "-c", "sleep 1000"],
                 "env": [{"name": "A", "value": "1"}],
                 "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                 "resources": {"requests": {"cpu": "10m", "memory": "1Mi"},
                               "limits": {"memory": "64Mi"}}}
    pod = {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}],
           "nodeSelector": {}, "tolerations": [{"key": "a", "operator": "Exists"}],
           "initContainers": [], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob",
            "metadata": {"name": name, "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {"template": {"metadata": {"labels": {"e": "f"}, "annotations": {"g": "h"}},
                                  "spec": pod},
                     "minReplicas": draw.choice((0, 0, 0, 1, 2)),
                     "maxReplicas": draw.choice((2, 3, 64, 2**31 - 1)),
                     "accelerators": draw.choice(([], [], ["*A100*", "b"], ["["], ["a,b"]))}}


def mutate_template(draw, job):
    mutate(draw, job["spec"]["template"])


def mutate_spec(draw, job):
    job["spec"][draw.choice(SPEC_FIELDS)] = draw.choice((*NUMBERS[:7], True, False, odd(draw)))


def mutate_job(draw, job):
    mutate(draw, {"spec": job["spec"], "metadata": job["metadata"]})


def mutate_quantities(draw, job):
    amounts = {draw.choice(("cpu", "memory", "nvidia.com/gpu", "x/" + "y" * 63, "", "pods",
                            "ephemeral-storage", "hugepages-2Mi")): odd(draw) for _ in range(4)}
    pod = job["spec"]["template"].get("spec")
    if isinstance(pod, dict):
        pod["containers"] = [{"name": "main", "image": "localhost/none", "resources": {
            draw.choice(("requests", "limits")): amounts}}] * draw.choice((1, 1, 1, 40))


def mutate_pod(draw, job):
    pod = job["spec"]["template"].get("spec")
    if isinstance(pod, dict):
        pod[draw.choice((
            "volumes", "containers", "initContainers", "affinity", "tolerations", "nodeSelector",
            "securityContext", "overhead", "topologySpreadConstraints", "schedulerName",
            "priority", "hostname", "subdomain", "restartPolicy", "nodeName", "dnsConfig",
            "imagePullSecrets", "terminationGracePeriodSeconds", "activeDeadlineSeconds"))] = \
            draw.choice((odd(draw), {odd_key(draw): odd(draw)}, [{"name": odd(draw)}] * 3))


def odd_key(draw):
    return draw.choice(TEXTS)


def mutate_labels(draw, job):
    """As many and as long as may be, also those that only the operator should write."""
    metadata = job["metadata"]
    metadata["labels"] = {f"{'p' * draw.randint(1, 200)}.io/{i}": "x" * 63
                          for i in range(draw.choice((1, 20, 300)))} | {"adaptdl/job": "other"}
    metadata["annotations"] = {f"adaptdl/{draw.choice(('group', 'rank', 'node', 'x'))}":
                               draw.choice(TEXTS),
                               "much": "\u00e9" * draw.choice((0, 500, 100 << 10))}


def mutate_owners(draw, job):
    job["metadata"]["ownerReferences"] = [
        {"apiVersion": draw.choice(("v1", "adaptdl.petuum.com/v1", "none/v9")),
         "kind": draw.choice(("Node", "AdaptDLJob", "Pod", "X")),
         "name": draw.choice(("a", "x" * 253)), "uid": f"{draw.getrandbits(64):x}",
         "blockOwnerDeletion": draw.random() < 0.5}
        for _ in range(draw.choice((1, 2, 100)))]


def mutate_finalizers(draw, job):
    job["metadata"]["finalizers"] = [f"example.org/never-{i}"
                                     for i in range(draw.choice((1, 3, 200)))]


def mutate_size(draw, job):
    length = LONGEST if draw.random() < 0.05 else draw.choice((1000, 70_000, LONG))
    place = draw.choice((job["spec"]["template"], job["spec"], job["metadata"]["annotations"]
                         if isinstance(job["metadata"].get("annotations"), dict) else job["spec"]))
    # Parsed, a list of empty lists takes twenty times its length.
    place[draw.choice(("spec", "large", "larger"))] = draw.choice((
        "x" * (length // 2), "\u00e9" * (length // 2), [[]] * (length // 4)))


MUTATIONS = (mutate_template, mutate_template, mutate_template, mutate_spec, mutate_job,
             mutate_quantities, mutate_pod, mutate_pod, mutate_labels, mutate_owners,
             mutate_finalizers, mutate_size)


def odd_job(draw, name, image):
    made = json.loads(json.dumps(good_job(draw, name, image)))
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        mutation = draw.choice(MUTATIONS)
        if mutation is mutate_size and draw.random() < 0.7:
            continue  # the store of a small machine holds few large objects
        # What it changes may be gone by an earlier mutation.
        with contextlib.suppress(AttributeError, KeyError, TypeError):
            mutation(draw, made)
    return made


# ---- statuses


def likely(draw, field):
    """A value of the right type, but perhaps a lie."""
    if field == "phase":
        return draw.choice(PHASES)
    if field == "allocation":
        return draw.choice((["fake-0"], ["fake-0", "fake-1"], ["none"], ["fake-0"] * 2000, [""]))
    if field in ("startTime", "completionTimestamp", "retryTime", "groupStartTime", "heldSince"):
        return draw.choice(TIMES)
    if field == "conditions":
        return [{"type": draw.choice(("Ready", "Complete", "")), "status": odd(draw),
                 "reason": odd(draw), "message": odd(draw), "lastTransitionTime": odd(draw)}
                for _ in range(draw.choice((1, 3, 30)))]
    if field == "train":
        return odd_hints(draw)
    return draw.choice(NUMBERS)


def odd_hints(draw):
    hints = {"initBatchSize": 128, "localBszBounds": [32, 256], "globalBatchSize": None,
             "maxBatchSize": 2048, "maxProfiledReplicas": 2, "gradientAccumulation": False,
             "rescaleCost": 1.0, "gradParams": {"norm": 0.001, "var": 5.0},
             "trainMetrics": {"loss": 1.0}, "accelerators": {},
             "perfParams": {"alpha_c": 0.1, "beta_c": 0.01, "alpha_n": 1e-8, "beta_n": 1e-8,
                            "alpha_r": 1e-8, "beta_r": 1e-8, "gamma": 1.0}}
    for _ in range(draw.randrange(4)):
        mutate(draw, hints)
    return hints


def odd_status(draw):
    return {"status": {field: likely(draw, field) if draw.random() < 0.5 else odd(draw)
                       for field in draw.sample(STATUS_FIELDS, draw.randint(1, 8))}}


# ---- pods


def odd_pod(draw, name, job):
    """A pod that says it is one of the job's, which is an object of the API server."""
    metadata = job["metadata"]
    pod = {"metadata": {
        "name": name, "labels": {"adaptdl/job": metadata["name"], "adaptdl": "true"},
        "annotations": {f"adaptdl/{key}": draw.choice((str(draw.choice(NUMBERS)),
                                                       draw.choice(TEXTS), "0", "1"))
                        for key in ("group", "rank", "replicas", "node") if draw.random() < 0.9},
        "ownerReferences": [{"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJob",
                             "name": metadata["name"], "uid": metadata["uid"],
                             "controller": draw.random() < 0.8}]},
        "spec": {"containers": [{"name": "main", "image": "localhost/none",
                                 "imagePullPolicy": "Never"}],
                 "nodeName": draw.choice(("fake-0", "fake-1", "none"))}}
    for _ in range(draw.choice((0, 0, 1))):
        mutate(draw, pod["spec"])
    return pod


def odd_pod_status(draw):
    ended = {"exitCode": draw.choice((0, 1, 143, -1, 2**31 - 1)), "reason": draw.choice(TEXTS),
             "message": draw.choice((*TEXTS, '{"message": {"message": 5}}', "x" * 100_000)),
             "finishedAt": draw.choice((*TIMES, None))}
    return {"status": {
        "phase": draw.choice(("Running", "Succeeded", "Failed", "Unknown")),
        "reason": draw.choice(TEXTS), "message": draw.choice(TEXTS),
        "podIP": draw.choice(("10.0.0.1", "::1")),
        "containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": True,
                               "restartCount": draw.choice((0, 2**31 - 1)),
                               "state": {"terminated": ended}}] * draw.choice((0, 1)),
        "conditions": [{"type": "Ready", "status": "True"}, {
            "type": draw.choice(("DisruptionTarget", "PodScheduled", "X")),
            "status": draw.choice(("True", "False")), "reason": "Unschedulable",
            "message": draw.choice(TEXTS)}]}}


def drawn(seed, number):
    """The random numbers of object `number`, whatever else happened before."""
    return random.Random(f"{seed} {number}")
