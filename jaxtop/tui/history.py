"""The interfaces that let the app move in time: the history of a session, and its recorder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class Capturer(Protocol):
    """Takes full profiles of the processes of a run."""

    @property
    def status(self) -> str:
        """How far the capture under way is; empty if there is none."""

    def toggle(self, cluster: Cluster, agents: Sequence[str]) -> str:
        """Begin a capture of some of these processes, or give up the one under way; return what was done."""

    def ended(self) -> list[tuple[str, bool]]:
        """Return what came of captures that ended since the last call, and whether they succeeded."""


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
