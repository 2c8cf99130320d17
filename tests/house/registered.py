"""Checks that no source file is unused: a meson.build must name it, or meson must report that a
target or a test uses it. The same applies to the simulator's scenarios, tests/sim/NAME.yaml.

Usage: registered.py SOURCE_ROOT BUILD_ROOT. A test that exists but never runs is worse than none.
"""

import json
import os
import re
import sys

SUFFIXES = (".cpp", ".cu", ".py", ".sh")
SCENARIOS = os.path.join("tests", "sim")


def named_files(root, top):
    """Every path below `top` that a meson.build there names in quotes."""
    named = set()
    for folder, _, names in os.walk(os.path.join(root, top)):
        if "meson.build" not in names:
            continue
        with open(os.path.join(folder, "meson.build"), encoding="utf-8") as file:
            text = re.sub(r"#.*", "", file.read())
        for word in re.findall(r"'([^'\n]+)'", text):
            named.add(os.path.normpath(os.path.join(os.path.relpath(folder, root), word)))
    return named


def used_files(root, build):
    """Files that meson reports: includes names that a meson.build assembles in a loop."""
    def load(name):
        with open(os.path.join(build, "meson-info", name), encoding="utf-8") as file:
            return json.load(file)

    groups = [group for target in load("intro-targets.json") for group in target["target_sources"]]
    paths = [path for group in groups for path in group.get("sources", [])]
    # In a unity build meson lists its generated files, which include ours.
    for path in (path for group in groups for path in group.get("generated_sources", [])):
        if re.search(r"-unity\d+\.\w+$", path):
            with open(path, encoding="utf-8") as file:
                paths += re.findall(r'#include\s*[<"]([^">]+)[">]', file.read())
    paths += [word for test in load("intro-tests.json") for word in test["cmd"]]
    # Paths in a test's command may be relative to the build folder.
    return {os.path.relpath(os.path.join(build, path), root) for path in paths}


def unregistered(root, used=frozenset()):
    missing = []
    for top in ("core", "runtime", "cli", "tests"):
        named = named_files(root, top) | used
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [f for f in folders if f not in ("__pycache__", "templates")]
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), root)
                scenario = os.path.dirname(path) == SCENARIOS and name.endswith(".yaml")
                if (name.endswith(SUFFIXES) or scenario) and path not in named:
                    missing.append(path)
    return sorted(missing)


if __name__ == "__main__":
    source_root, build_root = sys.argv[1:]
    found = unregistered(source_root, used_files(source_root, build_root))
    for path in found:
        print(f"{path}: no meson.build in its tree names this file: add it, or delete it")
    if not found:
        print("every source file is named in a meson.build")
    sys.exit(1 if found else 0)
