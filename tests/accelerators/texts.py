"""One compiled text: what the agent's readers make of it."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.programs import hlo
from jaxtop_agent.programs.inventories import operations_of

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "HloModule"
# A text begins with comments, if at all.
LONGEST_HEAD = 4096


class Row(NamedTuple):
    """What was found in a text; `unread` collectives could not be read."""

    name: str
    devices: int | None
    kinds: str
    grouped: int
    collectives: int
    unread: int
    operations: str
    seconds: float


def is_text(path: Path) -> bool:
    with path.open(errors="replace") as file:
        return HEAD in file.read(LONGEST_HEAD)


def row(path: Path, name: str) -> Row:
    text = path.read_text(errors="replace")
    began = time.perf_counter()
    reading = hlo.read(text)
    work = operations_of(text, lambda: None)
    took = time.perf_counter() - began
    kinds = Counter(each.kind for each in reading.collectives)
    return Row(
        name,
        reading.devices,
        ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "none",
        sum(each.groups is not None for each in reading.collectives),
        len(reading.collectives),
        reading.unread,
        "n/a" if work is None else f"{'≥ ' if work.at_least else ''}{work.operations:.3g}",
        took,
    )
