"""The mesh screen: one cell per device, in the arrangement and by the metric that the user chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical

from jaxtop.model import DEVICE_FIGURES, FIGURES, MEMORY, DeviceView, recent
from jaxtop.tui.core.metrics import DeviceMetric, MetricChoice
from jaxtop.tui.core.moment import EMPTY, Moment, Selection
from jaxtop.tui.core.text import writer
from jaxtop.tui.draw.legend import legend, printable
from jaxtop.tui.draw.mesh.arranger import Arrangement, Arranger
from jaxtop.tui.draw.mesh.grid_contents import CellTrend, GridContents
from jaxtop.tui.draw.mesh.layouts import EMPTY_PLAN
from jaxtop.tui.draw.mesh.means import AxisNames
from jaxtop.tui.draw.mesh.switches import switches_of, with_metrics
from jaxtop.tui.draw.panes.device import DeviceSubject, detail
from jaxtop.tui.draw.panes.mean_bars import MeansContents, means_lines
from jaxtop.tui.draw.reading import UNSEEN, MetricReading, read
from jaxtop.tui.draw.switches import run_pressed, switches
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.screens.device_subject import subject_of
from jaxtop.tui.screens.mesh_split import HIGH_PANE_LINES, SplitMesh, split_of
from jaxtop.tui.widgets.detail import Detail, Line
from jaxtop.tui.widgets.mesh_grid import MeshGrid

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult

    from jaxtop.tui.draw.ink import Ink

# The most devices that the screen asks which metrics they report.
MAX_ASKED_DEVICES = 8
# The figures that a large cell also shows.
_FACTS = tuple(each for each in DEVICE_FIGURES if each.rank <= 1)


class MeshScreen(ScreenPane):
    """The mesh, its switches, the means by axis, the legend, and the detail of the selected device."""

    DEFAULT_CSS = """
    MeshScreen { layout: horizontal; }
    MeshScreen #mesh-left { width: 1fr; height: 1fr; }
    MeshScreen #switches, MeshScreen #legend { height: 1; }
    MeshScreen #frame { height: 1fr; padding: 0 1; }
    MeshScreen #means { height: 0; padding: 1 1 0 1; }
    MeshScreen #means.-line { padding: 0 1; }
    MeshScreen #detail { width: 40; height: 1fr; padding: 0 1; border-left: solid $panel; }
    MeshScreen.-below { layout: vertical; }
    MeshScreen.-below #frame { padding: 0 1; }
    MeshScreen.-below #detail { width: 1fr; height: 7; border-left: none; border-top: solid $panel; }
    MeshScreen.-below.-short #detail { height: 4; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # Clickable in the line of switches and in the legend.
        Binding("tab", "arrange", "Next arrangement", show=False),
        Binding("shift+tab", "arrange_back", "Previous arrangement", show=False),
        Binding("m", "metric", "Metric", show=False),
        Binding("o", "mesh", "Next mesh", show=False),
        Binding("a", "axes", "Next two axes as rows and columns", show=False),
        Binding("x", "group", "Mark the group along the next axis", show=False),
        Binding("less_than_sign,pageup", "page(-1)", "Previous page", show=False, key_display="<"),
        Binding("greater_than_sign,pagedown", "page(1)", "Next page", show=False, key_display=">"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._arranger = Arranger()
        self._metrics = MetricChoice()
        self._device: DeviceView | None = None
        self._pointed: int | None = None
        # Held, not looked up: while the app ends, they are gone before the screen is.
        self._grid, self._pane = MeshGrid(), Detail(id="detail")
        self._switches, self._legend, self._means = Line(id="switches"), Line(id="legend"), Detail(id="means")
        self._reading: tuple[Moment, DeviceMetric, MetricReading] | None = None
        self._split: tuple[object, SplitMesh] = (None, SplitMesh(False, 0))
        self._reported: tuple[object, list[DeviceMetric]] = (None, [])
        # What the line of switches shows, with the ink and the width.
        self._switched: object = None

    def compose(self) -> ComposeResult:
        with Vertical(id="mesh-left"):
            yield self._switches
            with Container(id="frame"):
                yield self._grid
            yield self._means
            yield self._legend
        yield self._pane

    def on_resize(self, _event: events.Resize) -> None:
        if self._arranger.moment is not EMPTY:
            self._divide()

    def _divide(self) -> SplitMesh:
        """Give the detail and the means their places, if the size or the layout has changed."""
        arranger = self._arranger
        key = (arranger.layout, arranger.axes, self.size)
        if self._split[0] != key:
            split = split_of(arranger, *self.size)
            self._split = key, split
            self.set_class(not split.beside, "-below")
            self.set_class(self.size.height < HIGH_PANE_LINES, "-short")
            self._means.display = split.means > 0
            self._means.styles.height = split.means
            self._means.set_class(split.means == 1, "-line")
            self.call_after_refresh(self._redraw)  # once the widgets have their sizes
        return self._split[1]

    @property
    def first_focus(self) -> MeshGrid:
        return self._grid

    def _prepare(self, moment: Moment) -> None:
        self._arranger.see(moment)
        self._metrics.see(moment)
        self._find_selected()

    def select(self, selection: Selection) -> None:
        if self._metrics.paint(selection):
            self._redraw()
        if selection.agent is None:
            return  # nothing was selected elsewhere: keep the selection
        super().select(selection)
        self._find_selected()
        self._rearranged()

    @property
    def _selected(self) -> int | None:
        return self._arranger.position(self.selection.device_key)

    def _find_selected(self) -> None:
        """Keep the selected device, also after its process restarted; otherwise select the first."""
        arranger, before, agent = self._arranger, self._device, self.selection.agent
        devices = arranger.devices
        found = self._selected
        if found is None and before is not None and self.selection.device_id == before.id:
            found = arranger.position_in_run(before.run, before.id)
        if found is None and before is not None and before.agent == agent:
            found = arranger.position(before.key)
        if found is None and agent is not None:
            found = next((i for i, device in enumerate(devices) if device.agent == agent), None)
        # A selected host stays selected, even if it has not reported its devices.
        if found is None and devices and (agent is None or self.moment.host(agent) is None):
            found = 0
        self._device = None if found is None else devices[found]
        if self._device is not None and self._device.key != self.selection.device_key:
            self.selection = Selection(*self._device.key)
            self._arranger.follow(found)
            self.post_message(self.Selected(self.selection))

    def _go(self, device: int | None) -> None:
        if device is not None:
            self._device = self._arranger.devices[device]
            self.selection = Selection(*self._device.key)
            self.post_message(self.Selected(self.selection))

    def on_mesh_grid_moved(self, message: MeshGrid.Moved) -> None:
        message.stop()
        if message.device < len(self._arranger.devices):
            self._go(message.device)
            self._redraw()

    def on_mesh_grid_opened(self, message: MeshGrid.Opened) -> None:
        message.stop()
        self.post_message(self.Drilled(self.selection, "devices"))

    def on_mesh_grid_pointed(self, message: MeshGrid.Pointed) -> None:
        message.stop()
        self._pointed = message.device
        self._draw_lines()

    def action_arrange(self, name: str | None = None) -> None:
        if name is None:
            self._arranger.cycle()
        else:
            self._arranger.arrange(Arrangement(name))
        self._rearranged()

    def action_arrange_back(self) -> None:
        self._arranger.cycle(-1)
        self._rearranged()

    def action_metric(self, number: int | None = None) -> None:
        if number is None:
            self._metrics.next(self._arranger.devices)
        else:
            offered = self._offered
            self._metrics.choose(offered[min(number, len(offered) - 1)].name)
        self.figure = self._metrics.metric.figure
        self._redraw()

    def action_mesh(self) -> None:
        self._arranger.next_choice()
        self._rearranged()

    def action_axes(self) -> None:
        self._arranger.next_pair()
        self._rearranged()

    def action_group(self) -> None:
        self._arranger.next_group()
        self._redraw()

    def action_page(self, by: int) -> None:
        """Turn the page and keep the place of the selection on it. Scroll if there is only one page."""
        if self._arranger.pages < 2:
            grid = self.first_focus
            (grid.action_page_down if by > 0 else grid.action_page_up)()
            return
        self._go(self._arranger.turn(by, self._selected))
        self._redraw()

    def _rearranged(self) -> None:
        self._arranger.follow(self._selected)
        self._redraw()

    async def on_click(self, event: events.Click) -> None:
        await run_pressed(event, self)

    @property
    def metric(self) -> DeviceMetric:
        return self._metrics.metric

    def _read(self) -> MetricReading:
        last, metric = self._reading, self.metric
        if last is None or last[0] is not self.moment or last[1] is not metric:
            last = self.moment, metric, read(self._arranger.devices, metric)
            self._reading = last
        return last[2]

    @property
    def _offered(self) -> list[DeviceMetric]:
        """The metrics that some devices report, asked at most once a second."""
        devices = self._arranger.devices
        key = (int(self.moment.now), len(devices), self.metric)
        if self._reported[0] != key:
            self._reported = key, self._metrics.offered(devices[:: max(1, len(devices) // MAX_ASKED_DEVICES)])
        return self._reported[1]

    @property
    def _late(self) -> frozenset[int]:
        """The devices that the others wait for: of a host that is late, or those that the metric marks."""
        agents, marked = self.moment.late, self._read().marked
        if not agents or marked:
            return marked
        return frozenset(i for i, device in enumerate(self._arranger.devices) if device.agent in agents)

    def _draw(self) -> None:
        split = self._divide()
        arranger, ink, selected, late = self._arranger, self.ink, self._selected, self._late
        contents = GridContents(
            EMPTY_PLAN,
            arranger.devices,
            self._read(),
            ink.on(self._read().scale),
            arranger.states,
            selected,
            arranger.peers(selected),
            late,
            arranger.id_width,
            arranger.notes,
            lambda device, count: self._trend(arranger.devices[device], count),
            lambda device, width: self._facts(arranger.devices[device], width),
        )
        self._grid.show(arranger.layout, contents)
        if split.means:
            self._means.show(lambda width, height: means_lines(self._means_contents(late), width, height))
        self._pane.show(self._detail(ink))
        self._draw_lines()

    def _means_contents(self, late: frozenset[int]) -> MeansContents:
        arranger, plan, reading = self._arranger, self._grid.plan, self._read()
        ink, spoken = self.ink.on(reading.scale), AxisNames(plan.rows, plan.columns)
        return MeansContents(arranger.axes, reading, arranger.devices, late, ink, spoken)

    def _draw_lines(self) -> None:
        if self.is_mounted:
            ink, devices, grid = self.ink, self._arranger.devices, self._arranger.grid
            width = self._legend.size.width
            is_inside = self._pointed is not None and self._pointed < len(devices)
            pointed = self._pointed if is_inside else None
            states = self.moment.states.values()
            absent = grid is not None and UNSEEN in grid.members
            groups = with_metrics(switches_of(self._arranger), self._offered, self.metric, width)
            if self._switched != (groups, ink, width):
                self._switched = groups, ink, width
                self._switches.set_text(switches(groups, ink, width))
            reading = self._read()
            scaled = ink.on(reading.scale)
            self._legend.set_text(
                legend(reading, devices, scaled, width, states=states, pointed=pointed, absent=absent)
            )

    def _trend(self, device: DeviceView, count: int) -> CellTrend:
        """Return the recent values of the metric; of the memory if those are not stored."""
        figure = MEMORY if self.metric.figure is None else FIGURES[self.metric.figure]
        values = recent(self.moment.cluster, device.agent, figure, device.position, count)
        return CellTrend(values, "memory" if self.metric.figure is None else "", writer(figure))

    def _facts(self, device: DeviceView, width: int) -> str:
        """Return the most important other figures of a device that fit."""
        line = ""
        for figure in _FACTS:
            value = None if figure.name == self.metric.figure else device.read(figure)
            words = "" if value is None else f"{figure.short} {writer(figure)(value)}"
            if words and len(line) + 2 + len(words) <= width:
                line += f"{'  ' if line else ''}{words}"
        return line

    def _detail(self, ink: Ink) -> Callable[[int, int], Text]:
        subject = self._subject()
        if subject is not None:
            return lambda width, height: detail(subject, ink, width, height)
        nothing = printable(Text(self._no_device(), ink.note))
        return lambda _width, _height: nothing

    def _no_device(self) -> str:
        host = None if self.selection.agent is None else self.moment.host(self.selection.agent)
        return "no device yet" if host is None else f"{self.moment.label(host)}: no devices yet"

    def _subject(self) -> DeviceSubject | None:
        device, moment, arranger = self._device, self.moment, self._arranger
        if device is None:
            return None
        # The chosen mesh comes first.
        meshes = sorted(arranger.meshes, key=lambda mesh: mesh is not arranger.mesh)
        return subject_of(moment, device, meshes, arranger.group)
