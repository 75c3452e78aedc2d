"""The main threads of all processes as one tree of lines, each with the processes that are in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from jaxtop.model.stalls.stacks import line_text, main_frames
from jaxtop.tui.core import text
from jaxtop.tui.core.palette import STEPS
from jaxtop.tui.draw.bars import pair
from jaxtop.tui.draw.panel import cut
from jaxtop.tui.draw.sparkline import bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import Host, Place
    from jaxtop.tui.draw.ink import Ink

BAR = 12


class SharedLine(NamedTuple):
    """A line below those that called it, the outermost first, and the number of processes in it."""

    path: tuple[Place, ...]
    processes: int


def shared_lines(hosts: Sequence[Host]) -> list[SharedLine]:
    """Return the lines of all main threads, each before those that it called, the commonest first."""
    count: Counter[tuple[Place, ...]] = Counter()
    for frames, processes in Counter(tuple(main_frames(host.stacks)) for host in hosts).items():
        for depth in range(len(frames)):
            count[frames[: depth + 1]] += processes

    def rank(path: tuple[Place, ...]) -> list[tuple[int, str, int, str]]:
        parts = (path[: depth + 1] for depth in range(len(path)))
        return [(-count[part], part[-1].file, part[-1].line, part[-1].function) for part in parts]

    return [SharedLine(path, count[path]) for path in sorted(count, key=rank)]


def flame(shared: Sequence[SharedLine], total: int, ink: Ink, width: int, height: int) -> list[Text]:
    """Return as many lines as there is room for, with their share of all processes; libraries are dimmed."""
    lines = [Text("Main threads, from the outermost line in", ink.label, no_wrap=True)]
    for path, processes in shared[: max(0, height - 1)]:
        share, frame = processes / total, path[-1]
        colour = ink.palette.ramp[min(STEPS - 1, int(share * STEPS))]
        words = "  " * (len(path) - 1) + text.printable(line_text(frame))
        line = Text.assemble(
            (bar(share, BAR), pair(ink, colour)),
            (f" {processes:>4,}  ", ink.figure),
            (words, ink.note if "/" in frame.file else ink.figure),
            no_wrap=True,
        )
        cut(line, width)
        lines.append(line)
    return lines
