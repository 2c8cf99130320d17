"""Checkpoints in an object store (--checkpoint-mirror): a run goes on from there when its machine
is lost with all its files. Needs a Python with moto in ADAPTDL_TEST_MOTO; skipped (77) without."""

import json
import os
import shutil
import signal
import socket
import threading

from support import MOTO, ObjectStore, check, kill, main, skip_all, wait_until

PLACE = "s3://training/digits"
INDEX = "digits/checkpoints.json"
OFTEN = ["--set", "checkpoint_interval_s=0.001"]


def start(folder, store, *arguments, program="slow", place=PLACE, **environment):
    return folder.run(folder.program(program), "--checkpoint-mirror", place, *OFTEN, *arguments,
                      **store.environment, **environment)


def lose_machine(folder, run):
    """All processes of the run die at once, and its files are gone."""
    for pid in [run.process.pid, *folder.left()]:
        kill(pid)
    run.end()
    folder.check_nothing_left()
    shutil.rmtree(folder.file(run.name + ".run"))


def mirrored(run, step=1, after=0):
    """Waits until a checkpoint of at least that step is in the store; returns its step."""
    def find(events):
        return next((e["step"] for e in events[after:] if e["event"] == "mirror" and
                     "error" not in e and e["step"] >= step), None)
    return run.wait_for(find, f"a mirrored checkpoint of step {step} or later", 200)


def index_of(store):
    return json.loads(store.get(INDEX))


def resumed(run):
    return run.wait_event("resume")["step"]


def machine_lost(folder, draw):
    """Another machine goes on from the newest checkpoint in the store, and the end of the run waits
    for the last one. Nothing tells the secret."""
    store = ObjectStore(folder)
    run = start(folder, store, "--set", "max_steps=100000")
    for _ in range(4):  # more than are kept
        step = mirrored(run, run.last_step() + 1)
    lose_machine(folder, run)
    index = index_of(store)
    steps = [entry["step"] for entry in index["checkpoints"]]
    check(steps[0] >= step and steps == sorted(steps, reverse=True) and 2 <= len(steps) <= 3,
          "not the newest three", steps)

    run = start(folder, store, "--set", f"max_steps={steps[0] + 60}")
    check(resumed(run) == steps[0], "not from the mirrored step", steps, run.of("resume"))
    run.expect_end(0)
    run.check_steps(first=steps[0] + 1, last=steps[0] + 60)
    index = index_of(store)
    check(index["checkpoints"][0]["step"] == steps[0] + 60, "the last one is not there", index)
    listed = [f"digits/{entry['folder']}/{file['name']}" for entry in index["checkpoints"]
              for file in entry["files"]]
    check(sorted([INDEX, *listed]) == sorted(store.keys("digits/")),
          "other objects", listed, store.keys("digits/"))

    shutil.rmtree(folder.file("slow.run"))  # and once more: it has finished, and makes the model
    run = start(folder, store, "--set", f"max_steps={steps[0] + 60}")
    run.expect_end(0)
    check(not run.of("step"), "it trained on", run.of("step")[:1])
    check(os.path.exists(folder.file("slow.run", "model.pt")), "no model")

    secret = store.environment["AWS_SECRET_ACCESS_KEY"].encode()
    for top, _, files in os.walk(folder.path):
        for name in files:
            path = os.path.join(top, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    check(secret not in file.read(), f"the secret is in {path}")


class Cut:
    """A server between a run and its store that stops reading in the middle of the next large
    object, and says so."""

    def __init__(self, port):
        self.port, self.armed, self.cut = port, threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            for pair in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source, target, up):
        passed = 0
        try:
            while data := source.recv(65536):
                passed += len(data)
                if up and self.armed.is_set() and passed > 200000:
                    self.cut.set()
                    return  # neither reads nor closes
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.close()


def upload_cut(folder, draw):
    """A checkpoint of which only a part has been sent is not resumed from, and training does not
    wait for it; Ctrl-C during an upload that stands still ends the run. The next run removes what
    was sent."""
    store = ObjectStore(folder)
    cut = Cut(store.port)
    stuck = store.through(cut.url)
    for end in ("kill", "interrupt"):
        run = folder.run(folder.program("large"), "--checkpoint-mirror", PLACE, "--set",
                         "checkpoint_interval_s=1", **stuck)
        whole = mirrored(run)
        cut.armed.set()
        check(cut.cut.wait(200), "no upload was cut")
        run.wait_steps_more(2)
        if end == "interrupt":
            run.signal(signal.SIGINT)
            run.says("sending the last checkpoint")
            run.signal(signal.SIGINT)
            run.expect_end(130, 30)
            run.says("the last checkpoint is not in")
            shutil.rmtree(folder.file("large.run"))
        else:
            lose_machine(folder, run)
        cut.armed.clear()
        cut.cut.clear()
        index = index_of(store)
        newest = index["checkpoints"][0]["step"]
        check(newest >= whole and index["leftovers"], "the cut is not known", index)
        left = {"digits/" + key for key in index["leftovers"]}

        run = folder.run(folder.program("large"), "--checkpoint-mirror", PLACE, "--set",
                         f"max_steps={newest + 2}", **store.environment)
        check(resumed(run) == newest, "not from the one that is whole", newest, run.of("resume"))
        run.expect_end(0)
        index = index_of(store)
        listed = {f"digits/{entry['folder']}/{file['name']}" for entry in index["checkpoints"]
                  for file in entry["files"]}
        gone = (left - listed) & set(store.keys("digits/"))
        check(not gone, "leftovers stay", gone)
        shutil.rmtree(folder.file("large.run"))
        store.put(INDEX, json.dumps(index | {"checkpoints": []}).encode())
    cut.close()


def damaged(folder, draw):
    """A damaged object is refused with a sentence, and the checkpoint before it is taken; where
    none is intact, the run does not start from scratch by itself."""
    store = ObjectStore(folder)
    run = start(folder, store, "--set", "max_steps=100000")
    for _ in range(3):
        mirrored(run, run.last_step() + 1)
    lose_machine(folder, run)
    entries = index_of(store)["checkpoints"]
    check(len(entries) >= 2, "too few", entries)
    for number, entry in enumerate(entries):
        key = f"digits/{entry['folder']}/data.bin"
        content = bytearray(store.get(key))
        content[draw.randrange(len(content))] ^= 1
        store.put(key, bytes(content))
        if number > 0:
            continue
        # It is to send no newer one in its place until it is ended.
        run = start(folder, store, "--set", "checkpoint_interval_s=1000")
        check(resumed(run) == entries[1]["step"], "not the one before", run.of("resume"))
        check(f"the checkpoint of step {entry['step']} in {PLACE} is not usable: the SHA-256 of "
              "data.bin differs" in run.said(), "no sentence", run.said())
        lose_machine(folder, run)
        store.put(INDEX, json.dumps({"format": 1, "run": "slow", "checkpoints": entries,
                                     "leftovers": []}).encode())
    run = start(folder, store)
    run.expect_end(1)
    check("--fresh trains from scratch" in run.said(), "no advice", run.said())
    run = start(folder, store, "--fresh", "--set", "max_steps=20")
    run.expect_end(0)
    run.check_steps(last=20)
    check(index_of(store)["checkpoints"][0]["step"] == 20, "not mirrored")


def unusable_here(folder, draw):
    """A checkpoint of this machine that is damaged, or of a training that another machine has begun
    anew since, gives way to the one in the store; it stays under another name."""
    store = ObjectStore(folder)
    checkpoints = folder.file("slow.run", "checkpoints")
    run = start(folder, store, "--set", "max_steps=100000")
    mirrored(run, 30)
    run.signal(signal.SIGINT)
    run.expect_end(130)
    shutil.copytree(folder.file("slow.run"), folder.file("other.run"))
    newest = index_of(store)["checkpoints"][0]["step"]
    for broken in ("data.bin", "manifest.json"):
        name = f"step-{newest:012}"
        with open(os.path.join(checkpoints, name, broken), "rb+") as file:
            content = bytearray(file.read())
            content[draw.randrange(len(content))] ^= 1
            file.seek(0)
            file.write(content)
        run = start(folder, store, "--set", f"max_steps={newest + 20}")
        check(resumed(run) == newest, "not the one in the store", run.of("resume"))
        run.expect_end(0)
        check(f"{name} is damaged, or of an earlier training" in run.said(), "silent", run.said())
        check(f"not-used-{name}" in os.listdir(checkpoints), "gone", os.listdir(checkpoints))
        newest += 20

    run = start(folder, store, "--fresh", "--set", "max_steps=20")
    run.expect_end(0)
    shutil.rmtree(folder.file("slow.run"))
    os.rename(folder.file("other.run"), folder.file("slow.run"))
    run = start(folder, store, "--set", "max_steps=40")
    check(resumed(run) == 20, "the earlier training", run.of("resume"))
    run.expect_end(0)
    check(index_of(store)["checkpoints"][0]["step"] == 40, "not the newer one", index_of(store))


def refused(folder, draw):
    """What is wrong with the store is said, before the training or, once, during it."""
    store = ObjectStore(folder)
    mine = store.environment

    def says(code, *sentences, arguments=(), place=PLACE, **environment):
        run = folder.run(folder.program("slow"), "--checkpoint-mirror", place, "--set",
                         "max_steps=20", *arguments, **(mine | environment))
        run.expect_end(code)
        for sentence in sentences:
            check(sentence in run.said(), sentence, run.said())
        check(mine["AWS_SECRET_ACCESS_KEY"] not in run.said(), "the secret is told")

    says(1, "the secret does not belong to access key ..." + mine["AWS_ACCESS_KEY_ID"][-4:],
         AWS_SECRET_ACCESS_KEY="wrong")
    says(1, "does not know access key ...RONG: check AWS_ACCESS_KEY_ID",
         AWS_ACCESS_KEY_ID="AKIAWRONG")
    says(1, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", AWS_SECRET_ACCESS_KEY="")
    says(1, "there is no bucket nowhere at", place="s3://nowhere/digits")
    says(2, "is not s3://BUCKET/PREFIX", place="training/digits")
    with socket.socket() as silent:  # nobody else gets its port, and it does not listen
        silent.bind(("127.0.0.1", 0))
        says(1, "check AWS_ENDPOINT_URL and the network",
             AWS_ENDPOINT_URL=f"http://127.0.0.1:{silent.getsockname()[1]}")
    says(2, "on one machine only", arguments=("--nnodes", "2", "--node-rank", "0"))
    says(0)
    shutil.rmtree(folder.file("slow.run"))
    says(1, "holds the checkpoints of run slow; give run other another --checkpoint-mirror",
         arguments=("--name", "other"))


def store_lost(folder, draw):
    """Training goes on without the store, which is told once, and the newest checkpoint is sent
    when it is back."""
    store = ObjectStore(folder)
    run = start(folder, store)
    mirrored(run)
    os.kill(store.process.pid, signal.SIGSTOP)
    run.wait_steps_more(20)
    os.kill(store.process.pid, signal.SIGCONT)
    mirrored(run, run.last_step())
    kill(store.process.pid)
    wait_until(lambda: [e for e in run.of("mirror") if "error" in e], "a failure")
    run.wait_steps_more(20)
    check(run.said().count("cannot send the checkpoint") == 1, "not told once", run.said())
    check(len([e for e in run.of("mirror") if "error" in e]) == 1, "more than one event")
    run.signal(signal.SIGINT)
    run.says("sending the last checkpoint")
    run.signal(signal.SIGINT)
    run.expect_end(130, 30)
    run.check_steps()


if not MOTO:
    skip_all("ADAPTDL_TEST_MOTO names no Python with moto; ./bootstrap test sets it")
main(machine_lost, upload_cut, damaged, unusable_here, refused, store_lost)
