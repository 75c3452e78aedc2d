"""The noun for the processes of a run: hosts where each has a machine of its own, processes otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.host import HOST, PROCESS, run_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState


def place(state: ClusterState, before: Host, host: Host) -> None:
    """Note the machine of a process, and call it and its run accordingly.

    A process that was started again counts once, where it was last.
    """
    if run_of(before) != run_of(host) or _key(before) != _key(host):
        _leave(state, run_of(before), _key(before))
    if host.hostname is not None:
        run = run_of(host)
        earlier = state.machines.get(run, {})
        state.machines[run] = {**earlier, _key(host): host.hostname}
        noun = _noun(state.machines[run])
        if noun == _noun(earlier):
            state.hosts[host.agent] = host.but(noun=noun)
        else:
            _call(state, run, noun)


def _leave(state: ClusterState, run: str, key: int | str) -> None:
    machines = state.machines.get(run, {})
    if key in machines:
        state.machines[run] = {each: name for each, name in machines.items() if each != key}


def forget(state: ClusterState) -> None:
    """Forget the machines of processes that were dropped."""
    there = {(run_of(host), _key(host)) for host in state.hosts.values()}
    for run, machines in list(state.machines.items()):
        left = {key: name for key, name in machines.items() if (run, key) in there}
        if left:
            state.machines[run] = left
            _call(state, run, _noun(left))
        else:
            del state.machines[run]


def _key(host: Host) -> int | str:
    return host.agent if host.process_index is None else host.process_index


def _call(state: ClusterState, run: str, noun: str) -> None:
    for host in list(state.hosts.values()):
        if host.noun != noun and run_of(host) == run:
            state.hosts[host.agent] = host.but(noun=noun)


def _noun(machines: Mapping[int | str, str]) -> str:
    return HOST if 1 < len(machines) == len(set(machines.values())) else PROCESS
