"""The keys that send requests to the processes of a live run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from jaxtop.base.feature import has_hook
from jaxtop.tui.core.text import NOTE_SECONDS
from jaxtop.tui.requests import NOT_LIVE, RequestBoard, RequestKind, RequestOutcome, RequestSender
from jaxtop.tui.stack_tally import StackTally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import App

    from jaxtop.model import Host
    from jaxtop.tui.history import Capturer
    from jaxtop.tui.view_state import ViewState


class RequestKeys:
    """The part of the app that sends requests to the processes of a live run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "window", "Window of the profiler now", show=False),
        Binding("C", "capture", "Capture a full profile", show=False),
        Binding("p", "stacks", "Ask for stacks", show=False),
    ]

    def __init__(
        self,
        app: App[str],
        view_state: ViewState,
        sender: RequestSender | None,
        capturer: Capturer | None,
        repaint: Callable[[], None],
    ) -> None:
        """Create the keys; `repaint` shows the progress of requests."""
        self._app = app
        self._view_state = view_state
        self._capturer = capturer
        self._repaint = repaint
        self._tally = StackTally()
        self.send_through(sender)

    def send_through(self, sender: RequestSender | None) -> None:
        """Send requests through this callable from now on; None if there are no live processes."""
        self._board = RequestBoard(sender)

    @property
    def can_request(self) -> bool:
        return self._board.can_request

    def allows(self, action: str) -> bool:
        """Return whether an action has something to act on, if it is one of these."""
        if action == "capture":
            return has_hook("app_capturer")
        if action == "stacks":
            return self.can_request
        return action != "interval" or self._view_state.playback.is_live

    def action_window(self) -> None:
        """Request a window of the profiler from all processes."""
        self._send("window")

    def action_capture(self) -> None:
        """Begin a capture, or give up the one under way."""
        if self._capturer is None or not self.can_request:
            self._app.notify(NOT_LIVE, severity="warning")
        else:
            self._app.notify(self._capturer.toggle(self._view_state.cluster, self._agents))
            self._repaint()

    @property
    def progress(self) -> list[str]:
        """The open requests and the capture under way, one line each."""
        capture = self._capturer.status if self._capturer is not None else ""
        return [*self._board.progress, *([capture] if capture else [])]

    def request_one(self, kind: RequestKind, agents: Sequence[str]) -> None:
        """Send a request to the first of these agents that lives: all of them would reply the same."""
        live = set(self._agents)
        self._notify_outcome(self._board.send(kind, [each for each in agents if each in live][:1]))

    def action_interval(self, by: int) -> None:
        """Request a longer or shorter interval between reports from all processes."""
        # Silent processes are excluded: they keep the interval that they had.
        present = [agent for agent, state in self._view_state.states.items() if not state.is_silent]
        hellos = (self._view_state.cluster.hosts[agent].hello for agent in present)
        self._notify_outcome(self._board.want_interval((hello.interval_ms for hello in hellos if hello), by))
        self._send_interval()

    @property
    def _agents(self) -> list[str]:
        return [agent for agent, state in self._view_state.states.items() if not state.has_exited]

    def _send(self, kind: RequestKind) -> None:
        self._notify_outcome(self._board.send(kind, self._agents))

    def sample_stacks(self) -> None:
        """Request the stacks of all processes, several times one after another."""
        self._tally.start(self._live_hosts)
        self._send("stacks")

    def _go_on_sampling(self) -> None:
        """Count the stacks that have come, and request them again once all processes have replied."""
        if not self._tally.is_on:
            return
        self._tally.see(self._live_hosts)
        if not self._board.has_open("stacks") and self._tally.take():
            self._board.send("stacks", self._agents, is_quiet=True)

    @property
    def lacks_stacks(self) -> bool:
        """Whether stacks can be requested, and no process has sent any yet."""
        return self.can_request and not any(host.stacks.threads for host in self._live_hosts)

    @property
    def _live_hosts(self) -> list[Host]:
        return [self._view_state.cluster.hosts[agent] for agent in self._agents]

    def _send_interval(self) -> None:
        if self._board.can_send_interval:
            self._notify_outcome(self._board.send_interval(self._agents))

    def _notify_outcome(self, outcome: RequestOutcome | None) -> None:
        """Notify about an outcome. A success stays for two seconds, a warning for the usual time."""
        if outcome is not None:
            self._app.notify(outcome.text, severity=outcome.severity, timeout=2 if outcome.is_good else None)
            self._repaint()

    @property
    def tally(self) -> str:
        """The lines of the main threads that were seen most often; empty without several samples."""
        return self._tally.summary

    def tick(self) -> None:
        """Notify about the requests that are complete, and send those that waited for them."""
        for text, is_good in self._capturer.ended() if self._capturer is not None else ():
            self._app.notify(text, severity="information" if is_good else "warning", timeout=NOTE_SECONDS)
        for outcome in self._board.outcomes():
            paused = "" if self._view_state.playback.is_live else "; the view is paused"
            self._app.notify(outcome.text + paused, severity=outcome.severity)
            if not outcome.is_good:
                self._tally.stop()
        self._go_on_sampling()
        self._send_interval()
