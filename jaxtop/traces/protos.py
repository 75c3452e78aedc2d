"""The collectives of the programs that a profile has: the profiler may keep each as a protocol buffer.

XLA's `xla/service/hlo.proto` has the numbers of the fields.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop.base.protobuf import Malformed, Message, read
from jaxtop.traces.parts import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.traces.xspace import Trace

# To read a larger program takes many seconds.
MOST_BYTES = 32_000_000
# An operation that goes on asynchronously more often than this is none.
MOST_STEPS = 64
METADATA, PROTO = "/host:metadata", "Hlo Proto"
_MODULE = 1
_MODULE_NAME, _COMPUTATION = 1, 3
_COMPUTATION_INSTRUCTION, _COMPUTATION_ID = 2, 5
_NAME, _OPCODE, _ID, _OPERAND, _CALLED = 1, 2, 35, 36, 38
_KINDS = re.compile(
    r"(all-reduce|all-gather|all-to-all|ragged-all-to-all|reduce-scatter|collective-permute|collective-broadcast)"
    r"(-start|-done)?"
)
_ENDS = re.compile(r".+-(done|update)")


def wanted(trace: Trace) -> Wanted:
    """Return which operations are collectives: by the programs in the trace, and of others by their names."""
    names: dict[str, dict[str, str]] = {}
    for proto in _protos(trace):
        with suppress(Malformed):  # the names of its operations still say much
            module = read(proto).message(_MODULE)
            if module is not None:
                name = module.text(_MODULE_NAME) or ""
                names.setdefault(name, {}).update(_collectives(module))
    return Wanted(names, frozenset(names))


def _protos(trace: Trace) -> Iterator[bytes]:
    for plane in trace.planes:
        if plane.name == METADATA:
            for stats in plane.described():
                proto = stats.get(PROTO)
                if isinstance(proto, bytes) and len(proto) <= MOST_BYTES:
                    yield proto


def _collectives(module: Message) -> dict[str, str]:
    """Return the collectives by the names of the operations that start and end them."""
    computations = [
        (computation.number(_COMPUTATION_ID), computation.messages(_COMPUTATION_INSTRUCTION))
        for computation in module.messages(_COMPUTATION)
    ]
    instructions = [each for _, its in computations for each in its]
    wraps = {
        number
        for number, its in computations
        if any(_KINDS.fullmatch(each.text(_OPCODE) or "") for each in its)
    }
    # Those that an operation ends or goes on with are among its operands, by the number in their computation.
    by_number = {each.number(_ID): each for each in instructions}
    found: dict[str, str] = {}
    for each in instructions:
        start = each
        for _ in range(MOST_STEPS):
            operands = start.numbers(_OPERAND) if _ENDS.fullmatch(start.text(_OPCODE) or "") else []
            if not operands or operands[0] not in by_number:
                break
            start = by_number[operands[0]]
        kind = start.text(_OPCODE) or ""
        if _KINDS.fullmatch(kind) or (kind == "async-start" and wraps & set(start.numbers(_CALLED))):
            found[each.text(_NAME) or ""] = start.text(_NAME) or ""
    return found
