"""curl against the supervisor: what an unmodified Python AdaptDL says, and must get.

Usage: wire_test.py WIRE_SERVER. Exits 77 (skipped) without curl.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HINTS = ('{"initBatchSize": 128, "localBszBounds": [32, 256], "globalBatchSize": null, '
         '"maxBatchSize": 2048, "maxProfiledReplicas": 2, "gradientAccumulation": true, '
         '"gradParams": {"norm": 0.041, "var": 0.5}, "perfParams": {"alpha_c": 0.031, '
         '"beta_c": 0.0005, "alpha_n": 1.1000000000000001e-08, "beta_n": 1.1000000000000001e-08, '
         '"alpha_r": 1e-08, "beta_r": 1e-08, "gamma": 1.000999}}')
# As python-requests sends; -i shows the answer's head.
CURL = ["curl", "-s", "-i", "--noproxy", "*", "--max-time", "60", "-A", "python-requests/2.34.2",
        "-H", "Accept-Encoding: gzip, deflate", "-H", "Connection: keep-alive"]


class Answer:
    def __init__(self, output):
        head, _, self.body = output.partition("\r\n\r\n")
        self.continued = head.startswith("HTTP/1.1 100")
        if self.continued:
            head, _, self.body = self.body.partition("\r\n\r\n")
        lines = head.split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = dict(line.lower().split(": ", 1) for line in lines[1:])


class WireTest(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True)
        self.base = f"http://127.0.0.1:{self.server.stdout.readline().strip()}"

    def tearDown(self):
        self.server.communicate(timeout=60)
        self.assertEqual(self.server.returncode, 0)

    def tell(self, line):
        self.server.stdin.write(line + "\n")
        self.server.stdin.flush()
        return self.server.stdout.readline().strip()

    def begin(self, path, *arguments):
        return subprocess.Popen(CURL + [*arguments, self.base + path], stdout=subprocess.PIPE)

    def end(self, curl):
        output, _ = curl.communicate(timeout=60)
        self.assertEqual(curl.returncode, 0)
        return Answer(output.decode())

    def ask(self, path, *arguments):
        return self.end(self.begin(path, *arguments))

    def put(self, path, body, *arguments):
        return self.ask(path, "-X", "PUT", "-H", "Content-Type: application/json", "--data-binary",
                        body, *arguments)

    def hints(self, count):
        """The hints of team-a/resnet, when that many are there: they are used after the answer."""
        deadline = time.monotonic() + 20
        while True:
            found = json.loads(self.tell("hints team-a/resnet"))
            if len(found) >= count or time.monotonic() > deadline:
                return found
            time.sleep(0.01)

    def test_healthz(self):
        self.assertEqual(self.ask("/healthz").status, 200)

    def test_addresses_by_rank(self):
        self.tell("addresses team-a/resnet 0 10.0.0.5 10.0.0.9")
        answer = self.ask("/discover/team-a/resnet/0")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"], "application/json; charset=utf-8")
        self.assertEqual(int(answer.headers["content-length"]), len(answer.body))
        self.assertEqual(json.loads(answer.body), ["10.0.0.5", "10.0.0.9"])
        # What arrives when the base URL ends with a slash.
        self.assertEqual(self.ask("//discover/team-a/resnet/0").status, 200)

    def test_unknown_jobs_and_groups_are_held_then_408(self):
        self.tell("addresses team-a/resnet 0 10.0.0.5")
        for path in ("/discover/team-a/resnet/1", "/discover/team-a/other/0"):
            begun = time.monotonic()
            answer = self.ask(path + "?timeout=1")
            self.assertEqual((answer.status, answer.body), (408, ""))
            self.assertGreaterEqual(time.monotonic() - begun, 1)

    def test_held_for_30_s_by_itself(self):
        self.tell("job team-a/resnet")
        begun = time.monotonic()
        self.assertEqual(self.ask("/discover/team-a/resnet/0").status, 408)
        self.assertTrue(29.9 <= time.monotonic() - begun < 45)

    def test_unknown_jobs_are_held_for_seconds(self):
        begun = time.monotonic()
        self.assertEqual(self.ask("/discover/team-a/resnet/0").status, 408)
        self.assertTrue(4.9 <= time.monotonic() - begun < 20)

    def test_all_replicas_are_answered_when_the_last_has_its_address(self):
        waiting = [self.begin("/discover/team-a/resnet/3") for _ in range(4)]
        time.sleep(0.5)
        self.assertEqual([curl.poll() for curl in waiting], [None] * 4)
        self.tell("addresses team-a/resnet 3 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8")
        for curl in waiting:
            answer = self.end(curl)
            self.assertEqual((answer.status, len(json.loads(answer.body))), (200, 4))

    def test_hints(self):
        self.tell("job team-a/resnet")
        answer = self.put("/hints/team-a/resnet", HINTS)
        self.assertEqual((answer.status, answer.body), (200, ""))
        self.assertEqual(self.hints(1), [json.loads(HINTS)])
        # curl as it comes: Expect: 100-continue, and a body in chunks.
        answer = self.put("/hints/team-a/resnet", HINTS, "-H", "Expect: 100-continue")
        self.assertEqual((answer.status, answer.continued), (200, True))
        self.assertEqual(
            self.put("/hints/team-a/resnet", HINTS, "-H", "Transfer-Encoding: chunked").status, 200)
        self.assertEqual(len(self.hints(3)), 3)

    def test_hints_with_nulls_and_more(self):
        self.tell("job team-a/resnet")
        hints = dict(json.loads(HINTS), localBszBounds=[None, 256], gradParams=None,
                     maxBatchSize=None, ours={"a": 1})
        self.assertEqual(self.put("/hints/team-a/resnet", json.dumps(hints)).status, 200)
        del hints["ours"]
        self.assertEqual(self.hints(1), [hints])

    def test_hints_that_are_not_finite(self):
        self.tell("job team-a/resnet")
        for word in ("NaN", "Infinity", "-Infinity"):
            answer = self.put("/hints/team-a/resnet", HINTS.replace("0.5}", word + "}"))
            self.assertEqual(answer.status, 400)
            self.assertIn("gradParams", answer.body)
        self.assertEqual(self.put("/hints/team-a/resnet", HINTS).status, 200)
        self.assertEqual(self.hints(1), [json.loads(HINTS)])

    def test_hints_of_nobody(self):
        self.assertEqual(self.put("/hints/team-a/none", HINTS).status, 404)

    def test_tokens(self):
        self.tell("job team-a/resnet s3cret")
        self.tell("addresses team-a/resnet 0 10.0.0.5")
        for prefix, status in (("/j/s3cret", 200), ("", 401), ("/j/other", 403)):
            self.assertEqual(self.ask(prefix + "/discover/team-a/resnet/0").status, status)
            self.assertEqual(self.put(prefix + "/hints/team-a/resnet", HINTS).status, status)
        self.assertEqual(self.ask("/j/s3cret/healthz").status, 200)

    def test_tls(self):
        self.tell("addresses team-a/resnet 0 10.0.0.5")
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days",
                            "1", "-keyout", key, "-out", certificate, "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=DNS:localhost"], check=True,
                           stderr=subprocess.DEVNULL)
            self.base = f"https://localhost:{self.tell(f'tls {certificate} {key}')}"
            answer = self.ask("/discover/team-a/resnet/0", "--cacert", certificate)
            self.assertEqual((answer.status, answer.body), (200, '["10.0.0.5"]'))
            curl = self.begin("/healthz")  # whose authorities did not sign it
            curl.communicate(timeout=60)
            self.assertEqual(curl.returncode, 60)


if __name__ == "__main__":
    if not shutil.which("curl") or not shutil.which("openssl"):
        print("curl and openssl are needed here")
        sys.exit(77)
    SERVER = sys.argv.pop(1)
    unittest.main()
