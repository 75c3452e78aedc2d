"""Chunks of a file: how they are recognised, and the messages in them."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.recording.layout import LATEST_NS

if TYPE_CHECKING:
    import mmap
    from collections.abc import Container, Iterator

RECORD = struct.Struct("<BQ")
CHUNK_CODE, SCHEMA_CODE, CHANNEL_CODE, MESSAGE_CODE = 6, 3, 4, 5
# The bytes of a chunk of jaxtop. A chunk that claims to exceed this or one of the next bounds is corrupt.
MAX_CHUNK_BYTES = 1 << 24
# The messages of a chunk.
MAX_MESSAGES = 100_000
# The unpacked bytes per packed byte.
MAX_RATIO = 1_000
# A chunk of at most so many unpacked bytes may have any ratio.
ANY_RATIO_BYTES = 1 << 16
_HEAD = struct.Struct("<QQQII")
_MESSAGE = struct.Struct("<HIQQ")
_ZSTD = b"\x04\x00\x00\x00zstd"
_BEFORE_ZSTD = RECORD.size + _HEAD.size - 4
_LONGEST_WORD = 16
# The number of bytes needed to recognise a chunk.
CHUNK_HEAD_BYTES = RECORD.size + _HEAD.size + _LONGEST_WORD + 8


class ChunkMessage(NamedTuple):
    """A message in a chunk."""

    channel: int
    sequence: int
    logged: int
    raw: bytes


def head(content: mmap.mmap, at: int) -> tuple[int, int, int]:
    """Return the times of a chunk's first and last message, and its unpacked size, as its head has them."""
    start, end, unpacked, *_ = _HEAD.unpack_from(content, at + RECORD.size)
    return start, end, unpacked


def is_one(content: mmap.mmap, at: int) -> bool:
    """Return whether a chunk begins here: the lengths in its head must agree."""
    code, length = RECORD.unpack_from(content, at)
    if code != CHUNK_CODE or at + CHUNK_HEAD_BYTES > len(content):
        return False
    start, end, unpacked, _, count = _HEAD.unpack_from(content, at + RECORD.size)
    if start > end or unpacked > MAX_CHUNK_BYTES or length > MAX_CHUNK_BYTES or count > _LONGEST_WORD:
        return False
    (packed,) = struct.unpack_from("<Q", content, at + RECORD.size + _HEAD.size + count)
    return bool(length == _HEAD.size + count + 8 + packed) and not _is_bomb(unpacked, packed)


def _is_bomb(unpacked: int, packed: int) -> bool:
    return unpacked > MAX_CHUNK_BYTES or (unpacked > ANY_RATIO_BYTES and unpacked > MAX_RATIO * packed)


def find(content: mmap.mmap, at: int, end: int | None = None) -> int:
    """Return the offset of the next bytes that look like a chunk; -1 if there are none."""
    end = len(content) if end is None else min(end, len(content))
    found = content.find(_ZSTD, at + _BEFORE_ZSTD, end)
    while found >= 0:
        if is_one(content, found - _BEFORE_ZSTD):
            return found - _BEFORE_ZSTD
        found = content.find(_ZSTD, found + 1, end)
    return -1


def unpack(raw: bytes) -> bytes:
    """Return the content of a chunk; raise ValueError or struct.error if it is corrupt."""
    import zstandard  # heavy, and needed only to read recordings

    _, _, unpacked, crc, count = _HEAD.unpack_from(raw)
    compression = raw[_HEAD.size : _HEAD.size + count]
    packed = raw[_HEAD.size + count + 8 :]
    if _is_bomb(unpacked, len(packed)):
        raise ValueError("a chunk that is too large")
    if compression not in (b"zstd", b""):
        raise ValueError("a compression that jaxtop does not use")
    try:
        # zstandard allocates the size that the packed bytes claim before it checks them.
        if compression and zstandard.frame_content_size(packed) not in (-1, unpacked):
            raise ValueError("a chunk of another length than it says")
        content = zstandard.decompress(packed, unpacked) if compression else packed
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    if zlib.crc32(content) != crc:  # jaxtop always writes one: a missing one, which MCAP allows, is damage
        raise ValueError("a chunk whose checksum is wrong")
    return content


def word(raw: bytes, at: int) -> tuple[str, int]:
    """Return the text at this offset of a record, and the offset behind it; raise ValueError if it is cut."""
    count = struct.unpack_from("<I", raw, at)[0]
    found = raw[at + 4 : at + 4 + count]
    if len(found) != count:
        raise ValueError("a record that ends too early")
    return found.decode(), at + 4 + count


def pairs(raw: bytes, at: int) -> dict[str, str]:
    """Return the map at the end of a record, which begins at this offset with its length."""
    words, at = [], at + 4
    while at < len(raw):
        text, at = word(raw, at)
        words.append(text)
    return dict(zip(words[::2], words[1::2], strict=True))


def schemas(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the schemas in an unpacked chunk with their names; raise as `word` does."""
    for code, start, end in _places(content):
        if code == SCHEMA_CODE:
            record = content[start:end]
            name, at = word(record, 2)  # skips the number
            _encoding, at = word(record, at)
            yield name, record[at + 4 :]


def _places(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the code, the start and the end of each record in an unpacked chunk."""
    at = 0
    while at + RECORD.size <= len(content):
        code, length = RECORD.unpack_from(content, at)
        start, at = at + RECORD.size, at + RECORD.size + length
        yield code, start, at


def records(content: bytes, only: Container[int] | None = None) -> Iterator[ChunkMessage | bytes]:
    """Yield the messages of an unpacked chunk, and its channel records as bytes.

    `only` restricts the messages to these channels. Raises ValueError or struct.error if the chunk has other
    records, more messages than jaxtop writes, or impossible times.
    """
    view, count = memoryview(content), 0
    for code, start, end in _places(content):
        if code == MESSAGE_CODE:
            count += 1
            channel, sequence, logged, _published = _MESSAGE.unpack_from(view, start)
            if logged > LATEST_NS or count > MAX_MESSAGES:
                raise ValueError("a chunk with a time or a number of messages that is none of ours")
            if only is not None and channel not in only:
                continue
            raw = bytes(view[start + _MESSAGE.size : end])
            yield ChunkMessage(channel, sequence, logged, raw)
        elif code == CHANNEL_CODE:
            yield bytes(view[start:end])
        elif code != SCHEMA_CODE:
            raise ValueError("a record that chunks do not have")
