"""Read one recording, which may be finished, truncated, corrupt in places or still growing."""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Self

import msgspec

from jaxtop import wire
from jaxtop.recording import chunks, schemas
from jaxtop.recording import index as indexes
from jaxtop.recording.chunks import RECORD
from jaxtop.recording.index import NotARecording
from jaxtop.recording.layout import LATEST_NS, Channel, KeyframePart
from jaxtop.wire.bounds import to_seconds

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from pathlib import Path

    from jaxtop.recording.index import Index
    from jaxtop.recording.layout import ChunkAt, KeyframeAt

# Limits of the cache of unpacked chunks. Playing back and forth reads the same chunks again.
MOST_CHUNKS, MOST_MESSAGES = 8, 200_000
# The exceptions that a corrupt chunk raises.
_DAMAGE = OSError, ValueError, OverflowError, struct.error, MemoryError
_PARTS = msgspec.msgpack.Decoder(KeyframePart)


class Recording:
    """An open recording and its index. It is not thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: IO[bytes] = open(path, "rb", opener=_opened)  # noqa: SIM115 - see `close`
        except OSError as error:
            raise NotARecording(f"{path} cannot be read: {error.strerror}") from None
        self._cache: OrderedDict[int, list[tuple[int, Channel, wire.Frame]]] = OrderedDict()
        self._corrupt: set[int] = set()
        self._unknown_channels: set[int] = set()
        try:
            self.index: Index = indexes.read(path, self._file)
        except (OSError, ValueError, struct.error) as error:
            self._file.close()
            why = getattr(error, "strerror", None) or error
            raise NotARecording(f"{path} cannot be read: {why}") from None
        except NotARecording:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def refresh(self) -> bool:
        """Scan what was written since the last call; return whether there are new chunks."""
        before = len(self.index.chunks)
        indexes.scan(self.path, self._file, self.index)
        return len(self.index.chunks) > before

    @property
    def about(self) -> dict[str, str]:
        return self.index.about

    @property
    def span(self) -> tuple[float, float] | None:
        """The times of the first frame and of the last one."""
        chunks = self.index.chunks
        if not chunks:
            return None
        first = next((each for each in chunks if not each.is_keyframe), chunks[0])
        return to_seconds(first.start), to_seconds(max(each.end for each in chunks[-8:]))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the state of the file for the user, one per line."""
        notes = []
        name = self.path.name
        bad = self.index.corrupt + len(self._corrupt)
        if bad:
            notes.append(f"{name}: {bad} corrupt place{'s' if bad > 1 else ''} skipped, the rest is shown")
        if self._unknown_channels:
            notes.append(f"{name}: {len(self._unknown_channels)} channels of other programs skipped")
        if not self.index.is_finished:
            notes.append(f"{name} was not finished: shown up to its last complete part")
        return tuple(notes)

    def keyframe_before(self, ns: int) -> KeyframeAt | None:
        """Return the last keyframe at or before this time."""
        found = bisect_right(self.index.keyframes, ns, key=lambda each: each.at) - 1
        return self.index.keyframes[found] if found >= 0 else None

    def state(self, keyframe: KeyframeAt) -> list[wire.Frame]:
        """Return the state at a keyframe as frames with their own times, messages about the past last."""
        found = self.keyframe(keyframe)
        past = [frame for frame in found if frame.kind.startswith("past")]
        now = [frame for frame in found if not frame.kind.startswith("past")]
        return [*now, *self._windows(keyframe), *past]

    def keyframe(self, keyframe: KeyframeAt) -> list[wire.Frame]:
        """Return the messages of a keyframe, without the windows that it points to."""
        found: list[wire.Frame] = []
        for chunk in self.index.chunks[keyframe.chunk :]:
            if not chunk.is_keyframe or chunk.start != keyframe.at:
                break
            for _, _, part in self._read(chunk):
                try:
                    state = _PARTS.decode(part.raw)
                except msgspec.DecodeError:
                    self._corrupt.add(chunk.offset)
                    continue
                found += [
                    wire.Frame(to_seconds(at), agent, kind, wire.LOCAL_SEQUENCE, raw)
                    for at, agent, kind, raw in state
                    if 0 <= at <= LATEST_NS
                ]
        return found

    def _windows(self, keyframe: KeyframeAt) -> list[wire.Frame]:
        """Return the profiler windows that a keyframe points to: the last ones before it."""
        first, found = self.index.keyframes[0], []
        if keyframe.is_early and first.chunk < keyframe.chunk:
            found = [frame for frame in self.keyframe(first) if frame.kind == "window"]
        window_channels = {number for number, each in self.index.channels.items() if each.kind == "window"}
        times = frozenset(keyframe.windows)
        for chunk in self._chunks_with(keyframe.windows):
            found += [frame for at, _, frame in self._read(chunk, window_channels) if at in times]
        return found

    def _chunks_with(self, times: tuple[int, ...]) -> list[ChunkAt]:
        chunks = self.index.chunks
        wanted: dict[int, ChunkAt] = {}
        for at in times:
            number = bisect_left(chunks, at, key=lambda each: each.end)
            while number < len(chunks) and chunks[number].start <= at:
                wanted[number] = chunks[number]
                number += 1
        return [wanted[number] for number in sorted(wanted)]

    def frames(self, after: int | None = None, until: int | None = None) -> Iterator[tuple[int, wire.Frame]]:
        """Yield the frames after one time and up to another, with their times, in file order."""
        chunks = self.index.chunks
        first = 0 if after is None else bisect_right(chunks, after, key=lambda each: each.end)
        for chunk in chunks[first:]:
            if until is not None and chunk.start > until:
                break
            if chunk.is_keyframe:
                continue
            for at, channel, frame in self._messages(chunk):
                if channel.is_keyframe or (after is not None and at <= after):
                    continue
                if until is not None and at > until:
                    return
                yield at, frame

    def following(self, ns: int) -> int | None:
        """Return a lower bound, at least `ns`, of the time of the next frame; None if there is none."""
        chunks = self.index.chunks
        number = bisect_right(chunks, ns, key=lambda each: each.end)
        while number < len(chunks):
            chunk, number = chunks[number], number + 1
            if chunk.is_keyframe:
                continue
            if chunk.start > ns or chunk.end - chunk.start <= indexes.ODD_NS:
                return max(chunk.start, ns)
            later = [at for at, *_ in self._messages(chunk) if at > ns]
            if later:
                return min(later)
        return None

    def _messages(self, chunk: ChunkAt) -> list[tuple[int, Channel, wire.Frame]]:
        messages = self._cache.get(chunk.offset)
        if messages is None:
            messages = self._cache[chunk.offset] = list(self._read(chunk))
            while len(self._cache) > MOST_CHUNKS or (
                len(self._cache) > 1 and sum(map(len, self._cache.values())) > MOST_MESSAGES
            ):
                self._cache.popitem(last=False)
        self._cache.move_to_end(chunk.offset)
        return messages

    def _read(
        self, chunk: ChunkAt, only: Container[int] | None = None
    ) -> Iterator[tuple[int, Channel, wire.Frame]]:
        channels = self.index.channels
        for each in self._records(chunk, only):
            if isinstance(each, bytes):
                self._note_channel(each)
                continue
            channel = channels.get(each.channel) or self._find_channel(each.channel)
            if channel is not None:
                at = to_seconds(each.logged)
                frame = wire.Frame(at, channel.agent, channel.kind, each.sequence, each.raw)
                yield each.logged, channel, frame

    def _records(
        self, chunk: ChunkAt, only: Container[int] | None = None
    ) -> list[chunks.ChunkMessage | bytes]:
        try:
            return list(chunks.records(chunks.unpack(self._packed(chunk)), only))
        except _DAMAGE:
            self._corrupt.add(chunk.offset)
            return []

    def _packed(self, chunk: ChunkAt) -> bytes:
        self._file.seek(chunk.offset)
        _, length = RECORD.unpack(self._file.read(RECORD.size))
        if length > chunks.MAX_CHUNK_BYTES:
            raise ValueError("a chunk that is too large")
        raw = self._file.read(length)
        if len(raw) != length:
            raise ValueError("a chunk that is not all there")
        return raw

    def schemas(self) -> dict[str, bytes]:
        """Return the schemas in the file by their names: JSON Schemas, if jaxtop wrote them."""
        found: dict[str, bytes] = {}
        names = {schemas.name_of(each) for each in self.index.channels.values()}
        for chunk in self.index.chunks:
            with suppress(*_DAMAGE):
                found.update(chunks.schemas(chunks.unpack(self._packed(chunk))))
                # A channel follows its schema, so a file that begins without one was written without them.
                if (
                    not found
                    or found.keys() >= names
                    or sum(map(len, found.values())) > chunks.MAX_CHUNK_BYTES
                ):
                    break
        return found

    def _note_channel(self, record: bytes) -> None:
        with suppress(ValueError, struct.error):
            number, channel = _channel(record)
            if channel is not None:
                self.index.channels[number] = channel

    def _find_channel(self, number: int) -> Channel | None:
        """Return a channel that is not in the metadata; its record is in the chunk with its first message."""
        if number in self._unknown_channels:
            return None
        for chunk in self.index.chunks:
            for each in self._records(chunk):
                if isinstance(each, bytes):
                    self._note_channel(each)
            if number in self.index.channels:
                return self.index.channels[number]
        self._unknown_channels.add(number)
        return None


def _opened(path: str, flags: int) -> int:
    """Open a file; what is a FIFO would otherwise wait for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _channel(raw: bytes) -> tuple[int, Channel | None]:
    """Return the number in a channel record, and the channel if jaxtop wrote it."""
    number = struct.unpack_from("<H", raw)[0]
    _topic, at = chunks.word(raw, 4)
    _encoding, at = chunks.word(raw, at)
    about = chunks.pairs(raw, at)
    if "agent" not in about or "kind" not in about:
        return number, None
    return number, Channel(about["agent"], about["kind"], "keyframe" in about)
