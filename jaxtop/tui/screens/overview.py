"""The overview, the first screen: is the run healthy, what costs most, who causes it, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from jaxtop.model import RULES_BY_NAME, Finding, Severity
from jaxtop.model.findings.coverage import coverage_of
from jaxtop.tui.core.moment import NO_SELECTION, Moment, Selection
from jaxtop.tui.draw.overview import arrange
from jaxtop.tui.draw.overview.answers import bound_lines, finding_line, finding_lines
from jaxtop.tui.draw.panel import FRAME_HEIGHT, FRAME_WIDTH, Heading, panel
from jaxtop.tui.draw.panes.finding import coverage_pane, finding_pane
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.widgets.detail import Detail

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from jaxtop.tui.draw.ink import Ink

# From this size on, the findings have a frame.
FRAMES_SIZE = (60, 24)
# The most of the height that the findings take.
MAX_HEIGHT_SHARE = 0.4
# From each of these heights on, the most lines of the selected finding.
LINES = ((40, 6), (20, 5), (12, 4), (0, 2))


class OverviewScreen(ScreenPane, can_focus=True):
    """The findings, or what bounds a healthy run, and panels that answer the other questions."""

    DEFAULT_CSS = """
    OverviewScreen #findings { height: auto; display: none; }
    OverviewScreen #panels { height: 1fr; }
    OverviewScreen #explained { display: none; height: 1fr; padding: 0 2; background: $surface; }
    OverviewScreen.listed #findings, OverviewScreen.explained #explained { display: block; }
    OverviewScreen.explained #panels, OverviewScreen.explained #findings { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Proof"),
        Binding("i", "explain", "Why"),
        Binding("x", "mute", "Mute", show=False),
        Binding("up,k", "move(-1)", "Previous finding", show=False),
        Binding("down,j", "move(1)", "Next finding", show=False),
        Binding("g", "move(-1000)", "First finding", show=False),
        Binding("G", "move(1000)", "Last finding", show=False),
        Binding("escape", "close_explanation", "Back", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._list = Detail(id="findings")
        self._panels = Detail(id="panels")
        self._explained = Detail(id="explained")
        # The finding that the user selected; the first one until then, or once it is over.
        self._wanted: Hashable = None
        # Which finding each line of the list is about, and where panels stand.
        self._line_of: list[Finding | None] = []
        self._drawing = arrange.Drawing()
        # What this screen selected by itself.
        self._proposed = NO_SELECTION

    def compose(self) -> ComposeResult:
        yield self._list
        yield self._panels
        yield self._explained

    @property
    def first_focus(self) -> Widget:
        return self

    @property
    def shown(self) -> Sequence[Finding]:
        """The findings, without those that the user muted."""
        return [each for each in self.moment.findings if each.key not in self.muted]

    @property
    def row(self) -> Finding | None:
        """The finding that keys act on."""
        shown = self.shown
        chosen = (each for each in shown if each.key == self._wanted)
        return next(chosen, shown[0] if shown else None)

    def _prepare(self, _moment: Moment) -> None:
        self._select_accused(self.shown)

    def _select_accused(self, shown: Sequence[Finding]) -> None:
        """Select the subject of the first finding, or the first device, until the user selects something."""
        if self.selection != self._proposed or not self.moment.device_views:
            return
        subject = next((each.subject for each in shown if each.subject.agent), None)
        first = self.moment.device_views[0]
        device = next(
            (each for each in self.moment.device_views if subject and each.agent == subject.agent), first
        )
        wanted = subject.device_id if subject and subject.device_id is not None else device.id
        if self._proposed != Selection(device.agent, wanted):
            self.selection = self._proposed = Selection(device.agent, wanted)
            self.post_message(ScreenPane.Selected(self.selection))

    def _draw(self) -> None:
        ink, row, now = self.ink, self.row, self.moment.now
        if self.has_class("explained"):
            self._explain(row, now, ink)
            return
        lines = self._answer(ink)
        self.set_class(bool(lines), "listed")
        self._list.styles.height = len(lines)
        self._list.show(lambda _width, _height: lines)
        found = arrange.panels_of(self.moment, ink, self.screen_names)

        def write(width: int, height: int) -> list[Text]:
            self._drawing = arrange.draw(found, ink, width, height)
            return self._drawing.lines

        self._panels.show(write)

    def _explain(self, row: Finding | None, now: float, ink: Ink) -> None:
        if row is None:
            found = coverage_of(self.moment.cluster)
            self._explained.show(lambda width, height: coverage_pane(found, ink, width, height))
        else:
            tuning = self.moment.cluster.tuning
            self._explained.show(
                lambda width, height: finding_pane(row, now, ink, width, height, tuning=tuning)
            )

    def _answer(self, ink: Ink) -> list[Text]:
        """Return the findings, or what bounds the run, in a frame where there is room."""
        width, height = self.size
        is_framed = width >= FRAMES_SIZE[0] and height >= FRAMES_SIZE[1]
        room = width - FRAME_WIDTH if is_framed else width - 2
        most = max(2, int(height * MAX_HEIGHT_SHARE) - FRAME_HEIGHT * is_framed)
        shown, row = self.shown, self.row
        if row is None:
            self._line_of = []
            lines = bound_lines(self.moment, ink, room)[:most] if height >= FRAMES_SIZE[1] else []
            heading, frame = Heading("What bounds the run"), ink.frame
        else:
            lines = self._lines_of(shown, row, ink, room, most)
            at = shown.index(row) + 1
            keys = (("⏎", row.proof.screen), ("i", "why"), ("x", "mute"))
            is_wrong = shown[0].severity is not Severity.INFO
            heading = Heading(
                "What is wrong" if is_wrong else "Worth knowing", "", f"{at} of {len(shown)}", keys
            )
            frame = (
                ink.style(ink.palette.severity_colour(row.severity.rank)) if row.severity.rank else ink.frame
            )
        if not lines:
            return []
        if is_framed:
            self._line_of = [None, *self._line_of]
            return panel(heading, lines, (width, len(lines) + FRAME_HEIGHT), ink, frame=frame)
        return [Text.assemble(" ", line) for line in lines]

    def _lines_of(
        self, shown: Sequence[Finding], row: Finding, ink: Ink, width: int, most: int
    ) -> list[Text]:
        """Return the selected finding in full, and the others in a line each, as far as there is room."""
        allowed = next(count for least, count in LINES if self.size.height >= least)
        names = self.moment.group_labels
        of_row = finding_lines(
            row, self.moment.now, ink, width, min(most, allowed), of=names.get(row.run, "")
        )
        others = most - len(of_row)
        at = shown.index(row)
        first = max(0, min(at - others // 2, len(shown) - 1 - others))
        lines: list[Text] = []
        self._line_of = []
        for each in shown[first : first + others + 1]:
            drawn = of_row if each is row else [finding_line(each, ink, width, of=names.get(each.run, ""))]
            lines += drawn
            self._line_of += [each] * len(drawn)
        return lines

    def select(self, selection: Selection) -> None:
        super().select(selection)
        self._redraw()

    def choose(self, key: Hashable) -> None:
        """Select the finding with this key."""
        self._wanted = key
        self._redraw()

    def explain(self, finding: Finding) -> None:
        """Show the explanation of this finding."""
        self.add_class("explained")
        self.choose(finding.key)

    def action_move(self, by: int) -> None:
        """Select another finding."""
        shown, row = self.shown, self.row
        if row is not None:
            at = max(0, min(len(shown) - 1, shown.index(row) + by))
            self.choose(shown[at].key)

    def action_explain(self) -> None:
        """Show the evidence of the selected finding, or which rules were checked; or the panels."""
        self.toggle_class("explained")
        self.call_after_refresh(self._redraw)

    async def action_close_explanation(self) -> None:
        if self.has_class("explained"):
            self.action_explain()
        else:
            await self.app.run_action("app.return")

    def action_open(self) -> None:
        """Open the proof of the selected finding."""
        if self.row is not None:
            self.post_message(proof_of(self.row, self.moment))

    def action_mute(self) -> None:
        """Ask the app to hide the selected finding until it ends or shows another run."""
        row = self.row
        if row is not None:
            self.post_message(ScreenPane.Muted(row))
            self.notify(f"{RULES_BY_NAME[row.rule].title} is muted while this view is open", timeout=3)

    async def on_click(self, event: events.Click) -> None:
        """Select a clicked finding, open the one that is selected, or the screen of a clicked panel."""
        x, y = round(event.screen_x), round(event.screen_y)
        if self._list.region.contains(x, y):
            line = y - self._list.region.y
            clicked = self._line_of[line] if line < len(self._line_of) else None
            if clicked is not None and clicked == self.row:
                self.action_open()
            elif clicked is not None:
                self.choose(clicked.key)
        elif self._panels.region.contains(x, y):
            screen = self._drawing.screen_at(x - self._panels.region.x, y - self._panels.region.y)
            if screen is not None:
                event.stop()
                await self.app.run_action(f"app.screen('{screen}')")


def proof_of(finding: Finding, moment: Moment) -> ScreenPane.Drilled:
    """Return the message that opens the proof of a finding, with its subject selected."""
    members = (view.host.agent for run in moment.runs if run.id == finding.run for view in run.hosts)
    agent = finding.subject.agent or next(members, None)
    selection = Selection(agent, finding.subject.device_id)
    proof = finding.proof
    return ScreenPane.Drilled(selection, proof.screen, proof.filter, finding.row, finding)
