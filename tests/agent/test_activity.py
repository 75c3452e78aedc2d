"""What the main thread does: script, launches, waits, compilations, by line; and garbage collections."""

from __future__ import annotations

import gc
import os
import time

import pytest

from jaxtop.wire import COMPILE, LAUNCH, SCRIPT, WAIT, Place
from jaxtop_agent.hooks.garbage import GarbageClock, GarbageRuns
from jaxtop_agent.stalls.activity import _Sample, _thinned
from tests.support import JAXTOP, PYTHON, processes, run, script, viewer

# Each line takes so long that its share is known beforehand.
TEXT = """
    import gc, time
    import jax, jax.numpy as jnp

    @jax.jit
    def step(x):
        return jax.lax.fori_loop(0, {rounds}, lambda _, y: jnp.tanh(y @ y), x)

    def load():
        time.sleep({sleep})

    x = jnp.ones((64, 64))
    while True:
        load()
        x = step(x)
        {line}
"""


def watched(folder, until, **parts):
    """The activity of a script once it has been sampled for some seconds and this is true of it."""
    text = TEXT.format(**{"rounds": 1, "sleep": 0.1, "line": "float(x[0, 0])", **parts})
    with processes([*JAXTOP, "run", script(folder, text)]), viewer() as attached:
        accepted = []

        def is_accepted():
            activity = attached.host(0).activity
            if activity.span_ms > 2_000 and until(activity):
                accepted.append(activity)
            return accepted

        attached.until(is_accepted)
        return accepted[0]


def share(activity, kind, function=None):
    found = [
        each for each in activity.lines if each.activity == kind and function in (None, each.place.function)
    ]
    return sum(each.samples for each in found) / sum(activity.samples)


@pytest.mark.jax
class TestOnARealRun:
    @pytest.mark.newest
    @pytest.mark.thorough
    def test_a_slow_loader_is_seen_at_its_line(self, tmp_path):
        activity = watched(tmp_path, lambda activity: share(activity, SCRIPT, "load") > 0.7)
        (line,) = {each.place for each in activity.lines if each.place.function == "load"}
        assert (line.file, line.line) == ("script.py", 10)

    def test_a_read_of_the_result_is_a_wait_and_not_the_script(self, tmp_path):
        def is_wait(activity):
            return share(activity, WAIT) > 0.5 and share(activity, SCRIPT) < 0.3

        watched(tmp_path, is_wait, rounds=20_000, sleep=0)

    @pytest.mark.newest
    def test_changing_shapes_are_seen_as_compilation(self, tmp_path):
        watched(
            tmp_path,
            lambda activity: share(activity, COMPILE) + share(activity, LAUNCH) > 0.5,
            sleep=0,
            line="x = jnp.ones((int(time.time() * 1000) % 100_000 + 64, 64))[:64]",
        )

    @pytest.mark.newest
    def test_garbage_collections_are_counted_and_timed(self, tmp_path):
        activity = watched(tmp_path, lambda activity: activity.gc_runs > 10, line="gc.collect()")
        assert 0 < activity.gc_longest_us <= activity.gc_us < activity.span_ms * 2000


def test_the_clock_counts_each_collection_and_leaves_nothing_behind():
    before, clock = list(gc.callbacks), GarbageClock(bool)
    clock.install()
    clock.read()
    gc.collect()
    gc.collect()
    first, second = clock.read(), clock.read()
    clock.uninstall()
    clock.uninstall()
    assert first.runs == 2 and 0 < first.longest_ns <= first.total_ns
    assert (second.runs, second.longest_ns) == (2, 0)
    assert gc.callbacks == before


def test_a_wait_for_a_core_is_no_collection():
    """A busy process has the same core."""
    own, clock = os.sched_getaffinity(0), GarbageClock(bool)
    core = min(own)
    busy = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile os.getppid() == {os.getpid()}: pass"
    many = [[i] for i in range(300_000)]
    with processes([PYTHON, "-S", "-c", busy]):
        os.sched_setaffinity(0, {core})
        clock.install()
        try:
            began = time.thread_time_ns()
            for _ in range(5):
                gc.collect()
            used = time.thread_time_ns() - began
        finally:
            clock.uninstall()
            os.sched_setaffinity(0, own)
    assert 0 < clock.read().total_ns <= used and many


def test_a_collection_that_began_before_the_clock_counts_for_nothing():
    clock = GarbageClock(bool)
    clock._note("stop", {})
    assert clock.read() == (0, 0, 0)


TRACES = """
    import gc
    gc.disable()
    from jaxtop import agent
    agent.start()
    import jax, jaxtop_agent

    def step(x):
        for _ in range(5):
            gc.collect()
        return x + 1

    counted = jaxtop_agent._agent._hooks.garbage
    before = counted().runs
    jax.jit(step)(1)
    traced = counted().runs
    gc.collect()
    print(traced - before, counted().runs - traced)
"""


@pytest.mark.jax
def test_collections_that_tracing_causes_are_part_of_the_compilation(tmp_path):
    """They end with it, and would stand among the findings for as long as the samples last."""
    done = run(PYTHON, script(tmp_path, TRACES))
    assert (done.stdout, done.stderr) == ("0 1\n", "")


def test_samples_that_are_thinned_keep_their_start_and_their_longest_collection():
    """What the first one says of collections lies before the time of the samples."""
    longest = [900, 0, 50, 0, 0, 70, 0]
    samples = [
        _Sample(float(i), Place("train.py", 1, "step"), SCRIPT, None, GarbageRuns(i, 100 * i, each), None)
        for i, each in enumerate(longest)
    ]
    kept = _thinned(samples, 5)
    assert [each.at for each in kept] == [0.0, 5.0, 6.0]
    assert [each.garbage.longest_ns for each in kept] == [900, 70, 0]
