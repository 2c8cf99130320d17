"""What a test expects. A failure says what was expected and what came instead."""

import time

PATIENCE = 90.0  # seconds; for a machine with much else to do
SKIPPED = 77     # the exit code that meson shows as a skipped test


class Failed(Exception):
    """A check that does not hold."""


class Skipped(Exception):
    """Why a test cannot run here."""


def check(condition, sentence, *details):
    """`details` is what came instead; the logs are shown in any case."""
    if not condition:
        raise Failed("\n".join(map(str, (sentence, *details))))


def skip(reason):
    raise Skipped(reason)


def shortened(value, most=1000):
    text = str(value)
    return text if len(text) <= most else text[:most // 2] + " ... " + text[-most // 2:]


def wait_until(condition, sentence, timeout=PATIENCE, every=None, tell=None):
    """The first true value of condition(). A failure shows its last value, or tell().

    Unless `every` gives the seconds between two calls, they grow with the time that was waited:
    what comes soon is seen soon, and what takes long is not asked for all the time.
    """
    begun = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begun
        if waited >= timeout:
            raise Failed(f"waited {timeout:g} s for: {sentence}\nthe last value: "
                         + shortened(repr(tell() if tell else value)))
        time.sleep(every if every is not None else min(max(0.02, waited / 20), 0.1))
