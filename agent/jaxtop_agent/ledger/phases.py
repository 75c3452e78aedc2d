"""The phases that the script names with `agent.phase()`. They take precedence over samples of the stack."""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import TracebackType

# The kind of time for each phase name that a script may use.
KINDS = {
    "start": "starting",
    "compile": "compiling",
    "restore": "restoring",
    "step": "stepping",
    "evaluate": "evaluating",
    "save": "saving",
    "input": "input",
}
# The number of ended phases that are kept until the ledger reads them.
MAX_ENDED_PHASES = 4096
# The number of phases that are open inside each other.
MAX_OPEN_PHASES = 32


class NamedPhase(NamedTuple):
    """A phase of the main thread that has ended, on the monotonic clock."""

    start: float
    end: float
    kind: str


class Phases:
    """The phases of the main thread. The script's threads enter and leave; only the main thread's count."""

    def __init__(self) -> None:
        self.ended: deque[NamedPhase] = deque(maxlen=MAX_ENDED_PHASES)
        self._open: list[tuple[float, str]] = []

    def enter(self, kind: str) -> bool:
        """Begin a phase; return False if there are too many within each other."""
        if len(self._open) >= MAX_OPEN_PHASES:
            return False
        self._open.append((monotonic(), kind))
        return True

    def leave(self) -> None:
        """End the innermost phase. What it spent belongs to it alone, not to those around it."""
        if self._open:
            start, kind = self._open.pop()
            self.ended.append(NamedPhase(start, monotonic(), kind))

    def running(self) -> list[NamedPhase]:
        """Return the phases that have not ended, the innermost first."""
        now = monotonic()
        return [NamedPhase(start, now, kind) for start, kind in reversed(self._open.copy())]


class Phase:
    """A phase of the script, for `with`: it never raises, and does nothing without an agent."""

    def __init__(self, phases: Phases | None, name: str) -> None:
        self._phases, self._kind = phases, KINDS.get(name, "other")
        self._has_entered = False

    def __enter__(self) -> None:
        is_main = threading.get_ident() == threading.main_thread().ident
        if self._phases is not None and is_main:
            self._has_entered = self._phases.enter(self._kind)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._phases is not None and self._has_entered:
            self._phases.leave()
            self._has_entered = False
