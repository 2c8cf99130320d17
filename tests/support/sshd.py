"""Hosts that OpenSSH's server admits to, each with a network and a user of its own."""

import os

from .checks import wait_until
from .files import read
from .processes import run_command

# Into the folder below ADAPTDL_TEST_SSHD, Debian's packages are unpacked, not installed.
SSHD = os.environ.get("ADAPTDL_TEST_SSHD", "")
SETUP = """
mount --make-rprivate / && mount --bind {home}/passwd /etc/passwd &&
mount -t tmpfs none /run && mkdir -m 755 /run/sshd && {hide} &&
exec {sshd}/usr/sbin/sshd -D -e -f {home}/sshd_config
"""
CONFIG = """
Port {port}
ListenAddress {address}
HostKey {home}/host_key
AuthorizedKeysFile {keys}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
SetEnv {environment}
"""
CLIENT = """
Host *
  Port {port}
  User root
  IdentityFile {keys}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
"""
PORT = 22


def make_key(path):
    run_command(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], 0)


class SshSite:
    """Servers on hosts of a Network. `client`: the words that start a client which they admit."""

    def __init__(self, folder, network):
        self.folder, self.network = folder, network
        self.keys = folder.file("ssh")
        os.mkdir(self.keys)
        make_key(os.path.join(self.keys, "user_key"))
        folder.write("ssh/config", CLIENT.format(port=PORT, keys=self.keys))
        self.client = f"ssh -F {self.keys}/config"

    def home(self, host):
        return self.folder.file(f"home-{host}")

    def serve(self, host, hide=None, **environment):
        """Starts the server on that host. `environment`: of what it starts. `hide`: a folder that
        is empty there."""
        home = self.home(host)
        os.makedirs(home, exist_ok=True)
        if not os.path.exists(os.path.join(home, "host_key")):
            make_key(os.path.join(home, "host_key"))
        users = [f"root:x:0:0::{home}:/bin/sh", f"sshd:x:65533:65534::{home}:/usr/sbin/nologin"]
        self.folder.write(f"home-{host}/passwd", "\n".join(users) + "\n")
        pairs = " ".join(f"{name}={value}" for name, value in environment.items())
        config = CONFIG.format(port=PORT, address=self.network.address(host), home=home,
                               keys=self.keys, environment=pairs)
        session = f"{SSHD}/usr/lib/openssh/sshd-session"
        if os.path.exists(session):  # of OpenSSH 9.8 and later
            config += f"SshdSessionPath {session}\n"
        if os.path.exists(session.replace("session", "auth")):
            config += f"SshdAuthPath {session.replace('session', 'auth')}\n"
        self.folder.write(f"home-{host}/sshd_config", config)
        log = self.folder.file(f"sshd-{host}.log")
        libraries = ":".join(f"{SSHD}/{place}/{os.uname().machine}-linux-gnu"
                             for place in ("lib", "usr/lib"))
        # An earlier server on this host may have said so, too.
        before = read(log).count("Server listening") if os.path.exists(log) else 0
        with open(log, "ab") as out:
            server = self.folder.start(
                [*self.network.on(host), "unshare", "--mount", "sh", "-c",
                 SETUP.format(home=home, sshd=SSHD,
                              hide=f"mount -t tmpfs none '{hide}'" if hide else "true")],
                {"LD_LIBRARY_PATH": libraries}, stderr=out)
        wait_until(lambda: read(log).count("Server listening") > before, "sshd",
                   tell=lambda: read(log))
        return server
