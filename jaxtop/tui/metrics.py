"""The metrics that colour the mesh: all figures of the devices, and what else is a line in `METRICS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.model import DEVICE_FIGURES, Unit
from jaxtop.model.arrays.tree import form
from jaxtop.tui import text
from jaxtop.tui.draw.slices import Signs, slices_of
from jaxtop.tui.figures import writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop.model import ArrayView, DeviceView, Figure
    from jaxtop.model.collectives import CollectiveView, Straggler
    from jaxtop.tui.moment import Moment

# Stands beside who comes last.
LATE = "!"
# Cells of less room say the group, and none of them its wait.
ROOM_FOR_WAIT = 9


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
    # What a cell of so many characters says where the value alone is not all; what the legend says beside
    # it; who stands out.
    say: Callable[[DeviceView, int], str] | None = None
    note: str = ""
    is_marked: Callable[[DeviceView], bool] | None = None
    # The name of the figure that it shows, where it is one.
    figure: str | None = None

    def said(self, device: DeviceView, value: float | None, room: int = 1000) -> str:
        """What a cell of this many characters says of its device."""
        return self.write(value) if self.say is None or value is None else self.say(device, room)

    def is_reported(self, devices: Iterable[DeviceView]) -> bool:
        """Whether anybody has the figure."""
        return any(self.read(device) is not None for device in devices)


def _metric(figure: Figure) -> Metric:
    """A metric of a figure of the devices; shares reach from nothing to all."""
    full = 1.0 if figure.unit is Unit.SHARE else None
    return Metric(figure.title, lambda device: device.read(figure), writer(figure), full, figure=figure.name)


_MEMORY, *_OTHERS = DEVICE_FIGURES
METRICS = (
    Metric("memory used", lambda device: device.used_bytes, writer(_MEMORY), figure=_MEMORY.name),
    Metric("memory share", lambda device: device.used_share, text.share, full=1.0, figure=_MEMORY.name),
    Metric("launches", lambda device: device.launches_per_second, text.rate),
    Metric("host CPU", lambda device: _share(device.host_cpu_percent), text.share),
    *map(_metric, _OTHERS),
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


def wait_metric(moment: Moment) -> Metric:
    """How long each device waits for others in a launch, in the middle; worked out when somebody looks."""

    def read(device: DeviceView) -> float | None:
        return moment.waits.get((device.run, device.id))

    return Metric("collective wait", read, text.micros)


def groups_metric(view: CollectiveView) -> Metric | None:
    """Which group of a collective a device is in, and how long it waits there; None where nobody knows."""
    if not view.groups:
        return None
    signs, late = Signs(len(view.groups)), view.straggler
    ordinals = {device_id: i for i, group in enumerate(view.groups) for device_id in group}

    def read(device: DeviceView) -> float | None:
        return ordinals.get(device.id) if device.run == view.run else None

    def write(group: float | None) -> str:
        return text.NA if group is None else signs.label(int(group))

    def is_late(device: DeviceView) -> bool:
        return late is not None and device.run == view.run and device.id == late.device_id

    def say(device: DeviceView, room: int) -> str:
        wait = view.waits_us.get(device.id)
        group = write(ordinals.get(device.id)) + (LATE if is_late(device) else "")
        return group if wait is None or room < ROOM_FOR_WAIT else f"{group} {text.micros(wait)}"

    note = "" if late is None else f"{LATE} last: {who(late)}, {text.share(late.share)}"
    return Metric(f"groups of {view.op}", read, write, is_amount=False, say=say, note=note, is_marked=is_late)


def who(late: Straggler) -> str:
    """The process of a straggler, as a person would call it."""
    return f"process {late.process_index}" if late.process_index is not None else "a process"


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
