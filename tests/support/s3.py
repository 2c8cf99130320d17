"""An object store of this machine that checks signatures."""

import json
import os
import subprocess

from .checks import check
from .processes import free_port, run_command

# A Python that has moto.
MOTO = os.environ.get("ADAPTDL_TEST_MOTO", "")
HERE = os.path.dirname(os.path.abspath(__file__))
# Run by MOTO: python -c CLIENT ACTION KEY, with the text to put on standard input.
CLIENT = """
import sys, boto3
action, key = sys.argv[1:]
s3 = boto3.client("s3", region_name="us-east-1")
if action == "put":
    s3.put_object(Bucket="training", Key=key, Body=sys.stdin.buffer.read())
elif action == "list":
    pages = s3.list_objects_v2(Bucket="training", Prefix=key)
    print("\\n".join(entry["Key"] for entry in pages.get("Contents", [])))
else:
    sys.stdout.buffer.write(s3.get_object(Bucket="training", Key=key)["Body"].read())
"""


class ObjectStore:
    """Serves the bucket `training` until the folder is closed. `environment`: of its users."""

    def __init__(self, folder):
        self.port = free_port()
        with open(folder.file("s3.log"), "wb") as log:
            # Not marked as the folder's: it is no process of a run.
            self.process = folder.processes.start(
                [MOTO, os.path.join(HERE, "s3_server.py"), str(self.port)],
                stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline()
        check(line, "the object store did not start")
        key = json.loads(line)
        self.environment = {"AWS_ACCESS_KEY_ID": key["id"], "AWS_SECRET_ACCESS_KEY": key["secret"],
                            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
                            "NO_PROXY": "127.0.0.1"}

    def through(self, url):
        """The environment of those who reach the store at another address."""
        return self.environment | {"AWS_ENDPOINT_URL": url}

    def _client(self, action, key, content=b""):
        return run_command([MOTO, "-c", CLIENT, action, key], 0, text=False, input=content,
                           env=os.environ | self.environment).stdout

    def put(self, key, content):
        self._client("put", key, content)

    def get(self, key):
        return self._client("get", key)

    def keys(self, prefix):
        return self._client("list", prefix).decode().split()
