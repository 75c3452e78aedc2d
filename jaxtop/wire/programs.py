"""Compiled programs, and the collectives in them."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import TimeMs  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.ids import Ids, Runs  # noqa: TC001 - msgspec reads the annotations


class Program(Struct, frozen=True, array_like=True):
    """A compiled program that is loaded; what its compiler says of it, the bytes for one device.

    `devices` are those of all processes together; None where the program does not tell. `flops` and
    `accessed_bytes` are those of a launch, loops and all; lower bounds if `flops_at_least`.
    """

    name: str
    fingerprint: str | None
    devices: int | None = None
    local_devices: int | None = None
    flops: int | None = None
    accessed_bytes: int | None = None
    argument_bytes: int | None = None
    output_bytes: int | None = None
    alias_bytes: int | None = None
    temp_bytes: int | None = None
    code_bytes: int | None = None
    created: str | None = None
    flops_at_least: bool = False


class Programs(Struct, frozen=True, omit_defaults=True, tag="programs"):
    """The loaded programs, the newest first, and how often each function was compiled so far.

    `seen_ms` and `compile_ms` are columns beside `programs`: when each was first seen, and how long its
    compilation took. `rest` counts those that are not listed, `recompiling` names the functions that are
    compiled over and over now.
    """

    at_ms: TimeMs
    programs: tuple[Program, ...] = ()
    seen_ms: tuple[TimeMs, ...] = ()
    compile_ms: tuple[int | None, ...] = ()
    rest: int = 0
    compiles: dict[str, int] = {}
    recompiling: tuple[str, ...] = ()


class ReplicaGroups(Struct, frozen=True, array_like=True):
    """Who takes part with whom: places in the program's device assignment, group after group.

    `sizes` has one entry where all groups are of that size, else one entry a group.
    """

    sizes: tuple[int, ...]
    members: Runs


class Collective(Struct, frozen=True, array_like=True):
    """A collective operation of a program, as its compiler wrote it.

    `bytes` is S by the definitions of nccl-tests, each time it runs; `times` how often a launch runs it, None
    where a loop does not tell. `groups` is a place in the inventory's list, None where the text
    could not be read. `source` is what the script called it, such as "psum".
    """

    op: str
    kind: str
    shape: str
    bytes: int | None
    groups: int | None
    times: int | None = 1
    is_async: bool = False
    source: str = ""


class Inventory(Struct, frozen=True, omit_defaults=True, tag="inventory"):
    """The collectives of one program. `rest` counts those not listed, `unread` texts that nobody understood.

    `devices` is how many places its device assignment has, `local_ids` the devices of this process in the
    assignment's order. `why_not` says why a program's collectives are not known at all.
    """

    at_ms: TimeMs
    program: str
    fingerprint: str | None
    devices: int
    local_ids: Ids = ()
    groups: tuple[ReplicaGroups, ...] = ()
    collectives: tuple[Collective, ...] = ()
    rest: int = 0
    unread: int = 0
    why_not: str = ""
