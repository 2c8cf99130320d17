"""A Kubernetes of one machine for tests: etcd, kube-apiserver and kube-controller-manager; with a
node also containerd, kube-scheduler and kubelet. Needs a folder with those binaries (bin/) and
images (images/*.tar), openssl and, for a node, root, containerd, runc and the CNI plugins. It
listens only on loopback, or on its own bridge; stop() ends what it started, and nothing else.
"""

import contextlib
import glob
import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
import urllib.request

from support import (Failed, Registry, check, claim, end, free_port, free_ports, has_registry,
                     kill_child, last_lines, read, run_command, wait_until, write)

NODE = "adaptdl-test"
FORWARDING = "/proc/sys/net/ipv4/ip_forward"
IMAGE = "localhost/adaptdl-busybox:1"
HERE = os.path.dirname(os.path.abspath(__file__))
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


def containerd_cgroups():
    """The cgroups that hold the containers of all containerds, under separate names."""
    return glob.glob("/sys/fs/cgroup/k8s.io") + glob.glob("/sys/fs/cgroup/*/k8s.io")


class Cluster:
    def __init__(self, binaries, folder):
        self.binaries = os.path.join(binaries, "bin")
        self.images = os.path.join(binaries, "images")
        self.folder = folder
        self.pki = os.path.join(folder, "pki")
        self.processes = {}
        self.commands = {}
        self.stopping = threading.Event()
        self.node, self.registry = False, None
        os.makedirs(self.pki, mode=0o700)
        self.etcd, self.peer, self.api, self.manager, self.kubelet = free_ports(5)
        # 10.NETWORK.0.0/24 is for pods, .16.0/20 for services; another cluster on this machine
        # has another number. A bridge may be left of one that was killed.
        self.network = next(
            number for number in (100 + n % 100 for n in range(os.getpid(), os.getpid() + 100))
            if claim(f"network-{number}")
            and not os.path.exists(f"/sys/class/net/adltest{number}"))

    # ---- processes

    def start(self, name, *command):
        self.commands[name] = command
        with open(os.path.join(self.folder, name + ".log"), "ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)

    def keep_up(self, name):
        """Restarts processes that end by their own fault (Go's panics: 2), like an init system."""
        while not self.stopping.wait(0.5):
            process = self.processes.get(name)
            if process is not None and process.poll() == 2:
                print(f"{name} has crashed, and begins again:", *self.tail(name), sep="\n",
                      flush=True)
                self.start(name, *self.commands[name])

    def end(self, name):
        if process := self.processes.pop(name, None):
            end(process)

    def kill(self, name):
        """Kills by SIGKILL; start(name, *commands[name]) restarts it."""
        kill_child(self.processes[name])

    def wait_for(self, what, seconds, condition):
        def there():
            for name, process in self.processes.items():
                check(process.poll() is None, f"{name} ended", *self.tail(name))
            return condition()
        wait_until(there, what, seconds, 0.2)

    def tail(self, name):
        return last_lines(self.path(name + ".log"), 6)

    def binary(self, name):
        return os.path.join(self.binaries, name)

    # ---- keys

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.pki)

    def make_keys(self):
        self.write("pki/cnf", "[req]\ndistinguished_name=dn\n[dn]\n")
        self.openssl("req", "-x509", "-config", "cnf", *KEY, "-keyout", "ca.key", "-out", "ca.crt",
                     "-subj", "/CN=test-ca", "-addext", "basicConstraints=critical,CA:TRUE")
        self.openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "account.key")
        self.openssl("ec", "-in", "account.key", "-pubout", "-out", "account.pub")
        for name, subject in {
                "server": "/CN=server", "webhooks": "/CN=api-server",
                "admin": "/O=system:masters/CN=admin",
                "kubelet": f"/O=system:nodes/CN=system:node:{NODE}"}.items():
            self.make_certificate(name, subject, "DNS:localhost", f"DNS:{NODE}", "IP:127.0.0.1",
                                  f"IP:10.{self.network}.0.1", f"IP:10.{self.network}.16.1")
        for name in ("admin", "kubelet"):
            self.write_kubeconfig(name, f"https://127.0.0.1:{self.api}")

    def make_certificate(self, name, subject, *addresses):
        """Writes NAME.crt and NAME.key, which the cluster trusts, to its folder of keys."""
        self.openssl(
            "req", "-x509", "-config", "cnf", "-CA", "ca.crt", "-CAkey", "ca.key", *KEY,
            "-keyout", name + ".key", "-out", name + ".crt", "-subj", subject,
            "-addext", "extendedKeyUsage=serverAuth,clientAuth",
            "-addext", "basicConstraints=critical,CA:FALSE",
            "-addext", "subjectAltName=" + ",".join(addresses))

    def write_kubeconfig(self, name, server):
        """Of the user whose certificate has this name; returns its path. Its paths are relative to
        the file, as in users' files."""
        return self.write(name, json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": server, "certificate-authority": "pki/ca.crt"}}],
            "users": [{"name": name, "user": {
                "client-certificate": f"pki/{name}.crt", "client-key": f"pki/{name}.key"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}]}))

    def write_admission(self):
        """The API server's settings by which it shows webhooks a certificate; returns the path."""
        user = {name: os.path.join(self.pki, f"webhooks.{end}")
                for name, end in (("client-certificate", "crt"), ("client-key", "key"))}
        users = self.write("webhooks", json.dumps({
            "apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}))
        return self.write("admission.json", json.dumps({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
            "plugins": [{"name": "ValidatingAdmissionWebhook", "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": users}}]}))

    # ---- control plane

    def get(self, path):
        """The API server's answer to the administrator, or None."""
        context = ssl.create_default_context(cafile=os.path.join(self.pki, "ca.crt"))
        context.load_cert_chain(os.path.join(self.pki, "admin.crt"),
                                os.path.join(self.pki, "admin.key"))
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self.api}{path}", timeout=5,
                                        context=context) as answer:
                return answer.read()
        except OSError:
            return None

    def up(self, with_node, manager_options=()):
        self.node = with_node
        self.make_keys()
        url = f"http://127.0.0.1:{self.etcd}"
        peer = f"http://127.0.0.1:{self.peer}"
        self.start("etcd", self.binary("etcd"), "--name", "default", "--data-dir",
                   os.path.join(self.folder, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
                   "--listen-client-urls", url, "--advertise-client-urls", url,
                   "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                   "--initial-cluster", f"default={peer}")

        def key(name):
            return os.path.join(self.pki, name)
        self.start(
            "kube-apiserver", self.binary("kube-apiserver"), "--bind-address", "127.0.0.1",
            "--secure-port", str(self.api), "--advertise-address", f"10.{self.network}.0.1",
            "--endpoint-reconciler-type", "none", "--etcd-servers", url,
            # No kube-proxy: the API server calls webhooks at their pods.
            "--enable-aggregator-routing=true",
            "--admission-control-config-file", self.write_admission(),
            "--tls-cert-file", key("server.crt"), "--tls-private-key-file", key("server.key"),
            "--client-ca-file", key("ca.crt"), "--authorization-mode", "Node,RBAC",
            "--service-cluster-ip-range", f"10.{self.network}.16.0/20",
            "--service-account-issuer", "https://kubernetes.default.svc",
            "--service-account-signing-key-file", key("account.key"),
            "--service-account-key-file", key("account.pub"),
            "--kubelet-client-certificate", key("admin.crt"),
            "--kubelet-client-key", key("admin.key"), "--kubelet-certificate-authority",
            key("ca.crt"), "--kubelet-preferred-address-types", "InternalIP")
        self.wait_for("kube-apiserver", 120, lambda: self.get("/readyz") == b"ok")
        admin = os.path.join(self.folder, "admin")
        self.start("kube-controller-manager", self.binary("kube-controller-manager"),
                   "--kubeconfig", admin, "--bind-address", "127.0.0.1", "--secure-port",
                   str(self.manager), "--leader-elect=false", "--root-ca-file", key("ca.crt"),
                   "--service-account-private-key-file", key("account.key"), *manager_options)
        if with_node:
            self.start_node()

    def start_scheduler(self, requests=50):
        """Starts it with a limit of requests per second."""
        config = self.write("scheduler.json", json.dumps({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": self.path("admin"), "qps": requests,
                                 "burst": 2 * requests}}))
        self.start("kube-scheduler", self.binary("kube-scheduler"), "--config", config,
                   "--bind-address", "127.0.0.1", "--secure-port", str(free_port()))

    def restart_api_server(self):
        self.kill("kube-apiserver")
        self.start("kube-apiserver", *self.commands["kube-apiserver"])
        self.wait_for("kube-apiserver", 120, lambda: self.get("/readyz") == b"ok")

    # ---- node

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        return write(self.path(name), text)

    def start_node(self):
        bridge = f"adltest{self.network}"
        # The bridge plugin turns forwarding on, and the last of this machine's clusters restores
        # what was there before the first: each has it in the alias of its bridge.
        before = [read(alias).strip() for alias in glob.glob("/sys/class/net/adltest*/ifalias")]
        self.forwarding = before[0] if before and before[0] else read(FORWARDING).strip()
        os.makedirs(self.path("cni"))
        self.write("cni/net.conflist", json.dumps({
            "cniVersion": "1.0.0", "name": "test", "plugins": [{
                "type": "bridge", "bridge": bridge, "isGateway": True,
                "ipam": {"type": "host-local", "dataDir": self.path("ipam"),
                         "routes": [{"dst": f"10.{self.network}.16.0/20"}],
                         "ranges": [[{"subnet": f"10.{self.network}.0.0/24",
                                      "gateway": f"10.{self.network}.0.1"}]]}}]}))
        # With its own address: else it uses that of a pod, and when that pod ends, the others
        # have no network for half a minute.
        subprocess.run(["ip", "link", "add", bridge, "address",
                        f"0a:58:0a:{self.network:02x}:00:01",
                        "type", "bridge"], check=True)
        self.bridge = bridge
        subprocess.run(["ip", "link", "set", bridge, "alias", self.forwarding], check=True)
        subprocess.run(["ip", "addr", "add", f"10.{self.network}.0.1/24", "dev", bridge],
                       check=True)
        subprocess.run(["ip", "link", "set", bridge, "up"], check=True)
        # Services' addresses are local addresses, removed with the bridge.
        subprocess.run(["ip", "route", "add", "local", f"10.{self.network}.16.0/20", "dev", bridge],
                       check=True)
        self.start("services", sys.executable, os.path.join(HERE, "services.py"),
                   self.path("admin"), f"10.{self.network}.0.1")
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        config = self.write("containerd.toml", f"""version = 2
root = "{self.path('containerd/root')}"
state = "{self.path('containerd/state')}"
[grpc]
  address = "{self.path('containerd.sock')}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self.path('containerd/opt')}"
[{cri}]
  sandbox_image = "localhost/adaptdl-pause:1"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [{cri}.cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{self.path('cni')}"
  [{cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [{cri}.containerd.runtimes.runc.options]
      SystemdCgroup = false
""")
        self.start("containerd", "containerd", "--config", config)
        self.wait_for("containerd", 60, lambda: self.ctr("version"))
        for image in ("pause", "busybox"):
            if not self.ctr("images", "import", os.path.join(self.images, f"adaptdl-{image}.tar")):
                raise Failed(f"the image adaptdl-{image} cannot be imported")
        self.start_scheduler()
        kubelet = self.write("kubelet.json", json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": f"10.{self.network}.0.1", "port": self.kubelet, "healthzPort": 0,
            "containerRuntimeEndpoint": "unix://" + self.path("containerd.sock"),
            "cgroupDriver": "cgroupfs", "failCgroupV1": False, "failSwapOn": False,
            # With its own hierarchy, a kubelet kills unknown processes in it: the pods of another
            # kubelet on this machine.
            "cgroupsPerQOS": False, "enforceNodeAllocatable": [],
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False},
                               "x509": {"clientCAFile": os.path.join(self.pki, "ca.crt")}},
            "authorization": {"mode": "AlwaysAllow"},
            "tlsCertFile": os.path.join(self.pki, "kubelet.crt"),
            "tlsPrivateKeyFile": os.path.join(self.pki, "kubelet.key"),
            "clusterDNS": [f"10.{self.network}.0.1"], "clusterDomain": "cluster.local",
            "resolvConf": self.write("resolv.conf", ""), "podLogsDir": self.path("pod-logs"),
            "volumePluginDir": self.path("plugins"), "makeIPTablesUtilChains": False,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%",
                             "nodefs.inodesFree": "1%", "imagefs.available": "1%"}}))
        self.start("kubelet", self.binary("kubelet"), "--config", kubelet, "--kubeconfig",
                   self.path("kubelet"), "--root-dir", self.path("kubelet-root"), "--cert-dir",
                   self.pki, "--hostname-override", NODE, "--node-ip", f"10.{self.network}.0.1")
        self.wait_for("the node", 120, self.node_is_ready)
        threading.Thread(target=self.keep_up, args=("kubelet",), daemon=True).start()

    def start_registry(self):
        """Starts a registry for the node: returns HOST:PORT; None if none is installed."""
        if not has_registry():
            return None
        self.registry = Registry(self.folder)
        return self.registry.name

    def ctr(self, *arguments):
        return run_command(["ctr", "-a", self.path("containerd.sock"), "-n", "k8s.io",
                            *arguments]).returncode == 0

    def node_is_ready(self):
        node = json.loads(self.get(f"/api/v1/nodes/{NODE}") or "{}")
        conditions = node.get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    # ---- the end

    def stop(self):
        """Best effort: one failure must not prevent the rest of the cleanup."""
        self.stopping.set()
        self.end("kubelet")
        if "containerd" in self.processes:
            with contextlib.suppress(Failed):
                run_command([self.binary("sandbox-sweep"), self.path("containerd.sock")],
                            timeout=120)
        if self.registry:
            self.registry.close()
        for name in ("services", "kwok", "containerd", "kube-scheduler",
                     "kube-controller-manager", "kube-apiserver", "etcd"):
            self.end(name)
        if hasattr(self, "bridge"):
            self.undo_node()
        mounts = [line.split()[1] for line in read("/proc/self/mounts").splitlines()]
        below = [mount for mount in mounts if mount.startswith(self.folder)]
        for mount in sorted(below, reverse=True):
            subprocess.run(["umount", "-l", mount], check=False)

    def undo_node(self):
        subprocess.run(["ip", "link", "del", self.bridge], check=False)
        if not glob.glob("/sys/class/net/adltest*"):
            write(FORWARDING, self.forwarding)
        for top in containerd_cgroups():
            with contextlib.suppress(OSError):  # used by another cluster
                os.rmdir(top)
        for link in glob.glob("/var/log/containers/*.log"):
            if os.path.islink(link) and os.readlink(link).startswith(self.folder):
                os.unlink(link)


def can_run_node(binaries):
    """The reason why no node can run here; None if one can."""
    if os.geteuid() != 0:
        return "only root can run one"
    missing = [name for name in ("containerd", "runc", "ip", "ctr") if not shutil.which(name)]
    missing += [path for path in ("/usr/lib/cni/bridge", os.path.join(
        binaries, "images/adaptdl-busybox.tar")) if not os.path.exists(path)]
    return f"missing: {', '.join(missing)}" if missing else None
