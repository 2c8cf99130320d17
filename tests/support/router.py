"""Carries packets between the hosts of a Network (networks.py), and loses, delays and slows them as
told: router.py SEED DESCRIPTOR...

Each descriptor is that of a host's TUN device; host number N has the address that ends with N + 1.
Each line of standard input is a JSON object with the rules of one direction, {"from": 0, "to": 1}
and any of:

    cut    true: nothing passes
    loss   the part of packets that is lost, from 0 to 1
    delay  seconds
    rate   bytes a second; what would wait for longer than a second is lost

The answer, a line on standard output, comes when the rules hold: how many packets have passed, and
how many were lost. The program ends with its standard input.
"""

import contextlib
import heapq
import json
import os
import random
import select
import sys
import time

LONGEST_WAIT = 1.0  # s; of a packet, for its turn
PACKET = 1 << 16
DESTINATION = {4: 19, 6: 39}  # the last byte of a header's destination, by the version of IP
MULTICAST = 0xff              # the first byte of such an IPv6 destination
BURST = 64        # packets of one host in a row


class Direction:
    """The rules from one host to another."""

    def __init__(self, cut=False, loss=0.0, delay=0.0, rate=0):
        self.cut, self.loss, self.delay, self.rate = cut, loss, delay, rate
        self.free_at = 0.0  # when the packets before have been sent

    def due(self, size, now, draw):
        """When a packet arrives; None: it is lost."""
        if self.cut or (self.loss and draw.random() < self.loss):
            return None
        at = now
        if self.rate:
            if self.free_at > now + LONGEST_WAIT:
                return None
            at = self.free_at = max(self.free_at, now) + size / self.rate
        return at + self.delay


class Router:
    def __init__(self, seed, devices):
        self.draw, self.devices = random.Random(seed), devices
        self.directions = {}
        self.waiting, self.number = [], 0  # (due, number, host, packet): a heap
        self.passed = self.lost = 0

    def take(self, source):
        """Takes what a host sends now."""
        for _ in range(BURST):
            try:
                packet = os.read(self.devices[source], PACKET)
            except OSError:  # nothing more, or the device is down
                return
            self.route(source, packet)

    def route(self, source, packet):
        version = packet[0] >> 4
        if version not in DESTINATION or (version == 6 and packet[24] == MULTICAST):
            return
        target = packet[DESTINATION[version]] - 1
        if not 0 <= target < len(self.devices):
            return
        rules, now = self.directions.get((source, target)), time.monotonic()
        due = rules.due(len(packet), now, self.draw) if rules else now
        if due is None:
            self.lost += 1
        elif due <= now:
            self.deliver(target, packet)
        else:
            self.number += 1
            heapq.heappush(self.waiting, (due, self.number, target, packet))

    def deliver(self, target, packet):
        try:
            os.write(self.devices[target], packet)
            self.passed += 1
        except OSError:  # the device is down
            self.lost += 1

    def deliver_waiting(self):
        """Returns the seconds until the next packet is due; None: none waits."""
        while self.waiting:
            left = self.waiting[0][0] - time.monotonic()
            if left > 0:
                return left
            _, _, target, packet = heapq.heappop(self.waiting)
            self.deliver(target, packet)
        return None

    def obey(self, line):
        rules = json.loads(line)
        between = rules.pop("from"), rules.pop("to")
        self.directions[between] = Direction(**rules)
        print(json.dumps({"passed": self.passed, "lost": self.lost}), flush=True)

    def serve(self):
        poll = select.epoll()
        for device in (0, *self.devices):
            os.set_blocking(device, False)
            poll.register(device, select.EPOLLIN)
        sources = {device: i for i, device in enumerate(self.devices)}
        told = b""
        while True:
            for device, _ in poll.poll(self.deliver_waiting()):
                if device != 0:
                    self.take(sources[device])
                    continue
                more = os.read(0, PACKET)
                if not more:
                    return
                *lines, told = (told + more).split(b"\n")
                for line in lines:
                    self.obey(line)


def run_first():
    """Before all else that waits for a core: hosts lose each other if it carries nothing for
    a second."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


if __name__ == "__main__":
    run_first()
    Router(int(sys.argv[1]), [int(word) for word in sys.argv[2:]]).serve()
