"""One process of a capture: how far it is, and the parts of its trace that have arrived."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from jaxtop.base.names import reason
from jaxtop.wire.captures import FAILED, OPEN, PACKING, STOPPING, WAITING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The parts that may be on their way beyond the first that is missing.
MAX_AHEAD = 16
# The phases in which a process is given time: those of this version, and of newer ones.
MAX_PHASES = 8


class Sink(Protocol):
    """A file that a trace is written to."""

    def write(self, data: bytes, /) -> object: ...

    def close(self) -> None: ...


@dataclass
class Member:
    """A process, its phase and since when it is in it, and its trace as far as it has arrived.

    `text` is why it failed or ended early. `phase` is empty until it has taken the request.
    """

    agent: str
    phase: str = ""
    since: float = 0.0
    heard: float = 0.0
    text: str = ""
    lasted_us: int = 0
    ask_due: float = 0.0
    is_asked: bool = False
    # Of the finished trace: its bytes, its packed parts, and how much of both has arrived in order.
    size: int = 0
    parts: int = 0
    fetched: int = 0
    received: int = 0
    is_complete: bool = False
    _next: int = 0
    _phases: set[str] = field(default_factory=set)
    _again: set[int] = field(default_factory=set)  # parts that did not arrive
    _ahead: dict[int, bytes] = field(default_factory=dict)  # parts that came before earlier ones
    _unpacker: Any = field(default_factory=zlib.decompressobj)
    _sink: Sink | None = None

    @property
    def is_over(self) -> bool:
        return self.is_complete or self.phase == FAILED

    def enter(self, phase: str, now: float) -> None:
        """Note the phase. Its time begins at the first entry: a process that returns to it gets no more."""
        if phase not in self._phases and len(self._phases) < MAX_PHASES:
            self._phases.add(phase)
            self.since = now
        self.phase = phase

    def next_part(self) -> int | None:
        """Return the next part to ask for; None if none is due."""
        if self._again:
            return self._again.pop()
        if self._next < min(self.parts, self.fetched + MAX_AHEAD):
            self._next += 1
            return self._next - 1
        return None

    def missed(self, part: int) -> None:
        """Note that a part did not arrive."""
        self._again.add(part)

    def store(self, part: int, data: bytes, open_sink: Callable[[str], Sink]) -> str:
        """Write a part that has arrived, in order; return why it cannot be used, else ""."""
        self._ahead[part] = data
        try:
            if self._sink is None:
                self._sink = open_sink(self.agent)
            while self.fetched in self._ahead:
                packed = self._ahead.pop(self.fetched)
                self.fetched += 1
                plain = self._unpacker.decompress(packed, self.size - self.received + 1)
                self.received += len(plain)
                if not packed or self.received > self.size or self._unpacker.unconsumed_tail:
                    return "it sent a trace that is not what it announced"
                self._sink.write(plain)
            if self.fetched == self.parts:
                if self.received != self.size or not self._unpacker.eof:
                    return "it sent a trace that is not complete"
                self._sink.close()
                self.is_complete = True
        except (OSError, zlib.error) as error:
            return f"its trace cannot be written: {reason(error)}"
        return ""

    def fail(self, why: str) -> None:
        if self._sink is not None:
            with suppress(OSError):  # what it has not written yet has no room, either
                self._sink.close()
        self._ahead.clear()
        self.phase, self.text = FAILED, why


_DOING = {
    "": "asking",
    WAITING: "waiting for the moment",
    OPEN: "capturing",
    STOPPING: "stopping the profiler",
    PACKING: "packing",
}


def doing(members: Sequence[Member], now: float) -> str:
    """Return in words what a capture does: the first phase that a process is still in, and for how long."""
    going = [each for each in members if not each.is_over]
    done = f"{len(members) - len(going)} of {len(members)} done"
    for phase, words in _DOING.items():
        those = [each for each in going if each.phase == phase]
        if those:
            since = min(each.since or now for each in those)
            return f"{words}, {now - since:.0f} s ({len(those)} of {len(members)} processes)"
    return f"receiving ({done})" if going else done
