"""The registrar: exchanges the addresses of a run's agents through JAX's coordination service.

Its calls may block for as long as the coordinator does not answer, so it has its own thread.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from jaxtop.base import debuglog
from jaxtop.wire import Peer, Roster
from jaxtop_agent import jaxprivate
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.service.family_peers import EVERY_S, FamilyPeers

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.profiler.offset import ClockOffset

PREFIX = "jaxtop/v1/"
RUN_KEY = PREFIX + "run"

# While peers are missing, the pause doubles up to the longest. Once all are registered, the registrar looks
# when a viewer asks, or after the longest pause.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class Registrar:
    """Keeps the roster on the board up to date until `board.stopping`."""

    def __init__(self, board: Board, clock: ClockOffset) -> None:
        self._board = board
        self._agent = board.identity.agent
        self._registered: Peer | None = None
        self._clock = clock
        self._family_peers = FamilyPeers(board)

    def run(self) -> None:
        board = self._board
        pause = FIRST_PAUSE / 2
        due = 0.0
        board.sources["roster"] = "waiting: for the backends"
        while not board.stopping:
            with suppress(Exception):  # a viewer on this machine finds them without the agent
                self._family_peers.refresh()
            if time.monotonic() >= due:
                pause = self._turn(pause)
                due = time.monotonic() + pause
            # Until the next turn others of the family are looked for.
            if wait(board.wakeups.registrar, min(due - time.monotonic(), EVERY_S)):
                due, pause = 0.0, FIRST_PAUSE / 2

    def _turn(self, pause: float) -> float:
        """Exchange the roster if it is time; return the seconds until the next turn."""
        board = self._board
        complete = False
        try:
            complete = self._is_time() and self._exchange()
            with suppress(Exception):  # an unknown offset counts as 0
                self._clock.refresh(board)
        except Exception as error:
            debuglog.warning("registrar", "the roster cannot be exchanged", error=error)
            board.switch_off("roster", error)
        return LONGEST_PAUSE if complete else min(pause * 2, LONGEST_PAUSE)

    def _is_time(self) -> bool:
        # The backends must exist at this moment before the coordination client may be used; see
        # jaxprivate.Coordination. A program may clear them, and only then join a run of several processes.
        if self._board.sampler.topology is None or not self._board.publisher.is_placed:
            return False
        return jaxprivate.default_client() is not None

    def _exchange(self) -> bool:
        topology = self._board.sampler.topology
        assert topology is not None
        own = self._board.peer()
        coordination = jaxprivate.Coordination()
        if not coordination.is_there:
            self._publish((own,), self._agent, topology.process_count)
            return True
        if own != self._registered:
            entry = msgspec.json.encode(own).decode()
            coordination.set(f"{PREFIX}{topology.process_index}", entry, overwrite=True)
            self._registered = own
        entries = coordination.entries(PREFIX)
        if RUN_KEY not in entries:
            entries[RUN_KEY] = self._fix_run(coordination)
        peers = tuple(sorted(_peers(entries), key=lambda peer: peer.process_index or 0))
        self._publish(peers, entries[RUN_KEY], topology.process_count)
        return len(peers) >= topology.process_count

    def _fix_run(self, coordination: jaxprivate.Coordination) -> str:
        """Return the id of the run, set by its first agent, since process 0 may have none."""
        try:
            coordination.set(RUN_KEY, self._agent, overwrite=False)
        except Exception:  # ALREADY_EXISTS, which each jaxlib spells differently
            return coordination.entries(PREFIX)[RUN_KEY]
        return self._agent

    def _publish(self, peers: tuple[Peer, ...], run: str, process_count: int) -> None:
        self._board.registrar.roster = Roster(
            self._agent, peers, run, self._board.identity.name, process_count
        )
        self._board.sources["roster"] = "on"
        self._board.wakeups.publisher.set()


def _peers(entries: dict[str, str]) -> list[Peer]:
    peers = []
    for key, value in entries.items():
        if key.removeprefix(PREFIX).isdecimal():
            try:
                peers.append(msgspec.json.decode(value, type=Peer))
            except msgspec.DecodeError:  # written by another version of jaxtop
                continue
    return peers
