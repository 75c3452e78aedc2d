"""What a host is doing, told from what it said, when, and what its connection looks like."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtop.cluster.host import Host

# A pulse may be late by this many intervals, and by this many seconds where intervals are short.
QUIET_INTERVALS = 2.5
QUIET_AT_LEAST = 2.0
# Past this the process is taken to be stuck: its connection is up, and Python does not come to speak.
BLOCKED_INTERVALS = 5.0
BLOCKED_AT_LEAST = 5.0


class State(StrEnum):
    """The states of a host; `connecting` is the only one that is not an answer yet."""

    CONNECTING = "connecting"
    LIVE = "live"
    QUIET = "quiet"
    BLOCKED = "blocked"
    STOPPED = "stopped"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    ENDED = "ended"
    DIED = "died"
    GONE = "gone"


# Of these nobody will hear any more.
OVER = frozenset({State.ENDED, State.DIED, State.GONE})
_OF_LINK = {
    "deaf": State.BLOCKED,
    "silent": State.STOPPED,
    "unreachable": State.UNREACHABLE,
    "refused": State.REFUSED,
    "dead": State.DIED,
}


def state_of(host: Host, now: float) -> State:
    """The state of a host at this time."""
    if host.bye is not None:
        return State.ENDED
    if host.link.state == "closed":
        # Nobody listens any more. Only who met the host before can tell that it died.
        return State.GONE if host.hello is None else State.DIED
    return _OF_LINK.get(host.link.state) or _by_age(host, now)


def interval_of(host: Host) -> float:
    """The seconds between two of its pulses."""
    return (host.hello.interval_ms if host.hello else 1000) / 1000


def is_over(host: Host) -> bool:
    """Whether its process is known to be no more, at any time."""
    return host.bye is not None or host.link.state in ("closed", "dead")


def was_never_reached(host: Host) -> bool:
    """Whether nothing is known of it but an address that does not work from here: no sign of trouble."""
    return host.hello is None and host.link.state == "unreachable"


def _by_age(host: Host, now: float) -> State:
    # A connection that is new, or back, has just now begun to wait.
    since = max(host.pulse_at or 0.0, host.link_at if host.link.state == "up" else 0.0)
    if not since:
        return State.CONNECTING
    age = now - since
    interval = interval_of(host)
    if age > max(BLOCKED_AT_LEAST, BLOCKED_INTERVALS * interval):
        return State.BLOCKED
    if age > max(QUIET_AT_LEAST, QUIET_INTERVALS * interval):
        return State.QUIET
    return State.CONNECTING if host.pulse_at is None else State.LIVE
