"""Services of a cluster for its pods. Replaces kube-proxy and a DNS server, which would change
settings shared by all clusters on this machine. Listens on the services' addresses, which are local
here, forwards connections to ready pods, and answers DNS queries for services.

Usage: services.py KUBECONFIG ADDRESS, with the address of DNS. Reads the cluster every second.
"""

import contextlib
import http.client
import os
import random
import select
import socket
import struct
import sys
import threading
import time

from world import Api

DOMAIN = "svc.cluster.local"
API_SERVER = ("default", "kubernetes")  # a service without pods: the kubeconfig's server
ADDRESS, ANY, IN = 1, 255, 1            # of DNS
NO_ERROR, NOT_THERE = 0, 3


def pump(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(client, targets):
    for target in random.sample(targets, len(targets)):
        try:
            server = socket.create_connection(target, timeout=10)
            break
        except OSError:
            continue
    else:
        client.close()
        return
    server.settimeout(None)
    with client, server:
        back = threading.Thread(target=pump, args=(server, client), daemon=True)
        back.start()
        pump(client, server)
        back.join()


class Port:
    """One port of a service; listens while the service exists."""

    def __init__(self, place):
        self.targets = []
        self.listener = socket.create_server(place, backlog=100)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=serve, args=(client, self.targets), daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Services:
    def __init__(self, kubeconfig):
        self.api = Api(kubeconfig)
        self.ports, self.names = {}, {}

    def look(self):
        services = self.api.get("/api/v1/services")["items"]
        slices = self.api.get("/apis/discovery.k8s.io/v1/endpointslices")["items"]
        ready = {}  # (namespace, service) -> [({name of a port: number}, addresses)]
        for part in slices:
            owner = (part["metadata"]["namespace"],
                     part["metadata"].get("labels", {}).get("kubernetes.io/service-name"))
            ports = {port.get("name") or "": port["port"] for port in part["ports"] or []}
            addresses = [address for end in part["endpoints"] or []
                         if end.get("conditions", {}).get("ready", True)
                         for address in end["addresses"]]
            ready.setdefault(owner, []).append((ports, addresses))
        names, wanted = {}, {}
        for service in services:
            key = (service["metadata"]["namespace"], service["metadata"]["name"])
            address = service["spec"].get("clusterIP", "None")
            parts = ready.get(key, [])
            names[f"{key[1]}.{key[0]}.{DOMAIN}"] = [address] if address != "None" else [
                address for _, addresses in parts for address in addresses]
            if address == "None":
                continue
            for port in service["spec"].get("ports", []):
                wanted[address, port["port"]] = [
                    (self.api.address.hostname, self.api.address.port)] if key == API_SERVER else [
                    (address, ports[port.get("name") or ""]) for ports, addresses in parts
                    if (port.get("name") or "") in ports for address in addresses]
        self.names = names
        for place in set(self.ports) - set(wanted):
            self.ports.pop(place).close()
        for place, targets in wanted.items():
            if place not in self.ports:
                self.ports[place] = Port(place)
            self.ports[place].targets = targets

    def answer(self, query):
        """The answer to a DNS query of one question, or None."""
        if len(query) < 17 or query[4:6] != b"\0\1":
            return None
        labels, place = [], 12
        while query[place]:
            labels.append(query[place + 1:place + 1 + query[place]])
            place += 1 + query[place]
        name = b".".join(labels).decode("ascii", "replace").lower()
        kind, _ = struct.unpack("!HH", query[place + 1:place + 5])
        found = self.names.get(name)
        addresses = found if found and kind in (ADDRESS, ANY) else []
        # An authoritative answer; recursion available.
        flags = 0x8580 | (NO_ERROR if found is not None else NOT_THERE)
        answers = b"".join(struct.pack("!HHHLH", 0xc00c, ADDRESS, IN, 1, 4) +
                           socket.inet_aton(address) for address in addresses)
        return query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0) + \
            query[12:place + 5] + answers


def main():
    services = Services(sys.argv[1])
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind((sys.argv[2], 53))
    due = 0
    parent = os.getppid()
    while os.getppid() == parent:
        if time.monotonic() >= due:
            try:
                services.look()
            except (OSError, TypeError, http.client.HTTPException) as problem:  # it is down
                print(f"services: {problem}", flush=True)
            due = time.monotonic() + 1
        if select.select([names], [], [], max(0, due - time.monotonic()))[0]:
            query, client = names.recvfrom(4096)
            try:
                answer = services.answer(query)
            except (IndexError, struct.error):
                continue
            if answer:
                names.sendto(answer, client)


if __name__ == "__main__":
    main()
