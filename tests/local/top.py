"""`top` on a terminal, and what `ls` says of progress, with a real service and real training."""

import contextlib
import fcntl
import http.server
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import threading
import time
import types

from support import check, kill, main, service, stat_fields, wait_until

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
ESCAPES = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
BRAILLE = re.compile("[\u2801-\u28ff]")


class Terminal:
    """A pseudo-terminal with a command in its foreground, as a shell would start it."""

    def __init__(self, local, *arguments, locale="C.UTF-8", size=(24, 100)):
        self.master, self.slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.slave)
        self.said = ""
        environment = local.environment | {"TERM": "xterm-256color", "LC_ALL": locale}
        environment.pop("NO_COLOR", None)
        self.process = local.folder.start(
            [local.folder.binary, *arguments], environment, stdin=self.slave, stdout=self.slave,
            stderr=self.slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0.02)[0]:
            chunk = os.read(self.master, 65536)
            if not chunk:
                break
            self.said += chunk.decode("utf-8", "replace")
        return self.said

    def picture(self):
        """The lines of the newest whole picture."""
        whole = [part for part in self.read().split("\x1b[H") if "\x1b[J" in part]
        if not whole:
            return []
        text = ESCAPES.sub("", whole[-1].split("\x1b[J")[0])
        return text.replace("\r", "").split("\n")  # the terminal itself adds carriage returns

    def wait(self, condition, sentence):
        """Until a picture, as one text, satisfies the condition; returns its lines."""
        wait_until(lambda: condition("\n".join(self.picture())), sentence, every=0.05,
                   tell=lambda: "\n".join(self.picture()))
        return self.picture()

    def selected(self):
        """The name in the selected row of the newest picture."""
        self.picture()
        found = re.findall(r"\x1b\[7m(\S+)", self.said)
        return found[-1] if found else None

    def press(self, keys):
        os.write(self.master, keys.encode())

    def settings(self):
        return termios.tcgetattr(self.slave)

    def raw(self):
        return not self.settings()[3] & (termios.ICANON | termios.ECHO)

    def ended(self, code):
        """The command ends, and the terminal is as it was."""
        wait_until(lambda: (self.read(), self.process.poll())[1] is not None, "its end")
        self.read()
        check(self.process.returncode == code, f"exit code {self.process.returncode}", self.said)
        check(self.settings() == self.before, "the terminal's settings")
        check(self.said.count(ENTER) == self.said.count(LEAVE), "its screen", self.said[-500:])
        return self.said.rsplit(LEAVE, 1)[-1]

    def close(self):
        os.close(self.master)
        os.close(self.slave)


@contextlib.contextmanager
def terminal(local, *arguments, **options):
    made = Terminal(local, *arguments, **options)
    try:
        yield made
    finally:
        made.close()


def train(local, count=1):
    """Jobs that train until the end of the test."""
    names = [local.submit(local.folder.program("slow"), settings=["epochs=100000"], max_replicas=1)
             for _ in range(count)]
    for name in names:
        wait_until(lambda: local.runner_status(name).get("step", 0) > 5, f"{name} trains")
    return names


def figures(folder, random):
    """ls and top show progress, time left, goodput and batch."""
    with service(folder, "--slots", "1") as local:
        (name,) = train(local)

        def measured():
            status = local.runner_status(name)
            return all(status.get(figure) for figure in ("seconds_left", "goodput", "batch"))
        wait_until(measured, "the figures")
        _, out, err = local.command("ls", "-o", "json")
        (job,) = json.loads(out)["jobs"]
        check(0 < job["progress"] < job["progress_total"], "progress", job)
        check(job["seconds_left"] > 0 and job["goodput"] > 0 and job["batch"] > 0, "figures", job)
        for words in (["ls", "-o", "wide"], ["top"]):
            code, out, err = local.command(*words)
            lines = [line for line in out.splitlines() if line.startswith(("NAME", name))]
            check(code == 0 and "\x1b" not in out and not err, "no terminal", out, err)
            head, row = (line.split() for line in lines)
            check(head[:4] == ["NAME", "KIND", "STATUS", "REPLICAS"], "the first columns", head)
            check(head[-4:] == ["DONE", "LEFT", "GOODPUT", "BATCH"], "the last columns", head)
            check(re.fullmatch(r"\d+%", row[-4]), "DONE", row)
            check(re.fullmatch(r"[\dsmhd]+", row[-3]), "LEFT", row)
            check(row[-2].endswith("/s") and row[-1] == str(job["batch"]), "figures", row, job)
        check(len(out.split("\n\n")) == 2, "once", out)
        with terminal(local, "ls", size=(24, 80)) as narrow:
            said = narrow.ended(0)
            lines = [line for line in said.split("\r\n") if line.startswith(("NAME", name))]
            check(len(lines) == 2 and max(map(len, lines)) <= 80, "80 columns", lines)
            check("DONE" in lines[0] and "LEFT" in lines[0], "what matters", lines)


def keys(folder, random):
    """The selection, charts, sorting, a change of the window's size, and the end."""
    with service(folder, "--slots", "2") as local:
        first, second = train(local, 2)
        with terminal(local, "top", "--interval", "200ms") as top:
            top.wait(lambda text: first in text and second in text and "DONE" in text, "the jobs")
            check(top.raw(), "keys come one by one")
            check(top.selected() == first, "the first is selected")
            for key, wanted in (("j", second), ("k", first), ("\x1b[B", second), ("\x1bOA", first),
                                ("G", second)):
                top.press(key)
                wait_until(lambda: top.selected() == wanted, f"{key!r} selects {wanted}",
                           tell=top.selected)
            top.press("\r")
            chart = top.wait(lambda text: len(BRAILLE.findall(text)) > 20 and "steps 1 to" in text,
                             "its chart")
            check(chart[0].startswith(second) and len(chart) <= 24, "the chart", chart)
            check(any(line.startswith("loss: ") for line in chart), "the loss", chart)
            check("command began" not in "".join(chart), "from the job's first step", chart)
            last = int(re.search(r"steps 1 to (\d+)", "\n".join(chart))[1])
            top.wait(lambda text: int(re.search(r"to (\d+)", text)[1]) > last, "it grows")
            top.resize(12, 40)
            chart = top.wait(lambda text: text.count("\n") < 12, "a smaller chart")
            check(max(map(len, chart)) < 40, "its width", chart)
            top.resize(24, 100)
            top.press("\x1b")
            top.wait(lambda text: first in text and second in text, "Escape goes back")
            top.press("\rq")
            top.wait(lambda text: first in text and second in text, "q goes back")
            top.press("s")
            top.wait(lambda text: "sort (name)" in text, "sorted")
            top.press("q")
            left = top.ended(0)
            check(first in left and second in left and "q quit" not in left, "the last state", left)


def ways_out(folder, random):
    """Whatever ends it, the terminal is as it was."""
    with service(folder, "--slots", "1") as local:
        (name,) = train(local)

        def listed(text):
            return name in text
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with terminal(local, "top", "--interval", "200ms") as top:
                top.wait(listed, "the list")
                top.process.send_signal(number)
                top.ended(0)
        for keys_pressed in ("\x03", "\r\x03"):  # in the list, and in a chart
            with terminal(local, "top", "--interval", "200ms", locale="C") as top:
                top.wait(listed, "the list")
                top.press(keys_pressed[:-1])
                if keys_pressed != "\x03":
                    chart = top.wait(lambda text: "*" in text, "the chart in ASCII")
                    check(all(line.isascii() for line in chart), "ASCII", chart)
                top.press("\x03")
                check(name in top.ended(0), "the last state")
        with terminal(local, "top", "--count", "2", "--interval", "100ms") as top:
            top.ended(0)
        with terminal(local, "top", "--no-color") as top:
            check("\x1b" not in top.ended(0), "no escape sequences")
        with terminal(local, "top", "--interval", "200ms") as top:
            top.wait(listed, "the list")
            top.press("\x1a")
            wait_until(lambda: stat_fields(top.process.pid)[0] == "T", "Ctrl-Z stops it")
            check(top.settings() == top.before and top.read().endswith(LEAVE), "while stopped")
            pictures = top.said.count("\x1b[H")
            kill(top.process.pid, signal.SIGCONT)
            wait_until(lambda: top.read().count("\x1b[H") > pictures, "it continues")
            check(top.raw(), "keys again")
            os.kill(local.process.pid, signal.SIGSTOP)  # does not answer: the last state stays
            top.resize(24, 300)
            parts = ("retrying: ", "does not answer", name)
            top.wait(lambda text: all(part in text for part in parts), "why it is old")
            os.kill(local.process.pid, signal.SIGCONT)
            top.wait(lambda text: "retrying" not in text and name in text, "it goes on")
            top.press("q")
            top.ended(0)


class AnswersOnce(http.server.BaseHTTPRequestHandler):
    """An API server without jobs that answers one request, and leaves the others open."""

    def do_GET(self):
        if self.server.answered.is_set():
            self.server.asked.set()
            self.server.over.wait()
            return
        self.server.answered.set()
        body = json.dumps({"apiVersion": "adaptdl.petuum.com/v1", "kind": "AdaptDLJobList",
                           "metadata": {"resourceVersion": "1"}, "items": []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def silent_cluster():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), AnswersOnce)
    server.answered, server.asked, server.over = (threading.Event() for _ in range(3))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


def no_answer(folder, random):
    """Keys and signals work while a cluster does not answer."""
    where = types.SimpleNamespace(folder=folder, environment=folder.environment)
    for leave in (lambda top: top.press("q"), lambda top: top.press("\x03"),
                  lambda top: top.process.send_signal(signal.SIGTERM)):
        with silent_cluster() as server:
            config = folder.write("kubeconfig", json.dumps({
                "apiVersion": "v1", "kind": "Config", "current-context": "silent",
                "clusters": [{"name": "c", "cluster": {
                    "server": f"http://127.0.0.1:{server.server_address[1]}"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "silent", "context": {"cluster": "c", "user": "u"}}]}))
            with terminal(where, "top", "--interval", "200ms", "--kubeconfig", config) as top:
                top.wait(lambda text: "No job is pending" in text, "the first answer")
                wait_until(server.asked.is_set, "the second request")
                begun = time.monotonic()
                leave(top)
                check("No job is pending" in top.ended(0), "the last state", top.said)
                check(time.monotonic() - begun < 10, "it waited for the cluster")


main(figures, keys, ways_out, no_answer)
