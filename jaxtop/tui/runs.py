"""The list of the live runs, and the switch from one to another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from textual.binding import Binding, BindingType

from jaxtop.tui.dialogs.picker import LiveRuns, RunPicker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.app import App

    from jaxtop.tui.history import History
    from jaxtop.tui.ingest import Feed
    from jaxtop.tui.requests import RequestSender
    from jaxtop.tui.view_state import ViewState


class FollowedRun(NamedTuple):
    """A run that the app follows: its frames, the sender of requests to its processes, and its history."""

    feed: Feed
    request_sender: RequestSender | None = None
    history: History | None = None


class Runs(Protocol):
    """The live runs of this user."""

    # Why there is no list of runs; empty if there is one.
    why_none: str

    def live(self) -> LiveRuns:
        """Return the runs that are live now."""
        ...

    def follow(self, run_id: str) -> FollowedRun | str:
        """Begin to follow a run; return why not if that is impossible."""
        ...

    def leave(self) -> None:
        """Close all that was followed before."""
        ...


class RunSwitch:
    """The part of the app that switches to another live run."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("R", "runs", "Switch to another run", show=False)]

    def __init__(
        self,
        app: App[str],
        view_state: ViewState,
        runs: Runs | None,
        begin: Callable[[FollowedRun], Awaitable[None]],
    ) -> None:
        """Create the key; `begin` shows another run from the start."""
        self._app, self._view_state, self._runs, self._begin = app, view_state, runs, begin

    def allows(self, action: str) -> bool:
        return action != "runs" or self._runs is not None

    def action_runs(self) -> None:
        """List the live runs, the one that is shown marked."""
        if self._runs is not None and self._runs.why_none:
            self._app.notify(self._runs.why_none)
        elif self._runs is not None:
            self._app.push_screen(RunPicker(self._runs.live, self._shown), self._chose)

    @property
    def _shown(self) -> list[str]:
        return [run.id for run in self._view_state.moment.runs]

    def _chose(self, run_id: str | None) -> None:
        if run_id is not None and [run_id] != self._shown and self._runs is not None:
            self._app.run_worker(self._switch(run_id, self._runs), exclusive=True)

    async def _switch(self, run_id: str, runs: Runs) -> None:
        followed = await asyncio.to_thread(runs.follow, run_id)
        if isinstance(followed, str):
            self._app.notify(followed, severity="error")
            return
        await self._begin(followed)
        await asyncio.to_thread(runs.leave)
