"""The parts of messages that tell last frames apart. The rest of a frame is stored as it came."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

# The kinds of messages about one program.
OF_PROGRAM = ("inventory", "operations", "peak")


class _Counters(Struct, array_like=True, tag="pulse"):
    """The counters of a pulse: a pulse lists only those that changed."""

    at_ms: int
    sampled_ms: int | None
    memory_source: msgspec.Raw
    devices: msgspec.Raw
    host: msgspec.Raw
    launches: dict[str, int] = {}


class _Census(Struct, tag="arrays"):
    serial: int = 0
    number: int = 0


class _Change(Struct, tag="arrays_change"):
    serial: int
    number: int


class _ProgramKey(Struct):
    program: str
    fingerprint: str | None


class _ProgramName(Struct, array_like=True):
    name: str
    fingerprint: str | None


class _Programs(Struct, tag="programs"):
    programs: tuple[_ProgramName, ...] = ()
    rest: int = 0


_OF_PROGRAM = [msgspec.defstruct(kind, (), bases=(_ProgramKey,), tag=kind) for kind in OF_PROGRAM]
_PARTS: tuple[type[Struct], ...] = (_Counters, _Census, _Change, _Programs, *_OF_PROGRAM)
_DECODERS = {each.__struct_config__.tag: msgspec.msgpack.Decoder(each) for each in _PARTS}


def part_of(kind: str, raw: bytes) -> Any:
    """Return the part of a message of this kind; raise `msgspec.DecodeError` if it is invalid."""
    return _DECODERS[kind].decode(raw)
