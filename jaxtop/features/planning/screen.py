"""The plan screen: what the run would need, and how fast it would be, on other meshes and shardings."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message

from jaxtop.base import debuglog
from jaxtop.base.clock import steady
from jaxtop.features.planning import pane as draw
from jaxtop.features.planning.columns import PlanRow, columns
from jaxtop.features.planning.frontier import MIN_HEIGHT, frontier
from jaxtop.features.planning.model import sentences as in_words
from jaxtop.features.planning.model.plan import CannotPlan, Goal, PlanRequest
from jaxtop.tui.core import text
from jaxtop.tui.draw.panes.facts import fitted, joined
from jaxtop.tui.screens.tables import TablePane
from jaxtop.tui.widgets.detail import Detail, Words
from jaxtop.tui.widgets.filter import FilteredTable
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Hashable

    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from jaxtop.features.planning.model.plan import Plan
    from jaxtop.tui.core.moment import Moment

# The most of the lines that the pane takes.
PANE_SHARE = 0.4
# The fewest lines of the pane.
MIN_PANE_LINES = 4
# With fewer lines left for the table, the pane is hidden.
MIN_TABLE_LINES = 8
# The fewest rows of a table with a picture below.
MIN_ROWS = 4
# The lines of the summary, of the header and above the pane.
SURROUNDING_LINES = 3
# Step times change all the time. While nothing else does, a plan is made again after this many seconds.
REFRESH = 10.0
# Planning takes at most this share of the time.
PLANNING_TIME_SHARE = 0.1


class _PlanInputs(NamedTuple):
    """What a plan is made from: the goal, objects that are replaced when they change, and the time."""

    goal: Goal
    inputs: tuple[object, ...]
    changes: int
    at: float

    def is_like(self, other: _PlanInputs) -> bool:
        """Return whether a plan made from these would be about the same."""
        is_same = len(self.inputs) == len(other.inputs) and all(map(is_, self.inputs, other.inputs))
        return is_same and (self.changes == other.changes or 0 <= self.at - other.at < REFRESH)


class Explanation(VerticalScroll):
    """Where the figures of a candidate come from, in place of the table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Back to the candidates", key_display="Esc"),
        Binding("enter", "close", "Back to the candidates", show=False),
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
        Binding("g", "scroll_home", "To the start", show=False),
        Binding("G", "scroll_end", "To the end", show=False),
    ]

    class Closed(Message):
        """The user has read it."""

    def __init__(self) -> None:
        super().__init__(id="explained")
        self.words = Words(id="explanation")

    def compose(self) -> ComposeResult:
        yield self.words

    def action_close(self) -> None:
        self.post_message(self.Closed())


class PlanScreen(TablePane[Table[PlanRow]]):
    """One line per candidate, and below it what changes and which moves are worth making.

    Plans are made on a thread, because they take seconds for thousands of arrays.
    """

    DEFAULT_CSS = """
    PlanScreen #goal { height: auto; max-height: 4; padding: 0 2; }
    PlanScreen #frontier { padding: 0 1; display: none; }
    PlanScreen #below { height: auto; padding: 0 2; border-top: solid $panel; text-wrap: nowrap; }
    PlanScreen.low #below { display: none; }
    PlanScreen #explained { display: none; height: 1fr; padding: 0 2; scrollbar-gutter: stable; }
    PlanScreen.explained #explained { display: block; }
    PlanScreen.explained FilteredTable, PlanScreen.explained #below { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "goal", "Goal"),
        Binding("c", "app.window", "Window now"),
    ]

    @dataclass
    class Planned(Message):
        """A plan was made on the thread, or cannot be made."""

        plan: Plan | None
        why_not: str
        seconds: float

    def __init__(self) -> None:
        super().__init__(Table(columns(0), lambda row: row.key, noun="candidate", pinned=1))
        self._goal_line = Words(id="goal")
        self._frontier = Detail(id="frontier")
        self._below = Words(id="below")
        self._explanation = Explanation()
        self._goal = Goal.THROUGHPUT
        self._plan: Plan | None = None
        self._why_not = ""
        self._made: _PlanInputs | None = None
        # When the next plan may be made.
        self._not_before = 0.0
        # What the explanation was written from.
        self._written: tuple[object, ...] = ()
        # The picture, and what it was drawn from.
        self._drawn: tuple[tuple[object, ...], list[Text]] = (), []
        self.is_planning = False

    def compose(self) -> ComposeResult:
        yield self._goal_line
        yield FilteredTable(self.table)
        yield self._frontier
        yield self._below
        yield self._explanation

    @property
    def first_focus(self) -> Widget:
        return self._explanation if self.has_class("explained") else self.table

    def _prepare(self, _moment: Moment) -> None:
        self._make_plan()
        self._update_rows()

    def _make_plan(self) -> None:
        """Begin to make a plan if what it depends on has changed."""
        moment = self.moment
        if self.is_planning or not moment.host_views:
            return
        programs = [view.host.programs for view in moment.host_views]
        inputs = (moment.probe, moment.array_views, moment.collective_views, self._run, *programs)
        made = _PlanInputs(self._goal, inputs, moment.cluster.changes, moment.now)
        last = self._made
        is_same_goal = last is not None and made.goal == last.goal
        if last and is_same_goal and (made.is_like(last) or steady() < self._not_before):
            return
        self._made = made
        self.is_planning = True
        # Frames are folded while the thread reads: it has a copy of its own.
        copy = replace(moment, cluster=moment.cluster.frozen())
        asked = copy, self._run, PlanRequest(goal=self._goal)
        threading.Thread(target=self._plan_on_thread, args=asked, daemon=True).start()

    @property
    def _run(self) -> str | None:
        """The run of the selected host, else the first one."""
        host = self.moment.host(self.selection.agent) if self.selection.agent else None
        if host is not None:
            return self.moment.run_of(host)
        return next((each.id for each in self.moment.runs), None)

    def _plan_on_thread(self, moment: Moment, run: str | None, asked: PlanRequest) -> None:
        from jaxtop.features.planning.model.planner import plan  # the other screens need no plans
        from jaxtop.features.planning.model.today import today  # as above

        begun, made, why_not = steady(), None, ""
        try:
            made = plan(today(moment.cluster, moment.now, run, moment.probe), asked)
        except CannotPlan as why:
            why_not = str(why)
        except Exception as error:  # noqa: BLE001 - the other screens go on, and this one says what failed
            debuglog.warning("plan", "a plan failed", error=error)
            why_not = f"{type(error).__name__}: {error}"
        with suppress(RuntimeError):  # the app has exited
            self.post_message(self.Planned(made, why_not, steady() - begun))

    def on_plan_screen_planned(self, message: Planned) -> None:
        message.stop()
        self.is_planning = False
        self._plan, self._why_not = message.plan, message.why_not
        self._not_before = steady() + message.seconds / PLANNING_TIME_SHARE
        if self._made is not None and self._made.goal != self._goal:  # it was changed meanwhile
            self._make_plan()
        self._update_rows()
        self._redraw()

    def _update_rows(self) -> None:
        plan = self._plan
        rows = []
        if plan is not None:
            scales = draw.scales(plan)
            rows = [PlanRow(each, plan, scales) for each in plan.candidates]
            self._fit_columns(plan)
        self.table.update_rows(rows, "no candidates")

    def _fit_columns(self, plan: Plan) -> None:
        mesh = max(len(in_words.label(each)) for each in plan.candidates)
        taken = max(len(draw.communication(each)) for each in plan.candidates)
        size = self.size.width, plan.goal, plan.energy_unit, mesh, taken
        self.table.update_columns(columns(*size, has_limit=plan.limit_bytes is not None))

    @property
    def _why_empty(self) -> str:
        """What is missing for a plan, or that it is being made."""
        if not self.moment.host_views:
            return "no plan yet: no process has reported"
        return f"no plan: {self._why_not}" if self._why_not else "planning…"

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < MIN_PANE_LINES + MIN_TABLE_LINES, "low")

    def _draw(self) -> None:
        plan, width = self._plan, max(0, self.size.width - 4)
        if plan is None:
            self._goal_line.set_text(Text(text.printable(self._why_empty), self.palette.muted))
            self._below.set_text(Text())
            self._frontier.display = False
            return
        several = self.moment.run_name(plan.run) if len(self.moment.runs) > 1 else ""
        line = draw.summary(plan, self.ink, is_planning=self.is_planning, run=several)
        self._goal_line.set_text(joined(fitted([line], width, 1)))
        row = self.table.row
        if row is None:  # none matches the filter
            self._below.set_text(Text())
            self._frontier.display = False
            return
        height = int(self.size.height * PANE_SHARE)
        lines = draw.below(row.candidate, row.plan, self.ink, height)
        self._below.set_text(joined(fitted(lines, width, height)))
        # The picture has what the summary, the rows with their header and the lines below leave.
        left = self.size.height - SURROUNDING_LINES - max(MIN_ROWS, len(plan.candidates)) - len(lines)
        self._frontier.display = left >= MIN_HEIGHT and not self.has_class("explained")
        self._frontier.styles.height = max(1, left)
        self._frontier.show(partial(self._write_frontier, plan, row.key))
        room = width - self._explanation.styles.scrollbar_size_vertical
        written = plan, row.key, self.ink, room
        if self.has_class("explained") and written != self._written:
            self._written = written
            self._explanation.words.set_text(draw.explained(row.candidate, row.plan, self.ink, room))

    def _write_frontier(self, plan: Plan, chosen: Hashable, width: int, height: int) -> list[Text]:
        """Draw the picture anew only if a plan, the cursor, the theme or the size changed."""
        inputs = plan, chosen, self.ink, width, height
        if inputs != self._drawn[0]:
            self._drawn = inputs, frontier(plan, chosen, self.ink, width, height)
        return self._drawn[1]

    def action_goal(self) -> None:
        """Sort by the next goal."""
        goals = list(Goal)
        self._goal = goals[(goals.index(self._goal) + 1) % len(goals)]
        self.show(self.moment)

    def _chosen(self, _row: Any) -> None:
        """Show where the figures of a candidate come from."""
        self.add_class("explained")
        self._redraw()
        self._explanation.scroll_home(animate=False)
        self._explanation.focus()

    def on_explanation_closed(self, message: Explanation.Closed) -> None:
        message.stop()
        self.remove_class("explained")
        self.table.focus()

    def point_at(self, row: Hashable) -> None:
        """Put the cursor on the candidate with this key."""
        if row:
            self.table.select(row)
