"""Monitors of sockets: the events of their connections."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zmq.utils.monitor import _MonitorMessage

# The longest wait for sockets that nothing holds up.
CLOSED_WITHIN_S = 1.0
POLLED_MS = 10
_numbers = count()


def monitor_of(socket: zmq.Socket[bytes], events: int) -> zmq.Socket[bytes]:
    """Return the monitor of a socket; close both with `close_monitored`."""
    # By default, it has the address of an earlier one whose descriptor it got: that may still be taken.
    address = f"inproc://monitor-{next(_numbers)}"
    return socket.get_monitor_socket(events | zmq.EVENT_MONITOR_STOPPED, address)


def events_of(monitor: zmq.Socket[bytes]) -> Iterator[_MonitorMessage]:
    """Yield the events since the last call, without waiting."""
    with suppress(zmq.Again):
        while True:
            yield parse_monitor_message(monitor.recv_multipart(zmq.NOBLOCK))


def close_monitored(
    sockets: Sequence[zmq.Socket[bytes]],
    monitors: Sequence[zmq.Socket[bytes]],
    linger_ms: int,
    authenticator: zmq.Socket[bytes] | None = None,
) -> None:
    """Close sockets with their monitors, and allow their last messages `linger_ms` to leave.

    Many events may come at once: without free descriptors, each attempt to accept a connection is one. Once
    nobody reads them, ZeroMQ's I/O thread waits for room with a lock that `disable_monitor` takes while it
    holds the GIL. So events are read until the sockets are gone. Connections that were authenticated end only
    while the authenticator's socket is polled, too.
    """
    for each in sockets:
        each.close(linger_ms)
    end = time.monotonic() + linger_ms / 1000 + CLOSED_WITHIN_S
    poller = zmq.Poller()
    for monitor in monitors:
        poller.register(monitor, zmq.POLLIN)
    while poller.sockets and (left := end - time.monotonic()) > 0:
        for monitor, _ in poller.poll(min(POLLED_MS, round(left * 1000))):
            if any(event["event"] == zmq.EVENT_MONITOR_STOPPED for event in events_of(monitor)):
                poller.unregister(monitor)
        if authenticator is not None:
            authenticator.poll(0)
    for monitor in monitors:
        monitor.close(linger=0)
