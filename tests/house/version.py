"""Checks that the version is defined only in meson.build, and repeated in the public header.

Usage: version.py SOURCE_ROOT VERSION ADAPTDL
"""

import os
import re
import subprocess
import sys


def main():
    root, version, program = sys.argv[1:]
    failed = False
    literal = re.compile(r'"v?' + re.escape(version) + r'["+-]')
    for top in ("core", "runtime", "cli"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                path = os.path.join(folder, name)
                if not name.endswith((".cpp", ".h")):
                    continue
                with open(path, encoding="utf-8") as file:
                    for number, line in enumerate(file, 1):
                        if literal.search(line):
                            print(f"{path}:{number}: the version is written out here")
                            failed = True
    header = os.path.join(root, "runtime/include/adaptdl/version.h")
    with open(header, encoding="utf-8") as file:
        numbers = re.findall(r"#define ADAPTDL_VERSION_\w+ (\d+)", file.read())
    if ".".join(numbers) != version:
        print(f"{header} says {numbers}, meson.build {version}")
        failed = True
    shown = subprocess.run([program, "--version"], capture_output=True, text=True,
                           check=True).stdout
    if not re.search(rf"(^|\s){re.escape(version)}(\s|\+|\(|$)", shown):
        print(f"--version prints {shown!r}, meson.build says {version}")
        failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
