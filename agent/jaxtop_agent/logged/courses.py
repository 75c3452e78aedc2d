"""The courses of all scalars of a script: what it reports to the agent, and what it logs elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base.clock import now_ms
from jaxtop.wire import is_loss, is_norm
from jaxtop_agent.logged.course import Course
from jaxtop_agent.logged.scalars import LoggedScalars
from jaxtop_agent.steps.reports import ReadValue

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.steps.progress import Progress

MOST_COURSES = 256
# Values are sent every so many seconds, and so many for each; what stopped being finite, or rose, at once.
SEND_EVERY_S, SEND_EACH_S = 10.0, 0.25
# A norm led to a rise of a loss if it was high at most so many values of the loss before.
LEADS_WITHIN = 20


class Courses:
    """Follows all scalars, on one thread that may wait for a disk."""

    def __init__(self, board: Board, progress: Progress) -> None:
        self._board, self._progress = board, progress
        self._logged = LoggedScalars(self._note_logged)
        # By name, and whether the script reported it to the agent: the same may be in a file, much later.
        self._courses: dict[tuple[str, bool], Course] = {}
        self._notes = self._notes_sent = 0
        self._verdict: list[tuple[object, ...]] = []
        self._sent_at = -SEND_EVERY_S

    def look(self) -> None:
        """Note what was reported and logged since the last time, and send what is notable."""
        for each in self._progress.taken():
            self._note(each, is_told=True)
        self._logged.look()
        self._board.ledger.logged = self._logged.latest
        if self._notes != self._notes_sent:
            self._send()

    def _note_logged(self, name: str, step: int, value: float) -> None:
        self._note(ReadValue(name, step, value), is_told=False)

    def _note(self, read: ReadValue, *, is_told: bool) -> None:
        name, is_part = read.name, read.nonfinite is not None
        course = self._courses.get((name, is_told))
        if course is None:
            if len(self._courses) >= MOST_COURSES:
                return
            course = Course(name, is_judged=is_part or is_loss(name) or is_norm(name), is_part=is_part)
            self._courses[name, is_told] = course
        if abs(read.step) < 1 << 62:
            course.note(read.step, read.value, has_gap=read.has_gap, nonfinite=read.nonfinite or 0.0)
            self._notes += 1

    def _send(self) -> None:
        notable = [each for each in self._courses.values() if each.is_notable]
        for each in notable:
            if each.rise is not None and not each.rise.led_by and is_loss(each.name):
                self._find_lead(each)
        verdict = [(each.name, *each.verdict) for each in notable]
        pause = max(SEND_EVERY_S, SEND_EACH_S * len(notable))
        if verdict != self._verdict or (notable and time.monotonic() - self._sent_at >= pause):
            self._verdict, self._notes_sent, self._sent_at = verdict, self._notes, time.monotonic()
            self._board.send(wire.Scalars(now_ms(), tuple(each.message() for each in notable)))

    def _find_lead(self, loss: Course) -> None:
        """Find the norm whose high values began before the rise of a loss and reached it."""
        assert loss.rise is not None
        began = loss.rise.step
        reach = began - LEADS_WITHIN * loss.spacing
        leads = [
            (began - each.streak.first, each.name)
            for (name, _), each in self._courses.items()
            if each.streak is not None and each.streak.first < began and each.streak.last >= reach
            if each.is_part or is_norm(name)
        ]
        if leads:
            steps, name = max(leads)
            loss.led_by(name, steps)
