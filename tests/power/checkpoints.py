"""Checkpoints, when the power fails or the disk does."""

from support import check, main

from recording import Recording

ROUNDS = 70


def cuts(folder, draw):
    """The newest checkpoint that was told is there after a power cut at any point."""
    recording = Recording(folder)
    recording.program("power_writer", "record", recording.root, draw.getrandbits(31), ROUNDS)
    recording.replay("checkpoints", draw)
    check(recording.points > 1000, "few points", recording.points)


def cuts_without_exchange(folder, draw):
    """The same where folders cannot be exchanged, as on NFS."""
    recording = Recording(folder)
    recording.program("power_writer", "record", recording.root, draw.getrandbits(31), ROUNDS,
                      POWER_NO_EXCHANGE="1")
    recording.replay("checkpoints", draw)
    check(recording.points > 1000, "few points", recording.points)


def errors(folder, draw):
    """A write that fails is told, and the newest checkpoint stays."""
    recording = Recording(folder)
    for options in ({}, {"POWER_NO_EXCHANGE": "1"}):
        done = recording.program("power_writer", "faults", recording.root, POWER_LOG="", **options)
        print("    " + done.stdout.strip())
        check(int(done.stdout.split()[0]) > 100, "few calls", done.stdout)


main(cuts, cuts_without_exchange, errors)
