"""Compiled programs and their collectives."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import Count, TimeMs, WireInteger  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.ids import Ids, Runs  # noqa: TC001 - msgspec reads the annotations


class Program(Struct, frozen=True, array_like=True):
    """A loaded compiled program, with its compiler's figures; the bytes are those of one device.

    `devices` counts those of all processes together; None where the program does not report it. `flops` and
    `accessed_bytes` are those of a launch, including loops; lower bounds if `flops_at_least`.
    """

    name: str
    fingerprint: str | None
    devices: WireInteger | None = None
    local_devices: WireInteger | None = None
    flops: WireInteger | None = None
    accessed_bytes: WireInteger | None = None
    argument_bytes: WireInteger | None = None
    output_bytes: WireInteger | None = None
    alias_bytes: WireInteger | None = None
    temp_bytes: WireInteger | None = None
    code_bytes: WireInteger | None = None
    created: str | None = None
    flops_at_least: bool = False


# The causes of a compilation, as JSON has them, with the words for what changed.
CHANGED = {
    "shape": "shape",
    "dtype": "dtype",
    "weak_type": "weak type",
    "sharding": "sharding",
    "static": "static value",
    "structure": "structure",
    "setting": "setting",
    "function": "function",
}


_REASONS = {"": "nothing that is compared has changed", "first": "not compiled before"}
# Where one side of a difference has no such argument.
ABSENT = "absent"


class Compilation(Struct, frozen=True, array_like=True):
    """A compilation, and what differs from the nearest one before it.

    `source` is the line of the script that started it; `duration_ms` includes tracing and lowering. `cause`
    is "first" for a function that was not compiled before, one of `CHANGED`, or empty if no difference is
    known. `others` counts further differences. `from_cache` says whether JAX's persistent cache had the
    program; None where that cache is off.
    """

    at_ms: TimeMs
    function: str
    source: str = ""
    duration_ms: Count = 0
    cause: str = ""
    argument: str = ""
    before: str = ""
    after: str = ""
    others: Count = 0
    from_cache: bool | None = None

    @property
    def is_again(self) -> bool:
        """Whether the function had been compiled before."""
        return bool(self.cause) and self.cause != "first"

    @property
    def why(self) -> str:
        """The cause in words."""
        what = CHANGED.get(self.cause, self.cause)
        text = f"{what} of {self.argument} changed: {self.before} → {self.after}"
        if self.cause in _REASONS:
            return _REASONS[self.cause]
        if self.cause == "function":
            text = self.after or "a new function object, though its code is the same"
        elif self.cause == "structure":
            text = f"{self.argument} {'is new' if self.before == ABSENT else 'is absent now'}"
        elif self.cause == "setting":
            text = f"the setting {self.argument or 'of JAX'} changed: {self.before} → {self.after}"
        return text + (f", and {self.others:,} more" if self.others else "")


class CompiledLine(Struct, frozen=True, array_like=True):
    """The compilations of a function that a line of the script started, since the start of the process.

    `again` counts those of a function that had been compiled before; `hits` and `misses` are those of JAX's
    persistent cache.
    """

    function: str
    source: str
    count: Count = 0
    duration_ms: Count = 0
    again: Count = 0
    hits: Count = 0
    misses: Count = 0


class Programs(Struct, frozen=True, omit_defaults=True, tag="programs"):
    """The loaded programs, the newest first, and how often each function was compiled so far.

    `seen_ms` and `compile_ms` are columns parallel to `programs`: when each was first seen, and how long its
    compilation took. `rest` counts programs that are not listed; `recompiling` names the functions that are
    currently compiled again and again. `compilations` are the latest ones, the oldest first; `lines` are
    those of the script that lost most time by compilations. `of_jax` has the names of programs whose
    functions JAX itself defines, such as operations outside of `jax.jit`.
    """

    at_ms: TimeMs
    programs: tuple[Program, ...] = ()
    seen_ms: tuple[TimeMs, ...] = ()
    compile_ms: tuple[WireInteger | None, ...] = ()
    rest: WireInteger = 0
    compiles: dict[str, WireInteger] = {}
    recompiling: tuple[str, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    lines: tuple[CompiledLine, ...] = ()
    of_jax: tuple[str, ...] = ()


class ReplicaGroups(Struct, frozen=True, array_like=True):
    """The groups that communicate: places in the program's device assignment, group after group.

    `sizes` has one entry if all groups have the same size, else one entry per group.
    """

    sizes: tuple[WireInteger, ...]
    members: Runs


class Collective(Struct, frozen=True, array_like=True):
    """A collective operation of a program, as its compiler wrote it.

    `bytes` is S by the definitions of nccl-tests, each time it runs. `times` is how often a launch runs it;
    None where the count of a loop is unknown. `groups` is a position in the inventory's list; None where the
    text could not be parsed. `source` is the script's name of the operation, such as "psum", `line` its line
    in the script, and `name_stack` the functions and name scopes around it.

    `added` is "reduction", "resharding" or "rematerialization" if the partitioner added it. Then `operand` is
    what it moves, `has` how that is sharded, and `wants` what its consumer wants.
    """

    op: str
    kind: str
    shape: str
    bytes: WireInteger | None
    groups: WireInteger | None
    times: WireInteger | None = 1
    is_async: bool = False
    source: str = ""
    line: str = ""
    name_stack: str = ""
    added: str = ""
    operand: str = ""
    has: str = ""
    wants: str = ""


class Buffer(Struct, frozen=True, array_like=True):
    """Memory that a program holds at its peak on one device: the result of an operation, or a part of it.

    `kind` is "argument", "result", "constant" or "temporary". `source` is the line of the script as
    "train.py:12", `name` the path of functions and scopes that JAX recorded; empty where unknown.
    """

    kind: str
    bytes: WireInteger
    op: str = ""
    opcode: str = ""
    shape: str = ""
    source: str = ""
    name: str = ""


class Peak(Struct, frozen=True, omit_defaults=True, tag="peak"):
    """What holds memory at the peak of a program on one device, the largest first; sent on request.

    The bytes are those that a launch holds from start to end; `alive_bytes` those of the temporaries that are
    alive at the peak, while `op` runs. `rest` counts buffers that are not listed, with `rest_bytes`. `note`
    says what is less exact, `why_not` why nothing is known.
    """

    at_ms: TimeMs
    program: str
    fingerprint: str | None
    argument_bytes: WireInteger = 0
    result_bytes: WireInteger = 0
    constant_bytes: WireInteger = 0
    temporary_bytes: WireInteger = 0
    alive_bytes: WireInteger = 0
    op: str = ""
    source: str = ""
    buffers: tuple[Buffer, ...] = ()
    rest: WireInteger = 0
    rest_bytes: WireInteger = 0
    note: str = ""
    why_not: str = ""


class Inventory(Struct, frozen=True, omit_defaults=True, tag="inventory"):
    """The collectives of one program. `rest` counts those not listed, `unread` texts that do not parse.

    `devices` is the number of places in its device assignment; `local_ids` are the devices of this process in
    the order of the assignment. `why_not` is the reason if the collectives are not known at all.
    """

    at_ms: TimeMs
    program: str
    fingerprint: str | None
    devices: WireInteger
    local_ids: Ids = ()
    groups: tuple[ReplicaGroups, ...] = ()
    collectives: tuple[Collective, ...] = ()
    rest: WireInteger = 0
    unread: WireInteger = 0
    why_not: str = ""
