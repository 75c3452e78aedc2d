"""What the app is given to move in time: a session that can be looked at again, and what records it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from jaxtop.model import Cluster
    from jaxtop.model.session.summary import SessionSummary


class History(Protocol):
    """A session that can be looked at again at any of its times; it may still grow."""

    @property
    def span(self) -> tuple[float, float] | None:
        """The first and the last moment that it holds; None while it holds nothing."""

    @property
    def start(self) -> float | None:
        """Where to begin: its first moment, or a little later, once those that were there are connected."""

    @property
    def is_growing(self) -> bool:
        """Whether more may come."""

    @property
    def overview(self) -> SessionSummary:
        """The whole of it at a glance."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of it, a line each: cut off, corrupt, how well clocks agree."""

    def at(self, when: float) -> Cluster:
        """The cluster as it was then.

        The object of the call before may be changed and returned again, if that was an earlier time.
        """


class Recorder(Protocol):
    """Writes what arrives to a file, while it is on."""

    @property
    def is_on(self) -> bool:
        """Whether it writes."""

    @property
    def status(self) -> str:
        """How much it has written, while it is on; else why it stopped by itself."""

    def toggle(self) -> str:
        """Begin or end; says what it did."""
