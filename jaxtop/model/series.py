"""The figures of a host's last pulses over time, stored as bytes and decoded on access."""

from __future__ import annotations

from functools import lru_cache
from itertools import compress, islice
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import msgspec

from jaxtop.model.figure_type import Figure, Scope
from jaxtop.model.figures import DEVICE_FIGURES, FIGURES, HOST_FIGURES, MEMORY, STEP_FIGURES
from jaxtop.model.host import device_entry
from jaxtop.model.steps.scalars import curve_of
from jaxtop.wire import DeviceSample, HostSample, Pulse, Rhythm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtop.model.state import ClusterState

    Point = tuple[float, float | None]

_Item = TypeVar("_Item")
_Sample = TypeVar("_Sample", HostSample, Rhythm)

# The columns whose past is stored here. That of memory in use is in the samples, which keyframes have.
_STORED = tuple(each.field for each in DEVICE_FIGURES if each is not MEMORY)
_columns_of = attrgetter(*_STORED)
_NO_COLUMNS = (None,) * len(_STORED)

_Column = tuple[int | None, ...] | None
# The pulses at the start of a history among which the oldest value of a figure is looked for.
FIRST_PULSES = 5
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[tuple[_Column, ...], HostSample, Rhythm | None])
# Decoded columns of figures that are cached: enough for a screen of hosts or devices with sparklines.
_MAX_READ = 16_384


def stored(pulse: Pulse, *, has_devices: bool = True) -> bytes:
    """Encode the figures of a pulse whose past is shown, or only those that rules read: of the host."""
    host = pulse.host
    if host.busy_threads:
        host = msgspec.structs.replace(host, busy_threads=())
    columns = _columns_of(pulse.devices) if has_devices else _NO_COLUMNS
    return _encoder.encode((columns, host, pulse.rhythm))


def figure_series(cluster: ClusterState, agent: str, figure: Figure, position: int = 0) -> list[Point]:
    """Return a figure of a host, or of the device at this position, with its times; None where unknown."""
    if figure.scope is Scope.SCRIPT:
        return curve_of(cluster.hosts[agent], figure.field, cluster.scalar_tails.get(agent, ()))
    return list(_points(cluster, agent, figure, position, None))


def newest_sample(cluster: ClusterState, agent: str) -> float | None:
    """Return when the newest figures of a host were taken."""
    return next((at for at, _ in reversed(cluster.past_figures.get(agent, ()))), None)


def recent(
    cluster: ClusterState, agent: str, figure: Figure, position: int, count: int | None = None
) -> list[float | None]:
    """Return the last `count` values of a figure, or all, fast enough for each row of a screen."""
    return [value for _, value in _points(cluster, agent, figure, position, count)]


def thinned(cluster: ClusterState, agent: str, figure: Figure, count: int, since: float = 0.0) -> list[Point]:
    """Return about `count` points of a host's figure from this time on, evenly spaced."""
    return [(at, _column(raw, figure.name)[0]) for at, raw in _spaced(cluster, agent, count, since)]


def host_samples(
    cluster: ClusterState, agent: str, count: int, since: float = 0.0
) -> list[tuple[float, HostSample]]:
    """Return about `count` samples of a host from this time on, evenly spaced: all its figures at once."""
    return [(at, _host_of(raw)) for at, raw in _spaced(cluster, agent, count, since)]


def _spaced(cluster: ClusterState, agent: str, count: int, since: float) -> list[tuple[float, bytes]]:
    past = [each for each in cluster.past_figures.get(agent, ()) if each[0] >= since]
    return past[:: max(1, len(past) // count)]


def oldest(cluster: ClusterState, agent: str, read: Callable[[HostSample], int | None]) -> int | None:
    """Return the oldest value of a figure of a host; the first pulses of a process may have none."""
    first = islice(cluster.past_figures.get(agent, ()), FIRST_PULSES)
    values = (read(_host_of(raw)) for _, raw in first)
    return next((value for value in values if value is not None), None)


def _points(
    cluster: ClusterState, agent: str, figure: Figure, position: int, count: int | None
) -> Iterable[Point]:
    if figure is MEMORY:
        return (
            (sample.at, device_entry(sample.used_bytes, position))
            for sample in _last(cluster.past_pulses.get(agent, ()), count)
        )
    if figure.scope is not Scope.DEVICE:
        position = 0
    return (
        (at, column[position] if position < len(column := _column(raw, figure.name)) else None)
        for at, raw in _last(cluster.past_figures.get(agent, ()), count)
    )


def _last(items: Sequence[_Item], count: int | None) -> Iterable[_Item]:
    """Return the last `count` items without copying the others."""
    return items if count is None else reversed(list(islice(reversed(items), count)))


@lru_cache(maxsize=_MAX_READ)
def _column(raw: bytes, name: str) -> tuple[float | None, ...]:
    """Return a figure of all devices of a host."""
    columns, host, rhythm = _decoder.decode(raw)
    pulse = Pulse(
        0, devices=DeviceSample(**dict(zip(_STORED, columns, strict=True))), host=host, rhythm=rhythm
    )
    figure, count = FIGURES[name], 1
    if figure.scope is Scope.DEVICE:
        count = max((len(each) for each in columns if each is not None), default=0)
    return tuple(figure.read(pulse, position) for position in range(count))


@lru_cache(maxsize=_MAX_READ)
def _host_of(raw: bytes) -> HostSample:
    return _decoder.decode(raw)[1]


def reported_figures(pulses: Iterable[Pulse]) -> set[str]:
    """Return the names of figures and device columns that any pulse has. It takes a few us a pulse."""
    found: set[str] = set()
    for columns, host, rhythm in {
        (_known_fields(each.devices), _known_fields(each.host), each.rhythm and _known_fields(each.rhythm))
        for each in pulses
    }:
        found |= _figures_with(columns, host, rhythm)
    return found


def _known_fields(sample: DeviceSample | HostSample | Rhythm) -> tuple[bool, ...]:
    return tuple([value is not None for value in msgspec.structs.astuple(sample)])


@lru_cache(maxsize=1024)
def _figures_with(
    columns: tuple[bool, ...], host: tuple[bool, ...], rhythm: tuple[bool, ...] | None
) -> frozenset[str]:
    """Return the known device columns, and the figures that can be read from exactly these fields."""
    devices = DeviceSample(*((1,) if is_set else None for is_set in columns))
    pulse = Pulse(
        0,
        devices=devices,
        host=_ones_where_known(HostSample(), host),
        rhythm=None if rhythm is None else _ones_where_known(Rhythm(0), rhythm),
    )
    plotted = (*DEVICE_FIGURES, *HOST_FIGURES, *STEP_FIGURES)
    figures = (each.name for each in plotted if each.read(pulse, 0) is not None)
    return frozenset((*figures, *compress(DeviceSample.__struct_fields__, columns)))


def _ones_where_known(sample: _Sample, known: tuple[bool, ...]) -> _Sample:
    names = [name for name, is_set in zip(sample.__struct_fields__, known, strict=True) if is_set]
    return msgspec.structs.replace(sample, **dict.fromkeys(names, 1))
