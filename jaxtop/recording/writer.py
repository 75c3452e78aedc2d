"""Write one recording. Disk errors raise OSError here, and the caller decides how to handle them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from jaxtop import wire
from jaxtop._version import __version__
from jaxtop.recording import layout, schemas
from jaxtop.recording.container import NO_SCHEMA, McapFile
from jaxtop.recording.layout import Channel
from jaxtop.wire.bounds import to_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

SEQUENCES = 1 << 32
# A keyframe points to this many of the last profiler windows of each agent: more than figures are made of, so
# that a jump yields the same figures as playback.
KEYFRAME_WINDOWS = 12


@dataclass(frozen=True)
class Keyframe:
    """The state at a time, as frames with their own times, and what happened since the previous keyframe.

    The state is iterated only once. A file can begin with a keyframe that is whole: it does not point to
    profiler windows in the file.
    """

    at: float
    state: Iterable[wire.Frame] = ()
    happened: Mapping[str, object] = field(default_factory=dict)
    is_whole: bool = True


class Writer:
    """A recording that is being written. A killed writer loses only the open chunk."""

    def __init__(self, path: Path, about: Mapping[str, str], *, is_indexed: bool = False) -> None:
        self._mcap = McapFile(path, layout.PROFILE, f"jaxtop {__version__}", is_indexed=is_indexed)
        self._channels: dict[Channel, int] = {}
        self._schemas: dict[str, int] = {}
        self._new: dict[str, str] = {}
        self._since_keyframe: dict[str, str] = {}
        self._windows: dict[str, list[int]] = {}
        try:
            self._note(
                layout.ABOUT, {**about, "version": str(wire.VERSION), layout.END: layout.END_IS_REWRITTEN}
            )
            self._mcap.flush()
        except OSError:
            self._mcap.close()
            raise

    @property
    def size(self) -> int:
        return self._mcap.size

    def write(self, frame: wire.Frame) -> None:
        if frame.kind == "window":
            self._windows[frame.agent] = [*self._windows.get(frame.agent, ()), to_ns(frame.at)][
                -KEYFRAME_WINDOWS:
            ]
        at = to_ns(frame.at)
        self._put(Channel(frame.agent, frame.kind), at, frame.sequence, frame.raw)

    def write_keyframe(self, keyframe: Keyframe) -> int:
        """Write a keyframe after everything written so far; return its size before compression."""
        self.flush()
        at = to_ns(keyframe.at)
        windows = sorted({each for times in self._windows.values() for each in times})
        self._note(
            layout.KEYFRAME,
            {
                "at": str(at),
                "windows": json.dumps(windows),
                "happened": json.dumps(keyframe.happened),
                "early": json.dumps(max(map(len, self._windows.values()), default=0) < KEYFRAME_WINDOWS),
            },
        )
        size = 0
        for number, part in enumerate(_parts(keyframe.state)):
            raw = msgspec.msgpack.encode(part)
            size += len(raw)
            self._put(layout.KEYFRAMES, at, number, raw)
        self.flush()
        self._note(layout.KEYFRAME_END, {"at": str(at)})
        if self._since_keyframe:  # repeated, so that damage in one place does not make the rest unreadable
            self._note(layout.CHANNELS, self._since_keyframe)
            self._since_keyframe = {}
        self._mcap.flush()
        return size

    def note_clock(self, offset_s: float, error_s: float | None) -> None:
        """Record how far the clock of these times is from that of process 0."""
        error = {} if error_s is None else {"error_s": repr(error_s)}
        self._note(layout.CLOCK, {"offset_s": repr(offset_s), **error})

    def flush(self) -> None:
        """Close and write the open chunk, so that a killed writer does not lose it."""
        if self._new:
            self._note(layout.CHANNELS, self._new)
            self._new = {}
        self._mcap.flush()

    def finish(self, index: bytes | None = None) -> None:
        """End the file cleanly, with the index if there is one."""
        try:
            self.flush()
            if index is not None:
                self._mcap.attachment(layout.INDEX, layout.INDEX_TYPE, index)
            self._note(layout.FINISHED, {})
            self._mcap.flush()
        finally:
            self._mcap.close()

    def abandon(self) -> None:
        self._mcap.close()

    def _note(self, name: str, values: Mapping[str, str]) -> None:
        self._mcap.metadata(name, layout.sealed(values))

    def _schema(self, name: str) -> int:
        """Return the number of the schema of this name; the first use writes it."""
        if name not in self._schemas:
            content = schemas.encoded(name)
            self._schemas[name] = (
                NO_SCHEMA if content is None else self._mcap.schema(name, schemas.ENCODING, content)
            )
        return self._schemas[name]

    def _put(self, channel: Channel, at: int, sequence: int, raw: bytes) -> None:
        number = self._channels.get(channel)
        if number is None:
            number = self._channels[channel] = self._mcap.channel(
                channel.topic, layout.ENCODING, channel.metadata, self._schema(schemas.name_of(channel))
            )
            self._new[str(number)] = self._since_keyframe[str(number)] = json.dumps(channel)
        self._mcap.message(number, at, sequence % SEQUENCES, raw)


def _parts(state: Iterable[wire.Frame]) -> Iterator[list[object]]:
    """Yield a state in parts that are small enough for one message."""
    part: list[object] = []
    size = 0
    for frame in state:
        part.append((to_ns(frame.at), frame.agent, frame.kind, frame.raw))
        size += len(frame.raw)
        if size >= layout.LARGEST_PART:
            yield part
            part, size = [], 0
    yield part
