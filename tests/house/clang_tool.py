"""Finds the version of clang's tools that decides: versions differ in what they say."""

import re
import shutil
import subprocess

VERSION = 14  # Debian 12's
SKIPPED = 77


def find_tool(tool):
    """The path of clang-format or clang-tidy, or a sentence why there is none that decides."""
    found = []
    for name in (f"{tool}-{VERSION}", tool):
        path = shutil.which(name)
        if not path:
            continue
        text = subprocess.run([path, "--version"], capture_output=True, text=True,
                              check=True).stdout
        version = re.search(r"version (\d+)", text)
        if version and int(version.group(1)) == VERSION:
            return path, ""
        found.append(" ".join(text.split()))
    there = "; ".join(found) or "none is"
    return None, f"{tool} {VERSION} decides, and is not here ({there})"
