"""Compiled programs and their collectives."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import TimeMs  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.ids import Ids, Runs  # noqa: TC001 - msgspec reads the annotations


class Program(Struct, frozen=True, array_like=True):
    """A loaded compiled program, with its compiler's figures; the bytes are those of one device.

    `devices` counts those of all processes together; None where the program does not report it. `flops` and
    `accessed_bytes` are those of a launch, including loops; lower bounds if `flops_at_least`.
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
    compilation took. `rest` counts programs that are not listed; `recompiling` names the functions that are
    currently compiled again and again.
    """

    at_ms: TimeMs
    programs: tuple[Program, ...] = ()
    seen_ms: tuple[TimeMs, ...] = ()
    compile_ms: tuple[int | None, ...] = ()
    rest: int = 0
    compiles: dict[str, int] = {}
    recompiling: tuple[str, ...] = ()


class ReplicaGroups(Struct, frozen=True, array_like=True):
    """The groups that communicate: places in the program's device assignment, group after group.

    `sizes` has one entry if all groups have the same size, else one entry per group.
    """

    sizes: tuple[int, ...]
    members: Runs


class Collective(Struct, frozen=True, array_like=True):
    """A collective operation of a program, as its compiler wrote it.

    `bytes` is S by the definitions of nccl-tests, each time it runs. `times` is how often a launch runs it;
    None where the count of a loop is unknown. `groups` is a position in the inventory's list; None where the
    text could not be parsed. `source` is the script's name of the operation, such as "psum".
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
    """The collectives of one program. `rest` counts those not listed, `unread` texts that do not parse.

    `devices` is the number of places in its device assignment; `local_ids` are the devices of this process in
    the order of the assignment. `why_not` is the reason if the collectives are not known at all.
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
