"""The last messages of an agent, and what it leaves for viewers that come after its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop import runfiles, wire
from jaxtop.clock import now_ms
from jaxtop_agent.stalls.uncaught import exit_status, uncaught

if TYPE_CHECKING:
    from jaxtop_agent.service.messages import Messages
    from jaxtop_agent.stalls.caught import Caught


def last_messages(
    built: Messages, caught: Caught, reason: str, dropped: int
) -> tuple[list[wire.Message], wire.Bye]:
    """Return the exceptions not reported yet, the final figures of a script that failed, and the goodbye."""
    error = uncaught() if reason == wire.SCRIPT_ENDED else None
    if error is not None:
        error = caught.explain(error)
    before: list[wire.Message] = list(caught.events(until_ms=now_ms()))
    if error is not None:
        before.append(built.pulse(dropped))
    return before, wire.Bye(now_ms(), reason, error, exit_status() if reason == wire.SCRIPT_ENDED else None)


def leave(built: Messages, bye: wire.Bye) -> None:
    """Leave the goodbye of a script that ended to viewers that come later, also while its process lingers."""
    if bye.reason == wire.SCRIPT_ENDED:
        runfiles.leave(built.hello(), bye)
