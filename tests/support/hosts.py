"""One run on several hosts, like the pods of a job: a launcher, agents, and a supervisor that tells
them the launcher's address."""

import http.server
import json
import os
import shutil
import socket
import threading

from .checks import wait_until
from .networks import Network
from .processes import children_of, free_port
from .sockets import ask

TOKEN = "token-of-the-job"
LINK_KEY = "key-of-the-links"


class Supervisor:
    """Answers like the operator's supervisor: 408 until it knows an address. `listener`: a socket
    on its host; none: this machine's. `leads`: called with the rank of a pod that leads now."""

    def __init__(self, listener=None, leads=lambda rank: None):
        self.addresses, self.hints = None, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                known = outer.addresses is not None
                body = json.dumps(outer.addresses).encode() if known else b""
                asked = self.path.startswith(f"/j/{TOKEN}/discover/team/train/0?timeout=")
                self.answer(404 if not asked else 200 if known else 408, body)

            def do_PUT(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path == f"/j/{TOKEN}/hints/team/train":
                    outer.hints.append(json.loads(body))
                if self.path.startswith(f"/j/{TOKEN}/leads/team/train/0/"):
                    leads(int(self.path.rsplit("/", 1)[1]))
                self.answer(200, b"")

            def answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):  # the network is cut
                pass

        listener = listener or socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        self.server = Server(self.address, Handler, bind_and_activate=False)
        self.server.socket.close()
        self.server.socket = listener
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self):
        return f"http://{self.address[0]}:{self.address[1]}/j/{TOKEN}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Hosts:
    """The pods of one group: rank 0 runs the launcher. `network`: has a host for each; none: all
    are on this machine's."""

    def __init__(self, folder, supervisor, network=None):
        self.folder, self.supervisor, self.network = folder, supervisor, network
        self.port = free_port()
        self.shared = folder.file("share")

    def pod(self, rank, *arguments, host=None, link_key=LINK_KEY, name="slow", **environment):
        """`host`: of the network; none: that of the same number."""
        logs = self.folder.file(f"tmp-{rank}")
        os.makedirs(logs, exist_ok=True)
        pod = self.folder.run(
            self.folder.program(name), *arguments, ADAPTDL_RESCALE="live", TMPDIR=logs,
            before=self.network.on(rank if host is None else host) if self.network else (),
            ADAPTDL_SUPERVISOR_URL=self.supervisor.url(), ADAPTDL_JOB_ID="team/train",
            ADAPTDL_JOB_TOKEN=TOKEN, ADAPTDL_LINK_KEY=link_key, ADAPTDL_NUM_RESTARTS="0",
            ADAPTDL_REPLICA_RANK=str(rank),
            ADAPTDL_MASTER_PORT=str(self.port), ADAPTDL_SHARE_PATH=self.shared,
            ADAPTDL_CHECKPOINT_PATH=self.folder.file("checkpoints"), **environment)
        pod.name = "train"  # of the job
        return pod


class Site:
    """Hosts of a network, on each of which somebody types a command; host 0 is named by the
    endpoint. `apart`: each has a file system of its own."""

    def __init__(self, folder, hosts, apart=False):
        self.folder, self.network, self.port = folder, Network(folder, hosts), free_port()
        self.apart = apart

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.network.__exit__(*error)

    def key(self, host):
        return self.folder.file(f"config-{host}", "adaptdl", "hosts.key")

    def share_key(self):
        """As a user would: copies the one that host 0 has made."""
        wait_until(lambda: os.path.exists(self.key(0)), "a key")
        for host in list(self.network.hosts)[1:]:
            os.makedirs(os.path.dirname(self.key(host)), exist_ok=True)
            shutil.copy(self.key(0), self.key(host))

    def run(self, host, nodes, *arguments, program="slow", **environment):
        own = self.folder.file(f"host-{host}")
        folders = ("--checkpoint-dir", own, "--output", own, "--log-dir", own)
        return self.folder.run(
            self.folder.program(program), *(folders if self.apart else ()), "--nnodes", nodes,
            "--rdzv-endpoint", f"{self.network.address(0)}:{self.port}", *arguments,
            before=self.network.on(host), **self.environment(host), **environment)

    def request(self, host, **request):
        """Of the launcher there."""
        folder = self.environment(host)["XDG_RUNTIME_DIR"] if self.apart else \
            self.folder.file("runtime")
        return ask(os.path.join(folder, "adaptdl", "runs", "slow.sock"), **request)

    def environment(self, host):
        own = {"XDG_CONFIG_HOME": self.folder.file(f"config-{host}")}
        if self.apart:
            own["XDG_RUNTIME_DIR"] = self.folder.file(f"runtime-{host}")
            os.makedirs(own["XDG_RUNTIME_DIR"], mode=0o700, exist_ok=True)
        return own


def worker_of(pod):
    """The replica started by an agent."""
    return next(iter(children_of(pod.process.pid)), None)
