"""The messages of `jaxtop plan --compile`: what is to be compiled, and what came of it.

The command writes one `CompileRequest` as JSON. The process that compiles answers with JSON lines.
"""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.programs import Inventory  # noqa: TC001 - msgspec reads the annotations when it decodes

# The named axes of a mesh with their sizes, the slowest first.
Axes = tuple[tuple[str, int], ...]
# For each dimension of an array, the axes that divide it; empty ones at the end may be missing.
Parts = tuple[tuple[str, ...], ...]


class NamedArray(Struct, frozen=True, array_like=True):
    """A named array: how it is sharded today, and how on the mesh of a candidate."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    today: Parts
    then: Parts


class WantedCandidate(Struct, frozen=True, array_like=True):
    """A candidate. `arrays` are those that are sharded differently from today, and those like them."""

    axes: Axes
    arrays: tuple[NamedArray, ...] = ()


class CompileRequest(Struct, frozen=True):
    """What to compile. `files` has lowered texts of the program, the newest first.

    The first one is taken whose arguments have `argument_bytes` on a device of today's mesh.
    """

    files: tuple[str, ...]
    axes: Axes
    argument_bytes: int | None
    wanted: tuple[WantedCandidate, ...]


class TakenText(Struct, frozen=True, tag="taken"):
    """The text that was taken, and what is doubtful about it."""

    file: str
    note: str = ""


class Began(Struct, frozen=True, tag="began"):
    """The compilation of a candidate began: its position in what was asked."""

    number: int


class CompilationEnded(Struct, frozen=True, tag="ended"):
    """The compilation of a candidate ended. The bytes and operations are those of a launch on one device.

    `unnamed` are the axes that it uses, but that the text has in no sharding, as their size is 1 there.
    """

    number: int
    argument_bytes: int = 0
    output_bytes: int = 0
    temp_bytes: int = 0
    alias_bytes: int = 0
    flops: int | None = None
    inventory: Inventory | None = None
    notes: tuple[str, ...] = ()
    why_not: str = ""
    unnamed: tuple[str, ...] = ()


Said = TakenText | Began | CompilationEnded


def trimmed(parts: Parts) -> Parts:
    """Return a sharding without the empty entries at its end, which mean nothing."""
    count = len(parts)
    while count and not parts[count - 1]:
        count -= 1
    return parts[:count]
