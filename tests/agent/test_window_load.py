"""How large a window may be: before it is opened, while it is open, and when it is read."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from jaxtop import traces, wire
from jaxtop.traces.parts import BETWEEN_BREATHS
from jaxtop_agent.core.board import SamplerPrograms
from jaxtop_agent.core.threads import WakeEvent
from jaxtop_agent.profiler import rows, schedule
from jaxtop_agent.profiler.load import NO_COLLECTIVES, NOT_READ, Load
from jaxtop_agent.profiler.schedule import MAX_EVENTS_PER_S, USUAL_LIMITS, Schedule, WindowResult
from jaxtop_agent.profiler.session import ProfilerSession
from tests.support import PYTHON, Viewer, environment, eventually, processes, script

REDUCING = {("jit_step", "a"): wire.Inventory(0, "jit_step", "a", 2, collectives=("all-reduce",))}


def board(recorded=None, inventories=REDUCING):
    return SimpleNamespace(programs=SamplerPrograms(recorded=recorded, inventories=inventories))


class TestBeforeItIsOpened:
    def test_events_are_expected_by_what_is_launched(self):
        counts = {"step": 10, "add": 100}
        load = Load(board({"jit_step": 500, "jit_add": 2}), lambda: counts)
        load.look(0.0, USUAL_LIMITS.sampled)
        counts = {"step": 30, "add": 200}
        assert load.look(4.0, USUAL_LIMITS.sampled) == ((20 * 500 + 100 * 2) / 4, 500, 0.2, 0.2)

    @pytest.mark.parametrize("recorded", [None, {"jit_step": None}, {"jit_step": 5, "jit_big": 10**6}])
    def test_nothing_is_expected_where_anything_loaded_may_be_too_large(self, recorded):
        counts = {"step": 10}
        load = Load(board(recorded), lambda: counts)
        load.look(0.0, USUAL_LIMITS.sampled)
        counts = {"step": 30}
        assert load.look(4.0, USUAL_LIMITS.sampled).per_second is None

    def test_launches_that_nobody_sees_are_not_taken_for_none(self):
        load = Load(board({"jit_step": 500}), dict)
        load.look(0.0, USUAL_LIMITS.sampled)
        assert load.look(4.0, USUAL_LIMITS.sampled) == (None, 500, None, None)

    def test_without_collectives_there_is_nothing_to_measure(self):
        assert Load(board({"jit_step": 5}), dict).why_closed is None
        assert Load(board({"jit_step": 5}, {}), dict).why_closed == NO_COLLECTIVES
        assert Load(board(None, {}), dict).why_closed == NOT_READ
        launches = {"step": 90, "evaluate": 2, "init": 1}
        few = {"jit_step": 50, "jit_evaluate": None, "jit_init": None}
        assert Load(board(few, {}), lambda: launches).why_closed is None
        assert Load(board({**few, "jit_step": 9_000}, {}), lambda: launches).why_closed == NO_COLLECTIVES
        assert Load(board({**few, "jit_step": None}, {}), lambda: launches).why_closed == NO_COLLECTIVES
        unread = {("jit_step", "a"): wire.Inventory(0, "jit_step", "a", 2, why_not="too large")}
        assert Load(board({"jit_step": 5}, unread), dict).why_closed is None

    def test_a_new_program_with_collectives_is_one_that_was_launched_twice(self):
        counts = {"step": 1, "route": 1, "log": 9}
        one = (wire.Collective("psum.1", "all-reduce", "f32[4]", 16, None),)
        reducing = {
            (f"jit_{name}", "a"): wire.Inventory(0, f"jit_{name}", "a", 2, collectives=one)
            for name in ("step", "route")
        }
        load = Load(board({}, reducing), lambda: counts)
        assert load.reducing() == set()
        counts["step"] = 2
        assert load.reducing() == {("jit_step", "a")}

    def test_another_variant_of_a_function_is_a_new_program(self):
        """Which of them each process launches now is seen in a window only, so none may be long in coming."""
        one = (wire.Collective("psum.1", "all-reduce", "f32[4]", 16, None),)
        variants = [wire.Inventory(0, "jit_step", each, 2, collectives=one) for each in ("a", "b")]
        loaded = board({}, {("jit_step", "a"): variants[0]})
        load = Load(loaded, lambda: {"step": 9})
        before = load.reducing()
        loaded.programs.inventories = {("jit_step", each.fingerprint): each for each in variants}
        assert load.reducing() - before == {("jit_step", "b")}

    def test_what_is_expected_bounds_the_window(self):
        assert Schedule().length(0.1, 1e6) <= USUAL_LIMITS.sampled / 1e6
        assert Schedule().length(0.1, 10.0) >= 0.2

    def test_where_nothing_is_known_windows_begin_short_and_grow(self):
        planned, lengths = Schedule(), []
        for _ in range(5):
            lengths.append(planned.length(0.1))
            planned.learn(WindowResult(lengths[-1], 0.001, 10, 0, None))
        assert lengths[0] <= USUAL_LIMITS.sampled / MAX_EVENTS_PER_S
        assert lengths == sorted(lengths) and lengths[-1] >= 0.2
        planned.learn(WindowResult(0.2, 0.1, 200_000, 0, None))
        assert planned.length(0.1) <= USUAL_LIMITS.sampled / 1e6

    def test_a_step_that_is_clearly_too_large_is_known_by_one_short_window(self):
        planned = Schedule()
        planned.see(0.1)
        planned.learn(WindowResult(0.004, 0.05, 12_000, 0, None))
        assert planned.is_too_dense
        planned.see(0.5)
        assert planned.is_too_dense
        planned.see(None)
        assert planned.is_too_dense

    def test_a_step_that_a_compilation_made_long_is_found_to_be_small_enough(self):
        planned = Schedule()
        planned.see(2.0)
        planned.learn(WindowResult(0.009, 0.002, 1_200, 0, None))
        assert planned.is_too_dense
        planned.see(0.05)
        assert not planned.is_too_dense

    def test_a_load_that_makes_steps_longer_makes_them_no_larger(self):
        planned = Schedule()
        planned.see(0.05)
        for _ in range(6):
            planned.learn(WindowResult(0.15, 0.02, 6_000, 2, 0.05))
        planned.see(0.5)
        assert not planned.is_too_dense

    def test_the_first_windows_follow_each_other_only_while_they_are_cheap(self):
        planned = Schedule()
        for _ in range(3):
            planned.learn(WindowResult(0.02, 0.3, 10_000, 0, None))
        assert planned.level > 5


def test_a_window_ends_once_enough_was_launched():
    """However long it was meant to be."""
    counts = {"step": 10}
    recorded = Load(board({"jit_step": 500}), lambda: counts).recorder()
    looks = []

    def is_over() -> bool:
        counts["step"] += 10
        looks.append(recorded())
        return looks[-1] > 20_000

    profiler = SimpleNamespace(
        state=SimpleNamespace(lock=threading.Lock()), in_use=lambda: None, start=list, stop=list
    )
    wakeup = WakeEvent()
    ProfilerSession(profiler, wakeup, lambda: None).take(3600.0, is_over)
    wakeup.close()
    assert looks == [5000, 10_000, 15_000, 20_000, 25_000]


def test_no_more_is_read_of_a_trace_than_a_bound():
    read = []

    def events():
        for number in range(100_000):
            read.append(number)
            yield SimpleNamespace(name="add", start_ns=0, duration_ns=1, stats=())

    line = SimpleNamespace(name="python", events=events())
    profile = SimpleNamespace(planes=[SimpleNamespace(name="/host:CPU", lines=[line])])
    seen = traces.read("cpu", profile, traces.WantedCollectives({}), {}, most=1000)
    assert 1000 < len(read) <= 1000 + BETWEEN_BREATHS and seen.is_too_large
    window = rows.message(seen, [0], {}, 100, wire.Window(0, 1000, slot=7))
    assert "too many to read" in window.note and not window.launches


LOOPS = """
import os, sys, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxtop import agent

agent.start(collectives="sampled")
mesh = Mesh(np.array(jax.devices()), ("data",))
on_each = NamedSharding(mesh, P("data"))

def body(c, _):
    c = jnp.sort(jnp.tanh(c)) + 1
    return (c + jax.lax.psum(c.sum(), "data") if {reduces} else c), None

def loop(x):
    return jax.lax.scan(body, x, None, length={length})[0]

spread = dict(mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False)
step = jax.jit(jax.shard_map(loop, **spread))
x = jax.device_put(np.ones((4, 8), np.float32), on_each)
while not os.path.exists("stop"):
    x = step(x).block_until_ready()
    time.sleep(0.01)
"""


@pytest.mark.jax
@pytest.mark.newest
@pytest.mark.parametrize(
    ("reduces", "length", "said"),
    [
        (True, 3000, "on request: the trace of one step is too large"),
        (False, 3000, "on request: no program has collectives"),
        (True, 3, "on"),
    ],
    ids=["too much in a launch", "no collectives", "few"],
)
def test_windows_stay_closed_where_they_would_be_too_large_or_for_nothing(tmp_path, reduces, length, said):
    """And open on request, for so long that what they hold can be read."""
    path = script(tmp_path, LOOPS.format(reduces=reduces, length=length))
    with processes([PYTHON, path], cwd=tmp_path, env=environment(2)):
        eventually(lambda: [*tmp_path.rglob("*.json")])
        attached = Viewer()
        try:
            host = attached.host
            attached.until(
                lambda: host(0).hello and host(0).hello.sources.get("collectives", "").startswith(said)
            )
            before = host(0).window.at_ms
            attached.source.request(host(0).agent, wire.Request("capture"), lambda _: None)
            attached.until(lambda: host(0).window.slot is None and host(0).window.at_ms > before)
            assert host(0).window.duration_us < schedule.LONGEST_S * 1e6
            assert ("a launch makes about" in host(0).window.note) is (length > 3 and reduces)
        finally:
            attached.source.close()
