"""The launcher's host is lost: another host leads the run, and the replicas go on where they are,
without a checkpoint. Never do two sides train."""

import fcntl
import itertools
import json
import os
import shutil
import signal
import time

from support import Site, check, children_of, kill, main, wait_until, worker_of, write

NEVER = ("--set", "epochs=1000000")
OFTEN = ("--host-timeout", "1", "--set", "checkpoint_interval_s=1")
SOON = 12  # seconds, on a loaded machine


def lose(run):
    """Its host: the launcher with what it has started."""
    kill(run.process.pid)
    lost_at = time.monotonic()
    run.process.wait()
    run.reader.join(5)  # what it has told last
    return run.last_step(), lost_at


def goes_on(run, replicas, step, lost_at, after=0):
    """`run`: of the host that leads now, which has done so since the step; its events from `after`
    on."""
    run.wait_event("generation", after=after, to=replicas, cause="death")
    run.wait_step(step + 1)
    took = time.monotonic() - lost_at
    check(took < SOON, f"training goes on after {took:.1f} s")
    check(not run.of("resume"), "a checkpoint was read")
    steps = [event["step"] for event in run.events[after:] if event["event"] == "step"]
    check(steps[0] <= step + 2, f"finished steps are repeated or lost: {step}, then {steps[:3]}")
    # A launcher may tell again what the lost one was about to.
    check(all(b <= a + 1 for a, b in itertools.pairwise(steps)), "steps are lost", steps)


def told_to_go(runs):
    for run in runs:
        run.signal(signal.SIGTERM)
    for run in runs:
        check(run.end() == 143, "a host that was told to go")


def three_train(site, *words):
    """The runs of three hosts, of which the first leads; in this order the others would lead."""
    runs = [site.run(0, "1:3", *NEVER, *words)]
    site.share_key()
    for host in (1, 2):
        runs.append(site.run(host, "1:3", *NEVER, *words))
        runs[0].wait_replicas(host + 1)
    runs[0].wait_steps_more(5)
    return runs


def folder_decides(folder, draw):
    """Hosts that share the checkpoint folder: whoever gets its lock leads, as often as that is
    needed. Hosts that were lost come again, and the run ends as if nothing had been."""
    with Site(folder, 3) as site:
        runs = three_train(site)
        goes_on(runs[1], 2, *lose(runs[0]))
        runs[1].says("this host leads the run now; 2 of 3 hosts go on")
        runs[2].says("follows the launcher at")
        # Only the process that leads: its host's replica goes on, too.
        lost_at = time.monotonic()
        kill(runs[1].wait_event("start")["pid"])
        runs[2].wait_event("generation", to=2, cause="death")
        goes_on(runs[2], 2, runs[1].last_step(), lost_at)  # by now its last step has been read
        seen = runs[2].count()
        kill(runs[1].process.pid)
        runs[2].wait_replicas(1, after=seen)
        runs[2].wait_steps_more(3)
        late = [site.run(host, "1:3", *NEVER) for host in (0, 1)]
        late[0].says("leads this run now, so this host joins it")
        runs[2].wait_replicas(3)
        runs[2].wait_steps_more(3)
        runs[2].request(request="cancel")
        check(runs[2].end() == 143, "the host that leads ends with the run")
        for run in late:
            check(run.end() == 143, "a host of a cancelled run")


def majority_decides(folder, draw):
    """Hosts that share nothing: two of three go on; one of two cannot know whether the other one
    trains, and waits for it without a replica."""
    with Site(folder, 3, apart=True) as site:
        runs = [site.run(0, "1:3", *NEVER)]
        site.share_key()
        runs.append(site.run(1, "1:3", *NEVER, "--replicas", "2"))
        runs[0].wait_replicas(3)
        runs.append(site.run(2, "1:3", *NEVER))
        runs[0].wait_replicas(4)
        runs[0].wait_steps_more(5)
        goes_on(runs[1], 3, *lose(runs[0]))
        seen = runs[1].count()
        kill(runs[2].process.pid)
        runs[1].wait_replicas(2, after=seen)
        runs[1].wait_steps_more(5)
        seen = runs[1].count()
        other = site.run(2, "1:3", *NEVER)
        runs[1].wait_replicas(3, after=seen)
        runs[1].signal(signal.SIGTERM)
        check(runs[1].end() == 143, "a host that leads and was told to go")
        other.signal(signal.SIGTERM)
        check(other.end() == 143, "a host without a run")


def all_told(folder, draw):
    """Hosts that share nothing are all told to stop, the one that leads among them: they end soon,
    with a checkpoint of the last step, whoever leaves first."""
    for pause in (0, draw.uniform(0, 0.3)):
        with Site(folder, 3, apart=True) as site:
            runs = three_train(site)
            goes_on(runs[1], 2, *lose(runs[0]))
            # So that the host that leads has the last rank.
            seen = runs[1].count()
            kill(worker_of(runs[1]))
            runs[1].wait_replicas(2, after=seen)
            runs[1].wait_steps_more(5)
            told_at = time.monotonic()
            runs[1].signal(signal.SIGTERM)
            time.sleep(pause)
            runs[2].signal(signal.SIGTERM)
            for run in runs[1:]:
                check(run.end() == 143, "a host that was told to go")
            took = time.monotonic() - told_at
            check(took < 2 * SOON, f"hosts that were told to go end after {took:.1f} s")
            kept = max(int(name[5:]) for host in (1, 2)
                       for name in os.listdir(folder.file(f"host-{host}"))
                       if name.startswith("step-"))
            check(kept >= runs[1].last_step(), "steps are lost", kept, runs[1].last_step())
        for host in (0, 1, 2):
            shutil.rmtree(folder.file(f"host-{host}"))


def leads_again(folder, draw):
    """The process that leads is killed on one host after the other: each is to leave the next
    attempt to others, but not when there are none."""
    with Site(folder, 2) as site:
        runs = [site.run(0, "1:2", *NEVER)]
        site.share_key()
        runs.append(site.run(1, "1:2", *NEVER))
        runs[0].wait_replicas(2)
        runs[0].wait_steps_more(5)
        goes_on(runs[1], 1, *lose(runs[0]))
        for _ in range(2):
            seen, step = runs[1].count(), runs[1].last_step()
            kill(runs[1].of("start")[-1]["pid"])
            lost_at = time.monotonic()
            runs[1].wait_event("start", after=seen)
            goes_on(runs[1], 1, step, lost_at, after=seen)
        runs[1].request(request="cancel")
        check(runs[1].end() == 143, "the end of a cancelled run")


def parted_train(site, runs, trains, others):
    """These hosts are cut off from those, and go on, with the first host, to a newer checkpoint.
    Returns its step; then they are killed, and the cut is over."""
    seen = runs[0].count()
    site.network.fail_between(trains, others, cut=True)
    cut_at = runs[0].last_step()
    runs[0].wait_replicas(len(trains), after=seen)
    kept = runs[0].wait_for(
        lambda events: next((event["step"] for event in events if event["event"] == "checkpoint" and
                             event["step"] > cut_at + 50), None), "a new checkpoint")
    for host in trains:
        kill(runs[host].process.pid)
    site.network.heal()
    return kept


def goes_on_from(run, kept, replicas):
    """Its host leads now, from the checkpoint of that step or a newer one."""
    resumed = run.wait_event("resume")
    check(resumed["step"] >= kept, "an old state", kept, resumed)
    run.says("have trained without these")
    run.wait_replicas(replicas)
    run.wait_steps_more(3)
    check(min(event["step"] for event in run.of("step")) > kept, "steps are repeated")


def left_out(folder, draw):
    """A host was cut off and the others went on, until they died: it has kept a state that is older
    than their newest checkpoint, so that it leads from there."""
    with Site(folder, 3) as site:
        runs = three_train(site, *OFTEN)
        goes_on_from(runs[2], parted_train(site, runs, [0, 1], [2]), 1)
        runs[2].request(request="cancel")
        check(runs[2].end() == 143, "the end of a cancelled run")


def led_alone(folder, draw):
    """The host that leads was cut off from all others, trained on alone, and died: the others have
    kept a state that is older than its newest checkpoint, so that they go on from there."""
    with Site(folder, 3) as site:
        runs = three_train(site, *OFTEN)
        kept = parted_train(site, runs, [0], [1, 2])
        wait_until(lambda: any(run.of("resume") for run in runs[1:]), "a host that leads")
        goes_on_from(next(run for run in runs[1:] if run.of("resume")), kept, 2)
        told_to_go(runs[1:])


def first_comes_again(folder, draw):
    """A host that leads was lost, shares nothing with the others, and comes again by the same
    command, as one that a service manager starts: it joins those that went on. So does one that did
    not lead, while the named one does not lead any more."""
    with Site(folder, 3, apart=True) as site:
        runs = three_train(site)
        goes_on(runs[1], 2, *lose(runs[0]))
        seen = runs[1].count()
        runs[0] = site.run(0, "1:3", *NEVER)
        runs[0].says("leads this run now, so this host joins it")
        runs[1].wait_replicas(3, after=seen)
        seen = runs[1].count()
        kill(runs[2].process.pid)
        runs[1].wait_replicas(2, after=seen)
        runs[2] = site.run(2, "1:3", *NEVER)
        runs[1].wait_replicas(3, after=seen)
        runs[1].wait_steps_more(3)
        check(not runs[0].events, "the host that came again trains, too")
        told_to_go(runs)


def partition(folder, draw):
    """The launcher is cut off from both others, which train without it; it waits, and joins them
    when it reaches them again."""
    with Site(folder, 3, apart=True) as site:
        runs = three_train(site, "--host-timeout", "1")
        site.request(0, request="scale", replicas=3)  # it says nothing of hosts lost later
        runs[0].wait_steps_more(5)
        cut_at = time.monotonic()
        site.network.fail_between([0], [1, 2], cut=True)
        runs[0].says("lost so many hosts at once that they may go on without this one")
        last = runs[0].last_step()
        goes_on(runs[1], 2, last, cut_at)
        runs[1].wait_steps_more(20)
        check(runs[0].last_step() == last, "both sides train")
        site.network.heal()
        seen = runs[1].count()
        runs[0].says("leads this run now, so this host joins it")
        runs[1].wait_replicas(3, after=seen)
        runs[1].wait_steps_more(3)
        check(runs[0].last_step() == last, "the one that was cut off trains for itself")
        told_to_go(runs)


def comes_again_parted(folder, draw):
    """The host of the endpoint dies while it is cut off from the others, which go on. It comes
    again, still cut off, and waits until it reaches them. Where nothing is left of them, it trains;
    and where they cannot be reached, as soon as somebody says that they are down."""
    words = (*NEVER, "--host-timeout", "1")
    with Site(folder, 3, apart=True) as site:
        runs = three_train(site, "--host-timeout", "1")
        site.network.fail_between([0], [1, 2], cut=True)
        goes_on(runs[1], 2, *lose(runs[0]))
        runs[0] = site.run(0, "1:3", *words)
        runs[0].says("10.77.0.2, 10.77.0.3 cannot be reached, and may have gone on without this")
        runs[1].wait_steps_more(20)
        check(not runs[0].of("generation"), "both sides train")
        seen = runs[1].count()
        site.network.heal()
        runs[0].says("leads this run now, so this host joins it")
        runs[1].wait_replicas(3, after=seen)
        runs[1].wait_steps_more(3)
        for run in runs:
            kill(run.process.pid)
        runs[0] = site.run(0, "1:3", *words)
        runs[0].wait_replicas(1)
        runs[0].wait_steps_more(3)
        runs[1] = site.run(1, "1:3", *words)
        runs[2] = site.run(2, "1:3", *words)
        runs[0].wait_replicas(3)
        runs[0].wait_steps_more(3)
        kill(runs[0].process.pid)
        site.network.fail_between([0], [1, 2], cut=True)
        runs[0] = site.run(0, "1:3", *words)
        runs[0].says("cannot be reached, and may have gone on without this host")
        check(not runs[0].of("generation"), "it does not wait")
        site.request(0, request="scale", replicas=1)
        runs[0].wait_replicas(1)
        runs[0].wait_steps_more(3)
        told_to_go(runs)


def changes_sides(folder, draw):
    """The launcher was cut off and waits, while the others go on. One of these is cut off from the
    other one and comes again where only the waiting launcher is: never do both train."""
    words = ("--host-timeout", "1")
    with Site(folder, 3, apart=True) as site:
        runs = three_train(site, *words)
        site.network.fail_between([0], [1, 2], cut=True)
        runs[0].says("lost so many hosts at once that they may go on without this one")
        last = runs[0].last_step()
        runs[1].wait_event("generation", to=2, cause="death")
        runs[1].wait_steps_more(5)
        seen = runs[1].count()
        site.network.fail_between([1], [2], cut=True)
        kill(runs[2].process.pid)
        runs[1].wait_replicas(1, after=seen)
        site.network.fail_between([0], [2])
        runs[2] = site.run(2, "1:3", *NEVER, *words)
        runs[0].says("another host has led the run since")
        runs[0].says("10.77.0.2 cannot be reached, and may have gone on without this host")
        runs[1].wait_steps_more(20)
        check(runs[0].last_step() == last, "both sides train")
        seen = runs[1].count()
        site.network.heal()
        runs[0].says("leads this run now, so this host joins it")
        runs[1].wait_replicas(3, after=seen)
        runs[1].wait_steps_more(3)
        told_to_go(runs)


def in_its_place(folder, draw):
    """Of two hosts that share nothing the one that leads is lost. The other one waits, until the
    same command on that host shows that what it had is gone; but not the checkpoints that it wrote
    while it trained alone."""
    for alone in (False, True):
        with Site(folder, 3, apart=True) as site:
            runs = three_train(site, *OFTEN)
            goes_on(runs[1], 2, *lose(runs[0]))
            seen = runs[1].count()
            runs[0] = site.run(0, "1:3", *NEVER, *OFTEN)
            runs[1].wait_replicas(3, after=seen)
            seen = runs[1].count()
            kill(runs[2].process.pid)
            runs[1].wait_replicas(2, after=seen)
            runs[1].wait_steps_more(5)
            if alone:
                seen = runs[1].count()
                site.network.fail_between([0], [1], cut=True)
                runs[1].wait_replicas(1, after=seen)
                runs[1].wait_steps_more(20)
                kept = runs[1].wait_event("checkpoint", after=runs[1].count())["step"]
            step, _ = lose(runs[1])
            runs[0].says("lost the connection to the launcher")
            time.sleep(1)
            check(not runs[0].of("generation"), "it does not wait")
            site.network.heal()
            runs[1] = site.run(1, "1:3", *NEVER, *OFTEN)
            runs[0].says("this host leads the run now; 2 of 2 hosts go on")
            if alone:
                goes_on_from(runs[0], kept, 2)
            else:
                runs[0].wait_step(step + 1)
                check(not runs[0].of("resume"), "a checkpoint was read")
            runs[0].wait_replicas(2)
            told_to_go(runs[:2])
        for host in (0, 1, 2):
            shutil.rmtree(folder.file(f"host-{host}"))


def two_and_a_witness(site):
    """The runs of two hosts, of which the first leads, and of a third one, which trains nothing."""
    words = (*NEVER, "--host-timeout", "1")
    runs = [site.run(0, "2", *words)]
    site.share_key()
    witness = site.run(2, "2", *words, "--witness")
    witness.says("as a witness")
    runs[0].says("waiting for hosts: 1 of at least 2 are here")
    check(not runs[0].of("generation"), "a witness counts as a host that trains")
    runs.append(site.run(1, "2", *words))
    runs[0].wait_replicas(2)
    runs[0].wait_steps_more(5)
    return [*runs, witness]


def witness(folder, draw):
    """Two hosts share nothing. Whichever is lost, the other one goes on, by a witness."""
    with Site(folder, 3, apart=True) as site:
        runs = two_and_a_witness(site)
        # The witness, too, may be lost, and comes again.
        kill(runs[2].process.pid)
        runs[0].says("is gone")
        runs[0].wait_steps_more(3)
        runs[2] = site.run(2, "2", *NEVER, "--host-timeout", "1", "--witness")
        runs[2].says("as a witness")
        runs[0].wait_steps_more(3)
        goes_on(runs[1], 1, *lose(runs[0]))
        runs[2].says("follows the launcher at")
        seen = runs[1].count()
        runs[0] = site.run(0, "2", *NEVER, "--host-timeout", "1")
        runs[0].says("leads this run now, so this host joins it")
        runs[1].wait_replicas(2, after=seen)
        runs[1].wait_steps_more(3)
        goes_on(runs[0], 1, *lose(runs[1]))
        told_to_go([runs[0], runs[2]])


def witness_parted(folder, draw):
    """Two hosts, and a witness, are cut off from each other: never do both train."""
    with Site(folder, 3, apart=True) as site:
        runs = two_and_a_witness(site)

        def only(trains, waits):
            last = waits.last_step()
            trains.wait_steps_more(20)
            check(waits.last_step() == last, "both sides train")
            seen = trains.count()
            site.network.heal()
            trains.wait_replicas(2, after=seen)
            trains.wait_steps_more(3)

        seen = runs[0].count()
        site.network.fail_between([1], [0], cut=True)  # both reach the witness
        runs[0].wait_replicas(1, after=seen)
        only(runs[0], runs[1])
        check(not runs[1].of("generation"), "the other one has led")
        site.network.fail_between([0], [1, 2], cut=True)
        runs[0].says("lost so many hosts at once that they may go on without this one")
        runs[1].wait_event("generation", to=1, cause="death")
        only(runs[1], runs[0])
        told_to_go(runs)


def long_ago(folder, draw):
    """What a host wrote that led an earlier run, and died, leads nobody astray."""
    with Site(folder, 2) as site:
        place = {"start": "", "addresses": [site.network.address(1)], "port": site.port}
        os.makedirs(folder.file("slow.run", "checkpoints"))
        write(folder.file("slow.run", "checkpoints", "leader.json"), json.dumps(place))
        other = site.run(1, "2", *NEVER)
        wait_until(lambda: os.path.exists(site.key(1)), "a key")
        os.makedirs(os.path.dirname(site.key(0)), exist_ok=True)
        shutil.copy(site.key(1), site.key(0))
        run = site.run(0, "2", *NEVER)
        run.wait_replicas(2)
        run.wait_steps_more(3)
        run.request(request="cancel")
        check(run.end() == 143 and other.end() == 143, "hosts of a cancelled run")


def nobody_leads(folder, draw):
    """The named host has come again, and is about to join the one that leads, which dies: none of
    those that are left has ever trained. The named one leads, from the newest checkpoint."""
    with Site(folder, 2) as site:
        words = (*NEVER, "--host-timeout", "1")
        run = site.run(0, "1:2", *words)
        site.share_key()
        other = site.run(1, "1:2", *words)
        run.wait_replicas(2)
        run.wait_event("checkpoint")
        goes_on(other, 1, *lose(run))
        whole = [other.process.pid, *children_of(other.process.pid)]
        for pid in whole:
            kill(pid, signal.SIGSTOP)
        run = site.run(0, "1:2", *words)
        run.says("leads this run now, so this host joins it")
        for pid in whole:
            kill(pid)
        other = site.run(1, "1:2", *words)
        run.says("nobody leads the run any more, so this host does")
        run.wait_event("resume")
        run.wait_replicas(2)
        run.wait_steps_more(3)
        run.request(request="cancel")
        check(run.end() == 143 and other.end() == 143, "hosts of a cancelled run")


def taken_for_a_moment(folder, draw):
    """The named host begins to lead while another process has the folder's lock, which may be one
    that takes over: it looks again for who leads, and leads itself if nobody does."""
    with Site(folder, 2) as site:
        os.makedirs(folder.file("slow.run", "checkpoints"))
        with open(folder.file("slow.run", "checkpoints", "run.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run = site.run(0, "1:2", *NEVER)
            time.sleep(2)
            check(not run.events and run.process.poll() is None, "it has not waited", run.said())
        run.wait_steps_more(3)
        run.request(request="cancel")
        check(run.end() == 143, "the end of a cancelled run")


def comes_again_at_once(folder, draw):
    """The leading host dies while it cannot be heard, and comes again before the others know: they
    go on with what they have finished, and it joins them, whether they share a folder or not."""
    for apart in (False, True):
        with Site(folder, 3, apart=apart) as site:
            runs = three_train(site)
            runs[0].wait_steps_more(20)
            site.network.fail_between([0], [1, 2], cut=True)
            lost = lose(runs[0])
            time.sleep(0.5)
            site.network.heal()
            runs[0] = site.run(0, "1:3", *NEVER)
            goes_on(runs[1], 2, *lost)
            runs[0].says("leads this run now, so this host joins it")
            runs[1].wait_replicas(3)
            runs[1].wait_steps_more(3)
            check(not runs[0].events, "the host that came again trains, too")
            told_to_go(runs)


main(folder_decides, majority_decides, all_told, comes_again_at_once, leads_again, left_out,
     led_alone, first_comes_again, partition, comes_again_parted, changes_sides, in_its_place,
     witness, witness_parted, long_ago, nobody_leads, taken_for_a_moment)
