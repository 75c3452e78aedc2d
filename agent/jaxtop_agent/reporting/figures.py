"""The figures and notes of a report, of one process. Findings need the whole run: only viewers have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import legible, shorten
from jaxtop.wire import SPENT_ON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop import wire
    from jaxtop_agent.core.board import Board

PREFIX = "jaxtop/"
NOTES_TEXT = f"{PREFIX}notes_text"
MOST_NOTES, LONGEST_NAME = 8, 100
STEPPING = "stepping"


class TrackerReport(NamedTuple):
    """Numbers by name, and one sentence for each thing that is wrong."""

    numbers: dict[str, float]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        return "; ".join(self.notes)


class Figures:
    """Makes reports. Shares of the time are of the time since the report before."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._before: dict[str, int] = {}

    def read(self) -> TrackerReport:
        """Return what is known now; figures that are unknown are left out."""
        notes = tuple(self._notes())[:MOST_NOTES]
        found = {**self._time(), **self._steps(), **self._memory(), "notes": float(len(notes))}
        return TrackerReport({f"{PREFIX}{name}": value for name, value in found.items()}, notes)

    def _time(self) -> dict[str, float]:
        ledger = self._board.ledger.latest
        if ledger is None:
            return {}
        spent = dict(zip(SPENT_ON, ledger.spent_ms, strict=False))
        lately = {kind: max(0, ms - self._before.get(kind, 0)) for kind, ms in spent.items() if ms}
        self._before = spent
        whole, recent = sum(spent.values()), sum(lately.values())
        found = {f"time/{kind}": ms / recent for kind, ms in lately.items()} if recent else {}
        if whole:
            found["goodput"] = spent.get(STEPPING, 0) / whole
        if ledger.steps is not None:
            found["steps"] = float(ledger.steps)
        return found

    def _steps(self) -> dict[str, float]:
        rhythm = self._board.sampler.rhythm
        found: dict[str, float] = {}
        if rhythm is not None and rhythm.p50_us is not None:
            found["step_p50_seconds"] = rhythm.p50_us / 1e6
        if rhythm is not None and rhythm.milli_per_s is not None:
            found["steps_per_second"] = rhythm.milli_per_s / 1000
        return found

    def _memory(self) -> dict[str, float]:
        """Return the memory of the fullest device of this process: in use, at its peak, and free."""
        sample = self._board.sampler.devices
        used, peak = _known(sample.used_bytes), _known(sample.peak_bytes)
        found: dict[str, float] = {}
        if used:
            found["memory_used_bytes"] = float(max(used))
        if peak:
            found["memory_peak_bytes"] = float(max(peak))
        pairs = zip(sample.used_bytes or (), sample.limit_bytes or (), strict=False)
        free = [limit - use for use, limit in pairs if use is not None and limit is not None]
        if free:
            found["memory_free_bytes"] = float(min(free))
        return found

    def _notes(self) -> Iterator[str]:
        board = self._board
        if board.publisher.is_stuck:
            yield "nothing is launched for longer than usual"
        for name in sorted(board.programs.recompiling):
            yield f"{_short(name)} is compiled again and again"
        for each in board.ledger.notable:
            name = _short(each.name)
            if each.bad:
                about = "" if each.is_exact else "about "
                yield f"{name} is not finite since {about}step {each.bad_step}"
            elif each.rise is not None:
                yield f"{name} is far above its usual values since step {each.rise.step}"


def _known(column: wire.pulse.Column) -> list[int]:
    return [each for each in column or () if each is not None]


def _short(name: str) -> str:
    return shorten(legible(name), LONGEST_NAME)
