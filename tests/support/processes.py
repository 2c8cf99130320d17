"""Processes that tests start, and their data in /proc."""

import contextlib
import os
import random
import shlex
import signal
import socket
import subprocess
import time

from .checks import PATIENCE, Failed, check, shortened


def run_command(words, code=None, timeout=PATIENCE, text=True, **options):
    """Runs a program to its end; returns the result of subprocess.run, with stdout and stderr.

    `code`: the required exit code. Without `input` its standard input is empty.
    """
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    if text:
        options |= {"encoding": "utf-8", "errors": "replace"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    command = shortened(shlex.join(map(str, words)), 300)
    try:
        done = subprocess.run(words, timeout=timeout, check=False, **options)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{command}: did not end within {timeout:.0f} s\n{late.stdout}\n"
                     f"{late.stderr}") from None
    if code is not None:
        check(done.returncode == code, f"{command}: exit code {done.returncode}, not {code}",
              done.stdout, done.stderr)
    return done


def kill(pid, number=signal.SIGKILL):
    """Whether the process existed."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def end(process, patience=20):
    """Ends a child by SIGTERM, else by SIGKILL. Returns whether SIGTERM sufficed."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(patience)
        return True
    except subprocess.TimeoutExpired:
        kill_child(process)
        return False


def kill_child(process):
    process.kill()
    process.wait()


class Processes:
    """Child processes; close() always ends all of them."""

    def __init__(self):
        self.children = []

    def start(self, words, **options):
        child = subprocess.Popen(words, **{"stdin": subprocess.DEVNULL} | options)
        self.children.append(child)
        return child

    def close(self):
        for child in reversed(self.children):
            kill_child(child)
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe:
                    with contextlib.suppress(OSError):
                        pipe.close()
        self.children.clear()


def stat_fields(pid):
    """The fields of /proc/PID/stat from the state on; None if the process does not exist."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def status_of(pid, key):
    """The first word at `key` in /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return next(line.split()[1] for line in file if line.startswith(key + ":"))


def all_pids():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def children_of(pid):
    """{child: its state} of a process."""
    stats = {child: stat_fields(child) for child in all_pids()}
    return {child: fields[0] for child, fields in stats.items() if fields and int(fields[1]) == pid}


def cpu_s(pid):
    """CPU seconds of a process so far."""
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def environment_of(pid):
    """What a process was started with. The kernel shows nothing while it starts a program."""
    for _ in range(10):
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = file.read()
        if text or not os.path.exists(f"/proc/{pid}/exe"):  # the kernel's own have neither
            break
        time.sleep(0.01)
    return text.split(b"\0")


def carriers(mark, value):
    """Running processes that were started with this environment variable."""
    wanted = f"{mark}={value}".encode()
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            fields = stat_fields(pid) if wanted in environment_of(pid) else None
            if fields and fields[0] != "Z":
                found.append(pid)
    return found


marks = []  # open: they tell other tests what is taken


def claim(name):
    """Whether this name was free; if so no other test of this machine gets it as long as this
    process lives."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0adaptdl-test-{name}")
    except OSError:
        mark.close()
        return False
    marks.append(mark)
    return True


def free_ports(count):
    """Unused ports, none of which the system gives to somebody who asks for any, nor this function
    to another test as long as this process lives."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first = int(file.read().split()[0])
    ports = []
    for port in random.SystemRandom().sample(range(first // 2, first), min(first // 2, 1000)):
        if len(ports) == count:
            break
        if not claim(f"port-{port}"):
            continue
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind(("127.0.0.1", port))
            ports.append(port)
    return ports


def free_port():
    return free_ports(1)[0]
