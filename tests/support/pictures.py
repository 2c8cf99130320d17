"""Data of tests in other formats: arrays read, images and tar files written."""

import ast
import io
import os
import struct
import tarfile
import zlib

from .files import write


def read_npy(path):
    """(shape, bytes) of an array of uint8 or int64."""
    with open(path, "rb") as file:
        file.seek(8)
        length, = struct.unpack("<H", file.read(2))
        header = ast.literal_eval(file.read(length).decode())
        return header["shape"], file.read()


def write_npy(path, descr, shape, values):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return write(path, b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + values)


def png(width, height, grey):
    """A PNG of so many bytes of grey."""
    def chunk(kind, content):
        return (struct.pack(">I", len(content)) + kind + content
                + struct.pack(">I", zlib.crc32(kind + content)))

    rows = b"".join(b"\0" + grey[y * width:(y + 1) * width] for y in range(height))
    head = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def digit_pictures(digits):
    """[(label, grey values)] of the example `adaptdl init digits`, by label: 8 x 8 values to 16."""
    _, values = read_npy(os.path.join(digits, "images.npy"))
    _, labels = read_npy(os.path.join(digits, "labels.npy"))
    labels = [label for label, in struct.iter_unpack("<q", labels)]
    return sorted(((label, values[64 * i:64 * (i + 1)]) for i, label in enumerate(labels)),
                  key=lambda picture: picture[0])


def write_tar(path, members):
    """`members`: {name: bytes}."""
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
