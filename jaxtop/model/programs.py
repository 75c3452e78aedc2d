"""The programs of the whole cluster: each once, with the processes that loaded it and those that differ."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jaxtop import names
from jaxtop.model.devices import figure
from jaxtop.model.host import run_of
from jaxtop.model.hosts import host_views, hosts
from jaxtop.model.rates import program_of, rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop import wire
    from jaxtop.model.host import Host
    from jaxtop.model.hosts import HostView
    from jaxtop.model.state import ClusterState

Figure = TypeVar("Figure", int, float)

# A difference is reported only if it lasts, because processes are read at slightly different moments and some
# compile faster than others.
DIFFERS_AFTER_MS = 10_000


@dataclass(frozen=True, slots=True)
class ProgramView:
    """A program of a run, merged over all processes that loaded it; the bytes are those of one device.

    Launches are counted by function: `launches` covers all programs of this name. Windows of the profiler
    split the rate over these programs; `launches_per_second` is None where they do not. `function_per_second`
    is the rate of the function. Figures of several processes are not added up, because the processes launch
    together: the highest figure counts.
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
    function_per_second: float | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The identity of the program."""
        return self.run, _identity(self.program)

    @property
    def needs_bytes(self) -> int | None:
        """The bytes that a device must hold during a launch, arguments included."""
        return _sum(self.program.argument_bytes, self.adds_bytes)

    @property
    def adds_bytes(self) -> int | None:
        """The bytes that a launch needs in addition to its arguments, which are already there."""
        program = self.program
        alias = program.alias_bytes or 0  # outputs that reuse the memory of arguments
        added = _sum(program.output_bytes, program.temp_bytes)
        return None if added is None else max(0, added - alias)

    @property
    def headroom_bytes(self) -> int | None:
        """The bytes left on the fullest device during a launch; negative if the launch does not fit."""
        return (
            None if self.free_bytes is None or self.adds_bytes is None else self.free_bytes - self.adds_bytes
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """Processes of one run that must run the same program but loaded different ones of that name."""

    run: str
    name: str
    # One entry for each program, the one that most agents have first.
    agents: tuple[tuple[str, ...], ...]


class _Group(NamedTuple):
    """Processes of a run with the same programs."""

    run: str
    programs: tuple[wire.Program, ...]
    members: list[Host]


@dataclass
class _Merged:
    """A program with all processes that loaded it."""

    run: str
    program: wire.Program
    groups: list[_Group] = field(default_factory=list)
    held_by: int = 0  # devices
    compile_ms: int | None = None

    @property
    def members(self) -> list[Host]:
        return [host for group in self.groups for host in group.members]

    @cached_property
    def agents(self) -> tuple[str, ...]:
        return tuple(host.agent for host in self.members)


class _Programs(NamedTuple):
    """All programs, and those of one name that may differ where they must be the same."""

    merged: list[_Merged]
    suspects: list[list[_Merged]]


def programs(cluster: ClusterState, now: float) -> list[ProgramView]:
    """Return the programs of all runs, those that need most memory first."""
    by_agent = {view.host.agent: view for view in host_views(cluster, now)}
    merged = _merged(cluster).merged
    differing: dict[tuple[str, Any], tuple[str, ...]] = {}
    for parts in _differing(cluster):
        for one in parts:
            others = [host.agent for other in parts if other is not one for host in other.members]
            differing[one.run, _identity(one.program)] = tuple(others)
    variants: dict[tuple[str, str], int] = defaultdict(int)
    for each in merged:
        variants[each.run, each.program.name] += 1
    figures: dict[int, _Figures] = {}
    views = []
    for each in merged:
        for group in each.groups:
            if id(group) not in figures:
                figures[id(group)] = _figures([by_agent[host.agent] for host in group.members])
        of_groups = [figures[id(group)] for group in each.groups]
        name = each.program.name
        views.append(
            ProgramView(
                run=each.run,
                program=each.program,
                function=names.function_of(name),
                agents=each.agents,
                variants=variants[each.run, name],
                launches=_most(group.launches.get(name) for group in of_groups),
                launches_per_second=_most(
                    group.program_rates.get((name, each.program.fingerprint)) for group in of_groups
                ),
                compiles=_most(group.compiles.get(name) for group in of_groups),
                compile_ms=each.compile_ms,
                is_recompiling=any(name in group.recompiling for group in of_groups),
                free_bytes=min((g.free for g in of_groups if g.free is not None), default=None),
                differs=differing.get((each.run, _identity(each.program)), ()),
                function_per_second=_most(group.rates.get(name) for group in of_groups),
            )
        )
    views.sort(key=lambda view: -(view.needs_bytes or 0))
    return views


def differences(cluster: ClusterState) -> list[Difference]:
    """Return where processes of a run differ in a program that must be the same on all of them."""
    return [
        Difference(
            parts[0].run,
            parts[0].program.name,
            tuple(tuple(host.agent for host in each.members) for each in parts),
        )
        for parts in _differing(cluster)
    ]


def launched_lately(host: Host) -> set[str]:
    """Return the names of the programs that a process launched recently."""
    before = host.past_launches[0].launches if host.past_launches else {}
    return {
        program_of(function) for function, count in host.launches.items() if count != before.get(function, 0)
    }


def _merged(cluster: ClusterState) -> _Programs:
    members = hosts(cluster)
    inputs = [each for host in members for each in (host.agent, host.programs)]
    return cluster.derived.get("programs", inputs, lambda: _merge(members))


def _merge(members: Sequence[Host]) -> _Programs:
    merged: dict[tuple[str, Any], _Merged] = {}
    for group in _groups(members):
        for i, program in enumerate(group.programs):
            key = group.run, _identity(program)
            each = merged.get(key)
            if each is None:
                each = merged[key] = _Merged(group.run, program)
            if not each.groups or each.groups[-1] is not group:  # a process may have loaded it twice
                each.groups.append(group)
                each.held_by += (program.local_devices or 0) * len(group.members)
            each.compile_ms = _most((each.compile_ms, _slowest(group, i)))
    found = list(merged.values())
    return _Programs(found, _suspects(members, found))


def _groups(members: Iterable[Host]) -> list[_Group]:
    """Group processes by their programs. Most processes of a run have the same, so each list is read once."""
    found: dict[str, list[_Group]] = defaultdict(list)
    for host in members:
        run, listed = run_of(host), host.programs.programs
        group = next((each for each in found[run] if each.programs == listed), None)
        if group is None:
            found[run].append(group := _Group(run, listed, []))
        group.members.append(host)
    return [group for groups in found.values() for group in groups]


def _identity(program: wire.Program) -> Any:
    return (program.name, program.fingerprint) if program.fingerprint else program


def _slowest(group: _Group, i: int) -> int | None:
    columns = (host.programs.compile_ms for host in group.members)
    return _most(figure(column, i) for column in columns)


def _suspects(members: Sequence[Host], merged: list[_Merged]) -> list[list[_Merged]]:
    """Return programs of one name that span processes, each loaded by fewer processes than it needs.

    A program over 8 devices cannot run unless processes with 8 devices have it. Stages of a pipeline differ
    but are complete, so they are not reported. Nor are programs that one process runs by itself.
    """
    by_name: dict[tuple[str, str, int], list[_Merged]] = defaultdict(list)
    for each in merged:
        devices = each.program.devices or 0
        spans = (each.program.local_devices or 0) < devices
        if spans and each.program.fingerprint and each.held_by + _unknown_devices(members, each) < devices:
            by_name[each.run, each.program.name, devices].append(each)
    found = [parts for parts in by_name.values() if len(parts) > 1]
    return [sorted(parts, key=lambda each: -len(each.members)) for parts in found]


def _unknown_devices(members: Sequence[Host], each: _Merged) -> int:
    """Return how many devices may belong to processes that also have it but have not reported it yet."""
    of_run = [host for host in members if run_of(host) == each.run]
    expected = max((host.process_count or 0 for host in of_run), default=0)
    have = {host.agent for host in each.members}
    silent = sum(
        (not host.programs.at_ms or host.programs.rest > 0) and host.agent not in have for host in of_run
    )
    return (silent + max(0, expected - len(of_run))) * (each.program.local_devices or 0)


def _differing(cluster: ClusterState) -> list[list[_Merged]]:
    return [parts for parts in _merged(cluster).suspects if _lasts(cluster, parts)]


def _lasts(cluster: ClusterState, parts: list[_Merged]) -> bool:
    """Return whether the difference is old enough on each process's clock, and none compiles the function."""
    for each in parts:
        for member in each.members:
            host = cluster.hosts.get(member.agent, member)
            seen = _seen_ms(host, each.program)
            if seen is None or host.pulse.at_ms - seen < DIFFERS_AFTER_MS:
                return False
            if any(program_of(running.function) == each.program.name for running in host.pulse.compiling):
                return False
    return True


def _seen_ms(host: Host, program: wire.Program) -> int | None:
    for i, each in enumerate(host.programs.programs):
        if _identity(each) == _identity(program):
            return figure(host.programs.seen_ms, i)
    return None


class _Figures(NamedTuple):
    """The figures of a group of processes: those of its programs by name, and its fullest device."""

    launches: dict[str, int]
    rates: dict[str, float]
    program_rates: dict[tuple[str, str | None], float]
    compiles: dict[str, int]
    recompiling: set[str]
    free: int | None


def _figures(members: list[HostView]) -> _Figures:
    launches: dict[str, int] = {}
    of_names: dict[str, float] = {}
    of_programs: dict[tuple[str, str | None], float] = {}
    compiles: dict[str, int] = {}
    recompiling: set[str] = set()
    free: list[int] = []
    for view in members:
        for function, count in view.last.launches.items():
            name = program_of(function)
            launches[name] = max(count, launches.get(name, 0))
        measured = rates(view.now)
        for name, rate in measured.of_function.items():
            of_names[name] = max(rate, of_names.get(name, 0.0))
        for key, rate in measured.of_program.items():
            of_programs[key] = max(rate, of_programs.get(key, 0.0))
        for name, count in view.last.programs.compiles.items():
            compiles[name] = max(count, compiles.get(name, 0))
        recompiling.update(view.now.programs.recompiling)
        free += free_bytes(view.now)
    return _Figures(launches, of_names, of_programs, compiles, recompiling, min(free, default=None))


def free_bytes(host: Host) -> list[int]:
    """Return the bytes that the allocator of each device can still provide, for devices where it is known."""
    sample = host.pulse.devices
    found = []
    for i in range(len(sample.limit_bytes or ())):
        limit, used = figure(sample.limit_bytes, i), figure(sample.used_bytes, i)
        if limit and used is not None:
            found.append(max(0, limit - used - (figure(sample.reserved_bytes, i) or 0)))
    return found


def _most(values: Iterable[Figure | None]) -> Figure | None:
    return max((value for value in values if value is not None), default=None)


def _sum(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
