"""The parts of messages that a relay reads: what tells last values apart. The rest passes as it came."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct


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


class _Inventory(Struct, tag="inventory"):
    program: str
    fingerprint: str | None


class _Operations(Struct, tag="operations"):
    program: str
    fingerprint: str | None


class _Peak(Struct, tag="peak"):
    program: str
    fingerprint: str | None


class _Named(Struct, array_like=True):
    name: str
    fingerprint: str | None


class _Programs(Struct, tag="programs"):
    programs: tuple[_Named, ...] = ()
    rest: int = 0


_DECODERS = {
    kind: msgspec.msgpack.Decoder(partial)
    for kind, partial in {
        "pulse": _Counters,
        "arrays": _Census,
        "arrays_change": _Change,
        "inventory": _Inventory,
        "operations": _Operations,
        "peak": _Peak,
        "programs": _Programs,
    }.items()
}


def part_of(kind: str, raw: bytes) -> Any:
    """Return the part of a message of this kind; raise `msgspec.DecodeError` if it is invalid."""
    return _DECODERS[kind].decode(raw)
