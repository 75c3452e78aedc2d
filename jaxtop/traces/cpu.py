"""Traces of XLA's CPU backend: one line per thread, with the operations of a launch in sequence.

Stats are expensive (7 µs per event): on a thread that launches, they are read only for the first operation.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter
from typing import Any, NamedTuple

from jaxtop.traces.parts import (
    CONTAINER,
    DeviceLaunch,
    LaunchSpan,
    Op,
    TraceContents,
    WantedCollectives,
    extent,
    reading,
    run_of,
    stats,
    with_pauses,
)

PLANE = "/host:CPU"
# A launch on one device begins with BEGIN and ends with FINISH, on whichever threads its operations run.
BEGIN = re.compile(r"(\[\d+\] \w+::Execute \(.*\)|\w+::ExecuteHelper)")
FINISH = "ThunkExecutor::Execute (wait for completion)"
PJRT_CONTEXT = 5
END = "end: "
# Threads that launch. All other threads run operations of several launches alternately.
LAUNCHING = re.compile(r"python|.*PjRt.*")
# The `end:` event of an operation that did not continue on another thread begins within this time.
AT_ONCE_NS = 50_000
# The end of an operation that continued after the window.
NEVER = (0, -1)
# On a thread, operations of this many other launches may come between the two halves of one.
MOST_BETWEEN = 64


class _NumberedLaunch(NamedTuple):
    """A launch on one device, and the compiler's number of its module."""

    launch: DeviceLaunch
    number: int | None


class _Operation(NamedTuple):
    """An operation. `is_work` if it is certainly no collective.

    One that continued on another thread has the context in which it `goes_on` there.
    """

    numbered: _NumberedLaunch
    name: str
    start: int
    end: int
    is_work: bool
    goes_on: tuple[int, int] | None = None


def read(profile: Any, wanted: WantedCollectives, ordinals: dict[int, int], seen: TraceContents) -> None:  # noqa: ARG001 - shared signature
    """Read a CPU profile; a device's number in it is already the device's id."""
    seen.is_shared = True
    reader = _Reader(wanted, seen)
    for plane in profile.planes:
        if plane.name == PLANE:
            for line in plane.lines:
                reader.line(line)
    reader.finish()


class _Reader:
    def __init__(self, wanted: WantedCollectives, seen: TraceContents) -> None:
        self._wanted = wanted
        self._seen = seen
        self._kinds: dict[str, str] = {}
        self._parts: list[_Operation] = []
        # The last operation of this thread with its event, until its end is found.
        self._open: tuple[_Operation, Any] | None = None
        # When operations ended that continued on another thread, and the number of that thread.
        self._ends: dict[tuple[int, int], tuple[int, int]] = {}
        # With names: when operations began and in which launches, thread by thread, and where each thread
        # begins. Thousands of objects instead would bring garbage collections forward.
        self._starts, self._launches = array("q"), array("q")
        self._numbers: dict[_NumberedLaunch, int] = {}
        self._threads: list[int] = []
        self._first: dict[_NumberedLaunch, int] = {}
        self._begun: Counter[int] = Counter()  # the number of devices on which a run began in the window
        self._finished: dict[tuple[int, int], int] = {}

    def line(self, line: Any) -> None:
        """Read the events of one thread, in order of their starts."""
        launches = LAUNCHING.fullmatch(line.name) is not None
        numbered: _NumberedLaunch | None = None
        self._threads.append(len(self._starts))
        for event in reading(self._seen, line.events):
            name = event.name
            kind = self._kinds.get(name) or self._kind(name)
            if kind == "other":
                continue
            if kind == "end":
                self._operation_ends(name[len(END) :], event)
            elif kind in {"begin", "finish"}:
                numbered = None
                self._launch(kind, event)
            else:
                if numbered is None or not launches:
                    numbered = self._asked(event)
                if numbered is not None:
                    self._operation(kind, numbered, name, event)
        self._leave_open()

    def _kind(self, name: str) -> str:
        if name.startswith(END):
            kind = "end" if self._is_timed(name[len(END) :]) else "other"
        elif name == FINISH:
            kind = "finish"
        elif BEGIN.fullmatch(name):
            kind = "begin"
        elif self._wanted.maybe(name):
            kind = "part"
        elif name[:1].isupper() or any(sign in name for sign in " :([") or CONTAINER.fullmatch(name):
            kind = "other"  # events of the runtime, annotations of the script, and containers of operations
        else:
            kind = "named" if self._seen.has_names else "work"
        self._kinds[name] = kind
        return kind

    def _is_timed(self, name: str) -> bool:
        """Return whether the end of an operation of this name matters."""
        return self._wanted.maybe(name) or (self._seen.has_names and not CONTAINER.fullmatch(name))

    def _asked(self, event: Any) -> _NumberedLaunch | None:
        values = stats(event)
        if "run_id" not in values or "hlo_module" not in values or "device_ordinal" not in values:
            return None
        launch = DeviceLaunch(str(values["hlo_module"]), run_of(values["run_id"]), values["device_ordinal"])
        return _NumberedLaunch(launch, values.get("program_id"))

    def _operation(self, kind: str, numbered: _NumberedLaunch, name: str, event: Any) -> None:
        start, end = extent(event)
        if start < self._first.get(numbered, start + 1):
            self._first[numbered] = start
        if kind == "work":
            self._seen.work(numbered.launch, start, end, name)
            return
        if kind == "named":
            self._starts.append(start)
            self._launches.append(self._numbers.setdefault(numbered, len(self._numbers)))
        self._leave_open()
        self._open = _Operation(numbered, name, start, end, kind == "named"), event

    def _leave_open(self) -> None:
        if self._open is not None:
            part, event = self._open
            values = stats(event)
            goes_on = (values.get("_pt", 0), values["_p"]) if "_p" in values else None
            self._parts.append(part._replace(goes_on=goes_on))
            self._open = None

    def _operation_ends(self, name: str, event: Any) -> None:
        part = None if self._open is None else self._open[0]
        if part is None or part.name != name or abs(event.start_ns - part.end) >= AT_ONCE_NS:
            values = stats(event)
            key = values.get("_ct", 0), values.get("_c", 0)
            self._ends[key] = extent(event)[1], len(self._threads) - 1
            return
        self._open = None
        if part.is_work:
            self._seen.work(part.numbered.launch, part.start, part.end, name)
        else:
            self._parts.append(part)

    def _launch(self, kind: str, event: Any) -> None:
        values = stats(event)
        run = values.get("run_id", values.get("_c") if values.get("_ct") == PJRT_CONTEXT else None)
        if run is not None and kind == "begin":
            self._begun[run_of(run)] += 1
        elif run is not None and "device_ordinal" in values:
            self._finished[run_of(run), values["device_ordinal"]] = extent(event)[1]

    def finish(self) -> None:
        """Combine the events of all threads."""
        seen = self._seen
        for part in with_pauses(self._parts, seen.pause):
            launch, ended = part.numbered.launch, (part.end, -1)
            if part.goes_on is not None:
                ended = self._ends.get(part.goes_on, NEVER)
            op = None if part.is_work else self._wanted.op(launch.module, part.name)
            if op is None:
                end = self._end_of_work(part, *ended)
                seen.work(launch, part.start, end, part.name)
            elif ended != NEVER:
                seen.ops.append(Op(launch.module, launch.run, launch.device, op, part.start, ended[0]))
        self._find_whole()

    def _end_of_work(self, part: _Operation, end: int, thread: int) -> int:
        """Return the end of an operation that may have continued on the thread with this number.

        XLA notes that end only after it has run the operations that wait for this one, on the same thread.
        """
        if thread < 0:
            return part.end
        first, until = [*self._threads, len(self._starts)][thread : thread + 2]
        at = bisect_left(self._starts, part.end, first, until)
        for i in range(at, min(until, at + MOST_BETWEEN)):
            if self._starts[i] >= end:
                break
            if self._launches[i] == self._numbers.get(part.numbered):
                return self._starts[i]
        return max(part.end, end)

    def _find_whole(self) -> None:
        """Find the whole launches: those with their end, and their beginning or an earlier launch's end."""
        on_devices = Counter(numbered.launch.run for numbered in self._first)
        earliest: dict[int, int] = {}
        for (_, device), end in self._finished.items():
            earliest[device] = min(end, earliest.get(device, end))
        for (launch, number), start in self._first.items():
            finished = self._finished.get((launch.run, launch.device))
            began = self._begun[launch.run] >= on_devices[launch.run] or start >= earliest.get(
                launch.device, start + 1
            )
            if finished is not None and began:
                self._seen.spans.append(LaunchSpan(*launch, start, finished, number))
            else:
                self._seen.cut.add((launch.module, launch.run))
