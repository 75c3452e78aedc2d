"""Programs with the processes that loaded them, and those that differ where they must be the same."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jaxtop.model.host import device_entry, run_of
from jaxtop.model.hosts import newest_hosts
from jaxtop.model.liveness import WINDOW, is_current
from jaxtop.model.programs.rates import program_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop import wire
    from jaxtop.model.host import Host
    from jaxtop.model.past_values import FunctionLaunches
    from jaxtop.model.state import ClusterState


Amount = TypeVar("Amount", int, float)


# With fewer launches in a window, it does not show which programs of a name a process uses.
MIN_LAUNCHES = 2
# A difference is reported only if it lasts, because processes are read at slightly different moments and some
# compile faster than others.
DIFFERS_AFTER_MS = 10_000


class ProgramGroup(NamedTuple):
    """Processes of a run with the same programs."""

    run: str
    programs: tuple[wire.Program, ...]
    members: list[Host]


@dataclass
class LoadedProgram:
    """A program with all processes that loaded it, and its place in the list of each group of them."""

    run: str
    program: wire.Program
    groups: list[ProgramGroup] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    held_by: int = 0  # devices
    compile_ms: int | None = None

    @property
    def members(self) -> list[Host]:
        return [host for group in self.groups for host in group.members]

    @cached_property
    def agents(self) -> tuple[str, ...]:
        return tuple(host.agent for host in self.members)


class MergedPrograms(NamedTuple):
    """All programs, and those of one name that may differ where they must be the same."""

    merged: list[LoadedProgram]
    suspects: list[list[LoadedProgram]]


def merged_programs(cluster: ClusterState) -> MergedPrograms:
    members = newest_hosts(cluster)
    inputs = [each for host in members for each in (host.agent, host.programs)]
    return cluster.derived.get("programs", inputs, lambda: _merge(members))


def _merge(members: Sequence[Host]) -> MergedPrograms:
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
            took = (device_entry(host.programs.compile_ms, i) for host in group.members)
            each.compile_ms = most((each.compile_ms, *took))
    found = list(merged.values())
    return MergedPrograms(found, _suspects(members, found))


def _groups(members: Iterable[Host]) -> list[ProgramGroup]:
    """Group processes by their programs. Most processes of a run have the same, so each list is read once."""
    found: dict[str, list[ProgramGroup]] = defaultdict(list)
    for host in members:
        run, listed = run_of(host), host.programs.programs
        group = next((each for each in found[run] if each.programs == listed), None)
        if group is None:
            found[run].append(group := ProgramGroup(run, listed, []))
        group.members.append(host)
    return [group for groups in found.values() for group in groups]


def identity(program: wire.Program) -> Any:
    return (program.name, program.fingerprint) if program.fingerprint else program


def _used_apart(cluster: ClusterState) -> list[list[LoadedProgram]]:
    """Return programs of one name that span processes, each used by fewer processes than it needs.

    All may be loaded everywhere: what counts is which of them the last windows show. If all are, all
    processes may just go on to another variant, so that only windows of one slot with several launches are
    compared.
    """
    members = newest_hosts(cluster)
    inputs = [each for host in members for each in (host.agent, host.programs, host.launches_in_windows)]

    def derive() -> list[list[LoadedProgram]]:
        merged = merged_programs(cluster).merged
        used = {host.agent: _used(host) for host in members}
        names = {name for of_host in used.values() for name, found in of_host.items() if len(found) == 1}
        named = [each for each in merged if each.program.name in names]
        partial = {id(each.program) for each in merged if each.held_by < (each.program.devices or 0)}
        return [
            parts
            for parts in _suspects(members, named, used)
            if any(id(each.program) in partial for each in parts) or _are_of_one_slot(parts)
        ]

    return cluster.derived.get("programs used apart", inputs, derive)


def _are_of_one_slot(parts: Sequence[LoadedProgram]) -> bool:
    """Return whether windows of one slot show these programs, and several launches of each."""
    seen = [host.launches_in_windows[each.program.name] for each in parts for host in each.members]
    slots = {each.slot for each in seen}
    return len(slots) == 1 and None not in slots and all(_count(each) >= MIN_LAUNCHES for each in seen)


def _count(launched: FunctionLaunches) -> int:
    return sum(launched.latest.values())


def _used(host: Host) -> dict[str, frozenset[str]]:
    """Return the fingerprints of the programs that the last window shows, by name, where all are known."""
    return {
        name: frozenset(each for each in launched.latest if each is not None)
        for name, launched in host.launches_in_windows.items()
        if launched.latest and None not in launched.latest and is_current(host, launched.at_ms, WINDOW)
    }


def _suspects(
    members: Sequence[Host],
    merged: list[LoadedProgram],
    used: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
) -> list[list[LoadedProgram]]:
    """Return programs of one name that span processes, each held by fewer processes than it needs.

    A program over 8 devices cannot run unless processes with 8 devices have it. Stages of a pipeline differ
    but are complete, so they are not reported. Nor are programs that one process runs by itself. With `used`,
    the programs by name that each agent uses, a process holds only those.
    """
    by_name: dict[tuple[str, str, int], list[LoadedProgram]] = defaultdict(list)
    for one in merged:
        each = one if used is None else _used_by(one, used)
        devices = each.program.devices or 0
        spans = (each.program.local_devices or 0) < devices
        is_incomplete = spans and 0 < each.held_by < devices and bool(each.program.fingerprint)
        if is_incomplete and each.held_by + _unknown_devices(members, each, used) < devices:
            by_name[each.run, each.program.name, devices].append(each)
    found = [parts for parts in by_name.values() if len(parts) > 1]
    return [sorted(parts, key=lambda each: -len(each.members)) for parts in found]


def _used_by(each: LoadedProgram, used: Mapping[str, Mapping[str, frozenset[str]]]) -> LoadedProgram:
    """Return a program with those of its processes that use it, and no variant of it."""
    alone = frozenset((each.program.fingerprint or "",))
    groups = [
        group._replace(members=[host for host in group.members if _variants(host, each, used) == alone])
        for group in each.groups
    ]
    kept = [(group, place) for group, place in zip(groups, each.places, strict=True) if group.members]
    count = sum(len(group.members) for group, _ in kept)
    held_by = count * (each.program.local_devices or 0)
    return LoadedProgram(
        each.run, each.program, [group for group, _ in kept], [place for _, place in kept], held_by
    )


def _variants(
    host: Host, each: LoadedProgram, used: Mapping[str, Mapping[str, frozenset[str]]]
) -> frozenset[str] | None:
    return used.get(host.agent, {}).get(each.program.name)


def _unknown_devices(
    members: Sequence[Host],
    each: LoadedProgram,
    used: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
) -> int:
    """Return how many devices may belong to processes that also have it but have not reported it yet."""
    of_run = [host for host in members if run_of(host) == each.run]
    expected = max((host.process_count or 0 for host in of_run), default=0)
    have = {host.agent for host in each.members}
    unreported = sum(_is_unknown(host, each, used) and host.agent not in have for host in of_run)
    return (unreported + max(0, expected - len(of_run))) * (each.program.local_devices or 0)


def _is_unknown(
    host: Host, each: LoadedProgram, used: Mapping[str, Mapping[str, frozenset[str]]] | None
) -> bool:
    """Return whether a process may have a program, or use it, though it has not reported that."""
    if used is None:
        return not host.programs.at_ms or host.programs.rest > 0
    found = _variants(host, each, used)
    return found is None or each.program.fingerprint in found


def differing(cluster: ClusterState) -> list[list[LoadedProgram]]:
    """Return programs of one name that have differed for long enough, the most common first."""
    return cluster.derived.get(
        "differing programs",
        (cluster.changes,),
        lambda: _differing(cluster),
    )


def _differing(cluster: ClusterState) -> list[list[LoadedProgram]]:
    found = [parts for parts in merged_programs(cluster).suspects if _lasts(cluster, parts)]
    known = {(parts[0].run, parts[0].program.name) for parts in found}
    apart = (each for each in _used_apart(cluster) if (each[0].run, each[0].program.name) not in known)
    return [*found, *(parts for parts in apart if _lasts(cluster, parts))]


def unlike(parts: Sequence[LoadedProgram]) -> str:
    """Return in which of its figures a program differs between processes."""
    found = [
        words
        for name, words in _FIGURES.items()
        if len({getattr(each.program, name) for each in parts} - {None}) > 1
    ]
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found) or _INSIDE


# What the compiler says about a program, in the order in which a difference tells most.
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
                seen = device_entry(host.programs.seen_ms, place)
                if seen is None or host.pulse.at_ms - seen < DIFFERS_AFTER_MS:
                    return False
                compiling = (program_of(running.function) for running in host.pulse.compiling)
                if each.program.name in compiling:
                    return False
    return True


def most(values: Iterable[Amount | None]) -> Amount | None:
    return max((value for value in values if value is not None), default=None)
