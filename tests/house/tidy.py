"""Runs clang-tidy with the checks of .clang-tidy.

Usage: tidy.py SOURCE_ROOT BUILD [--seconds N] [--base COMMIT] [FILE...]
Looks at the files, or at those that differ from COMMIT, or at all sources, those that changed last
first; sources that are compiled together are looked at together. --seconds: one at a time, because
together they take minutes; begins with no further ones after that time, and says how many are left.
BUILD is configured here and not compiled.
Fails if anything is said. Beside another version than that of clang_tool.py it is skipped.
"""

import argparse
import bisect
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

from clang_tool import SKIPPED, find_tool

# Options of g++ that clang does not know are no news; clang 14 has _Float16 with AVX-512 alone.
OPTIONS = ("-Wno-unknown-warning-option", "-Qunused-arguments", "-mavx512fp16")


def lines_of(root, *command):
    return subprocess.run(command, cwd=root, capture_output=True, text=True,
                          check=True).stdout.splitlines()


def compiled_units(root, build):
    """What is compiled: the command for each unit, and its sources."""
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.run(["meson", "setup", build, root, "-Db_pch=false"],
                       stdout=subprocess.DEVNULL, check=True)
    targets = lines_of(root, "ninja", "-C", build, "-t", "targets", "all")
    generated = re.findall(r"^(\S+\.(?:h|cpp)): CUSTOM_COMMAND$", "\n".join(targets), re.MULTILINE)
    subprocess.run(["ninja", "-C", build, *generated], stdout=subprocess.DEVNULL, check=True)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        compiled = {entry["file"]: shlex.split(entry["command"]) for entry in json.load(file)}
    units = {}
    for unit, command in compiled.items():
        sources = [unit]
        if "-unity" in os.path.basename(unit):
            with open(os.path.join(build, unit), encoding="utf-8") as file:
                sources = re.findall(r"^#include<(.*)>$", file.read(), re.MULTILINE)
        sources = [os.path.relpath(os.path.realpath(os.path.join(build, source)), root)
                   for source in sources]
        # Before the options are the compiler and perhaps ccache.
        first = next(i for i, word in enumerate(command) if word.startswith("-"))
        units[unit] = (command[first:command.index("-MD")], sources)
    return units


def newest_first(root, units):
    """By the last commit that changed a source of each."""
    rank = {}
    for path in lines_of(root, "git", "log", "--format=", "--name-only"):
        rank.setdefault(path, len(rank))
    return sorted(units, key=lambda unit: min(rank.get(path, len(rank)) for path in units[unit][1]))


def look(tool, root, build, command, sources):
    """In one file with the text of all, so that clang takes none for a header: it looks less
    closely at headers, or at those of libraries, too."""
    first_lines = []
    with tempfile.NamedTemporaryFile("w", dir=build, suffix=".cpp", encoding="utf-8") as whole:
        line = 1
        for source in sources:
            first_lines.append(line)
            with open(os.path.join(root, source), encoding="utf-8") as file:
                text = file.read()
            whole.write(text)
            line += text.count("\n")
        whole.flush()
        config = "--config-file=" + os.path.join(root, ".clang-tidy")
        said = subprocess.run([tool, "--quiet", config, "--warnings-as-errors=*", whole.name, "--",
                               *command, *OPTIONS], cwd=build, text=True, capture_output=True)

    def place(match):
        line = int(match.group(1))
        source = bisect.bisect_right(first_lines, line) - 1
        return f"{sources[source]}:{line - first_lines[source] + 1}:"
    text = said.stdout.strip() or (said.stderr.strip() if said.returncode else "")
    return re.sub(re.escape(whole.name) + r":(\d+):", place, text)


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
    files = options.files or lines_of(root, "git", "ls-files", "*.cpp")
    if options.base:
        files = lines_of(root, "git", "diff", "--name-only", "--diff-filter=d", options.base)
    units = {unit: (command, sources)
             for unit, (command, sources) in compiled_units(root, build).items()
             if not set(files).isdisjoint(sources)}
    if options.seconds < float("inf"):
        units = {source: (command, [source]) for command, sources in units.values()
                 for source in sources if source in files}
    order = newest_first(root, units)
    end = time.monotonic() + options.seconds
    looked, problems = 0, 0

    def look_in_time(unit):
        return look(tool, root, build, *units[unit]) if time.monotonic() < end else None
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for unit, said in zip(order, pool.map(look_in_time, order)):
            looked += len(units[unit][1]) if said is not None else 0
            if said:
                problems += 1
                print(said, flush=True)
    left = sum(len(sources) for _, sources in units.values()) - looked
    print(f"clang-tidy: {looked} files, {problems} units with something to mend" +
          (f"; no time for {left} files" if left else ""))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
