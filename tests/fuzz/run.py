#!/usr/bin/env python3
"""Has libFuzzer look for inputs that break a fuzz target, or that reach code for the first time.

Usage: run.py [--seconds S] [--jobs N] [--build FOLDER] [--no-merge] [TARGET...]

Builds the targets (default: all) with Clang, AddressSanitizer and UndefinedBehaviorSanitizer in
FOLDER (default: build-fuzz), which is kept for the next time, and runs each for S seconds (default
60; 0: only as long as what earlier runs have found takes). Prints a line for each target, and the
report of each finding; the input of a finding stays in FOLDER/findings, and
`FOLDER/tests/fuzz/fuzz_TARGET INPUT` repeats it. What has reached new code is added to
tests/fuzz/corpus/TARGET: few and short inputs that reach as much. Exits with 1 if there are
findings.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
# Bytes: of an input, of one that is kept, and of all that are kept for a target.
LONGEST, LONGEST_KEPT, MOST_KEPT = 1 << 16, 4096, 8192
MOST_INPUTS = 12  # that one merge adds
SETUP = ["-Dtorch=disabled", "-Dlibfuzzer=true", "-Db_sanitize=address,undefined",
         "-Db_lundef=false", "-Db_pie=false", "-Doptimization=1", "-Ddebug=false", "-Dc_args=-g1",
         "-Dcpp_args=-g1"]
# A finding ends the run; a leak is one; UBSan's are, too.
LIMITS = ["-timeout=20", "-rss_limit_mb=3072", f"-max_len={LONGEST}", "-print_final_stats=1"]
SANITIZERS = {"ASAN_OPTIONS": "detect_stack_use_after_return=1",
              "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


def build(folder, targets):
    if not (folder / "build.ninja").exists():
        compilers = [shutil.which(name) for name in ("clang-14", "clang++-14")]
        if None in compilers:
            compilers = ["clang", "clang++"]
        ccache = "ccache " if shutil.which("ccache") else ""
        subprocess.run(["env", f"CC={ccache}{compilers[0]}", f"CXX={ccache}{compilers[1]}", "meson",
                        "setup", str(folder), str(ROOT), *SETUP], check=True)
    subprocess.run(["ninja", "-C", str(folder), *targets], check=True)


def all_targets():
    return sorted(path.name.removesuffix("_fuzz.cpp")
                  for path in (ROOT / "tests" / "fuzz").glob("*_fuzz.cpp"))


class Target:
    def __init__(self, folder, name):
        self.name = name
        self.program = folder / "tests" / "fuzz" / f"fuzz_{name}"
        self.kept = CORPUS / name
        self.seeds, self.reached = (folder / "fuzz" / kind / name for kind in ("seeds", "reached"))
        self.findings = folder / "findings"
        for path in (self.seeds, self.reached, self.findings):
            path.mkdir(parents=True, exist_ok=True)
        self.call([f"--seeds={self.seeds}"], check=True)

    def call(self, arguments, check=False):
        settings = [f"{name}={value}" for name, value in SANITIZERS.items()]
        prefix = f"-artifact_prefix={self.findings / self.name}-"
        command = ["env", *settings, str(self.program), prefix, *arguments]
        return subprocess.run(command, check=check, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, errors="replace")

    def inputs(self):
        return [str(path) for path in (self.seeds, self.kept) if path.is_dir()]

    def fuzz(self, seconds):
        """Returns the line about the run, and the report of a finding or ""."""
        how_long = f"-max_total_time={seconds}" if seconds else "-runs=0"
        ran = self.call([*LIMITS, how_long, f"-dict={self.seeds}.dict", str(self.reached),
                         *self.inputs()])
        said = ran.stderr
        count = re.search(r"number_of_executed_units: (\d+)", said)
        covered = re.findall(r"cov: (\d+)", said)
        line = (f"{self.name}: {count[1] if count else '?'} inputs in {seconds} s, "
                f"{covered[-1] if covered else '?'} edges")
        if ran.returncode == 0:
            return line, ""
        log = self.findings / f"{self.name}.log"
        log.write_text(said, encoding="utf-8")
        return f"{line}, FINDING (the end; all of it: {log})", said[-6000:]

    def merge(self):
        """Adds to the kept corpus what reaches most code that neither it nor the seeds reach."""
        with tempfile.TemporaryDirectory() as work:
            known, control = Path(work) / "known", Path(work) / "control"
            known.mkdir()
            for source in self.inputs():
                shutil.copytree(source, known, dirs_exist_ok=True)
            self.call(["-merge=1", f"-merge_control_file={control}", f"-max_len={LONGEST_KEPT}",
                       str(known), str(self.reached)], check=True)
            reached, edges = read_control_file(control.read_text(encoding="utf-8"))
        self.kept.mkdir(parents=True, exist_ok=True)
        room = MOST_KEPT - sum(path.stat().st_size for path in self.kept.iterdir())
        count = 0
        for path in most_useful(reached, edges):
            room -= path.stat().st_size
            if room >= 0:
                shutil.copy(path, self.kept / path.name[:12])
                count += 1
        return count


def read_control_file(text):
    """What libFuzzer writes of a merge: the edges that each new input reaches, and those known."""
    lines = text.splitlines()
    total, known = int(lines[0]), int(lines[1])
    names = lines[2:2 + total]
    reached, edges = {}, set()
    for line in lines[2 + total:]:
        word, index, *numbers = line.split()
        if word != "COV":
            continue
        if int(index) < known:
            edges.update(numbers)
        else:
            reached[Path(names[int(index)])] = set(numbers)
    return reached, edges


def most_useful(reached, edges):
    """Yields inputs, each of which reaches more that is new than any other that is left."""
    edges, left = set(edges), dict(reached)
    sizes = {path: path.stat().st_size for path in left}
    for _ in range(MOST_INPUTS):
        left = {path: new for path, hit in left.items() if (new := hit - edges)
                and sizes[path] <= LONGEST_KEPT}
        if not left:
            return
        best = min(left, key=lambda path: (-len(left[path]), sizes[path], path.name))
        edges |= left.pop(best)
        yield best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target; default 60")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time; default 1")
    parser.add_argument("--build", type=Path, default=ROOT / "build-fuzz", help="build folder")
    parser.add_argument("--no-merge", action="store_true", help="leave tests/fuzz/corpus alone")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    options = parser.parse_args()
    names = options.targets or all_targets()
    folder = options.build.resolve()
    build(folder, [f"tests/fuzz/fuzz_{name}" for name in names])

    def run(name):
        target = Target(folder, name)
        line, report = target.fuzz(options.seconds)
        if not options.no_merge:
            line += f", {target.merge()} new inputs kept"
        print(line + (f"\n{report}" if report else ""), flush=True)
        return bool(report)

    with ThreadPoolExecutor(options.jobs) as pool:
        found = sum(pool.map(run, names))
    print(f"{found} of {len(names)} targets have a finding; inputs are in {folder / 'findings'}"
          if found else f"nothing found in {len(names)} targets")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
