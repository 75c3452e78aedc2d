"""Format the result of a probe as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base.units import in_bytes
from jaxtop.cli.text.words import aligned, legible
from jaxtop.features.probe.figures import FIGURES
from jaxtop.model.naming.sentences import ranges

if TYPE_CHECKING:
    from jaxtop.wire.probing import FigureSummary, Probe, ProbedCollective


def lines(probe: Probe) -> list[str]:
    """Return the lines on devices and collectives, and last the lines on which devices are slow."""
    parts = (_devices(probe), _collectives(probe), _verdict(probe))
    return [line for part in parts if part for line in ("", *part)][1:]


def _devices(probe: Probe) -> list[str]:
    names = [name for name in FIGURES if any(name in device.figures for device in probe.devices)]
    if not names:
        return []
    units = {name: _unit(probe, name) for name in names}
    titles = [f"{FIGURES[name].title.upper()} {unit}" for name, (unit, _) in units.items()]
    rows = [["DEVICE", "KIND", "PROCESS", *titles]]
    rows += [
        [
            str(device.id),
            legible(device.kind),
            f"{device.process} on {legible(device.hostname)}",
            *(_cell(device.figures.get(name), scale) for name, (_, scale) in units.items()),
        ]
        for device in probe.devices
    ]
    return aligned(rows)


def _unit(probe: Probe, name: str) -> tuple[str, float]:
    """Return the unit of a figure and its scale; slow multiplications use GFLOP/s."""
    figure = FIGURES[name]
    most = max(device.figures[name].median for device in probe.devices if name in device.figures)
    if figure.unit == "TFLOP/s" and most < figure.scale:
        return "GFLOP/s", figure.scale / 1000
    return figure.unit, figure.scale


def _cell(measured: FigureSummary | None, scale: float) -> str:
    """Return the median and its spread, with its share of the peers' median if that is known."""
    if measured is None:
        return "n/a"
    text = f"{_number(measured.median / scale)} ±{_number(measured.spread / scale)}"
    if measured.share is not None:
        text += f" {measured.share:4.0%}"
    return text + (" slow" if measured.is_slow else "")


def _number(value: float) -> str:
    """Format a number with about three significant digits."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _collectives(probe: Probe) -> list[str]:
    if not probe.collectives:
        return []
    rows = [["COLLECTIVE", "AXIS", "GROUPS", "SIZE", "TIME ms", "ALGBW GB/s", "BUSBW GB/s", ""]]
    axes = [name for name, _ in probe.axes]
    in_order = sorted(
        probe.collectives,
        key=lambda each: (
            axes.index(each.axis) if each.axis in axes else len(axes),
            probe.collectives.index(next(one for one in probe.collectives if one.kind == each.kind)),
            each.bytes,
        ),
    )
    for collective in in_order:
        bus = collective.busbw_bytes_per_s
        rows.append(
            [
                collective.kind,
                legible(collective.axis),
                f"{len(collective.groups)} of {collective.group_size}"
                if collective.groups
                else f"of {collective.group_size}",
                in_bytes(collective.bytes),
                f"{_number(collective.time_s * 1e3)} ±{_number(collective.spread_s * 1e3)}",
                _number(collective.algbw_bytes_per_s / 1e9),
                "n/a" if bus is None else _number(bus / 1e9),
                _remarks(collective),
            ]
        )
    left = f"no time for {probe.left_out} more; use a larger --seconds" if probe.left_out else ""
    return [*aligned(rows), *([left] if left else [])]


def _remarks(collective: ProbedCollective) -> str:
    slow = [
        f"devices {ranges(group.device_ids)} slow: {group.share:.2f} of their peers'"
        for group in collective.groups
        if group.is_slow and group.share is not None
    ]
    if collective.late_process is not None and collective.late_s is not None:
        slow.append(f"process {collective.late_process} came last, by {_number(collective.late_s * 1e3)} ms")
    return "; ".join(slow)


def _verdict(probe: Probe) -> list[str]:
    if probe.slow:
        return [legible(slow.text) for slow in probe.slow]
    if not any(device.figures for device in probe.devices):
        return ["nothing to compare: no device was measured alone"]
    compared = any(each.share is not None for device in probe.devices for each in device.figures.values())
    return ["no device stands out" if compared else "one device of its kind: nothing to compare it with"]
