"""What was recorded on an H100: the files of `data/h100` (see its README)."""

from __future__ import annotations

import gzip
from pathlib import Path

from jaxtop.base.protobuf import read
from jaxtop.traces import protos
from jaxtop.traces.xspace import Trace

FOLDER = Path(__file__).parents[1] / "data" / "h100"
PAIR = ("pair-process-0", "pair-process-1")


def profile(name: str) -> bytes:
    """Return the bytes of a profile."""
    return gzip.decompress((FOLDER / f"{name}.xplane.pb.gz").read_bytes())


def message(name: str) -> bytes:
    """Return a program of the pair, as XLA's own message of its module."""
    found = [read(each).raw(1) for each in protos.messages(Trace(profile(PAIR[0])))]
    return next(each for each in found if read(each).text(1) == name)
