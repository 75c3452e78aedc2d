"""Events about exceptions of JAX's runtime after which the script went on."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base.clock import now_ms
from jaxtop.base.names import shorten
from jaxtop_agent.stalls import stacks
from jaxtop_agent.stalls.uncaught_exception import first_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.hooks.exceptions import RaisedException, RuntimeExceptions

# The type of all of them, as JAX names it.
TYPE = "JaxRuntimeError"
# A process that still runs after this many milliseconds has caught it.
SETTLED_MS = 1000
# The most lines whose exceptions are counted. A repeated exception is reported the 1st, 10th, 100th… time.
MOST_LINES = 100


class CaughtExceptions:
    """The exceptions that were not reported yet; used on the publisher's thread only."""

    def __init__(self, raised: RuntimeExceptions | None, own_threads: Callable[[], frozenset[int]]) -> None:
        self._latest: deque[RaisedException] = deque() if raised is None else raised.latest
        self._own_threads = own_threads
        self._counts: dict[tuple[str, wire.Place | None], int] = {}

    def events(self, *, until_ms: int | None = None) -> list[wire.Event]:
        """Return an event for each exception that is old enough to have been caught."""
        until_ms = now_ms() - SETTLED_MS if until_ms is None else until_ms
        found = []
        while self._latest and self._latest[0].at_ms <= until_ms:
            raised = self._latest.popleft()
            if raised.thread not in self._own_threads() and (text := self._text(raised)):
                found.append(wire.Event(raised.at_ms, "warning", "exception", text))
        return found

    def _text(self, raised: RaisedException) -> str:
        """Return what to report; empty for most repetitions."""
        message = first_line(raised.message)
        place = None if raised.code is None else stacks.place(raised.code, raised.line)
        key = message.partition(":")[0], place
        if key not in self._counts and len(self._counts) >= MOST_LINES:
            return ""
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if str(count).strip("0") != "1":
            return ""
        where = "" if place is None else f" at {place.file}:{place.line} {place.function}"
        again = f" for the {count}th time" if count > 1 else ""
        return f"went on after {TYPE}{where}{again}: {message}"

    def explain(self, error: wire.Uncaught) -> wire.Uncaught:
        """Return the exception that ended the script with the function whose launch raised it, if known.

        It is no longer reported as caught.
        """
        if error.type == TYPE:
            for raised in reversed(self._latest.copy()):
                if first_line(raised.message) == error.message:
                    with suppress(ValueError):  # another thread goes on, and its exceptions replaced this one
                        self._latest.remove(raised)
                    return replace(error, function=shorten(raised.function, stacks.MAX_NAME_CHARS))
        return error
