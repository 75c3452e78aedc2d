"""Makes traces by hand, in the profiler's own format (xplane.proto), for devices that no test machine has."""

from __future__ import annotations

from typing import NamedTuple

from jaxtop.protobuf import bytes_field, number_field


class Event(NamedTuple):
    name: str
    start_us: float
    duration_us: float
    stats: dict[str, int | str]


def _named(field: int, names: dict[str, int]) -> bytes:
    entries = b""
    for name, number in names.items():
        value = number_field(1, number) + bytes_field(2, name.encode())
        entries += bytes_field(field, number_field(1, number) + bytes_field(2, value))
    return entries


def plane(name: str, lines: dict[str, list[Event]]) -> bytes:
    events: dict[str, int] = {}
    stats: dict[str, int] = {}
    body = b""
    for number, (line, its) in enumerate(lines.items()):
        inside = number_field(1, number) + bytes_field(2, line.encode())
        for event in sorted(its, key=lambda event: event.start_us):
            said = b""
            for stat, value in event.stats.items():
                key = number_field(1, stats.setdefault(stat, len(stats) + 1))
                said += bytes_field(
                    4,
                    key
                    + (number_field(4, value) if isinstance(value, int) else bytes_field(5, value.encode())),
                )
            place = number_field(1, events.setdefault(event.name, len(events) + 1))
            when = number_field(2, round(event.start_us * 1e6)) + number_field(
                3, round(event.duration_us * 1e6)
            )
            inside += bytes_field(4, place + when + said)
        body += bytes_field(3, inside)
    return bytes_field(2, name.encode()) + body + _named(4, events) + _named(5, stats)


def space(*planes: bytes) -> bytes:
    return b"".join(bytes_field(1, each) for each in planes)
