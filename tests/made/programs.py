"""Compiled programs as a profiler keeps them, in the format of `xla/service/hlo.proto`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.protobuf import bytes_field, number_field
from tests.made.xspace import plane

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Instruction(NamedTuple):
    """An instruction, with the numbers of its operands, and of the computations that it calls.

    `groups` are lists of ids, or a form of them that is encoded already; pairs of a permute likewise.
    """

    name: str
    opcode: str
    operands: Sequence[int] = ()
    groups: Sequence[Sequence[int]] | bytes = ()
    calls: Sequence[int] = ()
    channel: int = 1
    target: str = ""
    config: str = ""


def listed(groups: Sequence[Sequence[int]]) -> bytes:
    inside = b""
    for group in groups:
        inside += bytes_field(1, b"".join(number_field(1, member) for member in group))
    return bytes_field(87, inside)


def paired(pairs: Sequence[Sequence[int]]) -> bytes:
    return b"".join(
        bytes_field(52, number_field(1, source) + number_field(2, target)) for source, target in pairs
    )


def iota(count: int, size: int, dimensions: Sequence[int], order: Sequence[int] = (), *, field: int) -> bytes:
    """The groups `[count,size]<=[dimensions]T(order)`: older versions have them inside the list (87)."""
    inside = number_field(1, count) + number_field(2, size)
    inside += b"".join(number_field(3, each) for each in dimensions)
    inside += b"".join(number_field(4, each) for each in order)
    return bytes_field(87, bytes_field(2, inside)) if field == 87 else bytes_field(field, inside)


def along(axes: Mapping[str, int], *chosen: int | tuple[int, int, int]) -> bytes:
    """Groups along axes of a mesh by number, or along parts of them: (number, parts before it, size)."""
    mesh = b"".join(
        bytes_field(1, bytes_field(1, name.encode()) + number_field(2, size)) for name, size in axes.items()
    )
    inside = bytes_field(1, mesh)
    for each in chosen:
        if isinstance(each, int):
            inside += bytes_field(2, number_field(1, each))
        else:
            axis, before, size = each
            part = number_field(1, before) + number_field(2, size)
            inside += bytes_field(2, number_field(1, axis) + bytes_field(2, part))
    return bytes_field(93, inside)


def _instruction(number: int, each: Instruction) -> bytes:
    raw = bytes_field(1, each.name.encode()) + bytes_field(2, each.opcode.encode())
    raw += number_field(35, number)
    raw += b"".join(number_field(36, operand) for operand in each.operands)
    raw += b"".join(number_field(38, called) for called in each.calls)
    if each.target:
        raw += bytes_field(28, each.target.encode())
    if each.config:
        raw += bytes_field(43, each.config.encode())
    if each.groups:
        raw += number_field(26, each.channel) + number_field(71, 1)
        raw += each.groups if isinstance(each.groups, bytes) else listed(each.groups)
    return raw


def assigned(devices: Sequence[Sequence[int]]) -> bytes:
    """The device assignment: for each partition, the device of each replica."""
    of_partitions = b"".join(
        bytes_field(3, b"".join(number_field(1, device) for device in replicas)) for replicas in devices
    )
    return bytes_field(15, number_field(1, len(devices[0])) + number_field(2, len(devices)) + of_partitions)


def program(name: str, computations: Sequence[Sequence[Instruction]], devices: Sequence[int] = ()) -> bytes:
    """A program; computations have the numbers 1, 2, …, and instructions those of their order from 0 on."""
    module, number = bytes_field(1, name.encode()), 0
    for place, instructions in enumerate(computations, 1):
        inside = number_field(5, place)
        for each in instructions:
            inside += bytes_field(2, _instruction(number, each))
            number += 1
        module += bytes_field(3, inside)
    if devices:
        module += assigned([(device,) for device in devices])
    return bytes_field(1, module)


def kept(programs: Mapping[str, bytes]) -> bytes:
    """The plane in which the profiler keeps programs."""
    return plane("/host:metadata", {}, programs={f"{name}(7)": proto for name, proto in programs.items()})


def reducing(
    name: str, op: str, groups: Sequence[Sequence[int]], devices: Sequence[int], *, barrier: bool = False
) -> bytes:
    """A program with one all-reduce over these groups of device ids, kept in a plane."""
    place = {device: number for number, device in enumerate(devices)}
    config = '{"barrier_config":{"barrier_type":"CUSTOM","id":"0"}}' if barrier else ""
    at = [[place[device] for device in group] for group in groups]
    reduce = Instruction(op, "all-reduce", groups=at, config=config)
    return kept({name: program(name, [[reduce]], devices)})
