"""The runtime library as users get it: installed, found by pkg-config, linked, run.

$ADAPTDL_TEST_BUILD names the build folder, $CXX the compiler.
"""

import os
import re
import subprocess

from support import check, main

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "linked_program.cpp")
INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.M)


def command(*words, **variables):
    done = subprocess.run(words, env=os.environ | variables, capture_output=True, text=True)
    check(done.returncode == 0, "failed: " + " ".join(words), done.stdout, done.stderr)
    return done.stdout


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


class Installed:
    """The installed library, below the test's folder."""

    def __init__(self, folder):
        self.root = os.path.join(folder.path, "root")
        command("meson", "install", "-C", os.environ["ADAPTDL_TEST_BUILD"], "--no-rebuild",
                "--tags", "devel", "--destdir", self.root)
        (found,) = [name for name in files_below(self.root) if name.endswith("adaptdl-runtime.pc")]
        self.folder = os.path.join(self.root, os.path.dirname(found))
        headers = next(name for name in files_below(self.root) if name.endswith("adaptdl.h"))
        self.prefix = os.path.join(self.root, headers.split("/include/")[0])
        # It is in a temporary folder, not at its final install path.
        with open(os.path.join(self.root, found), "r+", encoding="utf-8") as file:
            text = file.read().replace("prefix=", "prefix=" + self.root, 1)
            file.seek(0)
            file.write(text)

    def flags(self, *wanted):
        return command("pkg-config", *wanted, "adaptdl-runtime",
                       PKG_CONFIG_PATH=self.folder).split()

    def compile(self, *words):
        command(*os.environ["CXX"].split(), "-std=c++20", "-Wall", "-Wextra", "-Werror",
                *self.flags("--cflags"), *words)


def program_against_the_installed(folder, draw):
    """It compiles with only LibTorch and the installed headers, and trains elastically."""
    installed = Installed(folder)
    program = os.path.join(folder.path, "program")
    installed.compile("-o", program, SOURCE, *installed.flags("--libs"))
    run = folder.run(program, "--replicas", "2", "--set", "epochs=1", "--name", "installed")
    run.expect_end(0)
    run.check_steps(last=40)
    check(run.end_event()["model"] and os.path.exists(run.end_event()["model"]), "no model",
          run.story())


def example_built(folder, build):
    """`adaptdl init library` written, and what it trains when built and started as it says."""
    code, _, said = folder.command("init", "library", folder.file("mine"), "--build", build)
    check(code == 0, "init", said)

    def trains():
        run = folder.run(folder.file("mine/build/train"), "--replicas", "2")
        run.expect_end(0)
        accuracy = run.of("validation")[-1]["metrics"]["accuracy"]
        check(accuracy > 0.9, "accuracy", accuracy)
    return folder.file("mine"), folder.file("mine/build"), trains


def example_with_cmake(folder, draw):
    """CMake finds the library by its package, and says what is missing."""
    installed = Installed(folder)
    source, build, trains = example_built(folder, "cmake")
    configure = ["cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={installed.prefix}"]
    refused = subprocess.run([*configure, "-DADAPTDL_LIBTORCH=/nowhere"], capture_output=True,
                             text=True)
    check(refused.returncode != 0 and "set ADAPTDL_LIBTORCH" in refused.stderr, refused.stderr)
    command(*configure, "-UADAPTDL_LIBTORCH")
    command("cmake", "--build", build)
    trains()


def example_with_meson(folder, draw):
    installed = Installed(folder)
    source, build, trains = example_built(folder, "meson")
    command("meson", "setup", build, source, "--pkg-config-path", installed.folder)
    command("ninja", "-C", build)
    trains()


def public_headers_alone(folder, draw):
    """Each header compiles alone and includes only public headers, LibTorch and standard C++."""
    installed = Installed(folder)
    include = installed.flags("--cflags-only-I")[0].removeprefix("-I")
    headers = files_below(include)
    check("adaptdl/adaptdl.h" in headers, "no adaptdl/adaptdl.h", headers)
    for header in headers:
        with open(os.path.join(include, header), encoding="utf-8") as file:
            others = [name for name in INCLUDE.findall(file.read())
                      if "/" in name and not name.startswith(("ATen/", "c10/", "torch/"))]
        check(all(name in headers for name in others), f"{header} includes", others)
    source = os.path.join(folder.path, "each.cpp")
    with open(source, "w", encoding="utf-8") as file:
        file.writelines(f"#include <{header}>\n" for header in [*reversed(headers), *headers])
    installed.compile("-fsyntax-only", source)


main(program_against_the_installed, example_with_cmake, example_with_meson, public_headers_alone)
