"""The interface of a live source of frames, whether it dials the agents itself or uses a relay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from jaxtop import wire


class Unreached(Exception):
    """The other side of a command cannot be reached; the text says why and what to do."""


class Source(Protocol):
    """Frames from live agents. All work happens on the thread that calls `poll`; call it often."""

    @property
    def rejected(self) -> Counter[str]:
        """The rejected messages, by reason."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether every address has answered or has a known reason not to."""
        ...

    @property
    def notes(self) -> list[str]:
        """Notes on the source itself for the user, one per line."""
        ...

    def poll(self, timeout: float) -> list[wire.Frame]:
        """Return the frames that have arrived; wait for the first for at most `timeout` seconds."""
        ...

    def request(self, agent: str, request: wire.Request, done: Callable[[wire.Reply | None], None]) -> None:
        """Send a request to an agent; a later `poll` calls `done` with the reply, or None if none came."""
        ...

    def close(self) -> None: ...
