"""The launch rates of programs with collectives, from a sample of the processes that run each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.collectives.layout import layouts
from jaxtop.model.hosts import host_views
from jaxtop.model.programs.rates import LaunchRates, UnsplitLaunches, launch_rates_of, sampled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxtop.model.liveness import HostView
    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import ProgramKey


class SampledRate(NamedTuple):
    """The launches a second of one program, and those of all programs of its name together."""

    own: float | None
    unsplit: UnsplitLaunches | None


def sampled_rates(
    cluster: ClusterState, keys: Iterable[ProgramKey], now: float
) -> Mapping[ProgramKey, SampledRate]:
    """Return how often each of these programs is launched; the last result, if it is the same."""
    views = {view.host.agent: view for view in host_views(cluster, now)}
    of_agents: dict[str, LaunchRates] = {}
    found = {key: _rate_of(cluster, key, views, of_agents) for key in keys}
    return cluster.derived.same("launch rates", found)


def _rate_of(
    cluster: ClusterState, key: ProgramKey, views: Mapping[str, HostView], of_agents: dict[str, LaunchRates]
) -> SampledRate:
    layout, windows = layouts(cluster).get(key), cluster.windows.programs.get(key)
    agents = layout.agents if layout else tuple(windows.last_number_of_agent) if windows else ()
    own: list[float] = []
    unsplit: list[UnsplitLaunches] = []
    _, name, fingerprint = key
    for agent in sampled(agents):
        if agent not in views:
            continue  # another process has taken its place
        if agent not in of_agents:
            of_agents[agent] = launch_rates_of(views[agent].current)
        found = of_agents[agent]
        if (rate := found.rate_of(name, fingerprint)) is not None:
            own.append(rate)
        if name in found.unsplit:
            unsplit.append(found.unsplit[name])
    return SampledRate(max(own, default=None), max(unsplit, default=None))
