"""The compilations of the processes: the latest ones with their causes, and the time they took by line."""

from __future__ import annotations

from collections import Counter, defaultdict
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.host import run_of
from jaxtop.model.hosts import host_views
from jaxtop.model.programs.rates import program_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop import wire
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState

# The most compilations that are listed, of all processes together.
MAX_LISTED = 2000


class CompileView(NamedTuple):
    """A compilation and its process."""

    host: Host
    compilation: wire.Compilation


class CompiledLineView(NamedTuple):
    """The compilations of a function that one line of the script started.

    Processes compile the same together, so the figures are those of the process that lost most time.
    """

    run: str
    line: wire.CompiledLine
    processes: int


class Cause(NamedTuple):
    """The most frequent cause of a function's latest compilations."""

    last: wire.Compilation
    times: int
    total: int

    @property
    def words(self) -> str:
        """The cause in words, and how many of the compilations it explains."""
        often = f" ({self.times:,} of {self.total:,} times)" if self.total > 1 else ""
        return f"{self.last.why}{often}"


def latest_compiles(cluster: ClusterState, now: float) -> list[CompileView]:
    """Return the latest compilations of all processes, the oldest first."""
    found = (
        CompileView(view.host, each)
        for view in host_views(cluster, now)
        for each in view.host.programs.compilations
    )
    return nlargest(MAX_LISTED, found, key=lambda each: each.compilation.at_ms)[::-1]


def compiled_lines(cluster: ClusterState, now: float) -> list[CompiledLineView]:
    """Return the lines of each run with their compilations, those that lost most time first."""
    by_line: dict[tuple[str, str, str], list[wire.CompiledLine]] = defaultdict(list)
    for view in host_views(cluster, now):
        for each in view.host.programs.lines:
            by_line[run_of(view.host), each.function, each.source].append(each)
    found = [
        CompiledLineView(run, max(lines, key=lambda each: each.duration_ms), len(lines))
        for (run, _, _), lines in by_line.items()
    ]
    return sorted(found, key=lambda each: -each.line.duration_ms)


def lost_ms(lines: Iterable[wire.CompiledLine]) -> dict[str, int]:
    """Return the time that compilations took by program name."""
    found: dict[str, int] = defaultdict(int)
    for each in lines:
        found[program_of(each.function)] += each.duration_ms
    return found


def cause_of(compilations: Sequence[wire.Compilation], program: str) -> Cause | None:
    """Return why a program was compiled again; None if it was not, or the cause is unknown."""
    again = [each for each in compilations if each.is_again and program_of(each.function) == program]
    if not again:
        return None
    (key, times), *_ = Counter((each.cause, each.argument) for each in reversed(again)).most_common(1)
    last = next(each for each in reversed(again) if (each.cause, each.argument) == key)
    return Cause(last, times, len(again))
