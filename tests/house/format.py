"""Checks that all C++ sources are formatted according to .clang-format.

Usage: format.py SOURCE_ROOT
Versions of clang-format differ in details; this uses Debian 12's. With any other the test is
skipped with a message. To format: clang-format-14 -i FILE...
"""

import re
import subprocess
import sys

from clang_tool import SKIPPED, find_tool


def badly_formatted(tool, root, files):
    """The files that the tool would change, each with the first changed line."""
    said = subprocess.run([tool, "--dry-run", *files], cwd=root, capture_output=True,
                          text=True).stderr
    lines = {}
    for path, line in re.findall(r"^(\S+?):(\d+):\d+: \w+: .*-Wclang-format", said, re.MULTILINE):
        lines.setdefault(path, line)
    return [f"{path}:{line}: is not formatted as .clang-format says"
            for path, line in lines.items()]


def main():
    root = sys.argv[1]
    tool, why = find_tool("clang-format")
    if not tool:
        print(f"skipped: {why}")
        return SKIPPED
    files = subprocess.run(["git", "ls-files", "*.cpp", "*.h"], cwd=root, capture_output=True,
                           text=True, check=True).stdout.split()
    problems = badly_formatted(tool, root, files)
    if problems:
        print("\n".join(problems))
        print(f"To mend this: {tool} -i FILE...")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
