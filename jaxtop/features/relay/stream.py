"""The messages between a relay and a viewer.

Between two halves: a first line with the version, then messages. A message is its length, its payload and a
line feed: `srun` passes on only whole lines. Over ZeroMQ a message is a payload alone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from jaxtop import wire
from jaxtop.wire.bounds import AgentId  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.codec import MAX_KIND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MAGIC = b"jaxtop-relay-stream "
FIRST_LINE = _MAGIC + f"{wire.VERSION}\n".encode()
# What a login shell may print before the first line.
MAX_BEFORE = 64 << 10
# A frame, or a request with the names of ten thousand hosts.
MAX_BYTES = 2 * wire.MAX_PAYLOAD
_LENGTH, _END = struct.Struct(">I"), b"\n"

# The bounds of wire, for what passes without being decoded.
_Kind = Annotated[str, Meta(max_length=MAX_KIND)]
_Payload = Annotated[bytes, Meta(max_length=wire.MAX_PAYLOAD)]
_MAX_CHARS = 1000
_MAX_NOTES = 100
_MAX_REASONS = 1000
_Text = Annotated[str, Meta(max_length=_MAX_CHARS)]


class Garbled(Exception):
    """The bytes are not those of the other half; the text says what came instead."""


class OtherVersion(Garbled):
    """The other half speaks another version of the messages."""


def other_version(theirs: object) -> str:
    """Return what to do where the other half speaks another version."""
    return f"speaks version {theirs}, this one {wire.VERSION}: install the same jaxtop on both sides"


class Open(Struct, frozen=True, tag="open"):
    """From the viewer end, once: what to follow. The relay end's command line may name something else.

    The version is that of the messages; where there is a first line, that says it.
    """

    targets: tuple[str, ...] = ()
    owner: str | None = None
    version: int = 0


class RelayedRequest(Struct, frozen=True, tag="ask"):
    """From the viewer end: a request to an agent. The answer carries the same number."""

    number: int
    agent: str
    request: wire.Request


class Alive(Struct, frozen=True, tag="alive"):
    """From the viewer end, every few seconds and soon after frames: a relay end that hears nothing ends.

    `arrived` is the number of `RelayedFrames` that have arrived: the relay end sends only some ahead.
    """

    arrived: int = 0


class Opened(Struct, frozen=True, tag="opened"):
    """From the relay end, once: frames will follow, of messages of this version."""

    jaxtop: str
    version: int = 0


class RelayRefused(Struct, frozen=True, tag="refused"):
    """From the relay end: there is nothing to follow, and why; it ends."""

    why: str


class RelayedFrames(Struct, frozen=True, tag="frames"):
    """Frames of the relay end: agent, kind, sequence and payload of each."""

    frames: tuple[tuple[AgentId, _Kind, int, _Payload], ...]


class Answer(Struct, frozen=True, tag="answer"):
    """From the relay end: the agent's reply to a request, or that none came."""

    number: int
    reply: wire.Reply | None = None


class Status(Struct, frozen=True, tag="status"):
    """From the relay end, at least every few seconds: the state of its source."""

    is_settled: bool = False
    notes: Annotated[tuple[_Text, ...], Meta(max_length=_MAX_NOTES)] = ()
    rejected: Annotated[dict[_Text, int], Meta(max_length=_MAX_REASONS)] = {}


def status_of(is_settled: bool, notes: Iterable[str], rejected: Mapping[str, int]) -> Status:
    """Return a status within the bounds: with many relays behind a relay there may be more to say."""
    most = [note[:_MAX_CHARS] for note in notes][:_MAX_NOTES]
    reasons = {why[:_MAX_CHARS]: count for why, count in list(rejected.items())[:_MAX_REASONS]}
    return Status(is_settled, tuple(most), reasons)


Message = Open | RelayedRequest | Alive | Opened | RelayRefused | RelayedFrames | Answer | Status
Asked = Open | RelayedRequest | Alive | wire.Request
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)
_asked = msgspec.msgpack.Decoder(Asked)


def pack(message: Message) -> bytes:
    return framed(encode(message))


def framed(payload: bytes) -> bytes:
    return _LENGTH.pack(len(payload)) + payload + _END


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(payload: bytes) -> Message:
    """Return the message in these bytes; raise `Garbled` if they are something else."""
    message: Message = _decoded(_decoder, payload)
    return message


def decode_asked(payload: bytes) -> Asked:
    """Return what a viewer sends to the port of a relay; it may take the relay for an agent."""
    asked: Asked = _decoded(_asked, payload)
    return asked


def _decoded(decoder: msgspec.msgpack.Decoder[Any], payload: bytes) -> Any:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Garbled(str(error)) from None


class Reader:
    """Cuts the bytes of the other half into messages; raises `Garbled` if they are something else."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._has_begun = False

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that these bytes complete."""
        self._bytes += data
        if not self._has_begun and not self._begins():
            return
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > MAX_BYTES:
                raise Garbled(f"a message of {length} bytes")
            end = _LENGTH.size + length
            if len(self._bytes) <= end:
                return
            payload, last = bytes(self._bytes[_LENGTH.size : end]), self._bytes[end : end + 1]
            del self._bytes[: end + 1]
            if last != _END:
                raise Garbled(f"a message of {length} bytes that does not end there")
            yield decode(payload)

    def _begins(self) -> bool:
        """Drop what came before the first line; return whether that line is there."""
        found = self._bytes.find(_MAGIC)
        end = self._bytes.find(b"\n", found)
        if found < 0 or end < 0:
            if len(self._bytes) > MAX_BEFORE:
                raise Garbled(f"{len(self._bytes)} bytes of other text")
            return False
        line = bytes(self._bytes[found : end + 1])
        if line != FIRST_LINE:
            raise OtherVersion(line.removeprefix(_MAGIC).decode("ascii", "replace").strip())
        del self._bytes[: end + 1]
        self._has_begun = True
        return True
