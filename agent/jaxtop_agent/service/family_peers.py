"""The agents of the same family on this machine that are in other runs: found by their run files.

The oldest agent of a family lists all others, and the others list the oldest one: a viewer that reaches one
of them reaches all.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from jaxtop.base import processes
from jaxtop.store import runfiles
from jaxtop.wire import Peer
from jaxtop_agent.boot.children import Family

if TYPE_CHECKING:
    from jaxtop.wire import Hello
    from jaxtop_agent.core.board import Board

EVERY_S = 2.0
# The number of ancestors that are searched for an agent.
MAX_ANCESTORS = 16
# The number of peers in a roster, which has to fit into one message.
MAX_PEERS = 500


class FamilyPeers:
    """Keeps `board.registrar.family_peers` up to date."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._due = 0.0
        self._seen: tuple[int, ...] = ()

    def refresh(self) -> None:
        """Read the run files again if any of them has changed; do nothing if it was done a moment ago."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY_S
        seen = tuple(_changed_at())
        if seen == self._seen:
            return
        self._seen = seen
        own = self._board.identity
        roster = self._board.registrar.roster
        family = [
            each.hello for each in runfiles.find() if each.hello.family == own.family and not each.is_stale
        ]
        oldest = min(family, key=lambda hello: (hello.started_ms, hello.agent), default=None)
        if oldest is None:
            return
        run = None if roster is None else roster.run
        listed = family if oldest.agent == own.agent else [oldest]
        peers = tuple(
            _peer(hello)
            for hello in sorted(listed, key=lambda hello: hello.agent)[:MAX_PEERS]
            if hello.agent != own.agent and (hello.run is None or hello.run != run)
        )
        if peers != self._board.registrar.family_peers:
            self._board.registrar.family_peers = peers
            self._board.wakeups.publisher.set()


def adopted(family: Family) -> Family:
    """Return the family of an ancestor with an agent, if this process has inherited none."""
    if family.is_of_child:
        return family
    place = processes.here()
    known = {
        each.hello.pid: each.hello
        for each in runfiles.find()
        if (each.hello.boot, each.hello.pid_namespace) == place and not each.is_stale
    }
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        if (hello := known.get(pid)) is not None and hello.family:
            return Family(hello.family, hello.name or "python", hello.role or "")
        above = processes.parent_of(pid)
        if above is None:
            break
        pid = above
    return family


def _changed_at() -> list[int]:
    """Return when each folder of run files changed last."""
    found = []
    for folder in runfiles.folders():
        try:
            found.append(folder.stat().st_mtime_ns)
        except OSError:
            found.append(0)
    return found


def _peer(hello: Hello) -> Peer:
    return Peer(*(getattr(hello, name) for name in Peer.__struct_fields__))
