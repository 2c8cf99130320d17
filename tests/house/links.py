"""Checks that no symlink of the repository is broken in a fresh copy: each must be relative and
point to a file in the repository.

Usage: links.py SOURCE_ROOT. Skipped (exit 77) for a tree without git.
"""

import os
import subprocess
import sys

LINK = "120000"  # git's mode of a symlink


def tracked(root):
    """Every path of the index, with its mode."""
    # The folder may belong to another user, as in a container's mount. Nothing in it is run.
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files", "--stage",
                             "-z"],
                            check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    return {path: entry.split()[0]
            for entry, path in (line.split("\t", 1) for line in listed.split("\0") if line)}


def check_tree(root):
    modes = tracked(root)
    there = set(modes)
    for path in modes:
        while path := os.path.dirname(path):
            there.add(path)
    problems = []
    for path, mode in sorted(modes.items()):
        if mode != LINK:
            continue
        target = os.readlink(os.path.join(root, path))
        meant = os.path.normpath(os.path.join(os.path.dirname(path), target))
        if os.path.isabs(target) or meant.split(os.sep)[0] == os.pardir:
            problems.append(f"{path}: the link leads out of the repository, to {target}")
        elif meant not in there and meant != os.curdir:
            problems.append(f"{path}: the link leads to {target}, which is not in the repository")
    return problems


def main(check, all_well):
    """Runs a check of tracked files on the tree given on the command line."""
    source_root = sys.argv[1]
    if not os.path.exists(os.path.join(source_root, ".git")):
        print("SKIPPED: git does not know this tree")
        sys.exit(77)
    found = check(source_root)
    for problem in found or [all_well]:
        print(problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main(check_tree, "every symbolic link leads to something in the repository")
