"""Measures the time from a changed source to its unit test's result.

Usage: rebuild.py BUILD [--files 10] [--seed 1]
Draws some sources at random from each of cli, core and runtime. Changes each one (adds a line at
its end, and removes it afterwards), builds the smallest test program for its folder, and runs that.
Prints one line of JSON for each area, with the median and the longest time. Build everything
before: ninja -C BUILD all meson-test-prereq.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AREAS = ("cli", "core", "runtime")


def lines(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True,
                          check=True).stdout.splitlines()


def test_programs(build):
    """The programs in tests/unit, by their subfolder."""
    found = {}
    for line in lines("ninja", "-C", build, "-t", "targets", "all"):
        match = re.match(r"tests/unit/(\S+)/(unit_\w+): cpp_LINKER", line)
        if match:
            module, name = match.groups()
            found.setdefault(module, []).append(f"tests/unit/{module}/{name}")
    return found


def test_of(source, programs):
    """The test programs of the folder that mirrors the source's, or of the nearest parent."""
    folders = os.path.dirname(source).split("/")
    inner = folders[1:] if folders[0] in ("core", "runtime") else folders
    while inner:
        if "/".join(inner) in programs:
            return programs["/".join(inner)]
        inner = inner[:-1]
    return programs.get(folders[0], [])


def measure(build, source, targets):
    path = os.path.join(ROOT, source)
    with open(path, encoding="utf-8") as file:
        before = file.read()
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write("// changed\n")
        start = time.monotonic()
        subprocess.run(["ninja", "-C", build, *targets], stdout=subprocess.DEVNULL, check=True)
        for target in targets:
            subprocess.run([os.path.join(build, target)], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
        return time.monotonic() - start
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(before)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    os.environ["CCACHE_DISABLE"] = "1"  # for a comment, it has the object already
    programs = test_programs(build)
    draw = random.Random(options.seed)
    for area in AREAS:
        sources = [source for source in lines("git", "ls-files", f"{area}/*.cpp")
                   if test_of(source, programs)]
        times = {}
        for source in draw.sample(sources, min(options.files, len(sources))):
            targets = test_of(source, programs)
            subprocess.run(["ninja", "-C", build, *targets], stdout=subprocess.DEVNULL, check=True)
            times[source] = round(measure(build, source, targets), 1)
            print(f"{times[source]:6.1f} s  {source}", file=sys.stderr)
        print(json.dumps({"area": area, "files": len(times),
                          "median_s": statistics.median(times.values()),
                          "longest_s": max(times.values())}))


if __name__ == "__main__":
    main()
