"""The files made from the traces of a capture: the merged trace, and a summary of its accuracy."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.base import private
from jaxtop.base.names import legible, reason, shorten
from jaxtop.features.captures.comparison import DurationRow, compared
from jaxtop.features.captures.folder import CaptureFolder, file_names
from jaxtop.features.captures.merged_trace import MergedTrace, TracedHost, merge
from jaxtop.features.captures.perfetto import MAX_LANES
from jaxtop.model.collectives.layout import layouts
from jaxtop.model.host import run_of
from jaxtop.traces import WantedCollectives
from jaxtop.traces.files import UNREADABLE
from jaxtop.traces.parts import no_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from jaxtop.model import Cluster, Host
    from jaxtop.wire import Window

SCHEMA = 1
# The settings of the profiler, as the summary names them. See the agent's `jaxprivate/profiler.py`.
OPTIONS = {"python_tracer": False, "host_tracer_level": 2, "programs": True}
LONGEST_REASON = 120
# The hosts that a note names.
MAX_HOST_NAMES = 5
Groups = tuple[tuple[int, ...], ...]


class TakenTrace(NamedTuple):
    """What came of one process: its trace and how long it lasted, or why there is none."""

    agent: str
    is_complete: bool
    text: str = ""
    size: int = 0
    lasted_us: int = 0


@dataclass(frozen=True)
class ProcessesAtStart:
    """What the model knew of the processes when the capture began; it does not change any more."""

    hosts: Mapping[str, Host]
    groups: Mapping[tuple[str, str], Groups] = field(default_factory=dict)

    @property
    def windows(self) -> list[Window]:
        """The short windows to compare with."""
        return [host.window for host in self.hosts.values() if host.window.is_short]

    def file_name(self, agent: str) -> str:
        return self._file_names[agent]

    @cached_property
    def _file_names(self) -> dict[str, str]:
        return file_names(self.hosts)


def known(cluster: Cluster, agents: Sequence[str]) -> ProcessesAtStart:
    """Return what the model knows of these processes now."""
    hosts = {agent: cluster.hosts[agent] for agent in agents}
    runs = {run_of(host) for host in hosts.values()}
    found: dict[tuple[str, str], Groups | None] = {}
    for (run, program, _), layout in layouts(cluster).items():
        for op in layout.of_op if run in runs else ():
            grouped = layout.groups_of(op)
            groups = None if grouped is None else grouped.device_ids
            # A trace has only the name of a program: of several with other groups none is known.
            found[program, op] = groups if found.get((program, op), groups) == groups else None
    return ProcessesAtStart(hosts, {key: groups for key, groups in found.items() if groups is not None})


class FinishedCapture(NamedTuple):
    """The files of a capture and what they show. `why_not_merged` is empty if there is a merged trace.

    `notes` say what a merged trace lacks.
    """

    folder: CaptureFolder
    compared: list[DurationRow]
    clocks: str
    why_not_merged: str = ""
    notes: Sequence[str] = ()


def finish(
    folder: CaptureFolder,
    known: ProcessesAtStart,
    taken: Sequence[TakenTrace],
    *,
    began_ms: int,
    progress: Callable[[float], object],
    pause: Callable[[], object] = no_pause,
) -> FinishedCapture:
    """Name the complete traces, merge them, and write the summary; at least one trace must be complete."""
    complete = [each for each in taken if each.is_complete]
    paths = {each.agent: folder.keep(known.file_name(each.agent)) for each in complete}
    folder.drop_drafts()
    hosts = [_traced(known.hosts[agent], path) for agent, path in paths.items()]
    merged, why_not = None, ""
    fd = private.create(folder.perfetto)
    try:
        with os.fdopen(fd, "wb") as file:
            merged = merge(hosts, lambda program, op: known.groups.get((program, op)), file, progress, pause)
    except UNREADABLE as error:
        why_not = f"a trace cannot be read: {shorten(legible(str(error)), LONGEST_REASON)}"
    except OSError as error:  # the traces stay
        merged, why_not = None, f"it cannot be written: {reason(error)}"
    if merged is not None and len(merged.too_large) == len(hosts):
        why_not = "the traces have too many events"
    if why_not:
        folder.perfetto.unlink(missing_ok=True)
    rows = [] if merged is None else compared(merged.durations, known.windows)
    document = {
        "schema": SCHEMA,
        "began_ms": began_ms,
        "options": OPTIONS,
        "hosts": [_host(known.hosts[each.agent], each, paths, merged) for each in taken],
        "not_merged": [why_not] if merged is None else merged.too_large,
        "crossing_events": None if merged is None else merged.crossing,
        "durations": [_row(each) for each in rows],
    }
    with os.fdopen(private.create(folder.summary), "w", encoding="utf-8") as text:
        json.dump(document, text, indent=1)
        text.write("\n")
    said = "" if merged is None else clocks(hosts, merged)
    notes = [] if merged is None or why_not else _notes(merged)
    return FinishedCapture(folder, rows, said, why_not, notes)


def _notes(merged: MergedTrace) -> list[str]:
    """Return what the merged trace lacks, one line each."""
    notes = []
    if merged.too_large:
        rest = len(merged.too_large) - MAX_HOST_NAMES
        names = ", ".join(merged.too_large[:MAX_HOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
        notes.append(f"not in the merged trace, because of too many events: {names}")
    if merged.crossing:
        notes.append(f"not in the merged trace: {merged.crossing} events that cross {MAX_LANES} others")
    return notes


def _traced(host: Host, path: Path) -> TracedHost:
    names: dict[str, dict[str, str]] = {}
    for inventory in host.inventories.values():
        names.setdefault(inventory.program, {}).update((each.op, each.op) for each in inventory.collectives)
    hello = host.hello
    devices = () if hello is None else hello.devices
    return TracedHost(
        label=host.label,
        path=path,
        platform=(hello.platform or "") if hello else "",
        machine=hello.boot if hello else host.agent,
        # The operations that end a collective have other names, which no message carries.
        wanted=WantedCollectives(names, frozenset(names)),
        ordinals={
            number if each.local_id is None else each.local_id: each.id for number, each in enumerate(devices)
        },
        names={each.id: f"device {each.id} · {each.kind}" for each in devices},
        clock_offset_ns=((hello.clock_offset_ms or 0) if hello else 0) * 1_000_000,
    )


def clocks(hosts: Sequence[TracedHost], merged: MergedTrace) -> str:
    """Return in one line how far the time lines of hosts can be compared."""
    machines = dict(zip((host.machine for host in hosts), merged.clocks, strict=True))
    others = list(machines.values())[1:]
    if not others:
        return "one machine, one clock"
    blind = sum(not each.shared for each in others)
    apart = max((each.apart_ns for each in others if each.apart_ns is not None), default=None)
    words = []
    if apart is not None:
        shared = sum(each.shared for each in others)
        most = "up to " if len(others) - blind > 1 else ""
        words.append(
            f"aligned by {shared} shared collectives: "
            f"their ends are a median of {most}{apart / 1000:.0f} µs apart"
        )
    if blind:
        words.append(f"no shared collective for {blind} of {len(machines)} machines: placed by clock alone")
    return "; ".join(words)


def _host(
    host: Host, taken: TakenTrace, paths: Mapping[str, Path], merged: MergedTrace | None
) -> dict[str, Any]:
    number = list(paths).index(host.agent) if host.agent in paths else None
    aligned = None if merged is None or number is None else merged.clocks[number]
    return {
        "process_index": host.process_index,
        "hostname": host.hostname,
        "file": paths[host.agent].name if host.agent in paths else None,
        "bytes": taken.size or None,
        "lasted_us": taken.lasted_us or None,
        "note": taken.text or None,
        "clock_shift_ns": None if aligned is None else aligned.shift_ns,
        "clock_shared_collectives": None if aligned is None else aligned.shared,
        "clock_apart_ns": None if aligned is None else aligned.apart_ns,
    }


def _row(each: DurationRow) -> dict[str, Any]:
    return {
        "program": each.program,
        "op": each.op,
        "capture_us": each.capture_us,
        "count": each.samples,
        "window_us": each.window_us,
        "window_count": each.window_samples,
        "times_as_long": None if each.factor is None else round(each.factor, 3),
    }
