"""Checks the folders ("rooms") of the modules: none has too many files, each source has a header of
its name, and the folders of a module include each other only in a fixed order.

Usage: rooms.py SOURCE_ROOT. Prints each file or folder that breaks a rule, and the rule; exits 1 if
there is any.
"""

import os
import re
import sys

from includes import INCLUDE, inside

SOURCES = (".cpp", ".cu")
MOST_SOURCES = 40
FLAT = ["cli/commands"]  # one source per command, found by the command's name

# Folders of a module from the lowest up: a folder may include earlier ones, never later ones. The
# module's top folder (interfaces, and code that combines the parts) is not part of the order unless
# "." gives its place; of its files those in LISTS may name what is above it.
ORDERS = {
    "cli": ["frame", "show", "commands"],
    "core/client": ["image", "local", "kubernetes"],
    "core/cluster/kubernetes": ["jobs", "nodes", "install", "webhook"],
    "core/policy": [".", "pollux", "sia"],
    "core/sim": ["profiles", "baselines", "scenario"],
    "runtime": ["comm", "standalone", "data", "gns", "profile", "checkpoint", "optim", "parallel",
                "session", "open", "worker"],
}

LISTS = ["core/policy/policy.cpp"]

# Sources without a header of their name, and the header that declares them. A file with a main()
# needs none. A folder applies to all sources in it.
WITHOUT_HEADER = {
    "cli/commands": "cli/commands.h: one function for each command, all in one table",
    "cli/embedded_worker.cpp": "core/launch/run/worker_image.h: its bytes, in a build with Torch",
    "core/base/cgroup.cpp": "core/base/system.h: the limits of control groups",
    "core/base/executable_image.cpp": "core/base/process.h: what a process is started from",
    "core/client/kubernetes/tensorboards.cpp": "core/client/tensorboards.h: this cluster's",
    "core/client/local/tensorboards.cpp": "core/client/tensorboards.h: this cluster's",
    "core/job/job_program.cpp": "core/job/job_spec.h",
    "core/job/training_describe.cpp": "core/job/training_spec.h",
    "core/job/training_fields.cpp": "core/job/training_spec.h",
    "core/sim/profiles/triangulation_qhull.cpp": "core/sim/profiles/triangulation.h: by Qhull",
    "runtime/session/program.cpp": "runtime/include/adaptdl/program.h: what other programs include",
    "runtime/session/collective.cpp": "runtime/include/adaptdl/collective.h",
    "runtime/session/env.cpp": "runtime/include/adaptdl/env.h, and present_run.h",
    "runtime/session/version.cpp": "runtime/include/adaptdl/version.h",
    "runtime/open/training.cpp": "runtime/include/adaptdl/training.h",
    "runtime/comm/alone.cpp": "runtime/comm/connect.h: a group of one",
    "runtime/data/column.cpp": "runtime/data/dataset.h: chooses among readers.h",
    "runtime/data/formats": "runtime/data/formats/readers.h: one file for each format",
}


def out_of_order(path, target):
    """The rule that an include of `target` breaks, or None."""
    for module, rooms in ORDERS.items():
        def room_of(file):
            if not inside(file, module) or file in LISTS:
                return None
            first, *rest = file[len(module) + 1:].split("/")
            room = first if rest else "."
            return room if room in rooms else None

        here, there = room_of(path), room_of(target)
        if here and there and rooms.index(there) > rooms.index(here):
            below = "the module itself" if here == "." else here
            return f"in {module}, {there} is above {below}"
    return None


def check_source(root, path):
    problems = []
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        rule = match and match[1] == '"' and out_of_order(path, match[2])
        if rule:
            problems.append(f"{path}:{number}: includes {match[2]}, but {rule}")
    known = any(inside(path, listed) for listed in WITHOUT_HEADER)
    header = os.path.splitext(path)[0] + ".h"
    if (path.endswith(SOURCES) and not known and not os.path.exists(os.path.join(root, header))
            and not re.search(r"^int main\(", text, re.MULTILINE)):
        problems.append(f"{path}: there is no {os.path.basename(header)}; give it one, or say "
                        "in tests/house/rooms.py where it is declared")
    return problems


def check_tree(root):
    problems = []
    for top in ("core", "runtime", "cli"):
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            here = os.path.relpath(folder, root)
            if inside(here, "cli/templates"):
                continue  # sources written by `adaptdl init`: separate programs
            count = sum(name.endswith(SOURCES) for name in names)
            if count > MOST_SOURCES and here not in FLAT:
                problems.append(f"{here}: {count} sources are more than {MOST_SOURCES}; give the "
                                "folder sub-rooms")
            for name in sorted(names):
                if name.endswith(SOURCES + (".h",)):
                    problems += check_source(root, os.path.join(here, name))
    return problems


if __name__ == "__main__":
    found = check_tree(sys.argv[1])
    print("\n".join(found) or "every room is in order")
    sys.exit(1 if found else 0)
