"""The history of jobs, pods and leaders from the API's watches and audit log, and the rules that it
must obey."""

import bisect
import collections
import datetime
import json
import threading
import time
import urllib.parse

PHASES = {
    "": {"Pending", "Starting", "Failed"},
    "Pending": {"Starting", "Failed"},
    "Starting": {"Running", "Stopping", "Succeeded", "Failed"},
    "Running": {"Stopping", "Succeeded", "Failed"},
    "Stopping": {"Pending", "Starting", "Succeeded", "Failed"},
}
ENDED = ("Succeeded", "Failed")


class Recorder(threading.Thread):
    """Follows a collection until stop(): [(version, kind of event, object)]. If the API server has
    dropped events while the watch was not connected, the list has a "gap", then the current
    objects."""

    def __init__(self, api, path):
        super().__init__(daemon=True)
        self.api, self.path, self.events, self.stopped = api, path, [], False
        self.known = {}
        self.followed = 0  # the version up to which nothing is missing
        self.start()

    def stop(self):
        self.stopped = True
        self.join(20)

    def run(self):
        version = None
        while not self.stopped:
            try:
                version = self.follow(version) if version else self.list()
            except (OSError, ValueError, KeyError):  # the server is down, or died within a message
                time.sleep(0.1)  # before the next attempt

    def note(self, kind, thing):
        version = int(thing["metadata"]["resourceVersion"])
        uid = thing["metadata"]["uid"]
        self.events.append((version, kind, thing))
        if kind == "DELETED":
            self.known.pop(uid, None)
        else:
            self.known[uid] = thing

    def list(self):
        found = self.api.get(self.path)
        if found is None:
            raise OSError("it is not listed")
        version = found["metadata"]["resourceVersion"]
        # Between there and the list anything may have happened.
        if self.events:
            self.events.append((self.followed, "GAP", None))
        present = {thing["metadata"]["uid"] for thing in found["items"]}
        for uid in [uid for uid in self.known if uid not in present]:
            gone = self.known.pop(uid)
            self.events.append((self.followed, "DELETED", gone))
        for thing in found["items"]:
            if self.known.get(thing["metadata"]["uid"]) != thing:
                self.note("SEEN", thing)
        self.followed = int(version)
        return version

    def follow(self, version):
        with self.api.stream(self.path + "?" + urllib.parse.urlencode({
                "watch": 1, "resourceVersion": version, "allowWatchBookmarks": "true",
                "timeoutSeconds": 30})) as lines:
            for line in lines:
                if self.stopped:
                    return version
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return None
                version = event["object"]["metadata"]["resourceVersion"]
                self.followed = int(version)
                if event["type"] != "BOOKMARK":
                    self.note(event["type"], event["object"])
        return version


def broken_job_rules(before, now, gap):
    """The rules broken by two successive statuses of a job; after a gap there may have been others
    between them."""
    for key in ("group", "rescales", "attainedService"):
        if before.get(key) is not None and (now.get(key) is None or now[key] < before[key]):
            yield f"{key} fell from {before[key]} to {now.get(key)}"
    was, phase = before.get("phase", ""), now.get("phase", "")
    if was in ENDED and phase != was:
        yield f"{was} became {phase}"
    if was in ENDED and before.get("completionTimestamp") != now.get("completionTimestamp"):
        yield "the time of its end changed"
    if phase != was and not gap and phase not in PHASES.get(was, ()) and was not in ENDED:
        yield f"{was or 'nothing'} became {phase}"
    if (phase in ENDED) != bool(now.get("completionTimestamp")):
        yield f"{phase} with the completion time {now.get('completionTimestamp')}"
    if not gap and before.get("group") != now.get("group") and phase != "Starting":
        yield f"a new group in phase {phase}"


def place(pod):
    notes = pod["metadata"].get("annotations", {})
    return int(notes["adaptdl/group"]), int(notes["adaptdl/rank"])


def broken_rules(job_events, pod_events, late=()):
    """The rules broken in the Recorders' events of jobs and pods; empty if none. `late`: versions
    of excused late writes; pods that they created may be of any group, but must go again."""
    problems, late_pods = [], set()
    # Versions are one sequence for all kinds, in the order of writes.
    events = sorted([(version, 0, kind, job) for version, kind, job in job_events] +
                    [(version, 1, kind, pod) for version, kind, pod in pod_events],
                    key=lambda event: event[:2])
    jobs, pods, gap = {}, {}, {0: set(), 1: set()}
    for version, which, kind, thing in events:
        if kind == "GAP":
            gap[which] = set(jobs) | set(pods)
            continue
        uid = thing["metadata"]["uid"]
        in_gap = uid in gap[which]
        gap[which].discard(uid)
        name = thing["metadata"]["name"]
        if which == 0:
            now = thing.get("status", {})
            if kind != "DELETED":
                problems += [f"{name} at {version}: {problem}" for problem in broken_job_rules(
                    jobs.get(uid, {}), now, in_gap or kind == "SEEN")]
            jobs[uid] = now
            continue
        if kind == "DELETED":
            pods.pop(uid, None)
            late_pods.discard(uid)
            continue
        if uid in pods or uid in late_pods:
            continue
        if version in late:
            late_pods.add(uid)
            continue
        owner = thing["metadata"]["ownerReferences"][0]["uid"]
        group, rank = place(thing)
        for other_name, other_owner, other in pods.values():
            if other_owner == owner and other == (group, rank):
                problems.append(f"{name} at {version}: {other_name} is there for this rank")
            elif other_owner == owner and other[0] != group:
                problems.append(f"{name} at {version}: {other_name} is there of another group")
        # The group is written before its pods are created.
        known = jobs.get(owner, {}).get("group")
        if owner in jobs and kind == "ADDED" and owner not in gap[0] and known != group:
            problems.append(f"{name} at {version}: made while the job's group was {known}")
        pods[uid] = (name, owner, (group, rank))
    return problems + [f"the pod {uid}, created late, is still there" for uid in late_pods]


# ---- leaders

# A change that the API server accepted from an operator: the version it made, the operator's user,
# the job's name, a description, and the newest version that the operator must have read before.
Write = collections.namedtuple("Write", "version user job what read")


def seconds_of(time_text):
    return datetime.datetime.fromisoformat(time_text).timestamp()


def lease_terms(lease_events):
    """[(version, identity)]: who has the lease from which version on. A released lease is still
    that of the last holder, who may have requests on their way."""
    terms = []
    for version, kind, lease in sorted(lease_events, key=lambda event: event[0]):
        holder = lease["spec"].get("holderIdentity") if kind not in ("GAP", "DELETED") else None
        if holder and (not terms or terms[-1][1] != holder):
            terms.append((version, holder))
    return terms


def early_takeovers(lease_events):
    """The lease of a leader may be taken when it was not renewed for as long as it says. All
    operators have the clock of this machine."""
    before = None
    for version, kind, lease in sorted(lease_events, key=lambda event: event[0]):
        spec = lease["spec"] if kind not in ("GAP", "DELETED") else None
        if spec and before and before.get("holderIdentity") not in ("", None,
                                                                    spec["holderIdentity"]):
            unchanged_s = seconds_of(spec["renewTime"]) - seconds_of(before["renewTime"])
            if spec["holderIdentity"] and unchanged_s < before["leaseDurationSeconds"]:
                yield (f"the lease at {version}: {spec['holderIdentity']} took it "
                       f"{unchanged_s:.1f} s after {before['holderIdentity']} had renewed it")
        before = spec


def late_writes(lease_events, writes, users):
    """[(write, why it is a violation; None: it is excused)] of the writes of operators that did not
    hold the lease. `users`: {identity: user}.

    Kubernetes has no fencing: a request that was sent in time may arrive after another operator has
    taken the lease, because the network or the server was slow. Such a write is excused: what harm
    it does, the rules of jobs and pods find. It is a violation if the operator had read what was
    written after the lease was taken: then it has decided and sent it while the other one led.
    """
    terms = lease_terms(lease_events)
    starts = [version for version, _ in terms]
    found = []
    for write in sorted(writes):
        at = bisect.bisect(starts, write.version) - 1
        leader = users.get(terms[at][1]) if at >= 0 else None
        if leader == write.user:
            continue
        why = None
        if write.user not in [users.get(holder) for _, holder in terms[:at + 1]]:
            why = "it never led before"
        elif write.read > starts[at]:
            why = f"it had read version {write.read}, and {leader} leads since {starts[at]}"
        found.append((write, why))
    return found


def broken_leader_rules(lease_events, writes, users):
    """The rules that leaders have broken; empty if none."""
    return [*early_takeovers(lease_events), *(
        f"{write.job} at {write.version}: {write.what} by {write.user}: {why}"
        for write, why in late_writes(lease_events, writes, users) if why)]
