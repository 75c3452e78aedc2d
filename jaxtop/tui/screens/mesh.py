"""The mesh screen: one cell per device, in the arrangement and by the metric that the user chose."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical

from jaxtop.model import DeviceView, MeshView, memory_history, recent
from jaxtop.tui.core.metrics import DeviceMetric, MetricChoice
from jaxtop.tui.core.moment import Moment, Selection
from jaxtop.tui.draw.legend import legend, printable
from jaxtop.tui.draw.mesh.arranger import Arrangement, Arranger
from jaxtop.tui.draw.mesh.axes import Grid
from jaxtop.tui.draw.mesh.cells import GridScene
from jaxtop.tui.draw.mesh.layouts import EMPTY_PLAN
from jaxtop.tui.draw.mesh.switches import switches_of
from jaxtop.tui.draw.panes.device import DeviceSubject, detail
from jaxtop.tui.draw.panes.hardware import LONGEST_TREND
from jaxtop.tui.draw.reading import MISSING, MetricReading, read
from jaxtop.tui.draw.switches import run_pressed, switches
from jaxtop.tui.screens.base import View
from jaxtop.tui.widgets.detail import Detail, Line
from jaxtop.tui.widgets.mesh_grid import MeshGrid

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult

    from jaxtop.tui.draw.ink import Ink

# From this width on the detail is beside the mesh. Otherwise it is below, lower with fewer lines than TALL.
BESIDE = 100
TALL = 18


class MeshScreenView(View):
    """The mesh, its switches, the legend, and the detail of the selected device."""

    DEFAULT_CSS = """
    MeshScreenView { layout: horizontal; }
    MeshScreenView #mesh-left { width: 1fr; height: 1fr; }
    MeshScreenView #switches, MeshScreenView #legend { height: 1; }
    MeshScreenView #frame { height: 1fr; padding: 0 1; }
    MeshScreenView #detail { width: 39; height: 1fr; padding: 0 1; border-left: solid $panel; }
    MeshScreenView.-below { layout: vertical; }
    MeshScreenView.-below #frame { padding: 0; }
    MeshScreenView.-below #detail { width: 1fr; height: 7; border-left: none; border-top: solid $panel; }
    MeshScreenView.-below.-short #detail { height: 4; }
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
        self._switches, self._legend = Line(id="switches"), Line(id="legend")
        self._reading: tuple[Moment, DeviceMetric, MetricReading] | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="mesh-left"):
            yield self._switches
            with Container(id="frame"):
                yield self._grid
            yield self._legend
        yield self._pane

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < BESIDE, "-below")
        self.set_class(event.size.height < TALL, "-short")

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

    def action_metric(self) -> None:
        self._metrics.next(self._arranger.devices)
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

    def _draw(self) -> None:
        arranger, ink, selected = self._arranger, self.ink, self._selected
        scene = GridScene(
            EMPTY_PLAN,
            arranger.devices,
            self._read(),
            ink.on(self._read().scale),
            arranger.states,
            selected,
            arranger.peers(selected),
            arranger.id_width,
            arranger.note,
            lambda device: self._history(arranger.devices[device]),
        )
        self._grid.show(arranger.layout, scene)
        self._pane.show(self._detail(ink))
        self._draw_lines()

    def _draw_lines(self) -> None:
        if self.is_mounted:
            ink, devices, grid = self.ink, self._arranger.devices, self._arranger.grid
            width = self._legend.size.width
            is_inside = self._pointed is not None and self._pointed < len(devices)
            pointed = self._pointed if is_inside else None
            states = self.moment.states.values()
            absent = grid is not None and MISSING in grid.members
            self._switches.read(switches(switches_of(self._arranger), ink, width))
            reading = self._read()
            scaled = ink.on(reading.scale)
            self._legend.read(
                legend(reading, devices, scaled, width, states=states, pointed=pointed, absent=absent)
            )

    def _history(self, device: DeviceView) -> list[int | None]:
        return memory_history(self.moment.cluster, device.agent, device.position)

    def _detail(self, ink: Ink) -> Callable[[int, int], Text]:
        subject = self._subject()
        if subject is not None:
            return lambda width, height: detail(subject, ink, width, height)
        nothing = printable(Text(self._no_device(), ink.muted))
        return lambda _width, _height: nothing

    def _no_device(self) -> str:
        host = None if self.selection.agent is None else self.moment.host(self.selection.agent)
        return "no device yet" if host is None else f"{self.moment.label(host)}: no devices yet"

    def _subject(self) -> DeviceSubject | None:
        device, moment = self._device, self.moment
        view = None if device is None else moment.views.get(device.agent)
        if device is None or view is None:
            return None
        samples = moment.cluster.history.get(device.agent)
        group = self._arranger.group
        meshes = [
            mesh for mesh in self._arranger.meshes if mesh.run == device.run and device.id in mesh.positions
        ]
        # The chosen mesh comes first.
        meshes.sort(key=lambda mesh: mesh is not self._arranger.mesh)
        return DeviceSubject(
            device,
            view.now,
            moment.label(view.host),
            tuple(_ids(mesh) for mesh in meshes),
            None if group is None else (_ids(group[0]), group[1]),
            tuple(self._history(device)),
            samples[-1].at - samples[0].at if samples else 0.0,
            lambda figure: recent(moment.cluster, device.agent, figure, device.position, LONGEST_TREND),
            moment.probed(device),
        )


@lru_cache(maxsize=64)
def _ids(mesh: MeshView) -> Grid:
    return Grid(mesh.axes, mesh.device_ids)
