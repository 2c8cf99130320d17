"""Builds the program twice, in folders of other names and depths, and compares the bytes.

Usage: reproducible.py SOURCE_ROOT LIBTORCH [FOLDER]

By hand, or by `ninja -C build reproducible`: it takes two builds from nothing, without ccache,
which would hide differences. What is built is the checked-out commit, with the sources in
subprojects/ and the LibTorch of SOURCE_ROOT. FOLDER is where the builds go (/var/tmp); they are
removed.
"""

import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Of the source, the build and LibTorch in each build's own folder.
PLACES = (("source", "source/build", "torch"),
          ("other/and-deeper/tree", "out", "place/of/torch"))


def run(*command, **options):
    subprocess.run(command, check=True, **options)


def build(folder, places, root, commit, libtorch):
    """The program's path."""
    source, made, torch = (os.path.join(folder, place) for place in places)
    run("git", "clone", "--quiet", "--no-hardlinks", "--no-checkout", root, source)
    run("git", "-C", source, "checkout", "--quiet", "--detach", commit)
    for tree in glob.glob(os.path.join(root, "subprojects/*-[0-9]*/")):
        shutil.copytree(tree, os.path.join(source, "subprojects", os.path.basename(tree[:-1])),
                        ignore=shutil.ignore_patterns("built"))
    os.makedirs(os.path.dirname(torch), exist_ok=True)
    os.symlink(os.path.realpath(libtorch), torch)
    environment = {**os.environ, "CCACHE_DISABLE": "1"}
    run("meson", "setup", made, source, "-Dlibtorch=" + torch, env=environment,
        stdout=subprocess.DEVNULL)
    run("ninja", "-C", made, "--quiet", "adaptdl", env=environment)
    return os.path.join(made, "adaptdl")


def sections(program):
    """The bytes of each section, by its name."""
    with open(program, "rb") as file:
        data = file.read()
    listed = subprocess.run(["readelf", "-SW", program], check=True, capture_output=True,
                            text=True).stdout
    rows = re.findall(r"\] (\S+) +(\S+) +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+) ", listed)
    return {name: data[int(at, 16):int(at, 16) + int(size, 16)]
            for name, kind, at, size in rows if kind != "NOBITS"}


def differences(one, other):
    first, second = sections(one), sections(other)
    return [f"section {name} differs" for name in sorted({*first, *second})
            if first.get(name) != second.get(name)]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def main():
    root, libtorch, *folder = sys.argv[1:]
    commit = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], check=True,
                            capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="adaptdl-twice.",
                                     dir=folder[0] if folder else "/var/tmp") as work:
        programs = []
        for number, places in enumerate(PLACES, 1):
            print(f"build {number} of {len(PLACES)}", flush=True)
            programs.append(build(os.path.join(work, str(number)), places, root, commit, libtorch))
        digests = [digest(program) for program in programs]
        print("\n".join(digests))
        if len(set(digests)) == 1:
            print("both builds are the same")
            return 0
        print("\n".join(differences(*programs)))
        return 1


if __name__ == "__main__":
    sys.exit(main())
