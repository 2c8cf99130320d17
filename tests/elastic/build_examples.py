"""Builds the installed examples against the installed library, into the folder of STAMP.

Usage: build_examples.py BUILD_FOLDER STAMP. $CXX names the compiler.
"""

import os
import shutil
import sys

from support import Installed


def build_examples(build, folder):
    """Replaces what the folder holds."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    installed = Installed(build, os.path.join(folder, "root"))
    for name, source in installed.examples().items():
        installed.build(source, os.path.join(folder, name))


if __name__ == "__main__":
    build_examples(sys.argv[1], os.path.join(os.path.dirname(sys.argv[2]), "examples"))
    with open(sys.argv[2], "w", encoding="utf-8"):
        pass
