"""Prints the share of lines that tests execute, by module, and the lines that no test executes.

Usage: coverage.py SOURCE_ROOT BUILD_FOLDER [--meson=OPTION]... [--holes MODULE]...
       [-- ARGUMENTS_OF_MESON_TEST...]

By hand, or by `ninja -C build line-coverage`. It compiles everything once more, with counters and
not optimised, in BUILD_FOLDER, which is kept for the next time, and runs tests there: the suites
unit and fuzz, if nothing else is given. --holes prints the lines of a module's files (core/launch,
say) that nothing executed. A process that is killed writes no counters, so that what only such
processes execute counts as a hole.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys

OURS = ("core/", "cli/", "runtime/")
COUNTED_EXIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "counted_exit.c")
DEFAULT_TESTS = ("--suite", "unit", "--suite", "fuzz")


def build(source, folder, options):
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        os.makedirs(folder, exist_ok=True)
        exit_object = os.path.join(folder, "counted_exit.o")
        subprocess.run(["cc", "-c", "-fPIC", "-o", exit_object, COUNTED_EXIT], check=True)
        # Counters of threads must not lose counts: a lost one may be the only one.
        subprocess.run(["meson", "setup", folder, source, "-Db_coverage=true", "-Doptimization=0",
                        "-Ddebug=false", "-Dcpp_args=-fprofile-update=atomic",
                        f"-Dcpp_link_args=--coverage -Wl,--wrap=_exit,{exit_object}", *options],
                       check=True)
    subprocess.run(["ninja", "-C", folder, "--quiet", "all"], check=True)


def files_of(folder, ending):
    return [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names
            if name.endswith(ending)]


def told_by_gcov(folder, notes):
    """The reports of a compiled unit, also of one that never ran and so has no counters."""
    text = subprocess.run(["gcov", "--json-format", "--stdout", notes], cwd=folder, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return [file for report in text.splitlines() for file in json.loads(report)["files"]]


def executed(folder):
    """{source file of ours: {line: whether it was executed}}"""
    lines = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for files in pool.map(lambda notes: told_by_gcov(folder, notes), files_of(folder, ".gcno")):
            for file in files:
                name = file["file"].lstrip("/")  # from the top of the tree: see meson.build
                if name.startswith(OURS):
                    of_file = lines[name]
                    for line in file["lines"]:
                        number = line["line_number"]
                        of_file[number] = of_file.get(number, False) or line["count"] > 0
    return lines


def table(lines):
    sums = collections.defaultdict(lambda: [0, 0])
    for name, found in lines.items():
        for module in (os.path.dirname(name), "all"):
            sums[module][0] += sum(found.values())
            sums[module][1] += len(found)
    width = max(map(len, sums), default=0)
    in_order = sorted(sums.items(), key=lambda row: (row[0] == "all", row))
    return [f"{module:{width}}  {100 * hit / total:5.1f} %  {hit:6} of {total}"
            for module, (hit, total) in in_order]


def ranges(numbers):
    """"3, 7-9" for [3, 7, 8, 9]"""
    groups = []
    for number in sorted(numbers):
        if groups and groups[-1][1] == number - 1:
            groups[-1][1] = number
        else:
            groups.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in groups)


def holes(lines, module):
    """Of the files in the module's folder and those below."""
    for name, found in sorted(lines.items()):
        missed = [number for number, hit in found.items() if not hit]
        if missed and name.startswith(module.rstrip("/") + "/"):
            yield f"{name}: {ranges(missed)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("folder")
    parser.add_argument("--meson", action="append", default=[])
    parser.add_argument("--holes", action="append", default=[])
    parser.add_argument("tests", nargs="*")
    given = parser.parse_args()
    source, folder = os.path.realpath(given.source), os.path.realpath(given.folder)
    build(source, folder, given.meson)
    for counters in files_of(folder, ".gcda"):
        os.remove(counters)
    # It builds what these tests need. Some histories of launch execute what thousands do.
    tests = subprocess.run(["meson", "test", "-C", folder, "--timeout-multiplier", "10",
                            *(given.tests or DEFAULT_TESTS)], check=False,
                           env={"ADAPTDL_HISTORIES": "200", **os.environ})
    lines = executed(folder)
    print(*table(lines), sep="\n")
    for module in given.holes:
        print(*holes(lines, module), sep="\n")
    return tests.returncode


if __name__ == "__main__":
    sys.exit(main())
