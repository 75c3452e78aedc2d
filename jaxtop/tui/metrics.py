"""The metrics that colour the mesh: all figures of the devices, and the others listed in `METRICS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.model import DEVICE_FIGURES, FIGURES, Unit
from jaxtop.model.arrays.tree import form
from jaxtop.tui import text
from jaxtop.tui.figures import writer
from jaxtop.tui.slices import Signs, slices_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop.model import ArrayView, DeviceView, Figure
    from jaxtop.model.collectives import CollectiveView, Straggler
    from jaxtop.tui.moment import Moment

# The sign of the straggler.
LATE = "!"
# Narrower cells show the group without its wait.
ROOM_FOR_WAIT = 9


@dataclass(frozen=True)
class Metric:
    """A figure of a device: how it is read and formatted, and where its scale ends."""

    name: str
    read: Callable[[DeviceView], float | None]
    write: Callable[[float | None], str]
    # None: the scale ends at the largest current value.
    full: float | None = None
    # False: the value identifies a group or slice; it is not a quantity.
    is_amount: bool = True
    # The text of a cell of a given width, if it is more than the value; a note for the legend; whether a
    # device is highlighted.
    write_cell: Callable[[DeviceView, int], str] | None = None
    note: str = ""
    is_marked: Callable[[DeviceView], bool] | None = None
    # The name of the figure that the metric shows, if it shows one.
    figure: str | None = None

    def cell_text(self, device: DeviceView, value: float | None, room: int = 1000) -> str:
        """Return the text of a device's cell of this many characters."""
        return (
            self.write(value) if self.write_cell is None or value is None else self.write_cell(device, room)
        )

    def is_reported(self, devices: Iterable[DeviceView]) -> bool:
        """Return whether any device has a value."""
        return any(self.read(device) is not None for device in devices)


def _metric(figure: Figure) -> Metric:
    """Return the metric of a device figure. The scale of a share ends at 1."""
    full = 1.0 if figure.unit is Unit.SHARE else None
    return Metric(figure.title, lambda device: device.read(figure), writer(figure), full, figure=figure.name)


_MEMORY, *_OTHERS = DEVICE_FIGURES
_CPU = FIGURES["process_cpu_cores"]
METRICS = (
    Metric("memory used", lambda device: device.used_bytes, writer(_MEMORY), figure=_MEMORY.name),
    Metric("memory share", lambda device: device.used_share, text.share, full=1.0, figure=_MEMORY.name),
    Metric("launches", lambda device: device.launches_per_second, text.rate),
    Metric("host CPU", lambda device: device.read(_CPU), text.share),
    *map(_metric, _OTHERS),
)


def slice_metric(view: ArrayView) -> Metric | None:
    """Return the metric of which slice of an array a device holds; None if the slices are unknown."""
    slices = slices_of(view)
    if slices is None:
        return None

    def read(device: DeviceView) -> float | None:
        return slices.ordinals.get(device.id) if device.run == view.run else None

    def write(piece: float | None) -> str:
        return text.NA if piece is None else slices.label(int(piece))

    return Metric(f"slice of {view.name or form(view)}", read, write, is_amount=False)


def wait_metric(moment: Moment) -> Metric:
    """Return the metric of each device's median wait in a launch. It is computed only when read."""

    def read(device: DeviceView) -> float | None:
        return moment.waits.get((device.run, device.id))

    return Metric("collective wait", read, text.micros)


def groups_metric(view: CollectiveView) -> Metric | None:
    """Return the metric of a device's group in a collective, with its wait; None if groups are unknown."""
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

    def write_cell(device: DeviceView, room: int) -> str:
        wait = view.waits_us.get(device.id)
        group = write(ordinals.get(device.id)) + (LATE if is_late(device) else "")
        return group if wait is None or room < ROOM_FOR_WAIT else f"{group} {text.micros(wait)}"

    note = "" if late is None else f"{LATE} last: {who(late)}, {text.share(late.share)}"
    return Metric(
        f"groups of {view.op}",
        read,
        write,
        is_amount=False,
        write_cell=write_cell,
        note=note,
        is_marked=is_late,
    )


def who(late: Straggler) -> str:
    """Return the display name of a straggler's process."""
    return f"process {late.process_index}" if late.process_index is not None else "a process"
