"""Slurm with two nodes, which are both this machine: its own servers, and munge."""

import getpass
import os

from .checks import check, wait_until
from .files import read
from .processes import end, free_ports, run_command

# Into the folder below ADAPTDL_TEST_SLURM, Debian's packages are unpacked, not installed.
SLURM = os.environ.get("ADAPTDL_TEST_SLURM", "")
CONFIG = """
ClusterName=test
SlurmctldHost=localhost
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
PluginDir={plugins}
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=10
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1
SlurmctldParameters=preempt_send_user_signal
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=n[1-2] Default=YES PriorityTier=1 GraceTime=30
PartitionName=high Nodes=n[1-2] PriorityTier=10 PreemptMode=OFF
"""
NODE = "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2\n"


class Slurm:
    """A cluster, while it is entered. `environment`: what its commands need."""

    def __init__(self, folder):
        self.folder, self.path, self.servers = folder, folder.file("slurm"), []
        os.makedirs(os.path.join(self.path, "state"))
        os.chmod(self.path, 0o755)
        libraries = f"{SLURM}/usr/lib/{os.uname().machine}-linux-gnu"
        plugins = f"{libraries}/slurm-wlm"
        controller, *nodes = free_ports(3)
        config = self.write("slurm.conf", CONFIG.format(
            user=getpass.getuser(), folder=self.path, plugins=plugins, port=controller) + "".join(
                NODE.format(name=f"n{i}", port=port) for i, port in enumerate(nodes, 1)))
        self.environment = {"LD_LIBRARY_PATH": f"{libraries}:{plugins}", "SLURM_CONF": config,
                            "PATH": f"{SLURM}/usr/bin:{os.environ['PATH']}"}
        key = self.write("munge.key", os.urandom(256).hex())
        os.chmod(key, 0o400)
        # --force: others may not enter the folder.
        self.start("munged", "--foreground", "--force", "--key-file", key, *(
            word for name in ("socket", "pid-file", "log-file", "seed-file")
            for word in (f"--{name}", os.path.join(self.path, f"munge.{name[:4]}"))))
        self.start("slurmctld", "-D", "-f", config)
        for i in range(1, 3):
            self.start("slurmd", "-D", "-f", config, "-N", f"n{i}",
                       "-d", self.program("slurmstepd"))
        wait_until(lambda: self.call("sinfo", "--noheader", "--format=%D %T") == "2 idle\n",
                   "two idle nodes", tell=self.logs)

    def write(self, name, text):
        return self.folder.write(f"slurm/{name}", text)

    def program(self, name):
        found = [path for path in (f"{SLURM}/usr/sbin/{name}-wlm", f"{SLURM}/usr/sbin/{name}")
                 if os.path.exists(path)]
        check(found, f"no {name} below {SLURM}")
        return found[0]

    def start(self, name, *words):
        with open(os.path.join(self.path, "servers.log"), "ab") as log:
            self.servers.append(self.folder.start([self.program(name), *words], self.environment,
                                                  stderr=log))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for server in reversed(self.servers):
            end(server)

    def logs(self):
        return "\n".join(read(os.path.join(self.path, name))
                         for name in sorted(os.listdir(self.path)) if name.endswith(".log"))

    def command(self, words, code=None):
        return run_command(words, code, env=self.folder.environment | self.environment,
                           cwd=self.folder.path)

    def call(self, *words):
        """What a command of Slurm prints; "" if it fails."""
        done = self.command(words)
        return done.stdout if done.returncode == 0 else ""

    def must(self, *words):
        return self.command(words, 0).stdout

    def state(self, job):
        """Such as RUNNING; "" for a job that has ended."""
        return self.call("squeue", "--noheader", "--format=%T", "--jobs", job).strip()
