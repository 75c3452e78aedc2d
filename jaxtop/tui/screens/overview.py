"""The overview, the first screen: is the run healthy, what costs most, who causes it, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from jaxtop.base import units
from jaxtop.model import (
    RULES,
    RULES_BY_NAME,
    Finding,
    Severity,
    step_of_run,
)
from jaxtop.model.findings.coverage import HEALTHY, coverage_of
from jaxtop.model.hosts import named
from jaxtop.model.nouns import counted
from jaxtop.model.stalls.case import LOST
from jaxtop.model.wall_time.step_parts import too_little_of
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import NOTHING, Moment, Selection
from jaxtop.tui.draw import overview as draw
from jaxtop.tui.draw.panes.finding import coverage_pane, finding_pane
from jaxtop.tui.draw.table import Column, words
from jaxtop.tui.screens.base import View
from jaxtop.tui.screens.overview_panels import overview
from jaxtop.tui.screens.tables import TableView
from jaxtop.tui.widgets.detail import Detail, Line
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from jaxtop.tui.core.palette import Palette

SIGNS = {Severity.CRITICAL: "▲", Severity.WARNING: "▲", Severity.INFO: "·"}
# With fewer lines than this the findings have no table: the first one is shown in the verdict.
TABLE_FROM = 14
# The width of the titles of the rules, with their sign.
WIDEST_TITLE = max(len(rule.title) for rule in RULES) + 2
# The text of a finding has this width, or less in a narrow terminal: what the margins and hints leave.
MOST_TEXT, BESIDE_TEXT = 40, 12
# The verdict on a live run is provisional for this many seconds.
SETTLES_IN = 10.0


def colour(finding: Finding, palette: Palette) -> str:
    return palette.of_severity(finding.severity.rank)


def columns(width: int = 80) -> tuple[Column[Finding], ...]:
    """Return the columns of the findings in a table of this width."""
    room = max(8, min(MOST_TEXT, width - WIDEST_TITLE - BESIDE_TEXT))
    return (
        Column("rule", "finding", WIDEST_TITLE, "left", lambda each: each.order, _titled, colour),
        words("text", "what it costs", room, lambda each: each.text, flexible=True),
        Column(
            "since", "since", 8, "left", lambda each: each.since, lambda each: text.time_of_day(each.since)
        ),
        words("proof", "proof", 13, lambda each: f"⏎ {each.proof.screen}"),
    )


def _titled(finding: Finding) -> str:
    return f"{SIGNS[finding.severity]} {RULES_BY_NAME[finding.rule].title}"


def verdict(moment: Moment, muted: Collection[tuple[str, str, str]] = ()) -> tuple[str, str]:
    """Return one sentence on the health of the runs, and the name of its colour."""
    checked = coverage_of(moment.cluster)
    why = " (i: why)" * bool(checked.unchecked)
    serious = [each for each in moment.findings if each.severity is not Severity.INFO]
    found = [each for each in serious if each.key not in muted]
    if not moment.host_views:
        return "waiting for a run", "muted"
    if found:
        critical = sum(each.severity is Severity.CRITICAL for each in found)
        count = f"{len(found)} finding{'s' * (len(found) > 1)}"
        count += f", {critical} critical" if critical else ""
        sentence = f"{count}: ⏎ opens the proof, i explains · {checked.in_short}"
        return sentence, "bad" if critical else "warning"
    if not any(view.now.pulse_at for view in moment.host_views):
        return "connecting: no process has reported yet", "muted"
    lost = [view for view in moment.host_views if view.state in LOST]
    if lost:
        return f"{named([view.host for view in lost])} {lost[0].state.value}", "bad"
    facts = [f"{len(moment.device_views)} devices"]
    step = step_of_run(view.now for view in moment.host_views)
    if step is not None:
        facts.append(f"step {units.seconds(step.p50_s)}")
    if serious:
        facts.insert(0, f"{len(serious)} finding{'s' * (len(serious) > 1)} muted")
    doubt = _too_early(moment)
    if doubt:
        return " · ".join([f"nothing wrong so far, {doubt}", checked.in_short + why, *facts]), "muted"
    sentence = checked.after(HEALTHY, " · ", too_little_of(moment.cluster, moment.now))
    kind = "good" if sentence.startswith(HEALTHY) else "muted"
    return " · ".join([sentence[0].upper() + sentence[1:] + why, *facts]), kind


def _too_early(moment: Moment) -> str:
    """Return why a verdict is provisional; empty if it is not."""
    compiling = sum(bool(view.now.pulse.compiling) for view in moment.host_views)
    if 2 * compiling > len(moment.host_views):
        members = [view.host for view in moment.host_views]
        return f"{compiling} of {counted(len(members), members)} compile"
    is_new = moment.since is not None and moment.now - moment.since < SETTLES_IN
    return "still measuring" if is_new else ""


class OverviewView(TableView[Table[Finding]]):
    """A verdict, the findings, and panels with the most important figures."""

    DEFAULT_CSS = """
    OverviewView #verdict { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    OverviewView Table { height: auto; max-height: 40%; padding: 0 1; }
    OverviewView #panels { height: 1fr; }
    OverviewView #explained { display: none; height: 1fr; padding: 0 2; background: $surface; }
    OverviewView.explained #explained { display: block; }
    OverviewView.explained #panels, OverviewView.healthy Table, OverviewView.low Table { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open"),
        Binding("i", "explain", "Why"),
        Binding("x", "mute", "Mute this finding", show=False),
        Binding("escape", "close_explanation", "Back", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(Table(columns(), lambda each: each.key, noun="finding", pinned=1))
        self._verdict = Line(id="verdict")
        self._verdict.can_focus = True
        self._panels = Detail(id="panels")
        self._explained = Detail(id="explained")
        # The findings that the user muted while this view is open.
        self.muted: set[tuple[str, str, str]] = set()
        # What this screen selected by itself.
        self._proposed = NOTHING

    def compose(self) -> ComposeResult:
        yield self._verdict
        yield self.table
        yield self._panels
        yield self._explained

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < TABLE_FROM, "low")
        self.call_after_refresh(self._keep_focus)
        self.table.update_columns(columns(min(event.size.width, 80)))

    def _prepare(self, moment: Moment) -> None:
        shown = [each for each in moment.findings if each.key not in self.muted]
        self.set_class(not shown, "healthy")
        self.table.styles.height = len(shown) + 1
        self.table.update_rows(shown, "no findings")
        self._keep_focus()
        self._select_accused(shown)

    @property
    def first_focus(self) -> Widget:
        """The table; the verdict while the table is hidden: a hidden widget gets no keys."""
        return self._verdict if self.has_class("healthy") or self.has_class("low") else self.table

    @property
    def _pointed(self) -> Finding | None:
        """The finding that keys act on: that under the cursor; the first one while the table is hidden."""
        shown = self.table.shown
        return shown[0] if self.has_class("low") and shown else self.table.row

    def _keep_focus(self) -> None:
        """Move the focus to the widget that has it now, where another one had it, or none."""
        if not self.display or not self.is_on_top:
            return
        wanted = self.first_focus
        if self.app.focused is not wanted and self.app.focused in (None, self._verdict, self.table):
            wanted.focus()

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
            self.post_message(View.Selected(self.selection))

    def _draw(self) -> None:
        sentence, kind = verdict(self.moment, self.muted)
        style: str = getattr(self.palette, kind)
        row, now = self._pointed, self.moment.now
        sign = {"good": "●", "muted": "…"}.get(kind, "▲")
        if row is not None and self.has_class("low"):
            sign, style = SIGNS[row.severity], colour(row, self.palette)
            sentence = f"{RULES_BY_NAME[row.rule].title}: {row.text}"
        self._verdict.read(
            Text(text.printable(f"{sign} {sentence}"), style, no_wrap=True, overflow="ellipsis")
        )
        shown, ink = overview(self.moment, self.palette), self.ink
        self._panels.show(lambda width, height: draw.draw(shown, ink, width, height))
        if row is None:
            found = coverage_of(self.moment.cluster)
            self._explained.show(lambda width, height: coverage_pane(found, ink, width, height))
        else:
            tuning = self.moment.cluster.tuning
            self._explained.show(
                lambda width, height: finding_pane(row, now, ink, width, height, tuning=tuning)
            )

    def select(self, selection: Selection) -> None:
        super().select(selection)
        self._redraw()

    def explain(self, finding: Finding) -> None:
        """Show the explanation of this finding."""
        self.table.select(finding.key)
        self.add_class("explained")
        self._redraw()

    def action_explain(self) -> None:
        """Show the evidence of the finding under the cursor, or which rules were checked; or the panels."""
        self.toggle_class("explained")
        self._redraw()

    async def action_close_explanation(self) -> None:
        if self.has_class("explained"):
            self.action_explain()
        else:
            await self.app.run_action("app.return")

    def action_open(self) -> None:
        """Open the proof of the first finding, where the table is hidden."""
        if self._pointed is not None:
            self._chosen(self._pointed)

    def action_mute(self) -> None:
        """Hide the finding under the cursor for the rest of this view."""
        row = self._pointed
        if row is not None:
            self.muted.add(row.key)
            self.notify(f"{RULES_BY_NAME[row.rule].title} is muted while this view is open", timeout=3)
            self.show(self.moment)

    def _chosen(self, row: Any) -> None:
        self.post_message(proof_of(row, self.moment))


def proof_of(finding: Finding, moment: Moment) -> View.Drilled:
    """Return the message that opens the proof of a finding, with its subject selected."""
    members = (view.host.agent for run in moment.runs if run.id == finding.run for view in run.hosts)
    agent = finding.subject.agent or next(members, None)
    selection = Selection(agent, finding.subject.device_id)
    proof = finding.proof
    return View.Drilled(selection, proof.screen, proof.filter, finding.row, finding)
