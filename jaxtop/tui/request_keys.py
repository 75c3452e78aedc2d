"""The keys that send requests to the processes of a live run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from jaxtop.base.feature import has_hook
from jaxtop.tui.core.text import NOTE_SECONDS
from jaxtop.tui.requests import NOT_LIVE, Ask, RequestBoard, RequestOutcome, What
from jaxtop.tui.stack_tally import StackTally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import App

    from jaxtop.model import Host
    from jaxtop.tui.following import Following
    from jaxtop.tui.history import Capturer


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
        following: Following,
        ask: Ask | None,
        capturer: Capturer | None,
        repaint: Callable[[], None],
    ) -> None:
        """Create the keys; `repaint` shows the progress of requests."""
        self._app = app
        self._following = following
        self._capturer = capturer
        self._repaint = repaint
        self._tally = StackTally()
        self.ask_through(ask)

    def ask_through(self, ask: Ask | None) -> None:
        """Send requests through this from now on; None if no process can be asked."""
        self._board = RequestBoard(ask)

    @property
    def can_ask(self) -> bool:
        return self._board.can_ask

    def allows(self, action: str) -> bool:
        """Return whether an action has something to act on, if it is one of these."""
        if action == "capture":
            return has_hook("app_capturer")
        if action == "stacks":
            return self.can_ask
        return action != "interval" or self._following.playback.is_live

    def action_window(self) -> None:
        """Ask all processes for a window of the profiler."""
        self._send("window")

    def action_capture(self) -> None:
        """Begin a capture, or give up the one under way."""
        if self._capturer is None or not self.can_ask:
            self._app.notify(NOT_LIVE, severity="warning")
        else:
            self._app.notify(self._capturer.toggle(self._following.cluster, self._agents))
            self._repaint()

    @property
    def progress(self) -> list[str]:
        """What was asked of processes and is not done yet, one line each."""
        capture = self._capturer.status if self._capturer is not None else ""
        return [*self._board.progress, *([capture] if capture else [])]

    def ask_one(self, what: What, agents: Sequence[str]) -> None:
        """Send a request to the first of these agents that lives: all of them would answer the same."""
        live = set(self._agents)
        self._notify_outcome(self._board.send(what, [each for each in agents if each in live][:1]))

    def action_interval(self, by: int) -> None:
        """Ask all processes to report less often, or more often."""
        # Silent processes are excluded: they keep the interval that they had.
        present = [agent for agent, state in self._following.states.items() if not state.is_silent]
        hellos = (self._following.cluster.hosts[agent].hello for agent in present)
        self._notify_outcome(self._board.want_interval((hello.interval_ms for hello in hellos if hello), by))
        self._send_interval()

    @property
    def _agents(self) -> list[str]:
        return [agent for agent, state in self._following.states.items() if not state.has_exited]

    def _send(self, what: What) -> None:
        self._notify_outcome(self._board.send(what, self._agents))

    def sample_stacks(self) -> None:
        """Ask for the stacks of all processes, several times one after another."""
        self._tally.start(self._asked_hosts)
        self._send("stacks")

    def _go_on_sampling(self) -> None:
        """Count the stacks that have come, and ask again once all processes have answered."""
        if not self._tally.is_on:
            return
        self._tally.see(self._asked_hosts)
        if not self._board.is_asked("stacks") and self._tally.take():
            self._board.send("stacks", self._agents, is_quiet=True)

    @property
    def lacks_stacks(self) -> bool:
        """Whether processes can be asked for stacks, and none has sent any yet."""
        return self.can_ask and not any(host.stacks.threads for host in self._asked_hosts)

    @property
    def _asked_hosts(self) -> list[Host]:
        return [self._following.cluster.hosts[agent] for agent in self._agents]

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
            paused = "" if self._following.playback.is_live else "; the view is paused"
            self._app.notify(outcome.text + paused, severity=outcome.severity)
            if not outcome.is_good:
                self._tally.stop()
        self._go_on_sampling()
        self._send_interval()
