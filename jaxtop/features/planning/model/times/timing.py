"""The time of a step on another mesh: computing and communication, as an interval; and energy."""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.units import in_bytes, in_ms
from jaxtop.features.planning.model.plan import Basis, Interval, PlacedArray
from jaxtop.features.planning.model.times.communication import MovedOnMesh, traffic
from jaxtop.features.planning.model.times.links import axis_key, cost_of
from jaxtop.features.planning.model.times.work import work_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import CompiledCandidate, Exchange, LinkCost, Today

NO_INVENTORY = "no step time: no process has reported the collectives of the step's program"
BY_TURNS = (
    "devices take turns on shared cores: all but the cost of collectives is computing, so today's step is met"
)
OVERLAP = "from the fullest overlap of computing and communication to none; no interval of confidence"
# The share by which communication that rests on assumptions may be shorter or longer.
UNSURE = 0.5


class PredictedTime(NamedTuple):
    """What is predicted for a candidate's time; `step` is None where the run gives no step to start from."""

    step: Interval | None
    communication_ms: dict[str, float]
    energy: float | None
    bases: tuple[Basis, ...]
    assumptions: tuple[str, ...]


class _Communication(NamedTuple):
    """Milliseconds of a step by axes.

    Of their sum, `latency_ms` does not depend on sizes, and `unsure_ms` rests on assumptions.
    """

    by_axes: dict[str, float]
    latency_ms: float
    unsure_ms: float
    bases: tuple[Basis, ...]
    assumptions: tuple[str, ...]
    missing: str = ""

    @property
    def total_ms(self) -> float:
        return sum(self.by_axes.values())


class _SummedTraffic:
    """The collectives of one kind over the same axes, at the same cost of the link."""

    def __init__(self) -> None:
        self.ms = self.bytes = self.times = 0.0


def time_of(
    today: Today, axes: Axes, placed: Sequence[PlacedArray], compiled: CompiledCandidate | None = None
) -> PredictedTime:
    """Return the predicted time of a step on a mesh, and what it rests on."""
    if not today.has_inventory and len(today.device_ids) > 1 and (compiled is None or compiled.why_not):
        return PredictedTime(None, {}, None, (), (NO_INVENTORY,))
    moved, assumptions = _moved(today, axes, placed, compiled)
    communication = _communication(today, axes, moved)
    texts = [*assumptions, *communication.assumptions]
    step = today.step
    if communication.missing:
        return PredictedTime(
            None, communication.by_axes, None, communication.bases, (*texts, communication.missing)
        )
    if step is None or step.compute_ms is None:
        why = next((each for each in today.unknown if "step" in each), "the step: it was not measured")
        text = f"no step time: {why.removeprefix('the step: ')}"
        return PredictedTime(None, communication.by_axes, None, communication.bases, (*texts, text))
    if today.shared_cores is not None:
        texts.append(BY_TURNS)
    work = work_ratio(today, axes, placed, compiled)
    rest = step.other_ms or 0.0
    computing = _compute_ms(today, step.step_ms, step.compute_ms, rest)
    compute = computing * work.value
    low, high = _bounds(today, computing * work.low, computing * work.high, communication)
    bases = [
        *communication.bases,
        Basis("compute", in_ms(compute), f"today's {in_ms(computing)} × {work.value:.3g}: {work.how}"),
        Basis("rest", in_ms(rest), "gaps and waiting, as today"),
    ]
    if (bound := _roofline_ms(today, work.flops)) is not None:
        bases.append(Basis("roofline", f"≥ {in_ms(bound)}", "the program's operations at the device's rate"))
    interval = Interval(low + rest, high + rest)
    bases.append(Basis("step", f"{in_ms(interval.low)} to {in_ms(interval.high)}", OVERLAP))
    energy, unit, source = _energy(today, axes, interval)
    bases.append(Basis("energy", f"{energy:.3g} {unit}", source))
    return PredictedTime(interval, communication.by_axes, energy, tuple(bases), tuple(dict.fromkeys(texts)))


def error_of_today(today: Today) -> dict[str, float]:
    """Return the errors of predicting today's layout, as shares of what was measured; above 0 is too long."""
    if today.step is None:
        return {}
    placed = [PlacedArray(each, each.parts, each.bytes_per_device) for each in today.tensors]
    timed = time_of(today, today.axes, placed)
    found = {}
    if timed.step is not None and today.step.step_ms:
        found["step"] = timed.step.middle / today.step.step_ms - 1
    if today.step.communication_ms:
        found["communication"] = sum(timed.communication_ms.values()) / today.step.communication_ms - 1
    return found


def _moved(
    today: Today, axes: Axes, placed: Sequence[PlacedArray], compiled: CompiledCandidate | None
) -> tuple[Sequence[MovedOnMesh], Sequence[str]]:
    """Return the collectives of a launch: from a real compilation where there is one."""
    if compiled is None or compiled.why_not:
        found = traffic(today, axes, placed)
        return found.moved, found.assumptions
    return _as_they_are(compiled.exchanges, axes), ()


def _as_they_are(exchanges: Sequence[Exchange], axes: Axes) -> list[MovedOnMesh]:
    """Return the collectives of a program on its own mesh; those whose groups are unknown run over all axes.

    Groups of one device exchange nothing.
    """
    every = tuple(name for name, size in axes if size > 1)
    over = [(each, every if each.axes is None else each.axes) for each in exchanges]
    return [
        MovedOnMesh(each.kind, named, float(each.bytes), each.times, each.line or each.op)
        for each, named in over
        if named
    ]


def _communication(today: Today, axes: Axes, moved: Sequence[MovedOnMesh]) -> _Communication:
    by_axes: dict[str, float] = {}
    alike: defaultdict[tuple[str, str, LinkCost], _SummedTraffic] = defaultdict(_SummedTraffic)
    latency = unsure = 0.0
    missing = ""
    for collective in moved:
        cost = cost_of(today, axes, collective.axes, collective.kind, collective.bytes)
        key = axis_key(collective.axes)
        if cost is None:
            missing = (
                f"no step time: nothing says what {collective.kind} over {key} costs; run `jaxtop probe`"
            )
            continue
        times = collective.times * today.launches_per_step
        ms = cost.total_us * times / 1000
        by_axes[key] = by_axes.get(key, 0.0) + ms
        latency += cost.latency_us * times / 1000
        if collective.is_derived or not cost.link.is_measured:
            unsure += ms
        of_kind = alike[key, collective.kind, cost.link]
        of_kind.ms += ms
        of_kind.bytes += collective.bytes * times
        of_kind.times += times
    bases = [
        Basis(
            f"communication over {key}",
            in_ms(each.ms),
            f"{each.times:.3g} × {kind} a step, {in_bytes(each.bytes)} in all; link: {link.source}",
        )
        for (key, kind, link), each in alike.items()
    ]
    borrowed = sorted({f"costs of links: {link.source}" for _, _, link in alike if not link.is_measured})
    return _Communication(by_axes, latency, unsure, tuple(bases), tuple(borrowed), missing)


def _compute_ms(today: Today, step: float, compute: float, rest: float) -> float:
    """Return what computing takes today.

    A collective of devices that share cores also lasts while others compute: only what it costs by the
    formulas is not computing.
    """
    if today.shared_cores is None:
        return compute
    moved = _as_they_are(today.exchanges, today.axes)
    return max(step - rest - _communication(today, today.axes, moved).total_ms, 0.0)


def _bounds(today: Today, low: float, high: float, found: _Communication) -> Interval:
    """Return the bounds of computing, itself between bounds, and of communication.

    At best both run at the same time, at worst one after the other. Devices that share cores copy with the
    cores that compute, so only the time to meet overlaps with computing.
    """
    unsure = UNSURE * found.unsure_ms
    least, most = found.total_ms - unsure, found.total_ms + unsure
    if today.shared_cores is not None:
        return Interval(low + max(0.0, least - found.latency_ms), high + most)
    return Interval(max(low, least), high + most)


def _roofline_ms(today: Today, flops: float) -> float | None:
    if not flops or not today.flops_per_s or today.shared_cores is not None:
        return None
    return flops / today.flops_per_s * 1000


def _energy(today: Today, axes: Axes, step: Interval) -> tuple[float, str, str]:
    """Return the energy of a step, its unit, and how it was computed."""
    devices = prod(size for _, size in axes)
    seconds = devices * step.middle / 1000
    if today.watts_per_device is None:
        return seconds, "device-s", "devices × the middle of the step; their power is unknown"
    of_power = f"devices × {today.watts_per_device:.3g} W, as today, × the middle of the step"
    return seconds * today.watts_per_device, "J", of_power
