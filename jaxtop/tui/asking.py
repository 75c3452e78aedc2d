"""What the app asks of the processes through a callable that it is given, and what it says of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from jaxtop.tui.pace import every

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count:,} processes"
