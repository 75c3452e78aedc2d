"""Collectives that a TPU's compiler cut into fusions: several of them, or a part of one, are one collective.

A collective that runs during other work is in each fusion of its chain: in one with the call
`AsyncCollectiveStart`, in those with the work, and in one with `AsyncCollectiveDone`. A fusion of an
all-reduce and the slice of its result that a device needs is a reduce-scatter.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from jaxtop_agent.programs.collective_instructions import REDUCE, SCATTER, FoundCollective

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtop_agent.programs.calls import Calls
    from jaxtop_agent.programs.lines import Instruction

_PART = re.compile(r'\bcustom_call_target="AsyncCollective(Start|Done)"')
# The id of a chain, in the configuration of the collective in each of its fusions, and the id of the channel.
_CHAINED = "async_collective_fusion_config"
_CHAIN, _CHANNEL = re.compile(r'\bchain_id="(\d+)"'), re.compile(r"\bchannel_id=(\d+)")
START, DONE = "Start", "Done"


class FusedCollectives:
    """Takes the instructions and computations of a module; then it joins the collectives in its fusions."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}  # by computation
        self._sliced: dict[str, str] = {}  # the shape of the slice, by computation

    def add(self, computation: str, instruction: Instruction) -> None:
        if instruction.opcode == "custom-call" and (match := _PART.search(instruction.quoted)):
            self._parts[computation] = match[1]

    def add_computation(self, computation: str, listed: list[Instruction]) -> None:
        reduced = [each.name for each in listed if each.opcode == REDUCE]
        slices = [each for each in listed if each.opcode == "dynamic-slice"]
        shapes = [each.shape for each in slices if each.operand_names[:1] == reduced]
        if len(shapes) == 1 and sum(reduced[0] in each.operand_names for each in listed) == 1:
            self._sliced[computation] = shapes[0]

    def is_start(self, found: FoundCollective) -> bool:
        """Return whether a collective is the first of its chain."""
        return self._parts.get(found.computation) == START

    def goes_on(self, found: FoundCollective) -> bool:
        """Return whether a collective goes on with one that another fusion started."""
        part = self._parts.get(found.computation)
        return part == DONE or (part is None and _CHAINED in found.instruction.quoted)

    def as_reduce_scatter(self, found: FoundCollective, calls: Calls) -> FoundCollective:
        """Return a collective as what it does together with the slice of its result."""
        shape = self._sliced.get(found.computation) if found.kind == REDUCE else None
        if shape is None or {each.instruction.opcode for each in calls.calls_to(found.computation)} != {
            "fusion"
        }:
            return found
        operands = f"{found.instruction.shape} {found.instruction.operands}"
        return found._replace(
            kind=SCATTER, instruction=found.instruction._replace(shape=shape, operands=operands)
        )

    def ends(
        self, listed: list[FoundCollective], calls: Calls, pause: Callable[[], None]
    ) -> Iterator[tuple[str, str]]:
        """Yield the fusions that wait for collectives, each with the name of its collective."""
        starts: dict[tuple[object, ...], deque[str]] = defaultdict(deque)
        for is_end in (False, True):
            for each in listed:
                pause()
                part = self._parts.get(each.computation)
                callers = calls.calls_to(each.computation)
                if len(callers) != 1 or part != (DONE if is_end else START):
                    continue
                chain = _CHAIN.search(each.instruction.quoted) or _CHANNEL.search(each.instruction.quoted)
                key = callers[0].caller, each.kind, each.written, chain and chain[0]
                if not is_end:
                    starts[key].append(each.instruction.name)
                elif starts[key]:
                    yield callers[0].instruction.name, starts[key].popleft()
