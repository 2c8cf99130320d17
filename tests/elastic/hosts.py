"""One run on several hosts, like the pods of a job: a launcher, agents, and a supervisor that tells
them the launcher's address. Here all are processes on one machine."""

import os
import shutil
import signal
import socket

from support import (TOKEN, Hosts, Supervisor, check, check_charts, kill, main, wait_until,
                     worker_of)

STEPS_PER_EPOCH = 40  # of slow.pt


def comes_and_goes(folder, draw):
    """Hosts join a running run; one leaves, one is killed: no step is lost, nothing restarts."""
    with Supervisor() as supervisor:
        hosts = Hosts(folder, supervisor)
        settings = ("--set", "epochs=1000000")  # hosts may take long to come
        early = hosts.pod(1, *settings)  # before there is a run to join
        early.says("cannot reach the launcher yet")
        run = hosts.pod(0, *settings)
        run.wait_step(3)
        supervisor.addresses = ["127.0.0.1", "127.0.0.1"]
        run.wait_replicas(2)
        late = hosts.pod(2, *settings)
        run.wait_replicas(3)
        run.wait_steps_more(5)
        check(run.of("generation")[-1]["immediate"] is False, "joining broke a step")

        seen = run.count()
        early.signal(signal.SIGTERM)
        run.wait_replicas(2, after=seen)
        check(early.end() == 143, "an agent that was told to go")
        check(not run.of("failure"), "a leave counts as a failure")
        run.wait_steps_more(5)

        seen = run.count()
        kill(late.process.pid)
        run.wait_replicas(1, after=seen)
        run.wait_steps_more(5)
        failure = run.of("failure")[-1]
        check("host" in failure["reason"], "the failure does not name the host", failure)

        seen = run.count()
        again = hosts.pod(3, *settings)
        run.wait_replicas(2, after=seen)
        run.wait_steps_more(5)
        # A replica dies, but not its host: a new one is started there.
        seen = run.count()
        kill(worker_of(again))
        run.wait_event("failure", after=seen)
        run.wait_replicas(2, after=seen)
        run.wait_steps_more(5)
        run.request(request="cancel")
        run.expect_end(143)
        check(again.end() == 143, "the agent of a cancelled run")
        run.check_steps()
        last = run.last_step()
        check(not run.of("resume"), "went back to a checkpoint")
        told = run.said()

        # On, to an end. The agent is to know of the run before that, so it waits for the launcher.
        epochs = last // STEPS_PER_EPOCH + 10
        settings = ("--set", f"epochs={epochs}")
        again = hosts.pod(1, *settings)
        again.says("cannot reach the launcher yet")
        run = hosts.pod(0, *settings)
        check(run.wait_event("resume")["step"] == last, "resumed elsewhere", last)
        run.expect_end(0)
        check(again.end() == 0, "the agent of a finished run")
        again.says("joined the run")
        run.check_steps(last + 1, epochs * STEPS_PER_EPOCH)
        check("copy of the checkpoint" not in told + run.said(),
              "checkpoints in a shared folder twice")
        check(os.path.exists(os.path.join(hosts.shared, "model.pt")), "no model was saved")


def launcher_goes(folder, draw):
    """The launcher is terminated: all end after a checkpoint, and the next group resumes."""
    with Supervisor() as supervisor:
        supervisor.addresses = ["127.0.0.1"]
        hosts = Hosts(folder, supervisor)
        run, other = (hosts.pod(rank, "--set", "epochs=1000") for rank in (0, 1))
        run.wait_replicas(2)
        run.wait_steps_more(5)
        run.signal(signal.SIGTERM)
        run.expect_end(143)
        check(other.end() == 143, "the agent does not end with its run")
        check(run.end_event()["checkpoint"], "no checkpoint was written")
        last = run.last_step()

        run, other = (hosts.pod(rank, "--set", "epochs=1000") for rank in (0, 1))
        resumed = run.wait_event("resume")
        check(resumed["step"] == last, f"resumed at {resumed['step']}, not {last}")
        run.wait_replicas(2)
        # Launcher killed: the agent ends its replica, seeks a new launcher, and exits on SIGTERM.
        kill(run.process.pid)
        other.says("lost the connection to the launcher")
        wait_until(lambda: not worker_of(other), "no replica without a launcher")
        other.signal(signal.SIGTERM)
        check(other.end() == 143, "an agent without a launcher does not leave")


def stands_still(folder, draw):
    """A host (agent and replica) is stopped with its connections open. The others continue without
    it, it rejoins when it continues, and the end of the run does not wait for it."""
    with Supervisor() as supervisor:
        supervisor.addresses = ["127.0.0.1"]
        hosts = Hosts(folder, supervisor)
        settings = ("--set", "epochs=1000", "--hang-timeout", "3")
        run, other = (hosts.pod(rank, *settings) for rank in (0, 1))
        run.wait_replicas(2)
        run.wait_steps_more(5)

        def freeze():
            stopped = [other.process.pid, worker_of(other)]
            for pid in stopped:
                kill(pid, signal.SIGSTOP)
            return stopped

        seen, stopped = run.count(), freeze()
        run.wait_replicas(1, after=seen)
        run.wait_steps_more(5)
        run.says("did not end replica 1 in time")
        seen = run.count()
        for pid in stopped:
            kill(pid, signal.SIGCONT)
        run.wait_replicas(2, after=seen)
        run.wait_steps_more(5)
        run.check_steps()

        stopped = freeze()
        run.request(request="cancel")
        run.expect_end(143)  # after the grace time of 30 s
        for pid in stopped:
            kill(pid, signal.SIGCONT)
        wait_until(lambda: not worker_of(other), "no replica without a launcher")
        other.signal(signal.SIGTERM)
        check(other.end() == 143, "an agent without a launcher does not leave")


def strangers(folder, draw):
    """Peers that do not know the key, or send nothing, delay nobody."""
    with Supervisor() as supervisor:
        supervisor.addresses = ["127.0.0.1"]
        hosts = Hosts(folder, supervisor)
        run = hosts.pod(0, "--set", "epochs=1000")
        run.wait_step(3)
        silent = [socket.create_connection(("127.0.0.1", hosts.port)) for _ in range(20)]
        loud = socket.create_connection(("127.0.0.1", hosts.port))
        loud.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
        other = hosts.pod(1, link_key=TOKEN)  # the token alone, which requests carry
        other.says("is not this run's launcher: it has another key")
        run.wait_steps_more(20)
        check(run.of("generation")[-1]["to"] == 1, "a stranger joined")
        other.signal(signal.SIGTERM)
        check(other.end() == 143, "the stranger does not end")
        silent[0].settimeout(60)
        check(not silent[0].recv(4096), "who says nothing is told something")
        friend = hosts.pod(2, "--set", "epochs=1000")
        run.wait_replicas(2)
        run.request(request="cancel")
        run.expect_end(143)
        check(friend.end() == 143, "the friend does not end")
        for connection in silent + [loud]:
            connection.close()


def unlike_processors(folder, draw):
    """A host whose C library has other code for its processor, with other last bits: the replicas
    agree on their statistics all the same."""
    with Supervisor() as supervisor:
        supervisor.addresses = ["127.0.0.1"]
        hosts = Hosts(folder, supervisor)
        settings = ("--set", "epochs=1000000", "--set", "statistics_every=1", "--set",
                    "optimizer.lr=1e-5")
        run = hosts.pod(0, *settings, name="adaptive")
        other = hosts.pod(1, *settings, name="adaptive",
                          GLIBC_TUNABLES="glibc.cpu.hwcaps=-FMA,-AVX2,-FMA4")
        run.wait_replicas(2)
        run.wait_steps_more(4000, 300)
        run.request(request="cancel", checkpoint=False)
        run.expect_end(143)
        check(other.end() == 143, "the agent of a run that was cancelled")
        check(not run.of("diverged"), "they differ", run.of("diverged"))


def hints(folder, draw):
    """The job's measurements and its progress reach the supervisor."""
    with Supervisor() as supervisor:
        supervisor.addresses = ["127.0.0.1"]
        run = Hosts(folder, supervisor).pod(0, "--set", "epochs=600")
        wait_until(lambda: supervisor.hints, "hints")
        check(supervisor.hints[0]["initBatchSize"] > 0, "odd hints", supervisor.hints[0])
        # At first there are only the replica's own, such as the times of a step.
        metrics = wait_until(lambda: next(
            (known for known in [supervisor.hints[-1].get("trainMetrics", {})]
             if {"progress", "goodput"} <= known.keys()), None), "progress")
        check(0 < metrics["progress"] < metrics["progressTotal"] and metrics["step"] > 0 and
              metrics["loss"] > 0 and metrics["goodput"] > 0, "odd metrics", metrics)
        run.request(request="cancel", checkpoint=False)
        run.expect_end(143)


def charts(folder, draw):
    """The job's TensorBoard instance gets its charts; --tensorboard is another folder."""
    for flags, expected in (([], "volume"), (["--tensorboard", folder.file("mine")], "mine")):
        folder.environment["ADAPTDL_TENSORBOARD_LOGDIR"] = folder.file("volume")
        with Supervisor() as supervisor:
            supervisor.addresses = ["127.0.0.1"]
            run = Hosts(folder, supervisor).pod(0, "--set", "epochs=60", *flags)
            run.wait_step(20)
            run.request(request="cancel", checkpoint=False)
            run.expect_end(143)
        check_charts(folder.file(expected), 20)
        check(expected == "volume" or not os.path.exists(folder.file("volume")), "charts in both")
        shutil.rmtree(folder.file(expected))


def unlike_accelerators(folder, draw):
    """Replicas on two kinds measure a kind of its own; alone again, the first one goes on."""
    with Supervisor() as supervisor:
        supervisor.addresses = ["127.0.0.1"]
        hosts = Hosts(folder, supervisor)
        settings = ("--set", "epochs=1000000")
        run = hosts.pod(0, *settings, name="adaptive", ADAPTDL_ACCELERATOR="T4")
        wait_until(lambda: supervisor.hints, "hints")
        other = hosts.pod(1, *settings, name="adaptive", ADAPTDL_ACCELERATOR="A100")
        run.wait_replicas(2)
        wait_until(lambda: supervisor.hints[-1]["accelerator"] == "A100+T4", "both kinds")
        check(set(supervisor.hints[-1]["accelerators"]) == {"A100+T4", "T4"}, "mixed kinds",
              supervisor.hints[-1])
        seen = run.count()
        other.signal(signal.SIGTERM)
        run.wait_replicas(1, after=seen)
        wait_until(lambda: supervisor.hints[-1]["accelerator"] == "T4", "the first kind")
        check(set(supervisor.hints[-1]["accelerators"]) == {"A100+T4", "T4"}, "forgotten kinds",
              supervisor.hints[-1])
        run.request(request="cancel", checkpoint=False)
        run.expect_end(143)
        check([event["accelerator"] for event in run.of("generation")] == ["T4", "A100+T4", "T4"],
              "the events' kinds", run.of("generation"))
        run.check_steps(may_drop=True)


main(comes_and_goes, launcher_goes, stands_still, strangers, unlike_processors, hints, charts,
     unlike_accelerators)
