"""The interfaces that let the app move in time: the history of a session, and its recorder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from jaxtop.model import Cluster
    from jaxtop.model.session.summary import SessionSummary


class History(Protocol):
    """A session that can be shown at any of its times. It may still grow."""

    @property
    def span(self) -> tuple[float, float] | None:
        """The first and the last time that it covers; None while it is empty."""

    @property
    def start(self) -> float | None:
        """The time to start at: the first, or a little later, when the initial processes have connected."""

    @property
    def is_growing(self) -> bool:
        """Whether more frames may be added."""

    @property
    def overview(self) -> SessionSummary:
        """The summary of the whole session."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user, one line each: truncation, corruption, how well clocks agree."""

    def at(self, when: float) -> Cluster:
        """Return the cluster as it was at this time.

        If the previous call asked for an earlier time, its object may be modified and returned again.
        """


class Recorder(Protocol):
    """A recorder that writes incoming frames to a file while it is on."""

    @property
    def is_on(self) -> bool:
        """Whether it is recording."""

    @property
    def status(self) -> str:
        """The amount written while it is on; otherwise why it stopped by itself."""

    def ended(self) -> list[str]:
        """Return a message for each recording that has been finished since the last call."""
        ...

    def toggle(self) -> str:
        """Start or stop recording. Return a message that says which."""
