"""The service and jobs that run commands: their ends, their order, requests about them."""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time

from support import (SmallDisk, check, kill, kill_child, main, read, read_json, service,
                     stat_fields, status_of, wait_until, write)


def lines(path):
    return len(read(path).splitlines())


def ends(folder, random):
    with service(folder, "--slots", "2") as local:
        good = local.shell("echo from $0; exit 0")
        bad = local.shell("echo broken >&2; exit 3", retries=0)
        missing = local.submit("/no/such/program", retries=0)
        check(local.wait_end(good)["exit_code"] == 0, "exit code")
        check("from" in local.logs(good), "no log")
        failed = local.wait_end(bad, "Failed")
        check(failed["exit_code"] == 3 and failed["reason"] == "ReplicaFailed", "why", failed)
        check("broken" in local.logs(bad), "no log")
        failed = local.wait_end(missing, "Failed")
        check("/no/such/program" in failed["message"] and failed["reason"] == "CannotStart",
              "the reason")


def retries(folder, random):
    with service(folder, "--slots", "2") as local:
        count = folder.file("count")
        name = local.shell(f"echo x >> {count}; test $(wc -l < {count}) -ge 3", retries=3)
        local.wait_end(name)
        check(lines(count) == 3, "it ran three times")


def more_slots_than_cores(folder, random):
    """Slots without cores of their own: each replica runs on any free core."""
    count = os.cpu_count() + 1
    with service(folder, "--slots", str(count)) as local:
        name = local.shell("grep Cpus_allowed_list /proc/self/status", min_replicas=count,
                           max_replicas=count)
        local.wait_end(name)
        all_cores = "Cpus_allowed_list:\t" + status_of(os.getpid(), "Cpus_allowed_list") + "\n"
        check(local.logs(name).count(all_cores) == count, "its logs", local.logs(name))


def kinds(folder, random):
    """Slots of two kinds: each job is on those of one, and knows which."""
    with service(folder, "--slots", "fast=2,slow=1") as local:
        known = local.ask("hello")["kinds"]
        check(known == [{"name": "fast", "slots": 2, "slots_free": 2},
                        {"name": "slow", "slots": 1, "slots_free": 1}], "the kinds", known)
        go = folder.file("go")
        script = f"echo on $ADAPTDL_ACCELERATOR; until test -e {go}; do sleep 0.02; done"
        two = local.shell(script, min_replicas=2, max_replicas=2)
        local.wait_phase(two, "Running")
        one, none = local.shell(script), local.shell(script, min_replicas=3, max_replicas=3)
        local.wait_phase(one, "Running")
        slots = [json.loads(local.job(name)["slots"]) for name in (two, one)]
        check(slots == [[0, 1], [2]], "their slots", slots)
        code, shown, _ = local.command("cluster", "show")
        check(code == 0 and ", 0 free; fast: 2, 0 free; slow: 1, 0 free" in shown, shown)
        job = local.job(none)
        check(job["reason"] == "Unschedulable" and "for jobs on fast" in job["message"], job)
        local.ask("cancel", name=none)
        folder.write("go")
        for name, words, replicas in (two, "on fast\n", 2), (one, "on slow\n", 1):
            local.wait_end(name)
            check(local.logs(name).count(words) == replicas, "its kind", local.logs(name))


def accelerators(folder, random):
    """A job runs only on the kinds of slots that it names."""
    with service(folder, "--slots", "fast=2,slow=1") as local:
        names = []
        for _ in range(2):  # the second one waits beside two fast slots
            code, out, err = local.command(
                "submit", "--accelerators", "SL*,other", "--", "sh", "-c",
                "echo on $ADAPTDL_ACCELERATOR; sleep 0.5")
            check(code == 0 and "waits" not in err, "submit", out, err)
            names.append(out.strip())
        for name in names:
            local.wait_end(name)
            check("on slow\n" in local.logs(name), "its kind", local.logs(name))
        folder.write("project/adaptdljob.yaml",
                     "command: [\"true\"]\nreplicas: \"1:\"\n"
                     "resources: {accelerators: [huge, \"larg?\"]}\n")
        code, out, err = local.command("submit", "project")
        check(code == 0 and "no slots of the kinds that the job names (huge, larg?)" in err,
              "a kind that is not there", out, err)
        waits = local.job(out.strip())
        check(waits["reason"] == "Unschedulable" and waits["max_replicas"] == 3, "it waits", waits)
        code, _, err = local.command("scale", waits["name"], "2")
        check(code == 1 and "no slots of the kinds that the job names" in err, "scale", err)
        code, _, err = local.command("submit", "--accelerators", "a,", "--", "true")
        check(code == 2 and "--accelerators: a name is empty" in err, "no name", code, err)
        runs = local.shell("exec sleep 1000", resources={"accelerators": ["slow"]})
        local.wait_phase(runs, "Running")
        # With other kinds: what runs goes on, but does not begin again; what waited begins.
        local.kill()
        local.arguments = ("--slots", "huge=3")
        local.start()
        check(local.ask("hello")["kinds"][0]["name"] == "huge", "its kind", local.ask("hello"))
        local.wait_end(waits["name"])
        check(local.job(runs)["phase"] == "Running", "it goes on", local.job(runs))
        check(kill(local.runner_pid(runs)), "no runner")
        local.wait_job(runs, lambda job: job["reason"] == "Unschedulable", "it waits")
        local.ask("cancel", name=runs)


def moved_command(folder, random):
    """A command that is to move is stopped, which is not its end whatever it exits with."""
    with service(folder, "--slots", "fast=2,slow=1") as local:
        go = folder.file("go")
        first = local.shell(f"trap 'exit 0' TERM; echo on $ADAPTDL_ACCELERATOR; "
                            f"until test -e {go}; do sleep 0.02; done", restartable=True)
        local.wait_job(first, lambda job: job["slots"] == "[0]", "it is on a fast slot")
        wait_until(lambda: "on fast" in local.logs(first), "it runs")
        second = local.shell("true", min_replicas=2, max_replicas=2)
        local.wait_end(second)
        wait_until(lambda: "on slow" in local.logs(first), "it runs on the slow slot")
        folder.write("go")
        local.wait_end(first)


def other_kinds(folder, random):
    """A service that has other kinds of slots lets jobs go on where they are."""
    with service(folder, "--slots", "3") as local:
        go = folder.file("go")
        script = f"echo begun; until test -e {go}; do sleep 0.02; done"
        wide = local.shell(script, min_replicas=3, max_replicas=3)
        local.wait_phase(wide, "Running")
        local.stop()
        local.arguments = ("--slots", "fast=2,slow=1")
        local.start()
        waiting = local.shell("echo on $ADAPTDL_ACCELERATOR")
        local.wait_job(waiting, lambda job: job["why"] and job, "a reason to wait")
        check(local.job(wide)["slots"] == "[0,1,2]", "its slots", local.job(wide))
        folder.write("go")
        local.wait_end(wide)
        check(local.job(wide)["starts"] == 1 and local.logs(wide).count("begun") == 3, "no restart")
        local.wait_end(waiting)


def waits_its_turn(folder, random):
    with service(folder, "--slots", "1", "--policy", "fixed") as local:
        go = folder.file("go")
        first = local.shell(f"until test -e {go}; do sleep 0.02; done")
        local.wait_phase(first, "Running")
        second = local.shell("true")
        waiting = local.wait_job(second, lambda job: job["why"] and job, "a reason to wait")
        check(waiting["phase"] == "Pending", "it waits", waiting)
        folder.write("go")
        local.wait_end(first)
        local.wait_end(second)


def cancelled(folder, random):
    with service(folder, "--slots", "1") as local:
        name, waiting = local.shell("sleep 1000"), local.shell("sleep 1000")
        local.wait_phase(name, "Running")
        local.ask("cancel", name=name)
        local.ask("cancel", name=waiting)
        local.wait_end(name, "Cancelled")
        local.wait_end(waiting, "Cancelled")
        refused = local.request("cancel", name=name)
        check(not refused["ok"] and "has ended" in refused["error"], "a second time", refused)
        local.ask("delete", name=name)
        check(not os.path.exists(local.job_file(name)), "its folder is gone")
        check(not local.request("cancel", name=name)["ok"], "it is gone")


def suspended(folder, random):
    with service(folder, "--slots", "1") as local:
        started = folder.file("started")
        name = local.shell(f"trap 'exit 143' TERM; echo x >> {started};"
                           " while :; do sleep 0.02; done")
        wait_until(lambda: os.path.exists(started), "it runs")
        local.ask("suspend", name=name)
        local.ask("suspend", name=name)
        local.wait_phase(name, "Suspended")
        for _ in range(2):  # the runner's end is reported once
            local.kill()
            local.start()
        kinds = [event["kind"] for event in local.events(name)]
        check(kinds.count("Suspended") == 1 and kinds.count("Stopped") == 1, "told twice")
        other = local.shell("true")
        local.wait_end(other)
        local.ask("resume", name=name)
        wait_until(lambda: lines(started) == 2, "it runs again")


def restartable(folder, random):
    """A command that tells nothing of its speed has its minimum, until it is known to save and to
    exit with 143. A job that has said so, or has shown it, gets what is free; one that refuses
    does not, whatever it has shown."""
    finish = folder.file("finish")

    def script(worlds):
        return (f"trap 'exit 143' TERM; echo $WORLD_SIZE >> {worlds};"
                f" until test -e {finish}; do sleep 0.02; done")

    def worlds(path):
        return set(read(path).split()) if os.path.exists(path) else set()

    with service(folder, "--slots", "2") as local:
        said, shown = folder.file("said"), folder.file("shown")
        first = local.shell(script(said), max_replicas=2, restartable=True)
        wait_until(lambda: "2" in worlds(said), "two replicas at once")
        folder.write("finish")
        local.wait_end(first)
        os.remove(finish)
        name = local.shell(script(shown), max_replicas=2)
        wait_until(lambda: worlds(shown), "it runs")
        check(worlds(shown) == {"1"}, "it may not be restarted", read(shown))
        local.ask("suspend", name=name)
        local.wait_phase(name, "Suspended")
        check("Restartable" in [event["kind"] for event in local.events(name)], "it was not told")
        local.kill()  # the next service knows it, too
        local.start()
        local.ask("resume", name=name)
        wait_until(lambda: "2" in worlds(shown), "two replicas after the resume")
        folder.write("finish")
        local.wait_end(name)
        check(worlds(said) == {"2"}, "it was restarted for nothing", read(said))
        os.remove(finish)
        refuses = folder.file("refuses")
        name = local.shell(script(refuses), max_replicas=2, restartable=False)
        wait_until(lambda: worlds(refuses), "it runs")
        local.ask("suspend", name=name)
        local.wait_phase(name, "Suspended")
        local.ask("resume", name=name)
        wait_until(lambda: len(read(refuses).split()) == 2, "it runs again")
        # A decision for the next job is one for this job, too.
        local.wait_end(local.shell("true"))
        check(worlds(refuses) == {"1"}, "it was restarted with more", read(refuses))
        folder.write("finish")
        local.wait_end(name)


def took_it_for_the_end(folder, random):
    """A program that exits with 0 when it should restart has finished; its user is told why."""
    with service(folder, "--slots", "2") as local:
        started = folder.file("started")
        name = local.shell(f"trap 'exit 0' TERM; echo > {started}; while :; do sleep 0.02; done")
        wait_until(lambda: os.path.exists(started), "it runs")
        local.ask("scale", name=name, min=2, max=2)
        told = local.wait_end(name)
        check("exited with 0 when asked to restart" in told["message"], "the reason", told)


def cannot_fit(folder, random):
    with service(folder, "--slots", "2") as local:
        name = local.shell("true", resources={"cpu_millicores": 5000})
        job = local.job(name)
        check(job["reason"] == "Unschedulable" and "5 cores" in job["message"], "the reason", job)
        local.wait_end(local.shell("true"))  # while the other one is passed over
        check(local.job(name)["phase"] == "Pending", "it waits")


def second_service(folder, random):
    with service(folder, "--slots", "2") as local:
        code, _, err = local.command("serve")
        check(code == 1 and "another adaptdl service" in err, "the second says so", code, err)
        check(local.answers(), "the first goes on")


def killed_service(folder, random):
    """Jobs continue without a service. The next finds those that ended, and runs nothing twice."""
    with service(folder, "--slots", "2") as local:
        starts, go, end = (folder.file(file) for file in ("starts", "go", "end"))
        name = local.shell(f"echo x >> {starts}; until test -e {go}; do sleep 0.02; done")
        short = local.shell(f"echo y >> {starts}; until test -e {end}; do sleep 0.02; done")
        waiting = local.shell(f"echo z >> {starts}")
        local.wait_phase(name, "Running")
        local.wait_phase(short, "Running")
        local.kill()
        runner = local.runner_pid(short)
        folder.write("end")
        wait_until(lambda: not stat_fields(runner), "it ends while nobody looks")
        local.start()
        local.wait_end(short)
        local.wait_end(waiting)
        check(local.job(name)["phase"] == "Running", "it is known to run")
        folder.write("go")
        local.wait_end(name)
        check(sorted(read(starts).split()) == ["x", "y", "z"], "each ran once",
              read(starts))


def killed_at_any_moment(folder, random):
    """SIGKILL of the service while jobs are submitted and end: each runs once, to its end."""
    with service(folder, "--slots", "2") as local:
        log = folder.file("log")
        names = []
        for i in range(20):
            # Killed before it answered: the job may be stored or not.
            with contextlib.suppress(OSError):
                names.append(local.shell(f"echo {i} >> {log}; sleep 0.{random.randrange(10)}"))
            if random.random() < 0.4:
                time.sleep(random.random() * 0.1)  # a random time
                local.kill()
                local.start()
        for name in names:
            local.wait_end(name)
        ran = read(log).split()
        check(len(ran) == len(set(ran)), "a job ran twice", ran)


def killed_runner(folder, random):
    with service(folder, "--slots", "1") as local:
        starts = folder.file("starts")
        name = local.shell(f"echo x >> {starts}; test $(wc -l < {starts}) -ge 2 || sleep 1000")
        wait_until(lambda: os.path.exists(starts) and lines(starts) == 1, "it runs")
        check(kill(local.runner_pid(name)), "no runner")
        local.wait_end(name)
        check(lines(starts) == 2, "it ran again")
        check(any(e["kind"] == "RunnerDied" for e in local.events(name)), "no event")


def orphans(folder, random):
    """What a killed runner's job has started ends with it, also if no other runner comes."""
    with service(folder, "--slots", "1") as local:
        for wish, phase in ("cancel", "Cancelled"), ("suspend", "Suspended"):
            pids = folder.file(wish)
            name = local.shell(f"sleep 777 & echo $! > {pids}; wait")
            wait_until(lambda: os.path.exists(pids) and read(pids), "it runs")
            runner, orphan = local.runner_pid(name), int(read(pids))
            kill(runner, signal.SIGSTOP)  # so that it does not carry out the wish
            local.ask(wish, name=name)
            check(kill(runner), "no runner")
            local.wait_phase(name, phase)
            wait_until(lambda: not stat_fields(orphan), "its process is gone")


def no_room(folder, random):
    """A runner that cannot write says so by its exit code, and leaves no record of a failure."""
    with service(folder, "--slots", "1") as local:
        name = local.shell("true")
        local.wait_end(name)
    with SmallDisk(folder.file("small")) as disk:
        write(os.path.join(disk, "job.json"), read(local.job_file(name, "job.json")))
        with contextlib.suppress(OSError), \
                open(os.path.join(disk, "filler"), "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        code, _, err = folder.command("__runner", disk, "--slots", "0")
        check(code == 74 and "No space left on device" in err, "its end", code, err)
        check(not os.path.exists(os.path.join(disk, "run.json")), "a record")


def other_shell(folder, random):
    """A job has the paths of the shell that submitted it, not those of the service's."""
    script = "echo $PYTHONPATH-$VIRTUAL_ENV-$CONDA_PREFIX-$OTHER"
    with service(folder, "--slots", "1", PYTHONPATH="/a", VIRTUAL_ENV="/b", CONDA_PREFIX="/c",
                 OTHER="/d") as local:
        del local.environment["PYTHONPATH"], local.environment["CONDA_PREFIX"]
        local.environment["VIRTUAL_ENV"] = "/e"
        code, out, err = local.command("submit", "--", "sh", "-c", script)
        check(code == 0, "submit", err)
        local.wait_end(out.strip())
        check("-/e--/d\n" in local.logs(out.strip()), "its variables", local.logs(out.strip()))


def damaged_files(folder, random):
    """The service survives anything that a job's program writes to the job's folder."""
    with service(folder, "--slots", "1") as local:
        starts = folder.file("starts")
        name = local.shell(f"echo x >> {starts}; test $(wc -l < {starts}) -ge 3 || sleep 1000")
        for number in (1, 2):
            wait_until(lambda: os.path.exists(starts) and lines(starts) == number,
                       f"start {number}")
            pid = local.runner_pid(name)
            if number == 2:
                local.kill()
            for file in ("run.json", "runner.json"):
                write(local.job_file(name, file), json.dumps(
                    {"pid": pid if file == "run.json" else "x", "state": 7, "step": []}))
            check(kill(pid), "no runner")
            if number == 2:
                local.start()
        local.wait_end(name)


def other_versions_job(folder, random):
    """A job that this version cannot read fails without affecting others."""
    with service(folder, "--slots", "1") as local:
        name = local.shell("true", resources={"cpu_millicores": 5000})
        other = local.shell("true", resources={"cpu_millicores": 5000})
        local.kill()
        local.change("UPDATE jobs SET spec=?, hints=? WHERE name=?", "[]", "", name)
        local.change("UPDATE jobs SET hints=? WHERE name=?", "{", other)
        local.start()
        check(local.job(name)["reason"] == "Invalid", "its reason")
        check(local.job(other)["phase"] == "Pending", "the other one waits")


def earlier_version(folder, random):
    """Jobs with folders written by a service of format 1: one runs, one waits, one has ended."""
    def make_earlier(name):
        path = local.job_file(name, "job.json")
        with open(path) as file:
            job = json.load(file)
        check(job["format"] == 2, "another format", job)
        with open(path, "w") as file:
            json.dump(job["spec"] | job["grant"] | {"format": 1}, file)

    with service(folder, "--slots", "1") as local:
        go = os.path.join(folder.path, "go")
        script = f"echo $GREETING; until test -e {go}; do sleep 0.02; done"
        names = [local.shell(script, environment={"GREETING": f"hello {i}"}) for i in range(2)]
        local.wait_phase(names[0], "Running")
        local.kill()
        for name in names:
            make_earlier(name)
        local.start()
        open(go, "w").close()
        for i, name in enumerate(names):
            local.wait_end(name)
            log = read(local.job_file(name, "logs", "replica-0.log"))
            check(log == f"hello {i}\n", "it ran once", log)
        make_earlier(names[1])
        code, out, err = local.command("exec", names[1], "--", "sh", "-c", "echo $GREETING; pwd")
        check(code == 0 and out == f"hello 1\n{folder.path}\n", "beside it", out, err)


def unfinished_submissions(folder, random):
    """The next start removes the leftovers of a killed submission; other folders stay."""
    with service(folder, "--slots", "1") as local:
        jobs = os.path.join(local.state, "jobs")
        left = subprocess.Popen(["true"])
        left.wait()
        for number in (left.pid, os.getpid()):
            os.makedirs(os.path.join(jobs, f".incoming-{number}-ab", "folder"))
        local.kill()
        local.start()
        check(os.listdir(jobs) == [f".incoming-{os.getpid()}-ab"], "folders", os.listdir(jobs))


def too_late(folder, random):
    """A request whose client has timed out is not executed. The process that deletes a job removes
    its folder; if that fails, the next service does."""
    with service(folder, "--slots", "1") as local:
        name = local.shell("exit 0")
        local.wait_end(name)
        late = local.request("delete", name=name, until=time.monotonic() - 1)
        check(not late["ok"] and "was delayed" in late["error"], "the answer", late)
        check(local.job(name)["phase"] == "Succeeded", "it is still there")
        removed = local.ask("delete", name=name, until=time.monotonic() + 60)["folder"]
        jobs = os.path.join(local.state, "jobs")
        check([os.path.basename(removed)] == os.listdir(jobs), "its folder", os.listdir(jobs))
        local.kill()
        local.start()
        check(not os.listdir(jobs), "nothing is left", os.listdir(jobs))


def secrets(folder, random):
    """Other users can read all command lines: none contains a job's token."""
    with service(folder, "--slots", "1") as local:
        name = local.shell("echo $ADAPTDL_SUPERVISOR_URL; sleep 1000")
        local.wait_phase(name, "Running")
        wait_until(lambda: "/j/" in local.logs(name), "the job knows its token")
        token = local.logs(name).strip().rsplit("/", 1)[1]
        for pid in (local.runner_pid(name), local.process.pid):
            check(token not in read(f"/proc/{pid}/cmdline"), "the token is on a command line")


def stopped_runner(folder, random):
    """A runner stopped by SIGSTOP is not dead: the service reports it and continues with others."""
    with service(folder, "--slots", "2") as local:
        name = local.shell("trap 'exit 143' TERM; while :; do sleep 0.05; done")
        local.wait_phase(name, "Running")
        pid = local.runner_pid(name)
        kill(pid, signal.SIGSTOP)
        local.wait_end(local.shell("true"))
        local.wait_job(name, lambda job: job["reason"] == "NotAnswering", "it says so", 40)
        kill(pid, signal.SIGCONT)
        local.wait_job(name, lambda job: job["reason"] == "", "it answers again", 70)


def full_disk(folder, random):
    """If the state cannot be written, jobs continue, submissions are refused, nothing is lost."""
    with service(folder, "--slots", "1") as local:
        starts, go = folder.file("starts"), folder.file("go")
        name = local.shell(f"echo x >> {starts}; until test -e {go}; do sleep 0.02; done; exit 7",
                           retries=0)
        local.wait_phase(name, "Running")
        # The write-ahead log may not grow; the service's own log, which is shorter, may.
        limit = os.path.getsize(os.path.join(local.state, "state.db-wal"))
        before = resource.prlimit(local.process.pid, resource.RLIMIT_FSIZE, (limit, -1))
        refused = local.request("submit", spec=local.spec("/bin/true"))
        check(not refused["ok"] and "state.db" in refused["error"], "it is refused", refused)
        check(os.listdir(os.path.join(local.state, "jobs")) == [name], "its folder is gone")
        runner = local.runner_pid(name)
        folder.write("go")
        wait_until(lambda: not stat_fields(runner), "it ends")
        wait_until(lambda: "state.db" in local.said(), "it says what it cannot write")
        check(local.job(name)["phase"] == "Running", "it could not be written")
        check(local.answers(), "the service goes on")
        resource.prlimit(local.process.pid, resource.RLIMIT_FSIZE, before)
        job = local.wait_end(name, "Failed")
        check(job["exit_code"] == 7, "its exit code was kept", job)
        check(read(starts) == "x\n", "it ran once")
        local.wait_end(local.shell("true"))


def after_reboot(folder, random):
    """After a reboot, nothing from before runs, and its process numbers belong to others."""
    with service(folder, "--slots", "1") as local:
        starts = folder.file("starts")
        name = local.shell(f"echo x >> {starts}; test $(wc -l < {starts}) -ge 2 || sleep 1000")
        wait_until(lambda: os.path.exists(starts) and lines(starts) == 1, "it runs")
        local.kill()
        check(kill(local.runner_pid(name)), "no runner")
        path = local.job_file(name, "runner.json")
        facts = read_json(path)
        other = folder.start(["sleep", "1000"])
        check(facts.keys() >= {"pid", "start_time", "boot_id"}, "other facts", facts)
        write(path, json.dumps(facts | {"pid": other.pid, "boot_id": "an earlier one",
                                        "start_time": int(stat_fields(other.pid)[19])}))
        local.start()
        local.wait_end(name)
        check(other.poll() is None, "somebody else's process was ended")
        kill_child(other)
        check(lines(starts) == 2, "it ran again")


def unwritten_end(folder, random):
    """If a runner cannot write its last record, its exit code tells how it ended."""
    with service(folder, "--slots", "2") as local:
        starts, go = folder.file("starts"), folder.file("go")
        ends = local.shell(f"echo x >> {starts}; until test -e {go}; do sleep 0.02; done")
        stops = local.shell("trap 'exit 143' TERM; while :; do sleep 0.02; done")
        for name in (ends, stops):
            local.wait_phase(name, "Running")
            wait_until(lambda: local.record(name)["state"] == "running", "it has its record")
            record = local.job_file(name, "run.json")
            os.remove(record)
            os.makedirs(os.path.join(record, "in the way"))
        folder.write("go")
        local.ask("suspend", name=stops)
        local.wait_end(ends)
        check(read(starts) == "x\n", "it ran once")
        local.wait_phase(stops, "Suspended")
        kinds = [event["kind"] for event in local.events(stops)]
        check("Stopped" in kinds and "RunnerDied" not in kinds, "its end")


def smaller_machine(folder, random):
    """A job whose slots no longer exist gets new ones or waits for them, also if its runner dies
    only after the service has found it."""
    for died_before in True, False:
        on_smaller_machine(folder, died_before)


def on_smaller_machine(folder, died_before):
    with service(folder, "--slots", "2", "--policy", "fixed") as local:
        script = "test $ADAPTDL_NUM_REPLICAS = 1 || sleep 1000"
        names = []
        for low in (1, 2):
            names.append(local.shell(script, min_replicas=low, max_replicas=2,
                                     requested_replicas=2, preemptible=False))
            local.wait_phase(names[0], "Running")
        check(local.job(names[0])["replicas"] == 2, "it has both")
        local.kill()
        runner = local.runner_pid(names[0])
        if died_before:
            check(kill(runner), "no runner")
        local.arguments = ("--slots", "1")
        local.start()
        if not died_before:
            check(kill(runner), "no runner")
        job = local.job(names[1])
        check(job["reason"] == "Unschedulable" and job["replicas"] == 0, "it says so", job)
        local.wait_end(names[0])
        local.wait_end(local.shell("true"))
        local.kill()
        local.arguments = ("--slots", "2")
        local.start()
        check(local.job(names[1])["reason"] != "Unschedulable", "it fits again")
        local.wait_phase(names[1], "Running")


def larger_machine(folder, random):
    """A job that needs more than the machine has, without an upper bound, starts on a larger
    machine."""
    with service(folder, "--slots", "1") as local:
        name = local.shell("true", min_replicas=2, max_replicas=None)
        check(local.job(name)["reason"] == "Unschedulable", "it waits", local.job(name))
        old = local.shell("true", min_replicas=2, max_replicas=None)
        local.kill()
        local.change("UPDATE jobs SET max_replicas=1 WHERE name=?", old)
        local.arguments = ("--slots", "2")
        local.start()
        local.wait_end(name)
        local.wait_end(old)


def lost_store(folder, random):
    """Without the database the jobs are unknown, but their results stay."""
    with service(folder, "--slots", "1") as local:
        name = local.shell("true")
        local.wait_end(name)
        kept = local.job_file(name, "checkpoints", "step-7")
        os.makedirs(kept)
        local.kill()
        for file in os.listdir(local.state):
            if file.startswith("state.db"):
                os.remove(os.path.join(local.state, file))
        local.start()
        check(os.path.exists(kept), "its checkpoint is gone")
        check(name in local.said(), "it is named")
        refused = local.request("submit", spec=local.spec("/bin/true", name=name))
        check(not refused["ok"] and "no known job" in refused["error"], "its folder", refused)
        check(os.path.exists(kept), "its checkpoint is gone", refused)


def strange_sockets(folder, random):
    """The service is unaffected by what a job's program does to its control socket."""
    with service(folder, "--slots", "1") as local:
        go = folder.file("go")
        name = local.shell(f"until test -e {go}; do sleep 0.02; done")
        local.wait_phase(name, "Running")
        path = local.job_file(name, "control.sock")
        os.rename(path, path + ".kept")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(path)
            time.sleep(1.5)  # the service asks every second, and leaves no trace of it
        os.remove(path)
        asked = []
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()

            def answer():
                with contextlib.suppress(OSError):
                    while True:
                        client, _ = listener.accept()
                        with client:
                            asked.append(client.recv(4096))
                            client.sendall(b'{"ok": true, "replicas": -1}\n')

            answers = threading.Thread(target=answer)
            answers.start()
            wait_until(lambda: len(asked) >= 2, "it is asked")
            check(local.answers(), "the service goes on")
            os.rename(path + ".kept", path)
            listener.shutdown(socket.SHUT_RDWR)
            answers.join()
        folder.write("go")
        local.wait_end(name)


def long_requests(folder, random):
    """A specification may be long, but has a limit; beyond it the answer says so."""
    with service(folder, "--slots", "1") as local:
        name = local.submit("/bin/sh", "-c", "exit 0", "x" * 100_000)
        local.wait_end(name)
        code, _, err = local.command("submit", "--", "true", *["x" * 100_000] * 15)
        check(code == 0, "1.5 MB", err)
        refused = local.request("submit", spec=local.spec("/bin/true", "x" * (5 << 20)))
        check(not refused["ok"] and "longer than 4096 KiB" in refused["error"], "it says so",
              refused)


main(ends, retries, more_slots_than_cores, kinds, accelerators, moved_command, other_kinds,
     waits_its_turn, cancelled, suspended, restartable, took_it_for_the_end, cannot_fit,
     second_service, killed_service, killed_at_any_moment, killed_runner, orphans, no_room,
     other_shell, damaged_files, other_versions_job, earlier_version, unfinished_submissions,
     too_late, secrets, stopped_runner, full_disk, after_reboot, unwritten_end, smaller_machine,
     larger_machine, lost_store, strange_sockets, long_requests)
