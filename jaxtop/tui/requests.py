"""What the app asks of the processes through a callable that it is given, and what it says of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from jaxtop.tui.interval import USUAL, every, stop_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

What = Literal["capture", "stacks", "pace"]
# What is asked for, and what is said of those who did as asked.
_FOR: dict[What, str] = {
    "capture": "for a window of the profiler",
    "stacks": "for their stacks",
    "pace": "for figures",
}
NOBODY = "nobody can be asked: what is shown does not come from processes that run now"


class Answers(Protocol):
    """What has come so far of a question to many; another thread fills it."""

    @property
    def asked(self) -> int:
        """How many are asked."""

    @property
    def answered(self) -> int:
        """How many did as they were asked."""

    @property
    def silent(self) -> int:
        """How many gave no answer in time."""

    @property
    def refused(self) -> Mapping[str, int]:
        """Why others did not do it, and how many gave that reason."""


class Ask(Protocol):
    """Asks these agents; an interval goes with "pace"."""

    def __call__(self, what: What, agents: Sequence[str], interval_ms: int | None, /) -> Answers: ...


class Outcome(NamedTuple):
    """What a person is told at the end."""

    text: str
    is_good: bool

    @property
    def severity(self) -> Literal["information", "warning"]:
        return "information" if self.is_good else "warning"


@dataclass(frozen=True)
class Question:
    """A question that is under way."""

    what: What
    answers: Answers
    interval_ms: int | None = None

    @property
    def is_open(self) -> bool:
        answers = self.answers
        return answers.answered + answers.silent + sum(answers.refused.values()) < answers.asked

    @property
    def progress(self) -> str:
        """For the time while it is open."""
        answers = self.answers
        return f"asking {processes(answers.asked)} {self._for}: {answers.answered:,} answered"

    @property
    def outcome(self) -> Outcome:
        """For when it is not open any more."""
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
    """Where questions are put: of each kind one at a time."""

    def __init__(self, ask: Ask | None) -> None:
        """A desk that asks by this; None where there is nobody to ask."""
        self._ask = ask
        self._open: list[Question] = []
        # The interval that is wanted, until it can be asked for.
        self._pace: int | None = None

    @property
    def progress(self) -> list[str]:
        """A line for each question that is under way."""
        return [question.progress for question in self._open]

    def put(self, what: What, agents: Sequence[str], interval_ms: int | None = None) -> Outcome | None:
        """Ask these; what is to be said of it, None if that is asked already."""
        if self._ask is None:
            return Outcome(NOBODY, False)
        if not agents:
            return Outcome("there is no process to ask", False)
        if self._is_asked(what):
            return None
        self._open.append(Question(what, self._ask(what, agents, interval_ms), interval_ms))
        return Outcome(f"asking {processes(len(agents))}", True)

    def want_pace(self, told_ms: Iterable[int], by: int) -> Outcome | None:
        """Want the next longer interval, or the next shorter one; what is to be said if there is none.

        It counts from what was wanted last, else from that of the process that tells most often.
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
        """Whether an interval is wanted, and all have answered what was asked before."""
        return self._pace is not None and not self._is_asked("pace")

    def put_pace(self, agents: Sequence[str]) -> Outcome | None:
        """Ask for the interval that was wanted last."""
        wanted, self._pace = self._pace, None
        return self.put("pace", agents, wanted)

    def outcomes(self) -> list[Outcome]:
        """Of the questions that have come to an end since the last call."""
        over = [question for question in self._open if not question.is_open]
        self._open = [question for question in self._open if question not in over]
        return [question.outcome for question in over]

    def _is_asked(self, what: What) -> bool:
        return any(question.what == what for question in self._open)


def processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count:,} processes"
