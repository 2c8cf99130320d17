"""Checks the system requirements of the finished program, its hardening and its start-up time.

Usage: binary.py ADAPTDL LOWEST_GLIBC SOURCE_ROOT BUILD_ROOT [LIBTORCH WORKER ARCHIVE]
- It loads libc, libm and the loader, nothing else.
- It needs no symbol newer than LOWEST_GLIBC (e.g. 2.36), if it was built on that glibc.
- It and the worker are hardened: position-independent, symbols bound at start (full RELRO),
  no executable stack, stack protector, checked functions of glibc.
- Neither contains a path of the source tree, the build folder or LibTorch, or a library search
  path: a build elsewhere has the same bytes (reproducible.py).
- `adaptdl --version` takes at most 3 ms of CPU time more than /bin/true.
- It, the worker before it is embedded, and ARCHIVE (the runtime library) contain no test code.
"""

import os
import re
import subprocess
import sys

LIBRARIES = re.compile(r"(linux-vdso|libc|libm|ld-linux[-\w]*|/lib\S*/ld-linux[-\w]*)\.so\.\d+")
EXTRA_START_SECONDS = 0.003
FOR_TESTS = re.compile(rb"ADAPTDL_(FAULT|TEST)\w*")


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def number(version):
    return tuple(int(part) for part in version.split("."))


def check_libraries(program):
    return [f"it loads {line.strip()}" for line in lines("ldd", program)
            if line.strip() and not LIBRARIES.match(line.strip().split(" ")[0])]


def check_symbols(program, lowest):
    here = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    if number(here) > number(lowest):
        print(f"glibc {here} here: symbol versions are checked only on {lowest}, the stated lowest")
        return []
    newer = [line for line in lines("objdump", "-T", program)
             for version in re.findall(r"GLIBC_([\d.]+)", line) if number(version) > number(lowest)]
    return [f"it needs more than glibc {lowest}: {line}" for line in newer]


def check_hardening(program, what):
    """Problems of an ELF file, found by readelf and by the names of its imports."""
    dynamic = "\n".join(lines("readelf", "-d", program))
    segments = "\n".join(lines("readelf", "-lW", program))
    header = "\n".join(lines("readelf", "-hW", program))
    names = {match.group(1) for line in lines("readelf", "-W", "--dyn-syms", program)
             if (match := re.search(r" (\w+)@\S+", line))}
    wanted = {
        "is not position-independent": "DYN (" in header,
        "has no read-only relocations (RELRO)": "GNU_RELRO" in segments,
        "binds symbols while it runs": re.search(r"BIND_NOW|Flags: NOW", dynamic) is not None,
        "has an executable stack": re.search(r"GNU_STACK.* RW ", segments) is not None,
        "has no stack protector": "__stack_chk_fail" in names,
        "calls none of glibc's checked functions (FORTIFY)": any(
            name.endswith("_chk") for name in names),
        "has a path in which libraries are looked for": not re.search(r"R(UN)?PATH", dynamic),
    }
    return [f"{what} {problem}" for problem, fine in wanted.items() if not fine]


def check_paths(program, what, roots):
    with open(program, "rb") as file:
        data = file.read()
    problems = []
    for root in roots:
        found = re.search(re.escape(root.encode()) + rb"(?![\w.-])[ -~]*", data)
        if found:
            text = found.group()[:200].decode()
            problems.append(f"{what} has a path of this machine in it: {text}")
    return problems


def check_nothing_for_tests(shipped):
    problems = []
    for path in shipped:
        with open(path, "rb") as file:
            words = {match.group().decode() for match in FOR_TESTS.finditer(file.read())}
        problems += [f"{path} has {word} in it, which only tests use" for word in sorted(words)]
    return problems


def shortest_run(*command):
    """The least CPU time of many runs, in seconds: the command's cost without other load."""
    best = float("inf")
    for _ in range(60):
        pid = os.posix_spawn(command[0], command, os.environ,
                             file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
        used = os.wait4(pid, 0)[2]
        best = min(best, used.ru_utime + used.ru_stime)
    return best


def check_start(program):
    extra = shortest_run(program, "--version") - shortest_run("/bin/true")
    print(f"--version takes {extra * 1e3:.2f} ms more than /bin/true")
    return [f"that is more than {EXTRA_START_SECONDS * 1e3:.0f} ms"] if (
        extra > EXTRA_START_SECONDS) else []


def main():
    program, lowest, source, build, *more = sys.argv[1:]
    libtorch, shipped = more[:1], more[1:]
    roots = {path for root in (source, build, *libtorch) for path in (root, os.path.realpath(root))}
    problems = (check_libraries(program) + check_symbols(program, lowest)
                + check_nothing_for_tests([program, *shipped]) + check_start(program))
    for what, path in zip(("it", "the worker"), [program, *shipped]):
        problems += check_hardening(path, what) + check_paths(path, what, roots)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
