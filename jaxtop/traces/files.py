"""Captured profiles in files: which one a folder has, and its trace, in bounded memory."""

from __future__ import annotations

import gzip
import os
import stat
import struct
import zlib
from typing import TYPE_CHECKING

from jaxtop.base.protobuf import BYTES, Malformed
from jaxtop.base.units import in_bytes
from jaxtop.traces.parts import TooLarge
from jaxtop.traces.xspace import ENVIRONMENT, PLANE, Trace

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

ENDINGS = (".xplane.pb", ".xplane.pb.gz")
# A larger one is not read: `jaxtop capture` takes none.
MOST_BYTES = 1 << 30
_TOO_LONG = f"is larger than {in_bytes(MOST_BYTES)}, which is not read"
# To read this many takes one to two minutes, and about 3 GB.
MOST_EVENTS = 3_000_000
# Where XProf and TensorBoard keep profiles.
_FOLDERS = (".", "*", "*/*", "plugins/profile/*")
_GZIP = b"\x1f\x8b"
# The first byte of each field that the profiler's format has at its top: they are messages and texts.
_FIRST = bytes(field << 3 | BYTES for field in range(PLANE, PLANE + 4))


# The exceptions that an invalid trace raises in the readers.
UNREADABLE = (Malformed, ValueError, TypeError, OverflowError, struct.error)


class NoProfile(Exception):
    """Why there is no profile to read, in words that follow the name of a file."""


def find(path: Path) -> list[Path]:
    """Return this file, or the profiles in this folder; raise `OSError`, or `NoProfile` if it has none."""
    if not path.is_dir():
        if not stat.S_ISREG(path.stat().st_mode):
            raise NoProfile("is not a file")
        return [path]
    found = {
        each
        for folder in _FOLDERS
        for ending in ENDINGS
        for each in path.glob(f"{folder}/*{ending}")
        if each.is_file() and not each.name.startswith(".")
    }
    if not found:
        raise NoProfile("has no profile (*.xplane.pb) in it")
    return sorted(found)


def read(path: Path) -> Trace:
    """Return the trace in a file, compressed or not; raise `OSError`, or `NoProfile` if there is none."""
    with path.open("rb") as file:
        is_compressed = file.read(len(_GZIP)) == _GZIP
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size > MOST_BYTES:
            raise NoProfile(_TOO_LONG)
        raw = _unpacked(file) if is_compressed else _bytes(file)
    try:
        trace = Trace(raw, MOST_EVENTS)
    except TooLarge:
        raise NoProfile(f"has more than {MOST_EVENTS:,} events, which are not read") from None
    except Malformed as error:
        raise NoProfile(f"is no whole profile: {error}") from None
    if not any(plane.name.startswith("/") or plane.name == ENVIRONMENT for plane in trace.planes):
        raise NoProfile("is no profile: it has no planes")
    return trace


def _unpacked(file: BufferedReader) -> bytes:
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            return _bytes(unpacked)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise NoProfile(f"is compressed, and cannot be unpacked: {error}") from None


def _bytes(file: BufferedReader | gzip.GzipFile) -> bytes:
    """Return all bytes; those of something else are not read to the end."""
    first = file.peek(1)[:1]
    if not first:
        raise NoProfile("is empty")
    if first not in _FIRST:
        raise NoProfile("is no profile")
    raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise NoProfile(_TOO_LONG)
    return raw
