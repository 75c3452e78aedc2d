"""Write MCAP files that are complete after each flush, so that any reader can open them at any time."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from jaxtop.recording.file import GrowingFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mcap.records import McapRecord, Statistics

MAGIC = b"\x89MCAP0\r\n"
# A chunk is closed at this size. The writer also closes it with each flush, at least every two seconds.
CHUNK_BYTES = 1 << 20
NO_SCHEMA = 0


class McapFile:
    """An MCAP file under construction: what was added since the last flush is in memory.

    The end of an indexed file lists all its chunks, and each flush writes it again. Such a file should have
    few chunks, or be flushed once. A file without an index is read from its beginning.
    """

    def __init__(self, path: Path, profile: str, library: str, *, is_indexed: bool) -> None:
        import zstandard  # heavy, as mcap is, and needed only to record
        from mcap import records

        self._records, self._pack = records, zstandard.ZstdCompressor().compress
        self._is_indexed = is_indexed
        self._chunk = _Chunk()
        self._counts: dict[int, int] = {}  # messages, by channel
        self._span: tuple[int, int] | None = None
        self._schemas, self._channels = _Group(), _Group()
        self._chunks, self._attachments, self._metadata = _Group(), _Group(), _Group()
        self._file = GrowingFile(path)
        try:
            self._file.write(MAGIC + _encoded(records.Header(profile, library)))
            self.flush()
        except OSError:
            self.close()
            raise

    @property
    def size(self) -> int:
        """The size in bytes so far; the open chunk counts unpacked."""
        return self._file.tell() + len(self._chunk.content)

    def schema(self, name: str, encoding: str, content: bytes) -> int:
        number = self._schemas.count + 1
        raw = _encoded(self._records.Schema(id=number, name=name, encoding=encoding, data=content))
        self._chunk.content += raw
        self._schemas.add(raw)
        return number

    def channel(self, topic: str, encoding: str, about: Mapping[str, str], schema: int = NO_SCHEMA) -> int:
        number = self._channels.count + 1
        raw = _encoded(self._records.Channel(number, topic, encoding, dict(about), schema))
        self._chunk.content += raw
        self._channels.add(raw)
        return number

    def message(self, channel: int, at: int, sequence: int, raw: bytes) -> None:
        self._chunk.add(channel, at, _encoded(self._records.Message(channel, at, raw, at, sequence)))
        self._counts[channel] = self._counts.get(channel, 0) + 1
        if len(self._chunk.content) > CHUNK_BYTES:
            self._close_chunk()

    def metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Add metadata before the open chunk."""
        at, length = self._put(self._records.Metadata(name, dict(values)))
        self._metadata.add(_encoded(self._records.MetadataIndex(at, length, name)))

    def attachment(self, name: str, media_type: str, content: bytes) -> None:
        """Add an attachment before the open chunk."""
        at, length = self._put(self._records.Attachment(0, 0, name, media_type, content))
        index = self._records.AttachmentIndex(at, length, 0, 0, len(content), name, media_type)
        self._attachments.add(_encoded(index))

    def flush(self) -> None:
        """Close the open chunk, and write everything to the file, followed by an end."""
        self._close_chunk()
        if self._file.has_pending:
            self._file.flush(self._end())

    def close(self) -> None:
        """Close the file; records since the last flush are lost."""
        self._file.close()

    def _put(self, record: McapRecord) -> tuple[int, int]:
        at, raw = self._file.tell(), _encoded(record)
        self._file.write(raw)
        return at, len(raw)

    def _close_chunk(self) -> None:
        chunk = self._chunk
        if not chunk.places:
            return
        self._chunk = _Chunk()
        content, (start, end) = bytes(chunk.content), chunk.span
        packed = self._pack(content)
        before = self._span or chunk.span
        self._span = min(before[0], start), max(before[1], end)
        at, length = self._put(
            self._records.Chunk("zstd", packed, end, start, zlib.crc32(content), len(content))
        )
        if not self._is_indexed:
            return
        indexes, indexes_at = {}, self._file.tell()
        for channel, places in chunk.places.items():
            indexes[channel], _ = self._put(self._records.MessageIndex(channel, places))
        index = self._records.ChunkIndex(
            chunk_length=length,
            chunk_start_offset=at,
            compression="zstd",
            compressed_size=len(packed),
            message_end_time=end,
            message_index_length=self._file.tell() - indexes_at,
            message_index_offsets=indexes,
            message_start_time=start,
            uncompressed_size=len(content),
        )
        self._chunks.add(_encoded(index))

    def _end(self) -> bytes:
        """Return the end of the file: the end of the data, the summary if there is one, the footer."""
        data_end = _encoded(self._records.DataEnd(0))
        if not self._is_indexed:  # a summary without chunks would mean that the file has none
            return data_end + _encoded(self._records.Footer(0, 0, 0)) + MAGIC
        start = self._file.tell() + len(data_end)
        summary, offsets = bytearray(), bytearray()
        statistics = _Group()
        statistics.add(_encoded(self._statistics()))
        indexes = self._chunks, self._attachments, self._metadata
        for group in (self._schemas, self._channels, statistics, *indexes):
            if group.count:
                place = start + len(summary), len(group.raw)
                offsets += _encoded(self._records.SummaryOffset(group.raw[0], *place))
                summary += group.raw
        offsets_at = start + len(summary)
        summary += offsets
        footer = _encoded(self._records.Footer(start, offsets_at, 0))
        crc = zlib.crc32(footer[:-4], zlib.crc32(summary))
        return b"".join((data_end, summary, footer[:-4], crc.to_bytes(4, "little"), MAGIC))

    def _statistics(self) -> Statistics:
        start, end = self._span or (0, 0)
        return self._records.Statistics(
            attachment_count=self._attachments.count,
            channel_count=self._channels.count,
            channel_message_counts=self._counts,
            chunk_count=self._chunks.count,
            message_count=sum(self._counts.values()),
            message_end_time=end,
            message_start_time=start,
            metadata_count=self._metadata.count,
            schema_count=self._schemas.count,
        )


class _Chunk:
    """An open chunk: its records, and the offsets of the messages of each channel."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.places: dict[int, list[tuple[int, int]]] = {}
        self.span = 0, 0

    def add(self, channel: int, at: int, raw: bytes) -> None:
        self.span = (min(self.span[0], at), max(self.span[1], at)) if self.places else (at, at)
        self.places.setdefault(channel, []).append((at, len(self.content)))
        self.content += raw


class _Group:
    """The records of one kind in the summary."""

    def __init__(self) -> None:
        self.raw, self.count = bytearray(), 0

    def add(self, raw: bytes) -> None:
        self.raw += raw
        self.count += 1


def _encoded(record: McapRecord) -> bytes:
    from mcap.data_stream import RecordBuilder  # as in `McapFile`

    builder = RecordBuilder()
    record.write(builder)
    raw: bytes = builder.end()
    return raw
