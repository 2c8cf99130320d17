"""Checks that no source file is unused: a meson.build must name it, or meson must report that a
target or a test uses it. The same applies to the simulator's scenarios, tests/sim/NAME.yaml, and to
what a test script lists in main(...): with `--only` in all its tests, these must name all of it.

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


def load(build, name):
    with open(os.path.join(build, "meson-info", name), encoding="utf-8") as file:
        return json.load(file)


def used_files(root, build):
    """Files that meson reports: includes names that a meson.build assembles in a loop."""
    groups = [group for target in load(build, "intro-targets.json")
              for group in target["target_sources"]]
    paths = [path for group in groups for path in group.get("sources", [])]
    # In a unity build meson lists its generated files, which include ours.
    for path in (path for group in groups for path in group.get("generated_sources", [])):
        if re.search(r"-unity\d+\.\w+$", path):
            with open(path, encoding="utf-8") as file:
                paths += re.findall(r'#include\s*[<"]([^">]+)[">]', file.read())
    paths += [word for test in load(build, "intro-tests.json") for word in test["cmd"]]
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


def never_run(commands):
    """What scripts list in main(...) and none of these commands of tests runs, as "PATH: NAME"."""
    run = {}
    for words in commands:
        script = next((word for word in words if word.endswith(".py")), None)
        if script:
            only = words[words.index("--only") + 1] if "--only" in words else None
            run.setdefault(script, set()).add(only)
    missing = []
    for script, names in run.items():
        with open(script, encoding="utf-8") as file:
            listed = re.search(r"^main\(([\w,\s]+)\)", file.read(), re.MULTILINE)
        if listed and None not in names:
            missing += [f"{script}: {name}" for name in re.findall(r"\w+", listed.group(1))
                        if name not in names]
    return sorted(missing)


if __name__ == "__main__":
    source_root, build_root = sys.argv[1:]
    found = [f"{path}: no meson.build in its tree names this file: add it, or delete it"
             for path in unregistered(source_root, used_files(source_root, build_root))]
    found += [f"{one} is in main(), but no test runs it: add it to a meson.build"
              for one in never_run(test["cmd"] for test in load(build_root, "intro-tests.json"))]
    for problem in found:
        print(problem)
    if not found:
        print("every source file is named in a meson.build, and every scenario of a script is run")
    sys.exit(1 if found else 0)
