"""The runtime library as users get it: installed, found by pkg-config, linked, run.

$ADAPTDL_TEST_BUILD names the build folder, $CXX the compiler.
"""

import os
import re
import subprocess

from support import Installed, check, files_below, main, must_run, write

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "linked_program.cpp")
INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.M)


def installed_below(folder):
    return Installed(os.environ["ADAPTDL_TEST_BUILD"], folder.file("root"))


def program_against_the_installed(folder, draw):
    """It compiles with only LibTorch and the installed headers, and trains elastically."""
    installed = installed_below(folder)
    program = os.path.join(folder.path, "program")
    installed.build(SOURCE, program)
    run = folder.run(program, "--replicas", "2", "--set", "epochs=1", "--name", "installed")
    run.expect_end(0)
    run.check_steps(last=40)
    check(run.end_event()["model"] and os.path.exists(run.end_event()["model"]), "no model",
          run.story())


def example_with_cmake(folder, draw):
    """What `adaptdl init library` writes trains when it is built and started as that says: CMake
    finds the library by its package, and says what is missing.
    """
    installed = installed_below(folder)
    source, build = folder.file("mine"), folder.file("mine/build")
    code, _, said = folder.command("init", "library", source)
    check(code == 0, "init", said)
    configure = ["cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={installed.prefix}"]

    def refusal(libtorch):
        done = subprocess.run([*configure, "-DADAPTDL_LIBTORCH=" + libtorch], check=False,
                              capture_output=True, text=True)
        check(done.returncode != 0, "it is taken", done.stdout)
        return " ".join(done.stderr.split())

    said = refusal("/nowhere")
    check("set ADAPTDL_LIBTORCH" in said, said)
    write(folder.file("torch/lib/libtorch_cpu.so"))
    write(folder.file("torch/include/torch/headeronly/version.h"),
          "#define TORCH_VERSION_MAJOR 1\n#define TORCH_VERSION_MINOR 0\n")
    said = refusal(folder.file("torch"))
    check("torch has 1.0" in said, said)
    must_run(*configure, "-UADAPTDL_LIBTORCH")
    must_run("cmake", "--build", build)
    run = folder.run(os.path.join(build, "train"), "--replicas", "2")
    run.expect_end(0)
    accuracy = run.of("validation")[-1]["metrics"]["accuracy"]
    check(accuracy > 0.9, "accuracy", accuracy)


def example_with_meson(folder, draw):
    """Meson finds it by pkg-config (elastic-subproject builds that program, and it trains)."""
    installed = installed_below(folder)
    code, _, said = folder.command("init", "library", folder.file("mine"), "--build", "meson")
    check(code == 0, "init", said)
    said = must_run("meson", "setup", folder.file("mine/build"), folder.file("mine"),
                    "--pkg-config-path", installed.packages)
    check("dependency adaptdl-runtime found: YES" in said, said)


def public_headers_alone(folder, draw):
    """Each header compiles alone and includes only public headers, LibTorch and standard C++."""
    installed = installed_below(folder)
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


main(program_against_the_installed, example_with_cmake, example_with_meson,
     public_headers_alone)
