"""A docker-registry of this machine."""

import json
import os
import shutil
import subprocess
import urllib.request

from .checks import check, wait_until
from .processes import Processes, free_port


def has_registry():
    return shutil.which("docker-registry") is not None


class Registry:
    """A registry with its files and its log in a folder; several may share the files."""

    def __init__(self, folder, port=None, read_only=False):
        self.port = port or free_port()
        self.name = f"127.0.0.1:{self.port}"
        config, log = (os.path.join(folder, f"registry-{self.port}.{kind}")
                       for kind in ("json", "log"))
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"version": "0.1", "log": {"level": "warn", "accesslog": {"disabled": True}},
                       "storage": {"filesystem": {"rootdirectory": os.path.join(folder,
                                                                                "registry")},
                                   "maintenance": {"readonly": {"enabled": read_only}}},
                       "http": {"addr": self.name}}, file)
        self.processes = Processes()
        with open(log, "ab") as said:
            self.process = self.processes.start(["docker-registry", "serve", config], stdout=said,
                                                stderr=subprocess.STDOUT, start_new_session=True)
        try:
            wait_until(self.answers, "an answer of docker-registry")
        except BaseException:
            self.close()
            raise

    def answers(self):
        check(self.process.poll() is None, "docker-registry has ended")
        try:
            with urllib.request.urlopen(f"http://{self.name}/v2/", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def close(self):
        self.processes.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
