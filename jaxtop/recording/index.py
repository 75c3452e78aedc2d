"""The index of a recording: read from the end of a finished file, otherwise rebuilt record by record."""

from __future__ import annotations

import json
import mmap
import struct
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import IO, TYPE_CHECKING

import msgspec

from jaxtop import wire
from jaxtop.recording import chunks, layout
from jaxtop.recording.chunks import CHUNK_CODE, RECORD
from jaxtop.recording.container import MAGIC
from jaxtop.recording.layout import Channel, ChunkAt, Clock, KeyframeAt
from jaxtop.wire.bounds import NANOSECONDS

if TYPE_CHECKING:
    from pathlib import Path

_FOOTER = struct.Struct("<QQI")
_HEADER, _ATTACHMENT_INDEX, _METADATA, _DATA_END = 1, 10, 12, 15
_KNOWN = frozenset(range(1, 16))
# A summary has only a few groups, and the index of a jaxtop recording is far smaller than this.
_LONGEST_OFFSETS, _LARGEST_INDEX = 4096, 1 << 28
# A file that unpacks to more bytes than both limits is hostile. The second is a multiple of the file size.
MOST_UNPACKED, MOST_UNPACKED_TIMES = 1 << 31, 250
# The times in a chunk's head have no checksum. If a chunk spans more than this, or begins this long after
# the end of the previous one, its times are read from its messages.
ODD_NS = 120 * NANOSECONDS


class NotARecording(Exception):
    """A file that jaxtop cannot open as a recording; the message is one line."""


@dataclass
class _StoredIndex:
    """The index as it is stored in the attachment."""

    version: int = 0
    about: dict[str, str] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    chunks: list[ChunkAt] = field(default_factory=list)
    keyframes: list[KeyframeAt] = field(default_factory=list)
    clock: Clock | None = None


@dataclass
class Index(_StoredIndex):
    """The index of a file. A scan of a growing file continues at `scanned`."""

    is_finished: bool = False
    is_from_elsewhere: bool = False  # according to the header, which may be damaged
    scanned: int = len(MAGIC)
    visited: int = 0  # offset of the last chunk that was scanned
    begun: KeyframeAt | None = None  # a keyframe whose end was not seen yet
    corrupt: int = 0  # number of places where the records could not be read
    unpacked: int = 0  # unpacked bytes of all chunks seen
    is_finished_by_word: bool = False  # whether only a FINISHED record ends the file

    def stored(self) -> bytes:
        """Return the index encoded for the attachment at the end of the file."""
        values = {each.name: getattr(self, each.name) for each in fields(_StoredIndex)}
        return msgspec.msgpack.encode({**values, "version": wire.VERSION})


def read(path: Path, file: IO[bytes]) -> Index:
    size = file.seek(0, 2)
    file.seek(0)
    magic = file.read(len(MAGIC))
    if not size:
        return Index(scanned=0)
    _check_start(path, magic)
    stored = None
    with suppress(OSError, ValueError, OverflowError, struct.error, msgspec.DecodeError):
        stored = _from_end(file, size)
    if stored is not None and _is_plausible(stored, size):
        _check_version(path, stored.version)
        return Index(**vars(stored), is_finished=True)
    index = Index()
    scan(path, file, index)
    if index.unpacked > max(MOST_UNPACKED, MOST_UNPACKED_TIMES * size):
        gigabytes = index.unpacked >> 30
        raise NotARecording(f"{path} would unpack to {gigabytes} GB, too much for a recording of its size")
    if index.is_from_elsewhere and not index.about and not index.channels:
        raise NotARecording(f"{path} is an MCAP file, but not a jaxtop recording")
    return index


def _check_start(path: Path, start: bytes) -> None:
    if not MAGIC.startswith(start):
        raise NotARecording(f"{path} is not a recording: it does not start like an MCAP file")


def _check_version(path: Path, version: int) -> None:
    if version > wire.VERSION:
        raise NotARecording(f"{path} was recorded by a newer jaxtop (format {version}): upgrade jaxtop")
    if version < wire.VERSION:
        raise NotARecording(
            f"{path} was recorded by an older jaxtop (format {version}, this one reads {wire.VERSION}): "
            "replay it with that jaxtop, or record again"
        )


def _is_plausible(stored: _StoredIndex, size: int) -> bool:
    """Return whether all offsets and times of the index are possible in a recording."""
    return (
        all(0 <= each.start <= each.end <= layout.LATEST_NS for each in stored.chunks)
        and all(0 <= each.offset < size for each in stored.chunks)
        and all(0 <= each.chunk <= len(stored.chunks) for each in stored.keyframes)
        and all(0 <= each.at <= layout.LATEST_NS for each in stored.keyframes)
        and (stored.clock is None or _is_near(stored.clock))
    )


def _is_near(clock: Clock) -> bool:
    """Return whether a clock offset and its error are possible; infinity and NaN are not."""
    return all(abs(each) <= layout.FARTHEST_CLOCK_S for each in (clock.offset_s, clock.error_s or 0.0))


def _from_end(file: IO[bytes], size: int) -> _StoredIndex | None:
    """Return the index at the end of a finished file, found through its footer."""
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


def _attached(file: IO[bytes], offset: int, length: int) -> _StoredIndex | None:
    import zlib  # only used here

    file.seek(offset)
    record = file.read(length)
    body, crc = record[RECORD.size : -4], struct.unpack("<I", record[-4:])[0]
    if zlib.crc32(body) != crc:
        return None
    name, at = chunks.word(body, 16)  # skips two times
    if name != layout.INDEX:
        return None
    _, at = chunks.word(body, at)
    return msgspec.msgpack.decode(body[at + 8 :], type=_StoredIndex)


def scan(path: Path, file: IO[bytes], index: Index) -> None:
    """Continue to scan a file that has no index, up to its last complete record."""
    size = file.seek(0, 2)
    if size <= index.scanned or index.is_finished:
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if not index.scanned:  # the file was empty when it was opened
            _check_start(path, content[: len(MAGIC)])
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
                break  # the previous end: a writer is overwriting it, and writes its first byte last
            index.corrupt += 1
            # The length of a chunk that lacks bytes leads into the next one, which begins before this offset.
            at = chunks.find(content, index.visited + 1)
            if at < 0:
                at = size  # nothing after this can be read, now or later
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
    """Return whether the bytes present are a record; a wrong length must not skip other records."""
    if code == CHUNK_CODE:
        return chunks.is_one(content, at) or (at + chunks.CHUNK_HEAD_BYTES > len(content) < after)
    if code not in _KNOWN:
        return False
    return chunks.find(content, at + 1, len(content) if code == _DATA_END else after) < 0


def _see_header(raw: bytes, index: Index) -> None:
    count = int.from_bytes(raw[:4], "little")
    profile = raw[4 : 4 + count]
    index.is_from_elsewhere = profile != layout.PROFILE.encode()
    if len(raw) < 8 or len(profile) != count:
        index.corrupt += 1


def _see_chunk(content: mmap.mmap, at: int, after: int, index: Index) -> None:
    start, end, unpacked_size = chunks.head(content, at)
    index.unpacked += unpacked_size
    before = index.chunks[-1] if index.chunks else None
    if before is None or not before.start <= start <= before.end + ODD_NS or end - start > ODD_NS:
        try:
            unpacked = chunks.unpack(content[at + RECORD.size : after])
            logged = [
                each.logged for each in chunks.records(unpacked) if isinstance(each, chunks.ChunkMessage)
            ]
            start, end = min(logged), max(logged)
        except (ValueError, struct.error, MemoryError):
            index.corrupt += 1
            return
    if index.begun is not None and not start == end == index.begun.at:
        index.begun = None
    index.chunks.append(ChunkAt(at, start, end, index.begun is not None))


def _see_metadata(path: Path, raw: bytes, index: Index) -> None:
    try:
        name, at = chunks.word(raw, 0)
        values = layout.opened(chunks.pairs(raw, at))
        match name:
            case layout.ABOUT:
                _check_version(path, int(values.get("version", "0")))
                index.is_finished_by_word = values.pop(layout.END, "") == layout.END_IS_REWRITTEN
                index.about = values
            case layout.FINISHED:
                index.is_finished_by_word = False
            case layout.CHANNELS:
                index.channels |= {
                    int(number): msgspec.json.decode(each, type=Channel) for number, each in values.items()
                }
            case layout.KEYFRAME:
                windows, happened = json.loads(values["windows"]), json.loads(values["happened"])
                times, is_early = tuple(map(_time, windows)), bool(json.loads(values["early"]))
                index.begun = KeyframeAt(
                    _time(values["at"]), len(index.chunks), times, dict(happened), is_early
                )
            case layout.KEYFRAME_END:
                if index.begun is not None:
                    index.keyframes.append(index.begun)
                index.begun = None
            case layout.CLOCK:
                index.clock = _clock(values)
    except (ValueError, KeyError, TypeError, RecursionError, struct.error):
        index.corrupt += 1


def _time(values: str | int) -> int:
    at = int(values)
    if not 0 <= at <= layout.LATEST_NS:
        raise ValueError("a time that is none")
    return at


def _clock(values: dict[str, str]) -> Clock:
    error = values.get("error_s")
    clock = Clock(float(values["offset_s"]), None if error is None else float(error))
    if not _is_near(clock):
        raise ValueError("a clock that no machine has")
    return clock
