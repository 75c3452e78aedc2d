"""Makes traces by hand, in the profiler's own format (xplane.proto), for devices that no test machine has."""

from __future__ import annotations

from typing import NamedTuple

from jaxtop.base.protobuf import bytes_field, number_field


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


def _stats(field: int, values: dict[str, int | str | bytes], numbers: dict[str, int]) -> bytes:
    found = b""
    for name, value in values.items():
        said = number_field(1, numbers.setdefault(name, len(numbers) + 1))
        if isinstance(value, int):
            said += number_field(4, value)
        else:
            said += bytes_field(5, value.encode()) if isinstance(value, str) else bytes_field(6, value)
        found += bytes_field(field, said)
    return found


def plane(
    name: str,
    lines: dict[str, list[Event]],
    said: dict[str, int | str | bytes] | None = None,
    programs: dict[str, bytes] | None = None,
) -> bytes:
    """A plane with lines, stats of its own, and the compiled programs that a profiler keeps."""
    events: dict[str, int] = {}
    stats: dict[str, int] = {}
    body = _stats(6, said or {}, stats)
    for number, (program, proto) in enumerate((programs or {}).items(), 1):
        inside = number_field(1, number) + bytes_field(2, program.encode())
        inside += _stats(5, {"Hlo Proto": proto}, stats)
        body += bytes_field(4, number_field(1, number) + bytes_field(2, inside))
    for number, (line, its) in enumerate(lines.items()):
        inside = number_field(1, number) + bytes_field(2, line.encode())
        for event in sorted(its, key=lambda event: event.start_us):
            place = number_field(1, events.setdefault(event.name, len(events) + 1))
            when = number_field(2, round(event.start_us * 1e6)) + number_field(
                3, round(event.duration_us * 1e6)
            )
            inside += bytes_field(4, place + when + _stats(4, {**event.stats}, stats))
        body += bytes_field(3, inside)
    return bytes_field(2, name.encode()) + body + _named(4, events) + _named(5, stats)


def space(*planes: bytes) -> bytes:
    return b"".join(bytes_field(1, each) for each in planes if each)
