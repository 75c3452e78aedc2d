"""What the script says of its parts, and what it may do with it."""

import threading

import pytest

from jaxtop import agent
from jaxtop_agent.ledger.phases import MAX_OPEN_PHASES, Phase, Phases


def kinds(phases):
    return [each.kind for each in phases.ended]


def test_phases_within_each_other_end_from_the_inside():
    phases = Phases()
    with Phase(phases, "evaluate"), Phase(phases, "save"):
        assert [each.kind for each in phases.running()] == ["saving", "evaluating"]
    assert kinds(phases) == ["saving", "evaluating"]
    inner, outer = phases.ended
    assert outer.start <= inner.start <= inner.end <= outer.end
    assert phases.running() == []


def test_a_name_that_is_none_is_other_time():
    phases = Phases()
    with Phase(phases, "lunch"):
        pass
    assert kinds(phases) == ["other"]


def test_an_error_in_a_phase_reaches_the_script_and_ends_it():
    phases = Phases()
    with pytest.raises(KeyError), Phase(phases, "restore"):
        raise KeyError
    assert kinds(phases) == ["restoring"] and phases.running() == []


def test_phases_of_other_threads_do_not_count():
    phases = Phases()

    def work():
        with Phase(phases, "save"):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert kinds(phases) == []


def test_too_many_within_each_other_are_not_counted_and_those_around_are():
    phases = Phases()

    def nested(depth):
        with Phase(phases, "input"):
            if depth:
                nested(depth - 1)

    nested(2 * MAX_OPEN_PHASES)
    assert len(kinds(phases)) == MAX_OPEN_PHASES and phases.running() == []


def test_without_an_agent_a_phase_does_nothing():
    with agent.phase("restore"):
        pass
