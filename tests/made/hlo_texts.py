"""Texts of compiled programs for tests, and what is asserted of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop_agent.programs import hlo
from jaxtop_agent.programs.inventories import MOST_OPERATIONS, operations_of, summed
from jaxtop_agent.programs.source_lines import Frames

if TYPE_CHECKING:
    from jaxtop.traces.members import Groups
    from jaxtop_agent.programs.executed_operations import ExecutedOperation
    from jaxtop_agent.programs.operations import Work

DATA = Path(__file__).parents[1] / "data" / "hlo"
DATA_GROUPS = ((0, 2, 4, 6), (1, 3, 5, 7))
MODEL_GROUPS = ((0, 1), (2, 3), (4, 5), (6, 7))
EVERYBODY = (tuple(range(8)),)


def at_once() -> None:
    """Read without a pause."""


def work_of(printed: str) -> Work | None:
    """Return the work of a launch, from the text of the program's module."""
    return operations_of(printed, at_once)


def executed_of(printed: str, most: int = MOST_OPERATIONS) -> dict[str, ExecutedOperation]:
    """Return the operations of a launch by name, from the text of the program's module."""
    operations, entry = summed(printed, at_once)
    return operations.executed(Frames(printed), most, at_once, entry)


def text(name: str, version: str) -> str:
    return (DATA / f"{name}-jax-{version}.hlo").read_text()


def module(*entry: str, devices: str = "num_partitions=8", before: str = "") -> str:
    body = "\n".join(f"  {line}" for line in entry)
    return f"HloModule jit_step, is_scheduled=true, {devices}\n\n{before}ENTRY %main {{\n{body}\n}}\n"


def members(packed: wire.ReplicaGroups) -> Groups:
    ids = wire.unpack_runs(packed.members)
    sizes = packed.sizes * (len(ids) // packed.sizes[0]) if len(packed.sizes) == 1 else packed.sizes
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return tuple(ids[end - size : end] for end, size in zip(ends, sizes, strict=True))


def collective_rows(reading: hlo.HloReading) -> list[tuple]:
    """What is asserted of each: kind, source, bytes, groups, times."""
    places = [
        None if each.groups is None else members(reading.groups[each.groups]) for each in reading.collectives
    ]
    found = zip(reading.collectives, places, strict=True)
    return sorted(((c.kind, c.source, c.bytes, place, c.times) for c, place in found), key=str)


def only(*entry: str, **more: str) -> tuple[wire.Collective, hlo.HloReading]:
    reading = hlo.read(module(*entry, **more))
    (collective,) = reading.collectives
    assert reading.unread == 0
    return collective, reading
