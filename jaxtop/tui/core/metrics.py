"""The metrics that colour the mesh, and which of them the user chose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jaxtop.base import units
from jaxtop.model import DEVICE_FIGURES, FIGURES, MEMORY, ArrayView, DeviceView, Figure
from jaxtop.model.arrays.tree import form
from jaxtop.tui.core.moment import EMPTY, Moment, Selection
from jaxtop.tui.core.slices import sign_of, slices_of
from jaxtop.tui.core.text import writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtop.model.collectives import CollectiveView

# The sign of the straggler.
LATE_SIGN = "!"
# Narrower cells show the group without its wait.
ROOM_FOR_WAIT = 9


@dataclass(frozen=True)
class DeviceMetric:
    """A figure of a device: how it is read and formatted, and where its scale ends."""

    name: str
    read: Callable[[DeviceView], float | None]
    write: Callable[[float | None], str]
    # Where the scale ends. Without a limit it ends at the largest current value.
    limit: Callable[[DeviceView], float | None] | None = None
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
        return self.write(value) if self.write_cell is None else self.write_cell(device, room)

    def limit_of(self, devices: Iterable[DeviceView]) -> float | None:
        """Return the largest limit of these devices; None if none is known."""
        read = self.limit
        return None if read is None else max(filter(None, map(read, devices)), default=None)

    def is_reported(self, devices: Iterable[DeviceView]) -> bool:
        return any(self.read(device) is not None for device in devices)


def _metric(figure: Figure, name: str = "") -> DeviceMetric:
    def limit(device: DeviceView) -> float | None:
        return figure.full(device.pulse, device.position)

    title = name or figure.title
    return DeviceMetric(title, lambda device: device.read(figure), writer(figure), limit, figure=figure.name)


_OTHERS = [each for each in DEVICE_FIGURES if each is not MEMORY]
_CPU = FIGURES["process_cpu_cores"]
METRICS = (
    DeviceMetric(
        "memory used",
        lambda device: device.used_bytes,
        writer(MEMORY),
        lambda device: device.limit_bytes,
        figure=MEMORY.name,
    ),
    DeviceMetric(
        "memory share", lambda device: device.used_share, units.share, lambda _: 1.0, figure=MEMORY.name
    ),
    DeviceMetric("launches", lambda device: device.launches_per_second, units.rate),
    replace(_metric(_CPU, "host CPU"), figure=None),
    *map(_metric, _OTHERS),
)


def slice_metric(view: ArrayView) -> DeviceMetric | None:
    """Return the metric of which slice of an array a device holds; None if the slices are unknown."""
    slices = slices_of(view)
    if slices is None:
        return None

    def read(device: DeviceView) -> float | None:
        return slices.ordinals.get(device.id) if device.run == view.run else None

    def write(piece: float | None) -> str:
        return units.NA if piece is None else slices.label(int(piece))

    return DeviceMetric(f"slice of {view.name or form(view)}", read, write, is_amount=False)


def wait_metric(moment: Moment) -> DeviceMetric:
    """Return the metric of how long each device waits in a step. It is computed only when read.

    Its scale ends at the time of a step; devices of stragglers are highlighted.
    """

    def read(device: DeviceView) -> float | None:
        return moment.waits_by_device.get((device.run, device.id))

    def is_late(device: DeviceView) -> bool:
        return device.agent in moment.late

    return DeviceMetric("collective wait", read, units.micros, _step_limit(moment), is_marked=is_late)


def _step_limit(moment: Moment) -> Callable[[DeviceView], float | None]:
    """Return the limit of waits: the time of a step in microseconds, if it is known."""
    wall_s = moment.checked_step.wall_s
    micros = None if wall_s is None else wall_s * 1e6
    return lambda _: micros


def groups_metric(view: CollectiveView, moment: Moment) -> DeviceMetric | None:
    """Return the metric of a device's wait in a collective, with the letter of its group.

    Until waits were measured it shows the group alone. None if the groups are unknown.
    """
    if not view.groups:
        return None
    late = view.straggler
    ordinals = {device_id: i for i, group in enumerate(view.groups) for device_id in group}

    def group_of(device: DeviceView) -> int | None:
        return ordinals.get(device.id) if device.run == view.run else None

    def wait_of(device: DeviceView) -> float | None:
        return view.waits_us.get(device.id) if device.run == view.run else None

    def write(group: float | None) -> str:
        return units.NA if group is None else sign_of(int(group), len(view.groups))

    def is_late(device: DeviceView) -> bool:
        return late is not None and device.run == view.run and device.id == late.device_id

    def cell(device: DeviceView, room: int) -> str:
        wait = wait_of(device)
        group = write(group_of(device)) + (LATE_SIGN if is_late(device) else "")
        return group if wait is None or room < ROOM_FOR_WAIT else f"{group} {units.micros(wait)}"

    note = "" if late is None else f"{LATE_SIGN} last: {late.who}, {units.share(late.share)}"
    if not view.waits_us:
        return DeviceMetric(f"groups of {view.op}", group_of, write, is_amount=False, write_cell=cell)
    return DeviceMetric(
        f"wait by group of {view.op}",
        wait_of,
        units.micros,
        _step_limit(moment),
        write_cell=cell,
        note=note,
        is_marked=is_late,
    )


class MetricChoice:
    """The chosen metric, and the metrics to choose from."""

    def __init__(self) -> None:
        self.metric = METRICS[0]
        self._moment: Moment = EMPTY
        # The metric of waits with what it is made of. It is rebuilt when the collectives change, and while a
        # process is late at each check.
        self._waits = wait_metric(EMPTY)
        self._waits_of: tuple[object, tuple[object, ...]] = (None, ())
        # The slices of an array or the groups of a collective that the user chose to show.
        self._painted: DeviceMetric | None = None
        self._collective: tuple[tuple[Any, ...], object] | None = None
        # The last selection with an array or a collective. It is painted once, not at each return here.
        self._drilled: Selection | None = None

    def see(self, moment: Moment) -> None:
        self._moment = moment
        cluster = moment.cluster
        checked = cluster.findings.checked_at if moment.late else None
        version = cluster.windows.changes, cluster.layout_changes, checked
        if self._waits_of[0] is cluster.windows and self._waits_of[1] == version:
            return
        was, now = self._waits, wait_metric(moment)
        self._waits, self._waits_of = now, (cluster.windows, version)
        was_painted, now_painted = self._painted, self._groups()
        if now_painted is not None:
            self._painted = now_painted
        if self.metric is was:
            self.metric = now
        elif self.metric is was_painted and now_painted is not None:
            self.metric = now_painted

    def paint(self, selection: Selection) -> bool:
        """Show the array or collective selected on another screen. Return whether the metric changed."""
        if (selection.array is None and selection.collective is None) or selection is self._drilled:
            return False
        self._drilled = selection
        if selection.collective is not None:
            self._collective = selection.collective, None
            found = self._groups()
        else:
            view = next((view for view in self._moment.array_views if view.key == selection.array), None)
            self._collective = None
            found = None if view is None else slice_metric(view)
        if found is None:
            return False
        self._painted = self.metric = found
        return True

    @property
    def _all(self) -> list[DeviceMetric]:
        return [*METRICS, self._waits, *([self._painted] if self._painted is not None else [])]

    def offered(self, devices: Sequence[DeviceView]) -> list[DeviceMetric]:
        """Return the chosen metric and those that some of these devices report."""
        return [each for each in self._all if each is self.metric or each.is_reported(devices)]

    def choose(self, name: str) -> None:
        self.metric = next((each for each in self._all if each.name == name), self.metric)

    def next(self, devices: Sequence[DeviceView]) -> None:
        metrics = self._all
        at = metrics.index(self.metric) if self.metric in metrics else 0
        current = [device for device in devices if not device.state.has_exited]
        following = [*metrics[at + 1 :], *metrics[: at + 1]]
        self.metric = next((each for each in following if each.is_reported(current)), METRICS[0])

    def _groups(self) -> DeviceMetric | None:
        """Return the metric of the chosen collective's groups; None if there is none or nothing changed."""
        if self._collective is None:
            return None
        key, before = self._collective
        view = next((view for view in self._moment.collective_views if view.key == key), None)
        shown = None if view is None else (view.groups, view.straggler, id(view.waits_us))
        if view is None or shown == before:
            return None
        self._collective = key, shown
        return groups_metric(view, self._moment)
