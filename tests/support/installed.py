"""The runtime library as users get it: installed, found by pkg-config, linked."""

import os
import subprocess

from .checks import check

SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPENDENCIES = os.path.join(SOURCES, ".deps")  # where LibTorch is


def must_run(*words, **variables):
    done = subprocess.run(words, env=os.environ | variables, capture_output=True, text=True)
    check(done.returncode == 0, "failed: " + " ".join(words), done.stdout, done.stderr)
    return done.stdout


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


class Installed:
    """What is installed of a build folder, below `root`. $CXX names the compiler."""

    def __init__(self, build, root):
        self.root = root = os.path.realpath(root)
        must_run("meson", "install", "-C", build, "--no-rebuild", "--tags", "devel",
                 "--destdir", root)
        (found,) = [name for name in files_below(root) if name.endswith("adaptdl-runtime.pc")]
        self.packages = os.path.join(root, os.path.dirname(found))
        headers = next(name for name in files_below(root) if name.endswith("adaptdl.h"))
        self.prefix = os.path.join(root, headers.split("/include/")[0])
        # It is in a temporary folder, not at its final install path.
        with open(os.path.join(root, found), "r+", encoding="utf-8") as file:
            text = file.read().replace("prefix=", "prefix=" + root, 1)
            file.seek(0)
            file.write(text)

    def flags(self, *wanted):
        return must_run("pkg-config", *wanted, "adaptdl-runtime",
                        PKG_CONFIG_PATH=self.packages).split()

    def compile(self, *words):
        must_run(*os.environ["CXX"].split(), "-std=c++20", "-Wall", "-Wextra", "-Werror",
                 *self.flags("--cflags"), *words)

    def precompile(self, header):
        """Beside the header, for build()."""
        self._compile_alone(header, header + ".gch", "-x", "c++-header")

    def build(self, source, program, precompiled=None):
        """`precompiled`: a header to include first."""
        object_file = program + ".o"
        # In two steps: ccache keeps what only compiles.
        self._compile_alone(source, object_file, "-c", precompiled=precompiled)
        self.compile("-o", program, object_file, *self.flags("--libs"))
        os.remove(object_file)

    def _compile_alone(self, source, output, *words, precompiled=None):
        """By nothing of the folder that the library comes from."""
        listed = output + ".d"
        first = ["-include", precompiled] if precompiled else []
        self.compile("-MD", "-MF", listed, *first, *words, "-o", output, source)
        with open(listed, encoding="utf-8") as file:
            read = file.read().replace("\\\n", " ").split()[1:]
        os.remove(listed)
        check(precompiled or any(name.endswith("adaptdl/adaptdl.h") for name in read),
              "which library?", read)
        foreign = [name for name in map(os.path.realpath, read)
                   if name.startswith(SOURCES + "/") and name != source
                   and not name.startswith((DEPENDENCIES + "/", self.root + "/"))]
        check(not foreign, "headers that are not installed", foreign)

    def examples(self):
        """The sources of the installed examples, by their names."""
        folder = os.path.join(self.prefix, "share/doc/adaptdl/examples")
        return {name.removesuffix(".cpp"): os.path.join(folder, name)
                for name in files_below(folder)}
