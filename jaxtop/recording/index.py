"""Where what stands in a recording: read from the end of a finished file, else record by record."""

from __future__ import annotations

import json
import mmap
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from jaxtop.recording import chunks, layout
from jaxtop.recording.chunks import CHUNK_CODE, RECORD
from jaxtop.recording.container import MAGIC
from jaxtop.recording.layout import Channel
from jaxtop.wire.times import NANOSECONDS

if TYPE_CHECKING:
    from pathlib import Path

_FOOTER = struct.Struct("<QQI")
_HEADER, _ATTACHMENT_INDEX, _METADATA, _DATA_END = 1, 10, 12, 15
_KNOWN = frozenset(range(1, 16))
# Groups of the summary are a few; the index of ours is far smaller than this.
_LONGEST_OFFSETS, _LARGEST_INDEX = 4096, 1 << 28
# A file that holds more than both, in bytes and in bytes for each of its own, was made to do harm.
MOST_UNPACKED, MOST_UNPACKED_TIMES = 1 << 31, 250
# A chunk that is longer, or that long after the one before it, is looked into: nothing guards its times.
ODD_NS = 120 * NANOSECONDS


class NotARecording(Exception):
    """A file that is none of ours, in one line."""


class ChunkAt(NamedTuple):
    """A chunk: where it begins in the file, the times of its first and last message, whose it is."""

    offset: int
    start: int
    end: int
    is_keyframe: bool


class KeyframeAt(NamedTuple):
    """A keyframe: its time, its first chunk, the times of windows before it, what happened before it."""

    at: int
    chunk: int
    windows: tuple[int, ...]
    happened: dict[str, Any]


class Clock(NamedTuple):
    """What to add to the times of this file to have those of process 0, and how wrong that may be."""

    offset_s: float
    error_s: float | None


class _Stored(msgspec.Struct):
    """The index as the attachment has it."""

    version: int
    about: dict[str, str]
    channels: dict[int, Channel]
    chunks: list[ChunkAt]
    keyframes: list[KeyframeAt]
    clock: Clock | None = None


@dataclass
class Index:
    """What is where; a look at the rest of a file that grows goes on at `scanned`."""

    about: dict[str, str] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    chunks: list[ChunkAt] = field(default_factory=list)
    keyframes: list[KeyframeAt] = field(default_factory=list)
    clock: Clock | None = None
    is_finished: bool = False
    is_foreign: bool = False  # by its header, which may be damaged
    scanned: int = len(MAGIC)
    visited: int = 0  # where the last chunk that was looked at begins
    begun: KeyframeAt | None = None  # a keyframe of which the end was not seen yet
    corrupt: int = 0  # places at which records could not be followed
    unpacked: int = 0  # bytes in all chunks that were seen
    is_finished_by_word: bool = False  # the end of the data is the end of the file only where that is said

    def stored(self) -> bytes:
        """For the attachment at the end of the file."""
        return msgspec.msgpack.encode(
            _Stored(layout.VERSION, self.about, self.channels, self.chunks, self.keyframes, self.clock)
        )


def read(path: Path, file: IO[bytes]) -> Index:
    """The index of this file."""
    size = file.seek(0, 2)
    file.seek(0)
    magic = file.read(len(MAGIC))
    if not size:
        return Index(scanned=0)
    if not MAGIC.startswith(magic[: len(MAGIC)]):
        raise NotARecording(f"{path} is no recording: it does not begin like an MCAP file")
    stored = None
    with suppress(OSError, ValueError, OverflowError, struct.error, msgspec.DecodeError):
        stored = _from_end(file, size)
    if stored is not None and _is_plausible(stored, size):
        if stored.version > layout.VERSION:
            raise NotARecording(
                f"{path} was recorded by a newer jaxtop (format {stored.version}): upgrade jaxtop"
            )
        return Index(
            stored.about, stored.channels, stored.chunks, stored.keyframes, stored.clock, is_finished=True
        )
    index = Index()
    scan(path, file, index)
    if index.unpacked > max(MOST_UNPACKED, MOST_UNPACKED_TIMES * size):
        gigabytes = index.unpacked >> 30
        raise NotARecording(f"{path} would be {gigabytes} GB unpacked: no recording of its size holds that")
    if index.is_foreign and not index.about and not index.channels:
        raise NotARecording(f"{path} is an MCAP file, but no recording of jaxtop")
    return index


def _is_plausible(stored: _Stored, size: int) -> bool:
    """Whether the index leads to places and times that a recording can have."""
    return (
        all(0 <= each.start <= each.end <= layout.LATEST_NS for each in stored.chunks)
        and all(0 <= each.offset < size for each in stored.chunks)
        and all(0 <= each.chunk <= len(stored.chunks) for each in stored.keyframes)
        and all(0 <= each.at <= layout.LATEST_NS for each in stored.keyframes)
        and (stored.clock is None or _is_near(stored.clock))
    )


def _is_near(clock: Clock) -> bool:
    """Whether a clock differs by no more than clocks do; infinity and what is no number are none."""
    return all(abs(each) <= layout.FARTHEST_CLOCK_S for each in (clock.offset_s, clock.error_s or 0.0))


def _from_end(file: IO[bytes], size: int) -> _Stored | None:
    """The index that a finished file has at its end, found by way of its footer."""
    tail = RECORD.size + _FOOTER.size + len(MAGIC)
    file.seek(size - tail)
    end = file.read(tail)
    if not end.endswith(MAGIC):
        return None
    _, offsets_start, _ = _FOOTER.unpack_from(end, RECORD.size)
    count = size - tail - offsets_start
    if not offsets_start or not 0 <= count <= _LONGEST_OFFSETS:
        return None
    file.seek(offsets_start)
    groups = file.read(count)
    at = 0
    while at + RECORD.size <= len(groups):
        _, length = RECORD.unpack_from(groups, at)
        group, start, its_length = struct.unpack_from("<BQQ", groups, at + RECORD.size)
        if group == _ATTACHMENT_INDEX and its_length:
            file.seek(start + RECORD.size)
            offset, length_of_record = struct.unpack("<QQ", file.read(16))
            if offset + length_of_record > size or length_of_record > _LARGEST_INDEX:
                return None
            return _attached(file, offset, length_of_record)
        at += RECORD.size + length
    return None


def _attached(file: IO[bytes], offset: int, length: int) -> _Stored | None:
    import zlib  # only here

    file.seek(offset)
    record = file.read(length)
    body, crc = record[RECORD.size : -4], struct.unpack("<I", record[-4:])[0]
    if zlib.crc32(body) != crc:
        return None
    at = 16  # two times
    words = []
    for _ in range(2):
        count = struct.unpack_from("<I", body, at)[0]
        words.append(body[at + 4 : at + 4 + count].decode())
        at += 4 + count
    if words[0] != layout.INDEX:
        return None
    return msgspec.msgpack.decode(body[at + 8 :], type=_Stored)


def scan(path: Path, file: IO[bytes], index: Index) -> None:
    """Go on through the records of a file that has no index, as far as they are complete."""
    size = file.seek(0, 2)
    if size <= index.scanned or index.is_finished:
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if not index.scanned:  # it was empty when it was looked at first
            if content[: len(MAGIC)] != MAGIC[: len(content)]:
                raise NotARecording(f"{path} is no recording: it does not begin like an MCAP file")
            index.scanned = len(MAGIC)
        _scan(path, content, index)


def _scan(path: Path, content: mmap.mmap, index: Index) -> None:
    at = resumed = index.scanned
    size = len(content)
    while at + RECORD.size <= size:
        code, length = RECORD.unpack_from(content, at)
        after = at + RECORD.size + length
        if not _is_sound(content, at, code, after):
            if at == resumed and code == _DATA_END and index.is_finished_by_word:
                break  # it was the end before: a writer is writing over it just now, and its first byte last
            index.corrupt += 1
            # A chunk that lacks some bytes leads into the next one: that begins before this place.
            at = chunks.find(content, index.visited + 1)
            if at < 0:
                at = size  # nothing can be followed from here on, now or later
            index.scanned = at
            continue
        if after > size:
            break
        if code == _HEADER:
            _see_header(content[at + RECORD.size : after], index)
        elif code == CHUNK_CODE:
            index.visited = at
            _see_chunk(content, at, after, index)
        elif code == _METADATA:
            _see_metadata(path, content[at + RECORD.size : after], index)
        elif code == _DATA_END:
            index.is_finished = not index.is_finished_by_word
            break
        at = index.scanned = after


def _is_sound(content: mmap.mmap, at: int, code: int, after: int) -> bool:
    """Whether a record is one, as far as it is there. A wrong length must not lead past others."""
    if code == CHUNK_CODE:
        return chunks.is_one(content, at) or (at + chunks.ENOUGH > len(content) < after)
    if code not in _KNOWN:
        return False
    return chunks.find(content, at + 1, len(content) if code == _DATA_END else after) < 0


def _see_header(raw: bytes, index: Index) -> None:
    count = int.from_bytes(raw[:4], "little")
    profile = raw[4 : 4 + count]
    index.is_foreign = profile != layout.PROFILE.encode()
    if len(raw) < 8 or len(profile) != count:
        index.corrupt += 1


def _see_chunk(content: mmap.mmap, at: int, after: int, index: Index) -> None:
    start, end = chunks.times(content, at)
    index.unpacked += chunks.unpacked_length(content, at)
    before = index.chunks[-1] if index.chunks else None
    if before is None or not before.start <= start <= before.end + ODD_NS or end - start > ODD_NS:
        try:
            unpacked = chunks.unpack(content[at + RECORD.size : after])
            logged = [each.logged for each in chunks.records(unpacked) if isinstance(each, chunks.Message)]
            start, end = min(logged), max(logged)
        except (ValueError, struct.error, MemoryError):
            index.corrupt += 1
            return
    if index.begun is not None and not start == end == index.begun.at:
        index.begun = None
    index.chunks.append(ChunkAt(at, start, end, index.begun is not None))


def _see_metadata(path: Path, raw: bytes, index: Index) -> None:
    try:
        name, told = _metadata(raw)
        told = layout.opened(told)
        match name:
            case layout.ABOUT:
                if int(told.get("version", "0")) > layout.VERSION:
                    raise NotARecording(
                        f"{path} was recorded by a newer jaxtop (format {told['version']}): upgrade jaxtop"
                    )
                index.is_finished_by_word = told.pop(layout.END, "") == layout.END_IS_REWRITTEN
                index.about = told
            case layout.FINISHED:
                index.is_finished_by_word = False
            case layout.CHANNELS:
                index.channels |= {int(number): _channel(each) for number, each in told.items()}
            case layout.KEYFRAME:
                windows, happened = json.loads(told["windows"]), json.loads(told["happened"])
                times = tuple(map(_time, windows))
                index.begun = KeyframeAt(_time(told["at"]), len(index.chunks), times, dict(happened))
            case layout.KEYFRAME_END:
                if index.begun is not None:
                    index.keyframes.append(index.begun)
                index.begun = None
            case layout.CLOCK:
                index.clock = _clock(told)
    except (ValueError, KeyError, TypeError, RecursionError, struct.error):
        index.corrupt += 1


def _time(told: str | int) -> int:
    at = int(told)
    if not 0 <= at <= layout.LATEST_NS:
        raise ValueError("a time that is none")
    return at


def _clock(told: dict[str, str]) -> Clock:
    error = told.get("error_s")
    clock = Clock(float(told["offset_s"]), None if error is None else float(error))
    if not _is_near(clock):
        raise ValueError("a clock that no machine has")
    return clock


def _channel(told: str) -> Channel:
    return msgspec.json.decode(told, type=Channel)


def _metadata(raw: bytes) -> tuple[str, dict[str, str]]:
    words, at = [], 0

    def word() -> str:
        nonlocal at
        count = struct.unpack_from("<I", raw, at)[0]
        found = raw[at + 4 : at + 4 + count]
        if len(found) != count:
            raise ValueError("a record that ends too early")
        at += 4 + count
        return found.decode()

    name = word()
    at += 4  # the length of all that follows
    while at < len(raw):
        words.append(word())
    return name, dict(zip(words[::2], words[1::2], strict=True))
