"""Commands about jobs on a real API server and a real node: run.py starts both.

Usage: commands.py ADAPTDL [TEST...], with ADAPTDL_TEST_KUBECONFIG and ADAPTDL_TEST_IMAGE.
Tests run one after another, each in its own namespace, against one operator.
"""

import filecmp
import json
import os
import pty
import signal
import subprocess
import sys
import time

from support import PATIENCE, check, read, run_command, wait_until, write
from world import IMAGE, run_tests

LS_LIMIT_S = 0.05


class User:
    """A user at a terminal with only adaptdl and a kubeconfig."""

    def __init__(self, world):
        self.world = world
        self.environment = {"HOME": world.folder, "PATH": "/nowhere", "LC_ALL": "C.UTF-8",
                            "XDG_STATE_HOME": world.folder, "KUBECONFIG": world.kubeconfig,
                            "ADAPTDL_CLUSTER": "kubernetes"}

    def words(self, *words):
        name = 2 if words[0] == "tensorboard" else 1  # number of words in the command's name
        return [self.world.adaptdl, *words[:name], "--namespace", self.world.space, *words[name:]]

    def start(self, *words):
        return self.world.processes.start(self.words(*words), env=self.environment, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *words, code=0, **environment):
        """The output: of a failing command, on standard error."""
        done = run_command(self.words(*words), code, env=self.environment | environment)
        return done.stdout if code == 0 else done.stderr

    def said(self, *words):
        """The standard error of a command that succeeds."""
        return run_command(self.words(*words), 0, env=self.environment).stderr

    def record(self, *words):
        return json.loads(self.run(*words, "-o", "json"))


def lists(world, user):
    """ls, describe, explain and events show the cluster's state."""
    check("no jobs in namespace" in user.said("ls"), "nothing is there")
    name = world.submit("good", "echo hello; sleep 2", maxReplicas=2)
    watch = user.start("ls", "-w")
    check(user.run("wait", "good", "--timeout", "60") == "", "it succeeds")
    rows = user.run("ls").splitlines()
    check(rows[0].split()[:4] == ["NAME", "KIND", "STATUS", "REPLICAS"] and
          rows[1].split()[:3] == [name, "job", "Succeeded"], "the table", rows)
    row = user.run("ls", "-A").splitlines()[1].split()
    check(row[:2] == [world.space, name], "the row of all namespaces'", row)
    check("with these labels" in user.said("ls", "-l", "team in (a, b),!c"), "no such labels")
    job, = user.record("ls")["jobs"]
    check(job["phase"] == "Succeeded" and job["namespace"] == world.space and job["ended"],
          "the record", job)
    text = user.run("describe", name)
    for part in ("Succeeded", "Conditions:", "Complete", "Pods:", "Events:", "Starting", IMAGE):
        check(part in text, f"describe says {part}", text)
    record = user.record("describe", name)
    check(record["pods"][0]["phase"] == "Succeeded" and record["spec"]["maxReplicas"] == 2,
          "its record", record)

    def kinds():
        return [event["kind"] for event in user.record("events", name)["events"]]
    # It is written after the status.
    wait_until(lambda: "Succeeded" in kinds(), "its end is an event", tell=kinds)
    check("Starting" in kinds()[:kinds().index("Succeeded")], "events", kinds())
    check(user.run("explain", name).startswith("good has 0 replicas: it has ended"), "explain")
    check("job god not found in namespace" in user.run("describe", "god", code=102),
          "a typing error")
    check(user.run("wait", "god", code=102), "nothing to wait for")
    wait_until(lambda: len(world.api.get(world.jobs())["items"]) == 1, "the job stays")
    seen = []
    while seen[-1:] != ["Succeeded"]:  # it may be behind
        line = watch.stdout.readline()
        check(line, "ls -w has ended", seen)
        seen += [line.split()[2]] if line.startswith(name) else []
    watch.terminate()
    # Where it began late, the job ran already.
    check(seen[0] in ("Pending", "Starting", "Running"), "what -w saw", seen)
    check(user.run("delete", name) == "good: deleted\n", "delete")
    check(world.api.get(world.jobs(name)) is None, "it is gone")


def changes(world, user):
    """suspend, resume, scale, cancel and delete; logs -f continues through all of them."""
    name = world.submit("life", maxReplicas=1)
    user.run("wait", name, "--for", "running", "--timeout", "60")
    logs = user.start("logs", "-f", name)
    printed = [logs.stdout.readline()]  # the pod goes with its log
    user.run("suspend", name)
    user.run("wait", name, "--for", "suspended", "--timeout", "60")
    check("Suspended" in user.run("ls"), "ls", user.run("ls"))
    user.run("resume", name)
    user.run("wait", name, "--for", "running", "--timeout", "60")
    printed.append(logs.stdout.readline())
    check(user.run("scale", name, "0:2").startswith("life: 0 to 2 replicas"), "scale")
    check(world.api.get(world.jobs(name))["spec"]["maxReplicas"] == 2, "it is scaled")
    check("has not ended" in user.run("delete", name, code=1), "a live job is kept")
    user.run("cancel", name)
    check("by `adaptdl cancel`" in user.run("wait", name, "--timeout", "60", code=103), "cancelled")
    output, errors = logs.communicate(timeout=PATIENCE)
    starts = [line for line in [*printed, *output.splitlines()]
              if line.startswith("[replica 0] start")]
    check(logs.returncode == 0 and len(starts) == 2, "the logs of both starts, then the end",
          printed, output, errors)
    check("Cancelled" in user.run("ls") and user.record("ls")["jobs"][0]["cancelled"], "ls")
    wait_until(lambda: not world.pods(name), "its pods go")
    user.run("delete", name)


def troubles(world, user):
    """ls and describe report what keeps a job from starting."""
    name = world.submit("imageless", image="localhost/no-such-image:1")
    row = wait_until(lambda: [line for line in user.run("ls").splitlines()
                              if "ImagePull" in line], "ls says why")
    check("Starting (" in row[0], "the row", row)
    check("no-such-image" in user.run("describe", name), "which image")
    user.run("delete", "--force", name)
    wait_until(lambda: not world.pods(name), "its pods go")


def follows(world, user):
    """logs of all replicas, to the last line, and before there are any."""
    script = "for i in 1 2 3; do echo line $i; sleep 0.3; done; printf last"
    name = world.submit("prints", script, minReplicas=2, maxReplicas=2)
    output = user.run("logs", "-f", name)
    for rank in (0, 1):
        lines = [line.split("] ", 1)[1] for line in output.splitlines()
                 if line.startswith(f"[replica {rank}]")]
        check(lines == ["line 1", "line 2", "line 3", "last"], f"all of replica {rank}", output)
    check(user.run("logs", name, "--replica", "1", "--tail", "1") == "last\n", "the tail")
    check(sorted(user.run("logs", name).splitlines()) == sorted(output.splitlines()), "afterwards")


def elsewhere(world, user):
    """The choice of the cluster, and the message without one."""
    check("is unreachable" in user.run("ls", code=1, KUBECONFIG=dead_kubeconfig(world)),
          "a cluster that is away")
    check("--cluster local" in user.run("ls", code=1, KUBECONFIG=dead_kubeconfig(world)),
          "the way out")
    known = run_command([world.adaptdl, "cluster", "list", "-o", "json"], 0, env=user.environment)
    context, = [c for c in json.loads(known.stdout)["clusters"] if c["kind"] == "kubernetes"]
    check(context["chosen"] and context["current"], "the current context", context)
    check(user.run("ls", "--context", context["name"]) == "", "a context by its name")
    check("context nowhere not found" in user.run("ls", "--context", "nowhere", code=1),
          "a context that is not there")
    trace = user.said("ls", "-v")
    check("GET" in trace and "adaptdljobs" in trace, "requests are told", trace)


def dead_kubeconfig(world):
    return write(os.path.join(world.folder, "dead"), json.dumps(
        {"current-context": "dead", "contexts": [{"name": "dead", "context": {"cluster": "dead"}}],
         "clusters": [{"name": "dead", "cluster": {"server": "http://127.0.0.1:1"}}]}))


def quick(world, user):
    """ls takes no longer than 50 ms over loopback, beyond what a start of the program takes."""
    for number in range(10):
        world.submit(f"job-{number}", maxReplicas=1, suspend=True)
    took, starts = [], []
    for _ in range(20):
        begun = time.monotonic()
        user.run("ls")
        listed = time.monotonic()
        run_command([world.adaptdl, "--version"], 0, env=user.environment)
        took.append(listed - begun)
        starts.append(time.monotonic() - listed)
    took.sort()
    print(f"ls of 10 jobs: {took[0] * 1e3:.0f} to {took[-1] * 1e3:.0f} ms, "
          f"half within {took[10] * 1e3:.0f}; --version: {min(starts) * 1e3:.0f} ms", flush=True)
    check(took[0] - min(starts) < LS_LIMIT_S, "the quickest", took, starts)


def give_volume(world, name):
    """A volume of the storage class `name`, in the world's folder."""
    world.api.create("/api/v1/persistentvolumes", {
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
                 "storageClassName": name, "persistentVolumeReclaimPolicy": "Retain",
                 "hostPath": {"path": os.path.join(world.folder, "volume-" + name),
                              "type": "DirectoryOrCreate"}}})


def claims_of(world):
    return world.api.get(f"/api/v1/namespaces/{world.space}/persistentvolumeclaims")["items"]


def submits(world, user):
    """submit of an existing image: the job gets its own volume, which is deleted with it."""
    give_volume(world, "commands")
    words = ["submit", "--image", IMAGE, "-n", "short", "--replicas", "1",
             "--checkpoint-storage-class", "commands"]
    script = ["--", "sh", "-c", "echo $ADAPTDL_CHECKPOINT_PATH > $ADAPTDL_SHARE_PATH/told"]
    planned = json.loads(user.run(*words, "--dry-run", "-o", "json", *script))
    check(planned["metadata"]["generateName"] == "short-" and
          planned["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE, "the plan",
          planned)
    check(not world.api.get(world.jobs())["items"], "a dry run changes nothing")
    try:
        begun = time.monotonic()
        name = user.run(*words, *script).strip()
        wait_until(lambda: world.pods(name), "its pod")
        print(f"from submit to the first pod: {time.monotonic() - begun:.2f} s", flush=True)
        user.run("wait", name, "--timeout", "60")
        claim, = claims_of(world)
        owner, = claim["metadata"]["ownerReferences"]
        check(owner["name"] == name and owner["kind"] == "AdaptDLJob", "whose claim", owner)
        told = read(os.path.join(world.folder, "volume-commands/adaptdl/share/told"))
        check(told == "/adaptdl/checkpoint\n", "what the job was told", told)
        user.run("delete", name)
        wait_until(lambda: not claims_of(world), "the claim goes with the job")
    finally:
        world.api.request("DELETE", "/api/v1/persistentvolumes/commands")


def older_definition(world, user):
    """A cluster whose definition of jobs lacks the field is told so, and keeps neither the job nor
    its volume."""
    path = ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
            "adaptdljobs.adaptdl.petuum.com")
    field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/accelerators"
    schema = world.api.get(path)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known = schema["properties"]["spec"]["properties"]["accelerators"]

    def change(**operation):
        status, answer = world.api.request("PATCH", path, [{"path": field} | operation],
                                           "application/json-patch+json")
        check(status == 200, "the definition", answer)

    def keeps():
        world.api.request("DELETE", world.jobs("probe"))
        wait_until(lambda: not world.api.get(world.jobs("probe")), "the probe is gone")
        world.submit("probe", accelerators=["none"], suspend=True)
        return "accelerators" in world.api.get(world.jobs("probe"))["spec"]
    change(op="remove")
    try:
        wait_until(lambda: not keeps(), "the API server drops the field", every=1)
        said = user.run("submit", "--image", IMAGE, "-n", "picky", "--accelerators", "*A100*", "--",
                        "true", code=1)
        check("no spec.accelerators; run `adaptdl upgrade`" in said, "it is told", said)
        jobs = [job["metadata"]["name"] for job in world.api.get(world.jobs())["items"]]
        check(jobs == ["probe"], "the job is there", jobs)
        wait_until(lambda: not claims_of(world), "no volume")
    finally:
        change(op="add", value=known)
        wait_until(keeps, "the API server keeps the field", every=1)


def executes(world, user):
    """exec: outputs, input, exit codes, replicas, a terminal."""
    name = world.submit("beside", minReplicas=2, maxReplicas=2)
    user.run("wait", name, "--for", "running", "--timeout", "60")
    script = "echo out $ADAPTDL_REPLICA_RANK; echo err >&2; exit 3"
    done = execute(user, name, "--", "sh", "-c", script)
    check((done.returncode, done.stdout, done.stderr) == (3, b"out 0\n", b"err\n"), "replica 0",
          done)
    done = execute(user, name, "--replica", "1", "--", "sh", "-c", script)
    check(done.stdout == b"out 1\n", "replica 1", done)
    data = os.urandom(3 << 20)
    done = execute(user, name, "--", "cat", given=data)
    check(done.returncode == 0 and done.stdout == data, "input comes back", done.stderr)
    done = execute(user, name, "--", "no-such-program")
    check(done.returncode == 127 and b"no-such-program" in done.stderr, "no program", done)
    check("has no running replica 7" in user.run("exec", name, "--replica", "7", "--", "true",
                                                   code=1),
          "no replica")
    outer, inner = pty.openpty()
    process = world.processes.start(
        user.words("exec", name, "--", "sh", "-c", "tty; stty size; read x; echo =$x="),
        env=user.environment, stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    os.write(outer, b"typed\r")
    said = b""
    try:
        while b"=typed=" not in said:
            said += os.read(outer, 1000)
    except OSError:  # the other end is closed
        pass
    check(process.wait(PATIENCE) == 0 and b"/dev/" in said and b"=typed=" in said, "a terminal",
          said)
    os.close(outer)
    user.run("cancel", name)
    user.run("wait", name, "--timeout", "60", code=103)
    check("has no running replica" in user.run("exec", name, "--", "true", code=1), "ended")


def execute(user, *words, given=b""):
    return run_command(user.words("exec", *words), text=False, env=user.environment, input=given)


def copies(world, user):
    """cp both ways, during the job and after its end; the copy pod is always deleted."""
    give_volume(world, "copies")
    here = os.path.join(world.folder, "here")
    write(os.path.join(here, "folder/deep/data"), os.urandom(5 << 20))
    os.chmod(os.path.join(here, "folder/deep/data"), 0o640)
    os.utime(os.path.join(here, "folder/deep/data"), (1000, 1000))
    os.symlink("deep/data", os.path.join(here, "folder/link"))
    os.symlink("/etc/passwd", os.path.join(here, "folder/out"))
    script = ("trap 'exit 143' TERM; echo model > $ADAPTDL_SHARE_PATH/model; "
              "ln -s /etc/passwd $ADAPTDL_SHARE_PATH/passwd; "
              "until test -e $ADAPTDL_SHARE_PATH/end; do sleep 0.01; done")
    try:
        name = user.run("submit", "--image", IMAGE, "-n", "files", "--replicas", "1",
                        "--checkpoint-storage-class", "copies", "--", "sh", "-c", script).strip()
        user.run("wait", name, "--for", "running", "--timeout", "60")
        brings_back(world, user, name, here, "running")
        # Its program ends at the first bytes of this.
        user.run("cp", os.path.join(here, "folder/deep/data"), f"{name}:/share/end")
        user.run("wait", name, "--timeout", "60")
        wait_until(lambda: "Running" not in world.pods(name).values(), "its pods end")
        user.run("cp", f"{name}:/share/end", here)
        check(filecmp.cmp(os.path.join(here, "end"), os.path.join(here, "folder/deep/data"), False),
              "what was copied as it ended is whole")
        brings_back(world, user, name, here, "ended")
        wait_until(lambda: not copiers(world), "no pod is left")
        check("Cannot stat" in (told := user.run("cp", f"{name}:/share/none", here, code=1)) or
              "No such file" in told, "what is missing is named", told)
        check("/adaptdl/share" in user.run("cp", f"{name}:/etc/passwd", here, code=1), "elsewhere")
        wait_until(lambda: not copiers(world), "no pod is left")
        process = user.start("cp", f"{name}:/", os.path.join(here, "never"))
        wait_until(lambda: copiers(world), "its pod is made", every=0.01)
        process.send_signal(signal.SIGINT)
        check(process.wait(PATIENCE) == 130, "Ctrl-C", process.communicate())
        wait_until(lambda: not copiers(world), "its pod goes")
        user.run("delete", name)
    finally:
        world.api.request("DELETE", "/api/v1/persistentvolumes/copies")


def brings_back(world, user, name, here, when):
    """A folder is copied to the job's storage and back unchanged; a single file too."""
    target, back = f"{name}:/adaptdl/share/{when}", os.path.join(here, when)
    counts = json.loads(user.run("cp", os.path.join(here, "folder"), target, "-o", "json"))
    check(counts["files"] == 2 and counts["bytes"] == 5 << 20 and len(counts["skipped"]) == 1,
          "what went there", counts)
    user.run("cp", target, back)
    data = os.path.join(back, "deep/data")
    check(filecmp.cmp(data, os.path.join(here, "folder/deep/data"), False), "the same bytes")
    status = os.stat(data)
    check(status.st_mode & 0o7777 == 0o640 and status.st_mtime == 1000, "mode and time", status)
    check(os.readlink(os.path.join(back, "link")) == "deep/data", "the link")
    os.mkdir(os.path.join(here, when + "-all"))
    counts = json.loads(user.run("cp", f"{name}:/", os.path.join(here, when + "-all"), "-o",
                                 "json"))
    check(counts["skipped"] == ["share/passwd: leads to /etc/passwd, outside of what is copied"],
          "all of it", counts)
    user.run("cp", f"{name}:/share/model", here)
    check(read(os.path.join(here, "model")) == "model\n", "one file")


def copiers(world):
    found = world.api.get(f"/api/v1/namespaces/{world.space}/pods?labelSelector=adaptdl%2Fcli-copy")
    return [pod["metadata"]["name"] for pod in found["items"]]


if __name__ == "__main__":
    sys.exit(run_tests(
        [lists, changes, troubles, follows, elsewhere, quick, submits, older_definition,
         executes, copies],
        given=lambda world: (world, User(world))))
