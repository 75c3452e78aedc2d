"""The offset between this machine's clock and that of process 0, measured with its agent as NTP does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import zmq

from jaxtop import transport, wire
from jaxtop.base import keys

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board

# Clocks that NTP adjusts drift apart by less than a millisecond in this time.
EVERY_S = 600.0
AGAIN_S = 60.0
TRIES = 3
PATIENCE_S = 1.0
PIECE_MS = 100


class ClockOffset:
    """The clock offset, measured on the registrar's thread while there are viewers.

    While it is unknown, the clocks count as equal.
    """

    def __init__(self) -> None:
        self._due = 0.0

    def refresh(self, board: Board) -> None:
        """Measure the offset if it is due, and put it onto the board."""
        roster, now = board.registrar.roster, time.monotonic()
        if roster is None or not board.is_watched or now < self._due:
            return
        self._due = now + AGAIN_S
        first = next((peer for peer in roster.peers if peer.process_index == 0), None)
        if first is None:
            return
        if first.boot == board.identity.boot:  # processes of one machine share its clock
            found: tuple[float, float] | None = 0.0, 0.0
        else:
            found = _request(first.requests, board)
        if found is not None:
            round_trip, board.registrar.clock_offset = found
            board.registrar.clock_error = round_trip / 2
            self._due = now + EVERY_S


def _request(endpoint: str, board: Board) -> tuple[float, float] | None:
    """Return the round trip and the seconds to add to our clock, by the fastest answer."""
    best: tuple[float, float] | None = None
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        pair = keys.load()
        for _ in range(TRIES):
            if board.stopping:
                return None
            ping = wire.encode(wire.Request("ping"))
            connection = transport.RequestConnection(context, pair, pair.public, endpoint, ping)
            try:
                found = _exchange(connection, board)
            finally:
                connection.close()
            if found is not None and (best is None or found < best):
                best = found
    finally:
        context.destroy(linger=0)
    return best


def _exchange(connection: transport.RequestConnection, board: Board) -> tuple[float, float] | None:
    """Return the round trip and the measured offset; the handshake ends before the clock is read."""
    poller = zmq.Poller()
    poller.register(connection.socket, zmq.POLLIN)
    if not _wait(poller, board):  # the first answer only shows that the connection is established
        return None
    connection.reply()
    sent = time.time()
    connection.socket.send(wire.encode(wire.Request("ping")), zmq.NOBLOCK)
    if not _wait(poller, board):
        return None
    parts = connection.reply()
    received = time.time()
    if parts is None:
        return None
    reply: wire.Reply = wire.decode_as(wire.Reply, parts[0])
    # The reply has whole milliseconds, rounded down: half of one is their mean error.
    return received - sent, (reply.at_ms + 0.5) / 1000 - (sent + received) / 2


def _wait(poller: zmq.Poller, board: Board) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not board.stopping and time.monotonic() < end:
        if poller.poll(PIECE_MS):
            return True
    return False
