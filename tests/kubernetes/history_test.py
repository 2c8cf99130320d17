"""The rules of history.py: a correct history, and one violation of each rule."""

import unittest

from history import broken_rules


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

    def test_a_gap(self):
        jobs = [*LIFE[:4], (9, "GAP", None), job(10, "SEEN", phase="Pending", group=0)]
        self.assertEqual(self.broken(jobs), "")
        self.assertIn("group fell", self.broken([*LIFE[:6], (11, "GAP", None), job(
            12, "SEEN", phase="Pending", group=0, attainedService=3)]))


if __name__ == "__main__":
    unittest.main()
