"""Checks that no script has the name of a module of Python's own: whatever lies in the same folder
would import the script instead of that module.

Usage: python_names.py SOURCE_ROOT. A tree that git knows nothing of is skipped: exit 77.
"""

import os
import sys

from links import tracked


def check_tree(root):
    problems = []
    for path in sorted(tracked(root)):
        name, kind = os.path.splitext(os.path.basename(path))
        if kind == ".py" and name in sys.stdlib_module_names:
            problems.append(f"{path}: has the name of Python's own module {name}; rename it")
    return problems


if __name__ == "__main__":
    source_root = sys.argv[1]
    if not os.path.exists(os.path.join(source_root, ".git")):
        print("SKIPPED: git does not know this tree")
        sys.exit(77)
    found = check_tree(source_root)
    for problem in found:
        print(problem)
    if not found:
        print("no script hides a module of Python's own")
    sys.exit(1 if found else 0)
