"""The excess of launches and collectives in a capture over those in short windows of the profiler."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxtop.features.captures.merged_trace import Durations
    from jaxtop.wire import Window

# The programs and the collectives that are listed: those that took longest.
MAX_LISTED = 10


class DurationRow(NamedTuple):
    """A program, or a collective of one: its median duration, and that in short windows if known.

    The duration of a collective in a round is the shortest on any device: the others waited for that one.
    """

    program: str
    op: str | None
    capture_us: float
    samples: int
    window_us: float | None
    window_samples: int

    @property
    def factor(self) -> float | None:
        """How many times as long it was in the capture."""
        return self.capture_us / self.window_us if self.window_us else None


def compared(durations: Durations, windows: Iterable[Window]) -> list[DurationRow]:
    """Return the programs, then the collectives, those that took longest first."""
    launches: dict[tuple[str, str | None], list[int]] = {}
    shortest: dict[tuple[str, object, str, int], int] = {}
    for place, window in enumerate(windows):
        names = [name for name, _ in window.programs]
        for launch in window.launches:
            launches.setdefault((names[launch.program], None), []).append(launch.duration_us)
        for row in window.rounds:
            launch = window.launches[row.launch]
            number = (place, row.launch) if launch.number is None else launch.number
            key = names[launch.program], number, window.ops[row.op], row.round
            known = [each for each in row.durations_us if each is not None]
            if known:
                shortest[key] = min(*known, shortest.get(key, known[0]))
    for (program, _, op, _), lasted in shortest.items():
        launches.setdefault((program, op), []).append(lasted)
    programs = {(name, None): each for name, each in durations.launches.items()}
    return [*_rows(programs, launches), *_rows(durations.collectives, launches)]


def _rows(
    captured: Mapping[tuple[str, str], list[int]] | Mapping[tuple[str, None], list[int]],
    windows: Mapping[tuple[str, str | None], list[int]],
) -> list[DurationRow]:
    longest = sorted(captured.items(), key=lambda each: -sum(each[1]))[:MAX_LISTED]
    rows = []
    for (program, op), took in longest:
        short = windows.get((program, op), [])
        known = median(short) if short else None
        rows.append(DurationRow(program, op, median(took) / 1000, len(took), known, len(short)))
    return rows
