"""`adaptdl run --hosts`: one command trains on several hosts, which it reaches over ssh. Each has a
network namespace, an OpenSSH server and a home of its own, and nothing of ours at first."""

import os
import shutil
import signal
import zipfile

from support import SSHD, Network, SshSite, carriers, check, kill, main, skip_all, wait_until

NEVER = ("--set", "epochs=1000000")
DATA = tuple(f"--set=data.{part}=[{{format: synthetic, samples: 960, shape: [16], seed: 1}}, "
             "{format: synthetic, samples: 960, classes: 4, seed: 2}]"
             for part in ("train", "validation"))
REMOTE = "ADAPTDL_TEST_REMOTE"  # marks what runs on a host


class Site:
    """Hosts of a network; host 0 leads."""

    def __init__(self, folder, hosts):
        self.folder, self.network = folder, Network(folder, hosts)
        self.ssh = SshSite(folder, self.network)
        self.servers = {}
        for host in list(self.network.hosts)[1:]:
            self.serve(host)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.network.__exit__(*error)

    def serve(self, host, **options):
        self.servers[host] = self.ssh.serve(
            host, XDG_RUNTIME_DIR=self.ssh.home(host), **{REMOTE: self.mark(host)},
            **{name: value for name, value in self.folder.environment.items()
               if name.startswith(("ADAPTDL_TEST", "LD_PRELOAD"))}, **options)

    def mark(self, host):
        return f"{self.folder.path}-{host}"

    def there(self, host):
        """What runs on the host."""
        return carriers(REMOTE, self.mark(host))

    def wait_nothing_runs(self):
        wait_until(lambda: not self.there(1) and not self.there(2), "the end on all hosts")

    def copied(self, host):
        folder = os.path.join(self.ssh.home(host), ".cache", "adaptdl", "hosts")
        return [os.path.join(folder, name, "adaptdl") for name in
                (os.listdir(folder) if os.path.exists(folder) else ())]

    def hosts(self, *replicas):
        return ",".join(f"{self.network.address(host)}:{count}"
                        for host, count in enumerate(replicas) if count)

    def run(self, hosts, *arguments, program=None):
        return self.folder.run(program or self.folder.program("slow"), "--hosts", hosts, *arguments,
                               before=self.network.on(0), ADAPTDL_SSH=self.ssh.client)


def trains(folder, draw):
    """All hosts train, as many replicas as each is to have; the binary goes where it is not; at the
    end nothing runs anywhere."""
    with Site(folder, 3) as site:
        run = site.run(site.hosts(1, 2, 1), "--set", "epochs=5")
        check(run.wait_event("generation")["to"] == 4, "not all replicas start together")
        for host in (1, 2):
            run.says(f"{site.network.address(host)}: copying adaptdl to it")
            check(len(site.copied(host)) == 1, "the binary is not in the host's cache")
        run.expect_end(0)
        run.check_steps(last=200)
        site.wait_nothing_runs()
        check("does not take part" not in run.said() and "trying again" not in run.said(),
              "takes the end for a failure", run.said())
        again = site.run(site.hosts(1, 2, 1), "--fresh", *NEVER)
        check(again.wait_event("generation")["to"] == 4, "not all replicas start together")
        check("copying" not in again.said(), "copies what is there")
        again.wait_steps_more(3)
        again.signal(signal.SIGINT)  # Ctrl-C
        again.expect_end(130)
        check(again.end_event()["checkpoint"], "no checkpoint was written")
        site.wait_nothing_runs()


def copies(folder, draw):
    """The program goes where it is not, and again after it has changed."""
    with Site(folder, 2) as site:
        hidden = folder.file("only-here")
        os.mkdir(hidden)
        program = shutil.copy(os.path.realpath(folder.program("slow")), hidden)
        site.servers[1].terminate()
        site.servers[1].wait()
        site.serve(1, hide=hidden)
        run = site.run(site.hosts(1, 1), "--set", "epochs=2", *DATA, program=program)
        run.says(f"{site.network.address(1)}: copying {program} to it")
        run.says("this host does not share the launcher's checkpoint folder")
        run.expect_end(0)
        check(run.of("generation")[0]["to"] == 2, "not all replicas start together")
        run.check_steps()
        with zipfile.ZipFile(program, "a") as archive:
            archive.comment = b"changed"
        again = site.run(site.hosts(1, 1), "--set", "epochs=1", "--fresh", *DATA, program=program)
        again.says(f"{site.network.address(1)}: copying {program} to it")
        again.expect_end(0)


def comes_again(folder, draw):
    """A host that loses its connection leaves, and is brought back; the launcher's death ends
    everything everywhere."""
    with Site(folder, 3) as site:
        run = site.run(site.hosts(1, 1, 1), *NEVER)
        run.wait_replicas(3)
        run.wait_steps_more(3)
        seen = run.count()
        for pid in site.there(1):
            kill(pid)
        run.wait_replicas(2, after=seen)
        run.says(f"{site.network.address(1)}: was killed, or the connection is lost; trying again")
        run.wait_replicas(3, after=seen)
        run.wait_steps_more(3)
        kill(run.process.pid)
        site.wait_nothing_runs()


def refused(folder, draw):
    """Hosts that cannot be reached, or cannot run it, are named; --nnodes says how many must."""
    with Site(folder, 3) as site:
        site.servers[2].terminate()
        site.servers[2].wait()
        run = site.run(site.hosts(1, 1, 1), *NEVER)
        check(run.end() == 1, "a run without a host it needs")
        run.says(f"{site.network.address(2)}: ssh: ")
        run.says(f"`{site.ssh.client} {site.network.address(2)} true` must work without a "
                  "question")
        run.says("2 of at least 3 hosts are ready; --nnodes MIN:MAX starts with fewer")

        run = site.run(site.hosts(1, 1, 1), "--nnodes", "2:3", *NEVER)
        run.wait_replicas(2)
        site.serve(2)
        run.wait_replicas(3)
        run.request(request="cancel")
        run.expect_end(143)

        folder.environment["ADAPTDL_WORKER"] = folder.write("home-0/worker")
        os.chmod(folder.file("home-0/worker"), 0o755)
        site.servers[1].terminate()
        site.servers[1].wait()
        site.serve(1, hide=folder.file("home-0"))
        run = site.run(site.hosts(1, 1), *NEVER)
        check(run.end() == 1, "a run whose other host cannot take part")
        run.says(f"{site.network.address(1)}: does not take part in the run (exit code 1)")


if not SSHD:
    skip_all("ADAPTDL_TEST_SSHD names no folder with OpenSSH's server")
main(trains, copies, comes_again, refused)
