"""Encoding and decoding of messages."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Struct

from jaxtop.wire.activity import Activity
from jaxtop.wire.arrays import Arrays, ArraysChange
from jaxtop.wire.bounds import (
    AgentId,
    NewerVersion,
    Unreadable,
)
from jaxtop.wire.checks import check
from jaxtop.wire.hosts import Bye, Compile, Event, Hello
from jaxtop.wire.ledger import Ledger
from jaxtop.wire.libraries import Nccl, NcclTimes, TpuCores
from jaxtop.wire.links import Costs, Link, Reply, Request, Roster
from jaxtop.wire.operations import Operations
from jaxtop.wire.programs import Inventory, Peak, Programs
from jaxtop.wire.pulse import Pulse
from jaxtop.wire.scalars import Curves, Scalars
from jaxtop.wire.stacks import Stacks
from jaxtop.wire.windows import Window

# The version of everything that consists of messages: the wire, recordings and the stream of relays. Each
# refuses another version, and says which side to upgrade.
VERSION = 3

T = TypeVar("T")

# The most bytes that anyone reads of one message. The roster of thousands of hosts fits; larger messages of
# hostile peers are rejected.
MAX_PAYLOAD = 1024 * 1024
# The most bytes of a message that an agent sends to every viewer. A viewer's queue is counted in messages, so
# their size needs a bound.
MAX_TELEMETRY = 256 * 1024
# The names of kinds stay this short in newer versions, too.
MAX_KIND = 64


class Header(Struct, frozen=True, array_like=True):
    """The version of the messages, the id of the agent, and the number of the message within its kind."""

    version: int
    agent: AgentId
    sequence: int


Message = (
    Hello | Pulse | Arrays | ArraysChange | Programs | Inventory | Window | Stacks | Activity | Compile
    | Nccl | NcclTimes | TpuCores | Event | Bye | Roster | Link | Operations
    | Peak | Ledger | Scalars | Curves
)  # fmt: skip
KINDS: dict[str, type[Message]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Message)}


# Kinds that only viewers and keyframes produce (`model/keyframe.py`); agents must not send them.
OWN_KINDS = frozenset({"link", "past", "past_arrays", "past_events"})
# Frames from the viewer's own side have no sequence number.
LOCAL_SEQUENCE = 0


class Frame(NamedTuple):
    """A received message: its time, agent, kind, sequence number and raw bytes."""

    at: float
    agent: str
    kind: str
    sequence: int
    raw: bytes


_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind) for kind in (*KINDS.values(), Header, Request, Reply, Costs)
}


def encode(value: Struct) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # invalid Unicode in a file name must not keep the agent from sending
        return _encoder.encode(_legible(msgspec.to_builtins(value)))


def _legible(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_legible(key): _legible(entry) for key, entry in value.items()}
    return [_legible(entry) for entry in value] if isinstance(value, list | tuple) else value


def kind_of(message: Message) -> str:
    return str(message.__struct_config__.tag)


def local_frame(at: float, agent: str, message: Message) -> Frame:
    """Return the frame of a message that the viewer's side made."""
    return Frame(at, agent, kind_of(message), LOCAL_SEQUENCE, encode(message))


def decode(kind: str, raw: bytes) -> Message:
    """Return the message of this kind in these bytes; raise `Unreadable` if it is invalid."""
    message: Message = decode_as(KINDS[kind], raw)
    check(message)
    return message


def link_of(frame: Frame) -> Link | None:
    """Return the link in a frame; None if it has another message, or none that can be read."""
    if frame.kind != "link":
        return None
    try:
        found: Link = decode_as(Link, frame.raw)
    except Unreadable:
        return None
    return found


def decode_as(struct: type[Any], raw: bytes) -> Any:
    """Return the struct in these bytes; raise `Unreadable` if they hold anything else."""
    return decode_with(_decoders[struct], raw)


def decode_with(decoder: msgspec.msgpack.Decoder[T], raw: bytes) -> T:
    """Return what a decoder finds in these bytes; raise `Unreadable` if they hold anything else."""
    if len(raw) > MAX_PAYLOAD:
        raise Unreadable(f"{len(raw)} bytes, more than a message may have")
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unreadable(str(error)) from None


def pack(kind: str, header: Header, payload: bytes) -> list[bytes]:
    """Return the three parts of a message."""
    return [kind.encode(), encode(header), payload]


def unpack(parts: list[bytes], at: float) -> Frame:
    """Return the frame in the three parts of a message; its payload stays undecoded."""
    if len(parts) != 3:
        raise Unreadable(f"{len(parts)} parts instead of 3")
    header: Header = decode_as(Header, parts[1])
    if header.version > VERSION:
        raise NewerVersion(
            f"wire version {header.version}, this jaxtop reads up to {VERSION}; upgrade jaxtop"
        )
    if header.version < VERSION:
        raise Unreadable(
            f"wire version {header.version}, this jaxtop reads {VERSION}; upgrade jaxtop in the run"
        )
    if len(parts[0]) > MAX_KIND:
        raise Unreadable(f"a kind of {len(parts[0])} letters")
    if len(parts[2]) > MAX_PAYLOAD:
        raise Unreadable(f"{len(parts[2])} bytes, more than a message may have")
    return Frame(at, header.agent, parts[0].decode("ascii", "replace"), header.sequence, parts[2])
