"""The requests of the app to processes, sent through a callable, and the messages about their replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

# Milliseconds between two pulses. Agents accept 100 up to the last of these.
INTERVALS_MS = (500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000)
USUAL_MS = 1_000
RequestKind = Literal["window", "stacks", "pace", "peaks"]
# The object of each request, as messages name it.
_FOR: dict[RequestKind, str] = {
    "window": "for a profiler window",
    "stacks": "for stacks",
    "pace": "for figures",
    "peaks": "for the buffers of its programs",
}
NOT_LIVE = "requests need a live run: this is a recording"


class Replies(Protocol):
    """The replies to one request so far, filled by another thread."""

    @property
    def requested(self) -> int:
        """The number of processes that received the request."""

    @property
    def replied(self) -> int:
        """The number of processes that complied."""

    @property
    def silent(self) -> int:
        """The number of processes that did not answer in time."""

    @property
    def refused(self) -> Mapping[str, int]:
        """The reasons of processes that refused, with the number of processes for each."""


class RequestSender(Protocol):
    """A callable that sends a request to these agents. A request of "pace" has an interval."""

    def __call__(self, kind: RequestKind, agents: Sequence[str], interval_ms: int | None, /) -> Replies: ...


class RequestOutcome(NamedTuple):
    """A message for the user about a request."""

    text: str
    is_good: bool

    @property
    def severity(self) -> Literal["information", "warning"]:
        return "information" if self.is_good else "warning"


@dataclass(frozen=True)
class OpenRequest:
    """A request to processes, with the replies so far."""

    kind: RequestKind
    replies: Replies
    interval_ms: int | None = None
    # Whether only a failure is worth a message.
    is_quiet: bool = False

    @property
    def is_open(self) -> bool:
        replies = self.replies
        return replies.replied + replies.silent + sum(replies.refused.values()) < replies.requested

    @property
    def progress(self) -> str:
        replies = self.replies
        return f"asking {processes(replies.requested)} {self._purpose}: {replies.replied:,} answered"

    @property
    def outcome(self) -> RequestOutcome:
        replies = self.replies
        parts = [f"asked {processes(replies.requested)} {self._purpose}: {replies.replied:,} answered"]
        refused = sorted(replies.refused.items(), key=lambda each: -each[1])
        parts += [f"{count:,} refused: {why}" for why, count in refused]
        if replies.silent:
            parts.append(f"{replies.silent:,} did not answer")
        return RequestOutcome("; ".join(parts), replies.replied == replies.requested)

    @property
    def _purpose(self) -> str:
        return _FOR[self.kind] + ("" if self.interval_ms is None else f" {every([self.interval_ms])}")


class RequestBoard:
    """Sends requests and tracks their replies. At most one request of each kind is open."""

    def __init__(self, sender: RequestSender | None) -> None:
        """Create a board that sends requests through `sender`; None if there are no live processes."""
        self._sender = sender
        self._open: list[OpenRequest] = []
        # The wanted interval, until it can be requested.
        self._interval_ms: int | None = None

    @property
    def progress(self) -> list[str]:
        return [request.progress for request in self._open if not request.is_quiet]

    @property
    def can_request(self) -> bool:
        return self._sender is not None

    def send(
        self,
        kind: RequestKind,
        agents: Sequence[str],
        interval_ms: int | None = None,
        *,
        is_quiet: bool = False,
    ) -> RequestOutcome | None:
        """Send a request to these agents. Return a message; None if such a request is already open."""
        if self._sender is None:
            return RequestOutcome(NOT_LIVE, False)
        if not agents:
            return RequestOutcome("no live process to ask", False)
        if self.has_open(kind):
            return None
        self._open.append(OpenRequest(kind, self._sender(kind, agents, interval_ms), interval_ms, is_quiet))
        return RequestOutcome(f"asking {processes(len(agents))}", True)

    def want_interval(self, current_ms: Iterable[int], by: int) -> RequestOutcome | None:
        """Select the next longer or shorter interval. Return a message if there is none, else None.

        The interval wanted or requested last is the base, else that of the process that reports most often.
        """
        intervals = (request.interval_ms for request in self._open)
        now = self._interval_ms or next(filter(None, intervals), None) or min(current_ms, default=USUAL_MS)
        interval_ms = next_interval(now, by)
        if interval_ms is None:
            return RequestOutcome(
                f"{now / 1000:g}s is the {'longest' if by > 0 else 'shortest'} interval", True
            )
        self._interval_ms = interval_ms
        return None

    @property
    def can_send_interval(self) -> bool:
        """Whether an interval is wanted and no earlier request for one is open."""
        return self._interval_ms is not None and not self.has_open("pace")

    def send_interval(self, agents: Sequence[str]) -> RequestOutcome | None:
        wanted, self._interval_ms = self._interval_ms, None
        return self.send("pace", agents, wanted)

    def outcomes(self) -> list[RequestOutcome]:
        complete = [request for request in self._open if not request.is_open]
        self._open = [request for request in self._open if request not in complete]
        done = [(request.is_quiet, request.outcome) for request in complete]
        return [outcome for is_quiet, outcome in done if not is_quiet or not outcome.is_good]

    def has_open(self, kind: RequestKind) -> bool:
        return any(request.kind == kind for request in self._open)


def processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count:,} processes"


def next_interval(interval_ms: int, by: int) -> int | None:
    if by > 0:
        return next((each for each in INTERVALS_MS if each > interval_ms), None)
    return next((each for each in reversed(INTERVALS_MS) if each < interval_ms), None)


def every(intervals_ms: Collection[int]) -> str:
    """Return `every 2s`, or the range from the shortest to the longest interval."""
    ends = dict.fromkeys((min(intervals_ms), max(intervals_ms)))
    return "every " + "–".join(f"{each / 1000:g}s" for each in ends)
