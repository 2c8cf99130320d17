"""The local service's state, when the power fails or the disk does."""

import os
import time

from support import Service, check, main, wait_until

from recording import ERRORS, Recording

ROUNDS = int(os.environ.get("POWER_ROUNDS", "2"))


class Recorded(Service):
    """A service and commands whose state folder is recorded."""

    def __init__(self, folder, *arguments):
        super().__init__(folder, *arguments)
        self.recording = Recording(folder)
        self.state = self.recording.file("local")
        self.environment = (folder.environment | self.recording.environment |
                            {"ADAPTDL_LOCAL_STATE": self.state})

    def run(self, *arguments):
        code, out, err = self.command(*arguments)
        check(code == 0, f"{arguments}: exit code {code}", out, err)
        return out.strip()

    def changed(self, *arguments, **what):
        """A command and its marks."""
        self.recording.begin(**what)
        self.run(*arguments)
        self.recording.done(**what)


def submitted(local, script, name):
    """A job with a project, through the command; its name is known after the answer."""
    local.folder.write("project/run.sh", script)
    local.folder.write("project/adaptdljob.yaml", "command: [sh, run.sh]\n")
    name = local.run("submit", "project", "--name", name)
    local.recording.done(submit=name, project=script)
    return name


def life(local, number):
    """Two jobs: one ends by itself, one is scaled, suspended, resumed, cancelled and deleted."""
    ends = submitted(local, f"echo {number}\n" * 50, "ends")
    other = submitted(local, "sleep 1000\n", "other")
    bare = local.run("submit", "--", "sleep", "1000")
    local.recording.done(submit=bare, project=None)
    local.changed("scale", bare, "0:1", scale=bare, min=0, max=1)
    local.wait_end(ends)
    local.recording.done(ended=ends, phase="Succeeded")
    local.changed("scale", other, "1:2", scale=other, min=1, max=2)
    local.changed("suspend", other, suspended=other, **{"is": True})
    if number == 1:  # also where a service is killed
        local.kill()
        local.start()
    local.changed("scale", other, "0:1", scale=other, min=0, max=1)
    local.changed("resume", other, suspended=other, **{"is": False})
    local.changed("cancel", other, cancel=other)
    for name in (other, bare):
        if name == bare:
            local.changed("cancel", bare, cancel=bare)
        local.wait_end(name, "Cancelled")
        local.recording.done(ended=name, phase="Cancelled")
    local.changed("delete", other if number % 2 else ends, delete=other if number % 2 else ends)


def refused(local):
    """A change whose sync fails. Then it is not there, also after a cut."""
    name = local.run("submit", "--", "sleep", "1000")
    local.recording.done(submit=name, project=None)
    local.changed("scale", name, "0:1", scale=name, min=0, max=1)
    # The job's own processes sync what they write, too, until its replica runs.
    wait_until(lambda: local.runner_status(name).get("replicas") == 1, "its replica")
    for error in ERRORS:
        local.recording.begin(scale=name, min=0, max=9)
        with local.recording.failing("sync", 1, error) as hits:
            answer = local.request("scale", name=name, min=0, max=9)
            check(hits() == 1 and not answer["ok"], "not refused", answer, hits())
        local.recording.done(scale=name, min=0, max=1)
    local.changed("cancel", name, cancel=name)


def cuts(folder, draw):
    """What the service answered is there after a power cut at any point."""
    local = Recorded(folder, "--slots", "3").start()
    try:
        for number in range(ROUNDS):
            life(local, number)
        refused(local)
        local.close()
    finally:
        local.kill()
    local.recording.replay("service", draw)
    check(local.recording.points > 500, "few points", local.recording.points)


def stored(local, name):
    rows = local.query("SELECT * FROM jobs WHERE name=?", name)
    return rows[0] if rows else None


def each_call(local, ask):
    """Has each call of a request fail in turn: ask() sends it, and returns a function that checks
    the answer. Returns how many failed."""
    count = 0
    for kind in ("write", "sync", "rename", "open", "folder", "close"):
        for error in ERRORS:
            call, quiet = 1, 0
            while quiet < 2:  # the service also writes by itself now and then
                with local.recording.failing(kind, call, error) as hits:
                    check_answer = ask()
                    hit = hits() > 0
                check_answer(f"call {call} of kind {kind} fails with {error}")
                check(local.answers(), "the service ended", local.said())
                count += hit
                quiet = 0 if hit else quiet + 1
                call += 1
                check(call < 200, "no end of calls")
    return count


def errors(folder, draw):
    """A change that cannot be stored is answered by an error, and is not there."""
    local = Recorded(folder, "--slots", "1").start()
    try:
        running = local.shell("sleep 1000")
        local.wait_phase(running, "Running")
        waiting = local.shell("sleep 1000")
        number = 1

        def submit():
            answer = local.request("submit", spec=local.spec("/bin/true"))
            jobs = os.listdir(os.path.join(local.state, "jobs"))

            def check_answer(how):
                names = {row["name"] for row in local.query("SELECT name FROM jobs")}
                if answer["ok"]:
                    check(answer["name"] in names and answer["name"] in jobs, how, answer, names)
                    local.request("cancel", name=answer["name"])
                else:
                    check(answer["error"] and set(jobs) <= names, how, answer, jobs, names)
            return check_answer

        def scale():
            nonlocal number
            before, number = stored(local, waiting)["max_replicas"], number % 50 + 1
            answer = local.request("scale", name=waiting, min=1, max=number)

            def check_answer(how):
                now = stored(local, waiting)["max_replicas"]
                check(now == (number if answer["ok"] else before), how, answer, before, now)
            return check_answer

        def suspend():
            before = stored(local, waiting)["suspended"]
            answer = local.request("resume" if before else "suspend", name=waiting)

            def check_answer(how):
                now = stored(local, waiting)["suspended"]
                check(now == (before ^ 1 if answer["ok"] else before), how, answer, before, now)
            return check_answer

        for ask in (submit, scale, suspend):
            count = each_call(local, ask)
            print(f"    {ask.__name__}: {count} calls failed")
            check(count >= 8, "few calls", ask.__name__, count)
        cancel_on_broken_disk(local, waiting)
    finally:
        if local.answers():
            local.close()
        local.kill()


def cancel_on_broken_disk(local, name):
    """It stops the job, says that this is not stored, and stores it once it can."""
    with local.recording.failing("write", 1, ERRORS[1], lasting=True):
        answer = local.request("cancel", name=name)
        check(not answer["ok"] and "not on disk yet" in answer["error"], "no error", answer)
        time.sleep(0.1)
        check(not stored(local, name)["cancelled"], "how was it stored?")
    wait_until(lambda: stored(local, name)["cancelled"], "it is stored later")


main(cuts, errors)
