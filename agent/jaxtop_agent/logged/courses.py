"""The courses of all scalars of a script: what it reports to the agent, and what it logs elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base.clock import now_ms
from jaxtop.wire import is_loss, is_norm
from jaxtop_agent.logged.course import Course
from jaxtop_agent.logged.curve import AllCurves
from jaxtop_agent.logged.scalars import LoggedScalars, LoggedValue

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.hooks.trackers import TrackerCalls
    from jaxtop_agent.served.scraper import Scraper
    from jaxtop_agent.steps.progress import Progress
    from jaxtop_agent.steps.reports import ReadValue

MOST_COURSES = 256
# Seconds between two messages with values, and seconds for each value, which make that longer. What stopped
# being finite, or rose, is sent at once.
SEND_EVERY_S, SEND_EACH_S = 10.0, 0.25
# A norm led to a rise of a loss if it was high at most this many values of the loss before.
LEADS_WITHIN = 20
# The origin of values that the script reports to the agent.
REPORTED_ORIGIN = "agent"
# The origin of figures that an engine serves: they are current figures, and are not judged.
SERVED_ORIGIN = "served"


class Courses:
    """Follows all scalars, on one thread that may wait for a disk."""

    def __init__(
        self,
        board: Board,
        progress: Progress,
        calls: TrackerCalls | None = None,
        scraper: Scraper | None = None,
        since_ms: int = 0,
    ) -> None:
        self._board, self._progress = board, progress
        self._logged, self._scraper = LoggedScalars(self._note_logged, calls), scraper
        # By name and origin: what the script reported to the agent may be in a file, much later.
        self._courses: dict[tuple[str, str], Course] = {}
        self._runs: dict[tuple[str, str], str] = {}  # the run of a tracker that each course is of
        self._notes = self._notes_sent = 0
        self._verdict: list[tuple[object, ...]] = []
        self._sent_at = -SEND_EVERY_S
        self._curves, self._has_new, self._curves_due = AllCurves(since_ms), False, 0.0

    def look(self) -> None:
        """Note what was reported and logged since the last time, and send what is notable."""
        for each in self._progress.taken():
            self._note_reported(each)
        self._logged.read_new()
        self._board.ledger.logged = self._logged.latest
        for at, served in () if self._scraper is None else self._scraper.take_figures():
            for name, value in served.items():
                self._curves.note(name, SERVED_ORIGIN, value, at)
        if self._notes != self._notes_sent:
            self._send()
        self._send_curves()

    def finish(self) -> None:
        """Leave the whole curves for the goodbye, if there are any."""
        self.look()
        if (last := self._curves.message(now_ms())).curves:
            self._board.ledger.curves = last

    def _note_reported(self, read: ReadValue) -> None:
        course = self._course(read.name, REPORTED_ORIGIN, is_part=read.nonfinite is not None)
        if course is not None and abs(read.step) < 1 << 62:
            course.note(read.step, read.value, has_gap=read.has_gap, nonfinite=read.nonfinite or 0.0)
            self._notes += 1
            if not course.is_part:
                self._curves.note(read.name, REPORTED_ORIGIN, read.value)

    def _note_logged(self, read: LoggedValue) -> None:
        key = read.name, read.origin
        if self._runs.get(key) != read.run:  # the values of another run do not continue the curve
            self._courses.pop(key, None)
        course = self._course(read.name, read.origin)
        if course is not None and abs(read.step) < 1 << 62:
            self._runs[key] = read.run
            course.note(read.step, read.value, has_gap=read.has_gap)
            self._notes += 1
            self._curves.note(*key, read.value, read.at)

    def _course(self, name: str, origin: str, *, is_part: bool = False) -> Course | None:
        """Return the course of a scalar; None if there are too many."""
        course = self._courses.get((name, origin))
        if course is None and len(self._courses) < MOST_COURSES:
            course = Course(name, is_judged=is_part or is_loss(name) or is_norm(name), is_part=is_part)
            self._courses[name, origin] = course
        return course

    def _send(self) -> None:
        notable = [each for each in self._courses.values() if each.is_notable]
        for each in notable:
            if each.rise is not None and not each.rise.led_by and is_loss(each.name):
                self._find_lead(each)
        verdict = [(each.name, *each.verdict) for each in notable]
        pause = max(SEND_EVERY_S, SEND_EACH_S * len(notable))
        if verdict != self._verdict or (notable and time.monotonic() - self._sent_at >= pause):
            self._verdict, self._notes_sent, self._sent_at = verdict, self._notes, time.monotonic()
            self._board.ledger.notable = tuple(each.message() for each in notable)
            self._board.send(wire.Scalars(now_ms(), self._board.ledger.notable))

    def _send_curves(self) -> None:
        now = time.monotonic()
        self._has_new |= self._curves.gather(now_ms())
        if self._has_new and now >= self._curves_due:
            self._board.send(self._curves.message(now_ms()), at_once=False)
            pause = self._curves.pause(self._board.sampler.process_count)
            self._has_new, self._curves_due = False, now + pause

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
