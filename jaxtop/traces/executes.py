"""The host's side of launches: to which `Execute` of PJRT an event on a thread of the host belongs.

The runtime may hand a launch from thread to thread. It notes each hand-over as two events with an equal
context: that of the producer has `_pt` and `_p`, that of the consumer `_ct` and `_c`. So the launch of an
event is found by climbing: to the events around it on its thread, and from a consumer to its producer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from jaxtop.traces.parts import TraceContents, extent, reading, run_of, stats, with_pauses

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = "/host:CPU"
# One launch on all its devices, whatever the client is called. `Scheduled …Execute` and `…ExecuteHelper` are
# its parts, and so is one that begins with the place of a device.
EXECUTE = re.compile(r"(\[\d+\] )?\w*Executable::Execute(Sharded|Portable)?( \(.*\))?")
# The events that may hand a launch on, or enclose one that does.
LINK = re.compile(r".*(Execut|Enqueue|Issue|Launch|Schedul).*")
# The stat with which `GpuExecutable::ExecuteThunks` names the program that it runs.
NAMES_ITS_PROGRAM = "module_name"
# The stat with which `DoEnqueueProgram` names the core of a TPU.
ENQUEUED_ON = "device_ordinal"
# The kind of the contexts of PJRT's launches.
PJRT = 5
# The length of a chain of events; longer chains are ignored.
MOST_STEPS = 64

Context = tuple[int, int]


class HostEvent:
    """An event of a thread that is part of a chain."""

    __slots__ = ("around", "consumes", "device", "devices", "end", "is_execute", "number", "program", "start")

    def __init__(self, start: int, end: int, *, is_execute: bool) -> None:
        self.start = start
        self.end = end
        self.is_execute = is_execute
        self.around: HostEvent | None = None
        # The context taken from another event, the program that it runs, and its number in all processes.
        self.consumes: Context | None = None
        self.program: str | None = None
        self.number: int | None = None
        # The devices on which it put the program.
        self.device: int | None = None
        self.devices: set[int] = set()


class DriverCall:
    """A call of the driver that put work on a device, by its correlation id."""

    __slots__ = ("around", "at", "program")

    def __init__(self, at: int, around: HostEvent | None, program: str | None) -> None:
        self.at = at
        self.around = around
        self.program = program


class Executes:
    """The launches of the host, and the calls in them. Read all threads, then `finish`, then ask."""

    def __init__(self, seen: TraceContents, is_call: Callable[[str], bool] = lambda _: False) -> None:
        """Create an empty one; `is_call` says whether an event of a name is a call of the driver."""
        self._seen = seen
        self._is_call = is_call
        self._is_link: dict[str, bool] = {}
        self._producers: dict[Context, list[HostEvent]] = {}
        self._executes: list[HostEvent] = []
        self._starts: list[int] = []
        self._longest = 0
        # A part of each launch that began before the trace.
        self._begun: dict[Context, HostEvent] = {}
        # The programs that the threads of a launch say to run.
        self._programs: dict[HostEvent, set[str]] = {}
        self._named: list[HostEvent] = []
        self._enqueued: list[HostEvent] = []
        self.calls: dict[int, DriverCall] = {}

    def line(self, line: Any) -> None:
        """Read the events of one thread."""
        found: list[tuple[int, int, Any]] = []
        for event in reading(self._seen, line.events):
            name = event.name
            is_link = self._is_link.get(name)
            if is_link is None:
                is_link = self._is_link[name] = not name.startswith("$") and (
                    LINK.fullmatch(name) is not None or self._is_call(name)
                )
            if is_link:
                start, end = extent(event)
                found.append((start, -end, event))
        found.sort(key=lambda each: each[:2])
        open_: list[HostEvent] = []
        for start, end, event in with_pauses(found, self._seen.pause):
            while open_ and open_[-1].end < -end:
                open_.pop()
            self._note(event, start, -end, open_)

    def _note(self, event: Any, start: int, end: int, open_: list[HostEvent]) -> None:
        values = stats(event)
        around = open_[-1] if open_ else None
        correlation = values.get("correlation_id")
        if correlation is not None:
            program = values.get("hlo_module")
            self.calls[int(correlation)] = DriverCall(
                start, around, None if program is None else str(program)
            )
            return
        own = HostEvent(start, end, is_execute=EXECUTE.fullmatch(event.name) is not None)
        own.around = around
        if "_c" in values and "_ct" in values:
            own.consumes = int(values["_ct"]), int(values["_c"])
        if ENQUEUED_ON in values:
            own.device = int(values[ENQUEUED_ON])
            self._enqueued.append(own)
        if NAMES_ITS_PROGRAM in values:
            own.program = str(values[NAMES_ITS_PROGRAM])
        if own.is_execute and "run_id" in values:
            own.number = run_of(values["run_id"])
        if "_p" in values and "_pt" in values:
            self._producers.setdefault((int(values["_pt"]), int(values["_p"])), []).append(own)
        if own.is_execute:
            self._executes.append(own)
        if own.program is not None:
            self._named.append(own)
        open_.append(own)

    def finish(self) -> None:
        """Bring what all threads noted into order."""
        for producers in self._producers.values():
            producers.sort(key=lambda event: event.start)
        # An inner one is a part of the outer one, from which it was reached. In JAX 0.11, the
        # outermost one comes from PJRT's C interface and has no number: an inner one has it.
        outer: set[HostEvent] = set()
        for each in self._executes:
            if (root := self._root(each)) is not None:
                outer.add(root)
                root.number = each.number if root.number is None else root.number
        self._executes = sorted(outer, key=lambda event: event.start)
        self._starts = [event.start for event in self._executes]
        self._longest = max((event.end - event.start for event in self._executes), default=0)
        for each in self._named:
            root = self._root(each)
            if root is not None and each.program is not None:
                self._programs.setdefault(root, set()).add(each.program)

        for each in self._enqueued:
            root = self._root(each)
            if root is not None and each.device is not None:
                root.devices.add(each.device)

    def launch_of_context(self, context: Context) -> HostEvent | None:
        """Return the launch that handed on this context."""
        producers = self._producers.get(context)
        return self._root(producers[-1]) if producers else None

    def launch_of_call(self, correlation: int) -> HostEvent | None:
        """Return the launch that made a call of the driver; None if it is unknown or not the only candidate.

        Where the calls have threads of their own in the trace, the launch is the one in whose time the call
        began. Of several, it is the one that says to run the call's program.
        """
        call = self.calls.get(correlation)
        if call is None:
            return None
        if call.around is not None and (root := self._root(call.around)) is not None:
            return root
        candidates = self._running_at(call.at)
        if len(candidates) > 1 and call.program is not None:
            candidates = [each for each in candidates if call.program in self._programs.get(each, ())]
        return candidates[0] if len(candidates) == 1 else None

    def calls_of(self, root: HostEvent | None, program: str) -> set[int]:
        """Return the calls that this launch made for a program, by correlation id."""
        if root is None:
            return set()
        named = [number for number, call in self.calls.items() if call.program == program]
        return {number for number in named if self.launch_of_call(number) is root}

    def _running_at(self, at: int) -> list[HostEvent]:
        """Return the launches that the host was making at this time."""
        first = bisect_right(self._starts, at - self._longest - 1)
        last = bisect_right(self._starts, at)
        return [each for each in self._executes[first:last] if at <= each.end]

    def _root(self, event: HostEvent | None) -> HostEvent | None:
        """Return the outermost launch that this event is part of.

        If that began before the trace, its parts on all threads have the same context.
        """
        best: HostEvent | None = None
        for _ in range(MOST_STEPS):
            if event is None:
                break
            if event.is_execute:
                best = event
            handed = self._producer(event)
            if handed is None and best is None and event.consumes is not None and event.consumes[0] == PJRT:
                best = self._begun.setdefault(event.consumes, event)
            event = handed if handed is not None else event.around
        return best

    def _producer(self, event: HostEvent) -> HostEvent | None:
        """Return the event that handed on what this one took: the last of that context that began before."""
        producers = self._producers.get(event.consumes) if event.consumes is not None else None
        if not producers:
            return None
        place = bisect_right(producers, event.start, key=lambda each: each.start) - 1
        return producers[max(0, place)]
