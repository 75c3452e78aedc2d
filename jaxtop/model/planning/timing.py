"""The time of a step on another mesh: computing and communication, as an interval; and energy."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.planning.communication import (
    OPTIMIZER,
    PARAMETERS,
    Moved,
    batch_axes,
    divisor,
    traffic,
)
from jaxtop.model.planning.links import axis_key, copies_on, cost_of
from jaxtop.model.planning.plan import Basis, Interval, Placed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.model.planning.plan import Axes, Compiled, Today

# Bytes that an update of the state moves, as a multiple of the state: it is read and written, and gradients
# are read.
STATE_TRIPS = 2.5
# The operations for each byte of memory traffic that a device can do, where its rates are unknown.
BALANCE = 10.0
NO_INVENTORY = "no step time: no process has reported the collectives of the step's program"
UNKNOWN_AXES = "unknown axes"


class Timed(NamedTuple):
    """What is predicted for a candidate's time; `step` is None where the run gives no step to start from."""

    step: Interval | None
    communication_ms: dict[str, float]
    energy: float | None
    bases: tuple[Basis, ...]
    assumptions: tuple[str, ...]


class _Communication(NamedTuple):
    """Milliseconds of a step by axes; `latency_ms` is the part of their sum that does not depend on sizes."""

    by_axes: dict[str, float]
    latency_ms: float
    bases: tuple[Basis, ...]
    assumptions: tuple[str, ...]
    missing: str = ""

    @property
    def total_ms(self) -> float:
        return sum(self.by_axes.values())


def time_of(today: Today, axes: Axes, placed: Sequence[Placed], compiled: Compiled | None = None) -> Timed:
    """Return the predicted time of a step on a mesh, and what it rests on."""
    if not today.has_inventory and (compiled is None or compiled.why_not):
        return Timed(None, {}, None, (), (NO_INVENTORY,))
    moved, assumptions = _moved(today, axes, placed, compiled)
    found = _communication(today, axes, moved)
    texts = [*assumptions, *found.assumptions]
    step = today.step
    if found.missing:
        return Timed(None, found.by_axes, None, found.bases, (*texts, found.missing))
    if step is None or step.compute_ms is None:
        why = next((each for each in today.unknown if "step" in each), "the step of the run is not measured")
        return Timed(None, found.by_axes, None, found.bases, (*texts, f"no step time: {why}"))
    work, how = work_ratio(today, axes, placed, compiled)
    compute = step.compute_ms * work
    rest = step.other_ms or 0.0
    low, high = _bounds(today, compute, found)
    bases = [
        *found.bases,
        Basis("compute", f"{compute:.3g} ms", f"today's {step.compute_ms:.3g} ms × {work:.3g}: {how}"),
        Basis("rest", f"{rest:.3g} ms", "gaps and waiting, as today"),
    ]
    if (bound := _roofline_ms(today, work)) is not None:
        bases.append(Basis("roofline", f"≥ {bound:.3g} ms", "the program's operations at the device's rate"))
    interval = Interval(low + rest, high + rest)
    energy, source = _energy(today, axes, interval)
    bases.append(Basis("energy", f"{energy:.3g}", source))
    return Timed(interval, found.by_axes, energy, tuple(bases), tuple(dict.fromkeys(texts)))


def error_of_today(today: Today) -> dict[str, float]:
    """Return the errors of predicting today's layout, as shares of what was measured; above 0 is too long."""
    if today.step is None:
        return {}
    placed = [Placed(each, each.parts, each.bytes_per_device) for each in today.tensors]
    timed = time_of(today, today.axes, placed)
    found = {}
    if timed.step is not None and today.step.step_ms:
        found["step"] = timed.step.middle / today.step.step_ms - 1
    if today.step.communication_ms:
        found["communication"] = sum(timed.communication_ms.values()) / today.step.communication_ms - 1
    return found


def _moved(
    today: Today, axes: Axes, placed: Sequence[Placed], compiled: Compiled | None
) -> tuple[Sequence[Moved], Sequence[str]]:
    """Return the collectives of a launch: from a real compilation where there is one."""
    if compiled is None or compiled.why_not:
        found = traffic(today, axes, placed)
        return found.moved, found.assumptions
    return [
        Moved(each.kind, each.axes or (), float(each.bytes), each.times, each.line or each.op)
        for each in compiled.exchanges
    ], ()


def _communication(today: Today, axes: Axes, moved: Sequence[Moved]) -> _Communication:
    by_axes: dict[str, float] = {}
    bases: dict[tuple[str, str, str], list[float]] = {}
    latency, texts, missing = 0.0, [], ""
    for each in moved:
        cost = cost_of(today, axes, each.axes, each.kind, each.bytes)
        key = axis_key(each.axes) or UNKNOWN_AXES
        if cost is None:
            missing = f"no step time: nothing says what {each.kind} over {key} costs; run `jaxtop probe`"
            continue
        times = each.times * today.launches_per_step / 1000
        by_axes[key] = by_axes.get(key, 0.0) + cost.total_us * times
        latency += cost.latency_us * times
        of_basis = bases.setdefault((key, each.kind, cost.link.source), [0.0, 0.0, 0.0])
        of_basis[0] += cost.total_us * times
        of_basis[1] += each.bytes * each.times * today.launches_per_step
        of_basis[2] += each.times * today.launches_per_step
    for (key, kind, source), (ms, size, times) in bases.items():
        what = f"{times:.3g} × {kind} a step, {size / 1e6:.3g} MB together"
        bases_text = f"{what}; cost of the link: {source}"
        texts.append(Basis(f"communication over {key}", f"{ms:.3g} ms", bases_text))
    borrowed = sorted({source for _, _, source in bases if ":" in source or "published" in source})
    return _Communication(
        by_axes, latency, tuple(texts), tuple(f"costs of links: {each}" for each in borrowed), missing
    )


def _bounds(today: Today, compute: float, found: _Communication) -> tuple[float, float]:
    """Return the bounds of computing and communication together: in parallel, and one after the other.

    Copies by the cores that compute overlap with nothing; only the time to meet does, as others compute then.
    """
    if copies_on(today):
        return compute + found.total_ms - found.latency_ms, compute + found.total_ms
    return max(compute, found.total_ms), compute + found.total_ms


def work_ratio(
    today: Today, axes: Axes, placed: Sequence[Placed], compiled: Compiled | None = None
) -> tuple[float, str]:
    """Return what computing takes of its time today, and how that was found.

    Matrices are multiplied with the rows of the batch: axes of the batch divide the rows, other axes the
    matrices. The update of the state moves the state that a device holds.
    """
    old, new = dict(today.axes), dict(axes)
    devices = prod(new.values()) / max(1, prod(old.values())) if today.shared_cores is not None else 1.0
    program = today.program
    exact = compiled is not None and not compiled.why_not and compiled.flops and program and program.flops
    if exact and compiled is not None and program is not None:
        multiplied = (compiled.flops or 0) / (program.flops or 1)
        how = "operations as compiled"
    else:
        batch = batch_axes(today, placed)
        before = [Placed(each.tensor, each.tensor.parts, each.tensor.bytes_per_device) for each in placed]
        multiplied = _matrix_work(batch, new, placed) / _matrix_work(batch, old, before)
        how = "operations divided by the axes of the batch and of the matrices"
    update = _update_share(today)
    state = [each for each in placed if each.tensor.role in (PARAMETERS, OPTIMIZER)]
    held = sum(each.tensor.bytes_per_device * each.tensor.count for each in state)
    updated = sum(each.bytes_per_device * each.tensor.count for each in state) / held if held else multiplied
    ratio = ((1 - update) * multiplied + update * updated) * devices
    shared = ", for all devices, as they share the cores" if devices != 1 or today.shared_cores else ""
    return ratio, f"{how}{f'; {update:.0%} of it updates the state' if update else ''}{shared}"


def _matrix_work(batch: frozenset[str], sizes: Mapping[str, int], placed: Sequence[Placed]) -> float:
    """Return the operations of a device, up to a factor: rows times the elements of the matrices it holds."""
    matrices = [each for each in placed if each.tensor.role == PARAMETERS and len(each.tensor.shape) > 1]
    rows = 1 / prod(sizes.get(axis, 1) for axis in batch)
    if not matrices:
        used = {axis for each in placed for parts in each.parts or () for axis in parts}
        return rows / prod(size for name, size in sizes.items() if name in used - batch)
    return rows * sum(
        prod(each.tensor.shape) * each.tensor.count / divisor(each.parts, sizes, batch) for each in matrices
    )


def _update_share(today: Today) -> float:
    """Return the share of computing that the update of the state takes, by operations and bytes."""
    flops = today.program.flops if today.program else None
    if not flops or not any(each.role == OPTIMIZER for each in today.tensors):
        return 0.0
    state = sum(
        each.bytes_per_device * each.count for each in today.tensors if each.role in (PARAMETERS, OPTIMIZER)
    )
    balance = BALANCE
    if today.flops_per_s and today.memory_bytes_per_s:
        balance = today.flops_per_s / today.memory_bytes_per_s
    updating, multiplying = STATE_TRIPS * state * balance, flops * today.launches_per_step
    return updating / (updating + multiplying)


def _roofline_ms(today: Today, work: float) -> float | None:
    flops = today.program.flops if today.program else None
    if not flops or not today.flops_per_s or today.shared_cores is not None:
        return None
    return flops * today.launches_per_step * work / today.flops_per_s * 1000


def _energy(today: Today, axes: Axes, step: Interval) -> tuple[float, str]:
    devices = prod(size for _, size in axes)
    seconds = step.middle / 1000
    if today.watts_per_device is None:
        return devices * seconds, "device-seconds of a step: the power of the devices is unknown"
    return (
        devices * seconds * today.watts_per_device,
        f"joules of a step: {devices} devices × {today.watts_per_device:.3g} W",
    )
