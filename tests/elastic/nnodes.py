"""`adaptdl run --nnodes`: one command typed on each host trains on all of them. Each host has a
network namespace of its own, and its own configuration folder."""

import os
import signal

from support import Site, check, kill, main, read, same_losses, worker_of

NEVER = ("--set", "epochs=1000000")
STEPS_PER_EPOCH = 40  # of slow.pt


def finishes(site, last):
    """The same run goes on from its last step, on two hosts, to an end that they reach together."""
    epochs = last // STEPS_PER_EPOCH + 2
    run, other = (site.run(host, "2", "--set", f"epochs={epochs}") for host in (0, 1))
    check(run.wait_event("resume")["step"] == last, "goes on elsewhere", last)
    run.expect_end(0)
    check(other.end() == 0, "a host of a finished run")
    other.says("this host's part of run slow has ended, with exit code 0")
    check({event["to"] for event in run.of("generation")} == {2}, "not both hosts from the start")
    run.check_steps(last + 1, epochs * STEPS_PER_EPOCH)


def meets(folder, draw):
    """The host that the endpoint names leads, and waits for MIN; others come and go, never more
    than MAX; all end with the run."""
    with Site(folder, 4) as site:
        run = site.run(0, "2:3", *NEVER)
        site.share_key()
        run.says(f"waiting for hosts: 1 of at least 2 are here (TCP port {site.port})")
        check(not run.of("generation"), "it does not wait for the second host")
        others = [site.run(1, "2:3", *NEVER, "--replicas", "2")]
        check(run.wait_event("generation")["to"] == 3, "not all replicas start together")
        others.append(site.run(2, "2:3", *NEVER))
        run.wait_replicas(4)
        late = site.run(3, "2:3", *NEVER)
        late.says("cannot join the run yet: the run has 3 hosts already, as many as it takes")

        seen = run.count()
        others[0].signal(signal.SIGTERM)
        check(others[0].end() == 143, "a host that was told to go")
        run.wait_replicas(3, after=seen)  # 1 + 1 + 1: there is a place for the late one
        check(not run.of("failure"), "a leave counts as a failure")

        seen = run.count()
        kill(others[1].process.pid)
        run.wait_replicas(2, after=seen)
        run.wait_steps_more(3)
        again = site.run(2, "2:3", *NEVER)
        run.wait_replicas(3, after=seen)
        run.wait_steps_more(3)
        run.request(request="cancel")
        run.expect_end(143)
        for other in (late, again):
            check(other.end() == 143, "a host of a cancelled run")
            other.says("this host's part of run slow has ended, with exit code 143")
        run.check_steps()
        check("does not share" not in late.said(), "says that a shared folder is none")
        finishes(site, run.last_step())


def before_the_leader(folder, draw):
    """A host waits for the one that leads, also the one that the endpoint names if --node-rank says
    that it does not; a stop of the leader stops all. Then the same commands go on where they
    stopped."""
    with Site(folder, 2) as site:
        early = site.run(0, "2", *NEVER, "--node-rank", "1")
        site.share_key()
        early.says("cannot reach the launcher yet")
        early.signal(signal.SIGINT)
        check(early.end() == 130, "Ctrl-C before there is a launcher")

        other = site.run(1, "2", *NEVER)
        other.says("cannot reach the launcher yet")
        run = site.run(0, "2", *NEVER)
        run.wait_replicas(2)
        run.wait_steps_more(5)
        run.signal(signal.SIGINT)
        run.expect_end(130)
        check(other.end() == 130, "a host of a stopped run")
        last = run.last_step()
        run, other = (site.run(host, "2", *NEVER) for host in (0, 1))
        check(run.wait_event("resume")["step"] == last, "goes on elsewhere")
        run.wait_replicas(2)
        seen = run.count()
        kill(worker_of(other))  # the host goes on
        run.wait_event("failure")
        run.wait_replicas(2, after=seen)
        run.wait_steps_more(3)
        run.signal(signal.SIGTERM)
        run.expect_end(143)
        check(other.end() == 143, "a host of a stopped run")


def refused(folder, draw):
    """Who has another key or another command is told so, and disturbs nobody; who has other folders
    is told what that may cost."""
    with Site(folder, 3) as site:
        run = site.run(0, "1:3", *NEVER)
        stranger = site.run(1, "1:3", *NEVER)
        stranger.says("is not this run's launcher: it has another key")
        stranger.says(f"All hosts of a run need the same {site.key(1)}: copy it from the host "
                       "that leads")
        stranger.signal(signal.SIGTERM)
        check(stranger.end() == 143, "a stranger does not end")
        site.share_key()
        for words, sentence in (
                (("--set", "epochs=7"), "its list of --set is epochs=7, that of the launcher's "
                                        "host epochs=1000000; all hosts need the same"),
                ((*NEVER, "--plain-links"), "its --plain-links is given, that of the")):
            other = site.run(1, "1:3", *words)
            check(other.end() == 1, "a host with another command does not fail")
            other.says(f"the launcher refuses this host: {sentence}")
        os.chmod(site.key(2), 0o644)
        open_key = site.run(2, "1:3", *NEVER)
        check(open_key.end() == 1, "a key that all can read is taken")
        open_key.says("others can read this key")
        check(all(e["to"] == 1 for e in run.of("generation")), "a stranger joined")

        apart = site.run(1, "1:3", *NEVER, "--checkpoint-dir", folder.file("elsewhere"))
        apart.says("this host does not share the launcher's checkpoint folder")
        run.wait_replicas(2)
        run.wait_steps_more(3)
        run.request(request="cancel")
        run.expect_end(143)
        check(apart.end() == 143, "a host of a cancelled run")


def scaled(folder, draw):
    """Who has asked for fewer replicas keeps them when hosts come."""
    with Site(folder, 3) as site:
        run = site.run(0, "1:3", *NEVER, "--replicas", "2")
        site.share_key()
        run.wait_replicas(2)
        other = site.run(1, "1:3", *NEVER, "--replicas", "2")
        run.wait_replicas(4)
        seen = run.count()
        run.request(request="scale", replicas=3)
        run.wait_replicas(3, after=seen)
        late = site.run(2, "1:3", *NEVER)
        late.says("joined the run")
        run.wait_steps_more(5)
        check(run.of("generation")[-1]["to"] == 3, "a host that comes changes what was asked for")
        for host in (other, late):
            host.signal(signal.SIGTERM)
            check(host.end() == 143, "a host that was told to go")
        run.wait_size(2)
        run.wait_steps_more(3)
        run.request(request="cancel")
        run.expect_end(143)
        run.check_steps()


def learns(site, *words):
    """The losses of two epochs on two hosts."""
    run = site.run(0, "2", "--set", "epochs=2", "--fresh", *words)
    if not os.path.exists(site.key(1)):
        site.share_key()
    other = site.run(1, "2", "--set", "epochs=2", *words)
    run.expect_end(0)
    check(other.end() == 0, "a host of a finished run")
    run.check_steps(last=80)
    return run.losses()


def sent_by(pid):
    """Bytes by all devices of the network that this process has."""
    table = read(f"/proc/{pid}/net/dev")
    return sum(int(line.split(":")[1].split()[8]) for line in table.splitlines()[2:])


def sent_a_step(site, *words):
    """Bytes by host 0, the least of three times 50 steps: others have something else in them."""
    words = ("--set", "batch.initial=12", "--fresh", *words)
    runs = [site.run(host, "2", *NEVER, *words, program="wide") for host in (0, 1)]
    runs[0].wait_replicas(2)
    runs[0].wait_steps_more(3)
    least = float("inf")
    for _ in range(3):
        step, before = runs[0].last_step(), sent_by(runs[0].process.pid)
        runs[0].wait_step(step + 50)
        last, after = runs[0].last_step(), sent_by(runs[0].process.pid)
        least = min(least, (after - before) / (last - step))
    runs[0].request(request="cancel", checkpoint=False)
    for run in runs:
        check(run.end() == 143, "a host of a cancelled run")
    return least


def compressed(folder, draw):
    """Rounded gradients take half the bytes between hosts, and train nearly the same."""
    with Site(folder, 2) as site:
        exact, near = learns(site), learns(site, "--set", "gradient_compression=bf16")
        same_losses(near, exact, 0.05)
        check(near != exact, "nothing was rounded")
        exact, near = sent_a_step(site), sent_a_step(site, "--set", "gradient_compression=bf16")
        check(0.4 < near / exact < 0.65, "bytes", near, exact)


main(meets, before_the_leader, refused, scaled, compressed)
