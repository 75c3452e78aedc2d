"""The layout that writer and reader share: names in the file, chunks, channels, keyframes and clocks."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# Times range from 1970 to 2262. Clocks may differ by decades, because an unset one begins in 1970.
LATEST_NS, FARTHEST_CLOCK_S = (1 << 63) - 1, 4e9
PROFILE = "jaxtop"
ENCODING = "msgpack"
# Metadata records: what the file is; the channels of the next chunks; the start and the end of a keyframe;
# the clock; the end of the recording.
ABOUT, CHANNELS, KEYFRAME, KEYFRAME_END, CLOCK, FINISHED = (
    "jaxtop", "jaxtop.channels", "jaxtop.keyframe", "jaxtop.keyframe_end", "jaxtop.base.clock",
    "jaxtop.finished",
)  # fmt: skip
# In ABOUT: each flush writes an end of the data, and the next flush overwrites it. FINISHED marks the last.
END, END_IS_REWRITTEN = "end", "rewritten"
# The attachment at the end of a finished file.
INDEX, INDEX_TYPE = "jaxtop.index", "application/msgpack"


class Channel(NamedTuple):
    """The messages of one kind from one agent, or all keyframes."""

    agent: str
    kind: str
    is_keyframe: bool = False

    @property
    def topic(self) -> str:
        """The name that other MCAP tools show."""
        return "/keyframe" if self.is_keyframe else f"/{self.agent or 'viewer'}/{self.kind}"

    @property
    def metadata(self) -> dict[str, str]:
        about = {"agent": self.agent, "kind": self.kind}
        return about | {"keyframe": "1"} if self.is_keyframe else about


class ChunkAt(NamedTuple):
    """A chunk: its offset in the file, the times of its first and last message, its kind."""

    offset: int
    start: int
    end: int
    is_keyframe: bool


class KeyframeAt(NamedTuple):
    """A keyframe: its time, its first chunk, the times of the windows before it, what happened before it.

    With `is_early`, figures need windows from before the file as well: its first keyframe has them.
    """

    at: int
    chunk: int
    windows: tuple[int, ...]
    happened: dict[str, Any]
    is_early: bool


class Clock(NamedTuple):
    """The offset from the times of this file to the times of process 0, and its error."""

    offset_s: float
    error_s: float | None


CRC = "crc"


def sealed(values: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata with a checksum, because MCAP has none for metadata."""
    return {**values, CRC: _crc(values)}


def opened(values: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata without its checksum; raise ValueError if that is wrong."""
    rest = {name: value for name, value in values.items() if name != CRC}
    if values.get(CRC) != _crc(rest):
        raise ValueError("metadata whose checksum is wrong")
    return rest


def _crc(values: Mapping[str, str]) -> str:
    return f"{zlib.crc32(repr(sorted(values.items())).encode()):08x}"


# The channel of all keyframes. Each message has a part of a state: a list of (time, agent, kind, raw).
KEYFRAMES, LARGEST_PART = Channel("", "state", is_keyframe=True), 1 << 20
KeyframePart = list[tuple[int, str, str, bytes]]
