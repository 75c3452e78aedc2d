"""Makes traces by hand, in the profiler's own format (xplane.proto), for devices that no test machine has."""

from __future__ import annotations

from typing import NamedTuple


class Event(NamedTuple):
    name: str
    start_us: float
    duration_us: float
    stats: dict[str, int | str]


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _named(field: int, names: dict[str, int]) -> bytes:
    entries = b""
    for name, number in names.items():
        value = _number(1, number) + _bytes(2, name.encode())
        entries += _bytes(field, _number(1, number) + _bytes(2, value))
    return entries


def plane(name: str, lines: dict[str, list[Event]]) -> bytes:
    events: dict[str, int] = {}
    stats: dict[str, int] = {}
    body = b""
    for number, (line, its) in enumerate(lines.items()):
        inside = _number(1, number) + _bytes(2, line.encode())
        for event in sorted(its, key=lambda event: event.start_us):
            said = b""
            for stat, value in event.stats.items():
                key = _number(1, stats.setdefault(stat, len(stats) + 1))
                said += _bytes(
                    4, key + (_number(4, value) if isinstance(value, int) else _bytes(5, value.encode()))
                )
            place = _number(1, events.setdefault(event.name, len(events) + 1))
            when = _number(2, round(event.start_us * 1e6)) + _number(3, round(event.duration_us * 1e6))
            inside += _bytes(4, place + when + said)
        body += _bytes(3, inside)
    return _bytes(2, name.encode()) + body + _named(4, events) + _named(5, stats)


def space(*planes: bytes) -> bytes:
    return b"".join(_bytes(1, each) for each in planes)
