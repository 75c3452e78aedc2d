"""A capture of several processes: asked for at one moment, then fetched in parts, over any kind of source."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.base.clock import steady
from jaxtop.base.names import legible, shorten
from jaxtop.features.captures.member import Member
from jaxtop.wire.captures import FAILED, OPEN, READY, STOPPING, WAITING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jaxtop.features.captures.member import Sink
    from jaxtop.sources.source import Source

# Requests take a while to reach all processes; the capture begins when all should have them.
AHEAD_S, AHEAD_A_PROCESS_S = 1.0, 0.005
# A process that does not take the request in this time is left out.
TAKES_WITHIN_S = 10.0
# How late the profiler may be in a process that has taken the request, and how long it may take to stop: with
# some drivers of GPUs that takes minutes.
LATE_S, STOPS_WITHIN_S = 30.0, 600.0
# How long it may pack its trace, send no part of it, or be in a phase that this version does not know.
GOES_ON_WITHIN_S = 600.0
# A process that says nothing for this time, or sends nothing, is given up.
LOST_AFTER_S = 60.0
# One that was heard within this time is able to say how far it is.
HEARD_S = 5.0
# How often every process is asked how far it is; with many processes less often.
ASK_EVERY_S, ASK_EVERY_S_A_PROCESS = 0.3, 0.01
# A process that waits for its parts to be fetched is asked less often, so that it keeps its trace.
ALIVE_EVERY_S = 5.0
# The fewest parts of a trace on their way at once, where replies are slow.
MIN_PARTS = 1
# The most parts of a trace on their way at once, where replies are fast.
MAX_PARTS = 8
# A reply within this many seconds is fast.
FAST_S = 0.5
# A reply after this many seconds is slow.
SLOW_S = 2.0
# A trace may be this much larger than was asked for; see the agent.
SIZE_TOLERANCE = 2
LONGEST_TEXT = 200
OLD_RELAY = "a relay on the way has an older jaxtop, which does not pass captures on"


class Wish(NamedTuple):
    """What is to be captured: it ends after `steps` steps, if given, or after `seconds`."""

    seconds: float
    most_bytes: int
    steps: int | None = None


class Capture:
    """A capture under way. The thread that polls the source calls `advance`; any thread may read its state.

    `open_sink` opens the file for the trace of a process. `at` is the time now, in seconds since the epoch.
    """

    def __init__(
        self, agents: Collection[str], wish: Wish, open_sink: Callable[[str], Sink], at: float
    ) -> None:
        self.wish = wish
        self.at = at + AHEAD_S + AHEAD_A_PROCESS_S * len(agents)
        self.members = {agent: Member(agent) for agent in agents}
        self._open_sink = open_sink
        self._begun = time.monotonic()
        self._every = max(ASK_EVERY_S, ASK_EVERY_S_A_PROCESS * len(agents))
        self._ask = wire.CaptureRequest(
            secrets.token_hex(8), max(1, round(wish.seconds * 1000)), wish.most_bytes, wish.steps
        )
        self._under_way, self._most_under_way = 0, MIN_PARTS + 1
        # Processes to be told that it is over, and the number of those that have not confirmed it.
        self._ends: list[str] = []
        self._ending = 0
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        """Whether every process has sent its trace or failed, and was told that it is over."""
        return not self._ends and not self._ending and all(each.is_over for each in self.members.values())

    @property
    def complete(self) -> list[Member]:
        return [each for each in self.members.values() if each.is_complete]

    @property
    def share(self) -> float:
        """The share of the known bytes that has arrived."""
        parts = sum(each.parts for each in self.members.values())
        return sum(each.fetched for each in self.members.values()) / parts if parts else 0.0

    def stop(self) -> None:
        """Give up what is not complete; `advance` still has to be called until it is done."""
        self._is_stopped = True

    def give_up(self) -> None:
        """End at once, because the source is closed."""
        for each in self.members.values():
            self._fail(each, "the connection was closed")
        self._ends.clear()
        self._ending = 0

    def advance(self, source: Source) -> None:
        """Send what is due, and give up processes that are late."""
        now = time.monotonic()
        for member in self.members.values():
            if not member.is_over:
                if self._is_stopped:
                    self._fail(member, "given up")
                else:
                    self._check(member, now)
        for member in self.members.values():
            if not member.is_over and not member.is_asked and now >= member.ask_due:
                self._ask_how_far(source, member)
        for member in self.members.values():
            if member.phase == READY and not member.is_complete:
                while self._under_way < self._most_under_way and (part := member.next_part()) is not None:
                    self._fetch(source, member, part)
        ended, self._ends = self._ends, []
        for agent in ended:
            self._ending += 1
            source.request(agent, wire.Request(wire.END_CAPTURE, capture=self._ask), self._has_ended)

    def _has_ended(self, _: wire.Reply | None) -> None:
        self._ending -= 1

    def _check(self, member: Member, now: float) -> None:
        """Give a process up if it has been in its phase for too long."""
        lasted = now - (member.since or self._begun)
        unheard_s = now - (member.heard or self._begun)
        begins = max(0.0, self.at - steady())
        if not member.phase:
            if unheard_s > TAKES_WITHIN_S:
                self._fail(member, "did not answer")
        elif member.phase in {OPEN, STOPPING}:
            # Stopping may hold up all of the process, so that it cannot say how far it is.
            if member.phase == OPEN and unheard_s < HEARD_S and lasted > self.wish.seconds + LATE_S:
                self._fail(member, f"was still capturing after {lasted:.0f} s")
            elif lasted > self.wish.seconds * (member.phase == OPEN) + STOPS_WITHIN_S:
                self._fail(member, f"the profiler did not stop within {STOPS_WITHIN_S:.0f} s")
        elif unheard_s > LOST_AFTER_S:
            self._fail(member, f"said nothing for {unheard_s:.0f} s")
        elif member.phase == WAITING and lasted > begins + LATE_S:
            self._fail(member, "did not begin: its profiler thread is busy")
        elif member.phase == READY and lasted > GOES_ON_WITHIN_S:
            self._fail(member, f"sent no part of its trace for {lasted:.0f} s")
        elif member.phase not in {WAITING, READY} and lasted > GOES_ON_WITHIN_S:
            self._fail(member, f"was still {member.phase} after {lasted:.0f} s")

    def _ask_how_far(self, source: Source, member: Member) -> None:
        what = wire.FETCH_CAPTURE if member.phase else wire.BEGIN_CAPTURE
        at_ms = None if member.phase else round(self.at * 1000)
        member.is_asked = True

        def done(reply: wire.Reply | None) -> None:
            every = ALIVE_EVERY_S if member.phase == READY else self._every
            member.is_asked, member.ask_due = False, time.monotonic() + every
            if reply is not None and not member.is_over:
                self._take(member, reply)

        source.request(member.agent, wire.Request(what, None, at_ms, self._ask), done)

    def _take(self, member: Member, reply: wire.Reply) -> bool:
        """Note how far a process is; return whether it goes on."""
        state = reply.capture
        if reply.error or state is None:
            self._fail(member, reply.error or OLD_RELAY)
            return False
        now = time.monotonic()
        member.heard = now
        if state.phase == FAILED:
            self._fail(member, state.text)
            return False
        member.enter(state.phase, now)
        member.lasted_us = state.lasted_us
        member.text = _said(state.text)
        if state.phase == READY and not member.parts:
            if not state.parts or state.size > SIZE_TOLERANCE * self.wish.most_bytes:
                self._fail(member, "sent a trace of no possible size")
                return False
            member.parts, member.size = state.parts, state.size
        return True

    def _fetch(self, source: Source, member: Member, part: int) -> None:
        self._under_way += 1
        sent = time.monotonic()
        ask = wire.CaptureRequest(self._ask.id, part=part)

        def done(reply: wire.Reply | None) -> None:
            self._under_way -= 1
            took = time.monotonic() - sent
            if reply is None or took > SLOW_S:
                self._most_under_way = max(MIN_PARTS, self._most_under_way // 2)
            elif took < FAST_S:
                self._most_under_way = min(MAX_PARTS, self._most_under_way + 1)
            if member.is_over:
                return
            if reply is None:
                member.missed(part)
            elif self._take(member, reply):
                assert reply.capture is not None
                member.since = time.monotonic()
                if why := member.store(part, reply.capture.data, self._open_sink):
                    self._fail(member, why)
                elif member.is_complete:
                    self._ends.append(member.agent)

        source.request(member.agent, wire.Request(wire.FETCH_CAPTURE, capture=ask), done)

    def _fail(self, member: Member, why: str) -> None:
        if not member.is_over:
            if member.phase:
                self._ends.append(member.agent)
            member.fail(_said(why))


def _said(text: str) -> str:
    """Return a text of another process as one line."""
    return shorten(legible(text.strip()), LONGEST_TEXT)
