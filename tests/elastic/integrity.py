"""Replicas whose state changes by itself, data that change under a run, and disks that fail."""

import os
import shutil
import struct

from support import SmallDisk, check, main, same_losses


def flipped_bit(folder, draw):
    """A bit that flips in a parameter of one replica is found. The replica is named and gets the
    others' state, and training continues as if nothing had happened."""
    program = folder.program("slow")
    wanted = {}
    for replicas, member in ((3, 1), (3, 0), (2, 1)):
        size = ["--replicas", str(replicas), "--set", "epochs=1"]
        if replicas not in wanted:
            fixed = folder.run(program, "--name", f"fixed-{replicas}", *size)
            fixed.expect_end(0)
            wanted[replicas] = fixed.losses()
            check(not fixed.of("diverged"), "replicas differ by themselves", fixed.of("diverged"))
        run = folder.run(program, "--name", f"flip-{replicas}-{member}", *size,
                         ADAPTDL_FAULT=f"announced:9:{member}:flip")
        run.expect_end(0)
        run.check_steps(last=40)
        (found,) = run.of("diverged") or [None]
        check(found and found["step"] == 10 and found["members"] == [member] and
              "parameter/hidden_bias" in found["tensors"], "not found", run.of("diverged"))
        check(f"replica {member}" in run.said(), "the user is not told")
        check(len(run.of("generation")) == 1 and not run.of("failure"), "a rescale or a failure")
        same_losses(run.losses(), wanted[replicas], 0)


def own_data(folder, name):
    """The path of the data file, as a copy that the test may change."""
    path = folder.file(name)
    source = os.path.realpath(path)
    os.unlink(path)
    shutil.copyfile(source, path)
    return path


def changed_data(folder, draw):
    """Data that are truncated or changed under a run end it with a sentence."""
    def truncate(path):
        os.truncate(path, 4096)

    def change(path):
        with open(path, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(struct.pack("<f", 5.0))

    def replace(path):
        shutil.copyfile(path, path + ".new")
        os.replace(path + ".new", path)

    for action in (truncate, change, replace):
        program = folder.program("slow")
        path = own_data(folder, "points.npy")
        run = folder.run(program, "--replicas", "2", "--name", action.__name__)
        run.wait_step(5)
        action(path)
        run.expect_end(1)
        reason = run.end_event()["reason"]
        check("points.npy: changed while the run uses it" in reason, "no reason", run.end_event())
        check(not run.of("failure"), "a failure", run.of("failure"))
        run.check_steps()
        os.unlink(path)
        folder.program("slow")


def failing_disk(folder, draw):
    """Data that cannot be read are named with file and offset, on every replica that needs them."""
    with SmallDisk(folder.file("small")) as disk:
        # A file system in memory has no room for all holes of a sparse file that is read.
        path = os.path.join(disk, "holes.npy")
        header = str({"descr": "<f8", "fortran_order": False, "shape": (960, 2048)})
        header += " " * (63 - (10 + len(header)) % 64) + "\n"
        with open(path, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            file.truncate(10 + len(header) + 960 * 2048 * 8)
        run = folder.run(folder.program("samples"), "--replicas", "2", "--max-restarts", "1",
                         "--set", f"data.train.0.path={path}")
        run.expect_end(1)
        # Both replicas read what cannot be read in the same step: it is not one replica's trouble.
        reason = run.end_event()["reason"]
        check("two replicas failed in the same step" in reason and
              reason.count("holes.npy: cannot read the data at offset") == 2, "no reason", reason)
        check(all(failure["signal"] != 7 for failure in run.of("failure")), "SIGBUS",
              run.of("failure"))
        check(run.last_step() >= 1, "nothing was trained")


main(flipped_bit, changed_data, failing_disk)
