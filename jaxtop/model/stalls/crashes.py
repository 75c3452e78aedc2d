"""Processes whose scripts ended with an exception, and what that caused or came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.stalls.case import is_lost
from jaxtop.model.stalls.stacks import line_text
from jaxtop.wire import INTERRUPTED, STUCK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model.host import Host
    from jaxtop.model.hosts import Run
    from jaxtop.wire import Bye

# What JAX raises in a process whose peers are lost. It may raise the same for other reasons.
_OF_RUNTIME = frozenset({"JaxRuntimeError", "XlaRuntimeError"})
# A loss is noticed within this many seconds; peers of the lost process may fail before.
NOTICED_WITHIN = 5.0
# A goodbye that is older than this when it comes was found on the disk. Clocks differ by less.
FOUND_AFTER = 10.0
# A process waits for a lost one for at most this many seconds.
WAITS_FOR = 600.0


def crashed(run: Run) -> list[Host]:
    """Return the processes that ended with an exception, the first one first."""
    found = [view.host for view in run.hosts if view.host.error is not None]
    return sorted(found, key=ended_at)


def ended_at(host: Host) -> float:
    """Return when the last message of a process arrived, or was sent if this viewer only found it later.

    A viewer that has never had a pulse of the process came after its end.
    """
    heard, sent = host.heard_at or 0.0, 0.0 if host.bye is None else host.bye.at_ms / 1000
    return sent if sent > 0 and (host.pulse_at is None or sent < heard - FOUND_AFTER) else heard


def has_known_end(host: Host) -> bool:
    """Return whether `ended_at` is known: it said goodbye, or this viewer heard it before it died."""
    return host.bye is not None or host.pulse_at is not None


def ending(bye: Bye, process_count: int | None) -> str:
    """Return how a script ended: "ended with ValueError at train.py:51 main: the message".

    `process_count` is that of its run, if it is known.
    """
    error = bye.error
    if bye.reason == STUCK:
        whole = (
            "all processes of the run were" if process_count is not None and process_count > 1 else "it was"
        )
        return f"was ended by its agent: {whole} stuck"
    if error is None:
        return "was interrupted" if bye.status == INTERRUPTED else "ended"
    place = "" if error.place is None else f" at {line_text(error.place)}"
    return f"ended with {error.type}{place}" + (f": {error.message}" if error.message else "")


def was_stuck(host: Host) -> bool:
    """Return whether its agent has ended a process because it was stuck."""
    return host.bye is not None and host.bye.reason == STUCK


def exit_status(hosts: Iterable[Host]) -> str:
    """Return the exit statuses of these processes; n/a where one is unknown, as after `sys.exit(3)`."""
    found = {None if host.bye is None else host.bye.status for host in hosts}
    return " and ".join(sorted("n/a" if each is None else str(each) for each in found)) or "n/a"


def lost_by_crash(run: Run, crash: Host) -> bool:
    """Return whether all processes that are lost were lost after this one ended with an exception."""
    views = [view for view in run.hosts if is_lost(view.host, view.state)]
    return all(view.host.link_at > ended_at(crash) + _margin(crash) for view in views)


def crashed_by_loss(crash: Host, lost_at: float) -> bool:
    """Return whether the exception of a process may come from the loss of another one at this time."""
    margin = _margin(crash)
    return margin > 0 and -margin <= ended_at(crash) - lost_at <= WAITS_FOR


def _margin(crash: Host) -> float:
    return NOTICED_WITHIN if crash.error is not None and crash.error.type in _OF_RUNTIME else 0.0
