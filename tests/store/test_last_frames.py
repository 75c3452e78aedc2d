"""What an agent and a relay store of a process, for viewers that come later."""

from __future__ import annotations

from jaxtop import wire
from jaxtop.model.collectives.joining import WINDOWS_TO_WAIT
from jaxtop.store.last_frames import ORDER, WINDOWS, LastFrames
from tests import builders
from tests.builders import NOW, agent_id, frame

AGENT = agent_id(0)


def test_no_more_windows_are_sent_together_than_a_viewer_waits_for():
    """Else it would close launches that the next process is about to report."""
    last = LastFrames()
    for number in range(10):
        last.take(frame(AGENT, wire.Window(number, 1), NOW + number))
    found = [wire.decode("window", each.raw).at_ms for each in last.frames(NOW + 10)]
    assert found == list(range(10 - WINDOWS, 10)) and WINDOWS <= WINDOWS_TO_WAIT


def test_windows_that_do_not_describe_the_present_are_not_sent():
    last = LastFrames()
    last.take(frame(AGENT, wire.Window(0, 1), NOW))
    assert last.frames(NOW + 599) and not last.frames(NOW + 601)


def test_what_its_owner_makes_is_made_anew_and_never_stored():
    made = []

    def pulse():
        made.append(frame(AGENT, builders.pulse(0), sequence=len(made)))
        return made[-1:]

    last = LastFrames({"pulse": pulse, "arrays": lambda: [frame(AGENT, builders.arrays())]})
    for each in (builders.pulse(0), builders.arrays(), wire.ArraysChange(0, 7, 1)):
        last.take(frame(AGENT, each))
    assert last.size == 0
    last.take(frame(AGENT, builders.hello(0)))
    for _ in range(2):
        assert [each.kind for each in last.frames(NOW)] == ["hello", "arrays", "pulse"]
    assert len(made) == 2 and last.frames(NOW)[-1].sequence == 2


def test_the_pulse_is_last_so_that_it_marks_the_end():
    assert ORDER[-2:] == ("pulse", "bye")
