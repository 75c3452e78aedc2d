"""The thread that reads what an engine serves on this machine, every few seconds."""

from __future__ import annotations

import http.client
import time
from collections import deque
from typing import TYPE_CHECKING

from jaxtop.base import debuglog
from jaxtop.base.names import reason
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.served.figures import ServedFigures

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.core.settings import ServedAt

# Seconds between two reads.
READ_INTERVAL_S = 5.0
# Seconds that the engine has to reply.
REPLY_TIMEOUT_S = 2.0
# The number of failures in succession until the figures are off.
MAX_FAILURES = 6
MOST_BYTES = 1 << 20
MOST_KEPT = 64
SOURCE = "served figures"


class Scraper:
    """Reads the text again and again. Only process 0 of a run does, as the others' engine is the same."""

    def __init__(self, board: Board, served_at: ServedAt) -> None:
        self._board, self._at = board, served_at
        self._figures = ServedFigures()
        self._new: deque[tuple[float, dict[str, float]]] = deque(maxlen=MOST_KEPT)
        self._failures = 0
        # An engine may not answer. The end of the script does not wait for that.
        self.is_away = False

    def run(self) -> None:
        board = self._board
        while not board.stopping:
            topology = board.sampler.topology
            if topology is not None:
                if topology.process_index:
                    board.sources[SOURCE] = "waiting: process 0 reads them"
                    return
                self._scrape()
            wait(board.wakeups.served, READ_INTERVAL_S if topology is not None else REPLY_TIMEOUT_S)

    def take_figures(self) -> list[tuple[float, dict[str, float]]]:
        """Return the figures since the last time, with when they were read."""
        return [self._new.popleft() for _ in range(len(self._new))]

    def _scrape(self) -> None:
        board = self._board
        self.is_away = True
        try:
            text = fetched(self._at)
        except (OSError, http.client.HTTPException, ValueError) as error:
            debuglog.info("served", f"nothing from {self._at}", error)
            why = str(error) if isinstance(error, ValueError) else reason(error)
            self._fail(f"{self._at} does not serve them: {why}")
            board.served.figures = {}
            return
        finally:
            self.is_away = False
        now = time.time()
        found = board.served.figures = self._figures.take(text, now)
        self._new.append((now, found))
        if found or self._figures.has_counters:
            self._failures = 0
            board.sources[SOURCE] = "on"
        else:
            self._fail(f"{self._at} serves no figures")

    def _fail(self, why: str) -> None:
        """Say why there are no figures; an engine that has just been started gets some time."""
        self._failures += 1
        state = "waiting" if self._failures < MAX_FAILURES else "off"
        self._board.sources[SOURCE] = f"{state}: {why}"


def fetched(served_at: ServedAt) -> str:
    """Return the text that is served there; no redirection is followed, and no proxy used."""
    connection = http.client.HTTPConnection(served_at.host, served_at.port, timeout=REPLY_TIMEOUT_S)
    try:
        connection.request("GET", served_at.path, headers={"Accept": "text/plain"})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise ValueError(f"it answers {answer.status} {answer.reason}")
        body = answer.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise ValueError(f"its text is longer than {MOST_BYTES >> 20} MiB")
        return body.decode(errors="replace")
    finally:
        connection.close()
