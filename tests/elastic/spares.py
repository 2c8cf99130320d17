"""Spares: replicas that have loaded the program, and take the place of those that die."""

import contextlib
import os
import signal

from support import Site, check, children_of, kill, main, wait_until

STATES = {"active": 2, "spare": 1}


def can_be_held(folder):
    """Workers that do not start to load while held()."""
    held = folder.file("held")
    return folder.worker_after(f"while test -e '{held}'; do sleep 0.05; done")


@contextlib.contextmanager
def held(folder):
    """Meanwhile nothing but a spare that is ready can join."""
    path = folder.write("held")
    yield
    os.remove(path)


def members(run):
    return run.request(request="status")["members"]


def states(run):
    found = {}
    for member in members(run):
        found.setdefault(member["state"], []).append(member)
    return found


def wait_spare(run):
    """The spare, once it is ready beside two replicas that train."""
    run.wait_step(1)
    found = wait_until(lambda: next((now for now in [states(run)] if {
        state: len(members) for state, members in now.items()} == STATES), None),
        "two replicas and a spare", tell=lambda: str(states(run)))
    return found["spare"][0]


def takes_the_place(folder, draw):
    """The spare joins while no other replica can, after a death and after a leave, and with the
    state: no step is lost. Then there is another spare."""
    run = folder.run(folder.program("slow"), "--replicas", "2", "--spares", "1",
                     "--set", "epochs=1000000", **can_be_held(folder))
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        spare = wait_spare(run)
        with held(folder):
            seen = run.count()
            kill(draw.choice(list(run.members().values())), number)
            found = run.wait_for(lambda events: next(
                (e for e in events[seen:] if e["event"] == "generation" and e["to"] == 2), None),
                "two replicas again")
            check(found["members"][-1] == spare["member"], "not the spare", found)
            run.wait_event("step", after=run.events.index(found), replicas=2)
    wait_spare(run)
    code, out, err = folder.command("ls")
    check(code == 0 and "2 + 1 spare" in out, "ls does not show the spare", out, err)
    failures = run.of("failure")
    check(len(failures) == 2 and failures[0]["next"] == "1 of 2 continue, a spare takes its place",
          "other failures", failures)
    run.signal(signal.SIGINT)
    run.expect_end(130)
    run.check_steps()


def spare_dies(folder, draw):
    """Those that train do not notice it, and there is another spare, which a scale takes."""
    run = folder.run(folder.program("slow"), "--replicas", "2", "--spares", "1",
                     "--set", "epochs=1000000")
    spare = wait_spare(run)
    kill(spare["pid"])
    wait_until(lambda: spare["member"] not in [m["member"] for m in members(run)], "its end")
    spare = wait_spare(run)
    check(len(run.of("generation")) == 1, "the members changed", run.of("generation"))
    check([e["next"] for e in run.of("failure")] == ["2 of 2 continue"], "another failure")
    run.request(request="scale", replicas=3)
    grown = run.wait_event("generation", to=3)
    check(grown["members"][-1] == spare["member"], "not the spare", grown)
    wait_until(lambda: len(states(run).get("spare", [])) == 1, "the next spare")
    run.signal(signal.SIGTERM)
    run.expect_end(143)
    run.check_steps()


def on_hosts(folder, draw):
    """One slot of three hosts is for a spare: it takes the place of a replica whose host is lost,
    be it the leading one, and the host that comes again has the next spare."""
    with Site(folder, 3) as site:
        words = ("1:3", "--spares", "1", "--host-timeout", "1", "--set", "epochs=1000000")
        workers = can_be_held(folder)
        runs = [site.run(0, *words, **workers)]
        site.share_key()
        runs += [site.run(host, *words, **workers) for host in (1, 2)]
        leads = runs[0]
        for lost in ("one that trains", "the one that leads"):
            spare = wait_spare(leads)
            if lost == "one that trains":
                host = next(host for host in (1, 2)
                            if spare["pid"] not in children_of(runs[host].process.pid))
            else:
                host = 0
                leads = next(run for run in runs[1:]
                             if spare["pid"] not in children_of(run.process.pid))
            with held(folder):
                seen = leads.count()
                kill(runs[host].process.pid)
                found = leads.wait_for(lambda events, seen=seen, spare=spare["member"]: next(
                    (e for e in events[seen:] if e["event"] == "generation"
                     and e["to"] == 2 and spare in e["members"]), None), "the spare trains")
                leads.wait_event("step", after=leads.events.index(found), replicas=2)
                check(not leads.of("resume"), "a checkpoint was read", lost)
            runs[host] = site.run(host, *words, **workers)
        wait_spare(leads)
        leads.request(request="cancel")
        check(leads.end() == 143, "the end of a cancelled run")


main(takes_the_place, spare_dies, on_hosts)
