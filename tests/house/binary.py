"""Checks what the finished program needs from the system, and how fast it starts.

Usage: binary.py ADAPTDL LOWEST_GLIBC
- It loads libc, libm and the loader, nothing else.
- It asks for no symbol newer than LOWEST_GLIBC (e.g. 2.36), where it was built on that very glibc.
- `adaptdl --version` takes at most 3 ms of processor time more than /bin/true.
"""

import os
import re
import subprocess
import sys

LIBRARIES = re.compile(r"(linux-vdso|libc|libm|ld-linux[-\w]*|/lib\S*/ld-linux[-\w]*)\.so\.\d+")
EXTRA_START_SECONDS = 0.003


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


def shortest_run(*command):
    """Least processor time of many runs, in seconds: what the command costs, whoever else works."""
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
    program, lowest = sys.argv[1:]
    problems = check_libraries(program) + check_symbols(program, lowest) + check_start(program)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
