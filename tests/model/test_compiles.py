"""What is told of a compilation while it runs, and that the clock of the machine may be set meanwhile."""

from __future__ import annotations

import json

import pytest

from jaxtop import wire
from jaxtop.export import compiles
from tests.stories import cluster_of, hello, link, pulse
from tests.support import PYTHON, run, script

STAGES = """
    import json, time
    from jaxtop import agent
    agent.start()
    import jax
    import jaxtop_agent
    from jax._src import monitoring

    NAMES = ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile")
    hooks = jaxtop_agent._agent._hooks
    stages = [f"/jax/core/compile/{name}_duration" for name in NAMES]
    since = []
    for stage in stages:
        monitoring.record_scalar(stage, 0, fun_name="step")
        (now,) = hooks.compiling()
        since.append(now.since_ms)
        time.sleep(3 if stage == stages[0] else 0.1)
        monitoring.record_event_duration_secs(stage, 1.0, fun_name="step")
        time.sleep(1.2)  # what JAX does between two stages of a large function
    monitoring.record_scalar(stages[0], 0, fun_name="step")  # compiled once more
    (now,) = hooks.compiling()
    print(json.dumps([*since, now.since_ms]))
"""

CLOCK = """
    import time
    from jaxtop import agent
    agent.start()
    from jaxtop.base.clock import now_ms
    before, day = now_ms(), time.time_ns
    time.time_ns = lambda: day() - 3_600_000_000_000
    print(0 <= now_ms() - before < 60_000, abs(now_ms() - day() / 1e6) < 60_000)
"""


@pytest.mark.jax
@pytest.mark.newest
def test_a_compilation_counts_from_its_first_stage_to_its_last(tmp_path):
    first, second, third, again = json.loads(run(PYTHON, script(tmp_path, STAGES)).stdout)
    assert first == second == third < again


def test_times_go_on_when_the_clock_of_the_machine_is_set_back(tmp_path):
    assert run(PYTHON, script(tmp_path, CLOCK)).stdout == "True True\n"


def test_processes_without_a_run_are_runs_by_themselves():
    lines = (wire.CompiledLine("step", "train.py:9", 2, 1000),)
    latest = (wire.Compilation(9_000, "step", "train.py:9", 500),)
    programs = wire.Programs(9_000, compilations=latest, lines=lines)
    cluster = cluster_of(*(
        (10.0, agent, each)
        for agent in ("a", "b")
        for each in (link("up"), hello(None, None, agent=agent), pulse(at_ms=9_000), programs)
    ))  # fmt: skip
    found = compiles.lines(cluster, 10.0)
    assert [(each["run"], each["processes"]) for each in found] == [("a", 1), ("b", 1)]
    assert {each["run"] for each in compiles.latest(cluster, 10.0)} == {"a", "b"}


SET_BACK = """
    import jax
    from jax._src import monitoring
    from jaxtop import wire
    from jaxtop_agent.hooks.compiles import EVENT, STAGES, Compiles

    compiles = Compiles()
    compiles.install()
    for stage in sorted(STAGES, key=EVENT.__eq__):
        monitoring.record_scalar(stage, 0, fun_name="step")
        monitoring.record_event_duration_secs(stage, -3600.0, fun_name="step")
    (_, _, took, noted), = compiles._finished
    message = wire.Programs(0, compilations=(wire.Compilation(*noted),))
    assert wire.decode(wire.kind_of(message), wire.encode(message)) == message
    print(took, noted.duration_ms, [line.duration_ms for line in compiles.history.lines(40)])
"""


@pytest.mark.jax
def test_durations_are_never_negative(tmp_path):
    """JAX measures them with the clock of the machine. Viewers reject a message with a negative one."""
    assert run(PYTHON, script(tmp_path, SET_BACK)).stdout == "0 0 [0]\n"
