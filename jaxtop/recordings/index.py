"""Where what stands in a recording: read from the end of a finished file, else record by record."""

from __future__ import annotations

import json
import mmap
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from jaxtop.recordings import layout
from jaxtop.recordings.layout import Channel

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"\x89MCAP0\r\n"
_RECORD = struct.Struct("<BQ")
_CHUNK = struct.Struct("<QQQII")
_FOOTER = struct.Struct("<QQI")
_HEADER, _CHUNK_CODE, _ATTACHMENT, _ATTACHMENT_INDEX, _METADATA, _DATA_END = 1, 6, 9, 10, 12, 15
_KNOWN = frozenset(range(1, 16))
_ZSTD = b"\x04\x00\x00\x00zstd"
_BEFORE_ZSTD = _RECORD.size + _CHUNK.size - 4
# More than any chunk of ours has; what claims more is corrupt.
LARGEST_CHUNK = 1 << 28


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
    scanned: int = len(MAGIC)
    begun: KeyframeAt | None = None  # a keyframe of which the end was not seen yet
    corrupt: int = 0  # places at which records could not be followed

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
    with suppress(OSError, ValueError, struct.error, msgspec.DecodeError):
        stored = _from_end(file, size)
    if stored is not None:
        if stored.version > layout.VERSION:
            raise NotARecording(
                f"{path} was recorded by a newer jaxtop (format {stored.version}): upgrade jaxtop"
            )
        return Index(
            stored.about, stored.channels, stored.chunks, stored.keyframes, stored.clock, is_finished=True
        )
    index = Index()
    scan(path, file, index)
    return index


def _from_end(file: IO[bytes], size: int) -> _Stored | None:
    """The index that a finished file has at its end, found by way of its footer."""
    tail = _RECORD.size + _FOOTER.size + len(MAGIC)
    file.seek(size - tail)
    end = file.read(tail)
    if not end.endswith(MAGIC):
        return None
    _, offsets_start, _ = _FOOTER.unpack_from(end, _RECORD.size)
    file.seek(offsets_start)
    groups = file.read(size - tail - offsets_start)
    at = 0
    while at + _RECORD.size <= len(groups):
        _, length = _RECORD.unpack_from(groups, at)
        group, start, its_length = struct.unpack_from("<BQQ", groups, at + _RECORD.size)
        if group == _ATTACHMENT_INDEX and its_length:
            file.seek(start + _RECORD.size)
            offset, length_of_record = struct.unpack("<QQ", file.read(16))
            return _attached(file, offset, length_of_record)
        at += _RECORD.size + length
    return None


def _attached(file: IO[bytes], offset: int, length: int) -> _Stored | None:
    import zlib  # only here

    file.seek(offset)
    record = file.read(length)
    body, crc = record[_RECORD.size : -4], struct.unpack("<I", record[-4:])[0]
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
    at, size = index.scanned, len(content)
    while at + _RECORD.size <= size:
        code, length = _RECORD.unpack_from(content, at)
        after = at + _RECORD.size + length
        if code not in _KNOWN or (after > size and not _may_be_cut(content, at, code)):
            index.corrupt += 1
            at = _next_chunk(content, at + 1)
            if at < 0:
                at = size  # nothing can be followed from here on, now or later
            index.scanned = at
            continue
        if after > size:
            break
        if code == _CHUNK_CODE:
            _see_chunk(content, at, index)
        elif code == _METADATA:
            _see_metadata(path, content[at + _RECORD.size : after], index)
        elif code == _DATA_END:
            index.is_finished = True
            break
        at = index.scanned = after


def _may_be_cut(content: mmap.mmap, at: int, code: int) -> bool:
    """Whether a record that goes on beyond the end of the file may be a good one that is not all there."""
    if code == _CHUNK_CODE and at + _RECORD.size + _CHUNK.size + len(_ZSTD) <= len(content):
        return _is_chunk(content, at)
    return _next_chunk(content, at + 1) < 0


def _is_chunk(content: mmap.mmap, at: int) -> bool:
    _, length = _RECORD.unpack_from(content, at)
    start, end, unpacked, _, _ = _CHUNK.unpack_from(content, at + _RECORD.size)
    return bool(start <= end and unpacked <= LARGEST_CHUNK and length <= LARGEST_CHUNK)


def _next_chunk(content: mmap.mmap, at: int) -> int:
    """Where the next chunk begins, by the look of it; -1 if none does."""
    found = content.find(_ZSTD, at + _BEFORE_ZSTD)
    while found >= 0:
        start = found - _BEFORE_ZSTD
        if content[start] == _CHUNK_CODE and _is_chunk(content, start):
            return start
        found = content.find(_ZSTD, found + 1)
    return -1


def _see_chunk(content: mmap.mmap, at: int, index: Index) -> None:
    start, end, unpacked, _, _ = _CHUNK.unpack_from(content, at + _RECORD.size)
    if start > end or unpacked > LARGEST_CHUNK:
        index.corrupt += 1
        return
    if index.begun is not None and not start == end == index.begun.at:
        index.begun = None
    index.chunks.append(ChunkAt(at, start, end, index.begun is not None))


def _see_metadata(path: Path, raw: bytes, index: Index) -> None:
    try:
        name, told = _metadata(raw)
        match name:
            case layout.ABOUT:
                if int(told.get("version", "0")) > layout.VERSION:
                    raise NotARecording(
                        f"{path} was recorded by a newer jaxtop (format {told['version']}): upgrade jaxtop"
                    )
                index.about = told
            case layout.CHANNELS:
                index.channels |= {int(number): Channel(*json.loads(each)) for number, each in told.items()}
            case layout.KEYFRAME:
                windows, happened = json.loads(told["windows"]), json.loads(told["happened"])
                at = int(told["at"])
                index.begun = KeyframeAt(at, len(index.chunks), tuple(map(int, windows)), dict(happened))
            case layout.KEYFRAME_END:
                if index.begun is not None:
                    index.keyframes.append(index.begun)
                index.begun = None
            case layout.CLOCK:
                error = told.get("error_s")
                index.clock = Clock(float(told["offset_s"]), None if error is None else float(error))
    except (ValueError, KeyError, TypeError, struct.error):
        index.corrupt += 1


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
