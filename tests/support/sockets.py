"""Requests over a Unix socket: one line of JSON each for request and answer."""

import json
import socket
import threading

from .checks import PATIENCE


def ask(path, **request):
    """Returns the answer. Raises OSError if nothing answers."""
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(PATIENCE)
        control.connect(path)
        control.sendall(json.dumps(request).encode() + b"\n")
        with control.makefile() as lines:
            line = lines.readline()
    if not line:
        raise ConnectionError("no answer")
    return json.loads(line)


def answer_at(path, answer):
    """Answers requests at this path with answer(request), on a thread, until the process ends."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve():
        while True:
            client, _ = listener.accept()
            with client, client.makefile("rw") as stream:
                line = stream.readline()
                if line:
                    stream.write(json.dumps(answer(json.loads(line))) + "\n")

    threading.Thread(target=serve, daemon=True).start()
