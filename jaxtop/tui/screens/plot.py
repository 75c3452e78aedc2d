"""The plot screen: a figure of the selected device or host over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.model import STEP_TIME, DeviceView, Figure, Host, Unit, newest_sample
from jaxtop.model.host import run_of
from jaxtop.tui.columns.figures import ReportedNames
from jaxtop.tui.core.moment import Moment, Selection
from jaxtop.tui.core.sticky_value import StickyValue
from jaxtop.tui.draw.marks import all_marks
from jaxtop.tui.draw.plot import DrawnPlot
from jaxtop.tui.draw.plot_contents import (
    PlotComparison,
    PlotSubject,
    choices,
    few,
    is_of_device,
    line_of,
    peers,
    ways,
)
from jaxtop.tui.draw.plot_page import PlotPage, page
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.widgets.plot import Plot

if TYPE_CHECKING:
    from collections.abc import Hashable

    from textual.app import ComposeResult


# Of many processes some line has a new sample at every moment. All lines are drawn again when the chosen one
# has a new sample, or after this time.
HELD_SECONDS = 1.0
# The figures to plot by default, if they are reported.
FIRST_OF_DEVICE, FIRST_OF_HOST = ("utilization", "used_bytes"), (STEP_TIME.name, "process_cpu_cores")


class PlotScreen(ScreenPane):
    """The line of the selection, compared with those of others, at the time that is shown."""

    DEFAULT_CSS = """
    PlotScreen Plot { height: 1fr; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._plot = Plot()
        self._reported = ReportedNames()
        # The figure that the user chose. None: the default for the selection.
        self._name: str | None = None
        self._beside = PlotComparison.DEVICES
        self._pointed: float | None = None
        self._peers: list[PlotSubject] = []
        # The peers drawn out of too many. They stay the same while the figure and the comparison do.
        self._drawn: tuple[object, frozenset[tuple[str, int | None]]] = (None, frozenset())
        self._sticky = StickyValue(HELD_SECONDS)

    def compose(self) -> ComposeResult:
        yield self._plot

    @property
    def first_focus(self) -> Plot:
        return self._plot

    def _prepare(self, moment: Moment) -> None:
        self._reported.see(moment)

    def select(self, selection: Selection) -> None:
        super().select(selection)
        self._redraw()

    def start_with(self, figure: str) -> None:
        self._name = figure

    def point_at(self, row: Hashable) -> None:
        if row:
            self._name = str(row)
            self._redraw()

    @property
    def _host(self) -> Host | None:
        """The selected host or the process that replaced it; else the first host."""
        hosts = [view.host for view in self.moment.host_views]
        selected = None if self.selection.agent is None else self.moment.host(self.selection.agent)
        if selected is not None and selected.agent not in self.moment.states:  # it was restarted
            place = run_of(selected), selected.process_index
            selected = next((each for each in hosts if (run_of(each), each.process_index) == place), None)
        return selected or next(iter(hosts), None)

    @property
    def _device(self) -> DeviceView | None:
        host = self._host
        devices = [each for each in self.moment.device_views if host is not None and each.agent == host.agent]
        found = (each for each in devices if each.id == self.selection.device_id)
        return next(found, next(iter(devices), None))

    @property
    def _figures(self) -> list[Figure]:
        return choices(self._reported.names, self._reported.scalars)

    def _figure(self) -> Figure | None:
        figures = {each.name: each for each in self._figures}
        of_device = self.selection.device_id is not None
        first, then = (FIRST_OF_DEVICE, FIRST_OF_HOST) if of_device else (FIRST_OF_HOST, FIRST_OF_DEVICE)
        wanted = (self._name, *first, *then)
        found = next((figures[name] for name in wanted if name in figures), None)
        return found or next(iter(figures.values()), None)

    def _way(self, figure: Figure) -> PlotComparison:
        return self._beside if self._beside in ways(figure) else PlotComparison.HOSTS

    def _draw(self) -> None:
        figure, host, ink = self._figure(), self._host, self.ink
        if figure is None or host is None:
            note = Text(" no figures to plot yet", ink.note, end="")
            self._plot.show_page(lambda _width, _height: DrawnPlot(note))
            self._sticky = StickyValue(HELD_SECONDS)
            return
        beside, device = self._way(figure), self._device
        candidates = peers(self.moment, figure, host, device, beside)
        chosen = self._key(figure, beside, host, device)
        drawn = self._few(candidates, chosen, (figure.name, beside))
        newest = newest_sample(self.moment.cluster, chosen[0])
        keys = [each.key for each in drawn]
        shown = figure, beside, chosen, keys, newest, self._pointed, ink, self.size
        if self._sticky.lasts(shown, self.moment.now):
            return
        lines = [line_of(self.moment, figure, each, is_chosen=each.key == chosen) for each in drawn]
        position = device.position if device is not None and is_of_device(figure) else 0
        figures = self._figures
        place, limit = (figures.index(figure), len(figures)), _limit(figure, host, position)
        marks = all_marks(self.moment)
        plotted = PlotPage(figure, place, beside, lines, len(candidates), limit, self._pointed, marks)
        self._peers = drawn
        self._plot.show_page(lambda width, height: page(plotted, ink, width, height))

    def _key(
        self, figure: Figure, beside: PlotComparison, host: Host, device: DeviceView | None
    ) -> tuple[str, int | None]:
        is_device = is_of_device(figure) and beside is not PlotComparison.HOSTS and device is not None
        return (device.agent, device.id) if is_device and device is not None else (host.agent, None)

    def _few(
        self, candidates: list[PlotSubject], chosen: tuple[str, int | None], basis: object
    ) -> list[PlotSubject]:
        """Return the peers to draw: those drawn before, if they still exist and the plot shows the same."""
        before, keys = self._drawn
        there = {each.key for each in candidates}
        if before != (basis, len(candidates)) or chosen not in keys or not keys <= there:
            keys = frozenset(each.key for each in few(candidates, chosen))
            self._drawn = (basis, len(candidates)), keys
        return [each for each in candidates if each.key in keys]

    def on_plot_asked(self, message: Plot.Asked) -> None:
        message.stop()
        figure = self._figure()
        if figure is None:
            return
        what, which = message.what, message.which
        if what == "figure":
            figures = self._figures
            self._name = figures[(figures.index(figure) + int(which)) % len(figures)].name
        elif what == "beside":
            among = ways(figure)
            self._beside = among[(among.index(self._way(figure)) + int(which)) % len(among)]
        elif what == "way":
            self._beside = PlotComparison[str(which)]
        elif what == "choose":
            self._choose_next(int(which))
        elif what == "line" and int(which) < len(self._peers):
            self._go(self._peers[int(which)])
        elif what == "open":
            self.post_message(self.Drilled(self.selection, "mesh" if is_of_device(figure) else "hosts"))
        self._redraw()

    def on_plot_pointed(self, message: Plot.Pointed) -> None:
        message.stop()
        self._pointed = message.at
        self._redraw()

    def _choose_next(self, by: int) -> None:
        figure, host = self._figure(), self._host
        if figure is None or host is None:
            return
        beside, device = self._way(figure), self._device
        if beside is PlotComparison.ALONE:  # without a comparison, step through the closest one
            beside = PlotComparison.DEVICES if is_of_device(figure) else PlotComparison.HOSTS
        candidates = peers(self.moment, figure, host, device, beside)
        keys = [each.key for each in candidates]
        chosen = self._key(figure, beside, host, device)
        if keys:
            at = keys.index(chosen) if chosen in keys else 0
            self._go(candidates[(at + by) % len(candidates)])

    def _go(self, peer: PlotSubject) -> None:
        self.selection = Selection(peer.agent, peer.device_id)
        self.post_message(self.Selected(self.selection))


def _limit(figure: Figure, host: Host, position: int) -> float | None:
    """Return the limit of the figure to draw. The limit of 1 of a share needs no line."""
    full = figure.full(host.pulse, position)
    return None if figure.unit is Unit.SHARE and full == 1.0 else full
