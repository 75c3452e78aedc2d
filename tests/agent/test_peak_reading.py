"""Reading the peak of a program does not delay its script, nor keep what the script has dropped."""

from __future__ import annotations

import json
import random
import weakref
from types import SimpleNamespace

import pytest

from jaxtop import wire
from jaxtop_agent import jaxprivate
from jaxtop_agent.programs import executable_summary, shapes
from jaxtop_agent.programs.buffers import assignment, peaks
from jaxtop_agent.programs.buffers.assignment import TEMPORARY, Allocation, PlacedBuffer
from tests.support import PYTHON, run, script


def pause():
    pass


CONSTANTS = """
import json
import jax, jax.numpy as jnp, numpy as np
from jaxtop import wire
from jaxtop_agent import jaxprivate
from jaxtop_agent.programs import inventories
from jaxtop_agent.programs.buffers import peaks

def made(size):
    constant = np.random.default_rng(0).random(size, np.float32)
    return jax.jit(lambda x: (x + constant).sum()).lower(jnp.ones(size)).compile().runtime_executable()

serialised = []
whole = jaxprivate.programs.module_message
def counted(module):
    serialised.append(1)
    return whole(module)
jaxprivate.module_message = jaxprivate.programs.module_message = counted
found = []
for size in (1 << 10, 1 << 21):
    executable = made(size)
    serialised.clear()
    number = inventories._number(executable, jaxprivate.module(executable))
    peak = peaks.read(peaks.PeakSource.of(executable), wire.Program("f", "f", 1, 1), lambda: None)
    found.append([number is not None, peak.why_not, len(serialised)])
print(json.dumps(found))
"""


@pytest.mark.jax
def test_a_module_with_large_constants_is_not_serialised(tmp_path):
    done = run(PYTHON, script(tmp_path, CONSTANTS))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[True, "", 2], [False, peaks.TOO_LARGE, 0]]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("", 0),
        ("  a = f32[1024,8]{1,0} constant({...})\n  ROOT b = s8[3] constant({1, 2, 3})\n", 32771),
        ("  c = (f32[2], pred[]) constant((...))\n  %d = f32[4] parameter(0)\n", 9),
        ("  e = unheard[4] constant({...})\n", None),
    ],
)
def test_the_bytes_of_constants_are_those_of_their_shapes(printed, expected):
    assert shapes.constant_bytes(printed) == expected


def test_the_executable_is_dropped_before_the_reading(monkeypatch):
    class Executable:
        pass

    loaded = [Executable()]
    held = weakref.ref(loaded[0])
    monkeypatch.setattr(jaxprivate, "live_executables", lambda: [loaded.pop()])
    monkeypatch.setattr(executable_summary, "key_of", lambda _: (1, "f"))
    monkeypatch.setattr(jaxprivate, "module", lambda _: None)
    monkeypatch.setattr(jaxprivate, "parts", lambda _: [])
    monkeypatch.setattr(jaxprivate, "module_shapes", lambda _: "")
    monkeypatch.setattr(jaxprivate, "buffer_assignment", lambda _: b"")
    seen, sent = [], []

    def message(_):
        seen.append(held())
        return b""

    monkeypatch.setattr(jaxprivate, "module_message", message)
    monkeypatch.setattr(peaks, "Frames", SimpleNamespace(of=lambda *_: None))
    board = SimpleNamespace(stopping=False, send=sent.append)
    peaks.send(board, {(1, "f"): wire.Program("f", "f", 1, 1)}, {})
    assert seen == [None] and not sent[0].why_not


def simply(temporaries, spans):
    """Return the fullest moment and its buffers, by looking at all buffers at each moment."""
    best = -1, None, []
    for moment in sorted({begin for begin, _ in spans.values()}):
        largest = {}
        for number, each in enumerate(temporaries):
            for one in each.buffers:
                if spans[one.spot][0] <= moment <= spans[one.spot][1]:
                    place = number, one.offset
                    largest[place] = max(largest.get(place, 0), one.bytes)
        if sum(largest.values()) > best[0]:
            best = sum(largest.values()), moment, sorted(largest.values())
    return best[1:]


@pytest.mark.parametrize("seed", range(40))
def test_the_fullest_moment_is_that_of_a_simple_search(seed):
    chance = random.Random(seed)
    spans, temporaries, number = {}, [], 0
    for _ in range(3):
        buffers = []
        for _ in range(chance.randrange(12)):
            number += 1
            begin = chance.randrange(10)
            spans[number, ()] = begin, begin + chance.randrange(6)
            buffers.append(PlacedBuffer((number, ()), chance.randrange(4), chance.randrange(5)))
        temporaries.append(Allocation(TEMPORARY, 100, tuple(buffers)))
    moment, held = assignment._fullest(temporaries, spans, pause)
    assert (moment, sorted(each.bytes for each in held)) == tuple(simply(temporaries, spans))


class Counted(int):
    """A number that counts how often it is added or negated."""

    count = 0

    def __radd__(self, other):
        Counted.count += 1
        return int(self) + other

    def __neg__(self):
        Counted.count += 1
        return -int(self)


def test_the_work_for_many_buffers_that_are_alive_grows_with_their_number():
    spans = {(i, ()): (i, 1000) for i in range(500)}
    buffers = tuple(PlacedBuffer((i, ()), i * 8, Counted(8)) for i in range(500))
    Counted.count = 0
    moment, held = assignment._fullest([Allocation(TEMPORARY, 4000, buffers)], spans, pause)
    assert (moment, len(held)) == (499, 500)
    assert 0 < Counted.count <= 5000
