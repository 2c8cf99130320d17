"""Reads and writes whole files."""

import glob
import json
import os
import struct


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def read_json(path):
    return json.loads(read(path))


def json_lines(path):
    """The records of a file with one JSON record per line, but for a last one that is not whole:
    it may be being written."""
    return [json.loads(line) for line in read(path).splitlines(keepends=True)
            if line.endswith("\n")]


def write(path, text=""):
    """Creates parent folders; returns the path. `text`: str or bytes."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    return path


def read_safetensors(path):
    """(header, elements) of a file."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), file.read()


def last_lines(path, count, size=20_000):
    """The last lines of a possibly long file."""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - size))
        return file.read().decode(errors="replace").splitlines()[-count:]


def logs_below(folder, most=20):
    """[(name, last lines)] of the log files of a folder, the newest first."""
    found = [log for log in glob.glob(os.path.join(folder, "**", "*.log"), recursive=True)
             if os.path.isfile(log) and os.path.getsize(log)]
    found.sort(key=os.path.getmtime, reverse=True)
    return [(os.path.relpath(log, folder), last_lines(log, most)) for log in found]
