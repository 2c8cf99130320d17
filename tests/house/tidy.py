"""Runs clang-tidy with the checks of .clang-tidy.

Usage: tidy.py SOURCE_ROOT BUILD [--seconds N] [--base COMMIT] [FILE...]
Looks at the files, or at those that differ from COMMIT, or at all sources, those that changed last
first. --seconds: looks at no further file after that time, and says how many are left. BUILD is
configured here and not compiled: it has one command for each file, as clang-tidy needs it.
Fails if anything is said. Beside another version than that of clang_tool.py it is skipped.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

from clang_tool import SKIPPED, find_tool

# Options of g++ that clang does not know are no news.
OPTIONS = ("--quiet", "--warnings-as-errors=*", "--extra-arg=-Wno-unknown-warning-option",
           "--extra-arg=-Qunused-arguments")


def lines_of(root, *command):
    return subprocess.run(command, cwd=root, capture_output=True, text=True,
                          check=True).stdout.splitlines()


def configure(root, build):
    """The sources that it compiles, from the top of the tree."""
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.run(["meson", "setup", build, root, "-Dunity=off", "-Db_pch=false"],
                       stdout=subprocess.DEVNULL, check=True)
    targets = lines_of(root, "ninja", "-C", build, "-t", "targets", "all")
    generated = re.findall(r"^(\S+\.(?:h|cpp)): CUSTOM_COMMAND$", "\n".join(targets), re.MULTILINE)
    subprocess.run(["ninja", "-C", build, *generated], stdout=subprocess.DEVNULL, check=True)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        compiled = json.load(file)
    return {os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
            for entry in compiled}


def newest_first(root, files):
    """By the last commit that changed each."""
    rank = {}
    for path in lines_of(root, "git", "log", "--format=", "--name-only"):
        rank.setdefault(path, len(rank))
    return sorted(files, key=lambda path: rank.get(path, -1))


def look(tool, root, build, path):
    said = subprocess.run([tool, "-p", build, *OPTIONS, path], cwd=root, text=True,
                          capture_output=True)
    return said.stdout.strip() or (said.stderr.strip() if said.returncode else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("build")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--base")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    tool, why = find_tool("clang-tidy")
    if not tool:
        print(f"skipped: {why}")
        return SKIPPED
    root, build = os.path.abspath(options.root), os.path.abspath(options.build)
    compiled = configure(root, build)
    files = options.files
    if options.base:
        files = lines_of(root, "git", "diff", "--name-only", "--diff-filter=d", options.base)
    elif not files:
        files = lines_of(root, "git", "ls-files", "*.cpp")
    files = newest_first(root, [path for path in files if path in compiled])
    end = time.monotonic() + options.seconds
    looked, problems = 0, 0

    def look_in_time(path):
        return look(tool, root, build, path) if time.monotonic() < end else None
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for said in pool.map(look_in_time, files):
            looked += said is not None
            if said:
                problems += 1
                print(said, flush=True)
    left = f", no time for {len(files) - looked}" if looked < len(files) else ""
    print(f"clang-tidy: {looked} files, {problems} with something to mend{left}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
