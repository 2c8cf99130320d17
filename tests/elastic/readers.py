"""The same samples give the same losses, whatever format holds them."""

import json
import os
import struct

from support import (check, digit_pictures, main, png, read_npy, same_losses, write, write_npy,
                     write_tar)


def example(folder, name):
    code, said, error = folder.command("init", name, folder.file(name))
    check(code == 0, "no example", said, error)
    return folder.file(name)


def losses(folder, program, name, train):
    """Of 12 steps on two replicas that read these sources."""
    run = folder.run(program, "--name", name, "--replicas", "2", "--set", "max_steps=12",
                     "--set", "data.train=" + json.dumps(train))
    run.expect_end(0, 100)
    run.check_steps(last=12)
    return run.losses()


def pictures(folder, draw):
    """An array, a folder of images, and images in tar files."""
    digits = example(folder, "digits")
    found = digit_pictures(digits)
    shape, _ = read_npy(os.path.join(digits, "images.npy"))
    write_npy(os.path.join(digits, "sorted.npy"), "|u1", shape, b"".join(p for _, p in found))
    write_npy(os.path.join(digits, "sorted-labels.npy"), "<i8", (len(found),),
              b"".join(struct.pack("<q", label) for label, _ in found))
    shards = {}
    for i, (label, picture) in enumerate(found):
        image = png(8, 8, picture)
        write(os.path.join(digits, "train", str(label), f"{i:04}.png"), image)
        shard = shards.setdefault(f"part-{i // 1000}.tar", {})
        shard |= {f"{i:04}.png": image, f"{i:04}.cls": str(label).encode()}
    for name, members in shards.items():
        write_tar(os.path.join(digits, name), members)

    program = os.path.join(digits, "train.pt")
    numbers = {"dtype": "float32", "scale": 0.125, "offset": -1}
    image = numbers | {"shape": [1, 8, 8]}
    flat = numbers | {"shape": list(shape[1:])}
    reference = losses(folder, program, "array", [{"path": "sorted.npy"} | flat,
                                                  {"path": "sorted-labels.npy"}])
    for name, train in {
            "folder": [{"path": "train", "format": "images"} | image,
                       {"path": "train", "format": "image_labels"}],
            "tar": [{"path": "part-{0..1}.tar", "format": "tar", "member": "png"} | image,
                    {"path": "part-*.tar", "format": "tar", "member": "cls"}]}.items():
        same_losses(losses(folder, program, name, train), reference, 0)


main(pictures)
