"""The exited processes that the model keeps: bounded by number and age, and dropped ones are counted.

All of it follows from the messages and their times, so live views and replays keep the same.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from jaxtop.model.host import EMPTY_HOST, Host, run_of
from jaxtop.model.liveness import has_exited
from jaxtop.model.naming import nouns
from jaxtop.model.stalls.crashes import ended_at
from jaxtop.model.state import ProcessOfRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jaxtop.model.keyframe import Message
    from jaxtop.model.state import ClusterState, DroppedProcesses, LoggedEvent

# The most runs that are kept after all their processes have exited. The newest of them is kept at any age if
# no live run is left.
MAX_RUNS = 32
# The most processes of these runs.
MAX_PROCESSES = 512
# Seconds for which these runs are kept.
RUN_KEPT = 86_400.0
# After this many seconds, a process that exited from a live run keeps only the fact that it exited.
DETAILS_KEPT = 600.0
# The first processes that failed keep their details.
MAX_POSTMORTEMS = 4
SWEEP_EVERY = 60.0
# Agents that were dropped. Rosters may still list them, and these entries are ignored.
MAX_NAMED = 1_000


def reduce(state: ClusterState, _agent: str, _message: Message, at: float) -> list[LoggedEvent]:
    """Drop exited processes and their details when they are replaced, too many or too old."""
    if at // SWEEP_EVERY > state.last_sweep:
        state.last_sweep = at // SWEEP_EVERY
        _sweep(state, state.last_sweep * SWEEP_EVERY)
    return []


def _sweep(state: ClusterState, at: float) -> None:
    _drop(state, list(replaced(state.hosts, at)))
    _drop(state, list(outlived(state.hosts, at)))
    for host in faded(state.hosts, at):
        state.hosts[host.agent] = host.without_figures()
        _drop_history(state, host.agent)


def _drop(state: ClusterState, gone: list[Host]) -> None:
    """Remove these exited processes from the model and count them."""
    if not gone:
        return
    for host in gone:
        _count(state.dropped, host)
        del state.hosts[host.agent]
        _drop_history(state, host.agent)
    nouns.forget(state)
    runs = {run_of(host) for host in state.hosts.values()}
    dropped, windows = state.dropped, state.windows
    dropped.starts = {place: count for place, count in dropped.starts.items() if place.run in runs}
    state.stalls = {run: each for run, each in state.stalls.items() if run in runs}
    state.stall_checks = {run: each for run, each in state.stall_checks.items() if run in runs}
    windows.changes += 1
    windows.programs = {key: each for key, each in windows.programs.items() if key[0] in runs}
    for program in windows.programs.values():
        program.last_number_of_agent = {
            agent: each for agent, each in program.last_number_of_agent.items() if agent in state.hosts
        }
    state.layout_changes += 1
    loaded = {key for host in state.hosts.values() for key in host.inventories}
    state.inventories = {key: each for key, each in state.inventories.items() if key in loaded}
    meshes = [mesh for host in state.hosts.values() for mesh in host.arrays.meshes]
    meshes += [mesh for past in state.past_arrays.values() for each in past for mesh in each.meshes]
    state.meshes = {mesh: state.meshes.get(mesh, mesh) for mesh in meshes}


def _count(dropped: DroppedProcesses, host: Host) -> None:
    place = ProcessOfRun(run_of(host), host.process_index)
    dropped.count += 1
    dropped.agents[host.agent] = place
    if len(dropped.agents) > MAX_NAMED:
        del dropped.agents[next(iter(dropped.agents))]
    if place.process_index is not None:
        dropped.starts[place] = dropped.starts.get(place, 0) + 1


def _drop_history(state: ClusterState, agent: str) -> None:
    tables = state.past_pulses, state.past_figures, state.scalar_tails, state.past_arrays, state.past_windows
    for table in tables:
        table.pop(agent, None)


def replaced(hosts: Mapping[str, Host], at: float) -> Iterator[Host]:
    """Yield the processes that exited by this time and were started again."""
    by_place: dict[ProcessOfRun, list[Host]] = {}
    for host in hosts.values():
        if host.process_index is not None and host.hello is not None:
            by_place.setdefault(ProcessOfRun(run_of(host), host.process_index), []).append(host)
    for found in by_place.values():
        if len(found) > 1:
            newest = max(found, key=_started_ms)
            yield from (
                each
                for each in found
                if has_exited(each) and _started_ms(each) < _started_ms(newest) and _ended_at((each,)) <= at
            )


def outlived(hosts: Mapping[str, Host], at: float) -> Iterator[Host]:
    """Yield the processes of runs that ended by this time, where the runs are too many or too old."""
    members: dict[str, list[Host]] = {}
    for host in hosts.values():
        members.setdefault(run_of(host), []).append(host)
    past = [
        processes
        for processes in members.values()
        if all(map(has_exited, processes)) and _ended_at(processes) <= at
    ]
    past.sort(key=_ended_at, reverse=True)
    count, is_any_left = 0, len(past) < len(members)
    for number, processes in enumerate(past):
        count += len(processes)
        is_newest = number == 0
        is_old = at - _ended_at(processes) > RUN_KEPT and (is_any_left or not is_newest)
        if is_old or (not is_newest and (number >= MAX_RUNS or count > MAX_PROCESSES)):
            yield from processes


def faded(hosts: Mapping[str, Host], at: float) -> list[Host]:
    """Return exited processes of live runs whose details have been kept for long enough."""
    going_on = {run_of(host) for host in hosts.values() if not has_exited(host)}
    kept = {host.agent for run in going_on for host in _crashed_first(hosts, run)}
    return [
        host
        for host in hosts.values()
        if has_exited(host)
        and (host.pulse is not EMPTY_HOST.pulse or host.arrays is not EMPTY_HOST.arrays)
        and run_of(host) in going_on
        and host.agent not in kept
        and at - _ended_at((host,)) > DETAILS_KEPT
    ]


def _crashed_first(hosts: Mapping[str, Host], run: str) -> list[Host]:
    """Return the first processes of a run that ended with an exception: their post-mortems stay."""
    failed = [host for host in hosts.values() if host.error is not None and run_of(host) == run]
    return nsmallest(MAX_POSTMORTEMS, failed, key=ended_at)


def _started_ms(host: Host) -> int:
    return host.hello.started_ms if host.hello is not None else 0


def _ended_at(hosts: Iterable[Host]) -> float:
    return max(max(host.link_at, host.heard_at or 0.0) for host in hosts)
