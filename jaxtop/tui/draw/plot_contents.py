"""The contents of a plot: the figure, the device or host, and the others it is compared with."""

from __future__ import annotations

from enum import StrEnum
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model import (
    DEVICE_FIGURES,
    HOST_FIGURES,
    STEP_FIGURES,
    DeviceView,
    Figure,
    Host,
    Scope,
    figure_series,
    scalar_figures,
)
from jaxtop.model.host import run_of
from jaxtop.tui.core.moment import name_of
from jaxtop.tui.draw.plot import LETTERS, PlotLine

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.plot import Points


class PlotComparison(StrEnum):
    """The others whose lines are drawn for comparison."""

    ALONE = "alone"
    DEVICES = "devices of its process"
    HOSTS = "processes of its run"


class PlotSubject(NamedTuple):
    """A device or a host whose line can be drawn. The line of a host may be the mean of its devices."""

    name: str
    agent: str
    device_id: int | None
    positions: tuple[int, ...]
    # The current value. Where there are too many peers, it decides which of them are drawn.
    now: float | None

    @property
    def key(self) -> tuple[str, int | None]:
        return self.agent, self.device_id


def choices(reported: Collection[str], scalars: Collection[str]) -> list[Figure]:
    """Return the figures that can be plotted: the reported ones, and the scalars of the scripts."""
    first = [each for each in (*DEVICE_FIGURES, *STEP_FIGURES) if each.name in reported]
    return [*first, *scalar_figures(scalars), *(each for each in HOST_FIGURES if each.name in reported)]


def is_of_device(figure: Figure) -> bool:
    return figure.scope is Scope.DEVICE


def ways(figure: Figure) -> tuple[PlotComparison, ...]:
    return tuple(PlotComparison) if is_of_device(figure) else (PlotComparison.ALONE, PlotComparison.HOSTS)


def peers(
    moment: Moment, figure: Figure, host: Host, device: DeviceView | None, beside: PlotComparison
) -> list[PlotSubject]:
    """Return all devices or hosts that could have a line. Reads current values only, not the history."""
    if is_of_device(figure) and beside is not PlotComparison.HOSTS:
        return [
            _device(figure, each)
            for each in moment.device_views
            if each.agent == host.agent
            and (beside is PlotComparison.DEVICES or (device is not None and each.id == device.id))
        ]
    return [
        _host(figure, view.current)
        for view in moment.host_views
        if (
            run_of(view.host) == run_of(host)
            if beside is PlotComparison.HOSTS
            else view.host.agent == host.agent
        )
        if figure.scope is not Scope.SCRIPT or _reports(view.host, figure.field)
    ]


def _reports(host: Host, scalar: str) -> bool:
    return any(each.name == scalar for each in host.curves.curves)


def few(candidates: Sequence[PlotSubject], chosen: tuple[str, int | None]) -> list[PlotSubject]:
    """Return at most one peer per letter: the chosen one, then those with the most and the least now."""
    if len(candidates) <= len(LETTERS):
        return list(candidates)
    known = sorted((each for each in candidates if each.now is not None), key=lambda each: each.now or 0.0)
    most = [each.key for each in reversed(known[-(len(LETTERS) // 2) :])]
    wanted = dict.fromkeys([chosen, *most, *(each.key for each in (*known, *candidates))])
    there = {each.key for each in candidates}
    drawn_keys = set([key for key in wanted if key in there][: len(LETTERS)])
    return [each for each in candidates if each.key in drawn_keys]


def line_of(moment: Moment, figure: Figure, peer: PlotSubject, *, is_chosen: bool) -> PlotLine:
    columns = [figure_series(moment.cluster, peer.agent, figure, position) for position in peer.positions]
    points = columns[0] if len(columns) == 1 else _mean(columns)
    return PlotLine(peer.name, tuple(points), is_chosen)


def _device(figure: Figure, device: DeviceView) -> PlotSubject:
    return PlotSubject(
        f"device {device.id}", device.agent, device.id, (device.position,), device.read(figure)
    )


def _host(figure: Figure, host: Host) -> PlotSubject:
    positions = tuple(range(len(host.hello.devices))) if is_of_device(figure) and host.hello else (0,)
    values = (figure.read(host.pulse, position) for position in positions)
    known = [value for value in values if value is not None]
    return PlotSubject(name_of(host), host.agent, None, positions, fmean(known) if known else None)


def _mean(columns: Sequence[Points]) -> list[tuple[float, float | None]]:
    found = []
    for points in zip(*columns, strict=False):
        known = [value for _, value in points if value is not None]
        found.append((points[0][0], fmean(known) if known else None))
    return found
