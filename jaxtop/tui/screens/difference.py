"""The difference between the marked time and the time that is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from jaxtop.base import units
from jaxtop.model.session.difference import (
    UNKNOWN_AFTER,
    UNKNOWN_BEFORE,
    ChangeKind,
    MomentChange,
    PastCluster,
    difference_of,
)
from jaxtop.tui.core.palette import Palette, palette_of
from jaxtop.tui.dialogs.help import Help
from jaxtop.tui.draw.table import NONE, Column, muted, words_column
from jaxtop.tui.draw.time_bar import clock
from jaxtop.tui.screens import SCREENS
from jaxtop.tui.widgets.filter import FilteredTable
from jaxtop.tui.widgets.key_bar import KeyBar
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import ComposeResult


_BAD = ("died", "gone", "stopped", "blocked", "unreachable", "refused")
# The screen with more detail, for each kind of change.
_SCREENS = {
    ChangeKind.HOST: "hosts",
    ChangeKind.PROGRAM: "programs",
    ChangeKind.MEMORY: "memory",
    ChangeKind.ARRAYS: "arrays",
    ChangeKind.LAUNCHES: "programs",
    ChangeKind.DEVICE: "devices",
}
# Changes of these kinds are described in words and have no figures.
_FIGURELESS = frozenset({ChangeKind.HOST})
_ONE_SIDED = frozenset({"new", "gone", "came", "went"})


def signed(change: MomentChange) -> str:
    """Return the change with its sign. For what came or went, it is the whole amount."""
    if change.kind in _FIGURELESS:
        return NONE
    grown = change.grown
    if grown is None and change.how in ("came", "went"):
        grown = (change.after or 0) - (change.before or 0)
    if grown is None:
        return NONE if change.how in _ONE_SIDED else units.NA
    amount = units.number(abs(grown)) if change.kind is ChangeKind.LAUNCHES else units.size(abs(grown))
    sign = "+" if grown > 0 else "-" if grown < 0 else ""
    return f"{sign}{amount}"


def _figure(change: MomentChange, value: int | None) -> str:
    if change.kind in _FIGURELESS:
        return NONE
    if value is None and change.how in _ONE_SIDED:
        return NONE
    return units.number(value) if change.kind is ChangeKind.LAUNCHES else units.size(value)


def _counts(change: MomentChange) -> str:
    return NONE if change.counts is None else f"{change.counts[0]:,} → {change.counts[1]:,}"


def _colour(change: MomentChange, palette: Palette) -> str | None:
    if change.kind is ChangeKind.HOST:
        state = change.how.rpartition(" ")[2]
        return palette.bad if state in _BAD else palette.good if state == "live" else palette.warning
    if change.how in (UNKNOWN_BEFORE, UNKNOWN_AFTER):
        return palette.muted
    if change.kind is ChangeKind.LAUNCHES or change.grown == 0:
        return None
    more = change.after is not None and (change.before is None or change.after > change.before)
    return palette.warning if more else palette.good


def _side(key: str, read: Callable[[MomentChange], int | None]) -> Column[MomentChange]:
    return Column(
        key, key, 8, "right", read, lambda change: _figure(change, read(change)), largest_first=True
    )


def columns_for(runs: Mapping[str, str]) -> tuple[Column[MomentChange], ...]:
    run: Column[MomentChange] = words_column(
        "run", "run", 12, lambda change: runs.get(change.run, change.run)
    )
    return (
        words_column("kind", "kind", 8, lambda change: change.kind, muted),
        words_column("name", "what", 22, lambda change: change.name, flexible=True),
        *((run,) if len(runs) > 1 else ()),
        words_column("how", "how", 18, lambda change: change.how, _colour),
        Column(
            "change", "change", 8, "right", lambda change: change.weight, signed, _colour, largest_first=True
        ),
        _side("before", lambda change: change.before),
        _side("after", lambda change: change.after),
        Column("count", "count", 13, "right", lambda change: change.counts and change.counts[1], _counts),
        words_column("detail", "details", 24, lambda change: change.detail or NONE, muted, flexible=True),
    )


class DifferenceOutcome(NamedTuple):
    """How the screen was closed: whether to drop the mark, and which screen and host to open."""

    drops_mark: bool = False
    screen: str | None = None
    agent: str | None = None


class DifferenceScreen(ModalScreen[DifferenceOutcome]):
    """One line per change. Enter opens the screen with more detail, at the time that is shown."""

    DEFAULT_CSS = """
    DifferenceScreen { layout: vertical; background: $background; }
    DifferenceScreen #title { height: 1; background: $panel; }
    DifferenceScreen #about { height: 1; background: $surface; padding: 0 1; color: $foreground-muted;
                              text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "leave(True)", "Remove the mark"),
        Binding("escape", "leave(False)", "Back", key_display="Esc"),
        Binding("v,q", "leave(False)", "Back", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("colon,ctrl+p", "app.command_palette", "Palette", key_display=":", show=False),
        *(Binding(each.key, f"screen('{each.name}')", each.title, show=False) for each in SCREENS),
    ]

    def __init__(self, marked: PastCluster, here: PastCluster, runs: Mapping[str, str]) -> None:
        super().__init__()
        self._before, self._after = sorted((marked, here), key=lambda then: then.at)
        self._marked_first = self._before is marked
        self._changes = difference_of(self._before, self._after)
        self.table: Table[MomentChange] = Table(
            columns_for(runs),
            id,  # changes of programs with the same name may be equal in all columns
            noun="change",
            pinned=2,
        )

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield Static(self._counts_text(), id="about", markup=False)
        yield FilteredTable(self.table, "words to search for: arrays, memory, device 3, …")
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one("#title", Static).update(self._title(palette_of(self.app.theme)))
        self.table.update_rows(self._changes, "no changes found")
        self.table.focus()

    def action_leave(self, drops_mark: bool) -> None:
        self.dismiss(DifferenceOutcome(drops_mark))

    def action_screen(self, name: str) -> None:
        self.dismiss(DifferenceOutcome(screen=name))

    def action_help(self) -> None:
        self.app.push_screen(Help("Difference", self))

    def on_table_chosen(self, message: Table.Chosen) -> None:
        message.stop()
        if not self.is_current:
            return  # a second Enter arrived before the screen was removed
        change: MomentChange = message.row
        self.dismiss(DifferenceOutcome(screen=_SCREENS[change.kind], agent=change.agent))

    def _title(self, palette: Palette) -> Text:
        span = self._before.at, self._after.at
        line = Text(" ", no_wrap=True, overflow="ellipsis", end="")
        line.append(" DIFFERENCE ", f"bold reverse {palette.warning}")
        line.append("  ")
        for then, is_marked in ((self._before, self._marked_first), (self._after, not self._marked_first)):
            line.append(clock(then.at, span), "bold")
            line.append(" (v)" if is_marked else "", palette.accent)
            line.append(" → " if then is self._before else "")
        line.append(f"  {units.length(span[1] - span[0])} later", palette.muted)
        return line

    def _counts_text(self) -> str:
        counts = [(kind, sum(each.kind is kind for each in self._changes)) for kind in ChangeKind]
        counted = [f"{kind} {count:,}" for kind, count in counts if count]
        return " · ".join(counted) or "no changes"
