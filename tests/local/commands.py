"""Jobs managed by commands only, as users do: `submit` starts the service."""

import concurrent.futures
import contextlib
import json
import os
import signal
import statistics
import subprocess
import time

from support import PATIENCE, Service, check, main, read


class Cluster(Service):
    """A local cluster without a service until a command starts one."""

    def run(self, *arguments, code=0):
        """Runs a command; returns its standard output."""
        got, out, err = self.command(*arguments)
        check(got == code, f"{arguments}: exit code {got}, not {code}", out, err)
        return out

    def submit(self, *arguments):
        return self.run("submit", *arguments).strip()

    def record(self, *arguments):
        return json.loads(self.run(*arguments, "-o", "json"))


@contextlib.contextmanager
def cluster(folder):
    made = Cluster(folder)
    # Two slots on any machine.
    folder.write(".config/adaptdl/config.yaml", "local:\n  slots: 2\n")
    try:
        yield made
    finally:
        if made.answers():
            made.end_jobs()
            made.run("serve", "--stop")


def first_submit(folder, random):
    """It starts the service, reports that, and prints only the name on standard output."""
    with cluster(folder) as local:
        check("--no-start" in local.command("submit", "--no-start", "--", "true")[2], "not refused")
        code, out, err = local.command("submit", "--", "/bin/sh", "-c", "echo here; pwd")
        check(code == 0 and len(out.split()) == 1, "the name alone", out, err)
        check("Started the adaptdl service" in err, "it says so", err)
        name = out.strip()
        check(name.startswith("sh-"), "the name", name)
        local.run("wait", name)
        check(local.run("logs", name) == f"[replica 0] here\n[replica 0] {folder.path}\n",
              "its logs", local.run("logs", name))
        (job,) = local.record("ls")["jobs"]
        check(job["name"] == name and job["phase"] == "Succeeded" and job["exit_code"] == 0, "ls",
              job)
        for format, wanted in (("yaml", "name: " + name), ("name", name),
                               ("jsonpath={.jobs[?(@.phase=='Succeeded')].name}", name)):
            check(wanted in local.run("ls", "-o", format), format, local.run("ls", "-o", format))
        check(local.run("describe", name, "-o", "jsonpath={.exit_code}") == "0", "jsonpath")
        local.run("ls", "-o", "jsonpath={.jobs", code=2)
        check("Succeeded" in local.run("describe", name), "describe")
        check("Submitted" in local.run("events", name), "events")


def two_at_once(folder, random):
    """Concurrent submits without a service: one starts it, all succeed."""
    with cluster(folder) as local:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            names = list(pool.map(lambda _: local.submit("--", "true"), range(6)))
        check(len(set(names)) == 6, "six jobs", names)
        local.run("wait", *names)


def outcomes(folder, random):
    """The exit code reports how a job ended."""
    with cluster(folder) as local:
        go = folder.file("go")
        code, out, err = local.command("submit", "--follow", "--", "sh", "-c",
                                       "echo one; printf two")
        check(code == 0 and "two" in out, "follow", code, out, err)
        folder.write("project/adaptdljob.yaml", "command: ['true']\nresources: {cpu: 1000}\n")
        code, out, err = local.command("submit", "project")
        check(code == 0 and "cannot fit" in err, "it is told that it cannot run", err)
        local.run("cancel", "--now", out.strip(), code=2)
        local.run("delete", "--force", out.strip())
        left = folder.start(
            [folder.binary, "submit", "--wait", "--", "sh", "-c",
             f"until test -e {go}; do sleep 0.02; done"],
            local.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        name = left.stdout.readline().strip()
        local.run("wait", name, "--for", "running")
        left.send_signal(signal.SIGINT)
        out, err = left.communicate(timeout=PATIENCE)
        check(left.returncode == 101 and "keeps running" in err, "left", left.returncode, err)
        local.run("wait", name, "--timeout", "200ms", code=124)
        folder.write("go")
        local.run("wait", name)
        endless = local.submit("--", "sleep", "1000")
        local.run("wait", endless, "--for", "running")
        local.run("delete", endless, code=1)
        local.run("cancel", endless)
        local.run("wait", endless, code=103)
        local.run("wait", "nothing", code=102)


def projects(folder, random):
    """A folder is copied: later changes do not affect the job."""
    with cluster(folder) as local:
        folder.write("project/adaptdljob.yaml", "command: [sh, run.sh]\nargs: [first]\n"
                     "env: {COLOUR: blue}\ntensorboard: curves\n")
        folder.write("project/run.sh", f"until test -e {folder.file('go')}; do sleep 0.02; done; "
                     ". ./part.sh; echo $COLOUR $*; echo result > $ADAPTDL_SHARE_PATH/result\n")
        folder.write("project/part.sh", "echo old\n")
        name = local.submit("project", "--name", "copied")
        other = local.submit("project", "--", "second")
        check(name.startswith("copied-"), "the name", name)
        folder.write("project/part.sh", "echo new\n")
        folder.write("go")
        local.run("wait", name, other)
        check(local.run("logs", name, "--replica", "0") == "old\nblue first\n", "what it ran",
              local.run("logs", name))
        check("second" in local.run("logs", other), "arguments", local.run("logs", other))
        local.run("cp", f"{name}:/share/result", "fetched")
        check(read(folder.file("fetched")) == "result\n", "what it wrote")
        local.run("cp", "fetched", f"{name}:/share/given")
        check(local.run("exec", name, "--", "sh", "-c", "cat part.sh; echo $COLOUR; "
                        "ls $ADAPTDL_SHARE_PATH") == "echo old\nblue\ngiven\nresult\n", "exec")
        local.run("exec", name, "--", "sh", "-c", "exit 7", code=7)
        check("curves  2" in local.run("tensorboard", "list"), "tensorboard",
              local.run("tensorboard", "list"))
        local.run("delete", "--all-ended")
        check(not local.record("ls")["jobs"], "not deleted")
        check(os.listdir(os.path.join(local.state, "jobs")) == [], "folders left",
              os.listdir(os.path.join(local.state, "jobs")))


def storage_paths(folder, random):
    """The absolute paths of the storage in pods name the same files of a job of this machine."""
    with cluster(folder) as local:
        folder.write("project/adaptdljob.yaml", "command: [sh, run.sh]\n")
        folder.write("project/run.sh", "mkdir -p $ADAPTDL_SHARE_PATH/deep\n"
                     "echo shared > $ADAPTDL_SHARE_PATH/deep/result\n"
                     "echo saved > $ADAPTDL_CHECKPOINT_PATH/epoch-1\n"
                     "ln -s /etc/passwd $ADAPTDL_SHARE_PATH/away\n")
        name = local.submit("project")
        local.run("wait", name)
        local.run("cp", f"{name}:/adaptdl/share/deep/result", "result")
        local.run("cp", f"{name}:/adaptdl/checkpoint/epoch-1", "epoch")
        check(read(folder.file("result")) == "shared\n", "share")
        check(read(folder.file("epoch")) == "saved\n", "checkpoint")
        folder.write("all/here")
        for _ in range(2):  # the second copy replaces the first
            local.run("cp", f"{name}:/adaptdl/checkpoint", "all")
        check(sorted(os.listdir(folder.file("all"))) == ["checkpoint", "here"], "the folder's name",
              os.listdir(folder.file("all")))
        check(os.listdir(folder.file("all/checkpoint")) == ["epoch-1"], "the folder")
        local.run("cp", "epoch", f"{name}:/adaptdl/share/")
        check(local.run("exec", name, "--", "sh", "-c", "cat $ADAPTDL_SHARE_PATH/epoch") ==
              "saved\n", "copied to the job")
        local.run("cp", f"{name}:/adaptdl/share/../../job.json", "job.json", code=2)
        local.run("cp", f"{name}:/adaptdl/share/away", "passwd", code=1)
        local.run("cp", f"{name}:/adaptdl/project/run.sh", "run.sh", code=1)
        for file in ("job.json", "passwd", "run.sh"):
            check(not os.path.exists(folder.file(file)), f"{file} was copied")


def logs_follow(folder, random):
    """`logs -f` continues across restarts to the job's end."""
    with cluster(folder) as local:
        count = folder.file("count")
        script = f"echo x >> {count}; echo start $(wc -l < {count}); test $(wc -l < {count}) -ge 2"
        name = local.submit("--", "sh", "-c", script)
        out = local.run("logs", "-f", name)
        check("start 1" in out and "start 2" in out, "both starts", out)


def changes(folder, random):
    """suspend, resume, scale, policy and explain on a running job."""
    with cluster(folder) as local:
        name = local.submit("--", "sh", "-c", "trap 'exit 143' TERM; while :; do sleep 0.02; done")
        local.run("wait", name, "--for", "running")
        local.run("suspend", name)
        local.run("wait", name, "--for", "suspended", "--timeout", "60")
        check("suspended" in local.run("explain", name), "explain", local.run("explain", name))
        local.run("resume", name)
        local.run("wait", name, "--for", "running", "--timeout", "60")
        local.run("scale", name, "1:2")
        check(local.record("describe", name)["max_replicas"] == 2, "scale")
        local.run("policy", "set", "pollux")
        check(local.record("policy", "show")["policy"] == "pollux", "policy")
        check("policy pollux" in local.run("top"), "top", local.run("top"))
        check(local.run("__complete", "jobs", name[:3]).split() == [name], "completion")
        local.run("delete", "--force", name)
        check(name not in local.run("ls", "-q"), "deleted")


def quick(folder, random):
    """Submitting a command is fast, beyond what a start of the program takes here."""
    with cluster(folder) as local:
        names, times, starts = [local.submit("--", "true")], [], []
        for _ in range(20):
            begun = time.monotonic()
            names.append(local.submit("--", "/bin/true"))
            submitted = time.monotonic()
            local.run("--version")
            times.append(submitted - begun)
            starts.append(time.monotonic() - submitted)
        local.run("wait", *names)
        median, start = statistics.median(times), statistics.median(starts)
        print(f"submit: {median * 1000:.1f} ms in the median, --version: {start * 1000:.1f} ms")
        check(median - start < 0.5, "slow even for a machine with much else to do", times, starts)


def after_logout(folder, random):
    """A login session's folder is removed with it; other sessions still reach the service."""
    with cluster(folder) as local:
        del local.environment["ADAPTDL_LOCAL_STATE"]
        local.state = os.path.join(local.environment["XDG_STATE_HOME"], "adaptdl", "local")
        name = local.submit("--", "/bin/sh", "-c", "exit 0")
        os.rename(local.environment["XDG_RUNTIME_DIR"], folder.file("unmounted"))
        local.environment["XDG_RUNTIME_DIR"] = folder.file("other")
        os.mkdir(local.environment["XDG_RUNTIME_DIR"], 0o700)
        local.run("wait", name)
        code, out, err = local.command("submit", "--", "/bin/sh", "-c", "exit 0")
        check(code == 0 and "Started" not in err, "it is found", err)
        # A job whose start the service's end interrupts would wait for the next service.
        local.run("wait", out.strip())
        pid = local.request("hello")["pid"]
        os.remove(local.socket_path())
        code, _, err = local.command("scale", name, "1")
        check(code == 1 and f"process {pid}" in err, "which process it is", err)
        local.run("serve", "--stop")
        check("no adaptdl service" in local.command("serve", "--stop")[2], "none runs")


main(first_submit, two_at_once, outcomes, projects, storage_paths, logs_follow, changes, quick,
     after_logout)
