"""The programs of the whole cluster: each once, with the figures of the processes that loaded it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jaxtop.base import names
from jaxtop.model.hardware.allocators import free_bytes
from jaxtop.model.hosts import host_views
from jaxtop.model.programs.compiles import cause_of, lost_ms
from jaxtop.model.programs.launch_durations import percentile_us, together
from jaxtop.model.programs.loaded_programs import differing, identity, merged_programs, most, unlike
from jaxtop.model.programs.rates import launch_rates_of, program_of, sampled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop import wire
    from jaxtop.model.host import Host
    from jaxtop.model.liveness import HostView
    from jaxtop.model.programs.compiles import Cause
    from jaxtop.model.programs.loaded_programs import LoadedProgram
    from jaxtop.model.state import ClusterState


Key = TypeVar("Key")
Value = TypeVar("Value", int, float)


@dataclass(frozen=True, slots=True)
class ProgramView:
    """A program of a run, merged over all processes that loaded it; the bytes are those of one device.

    Launches are counted by function: `function_launches` and `function_per_second` cover all programs of this
    name. `launches` is None where a process has several of them. Windows of the profiler split the rate over
    these programs; `launches_per_second` is None where they do not. Figures of several processes are not
    added up, because the processes launch together: the highest figure counts.
    """

    run: str
    program: wire.Program
    function: str
    agents: tuple[str, ...]
    variants: int
    launches: int | None
    launches_per_second: float | None
    compiles: int | None
    compile_ms: int | None
    is_recompiling: bool
    # Of the device with least free memory, if the allocator reports it.
    free_bytes: int | None
    # Agents that loaded a different program of this name, though all must run the same.
    differs: tuple[str, ...]
    function_launches: int | None = None
    function_per_second: float | None = None
    # In which figures they differ.
    unlike: str = ""
    # The time that compilations of the function took, tracing included, and why it was compiled again.
    lost_ms: int | None = None
    cause: Cause | None = None
    # What holds memory at its peak, where a viewer asked a process.
    peak: wire.Peak | None = None
    # How long its launches in windows took, of some processes.
    lasted: Mapping[int, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.run, identity(self.program)

    @property
    def p50_us(self) -> float | None:
        """How long a launch takes on its devices."""
        return percentile_us(self.lasted, 0.5)

    @property
    def p99_us(self) -> float | None:
        return percentile_us(self.lasted, 0.99)

    @property
    def needs_bytes(self) -> int | None:
        """The bytes that a device must hold during a launch, arguments included."""
        return _sum(self.program.argument_bytes, self.adds_bytes)

    @property
    def adds_bytes(self) -> int | None:
        """The bytes that a launch needs in addition to its arguments, which are already there."""
        return adds_bytes(self.program)

    @property
    def headroom_bytes(self) -> int | None:
        """The bytes left on the fullest device during a launch; negative if the launch does not fit."""
        return (
            None if self.free_bytes is None or self.adds_bytes is None else self.free_bytes - self.adds_bytes
        )


def adds_bytes(program: wire.Program) -> int | None:
    """Return the bytes that a launch needs on each device in addition to its arguments."""
    alias = program.alias_bytes or 0  # outputs that reuse the memory of arguments
    added = _sum(program.output_bytes, program.temp_bytes)
    return None if added is None else max(0, added - alias)


def program_views(cluster: ClusterState, now: float) -> list[ProgramView]:
    """Return the programs of all runs, those that need most memory first."""
    by_agent = {view.host.agent: view for view in host_views(cluster, now)}
    merged = merged_programs(cluster).merged
    differs = _differing_agents(cluster)
    variants = Counter((loaded.run, loaded.program.name) for loaded in merged)
    # Programs share groups: the processes that have loaded them alike.
    groups = {id(group): group for loaded in merged for group in loaded.groups}
    figures = {
        number: _figures(group.programs, [by_agent[host.agent] for host in group.members])
        for number, group in groups.items()
    }
    views = []
    for loaded in merged:
        of_groups = [figures[id(group)] for group in loaded.groups]
        name = loaded.program.name
        others_of, words = differs.get((loaded.run, identity(loaded.program)), ((), ""))
        views.append(
            ProgramView(
                run=loaded.run,
                program=loaded.program,
                function=names.function_of(name),
                agents=loaded.agents,
                variants=variants[loaded.run, name],
                launches=most(g.launches.get(name) for g in of_groups if name not in g.shared),
                launches_per_second=most(
                    group.program_rates.get((name, loaded.program.fingerprint)) for group in of_groups
                ),
                compiles=most(group.compiles.get(name) for group in of_groups),
                compile_ms=loaded.compile_ms,
                is_recompiling=any(name in group.recompiling for group in of_groups),
                free_bytes=min((g.free for g in of_groups if g.free is not None), default=None),
                differs=others_of,
                unlike=words,
                function_launches=most(group.launches.get(name) for group in of_groups),
                function_per_second=most(group.rates.get(name) for group in of_groups),
                lost_ms=most(group.lost_ms.get(name) for group in of_groups),
                cause=_latest(cause_of(group.compilations, name) for group in of_groups),
                peak=_peak(loaded, by_agent),
                lasted=_lasted(loaded, by_agent),
            )
        )
    views.sort(key=lambda view: -(view.needs_bytes or 0))
    return views


def _differing_agents(cluster: ClusterState) -> dict[tuple[str, Any], tuple[tuple[str, ...], str]]:
    """Return, by run and identity of a program, the agents that have another one, and in what it differs."""
    found = {}
    for parts in differing(cluster):
        words = unlike(parts)
        for one in parts:
            others = [host.agent for other in parts if other is not one for host in other.members]
            found[one.run, identity(one.program)] = tuple(others), words
    return found


def _peak(each: LoadedProgram, by_agent: Mapping[str, HostView]) -> wire.Peak | None:
    """Return the peak of a program that a process of it sent last."""
    key = each.program.name, each.program.fingerprint
    found = (by_agent[agent].host.peaks.get(key) for agent in each.agents)
    return max((peak for peak in found if peak is not None), key=lambda peak: peak.at_ms, default=None)


def _lasted(each: LoadedProgram, by_agent: Mapping[str, HostView]) -> Mapping[int, int]:
    """Return how long the launches of a program took, of a sample of the processes that loaded it."""
    hosts = (by_agent[agent].current for agent in sampled(each.agents))
    launched = (host.launches_in_windows.get(each.program.name) for host in hosts)
    return together(one.lasted.get(each.program.fingerprint, {}) for one in launched if one is not None)


def launched_lately(host: Host) -> set[str]:
    before = host.past_launches[0].launches if host.past_launches else {}
    return {
        program_of(function) for function, count in host.launches.items() if count != before.get(function, 0)
    }


class _Figures(NamedTuple):
    """The figures of a group of processes: those of its programs by name, and its fullest device."""

    # The names that several of its programs have.
    shared: frozenset[str]
    launches: dict[str, int]
    rates: dict[str, float]
    program_rates: dict[tuple[str, str | None], float]
    compiles: dict[str, int]
    recompiling: set[str]
    free: int | None
    lost_ms: dict[str, int]
    # Of the process that compiled last.
    compilations: tuple[wire.Compilation, ...]


def _figures(listed: Sequence[wire.Program], members: list[HostView]) -> _Figures:
    launches: dict[str, int] = {}
    of_names: dict[str, float] = {}
    of_programs: dict[tuple[str, str | None], float] = {}
    compiles: dict[str, int] = {}
    recompiling: set[str] = set()
    free: list[int] = []
    lost: dict[str, int] = {}
    compilations: tuple[wire.Compilation, ...] = ()
    for view in members:
        _keep_highest(
            launches, ((program_of(function), count) for function, count in view.host.launches.items())
        )
        measured = launch_rates_of(view.current)
        _keep_highest(of_names, measured.of_function.items())
        _keep_highest(of_programs, measured.of_program.items())
        _keep_highest(compiles, view.host.programs.compiles.items())
        recompiling.update(view.current.programs.recompiling)
        free += free_bytes(view.current.pulse)
        _keep_highest(lost, lost_ms(view.host.programs.lines).items())
        compilations = max(compilations, view.host.programs.compilations, key=_last_at)
    often = Counter(each.name for each in {identity(each): each for each in listed}.values())
    return _Figures(
        frozenset(name for name, count in often.items() if count > 1),
        launches,
        of_names,
        of_programs,
        compiles,
        recompiling,
        min(free, default=None),
        lost,
        compilations,
    )


def _keep_highest(highest: dict[Key, Value], values: Iterable[tuple[Key, Value]]) -> None:
    """Replace the highest values by key where these are higher."""
    for key, value in values:
        highest[key] = max(value, highest.get(key, value))


def _last_at(compilations: tuple[wire.Compilation, ...]) -> int:
    return compilations[-1].at_ms if compilations else 0


def _latest(causes: Iterable[Cause | None]) -> Cause | None:
    known = (each for each in causes if each is not None)
    return max(known, key=lambda each: each.last.at_ms, default=None)


def _sum(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
