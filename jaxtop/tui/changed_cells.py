"""The cells of the terminal: of each update, only the cells that changed are sent.

Textual sends whole lines of a widget, where a curve that moves changes its edge and a clock one digit.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.control import Control
from rich.segment import Segment
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console
    from rich.style import Style

    # A character and its style. The second cell of a wide character is empty.
    Cell = tuple[str, Style | None]

# Two changes at most this many cells apart are sent as one: moving the cursor takes as many bytes.
MAX_GAP_CELLS = 8


class ChangedCells:
    """The cells that were sent last."""

    def __init__(self) -> None:
        self._sent: dict[int, list[Cell | None]] = {}

    def forget(self) -> None:
        """Send all that is drawn next: the terminal may show something else."""
        self._sent.clear()

    def only_changes(self, update: Any) -> Any:
        """Return an update of the screen that sends only the cells that changed; anything else as it is."""
        if isinstance(update, LayoutUpdate):
            return _WholeScreen(self, update)
        return _Changes(self, update) if isinstance(update, ChopsUpdate) else update

    def send(self, x: int, y: int, strip: Strip, console: Console) -> str:
        """Return what draws those cells of a strip that changed."""
        cells, line = _cells(strip), self._sent.setdefault(y, [])
        end = x + len(cells)
        line += [None] * (end - len(line))
        before, line[x:end] = line[x:end], cells
        changed = [] if before == cells else [at for at, cell in enumerate(cells) if before[at] != cell]
        return "".join(
            _drawn(x + start, y, cells[start:end], console) for start, end in _runs(cells, changed)
        )


class _WholeScreen(CompositorUpdate):
    """An update of the whole screen, which is sent in any case."""

    def __init__(self, cells: ChangedCells, update: LayoutUpdate) -> None:
        self._cells, self._update = cells, update

    def render_segments(self, console: Console) -> str:
        cells, region = self._cells, self._update.region
        cells.forget()
        lines = enumerate((Strip.join(line) for line in self._update.strips), region.y)
        return "".join(cells.send(region.x, y, strip, console) for y, strip in lines)


class _Changes(CompositorUpdate):
    """An update of parts of lines."""

    def __init__(self, cells: ChangedCells, update: ChopsUpdate) -> None:
        self._cells, self._update = cells, update

    def render_segments(self, console: Console) -> str:
        update = self._update
        return "".join(
            self._cells.send(x, y, strip.crop(0, right - x), console)
            for y, left, right in update.spans
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False)
            if strip is not None and x < right and end > left
        )


def _cells(strip: Strip) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, _ in strip:
        if text.isascii() or cell_len(text) == len(text):
            cells += [(letter, style) for letter in text]
            continue
        for letter in text:
            width = cell_len(letter)
            if width:
                cells += [(letter, style), *[("", style)] * (width - 1)]
            elif cells:  # it changes the letter before it
                cells[-1] = cells[-1][0] + letter, cells[-1][1]
    return cells


def _runs(cells: Sequence[Cell], changed: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return where to begin and to end drawing; no run cuts through a wide character."""
    gaps = [(at, after) for at, after in pairwise(changed) if after - at > MAX_GAP_CELLS]
    firsts = [*changed[:1], *(after for _, after in gaps)]
    lasts = [*(at for at, _ in gaps), *changed[-1:]]
    for first, last in zip(firsts, lasts, strict=True):
        start, end = first, last + 1
        while start and not cells[start][0]:
            start -= 1
        while end < len(cells) and not cells[end][0]:
            end += 1
        yield start, end


def _drawn(x: int, y: int, cells: Iterable[Cell], console: Console) -> str:
    runs = groupby(cells, key=itemgetter(1))
    segments = [Segment("".join(letter for letter, _ in run), style) for style, run in runs]
    return Control.move_to(x, y).segment.text + Strip(segments).render(console)
