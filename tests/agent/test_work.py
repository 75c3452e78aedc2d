"""The operations of a function that was compiled several times."""

from __future__ import annotations

import pytest

from jaxtop import wire
from jaxtop_agent.steps.work import LaunchWork, of_functions

SMALL = wire.Program("jit_step", "a", 4, 4, flops=10)
LARGE = wire.Program("jit_step", "b", 4, 4, flops=100)
BOUND = wire.Program("jit_step", "c", 1, 1, flops=40, flops_at_least=True)
UNKNOWN = wire.Program("jit_step", "d", 1, 1)


def window_of(*fingerprints, at_ms=20):
    names = tuple(("jit_step", each) for each in fingerprints)
    launches = tuple(wire.Launch(i, i, 0, 1) for i in range(len(names)))
    return wire.Window(at_ms, 1, programs=names, launches=launches)


@pytest.mark.parametrize(
    ("loaded", "windows", "done"),
    [
        ((SMALL,), (), LaunchWork(40, at_least=False)),
        ((BOUND,), (), LaunchWork(40, at_least=True)),
        ((SMALL, LARGE), (), LaunchWork(40, at_least=True)),  # nobody knows which of them
        ((SMALL, LARGE), (window_of("b"),), LaunchWork(400, at_least=False)),
        ((SMALL, LARGE), (window_of("a"), window_of("b", at_ms=30)), LaunchWork(400, at_least=False)),
        ((SMALL, LARGE), (window_of("b"), window_of(at_ms=30)), LaunchWork(400, at_least=False)),
        ((SMALL, LARGE), (window_of("b", "b", "a"),), LaunchWork(280, at_least=False)),
        (
            (SMALL, LARGE),
            (window_of("b", at_ms=4),),
            LaunchWork(40, at_least=True),
        ),  # before the last was compiled
        ((SMALL, LARGE), (window_of("b", None),), LaunchWork(40, at_least=True)),
        ((BOUND, LARGE), (window_of("b"),), LaunchWork(400, at_least=False)),
        ((SMALL, UNKNOWN), (window_of("a"),), None),
    ],
)
def test_of_several_programs_those_that_windows_saw_count_or_the_least(loaded, windows, done):
    programs = wire.Programs(1, loaded, seen_ms=(5,) * len(loaded))
    assert of_functions(programs, windows).get("jit_step") == done
