"""Checks all tracked Python files with ruff and the rules of ruff.toml in this folder.

Usage: python_lint.py SOURCE_ROOT. Uses the ruff that ADAPTDL_TEST_RUFF names, else the newest that
`./bootstrap test` has installed into .deps/, because other versions may report other problems.
Skipped (exit 77) without one, and for a tree without git.
"""

import glob
import os

from links import main, tracked
from support import run_command, skip_all

RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ruff.toml")


def find_ruff(root):
    installed = glob.glob(os.path.join(root, ".deps", "lint-*", "bin", "ruff"))
    return os.environ.get("ADAPTDL_TEST_RUFF") or max(installed, key=os.path.getmtime, default=None)


def python_files(root):
    """Python files, recognised by their names or their first line."""
    found = []
    for path in sorted(tracked(root)):
        whole = os.path.join(root, path)
        if os.path.islink(whole) or not os.path.isfile(whole):
            continue
        with open(whole, "rb") as file:
            first = file.readline(100)
        if path.endswith(".py") or (first.startswith(b"#!") and b"python" in first):
            found.append(path)
    return found


def check_tree(root, ruff=None):
    ruff = ruff or find_ruff(root)
    if not ruff:
        skip_all("there is no ruff; ./bootstrap test installs it")
    done = run_command([ruff, "check", "--config", RULES, "--no-cache", "--quiet",
                        "--output-format", "concise", *python_files(root)], cwd=root)
    problems = done.stdout.splitlines() + done.stderr.splitlines()
    return problems or ([f"{ruff}: exit code {done.returncode}"] if done.returncode else [])


if __name__ == "__main__":
    main(check_tree, "ruff has nothing to say about any Python")
