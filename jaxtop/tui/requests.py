"""The requests of the app to processes, sent through a callable, and the messages about their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from jaxtop.tui.interval import USUAL, every, stop_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

What = Literal["capture", "stacks", "pace"]
# The object of each request, as messages name it.
_FOR: dict[What, str] = {
    "capture": "for a window of the profiler",
    "stacks": "for their stacks",
    "pace": "for figures",
}
NOBODY = "nobody can be asked: what is shown does not come from processes that run now"


class Answers(Protocol):
    """The answers to one request so far, filled by another thread."""

    @property
    def asked(self) -> int:
        """The number of processes that were asked."""

    @property
    def answered(self) -> int:
        """The number of processes that complied."""

    @property
    def silent(self) -> int:
        """The number of processes that did not answer in time."""

    @property
    def refused(self) -> Mapping[str, int]:
        """The reasons of processes that refused, with the number of processes for each."""


class Ask(Protocol):
    """Sends a request to these agents. A request of "pace" has an interval."""

    def __call__(self, what: What, agents: Sequence[str], interval_ms: int | None, /) -> Answers: ...


class Outcome(NamedTuple):
    """A message for the user about a request."""

    text: str
    is_good: bool

    @property
    def severity(self) -> Literal["information", "warning"]:
        return "information" if self.is_good else "warning"


@dataclass(frozen=True)
class Question:
    """A request to processes, with the answers so far."""

    what: What
    answers: Answers
    interval_ms: int | None = None

    @property
    def is_open(self) -> bool:
        answers = self.answers
        return answers.answered + answers.silent + sum(answers.refused.values()) < answers.asked

    @property
    def progress(self) -> str:
        """The message to show while the request is open."""
        answers = self.answers
        return f"asking {processes(answers.asked)} {self._for}: {answers.answered:,} answered"

    @property
    def outcome(self) -> Outcome:
        """The message to show when the request is complete."""
        answers = self.answers
        parts = [f"asked {processes(answers.asked)} {self._for}, {answers.answered:,} answered"]
        refused = sorted(answers.refused.items(), key=lambda each: -each[1])
        parts += [f"{count:,} not: {why}" for why, count in refused]
        if answers.silent:
            parts.append(f"{answers.silent:,} gave no answer")
        return Outcome("; ".join(parts), answers.answered == answers.asked)

    @property
    def _for(self) -> str:
        return _FOR[self.what] + ("" if self.interval_ms is None else f" {every([self.interval_ms])}")


class RequestBoard:
    """Sends requests and tracks their answers. At most one request of each kind is open."""

    def __init__(self, ask: Ask | None) -> None:
        """Create a board that sends requests through `ask`; None if no process can be asked."""
        self._ask = ask
        self._open: list[Question] = []
        # The wanted interval, until it can be requested.
        self._pace: int | None = None

    @property
    def progress(self) -> list[str]:
        """A line for each open request."""
        return [question.progress for question in self._open]

    def put(self, what: What, agents: Sequence[str], interval_ms: int | None = None) -> Outcome | None:
        """Send a request to these agents. Return a message; None if such a request is already open."""
        if self._ask is None:
            return Outcome(NOBODY, False)
        if not agents:
            return Outcome("there is no process to ask", False)
        if self._is_asked(what):
            return None
        self._open.append(Question(what, self._ask(what, agents, interval_ms), interval_ms))
        return Outcome(f"asking {processes(len(agents))}", True)

    def want_pace(self, told_ms: Iterable[int], by: int) -> Outcome | None:
        """Select the next longer or shorter interval. Return a message if there is none, else None.

        The interval wanted or requested last is the base, else that of the process that reports most often.
        """
        asked = (question.interval_ms for question in self._open)
        now = self._pace or next(filter(None, asked), None) or min(told_ms, default=USUAL)
        stop = stop_after(now, by)
        if stop is None:
            return Outcome(f"{'longer' if by > 0 else 'shorter'} than {now / 1000:g}s is not on offer", True)
        self._pace = stop
        return None

    @property
    def can_put_pace(self) -> bool:
        """Whether an interval is wanted and no earlier request for one is open."""
        return self._pace is not None and not self._is_asked("pace")

    def put_pace(self, agents: Sequence[str]) -> Outcome | None:
        """Request the interval that was wanted last."""
        wanted, self._pace = self._pace, None
        return self.put("pace", agents, wanted)

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes of the requests that completed since the last call."""
        over = [question for question in self._open if not question.is_open]
        self._open = [question for question in self._open if question not in over]
        return [question.outcome for question in over]

    def _is_asked(self, what: What) -> bool:
        return any(question.what == what for question in self._open)


def processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count:,} processes"
