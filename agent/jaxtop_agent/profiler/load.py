"""The estimate of a window before it opens: events of the launched programs, and time between launches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from jaxtop_agent.core.board import Board, ProgramKey

NO_COLLECTIVES = "no program has collectives"
NOT_READ = "for programs to be read"
# A program with fewer launches in a window is not a part of the step.
MIN_LAUNCHES = 2
# After this many seconds without a launch a window would be empty.
IDLE_S = 5.0
# A function that is launched this many times less often than another is not a step: it may be an evaluation.
RARE = 20
# Without collectives, programs with more events than this in a launch are not worth a window.
FEW_EVENTS = 4_000


class WindowEstimate(NamedTuple):
    """The expected events of a window, and the time between launches; None if unknown.

    `launch` counts the events of the smallest launch with collectives. `slowest_s` is the time between
    launches of the slowest repeated program, `fastest_s` of the fastest program with collectives.
    """

    per_second: float | None = None
    launch: int | None = None
    slowest_s: float | None = None
    fastest_s: float | None = None


class StepsMade(NamedTuple):
    """The functions of a step (empty if the script reports its steps), and the number of steps so far."""

    functions: tuple[str, ...]
    made: float


class Load:
    """An estimate from the launches of each program between two looks."""

    def __init__(self, board: Board, launches: Callable[[], Mapping[str, int]]) -> None:
        self._board = board
        self._launches = launches
        self._at = -math.inf
        self._before: dict[str, int] = {}
        self._moved_at = -math.inf  # when launches were last counted

    @property
    def why_closed(self) -> str | None:
        """Why a window has nothing to measure; None if it has, or may have, something."""
        board = self._board
        inventories = board.programs.inventories.values()
        if any(each.collectives or each.unread or each.rest or each.why_not for each in inventories):
            return None
        if board.programs.recorded is None:
            return NOT_READ
        return None if self._is_small(board.programs.recorded) else NO_COLLECTIVES

    @property
    def is_idle(self) -> bool:
        """Whether nothing was launched for some seconds, as while the step compiles."""
        return self._at - self._moved_at > IDLE_S

    def reducing(self) -> set[ProgramKey]:
        """Return the programs with collectives whose functions were launched so far.

        Another variant of a function is another program: it shows which one is launched now.
        """
        launched = {name for name, count in self._launches_by_program().items() if count >= MIN_LAUNCHES}
        inventories = self._board.programs.inventories
        return {key for key, each in inventories.items() if each.collectives and key[0] in launched}

    def _is_small(self, recorded: Mapping[str, int | None]) -> bool:
        """Return whether all programs that are launched often are known to make few events.

        Their windows show how long launches take. They are not worth more than that, so nothing is tried out.
        """
        launched = {
            name: count for name, count in self._launches_by_program().items() if count >= MIN_LAUNCHES
        }
        often = max(launched.values(), default=0)
        sizes = [recorded.get(name) for name, count in launched.items() if count * RARE >= often]
        return bool(sizes) and all(size is not None and size <= FEW_EVENTS for size in sizes)

    def look(self, now: float, most: int) -> WindowEstimate:
        """Estimate from the launches since the last look; `most` is the limit of events of a window."""
        passed, before, recorded = now - self._at, self._before, self._board.programs.recorded
        self._at, self._before = now, self._launches_by_program()
        if self._before != before:
            self._moved_at = now
        launched = {name: count - before.get(name, 0) for name, count in self._before.items()}
        with_collectives = self._with_collectives()
        known = {name: count for name, count in launched.items() if name in before}
        between = seconds_between(passed, known, with_collectives)
        smallest = _smallest(recorded or {}, with_collectives, launched)
        if recorded is None or any(size is None or size > most for size in recorded.values()):
            return WindowEstimate(None, smallest, *between)
        seen = any(launched.get(name) for name in with_collectives or launched)
        events = sum(count * (recorded.get(name) or 0) for name, count in launched.items())
        return WindowEstimate(events / passed if seen else None, smallest, *between)

    def recorder(self) -> Callable[[], int]:
        """Return a function that counts the events of known programs launched from now on."""
        before, sizes = self._launches_by_program(), self._board.programs.recorded or {}
        return lambda: sum(
            (count - before.get(name, 0)) * (sizes.get(name) or 0)
            for name, count in self._launches_by_program().items()
        )

    def steps(self, reported: int) -> StepsMade | None:
        """Return the number of steps: those that the script reported, or by its launches; None if unknown."""
        rhythm = self._board.sampler.rhythm
        if rhythm is None:
            return None
        if not rhythm.functions:
            return StepsMade((), reported)
        counts = self._launches()
        launches = sum(counts.get(name, 0) for name in rhythm.functions)
        if not rhythm.launches_centi:
            return None
        return StepsMade(rhythm.functions, launches * 100 / rhythm.launches_centi)

    def _with_collectives(self) -> set[str]:
        return {name for (name, _), each in self._board.programs.inventories.items() if each.collectives}

    def _launches_by_program(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for function, count in self._launches().items():
            name = program_of(function)
            found[name] = found.get(name, 0) + count
        return found


def seconds_between(
    passed: float, launched: Mapping[str, int], with_collectives: AbstractSet[str]
) -> tuple[float | None, float | None]:
    """Return the seconds between launches of the slowest repeated program, and of the fastest.

    Programs with collectives take precedence. None if no program was launched repeatedly; if none of these
    is known to have collectives, the fastest may be no step, so the slowest counts as the fastest too.
    """
    repeated = {name: count for name, count in launched.items() if count >= MIN_LAUNCHES}
    reducing = {name: count for name, count in repeated.items() if name in with_collectives}
    among = reducing or repeated
    if not among:
        return None, None
    often = max(among.values())
    slowest = passed / min(count for count in among.values() if count * RARE >= often)
    return slowest, passed / often if reducing else slowest


def _smallest(
    sizes: Mapping[str, int | None], with_collectives: AbstractSet[str], launched: Mapping[str, int]
) -> int | None:
    """Return the events of the smallest program with collectives that was launched, if its size is known.

    If none was launched, the smallest of all programs with collectives counts, if all sizes are known.
    """
    sized = {name: size for name in with_collectives if (size := sizes.get(name)) is not None}
    lately = [size for name, size in sized.items() if launched.get(name)]
    if lately:
        return min(lately)
    return min(sized.values(), default=None) if len(sized) == len(with_collectives) else None
