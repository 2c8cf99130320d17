"""The rules of history.py: a correct history, and one violation of each rule."""

import contextlib
import json
import time
import unittest

from history import Recorder, Write, broken_leader_rules, broken_rules, late_writes


def job(version, kind="MODIFIED", **status):
    return version, kind, {"metadata": {"name": "j", "uid": "u", "resourceVersion": str(version)},
                           "status": status}


def pod(version, group, rank, kind="ADDED"):
    name = f"j-{group}-{rank}"
    return version, kind, {"metadata": {
        "name": name, "uid": name, "resourceVersion": str(version),
        "ownerReferences": [{"uid": "u"}],
        "annotations": {"adaptdl/group": str(group), "adaptdl/rank": str(rank)}}}


LIFE = [job(1, "ADDED"), job(2, phase="Pending"), job(3, phase="Starting", group=0),
        job(6, phase="Running", group=0), job(7, phase="Stopping", group=0, attainedService=3),
        job(10, phase="Starting", group=1, attainedService=3), job(12, phase="Succeeded", group=1,
                                                                    attainedService=4,
                                                                    completionTimestamp="t")]
PODS = [pod(4, 0, 0), pod(5, 0, 1), pod(8, 0, 0, "DELETED"), pod(9, 0, 1, "DELETED"), pod(11, 1, 0)]


class Rules(unittest.TestCase):
    def broken(self, jobs, pods=()):
        return "; ".join(broken_rules(list(jobs), list(pods)))

    def test_a_life(self):
        self.assertEqual(self.broken(LIFE, PODS), "")

    def test_jobs(self):
        for later, rule in (
                (job(20, phase="Pending"), "Succeeded became Pending"),
                (job(20, phase="Succeeded", group=1, completionTimestamp="later"),
                 "time of its end"),
                (job(20, phase="Succeeded", group=0, completionTimestamp="t"), "group fell"),
                (job(20, phase="Succeeded", group=1, attainedService=1, completionTimestamp="t"),
                 "attainedService fell")):
            self.assertIn(rule, self.broken([*LIFE, later]))
        self.assertIn("Running became Pending", self.broken([*LIFE[:4], job(7, phase="Pending",
                                                                             group=0)]))
        self.assertIn("a new group in phase Running", self.broken([*LIFE[:4], job(
            7, phase="Running", group=1)]))
        self.assertIn("completion time", self.broken([*LIFE[:4], job(7, phase="Failed", group=0)]))

    def test_pods(self):
        twin = pod(6, 0, 1)
        twin[2]["metadata"]["uid"] = "another"
        self.assertIn("for this rank", self.broken(LIFE, [*PODS[:2], twin]))
        self.assertIn("of another group", self.broken(LIFE, [*PODS[:3], PODS[4]]))
        self.assertIn("group was 0", self.broken(LIFE, [pod(4, 1, 0)]))

    def test_a_pod_that_was_created_late(self):
        pods = [*PODS, pod(13, 0, 0)]
        self.assertIn("group was 1", self.broken(LIFE, pods))
        self.assertIn("still there", "; ".join(broken_rules(LIFE, pods, {13})))
        self.assertEqual(broken_rules(LIFE, [*pods, pod(14, 0, 0, "DELETED")], {13}), [])

    def test_a_gap(self):
        jobs = [*LIFE[:4], (9, "GAP", None), job(10, "SEEN", phase="Pending", group=0)]
        self.assertEqual(self.broken(jobs), "")
        self.assertIn("group fell", self.broken([*LIFE[:6], (11, "GAP", None), job(
            12, "SEEN", phase="Pending", group=0, attainedService=3)]))


class ForgetfulApi:
    """Follows a job from version 3 to 5, has then forgotten what came next, and lists version 9."""

    def __init__(self):
        self.lists = [(3, job(1, phase="Pending")), (9, job(8, phase="Running", group=0))]
        self.lines = [[("MODIFIED", job(5, phase="Pending", why="no slot")), ("ERROR", job(0))]]

    def get(self, _path):
        version, (_, _, thing) = self.lists.pop(0)
        return {"metadata": {"resourceVersion": str(version)}, "items": [thing]}

    @contextlib.contextmanager
    def stream(self, _path):
        lines = self.lines.pop(0) if self.lines else []
        yield [json.dumps({"type": kind, "object": thing}) for kind, (_, _, thing) in lines]


class Recording(unittest.TestCase):
    def test_a_gap_begins_where_the_watch_has_ended(self):
        recorder = Recorder(ForgetfulApi(), "/jobs")
        end = time.monotonic() + 20
        while len(recorder.events) < 4 and time.monotonic() < end:
            time.sleep(0.01)
        recorder.stop()
        self.assertEqual([event[:2] for event in recorder.events],
                         [(1, "SEEN"), (5, "MODIFIED"), (5, "GAP"), (8, "SEEN")])
        self.assertEqual(broken_rules(recorder.events, [pod(7, 0, 0)]), [])


def lease(version, holder, second):
    return version, "MODIFIED", {"spec": {
        "holderIdentity": holder, "leaseDurationSeconds": 12,
        "renewTime": f"2026-01-01T00:00:{second:02}.000000Z"}}


USERS = {"a": "operator-0", "b": "operator-1", "c": "operator-0"}
LEASES = [lease(10, "a", 0), lease(20, "a", 2), lease(30, "b", 14), lease(40, "b", 16),
          lease(50, "", 17), lease(60, "c", 18)]


def write(version, user, read):
    return Write(version, f"operator-{user}", "j", "status", read)


class Leaders(unittest.TestCase):
    def broken(self, *writes, leases=LEASES):
        return "; ".join(broken_leader_rules(leases, writes, USERS))

    def test_each_in_its_term(self):
        self.assertEqual(self.broken(write(15, 0, 11), write(35, 1, 15), write(55, 1, 52),
                                     write(65, 0, 62)), "")

    def test_a_lease_that_is_taken_early(self):
        self.assertIn("b took it 11.0 s", self.broken(leases=[LEASES[0], lease(20, "b", 11)]))
        self.assertEqual(self.broken(leases=[LEASES[0], (15, "GAP", None), lease(20, "b", 11)]), "")

    def test_a_late_write(self):
        late = write(36, 0, 25)
        self.assertEqual(late_writes(LEASES, [late], USERS), [(late, None)])
        self.assertEqual(self.broken(late), "")
        self.assertIn("j at 36: status by operator-0: it had read version 35",
                      self.broken(write(35, 1, 25), write(36, 0, 35)))

    def test_a_write_without_a_term(self):
        self.assertIn("never led", self.broken(write(15, 1, 0)))
        self.assertIn("never led", self.broken(write(15, 1, 0), leases=[]))


if __name__ == "__main__":
    unittest.main()
