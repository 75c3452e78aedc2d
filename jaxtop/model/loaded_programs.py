"""Programs with the processes that loaded them, and those that differ where they must be the same."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jaxtop.model.host import figure, run_of
from jaxtop.model.hosts import hosts
from jaxtop.model.rates import program_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop import wire
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState


Figure = TypeVar("Figure", int, float)


# A difference is reported only if it lasts, because processes are read at slightly different moments and some
# compile faster than others.
DIFFERS_AFTER_MS = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """Processes of one run that must run the same program but loaded different ones of that name."""

    name: str
    # One entry for each program, the one that most agents have first.
    agents: tuple[tuple[str, ...], ...]


class Group(NamedTuple):
    """Processes of a run with the same programs."""

    run: str
    programs: tuple[wire.Program, ...]
    members: list[Host]


@dataclass
class LoadedProgram:
    """A program with all processes that loaded it, and its place in the list of each group of them."""

    run: str
    program: wire.Program
    groups: list[Group] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    held_by: int = 0  # devices
    compile_ms: int | None = None

    @property
    def members(self) -> list[Host]:
        return [host for group in self.groups for host in group.members]

    @cached_property
    def agents(self) -> tuple[str, ...]:
        return tuple(host.agent for host in self.members)


class LoadedPrograms(NamedTuple):
    """All programs, and those of one name that may differ where they must be the same."""

    merged: list[LoadedProgram]
    suspects: list[list[LoadedProgram]]


def differences(cluster: ClusterState) -> list[Difference]:
    """Return where processes of a run differ in a program that must be the same on all of them."""
    return [
        Difference(parts[0].program.name, tuple(each.agents for each in parts))
        for parts in differing(cluster)
    ]


def loaded(cluster: ClusterState) -> LoadedPrograms:
    members = hosts(cluster)
    inputs = [each for host in members for each in (host.agent, host.programs)]
    return cluster.derived.get("programs", inputs, lambda: _merge(members))


def _merge(members: Sequence[Host]) -> LoadedPrograms:
    merged: dict[tuple[str, Any], LoadedProgram] = {}
    for group in _groups(members):
        for i, program in enumerate(group.programs):
            key = group.run, identity(program)
            each = merged.get(key)
            if each is None:
                each = merged[key] = LoadedProgram(group.run, program)
            if not each.groups or each.groups[-1] is not group:  # a process may have loaded it twice
                each.groups.append(group)
                each.places.append(i)
                each.held_by += (program.local_devices or 0) * len(group.members)
            took = (figure(host.programs.compile_ms, i) for host in group.members)
            each.compile_ms = most((each.compile_ms, *took))
    found = list(merged.values())
    return LoadedPrograms(found, _suspects(members, found))


def _groups(members: Iterable[Host]) -> list[Group]:
    """Group processes by their programs. Most processes of a run have the same, so each list is read once."""
    found: dict[str, list[Group]] = defaultdict(list)
    for host in members:
        run, listed = run_of(host), host.programs.programs
        group = next((each for each in found[run] if each.programs == listed), None)
        if group is None:
            found[run].append(group := Group(run, listed, []))
        group.members.append(host)
    return [group for groups in found.values() for group in groups]


def identity(program: wire.Program) -> Any:
    return (program.name, program.fingerprint) if program.fingerprint else program


def _suspects(members: Sequence[Host], merged: list[LoadedProgram]) -> list[list[LoadedProgram]]:
    """Return programs of one name that span processes, each loaded by fewer processes than it needs.

    A program over 8 devices cannot run unless processes with 8 devices have it. Stages of a pipeline differ
    but are complete, so they are not reported. Nor are programs that one process runs by itself.
    """
    by_name: dict[tuple[str, str, int], list[LoadedProgram]] = defaultdict(list)
    for each in merged:
        devices = each.program.devices or 0
        spans = (each.program.local_devices or 0) < devices
        is_incomplete = spans and each.held_by < devices and bool(each.program.fingerprint)
        if is_incomplete and each.held_by + _unknown_devices(members, each) < devices:
            by_name[each.run, each.program.name, devices].append(each)
    found = [parts for parts in by_name.values() if len(parts) > 1]
    return [sorted(parts, key=lambda each: -len(each.members)) for parts in found]


def _unknown_devices(members: Sequence[Host], each: LoadedProgram) -> int:
    """Return how many devices may belong to processes that also have it but have not reported it yet."""
    of_run = [host for host in members if run_of(host) == each.run]
    expected = max((host.process_count or 0 for host in of_run), default=0)
    have = {host.agent for host in each.members}
    silent = sum(
        (not host.programs.at_ms or host.programs.rest > 0) and host.agent not in have for host in of_run
    )
    return (silent + max(0, expected - len(of_run))) * (each.program.local_devices or 0)


def differing(cluster: ClusterState) -> list[list[LoadedProgram]]:
    """Return programs of one name that have differed for long enough, the most common first."""
    return cluster.derived.get(
        "differing programs",
        (cluster.changes,),
        lambda: [parts for parts in loaded(cluster).suspects if _lasts(cluster, parts)],
    )


def unlike(parts: Sequence[LoadedProgram]) -> str:
    """Return in which of its figures a program differs between processes."""
    found = [
        words
        for name, words in _FIGURES.items()
        if len({getattr(each.program, name) for each in parts} - {None}) > 1
    ]
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found) or _INSIDE


# What the compiler says of a program, in the order in which a difference tells most.
_FIGURES = {
    "argument_bytes": "arguments",
    "output_bytes": "results",
    "alias_bytes": "donation",
    "flops": "operations",
    "local_devices": "devices",
    "temp_bytes": "temporaries",
    "accessed_bytes": "bytes moved",
    "code_bytes": "code size",
    "created": "line",
}
# Only the text of the program shows such a difference, which no message has.
_INSIDE = "code (all its figures are equal)"


def _lasts(cluster: ClusterState, parts: list[LoadedProgram]) -> bool:
    """Return whether the difference is old enough on each process's clock, and none compiles the function."""
    for each in parts:
        for group, place in zip(each.groups, each.places, strict=True):
            for member in group.members:
                host = cluster.hosts.get(member.agent, member)
                seen = figure(host.programs.seen_ms, place)
                if seen is None or host.pulse.at_ms - seen < DIFFERS_AFTER_MS:
                    return False
                compiling = (program_of(running.function) for running in host.pulse.compiling)
                if each.program.name in compiling:
                    return False
    return True


def most(values: Iterable[Figure | None]) -> Figure | None:
    return max((value for value in values if value is not None), default=None)
