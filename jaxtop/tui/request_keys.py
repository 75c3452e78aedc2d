from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from jaxtop.base.feature import has_hook
from jaxtop.tui.core.moment import Moment
from jaxtop.tui.requests import NOT_LIVE, Ask, RequestBoard, RequestOutcome, What
from jaxtop.tui.stack_tally import StackTally
from jaxtop.tui.time_keys import NOTE_SECONDS, TimedApp

if TYPE_CHECKING:
    from jaxtop.model import Cluster, Host, State
    from jaxtop.tui.history import Capturer, Recorder
    from jaxtop.tui.playback import Playback
    from jaxtop.tui.screens.base import View


class RequestApp(TimedApp):
    """An app that can send requests to the processes of a live run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "capture", "Window of the profiler now", show=False),
        Binding("C", "profile", "Capture a full profile", show=False),
        Binding("p", "stacks", "Ask for stacks", show=False),
    ]
    _cluster: Cluster

    def __init__(
        self,
        playback: Playback,
        recorder: Recorder | None,
        ask: Ask | None,
        capturer: Capturer | None = None,
    ) -> None:
        super().__init__(playback, recorder)
        self._requests = RequestBoard(ask)
        self._capturer = capturer
        self._tally = StackTally()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "profile" and not has_hook("app_capturer"):
            return False
        return super().check_action(action, parameters)

    def action_capture(self) -> None:
        self._send("capture")

    def action_profile(self) -> None:
        """Begin a capture, or give up the one under way."""
        if self._capturer is None or not self._requests.can_ask:
            self.notify(NOT_LIVE, severity="warning")
        else:
            self.notify(self._capturer.toggle(self._cluster, self._agents))
            self._paint_lines(self.moment)

    @property
    def _progress(self) -> list[str]:
        """What was asked of processes and is not done yet, one line each."""
        capture = self._capturer.status if self._capturer is not None else ""
        return [*self._requests.progress, *([capture] if capture else [])]

    def on_view_asked(self, message: View.Asked) -> None:
        """Send the request to the first of these agents that lives: all of them would answer the same."""
        live = set(self._agents)
        agents = [agent for agent in message.agents if agent in live][:1]
        self._notify_outcome(self._requests.send(message.what, agents))

    def action_interval(self, by: int) -> None:
        """Ask all processes to report less often, or more often."""
        # Silent processes are excluded: they keep the interval that they had.
        present = [agent for agent, state in self._states.items() if not state.is_silent]
        hellos = (self._cluster.hosts[agent].hello for agent in present)
        self._notify_outcome(
            self._requests.want_interval((hello.interval_ms for hello in hellos if hello), by)
        )
        self._send_interval()

    @property
    def _states(self) -> dict[str, State]:
        """The current state of each agent, whichever time is shown."""
        return Moment(self._cluster, self._now()).states

    @property
    def _agents(self) -> list[str]:
        return [agent for agent, state in self._states.items() if not state.has_exited]

    def _send(self, what: What) -> None:
        self._notify_outcome(self._requests.send(what, self._agents))

    def _sample_stacks(self) -> None:
        """Ask for the stacks of all processes, several times one after another."""
        self._tally.start(self._asked_hosts)
        self._send("stacks")

    def _go_on_sampling(self) -> None:
        """Count the stacks that have come, and ask again once all processes have answered."""
        if not self._tally.is_on:
            return
        self._tally.see(self._asked_hosts)
        if not self._requests.is_asked("stacks") and self._tally.take():
            self._requests.send("stacks", self._agents, is_quiet=True)

    @property
    def _lacks_stacks(self) -> bool:
        """Whether processes can be asked for stacks, and none has sent any yet."""
        return self._requests.can_ask and not any(host.stacks.threads for host in self._asked_hosts)

    @property
    def _asked_hosts(self) -> list[Host]:
        return [self._cluster.hosts[agent] for agent in self._agents]

    def _send_interval(self) -> None:
        if self._requests.can_send_interval:
            self._notify_outcome(self._requests.send_interval(self._agents))

    def _notify_outcome(self, outcome: RequestOutcome | None) -> None:
        """Notify about an outcome. A success stays for two seconds, a warning for the usual time."""
        if outcome is not None:
            self.notify(outcome.text, severity=outcome.severity, timeout=2 if outcome.is_good else None)
            self._paint_lines(self.moment)

    def _notify_outcomes(self) -> None:
        for text, is_good in self._capturer.ended() if self._capturer is not None else ():
            self.notify(text, severity="information" if is_good else "warning", timeout=NOTE_SECONDS)
        for outcome in self._requests.outcomes():
            paused = "" if self._playback.is_live else "; the view is paused"
            self.notify(outcome.text + paused, severity=outcome.severity)
            if not outcome.is_good:
                self._tally.stop()
        self._go_on_sampling()
        self._send_interval()

    @property
    def moment(self) -> Moment:
        return self._playback.moment

    def _paint_lines(self, moment: Moment) -> None:
        raise NotImplementedError
