"""Checks that no script has the name of a standard Python module: scripts in the same folder would
import it instead of that module.

Usage: python_names.py SOURCE_ROOT. Skipped (exit 77) for a tree without git.
"""

import os
import sys

from links import main, tracked


def check_tree(root):
    problems = []
    for path in sorted(tracked(root)):
        name, kind = os.path.splitext(os.path.basename(path))
        if kind == ".py" and name in sys.stdlib_module_names:
            problems.append(f"{path}: has the name of Python's own module {name}; rename it")
    return problems


if __name__ == "__main__":
    main(check_tree, "no script hides a module of Python's own")
