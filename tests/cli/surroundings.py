"""The launcher where the surroundings are not what one hopes for: full disks, closed pipes, stopped
terminals, as process 1, after kill -9, beside another of the same name, without a home.

surroundings.py ADAPTDL FAKE_WORKER (--help has the options); the worker is real in all but Torch.
"""

import fcntl
import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import termios
import time

from support import PATIENCE, check, children_of, kill, main, run_command, skip, wait_until, write

HERE = pathlib.Path(__file__).resolve().parent
ENDLESS = 100000


def prepare(folder):
    """A program in the folder, played by the fake worker; how to start a run of it."""
    program = folder.file("train.pt")
    if not os.path.exists(program):
        subprocess.run([sys.executable, HERE / "make_archive.py", program], check=True)
        os.mkdir(folder.file("meet"))
    folder.environment["ADAPTDL_WORKER"] = folder.material
    return program


def words(folder, steps, *arguments, more=(), output="json"):
    return [folder.binary, "run", prepare(folder), "--replicas", "2", "--threads", "1", "-o",
            output,
            *arguments, "--", f"steps={steps}", "step_ms=5", "checkpoint=10",
            f"dir={folder.path}/meet", *more]


def start(folder, steps, *arguments):
    """A run whose events are followed (support.Run has its output flags itself)."""
    line = words(folder, steps, *arguments)
    return folder.run(line[2], *line[3:5], *line[line.index("json") + 1:])


def unshared(*flags):
    """The command prefix that gives namespaces of one's own."""
    prefix = ["unshare", *flags]
    if not shutil.which("unshare") or run_command([*prefix, "true"]).returncode != 0:
        skip(f"it needs the right to make namespaces: {' '.join(prefix)}")
    return prefix


def as_process_one(folder, draw):
    """As process 1 (of a container) it has its handlers, stops by signals, and reaps orphans."""
    prefix = unshared("--pid", "--fork", "--mount-proc")
    for number, code in ((None, 0), (signal.SIGTERM, 143), (signal.SIGINT, 130)):
        steps = 40 if number is None else ENDLESS
        process = folder.start(
            [*prefix, *words(folder, steps, "--name", f"one-{code}", more=["orphan=1"])],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = json.loads(process.stdout.readline())
        check(first["event"] == "start" and first["pid"] == 1, "it is not process 1", first)
        if number is not None:
            (launcher,) = children_of(process.pid)
            for line in process.stdout:
                if json.loads(line).get("step", 0) > 60:  # the orphans have ended by then
                    break
            wait_until(lambda: len(children_of(launcher)) == 2 and
                       "Z" not in children_of(launcher).values(),
                       "two replicas, and the end of all zombies",
                       tell=lambda: children_of(launcher))
            os.kill(launcher, number)
        events = [json.loads(line) for line in process.stdout]
        got, said = process.wait(PATIENCE), process.stderr.read()
        check(got == code, f"exit code {got}, not {code}", said)
        check(events[-1]["event"] == "end" and (number is None or events[-1]["checkpoint"]),
              "an odd end", events[-1])


def killed_launcher(folder, draw):
    """What kill -9 of the launcher leaves is seen through by all commands and taken over by the
    next run; nothing of it lives on, a stopped replica neither."""
    run = start(folder, ENDLESS, "--name", "gone")
    run.wait_step(30)
    pids = list(run.members().values())
    kill(pids[1], signal.SIGSTOP)
    run.process.kill()
    run.end()
    folder.check_nothing_left(PATIENCE)
    sockets = folder.file("runtime", "adaptdl", "runs")
    check(os.path.exists(os.path.join(sockets, "gone.sock")), "no socket was left: tests nothing")
    for command, wanted, sentence in (
            (["scale", "gone", "2"], 1, "run gone has ended"),
            (["cancel", "gone"], 1, "run gone has ended"),
            (["scale", "other", "2"], 102, "job or run other not found")):
        code, out, err = folder.command(*command)
        check(code == wanted and sentence in err and not out, f"{command}", code, out, err)
    code, out, err = folder.command("logs", "gone", "-f")  # which does not wait for ever
    check(code == 0 and "member 0 here" in out, "no logs", code, out, err)
    code, out, err = folder.command("ls")
    check(code == 0 and not out and "no run is live" in err, "it seems to live", code, out, err)
    check(not os.path.exists(os.path.join(sockets, "gone.sock")), "the socket is still there")
    code, out, err = folder.command("ls", "--all", "-o", "json")
    (listed,) = json.loads(out)["runs"]
    check(listed["name"] == "gone" and listed["state"] == "killed" and not listed["live"], "ls",
          listed)
    again = start(folder, ENDLESS, "--name", "gone")
    resume = again.wait_event("resume")
    check(resume["step"] >= 20, "it does not go on", resume)
    code, out, err = folder.command("ls", "-o", "json")
    (listed,) = json.loads(out)["runs"]
    check(listed["live"] and listed["state"] in ("starting", "training"), "ls", listed)
    again.process.kill()
    again.end()
    last = start(folder, ENDLESS, "--name", "gone")  # without an ls between
    last.wait_event("resume")
    code, out, err = folder.command("cancel", "gone")
    check(code == 0, "cancel", out, err)
    last.expect_end(143)
    code, out, err = folder.command("ls", "-a")
    check("cancelled" in out, "not cancelled", out)
    code, out, err = folder.command("scale", "gone", "1")
    check(code == 1 and "has ended" in err, "scale of an ended run", code, out, err)
    check(os.listdir(sockets) == ["gone.sock.lock"], "what is left", os.listdir(sockets))


def one_of_a_name(folder, draw):
    """Of several runs that want one name at the same time one trains; the others say why not. That
    is so for one folder, and where each has a folder of its own. What a killed one left is
    there."""
    for case in ("same", "apart"):
        left = start(folder, ENDLESS, "--name", case)
        left.wait_step(3)
        left.process.kill()
        left.end()
        runs = []
        for i in range(5):
            where = [] if case == "same" else ["--checkpoint-dir", f"{folder.path}/{case}-{i}"]
            runs.append(start(folder, ENDLESS, "--name", case, *where))
        wait_until(lambda: sum(run.process.poll() is not None for run in runs) == 4,
                   "the end of all but one")
        (winner,) = [run for run in runs if run.process.poll() is None]
        winner.wait_step(winner.last_step() + 20)
        for run in runs:
            if run is winner:
                continue
            run.expect_end(1)
            check("live" in run.said() and not run.of("step"), "an odd refusal")
        _, out, err = folder.command("ls", "-o", "json")
        check([r["status"]["pid"] for r in json.loads(out)["runs"]] == [winner.process.pid],
              "not the one that trains", out, err)
        winner.signal(signal.SIGTERM)
        winner.expect_end(143)


def odd_records(folder, draw):
    """Records and sockets that are damaged, foreign or not answering: sentences, not crashes."""
    prepare(folder)
    records = folder.file("state", "adaptdl", "runs")
    sockets = folder.file("runtime", "adaptdl", "runs")
    os.makedirs(records)
    os.makedirs(sockets, 0o700)
    os.chmod(os.path.dirname(sockets), 0o700)
    for name, text in (("half", '{"format": 1, "name": "ha'), ("empty", ""), ("list", "[]"),
                       ("bare", "{}"), ("odd", '{"state": 7, "step": [], "log_dir": 3}')):
        write(os.path.join(records, name + ".json"), text)
    write(os.path.join(sockets, "file.sock"), "no socket")
    code, out, err = folder.command("ls", "--all")
    check(code == 0 and "bare" in out and "odd" in out and "file" not in out, "ls", code, out, err)
    for name in ("half", "empty", "list", "bare", "odd", "file", "none"):
        for command in (["logs", name], ["cancel", name], ["scale", name, "2"]):
            code, out, err = folder.command(*command)
            wanted = 102 if "not found" in err else 1
            check(code == wanted and name in err and not out, f"{command}", code, out, err)
            check(len(err.splitlines()) == 1 and "unexpected:" not in err, f"{command}", err)
    for command in (["cancel", "../x"], ["logs", "a b"]):
        code, out, err = folder.command(*command)
        check(code == 2 and "invalid run name" in err, f"{command}", code, out, err)

    run = start(folder, ENDLESS, "--name", "still")
    run.wait_step(5)
    run.signal(signal.SIGSTOP)  # a launcher that does not answer
    begun = time.monotonic()
    code, out, err = folder.command("ls")
    check(code == 0 and "not answering" in out and time.monotonic() - begun < 30, "ls", out, err)
    code, out, err = folder.command("cancel", "still")
    check(code == 1 and "does not answer within" in err and "is it stopped?" in err, "cancel", err)
    run.signal(signal.SIGCONT)
    run.wait_steps_more(5)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    os.unlink(os.path.join(sockets, "file.sock"))

    if os.geteuid() == 0:  # of another user: there is no way in, and it is said
        os.chown(os.path.dirname(sockets), 4321, 4321)
        for command in (["ls"], ["cancel", "still"], ["run", "train.pt", "--replicas", "1"]):
            code, out, err = folder.command(*command)
            check(code == 1 and "must be a folder that you own" in err, f"{command}", code, out,
                  err)


def full_log_disk(folder, draw):
    """Replicas whose logs cannot be written train on, and it is said once."""
    logs = folder.file("full")
    os.mkdir(logs)
    for i in range(2):
        os.symlink("/dev/full", os.path.join(logs, f"replica-{i}.log"))
    run = start(folder, 60, "--name", "full", "--log-dir", logs)
    run.expect_end(0)
    run.check_steps(last=60)
    check(run.said().count("No space left on device") == 1, "not said once")


def full_state_disk(folder, draw):
    """Where neither record nor checkpoint can be written, training goes on, and it is said."""
    prefix = unshared("--mount")
    prepare(folder)
    small = folder.file("small")
    os.mkdir(small)
    script = ('mount -t tmpfs -o size=16k,mode=700 adaptdl "$0" && '
              '(cat /dev/zero > "$0/filler" 2>/dev/null; exec "$@")')
    run = run_command([*prefix, "sh", "-c", script, small,
                       *words(folder, 60, "--name", "small", "--checkpoint-dir", small)], 0,
                      env=folder.environment | {"XDG_STATE_HOME": small}, cwd=folder.path)
    events = map(json.loads, run.stdout.splitlines())
    steps = [e["step"] for e in events if e["event"] == "step"]
    check(steps == list(range(1, 61)), "not all steps", steps, run.stderr)
    check("cannot write the record of this run" in run.stderr, "not said", run.stderr)


def limited_files(folder, draw):
    """Under a limit of file sizes (ulimit -f) logs are cut off; the signal of it kills nobody."""
    run = run_command(["prlimit", "--fsize=20",
                       *words(folder, 60, "--name", "limited", output="text")], 0,
                      env=folder.environment, cwd=folder.path)
    check("finished, 60 steps" in run.stdout, "its end", run.stdout, run.stderr)
    check("File too large" in run.stderr, "not said", run.stderr)


def reader_leaves(folder, draw):
    """`adaptdl run -o json | head -1`: trains to the end all the same; the exit code says that the
    events went nowhere."""
    run = folder.start(words(folder, 60, "--name", "head"), stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True)
    check(json.loads(run.stdout.readline())["event"] == "start", "no start")
    run.stdout.close()
    check(run.wait(PATIENCE) == 1, "exit code", run.returncode, run.stderr.read())
    _, out, _ = folder.command("ls", "-a", "-o", "json")
    (listed,) = json.loads(out)["runs"]
    check(listed["state"] == "finished" and listed["status"]["steps"] == 60, "not finished", listed)
    with open("/dev/full", "w") as full:
        done = run_command(words(folder, 60, "--name", "full"), 1, env=folder.environment,
                           cwd=folder.path, stdout=full)
    check("No space left on device; training continues" in done.stderr, "not said", done.stderr)
    # Other commands end quietly.
    done = run_command(["sh", "-c", "\"$0\" --help | head -1", folder.binary], 0,
                       env=folder.environment)
    check(not done.stderr, "noise", done.stderr)


SCONTROL = """#!/bin/sh
case $1 in
show) echo "JobId=1 JobState=RUNNING BatchFlag=1 Requeue=1 PreemptTime=None" ;;
requeue) touch "$0-requeued" ;;
esac
"""


def stopped_with_full_disk(folder, draw):
    """A run that Slurm stops is requeued and exits with 143, also if its summary cannot be
    printed. Both are told."""
    scontrol = folder.write("bin/scontrol", SCONTROL)
    os.chmod(scontrol, 0o755)
    path = f"{os.path.dirname(scontrol)}:{os.environ['PATH']}"
    with open("/dev/full", "w") as full:
        run = folder.start(words(folder, ENDLESS, "--name", "slurm", output="text"),
                           {"SLURM_JOB_ID": "1", "PATH": path}, stdout=full,
                           stderr=subprocess.PIPE, text=True)

    def trains():
        _, out, _ = folder.command("ls", "-o", "json")
        return any((r["status"] or {}).get("step", 0) > 5 for r in json.loads(out)["runs"])

    wait_until(trains, "a step")
    run.send_signal(signal.SIGUSR1)
    said = run.communicate(timeout=PATIENCE)[1]
    check(run.returncode == 143, "exit code", run.returncode, said)
    check(os.path.exists(scontrol + "-requeued"), "not requeued", said)
    check("requeuing job 1" in said, "not told that it is requeued", said)
    check("standard output: cannot write: No space left" in said, "not told why", said)


def stopped_terminal(folder, draw):
    """A terminal that takes nothing (Ctrl-S) holds up neither the training nor its end."""
    ours, theirs = pty.openpty()
    termios.tcflow(theirs, termios.TCOOFF)
    begun = time.monotonic()
    run = folder.start(words(folder, 200, "--name", "still", output="text"), {"TERM": "xterm"},
                       stdout=subprocess.PIPE, stderr=theirs, text=True)
    out = run.communicate(timeout=PATIENCE)[0]
    check(run.returncode == 0 and "finished, 200 steps" in out, "it did not finish", out)
    check(time.monotonic() - begun < 30, "it took long")
    os.close(theirs)
    os.close(ours)


def full_pipe(folder, draw):
    """Events that nobody reads hold up the training neither; once read, only steps are missing."""
    run = folder.start(words(folder, 3000, "--name", "pipe", "-q", more=["step_ms=0"]),
                       stdout=subprocess.PIPE, text=True)
    fcntl.fcntl(run.stdout.fileno(), 1031, 4096)  # F_SETPIPE_SZ

    def state():
        _, out, _ = folder.command("ls", "-a", "-o", "json")
        return [r["status"]["state"] for r in json.loads(out)["runs"] if r["status"]]

    wait_until(lambda: state() == ["finished"], "the end of the training")
    check(run.poll() is None, "it did not wait for its reader")
    events = [json.loads(line) for line in run.stdout]
    check(run.wait(PATIENCE) == 0 and events[-1]["event"] == "end", "the end", events[-1])
    check(events[-1]["steps"] == 3000 and events[0]["event"] == "start", "not all", events[-1])


def without_home(folder, draw):
    """Without HOME and XDG folders: the user database has a home; where it has none either, a
    sentence says what to set. A home that cannot be written costs only the record."""
    # Copies, because another user may not be able to enter the build folder.
    folder.binary = shutil.copy(folder.binary, folder.file("adaptdl"))
    folder.material = shutil.copy(folder.material, folder.file("worker"))
    prepare(folder)
    bare = {key: value for key, value in folder.environment.items()
            if not key.startswith("XDG_") and key != "HOME"}

    def command(environment, *line, user=None):
        done = run_command(line, env=environment, cwd=folder.path, user=user, group=user,
                           extra_groups=[] if user else None)
        return done.returncode, done.stdout, done.stderr

    code, out, err = command(bare, folder.binary, "ls")
    check(code == 0, "ls without HOME", code, err)
    if os.geteuid() == 0:
        stranger = 43217  # nobody of the user database
        os.chmod(folder.path, 0o755)
        code, out, err = command(bare, folder.binary, "ls", user=stranger)
        check(code == 1 and "set HOME" in err, "no sentence", code, out, err)
        own = folder.file("own")
        os.mkdir(own)
        os.chown(own, stranger, stranger)
        os.chmod(folder.file("meet"), 0o777)
        code, out, err = command(
            bare | {"HOME": "/"}, *words(folder, 20, "--checkpoint-dir", own + "/checkpoints",
                                         "--log-dir", own + "/logs", "--output", own, "--name",
                                         "nowhere", output="text"), user=stranger)
        check(code == 0 and "finished, 20 steps" in out, "a home that cannot be written", out, err)
        check("cannot write the record of this run" in err, "not said", err)
        subprocess.run(["rm", "-rf", f"/tmp/adaptdl-{stranger}"], check=True)


main(as_process_one, killed_launcher, one_of_a_name, odd_records, full_log_disk, full_state_disk,
     limited_files, reader_leaves, stopped_with_full_disk, stopped_terminal, full_pipe,
     without_home)
