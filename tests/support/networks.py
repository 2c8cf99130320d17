"""Hosts with a network of their own, as far as programs can tell: network namespaces, and a router
between them that fails as told (router.py).

A namespace lives as long as this process holds its descriptor, and a device as long as the router
does, so that nothing is left, however the test ends.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading

from .checks import PATIENCE, check, skip
from .processes import end, run_command

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 1, 0x1000
DEVICE = "net0"
ROUTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "router.py")


def in_thread(function):
    """Runs it in a thread of its own, whose namespace it may change; returns its result."""
    results = []

    def run():
        try:
            results.append((function(), None))
        except BaseException as error:
            results.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, error = results[0]
    if error:
        raise error
    return result


def new_namespace():
    """Moves this thread into a new network namespace, and returns the namespace's descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        skip(f"it needs the right to make network namespaces: {os.strerror(ctypes.get_errno())}")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def new_device(address):
    """The network device of this thread's namespace."""
    try:
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    except OSError as error:
        skip(f"it needs the right to make TUN devices: {error}")
    for words in (["link", "set", "lo", "up"], ["addr", "add", address + "/24", "dev", DEVICE],
                  ["link", "set", DEVICE, "up"], ["route", "add", "default", "dev", DEVICE]):
        run_command(["ip", *words], 0)
    return device


class Network:
    """Hosts 0 to `hosts` - 1, which all see each other."""

    def __init__(self, folder, hosts, seed=1):
        self.hosts = range(hosts)
        self.namespaces, devices = [], []
        try:
            for host in self.hosts:
                def make(host=host):
                    self.namespaces.append(new_namespace())
                    devices.append(new_device(self.address(host)))

                in_thread(make)
            self.router = folder.start(
                [sys.executable, ROUTER, str(seed), *map(str, devices)], pass_fds=devices,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except BaseException:
            self.forget()
            raise
        finally:
            for device in devices:
                os.close(device)
        self.failing, self.cut_off = set(), set()  # pairs of hosts
        self.carried = {"passed": 0, "lost": 0}  # packets

    @staticmethod
    def address(host):
        return f"10.77.0.{host + 1}"

    def add_ipv6(self):
        """From now on the hosts have address6(host), too."""
        for host in self.hosts:
            self.ip(host, "addr", "add", self.address6(host) + "/64", "dev", DEVICE, "nodad")

    @staticmethod
    def address6(host):
        return f"fd77::{host + 1:x}"

    def on(self, host):
        """The words that start a program on a host."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.namespaces[host]}"]

    def listener(self, host):
        """A socket that listens there."""
        def listen():
            libc = ctypes.CDLL(None, use_errno=True)
            check(libc.setns(self.namespaces[host], CLONE_NEWNET) == 0, "cannot enter a namespace")
            return socket.create_server((self.address(host), 0))

        return in_thread(listen)

    def pairs(self, some, others):
        return [(a, b) for a in some for b in others if a != b]

    def fail(self, some, others, **rules):
        """What goes from some hosts to others fails by these rules (router.py), and no others."""
        for pair in self.pairs(some, others):
            self.tell(pair, **rules)
            self.failing.add(pair)

    def fail_between(self, some, others, **rules):
        self.fail(some, others, **rules)
        self.fail(others, some, **rules)

    def refuse_between(self, some, others):
        """As if there were no route: connections fail at once."""
        for pair in {*self.pairs(some, others), *self.pairs(others, some)} - self.cut_off:
            self.ip(pair[0], "route", "add", "unreachable", self.address(pair[1]))
            self.cut_off.add(pair)

    def heal(self):
        """Everything passes again."""
        for pair in self.failing:
            self.tell(pair)
        for pair in self.cut_off:
            self.ip(pair[0], "route", "del", "unreachable", self.address(pair[1]))
        self.failing, self.cut_off = set(), set()

    def ip(self, host, *words):
        run_command([*self.on(host), "ip", *words], 0)

    def tell(self, pair, **rules):
        self.router.stdin.write(json.dumps({"from": pair[0], "to": pair[1], **rules}).encode() +
                                b"\n")
        self.router.stdin.flush()
        line = self.router.stdout.readline()
        check(line, f"the router ended with {self.router.poll()}")
        self.carried = json.loads(line)

    def forget(self):
        for namespace in self.namespaces:
            os.close(namespace)
        self.namespaces.clear()

    def close(self):
        self.forget()
        self.router.stdin.close()
        check(self.router.wait(PATIENCE) == 0, "the router failed")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
        else:
            self.forget()
            end(self.router)
