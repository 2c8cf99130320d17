"""Checks for tests. A failure shows the expectation and the actual values."""

import time

PATIENCE = 90.0  # seconds; enough for a busy machine
SKIPPED = 77     # the exit code that meson shows as a skipped test


class Failed(Exception):
    """A failed check."""


class Skipped(Exception):
    """The test cannot run here; the message is the reason."""


def check(condition, sentence, *details):
    """`details`: the actual values. A failure always shows the logs."""
    if not condition:
        raise Failed("\n".join(map(str, (sentence, *details))))


def skip(reason):
    raise Skipped(reason)


def shortened(value, most=1000):
    text = str(value)
    return text if len(text) <= most else text[:most // 2] + " ... " + text[-most // 2:]


def wait_until(condition, sentence, timeout=PATIENCE, every=None, tell=None):
    """Returns the first true value of condition(). A failure shows its last value, or tell().

    `every`: seconds between two calls. By default the pause grows with the time waited, so that
    short waits are fast and long waits are cheap.
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
