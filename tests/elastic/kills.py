"""A SIGKILL of any replica at any time loses no finished step."""

import signal
import time

from support import check, kill, main, wait_until


def random_kills(folder, draw):
    """Kills replicas at random times on a busy machine: rank 0 as often as others, some while the
    previous replacement still starts, sometimes two at once."""
    folder.load(2)
    run = folder.run(folder.program("slow"), "--replicas", "3", "--set", "epochs=1000000",
                     "--set", "checkpoint_interval_s=0.5", "--max-restarts", "20")
    run.wait_replicas(3)
    run.wait_step(3)
    killed = set()
    while len(killed) < 6:
        time.sleep(draw.uniform(0.0, 1.2))  # a random time
        members = [pid for pid in run.members().values() if pid not in killed]
        if len(members) > 1 and draw.random() < 0.2:
            members = members[:-1] if draw.random() < 0.5 else members[1:]
        elif len(members) > 1:
            members = [members[0] if draw.random() < 0.5 else draw.choice(members[1:])]
        else:
            continue  # the only one with the state: tested elsewhere
        killed.update(pid for pid in members if kill(pid))
    seen = run.count()
    run.wait_size(3)
    check(run.count() >= seen, "events vanished")
    run.wait_steps_more(100)
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run.check_steps()
    failures = run.of("failure")
    check(all(event["signal"] == 9 for event in failures), "another failure")


def fault(folder, point, step, member, *arguments):
    run = folder.run(folder.program("slow"), "--replicas", "3", "--set", "epochs=1",
                     *arguments, ADAPTDL_FAULT=f"{point}:{step}:{member}")
    run.expect_end(0, 200)
    run.check_steps(last=40)
    failures = run.of("failure")
    check(len(failures) == 1 and failures[0]["member"] == member and failures[0]["signal"] == 9,
          f"{point}: not the one failure that was asked for")
    after = run.end_event()["time_s"] - run.of("step")[-1]["time_s"]
    check(after < 15, f"{point}: it took {after:.0f} s to end")
    return run


def die_at_points(folder, draw):
    """Replicas die at the worst points: after the gradients are reduced, and after the step is
    prepared by all, agreed to be finished, applied, and announced. Rank 0, which announces, and
    another."""
    points = ["reduced", "prepared", "committed", "applied", "announced"]
    for point, member in [(point, 0) for point in points] + [(p, 1) for p in draw.sample(points,
                                                                                         2)]:
        run = fault(folder, point, 9, member, "--name", f"{point}-{member}")
        changes = run.of("generation")
        check(len(changes) > 1 and changes[1]["to"] == 2 and changes[1]["immediate"],
              f"{point}: the others did not go on at once")
        folder.check_nothing_left()


def die_while_receiving(folder, draw):
    """New replicas, and senders of the state, die during the state transfer."""
    grow = ["--replicas", "1:3", "--replicas-at", "0:1,3:3", "--set", "epochs=1000"]
    for step, member in ((0, 1), (0, 2)):  # new replicas
        run = folder.run(folder.program("slow"), *grow, "--name", f"newcomer-{member}",
                         ADAPTDL_FAULT=f"syncing:{step}:{member}")
        death = run.wait_event("generation", cause="death")
        run.wait_replicas(3, after=run.events.index(death))
        run.wait_steps_more(20)
        check(run.of("generation")[-1]["to"] == 3, "not three at the end")
        # Only now: how long replicas take to start depends on the machine.
        run.signal(signal.SIGTERM)
        run.expect_end(143)
        run.check_steps()


def die_in_a_large_transfer(folder, draw):
    """During a transfer of 100 MB of state to a new replica, the new replica, the sender or both
    die. Another survivor has the state, so no step is lost."""
    run = folder.run(folder.program("large"), "--replicas", "2:3", "--replicas-at", "0:2",
                     "--max-restarts", "20")
    run.wait_step(2)
    for who in ("newcomer", "sender", "both"):
        wait_until(lambda: len(run.members()) == 2, "two replicas")
        seen, before = run.count(), list(run.members().values())
        run.request(request="scale", replicas=3)
        sender = before[0]

        def ready(before=before):  # or a member already, if this was not seen in time
            return [m["pid"] for m in run.request(request="status")["members"]
                    if m["state"] in ("ready", "active") and m["pid"] not in before]

        (newcomer,) = wait_until(ready, "a newcomer", every=0.005)
        # A random time: while it connects, all switch, or it receives.
        time.sleep(draw.uniform(0.0, 0.5))
        if who != "sender":
            kill(newcomer)
        if who != "newcomer":
            kill(sender)
        run.wait_event("failure", after=seen)
        wait_until(lambda: len(run.members()) == 3 and not run.starting(), "three replicas again")
        run.wait_steps_more(2)
        seen = run.count()
        run.request(request="scale", replicas=2)
        run.wait_replicas(2, after=seen)
    run.request(request="cancel", checkpoint=False)
    run.expect_end(143)
    run.check_steps()


main(random_kills, die_at_points, die_while_receiving, die_in_a_large_transfer)
