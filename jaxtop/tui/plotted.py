"""What a plot shows: which figure, of whom, and beside whom."""

from __future__ import annotations

from enum import StrEnum
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model import DEVICE_FIGURES, HOST_FIGURES, STEP_FIGURES, series
from jaxtop.model.views import run_of
from jaxtop.tui.draw.plot import LETTERS, Line
from jaxtop.tui.draw.reading import OVER

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jaxtop.model import DeviceView, Figure, Host
    from jaxtop.tui.draw.plot import Points
    from jaxtop.tui.moment import Moment

_OF_DEVICES = frozenset(each.name for each in DEVICE_FIGURES)


class Beside(StrEnum):
    """Beside whom a line stands."""

    NOBODY = "alone"
    DEVICES = "devices of its host"
    HOSTS = "hosts of its run"


class Peer(NamedTuple):
    """Somebody whose line can be drawn: a device, or a host; of a host the mean of several devices."""

    name: str
    agent: str
    device_id: int | None
    positions: tuple[int, ...]
    # What it has now, by which a few are chosen of very many.
    now: float | None

    @property
    def key(self) -> tuple[str, int | None]:
        return self.agent, self.device_id


def choices(reported: Collection[str]) -> list[Figure]:
    """The figures that somebody reports: of devices, of the step, of hosts."""
    return [each for each in (*DEVICE_FIGURES, *STEP_FIGURES, *HOST_FIGURES) if each.name in reported]


def is_of_device(figure: Figure) -> bool:
    """Whether each device has one of its own."""
    return figure.name in _OF_DEVICES


def ways(figure: Figure) -> tuple[Beside, ...]:
    """Beside whom a line of this figure can stand."""
    return tuple(Beside) if is_of_device(figure) else (Beside.NOBODY, Beside.HOSTS)


def peers(
    moment: Moment, figure: Figure, host: Host, device: DeviceView | None, beside: Beside
) -> list[Peer]:
    """Everybody of whom there could be a line; nothing of the past is read for it."""
    if is_of_device(figure) and beside is not Beside.HOSTS:
        return [
            _device(figure, each)
            for each in moment.devices
            if each.agent == host.agent
            and (beside is Beside.DEVICES or (device is not None and each.id == device.id))
        ]
    return [
        _host(moment, figure, view.host)
        for view in moment.hosts
        if (run_of(view.host) == run_of(host) if beside is Beside.HOSTS else view.host.agent == host.agent)
    ]


def few(everybody: Sequence[Peer], chosen: tuple[str, int | None]) -> list[Peer]:
    """As many as there are letters: who was chosen, those who have most now, and those who have least."""
    if len(everybody) <= len(LETTERS):
        return list(everybody)
    known = sorted((each for each in everybody if each.now is not None), key=lambda each: each.now or 0.0)
    most = [each.key for each in reversed(known[-(len(LETTERS) // 2) :])]
    wanted = dict.fromkeys([chosen, *most, *(each.key for each in (*known, *everybody))])
    there = {each.key for each in everybody}
    kept = set([key for key in wanted if key in there][: len(LETTERS)])
    return [each for each in everybody if each.key in kept]


def line_of(moment: Moment, figure: Figure, peer: Peer, *, is_chosen: bool) -> Line:
    """The line of one of them."""
    columns = [series(moment.cluster, peer.agent, figure, position) for position in peer.positions]
    points = columns[0] if len(columns) == 1 else _mean(columns)
    return Line(peer.name, tuple(points), is_chosen)


def _device(figure: Figure, device: DeviceView) -> Peer:
    now = None if device.state in OVER else device.read(figure)
    return Peer(f"device {device.id}", device.agent, device.id, (device.position,), now)


def _host(moment: Moment, figure: Figure, host: Host) -> Peer:
    name = host.hostname or host.agent
    if host.process_index is not None:
        name = f"{host.process_index} {name}"
    positions = tuple(range(len(host.hello.devices))) if is_of_device(figure) and host.hello else (0,)
    is_over = moment.states.get(host.agent) in OVER
    values = [] if is_over else [figure.read(host.pulse, position) for position in positions]
    known = [value for value in values if value is not None]
    return Peer(name, host.agent, None, positions, fmean(known) if known else None)


def _mean(columns: Sequence[Points]) -> list[tuple[float, float | None]]:
    """Of those that are known at each time."""
    found = []
    for points in zip(*columns, strict=False):
        known = [value for _, value in points if value is not None]
        found.append((points[0][0], fmean(known) if known else None))
    return found
