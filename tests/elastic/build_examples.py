"""Builds the installed examples against the installed library, into the folder of STAMP.

Usage: build_examples.py BUILD_FOLDER STAMP. $CXX names the compiler.
"""

import os
import shutil
import sys

from support import Installed, check

HEADERS = ("adaptdl/adaptdl.h", "torch/torch.h")


def build_examples(build, folder):
    """Replaces what the folder holds."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    installed = Installed(build, os.path.join(folder, "root"))
    # What all include takes most of the time: once.
    headers = os.path.join(installed.root, "headers.h")
    lines = [f"#include <{name}>\n" for name in HEADERS]
    with open(headers, "w", encoding="utf-8") as file:
        file.writelines(lines)
    installed.precompile(headers)
    for name, source in installed.examples().items():
        with open(source, encoding="utf-8") as file:
            text = file.read()
        check(all(line in text for line in lines), "another program's includes", name, lines)
        installed.build(source, os.path.join(folder, name), headers)
    os.remove(headers + ".gch")  # 700 MB


if __name__ == "__main__":
    build_examples(sys.argv[1], os.path.join(os.path.dirname(sys.argv[2]), "examples"))
    with open(sys.argv[2], "w", encoding="utf-8"):
        pass
