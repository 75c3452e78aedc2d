"""The collectives screen: the cost of each collective, the waits in it, and its straggler."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Container

from jaxtop.base import units
from jaxtop.base.feature import hooks
from jaxtop.model.collectives import CollectiveView, step_shares
from jaxtop.model.collectives.doubts import doubts_about
from jaxtop.model.collectives.small_collectives import folded_views, group_key
from jaxtop.model.collectives.timeline import windows_seen
from jaxtop.tui.core.moment import Moment, Selection, name_of
from jaxtop.tui.draw.panes.collective import (
    CollectiveSubject,
    axes_in_words,
    pane,
    straggler_in_words,
)
from jaxtop.tui.draw.panes.facts import first_fitting
from jaxtop.tui.draw.panes.timeline import Chart, chart
from jaxtop.tui.draw.table import Column, figure_column, words_column
from jaxtop.tui.filters.collectives import understand
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.screens.tables import TablePane
from jaxtop.tui.widgets.detail import Detail, Words
from jaxtop.tui.widgets.filter import CONDITIONS, FilteredTable
from jaxtop.tui.widgets.folding import FOLDED
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Hashable

    from textual.app import ComposeResult

    from jaxtop.tui.core.palette import Palette

# The fewest rows that the table keeps.
MIN_ROWS = 6
# The share of the lines that the table keeps; the pane gets the lines that the table does not need.
TABLE_SHARE = 0.3
# The lines of the summary, of the header and above the pane.
SURROUNDING_LINES = 3
# A lower pane is hidden.
MIN_PANE_LINES = 6
# From this width on, the pane is beside a table with more rows.
PANE_BESIDE_WIDTH = 170
# For a collective whose times are of an earlier rhythm of the step; the pane has their age.
OUTDATED = "outdated"


def _late_colour(view: CollectiveView, palette: Palette) -> str | None:
    if view.straggler is not None:
        return palette.warning
    return palette.muted if not view.is_enough else None


def _straggler(view: CollectiveView) -> str:
    if not view.is_current:
        return OUTDATED
    if view.straggler is None and view.samples and view.is_judged and not view.is_enough:
        return f"too few: {view.samples}"
    return straggler_in_words(view)


def _lateness(view: CollectiveView) -> float | None:
    return None if view.straggler is None else view.straggler.late_us


def _few(view: CollectiveView, palette: Palette) -> str | None:
    return None if view.is_enough and view.is_current else palette.muted


def _added_colour(view: CollectiveView, palette: Palette) -> str | None:
    return palette.warning if view.added in {"resharding", "rematerialization"} else None


def _why(view: CollectiveView) -> str | None:
    """Return whether the script wrote it, else why the partitioner added it."""
    return view.added or ("script" if view.line else None)


def _kind(view: CollectiveView) -> str:
    return f"{FOLDED} {len(view.folded)} {view.kind}s" if view.folded else view.kind


def _times(view: CollectiveView) -> str:
    return f"×{view.times:,}" if view.times is not None else units.NA


_rate = partial(units.number, digits=1)
COLUMNS: tuple[Column[CollectiveView], ...] = (
    words_column("kind", "kind", 14, _kind, flexible=True),
    words_column("axes", "axes", 10, axes_in_words),
    figure_column("bytes", "bytes", 6, lambda view: view.bytes, units.size),
    figure_column("p50", "p50", 6, lambda view: view.p50_us, units.micros, style=_few),
    figure_column("wait", "wait", 6, lambda view: view.wait_us, units.micros, style=_few),
    Column("straggler", "straggler", 18, "left", _lateness, _straggler, _late_colour, largest_first=True),
    figure_column("rate", "per s", 6, lambda view: view.per_second, _rate),
    figure_column("size", "group", 5, lambda view: view.group_size, units.number),
    words_column("line", "line", 16, lambda view: view.line or None),
    words_column("added", "why", 12, _why, _added_colour),
    words_column("program", "program", 16, lambda view: view.program),
    words_column("source", "op", 16, lambda view: view.source or view.op),
    figure_column("p99", "p99", 6, lambda view: view.p99_us, units.micros, style=_few),
    figure_column("transfer", "transf", 6, lambda view: view.transfer_us, units.micros, style=_few),
    figure_column(
        "bandwidth", "bus bw~", 7, lambda view: view.busbw_bytes_per_s, units.bandwidth, style=_few
    ),
    figure_column("samples", "samples", 7, lambda view: view.samples, units.number, style=_few),
    Column("times", "times", 5, "right", lambda view: view.times, _times, largest_first=True),
    words_column("shape", "shape", 20, lambda view: view.shape, flexible=True),
)


def empty(moment: Moment) -> str:
    if not moment.host_views:
        return "no collectives yet: no process has reported"
    if len(moment.device_views) == 1:
        return "no collectives: the run has one device"
    inventories = [each for view in moment.host_views for each in view.host.inventories.values()]
    reasons = [each.why_not for each in inventories if each.why_not] or moment.not_on("programs")
    if reasons:
        return f"no collectives: {reasons[0]}"
    if not inventories:
        return "no collectives yet: no program has been read yet"
    return "no collectives: no program contains any"


def untimed(moment: Moment, ago: float | None = None) -> str:
    """Return why there are no times, or none since those of `ago` seconds ago."""
    none = "no times" if ago is None else f"the times are of {units.age(ago)} ago, no newer ones"
    note = next((view.host.window.note for view in moment.host_views if view.host.window.note), "")
    reasons = moment.not_on("collectives")
    if reasons:
        hint = "; press c for a window, C for a full profile" if reasons[0].startswith("on request") else ""
        return f"{none}: {reasons[0]}{hint}"
    if note:
        return f"{none}: {note}"
    windows = windows_seen(moment.cluster).windows
    if windows:
        count = "one window" if windows == 1 else f"{windows:,} windows"
        return f"not in the {count} so far: press c for another"
    return "waiting for the first window: press c to take one now"


def summary(moment: Moment, width: int, palette: Palette) -> Text:
    """Return the number of collectives, their share of a launch, and the age of the measurement."""
    views = moment.collective_views
    if not views:
        return Text()
    crossing = sum(view.crosses_hosts is True for view in views)
    count = f"{len(views):,} collective{'s' * (len(views) > 1)}"
    across = f", {crossing:,} across {moment.nouns()}" if crossing else ""
    lately = _lately(moment)
    found = next((each for each in step_shares(moment.cluster) if each.share is not None), None)
    if found is None:
        variants = [[count + across, *lately], [count, *lately[:1]]]
    else:
        exposed = "" if found.exposed_share is None else f", {units.share(found.exposed_share)} exposed"
        share, rest = units.share(found.share), f"in collectives{exposed}"
        variants = [
            [count + across, f"{share} of {found.program} {rest}", *lately],
            [count, f"{share} of {found.program} {rest}", *lately[:1]],
            [count, f"{share} of a launch {rest}", *lately[:1]],
            [count, f"{share} of a launch{exposed}", *lately[:1]],
            [count, f"{share} of a launch{exposed}"],
        ]
    return first_fitting(variants, width, palette.muted)


def _lately(moment: Moment) -> list[str]:
    seen, left_out = windows_seen(moment.cluster), doubts_about(moment.cluster).words
    if seen.newest is None or not seen.windows:
        return [untimed(moment)]
    age = units.age(moment.ago(seen.newest, seen.newest.window.at_ms))
    note = seen.newest.window.note
    last = f"windows: {seen.windows:,}, last {age} ago" + (f" without times: {note}" if note else "")
    return [*left_out, last, *moment.not_on("collectives")[:1]]


class CollectivesScreen(TablePane[Table[CollectiveView]]):
    """One line per collective, with the details of the one under the cursor below."""

    DEFAULT_CSS = """
    CollectivesScreen #step { height: 1; padding: 0 2; }
    CollectivesScreen #collective { padding: 0 2; border-top: solid $panel; }
    CollectivesScreen.low #collective { display: none; }
    CollectivesScreen.wide #both { layout: horizontal; }
    CollectivesScreen.wide FilteredTable { width: 42%; }
    CollectivesScreen.wide #collective { width: 1fr; height: 1fr; border-top: none; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "paint", "Groups on the mesh", show=False),
        Binding("c", "app.window", "Window now"),
        Binding("asterisk", "fold_all", "Fold all again", show=False, key_display="*"),
    ]

    def __init__(self) -> None:
        super().__init__(
            Table(COLUMNS, lambda view: view.key, noun="collective", pinned=1, understand=understand)
        )
        self._step = Words(id="step")
        self._pane = Detail(id="collective")
        self._chart = Chart()
        self._rows = 0
        self._unfolded: set[Hashable] = set()
        self._run: Column[CollectiveView] = words_column(
            "run", "run", 12, lambda view: self.moment.run_name(view.run)
        )

    def compose(self) -> ComposeResult:
        yield self._step
        with Container(id="both"):
            yield FilteredTable(self.table, CONDITIONS.format("wait>5000 & axes~data | kind=all-reduce"))
            yield self._pane

    def _lay_out(self) -> None:
        """Give the pane what the rows leave: below the table, or beside it."""
        width, height = self.size
        most = max(MIN_ROWS, int(TABLE_SHARE * height))
        is_wide, left = (
            width >= PANE_BESIDE_WIDTH and self._rows > most,
            height - SURROUNDING_LINES - min(self._rows, most),
        )
        self.set_class(is_wide, "wide")
        self.set_class(not self._rows or (left < MIN_PANE_LINES and not is_wide), "low")
        self._pane.styles.height = None if is_wide else left + 1

    def _prepare(self, moment: Moment) -> None:
        self.table.update_columns((COLUMNS[0], self._run, *COLUMNS[1:]) if len(moment.runs) > 1 else COLUMNS)
        listed = moment.collective_views
        rows = listed if self.table.words else folded_views(listed, self._unfolded)
        self._rows = len(rows)
        self.table.update_rows(rows, empty(moment), at=moment.now)

    def _draw(self) -> None:
        self._step.set_text(summary(self.moment, max(0, self.size.width - 4), self.palette))
        self._lay_out()
        self._pane.show(self._write)

    def _write(self, width: int, height: int) -> Text | list[Text]:
        view, moment = self.table.row, self.moment
        if view is None:
            return Text()
        drawn = view.folded[0] if view.folded else view

        def launches(width: int, height: int) -> Chart:
            self._chart = chart(moment, drawn, (width, height), self._chart)
            return self._chart

        notes = (note(moment, view) for note in hooks("bandwidth_note"))
        compared = next(filter(None, notes), "")
        host = None if view.taken is None else moment.host(view.taken[0])
        ago = None if host is None or view.taken is None else moment.ago(host, view.taken[1])
        reason = untimed(moment, None if view.p50_us is None else ago)
        subject = CollectiveSubject(
            view, drawn, launches, self._host_name, reason, compared, ago, moment.nouns(view.run)
        )
        return pane(subject, self.ink, width, height)

    def point_at(self, row: Hashable) -> None:
        """Put the cursor on the collective with this key, or on the one of this name that waits longest."""
        views = self.moment.collective_views
        named = [view for view in views if row in (view.key, view.op)]
        if not named and isinstance(row, tuple):  # the program may be listed without its fingerprint
            named = [view for view in views if (view.run, view.program, view.op) == (*row[:2], row[-1])]
            named = named or [view for view in views if view.op == row[-1]]
        chosen = max(named, key=lambda view: view.wait_us or 0, default=None)
        if chosen is not None:
            self._unfold(chosen)
        self.table.select(None if chosen is None else chosen.key)

    def _unfold(self, row: CollectiveView) -> None:
        """List the collectives of a row singly."""
        self._unfolded.add(group_key(row))
        self.show(self.moment)

    def action_fold_all(self) -> None:
        """Fold again what was unfolded."""
        self._unfolded.clear()
        self.show(self.moment)

    def _host_name(self, agent: str) -> str:
        host = self.moment.host(agent)
        return agent if host is None else name_of(host)

    def _chosen(self, row: Any) -> None:
        if row.folded:
            self._unfold(row)
            self.table.select(row.folded[0].key)
        else:
            self.action_paint()

    def action_paint(self) -> None:
        view = self.table.row
        if view is None:
            return
        if not view.groups:
            self.app.notify(f"the devices of {view.op} are unknown", severity="warning")
            return
        late = view.straggler
        here = self.selection if late is None else Selection(late.agent, late.device_id)
        self.selection = here._replace(array=None, collective=view.key)
        self.post_message(ScreenPane.Drilled(self.selection, "mesh"))
