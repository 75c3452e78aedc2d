"""The metrics that colour the mesh. A new one is a line in `METRICS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.cluster.tree import form
from jaxtop.tui import text
from jaxtop.tui.renderables.slices import slices_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop.cluster import ArrayView, DeviceView


@dataclass(frozen=True)
class Metric:
    """A figure of a device: how it is read and written, and what the full end of its scale is."""

    name: str
    read: Callable[[DeviceView], float | None]
    write: Callable[[float | None], str]
    # None: the largest value at hand is the end of the scale.
    full: float | None = None
    # False: it says which one, not how much.
    is_amount: bool = True

    def scale_end(self, devices: Iterable[DeviceView]) -> float | None:
        """The value at the full end of the scale; None if no device has the figure."""
        values = [value for device in devices if (value := self.read(device)) is not None]
        if not values:
            return None
        return self.full if self.full is not None else max(values)


METRICS = (
    Metric("memory used", lambda device: device.used_bytes, text.size),
    Metric("memory share", lambda device: device.used_share, text.share, full=1.0),
    Metric("launches", lambda device: device.launches_per_second, text.rate),
    Metric("host CPU", lambda device: _share(device.host_cpu_percent), text.share),
    Metric("utilisation", lambda device: device.utilization, text.share, full=1.0),
    Metric("power", lambda device: device.power_w, lambda watts: _unit(watts, "W")),
    Metric("temperature", lambda device: device.temperature_c, lambda degrees: _unit(degrees, "°C")),
)


def slice_metric(view: ArrayView) -> Metric | None:
    """Which slice of an array a device holds; None where nobody knows."""
    known = slices_of(view)
    if known is None:
        return None

    def read(device: DeviceView) -> float | None:
        return known.ordinals.get(device.id) if device.run == view.run else None

    def write(piece: float | None) -> str:
        return text.NA if piece is None else known.label(int(piece))

    return Metric(f"slice of {view.name or form(view)}", read, write, is_amount=False)


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _unit(value: float | None, unit: str) -> str:
    return text.NA if value is None else f"{value:.0f}{unit}"
