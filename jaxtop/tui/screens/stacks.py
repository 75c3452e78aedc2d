"""The stacks screen: the stacks of all processes, with processes at the same place grouped."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from jaxtop.base import units
from jaxtop.model import RULES_BY_NAME, Host, Severity, Stacks, diagnose
from jaxtop.model.naming.sentences import several
from jaxtop.model.stalls.stack_tree import StackNode, native_lines, search_text, stack_nodes
from jaxtop.model.stalls.stacks import is_waiting
from jaxtop.tui.columns.figures import with_bar
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import EMPTY, Moment, Selection
from jaxtop.tui.draw.panes.flame import SharedLine, flame, shared_lines
from jaxtop.tui.draw.table import Column
from jaxtop.tui.filters import expressions
from jaxtop.tui.filters.expressions import Field, words
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.screens.tables import TablePane
from jaxtop.tui.widgets.detail import Detail, Words
from jaxtop.tui.widgets.filter import CONDITIONS, FilteredTable
from jaxtop.tui.widgets.folding import FoldingTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from textual.app import ComposeResult

    from jaxtop.model import Finding
    from jaxtop.tui.core.palette import Palette

# Stacks are sampled on request, and say nothing about what the process does minutes later.
CURRENT_S = 60.0
# The most lines above the rows.
MAX_LINES_ABOVE = 7
# The fewest rows that the table keeps.
MIN_ROWS = 6
# The fewest lines of the tree below the table.
MIN_FLAME_LINES = 5
ASK = "no stacks yet: press p to ask all processes"
# In a recording, no process can be asked.
NONE_RECORDED = "no stacks until here: processes send them during a stall, and when a viewer asks"

STALLED = "stalled"
# JAX neither waits nor compiles here. The script may compute, load data or sleep; the stack does not show.
ELSEWHERE = "own code"


def _lines(read: Callable[[Any], str]) -> Callable[[Host], str]:
    return lambda host: " ".join(
        read(frame) for thread in host.stacks.threads for frame in thread.frames
    ).lower()


FIELDS: dict[str, Field[Host]] = {
    "host": Field(lambda host: host.hostname, words),
    "process": Field(lambda host: host.process_index, expressions.number),
    "file": Field(_lines(lambda frame: frame.file), words),
    "function": Field(_lines(lambda frame: frame.function), words),
    "native": Field(lambda host: " ".join(native_lines(host)).lower(), words),
    "thread": Field(lambda host: " ".join(thread.name for thread in host.stacks.threads), words),
}


def _script(node: StackNode) -> str:
    return "" if node.thread is not None else node.group.text


def _count(node: StackNode) -> str:
    return units.number(len(node.hosts)) if node.thread is None else ""


class StackTable(FoldingTable[StackNode]):
    """A tree of groups of hosts."""

    _moment: Moment = EMPTY
    _grouped: tuple[tuple[object, ...], Sequence[StackNode]] = ((), ())

    def update_moment(self, moment: Moment, empty: str) -> None:
        self._moment = moment
        self._empty = empty
        self._touch()

    def _top(self) -> Sequence[StackNode]:
        """Return the groups. They are rebuilt only when stacks, run names or the filter change."""
        moment = self._moment
        names = moment.run_names
        inputs = (
            self._query.test,
            *names.items(),
            *((view.host.agent, id(view.host.stacks)) for view in moment.host_views),
        )
        if self._grouped[0] != inputs:
            self._grouped = inputs, stack_nodes(moment.cluster, names, self._query.test)
        return self._grouped[1]

    def _opens_unasked(self, node: StackNode) -> bool:
        return node.opens_by_default or (node.depth == 0 and self._query.test is not None)

    def _tally(self) -> tuple[int, int]:
        hosts = sum(bool(view.host.stacks.threads) for view in self._moment.host_views)
        return sum(len(node.hosts) for node in self._shown if node.depth == 0), hosts


class StacksScreen(TablePane[StackTable]):
    """The cause of a stall, if there is one, with the groups of stacks below."""

    DEFAULT_CSS = """
    StacksScreen #diagnosis { height: auto; max-height: 5; padding: 0 2; }
    StacksScreen #flame { padding: 0 2; border-top: solid $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("p", "app.stacks", "Sample now")]
    _nouns = several(())

    def __init__(self) -> None:
        super().__init__(
            StackTable(
                self._columns,
                partial(expressions.understand, fields=FIELDS, text_of=search_text),
                noun="host",
                sort=None,
                tone=self._tone,
            )
        )
        self._diagnosis = Words(id="diagnosis")
        self._flame = Detail(id="flame")
        self._tally = ""
        # The number of processes with stacks, and whether some of them wait.
        self._stacks: list[Stacks] = []
        self._shared: list[SharedLine] = []
        self._reported, self._some_wait = 0, False

    def _columns(self, name: Callable[[StackNode], str]) -> tuple[Column[StackNode], ...]:
        return (
            Column("where", "who", 18, "left", lambda node: node.label, name, flexible=True),
            with_bar(
                Column(
                    "hosts",
                    self._nouns,
                    len(self._nouns),
                    "right",
                    lambda node: len(node.hosts),
                    _count,
                    largest_first=True,
                ),
                self._share,
            ),
            Column("does", "does", 10, "left", self._does, self._does_words, self._does_colour),
            Column("script", "in the script", 22, "left", _script, _script),
            Column("at", "is at", 32, "left", lambda node: node.place, lambda node: node.place),
            Column("age", "ago", 6, "right", self._age, self._ago),
        )

    def compose(self) -> ComposeResult:
        yield self._diagnosis
        yield FilteredTable(self.table, CONDITIONS.format("function~load | file~data_loader"))
        yield self._flame

    def _prepare(self, moment: Moment) -> None:
        if moment.host_views:
            self._nouns = moment.nouns()
        with_stacks = [view.host for view in moment.host_views if view.host.stacks.threads]
        self._reported = len(with_stacks)
        if [host.stacks for host in with_stacks] != self._stacks:
            self._stacks = [host.stacks for host in with_stacks]
            self._shared = shared_lines(with_stacks)
        self._some_wait = any(is_waiting(host.stacks) for host in with_stacks)
        self.table.renew_columns()
        none = ASK if self._can_ask else NONE_RECORDED
        self.table.update_moment(
            moment, none if moment.host_views else "no stacks yet: no process has reported"
        )

    @property
    def _can_ask(self) -> bool:
        return bool(self.app.check_action("stacks", ()))

    def count(self, tally: str) -> None:
        if tally != self._tally:
            self._tally = tally
            self._redraw()

    def _draw(self) -> None:
        self._diagnosis.set_text(self._summary())
        # The tree of all lines has what the rows of the table leave.
        left = self.size.height - MAX_LINES_ABOVE - max(MIN_ROWS, len(self.table.shown))
        self._flame.display = bool(self._shared) and left >= MIN_FLAME_LINES
        self._flame.styles.height = max(1, left)
        self._flame.show(partial(flame, self._shared, self._reported, self.ink))

    def _does(self, node: StackNode) -> str:
        if node.thread is not None:
            return ""
        if node.group.is_making:
            return "compiled" if self._is_past(node) else "compiles"
        if node.group.is_waiting:
            return "waited" if self._is_past(node) else "waits"
        return ELSEWHERE

    def _does_words(self, node: StackNode) -> str:
        return f"{Severity.WARNING.sign} {ELSEWHERE}" if self._stands_out(node) else self._does(node)

    def _share(self, node: StackNode) -> float | None:
        """Return the share of all processes with stacks, of a group."""
        return len(node.hosts) / self._reported if node.depth == 0 and self._reported else None

    def _stands_out(self, node: StackNode) -> bool:
        """Whether it runs its own code while others wait."""
        return self._does(node) == ELSEWHERE and not self._is_past(node) and self._some_wait

    def _does_colour(self, node: StackNode, palette: Palette) -> str | None:
        return palette.warning if self._does(node) == ELSEWHERE and not self._is_past(node) else palette.muted

    def _tone(self, node: StackNode, palette: Palette) -> str | None:
        """Dim old stacks and lines of libraries; mark what runs while others wait."""
        if node.depth == 0 and self._stands_out(node):
            return palette.warning
        is_library = node.frame is not None and "/" in node.frame.file
        return palette.muted if is_library or node.text or self._is_past(node) else None

    def _is_past(self, node: StackNode) -> bool:
        """Whether its stacks are old, or all its processes have exited or report nothing."""
        if all(self.moment.ago(host, host.stacks.at_ms) > CURRENT_S for host in node.hosts):
            return True
        states = self.moment.states
        return all(host.agent in states and states[host.agent].is_silent for host in node.hosts)

    def _age(self, node: StackNode) -> float | None:
        if node.thread is not None:
            return None
        return max(self.moment.ago(host, host.stacks.at_ms) for host in node.hosts)

    def _ago(self, node: StackNode) -> str:
        return "" if node.thread is not None else units.age(self._age(node))

    def _summary(self) -> Text:
        palette, moment = self.palette, self.moment
        lines: list[Text] = []
        diagnosed: set[str] = set()
        for run in moment.runs:
            found = diagnose(moment.cluster, run.id, moment.now)
            if found is not None:
                diagnosed.add(run.id)
                name = f"{moment.run_name(run.id)}: " if len(moment.runs) > 1 else ""
                colour = palette.severity_colour(Severity(found.severity).rank)
                lines.append(Text(text.printable(f"! {name}{found.text}"), colour))
        lines += [self._proven(each) for each in moment.findings if self._is_proven_here(each, diagnosed)]
        present = [view for view in moment.host_views if not view.state.is_silent]
        reported = [view for view in moment.host_views if view.host.stacks.threads]
        if reported:
            here = sum(bool(view.host.stacks.threads) for view in present)
            past = Counter(view.state for view in reported if view.state.is_silent)
            live = "live processes" if past else "processes"
            summary = f"stacks of {here:,} of {len(present):,} {live}"
            if past:
                silent = ", ".join(f"{count:,} {state.value}" for state, count in past.items())
                summary += f"; last stacks of {silent} process{'es' if past.total() > 1 else ''}"
            again = "; press p to sample again" * self._can_ask
            lines.append(Text(f"{summary}{again}", palette.muted))
        if self._tally:
            lines.append(Text(text.printable(self._tally)))
        return Text("\n").join(lines)

    @staticmethod
    def _is_proven_here(finding: Finding, diagnosed: Collection[str]) -> bool:
        """Return whether the sign of this screen stands for a finding that no diagnosis above says."""
        is_above = finding.rule == STALLED and finding.run in diagnosed
        return finding.proof.screen == "stacks" and finding.severity is not Severity.INFO and not is_above

    def _proven(self, finding: Finding) -> Text:
        words = f"{finding.severity.sign} {RULES_BY_NAME[finding.rule].title}: {finding.text}"
        return Text(text.printable(words), self.palette.severity_colour(finding.severity.rank))

    def _moved(self, row: Any) -> None:
        host = row.host
        if host is not None:
            self.selection = Selection(host.agent)
            self.post_message(ScreenPane.Selected(self.selection))
