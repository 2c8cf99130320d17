"""adaptdl as a subproject of a program that Meson builds, with another LibTorch than this build's.

$ADAPTDL_TEST_LIBTORCH is that LibTorch, $ADAPTDL_TEST_BUILD a folder that keeps what was built for
the next time, $CXX the compiler. What the subproject installs builds the examples, which train.
"""

import os
import shutil
import subprocess
import sys

from build_examples import build_examples
from support import check, main, must_run
from support.installed import SOURCES

LIBTORCH = os.environ["ADAPTDL_TEST_LIBTORCH"]
KEPT = os.environ["ADAPTDL_TEST_BUILD"]


def configured(folder, place):
    """The build folder of a user's project, both in `place`."""
    source, build = os.path.join(place, "project"), os.path.join(place, "build")
    code, _, said = folder.command("init", "library", source, "--build", "meson", "--force")
    check(code == 0, "init", said)
    os.makedirs(os.path.join(source, "subprojects"), exist_ok=True)
    link = os.path.join(source, "subprojects/adaptdl")
    if not os.path.islink(link):
        os.symlink(SOURCES, link)
    if not os.path.exists(os.path.join(build, "build.ninja")):
        # Larger units, and no optimisation: compiled in half the time.
        must_run("meson", "setup", build, source, f"-Dadaptdl:libtorch={LIBTORCH}",
                 "-Doptimization=0", "-Dunity=on", "-Dunity_size=12")
    return build


def configures(folder, draw):
    """The project and its subproject agree on names, options and dependencies. To compile both, as
    the next test does, takes minutes."""
    build = configured(folder, folder.file("configured"))
    planned = must_run("ninja", "-C", build, "-n", "train")
    check("Linking target train" in planned, "what is built?", planned)


def library_of_a_subproject(folder, draw):
    build = configured(folder, KEPT)
    must_run("ninja", "-C", build)
    for name in ("train", "images.npy", "labels.npy"):
        shutil.copy(os.path.join(build, name), folder.file(name))
    run = folder.run(folder.file("train"), "--replicas", "2")
    run.expect_end(0)
    run.check_steps()
    accuracy = run.of("validation")[-1]["metrics"]["accuracy"]
    check(accuracy > 0.9, "accuracy", accuracy)

    examples = os.path.join(KEPT, "examples")
    build_examples(build, examples)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "examples.py")
    done = subprocess.run([sys.executable, script, folder.binary, examples], check=False,
                          capture_output=True, text=True)
    check(done.returncode == 0, done.stdout, done.stderr)


main(configures, library_of_a_subproject)
