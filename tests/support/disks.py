"""Small disks, for tests of full and failing ones."""

import ctypes
import os
import subprocess

from .checks import skip
from .processes import run_command


class SmallDisk:
    """2 MB mounted at a path, only for this process and its children. Skips the test if mounting is
    not permitted."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        new_mounts = 0x20000  # CLONE_NEWNS
        if os.geteuid() != 0 or ctypes.CDLL(None).unshare(new_mounts) != 0:
            skip("it needs the right to mount")
        os.mkdir(self.path)
        if any(run_command(["mount", *words]).returncode != 0 for words in (
                ["--make-rprivate", "/"], ["-t", "tmpfs", "-o", "size=2m", "small", self.path])):
            skip("it needs the right to mount")
        return self.path

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", self.path], check=False)
