"""The mesh screen: one cell per device, in the arrangement and by the metric that the user chose."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.containers import Container, Vertical
from textual.widgets import Static

from jaxtop.model import MeshView, memory_history, recent
from jaxtop.tui.arranger import Arrangement, Arranger
from jaxtop.tui.draw.axes import Grid
from jaxtop.tui.draw.cells import Scene
from jaxtop.tui.draw.detail import Subject, detail
from jaxtop.tui.draw.hardware import LONGEST_TREND
from jaxtop.tui.draw.ink import Ink, ink_of
from jaxtop.tui.draw.layouts import EMPTY_PLAN, MISSING
from jaxtop.tui.draw.legend import legend, printable
from jaxtop.tui.draw.reading import Reading, read
from jaxtop.tui.metrics import METRICS, Metric, groups_metric, slice_metric, wait_metric
from jaxtop.tui.moment import EMPTY, Moment, Selection
from jaxtop.tui.palette import DARK, PALETTES
from jaxtop.tui.screens.base import View
from jaxtop.tui.switches import pressed_by, switches, switches_of
from jaxtop.tui.widgets.detail import Detail
from jaxtop.tui.widgets.mesh_grid import MeshGrid

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from jaxtop.model import DeviceView

# From this width on the detail is beside the mesh. Otherwise it is below, lower with fewer lines than TALL.
BESIDE = 100
TALL = 18


class MeshScreenView(View):
    """The mesh, its switches, the legend, and the detail of the selected device."""

    KEY = "1"
    TITLE = "Mesh"
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
        Binding(
            "tab", "arrange", "Next arrangement", show=False
        ),  # shown and clickable in the line of switches
        Binding("shift+tab", "arrange_back", "Previous arrangement", show=False),
        Binding("m", "metric", "Metric", show=False),  # shown and clickable in the legend
        Binding("o", "mesh", "Next mesh", show=False),
        Binding("a", "axes", "Next two axes as rows and columns", show=False),
        Binding("x", "group", "Mark the group along the next axis", show=False),
        Binding("less_than_sign,pageup", "page(-1)", "Previous page", show=False, key_display="<"),
        Binding("greater_than_sign,pagedown", "page(1)", "Next page", show=False, key_display=">"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._arranger = Arranger()
        self._metric = METRICS[0]
        # The metric of waits with the inputs it was made from. It is rebuilt when the collectives change.
        self._waits: tuple[object, Metric] = (None, wait_metric(EMPTY))
        # The slices of an array or the groups of a collective that the user chose to show.
        self._painted: Metric | None = None
        self._collective: tuple[tuple[Any, ...], object] | None = None
        # The last selection with an array or a collective. It is painted once, not at each return here.
        self._drilled: Selection | None = None
        self._device: DeviceView | None = None
        self._pointed: int | None = None
        self._reading: tuple[Moment, Metric, Reading] | None = None
        self._lines: dict[str, Text] = {}

    def compose(self) -> ComposeResult:
        with Vertical(id="mesh-left"):
            yield Static(id="switches")
            with Container(id="frame"):
                yield MeshGrid()
            yield Static(id="legend")
        yield Detail(id="detail")

    def on_mount(self) -> None:
        self.watch(self.app, "theme", self._draw, init=False)

    def on_resize(self, event: events.Resize) -> None:
        """Place the detail where there is room for it."""
        self.set_class(event.size.width < BESIDE, "-below")
        self.set_class(event.size.height < TALL, "-short")
        self.call_after_refresh(self._draw_lines)

    @property
    def first_focus(self) -> MeshGrid:
        return self.query_one(MeshGrid)

    def show(self, moment: Moment) -> None:
        super().show(moment)
        self._arranger.see(moment)
        self._see_collectives()
        self._find_selected()
        self._draw()

    def select(self, selection: Selection) -> None:
        self._find_painted(selection)
        if selection.agent is None:
            return  # nothing was selected elsewhere: keep the selection
        super().select(selection)
        self._find_selected()
        self._arranger.follow(self._selected)
        self._draw()

    # Selection

    def _find_painted(self, selection: Selection) -> None:
        """Colour the mesh by the array or the collective selected on another screen."""
        if (selection.array is None and selection.collective is None) or selection is self._drilled:
            return
        self._drilled = selection
        if selection.collective is not None:
            self._collective = selection.collective, None
            found = self._groups()
        else:
            view = next((view for view in self.moment.arrays if view.key == selection.array), None)
            self._collective = None
            found = None if view is None else slice_metric(view)
        if found is not None:
            self._painted = self._metric = found
            self._draw()

    def _see_collectives(self) -> None:
        """Update the metrics of collectives when new windows have arrived."""
        moment, cluster = self.moment, self.moment.cluster
        version = id(cluster.windows), cluster.windows.changes, cluster.layout_changes
        if self._waits[0] == version:
            return
        was, now = self._waits[1], wait_metric(moment)
        self._waits = version, now
        was_painted, now_painted = self._painted, self._groups()
        if now_painted is not None:
            self._painted = now_painted
        if self._metric is was:
            self._metric = now
        elif self._metric is was_painted and now_painted is not None:
            self._metric = now_painted

    def _groups(self) -> Metric | None:
        """Return the metric of the chosen collective's groups; None if there is none or nothing changed."""
        if self._collective is None:
            return None
        key, before = self._collective
        view = next((view for view in self.moment.collectives if view.key == key), None)
        shown = None if view is None else (view.groups, view.straggler, id(view.waits_us))
        if view is None or shown == before:
            return None
        self._collective = key, shown
        return groups_metric(view)

    @property
    def _selected(self) -> int | None:
        """The position of the selected device; None if it is not shown."""
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
            self._draw()

    def on_mesh_grid_opened(self, message: MeshGrid.Opened) -> None:
        message.stop()
        self.post_message(self.Drilled(self.selection, "3"))

    def on_mesh_grid_pointed(self, message: MeshGrid.Pointed) -> None:
        message.stop()
        self._pointed = message.device
        self._draw_lines()

    # Keys and clicks

    def action_arrange(self, name: str | None = None) -> None:
        """Switch to the next arrangement, or to the one that was clicked."""
        if name is None:
            self._arranger.cycle()
        else:
            self._arranger.arrange(Arrangement(name))
        self._rearranged()

    def action_arrange_back(self) -> None:
        self._arranger.cycle(-1)
        self._rearranged()

    def action_metric(self) -> None:
        """Switch to the next metric that some device reports."""
        metrics = [*METRICS, self._waits[1], *([self._painted] if self._painted is not None else [])]
        at = metrics.index(self._metric) if self._metric in metrics else 0
        devices = [device for device in self._arranger.devices if not device.state.is_over]
        following = [*metrics[at + 1 :], *metrics[: at + 1]]
        self._metric = next((each for each in following if each.is_reported(devices)), METRICS[0])
        self.figure = self._metric.figure
        self._draw()

    def action_mesh(self) -> None:
        self._arranger.next_choice()
        self._rearranged()

    def action_axes(self) -> None:
        self._arranger.next_pair()
        self._rearranged()

    def action_group(self) -> None:
        self._arranger.next_group()
        self._draw()

    def action_page(self, by: int) -> None:
        """Turn the page and keep the place of the selection on it. Scroll if there is only one page."""
        if self._arranger.pages < 2:
            grid = self.first_focus
            (grid.action_page_down if by > 0 else grid.action_page_up)()
            return
        self._go(self._arranger.turn(by, self._selected))
        self._draw()

    def _rearranged(self) -> None:
        self._arranger.follow(self._selected)
        self._draw()

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the switch that was clicked."""
        action = pressed_by(event.style)
        if action is not None:
            event.stop()
            await self.run_action(action)

    # Drawing

    @property
    def _ink(self) -> Ink:
        return ink_of(PALETTES.get(self.app.theme, DARK), plain=self.app.no_color)

    def _read(self) -> Reading:
        known = self._reading
        metric = self._metric
        if known is None or known[0] is not self.moment or known[1] is not metric:
            known = self.moment, metric, read(self._arranger.devices, metric)
            self._reading = known
        return known[2]

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        arranger, ink, selected = self._arranger, self._ink, self._selected
        scene = Scene(
            EMPTY_PLAN,
            arranger.devices,
            self._read(),
            ink,
            arranger.states,
            selected,
            arranger.peers(selected),
            arranger.id_width,
            arranger.note,
            self._history,
        )
        self.query_one(MeshGrid).show(arranger.layout, scene)
        self.query_one(Detail).show(self._detail(ink))
        self._draw_lines()

    def _draw_lines(self) -> None:
        if self.is_mounted:
            ink, devices, grid = self._ink, self._arranger.devices, self._arranger.grid
            known = self._pointed is not None and self._pointed < len(devices)
            width = self.query_one("#legend").size.width
            pointed = self._pointed if known else None
            states = self.moment.states.values()
            absent = grid is not None and MISSING in grid.members
            self._update("#switches", switches(switches_of(self._arranger), ink, width))
            self._update(
                "#legend",
                legend(self._read(), devices, ink, width, states=states, pointed=pointed, absent=absent),
            )

    def _update(self, name: str, text: Text) -> None:
        """Repaint a line only if its text or its styles changed."""
        known = self._lines.get(name)
        if known is None or known.plain != text.plain or known.spans != text.spans:
            self._lines[name] = text
            self.query_one(name, Static).update(text, layout=False)

    def _history(self, device: int) -> list[int | None]:
        return self._history_of(self._arranger.devices[device])

    def _history_of(self, device: DeviceView) -> list[int | None]:
        return memory_history(self.moment.cluster, device.agent, device.position)

    def _detail(self, ink: Ink) -> Callable[[int, int], Text]:
        subject = self._subject()
        if subject is not None:
            return lambda width, height: detail(subject, ink, width, height)
        nobody = printable(Text(self._nobody(), ink.muted))
        return lambda _width, _height: nobody

    def _nobody(self) -> str:
        """Return the text to show when no device is selected."""
        host = None if self.selection.agent is None else self.moment.host(self.selection.agent)
        return "no device yet" if host is None else f"{self.moment.label(host)}: no devices yet"

    def _subject(self) -> Subject | None:
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
        return Subject(
            device,
            view.now,
            moment.label(view.host),
            tuple(_ids(mesh) for mesh in meshes),
            None if group is None else (_ids(group[0]), group[1]),
            tuple(self._history_of(device)),
            samples[-1].at - samples[0].at if samples else 0.0,
            lambda figure: recent(moment.cluster, device.agent, figure, device.position, LONGEST_TREND),
            moment.probed(device),
        )


@lru_cache(maxsize=64)
def _ids(mesh: MeshView) -> Grid:
    return Grid(mesh.axes, mesh.device_ids)
