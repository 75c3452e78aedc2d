"""Collectives from the compiler's text of a program: a whole module, or only its relevant instructions.

A collective that cannot be read is counted, and a field that cannot be read is None. Nothing is guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.base.names import legible, shorten
from jaxtop.traces.members import DeviceAssignment
from jaxtop_agent.programs import collective_instructions, lines, shapes, text
from jaxtop_agent.programs.calls import Calls
from jaxtop_agent.programs.collective_instructions import KINDS, FoundCollective, GroupTable
from jaxtop_agent.programs.fused_collectives import FusedCollectives
from jaxtop_agent.programs.resharding import AddedCollective, Partitioner
from jaxtop_agent.programs.source_lines import Frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jaxtop_agent.programs.lines import Instruction

_KIND = re.compile(rf"({'|'.join(KINDS)})(-start|-done|-update)?")
_GOES_ON = frozenset(
    {f"{each}-{part}" for each in ("async", "call", "fusion") for part in ("done", "update")}
)
_ASYNC = "async-start"
_BESIDE = frozenset({_ASYNC, "call-start", "fusion-start"})
_WRAPPERS = _BESIDE | {"fusion"}
_IS_SYNC = re.compile(r'\bis_sync\\?":\s*true')
_UNREAD = re.compile(rf'[^"]* = [^"]* (?:{"|".join(KINDS)})(?:-start)?\(')
LONGEST_STACK = 120
BETWEEN_PAUSES = 32
NO_FRAMES, NOT_ADDED = Frames(), AddedCollective("")
_COUNTS = re.compile(r"\b(replica_count|num_partitions)=(\d{1,7})\b")


class HloReading(NamedTuple):
    """The collectives of a program and their members, read from its text.

    `ends` maps the operation that waits for a collective to the name of the collective, and so the operation
    that starts it, if that has another name. `devices` is None if the number of devices is unknown.
    """

    collectives: tuple[wire.Collective, ...] = ()
    groups: tuple[wire.ReplicaGroups, ...] = ()
    unread: int = 0
    devices: int | None = None
    ends: dict[str, str] = {}  # noqa: RUF012 - never written to


def read(
    module_text: str,
    pause: Callable[[], None] = lambda: None,
    cuts: Sequence[Sequence[int]] = (),
    started: Mapping[str, str] = MappingProxyType({}),
) -> HloReading:
    """Return all collectives of a module; `pause` is called often.

    `cuts` is as in `Partitioner`. `started` has the names of the operations in asynchronous starts, by the
    names of the starts: the text lacks them.
    """
    first_line = module_text[: max(0, module_text.find("\n"))]
    counts = {name: int(count) for name, count in _COUNTS.findall(first_line)}
    places = DeviceAssignment(counts.get("replica_count", 1), counts.get("num_partitions", 1))
    module, entries = Module(cuts), set()
    module.started.update(started)
    for words in ((*text.COLLECTIVES, *text.CALLERS), text.FUSIONS):
        for line in text.having(words, module_text, pause):
            module.add(line.computation, line.text)
            if line.is_entry:
                entries.add(line.computation)
            pause()
        if not module.uncalled(pause) - entries:
            break  # all callers are found: the search for fusions can be skipped
    if module:
        for name, _, listed in parsed(module_text, pause):
            module.add_computation(name, listed)
    header = module_text[: max(0, module_text.find(text.HEADER_END))]
    return module.finish(places, pause, entries, Frames(header))


def parsed(module_text: str, pause: Callable[[], None]) -> Iterator[tuple[str, bool, list[Instruction]]]:
    """Yield the computations of a module with their instructions; `pause` is called often."""
    for name, is_entry, instructions in text.computations(module_text):
        listed = []
        for number, each in enumerate(instructions):
            if (instruction := lines.read(each)) is not None:
                listed.append(instruction)
            if not number % BETWEEN_PAUSES:
                pause()
        yield name, is_entry, listed


class Module:
    """A reading in progress: it takes the relevant instructions of a module, in any order."""

    def __init__(self, cuts: Sequence[Sequence[int]] = ()) -> None:
        self._found: list[FoundCollective] = []
        self._calls = Calls()
        # The names of the collectives that asynchronous starts wrap, which the profiler shows, by the starts.
        self.started: dict[str, str] = {}
        self._before: dict[str, str] = {}  # from a later part of an operation to the part before it
        self._unread = 0
        self._partitioner = Partitioner(cuts)
        self._fused = FusedCollectives()

    def add_computation(self, computation: str, listed: list[Instruction]) -> None:
        """Note all instructions of a computation, with which its collectives and loops are explained."""
        self._partitioner.add(computation, listed)
        self._calls.add_computation(computation, listed)
        self._fused.add_computation(computation, listed)

    def add(self, computation: str, line: str) -> Instruction | None:
        """Parse one instruction, note it if it matters for collectives, and return it."""
        instruction = lines.read(line)
        if instruction is None:
            self._unread += _UNREAD.match(line) is not None
            return None
        if match := _KIND.fullmatch(instruction.opcode):
            if match[2] in {None, "-start"}:
                self._found.append(FoundCollective(computation, match[1], match[2] is not None, instruction))
            else:
                self._before[instruction.name] = instruction.operand
        elif instruction.opcode in _GOES_ON:
            self._before[instruction.name] = instruction.operand
        self._calls.add(computation, instruction)
        self._fused.add(computation, instruction)
        return instruction

    def __bool__(self) -> bool:
        return bool(self._found or self._unread)

    def uncalled(self, pause: Callable[[], None] = lambda: None) -> set[str]:
        """Return the computations that lead to a collective and have no known caller."""
        return self._calls.roots({each.computation for each in self._found}, pause)

    def places(self, total: int | None) -> DeviceAssignment | None:
        """Infer the device assignment from the groups, and from the number of devices if it is known."""
        return collective_instructions.places(self._found, total)

    def finish(
        self,
        places: DeviceAssignment | None,
        pause: Callable[[], None],
        entries: set[str] | None = None,
        frames: Frames = NO_FRAMES,
    ) -> HloReading:
        """Return the reading, once. Without `entries`, the computations without a caller are the entries."""
        entries = self.uncalled(pause) if entries is None else entries
        table = GroupTable(places)
        waits = dict(self._fused.ends(self._found, self._calls, pause))
        counted = Counter(each.computation for each in self._found)
        alone = {name for name, count in counted.items() if count == 1}
        collectives: list[wire.Collective] = []
        shown: dict[str, str] = {}
        wrapped = {
            self.started[each.instruction.name]
            for each in self._found
            if each.instruction.name in self.started
        }
        ahead, self._found = self._found[::-1], []
        while ahead:  # one by one: freeing thousands at once holds the GIL for milliseconds
            each = self._fused.as_reduce_scatter(ahead.pop(), self._calls)
            if each.instruction.name in wrapped or self._fused.goes_on(each):
                continue
            op, is_async, start = self._shown_as(each, alone)
            shown[each.instruction.name] = shown[op] = op
            if start not in {"", op}:
                shown[start] = waits[start] = op
            place, sides = table.place(each), each.sides()
            added = self._partitioner.added(each, frames, table.size(place), pause) or NOT_ADDED
            named = added.consumer or each.instruction
            collectives.append(
                wire.Collective(
                    op=op,
                    kind=each.kind,
                    shape=shapes.words(sides[1]) if sides[1] else "",
                    bytes=each.bytes(sides, table.size(place)),
                    groups=place,
                    times=self._calls.times(each.computation, entries),
                    is_async=is_async,
                    source=named.source,
                    line=frames.line(named) or added.line,
                    name_stack=shorten(legible(named.name_stack), LONGEST_STACK),
                    added=added.how,
                    operand=added.operand,
                    has=added.has,
                    wants=added.wants,
                )
            )
            pause()
        self._partitioner.forget()
        return HloReading(
            collectives=tuple(collectives),
            groups=tuple(table.packed),
            unread=self._unread,
            devices=None if places is None else places.total,
            ends=self._ends(shown) | {end: shown[name] for end, name in waits.items() if name in shown},
        )

    def _shown_as(self, each: FoundCollective, alone: set[str]) -> tuple[str, bool, str]:
        """Return the name that the profiler shows, whether it is asynchronous, and what starts it.

        A collective that is alone in a wrapper is shown under the name of the wrapper, except for the general
        asynchronous start. "" stands for a start without a name of its own.
        """
        is_start = each.is_start or self._fused.is_start(each)
        op, is_async = each.instruction.name, is_start and not _is_sync(each.instruction)
        if op in self.started:
            return self.started[op], is_async, op
        start = ""
        computation, outer = each.computation, {each.computation}
        while computation in alone or computation != each.computation:
            calls = self._calls.calls_to(computation)
            if len(calls) != 1 or calls[0].instruction.opcode not in _WRAPPERS or calls[0].caller in outer:
                break
            instruction, computation = calls[0].instruction, calls[0].caller
            outer.add(computation)
            is_async = is_async or (instruction.opcode in _BESIDE and not _is_sync(instruction))
            if instruction.opcode == _ASYNC:
                start = instruction.name
            else:
                op = instruction.name
        return op, is_async, start

    def _ends(self, shown: dict[str, str]) -> dict[str, str]:
        ends = {}
        for end in self._before:
            name, seen = self._before[end], {end}
            while name in self._before and name not in seen:
                seen.add(name)
                name = self._before[name]
            if name in shown:
                ends[end] = shown[name]
        return ends


def _is_sync(instruction: Instruction) -> bool:
    """Return whether the compiler marked this start as synchronous: the wait follows at once."""
    return _IS_SYNC.search(instruction.quoted) is not None
