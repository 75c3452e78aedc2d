"""Programs, versions, meshes and clocks that differ between hosts are found, what may differ is not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import reported_findings
from jaxtop.model.finding import Severity
from jaxtop_agent.service import flags
from tests import builders
from tests.stage import Stage, play
from tests.staged import devices as staged_devices
from tests.staged.findings import Staged
from tests.support import environment, jax_run, script, until_a_run_is_found, viewer


def programs(run, index, *listed, **more):
    run.tell(
        index, wire.decode("programs", staged_devices.programs(index, *listed, at=run.at - 60, **more).raw)
    )


# Programs


def test_a_program_that_is_not_the_same_on_all_hosts_is_critical():
    run = Staged()
    programs(run, 0, *staged_devices.PROGRAMS)
    programs(run, 1, staged_devices.SAMPLE, staged_devices.EVALUATE, staged_devices.OTHER_STEP)
    run.train(4)
    found = run.the("program_mismatch")
    assert found.severity is Severity.CRITICAL and found.subject.program == "jit_train_step"
    assert found.text == (
        "jit_train_step differs between hosts in its code (all its figures are equal): host 0 has 5d41402a, "
        "host 1 has 7d793037"
    )
    assert found.proof[:3] == ("programs", "", "jit_train_step")


def test_what_differs_between_the_programs_is_named():
    run = Staged()
    programs(run, 0, staged_devices.STEP)
    larger = replace(staged_devices.OTHER_STEP, argument_bytes=7 << 30, flops=43_000_000_000_000)
    programs(run, 1, larger)
    run.train(14)
    assert "differs between hosts in its arguments and operations: host 0" in run.the("program_mismatch").text

    async def act(stage: Stage) -> None:
        stage.clock.now = run.at
        await stage.paint()
        await stage.press("enter")
        assert stage.screen_shown == "screen-programs"
        shown = [line for line in stage.text.splitlines() if "jit_train_step" in line and "≠" in line]
        assert sum("host 0" in line for line in shown) == sum("host 1" in line for line in shown) == 1
        assert "in its arguments and operations" in stage.text
        assert "host 1" in next(line for line in stage.text.splitlines() if "▌" in line)

    play(act, *run.frames, size=(160, 40))


@pytest.mark.parametrize(
    "others",
    [
        (staged_devices.SAMPLE, staged_devices.EVALUATE, staged_devices.STEP),
        (
            staged_devices.EVALUATE,
            staged_devices.STEP,
            staged_devices.INIT,
            wire.Program("jit_sample", "ff", 1, 1),
        ),  # of one process
        (),  # not read yet
    ],
)
def test_programs_of_single_processes_and_unread_ones_may_differ(others):
    run = Staged()
    programs(run, 0, *staged_devices.PROGRAMS)
    if others:
        programs(run, 1, *others)
    run.train(20)
    assert run.found("program_mismatch") == []


def test_a_program_that_was_compiled_moments_ago_is_not_compared_yet():
    run = Staged()
    programs(run, 0, staged_devices.STEP)
    programs(run, 1, staged_devices.OTHER_STEP, seen_ms=(int(run.at * 1000),))
    run.train(6)
    assert run.found("program_mismatch") == []
    run.train(8)
    assert run.found("program_mismatch")


def uses(run, index, program, slot=1, launches=5):
    seen = tuple(wire.Launch(0, i, 1000 * i, 900) for i in range(launches))
    told = wire.Window(
        int(run.at * 1000), 900_000, slot, ((program.name, program.fingerprint),), launches=seen
    )
    run.tell(index, told)


def test_variants_that_all_hosts_loaded_differ_where_hosts_use_different_ones():
    """Both have the step for 32 rows and for 64; from some moment on, host 1 launches that for 64."""
    run = Staged()
    wide = replace(staged_devices.OTHER_STEP, argument_bytes=7 << 30)
    for index in (0, 1):
        programs(run, index, staged_devices.STEP, wide)
        uses(run, index, staged_devices.STEP)
    run.train(12)
    assert run.found("program_mismatch") == []
    uses(run, 0, staged_devices.STEP, slot=2)
    run.train(4)
    assert run.found("program_mismatch") == [], "the window of host 1 is older"
    uses(run, 1, wide, slot=2)
    run.train(4)
    found = run.the("program_mismatch")
    assert found.severity is Severity.CRITICAL and found.subject.program == "jit_train_step"
    assert "differs between hosts in its arguments: host 0 has 5d41402a, host 1 has 7d793037" in found.text
    for index in (0, 1):
        uses(run, index, wide, slot=3)
    run.train(14)
    assert run.found("program_mismatch") == []


def test_a_variant_that_only_one_host_loaded_differs_where_it_uses_it():
    run = Staged()
    wide = replace(staged_devices.OTHER_STEP, argument_bytes=7 << 30)
    programs(run, 0, staged_devices.STEP)
    programs(run, 1, staged_devices.STEP, wide)
    for index in (0, 1):
        uses(run, index, staged_devices.STEP)
    run.train(14)
    assert run.found("program_mismatch") == [], "it may have been compiled to look at its cost"
    for index, each in enumerate((staged_devices.STEP, wide)):
        uses(run, index, each, slot=2)
    run.train(4)
    assert run.found("program_mismatch")


def test_a_variant_of_long_steps_needs_one_launch_where_the_others_have_not_loaded_it():
    """A window contains one launch of the step, and later ones none."""
    run = Staged()
    programs(run, 0, staged_devices.STEP)
    programs(run, 1, staged_devices.STEP, staged_devices.OTHER_STEP)
    for index, each in enumerate((staged_devices.STEP, staged_devices.OTHER_STEP)):
        uses(run, index, each, slot=2 + index, launches=1)
        run.tell(index, wire.Window(int(run.at * 1000), 900_000, 4, note="no complete launch"))
    run.train(4)
    assert run.found("program_mismatch")


def test_hosts_that_change_between_variants_use_the_same_ones():
    run = Staged()
    for index, shown in enumerate((staged_devices.STEP, staged_devices.OTHER_STEP)):
        programs(run, index, staged_devices.STEP, staged_devices.OTHER_STEP)
        uses(run, index, shown, launches=1)
    run.train(14)
    assert run.found("program_mismatch") == [], (
        "one launch may be the last before a change, or the first after"
    )


# Versions


def test_hosts_with_other_libraries_are_named_in_one_finding():
    run = Staged(4, jaxlib="0.10.2")
    run.tell(3, builders.hello(3, 4, jaxlib="0.9.0", jax="0.9.0", python="3.12.1"))
    run.train(3)
    found = run.the("versions_differ")
    assert found.severity is Severity.WARNING and found.subject.process_index == 3
    assert found.text == (
        "jax is not the same on all hosts (jaxlib, python too): hosts 0–2 have 0.10.2, host 3 has 0.9.0"
    )
    assert {(each.name, each.value) for each in found.evidence} >= {("python on host 3", "3.12.1")}


def test_libraries_explain_programs_that_differ():
    run = Staged(2, jaxlib="0.10.2")
    run.tell(1, builders.hello(1, 2, jaxlib="0.9.0"))
    programs(run, 0, staged_devices.STEP)
    programs(run, 1, staged_devices.OTHER_STEP)
    run.train(4)
    found = run.the("versions_differ")
    assert found.severity is Severity.CRITICAL and found.text.endswith("; their programs differ")
    assert run.found("program_mismatch") == []


def test_another_jaxtop_is_a_note_and_of_another_run_is_none():
    run = Staged(3)
    run.tell(1, builders.hello(1, 3, jaxtop="0.2.0"))
    run.train(3)
    assert run.the("versions_differ").severity is Severity.INFO
    run.tell(1, builders.hello(1, 3, jaxtop="0.2.0", run="r2"))
    run.train(14)
    assert run.found("versions_differ") == []


def test_versions_that_are_unknown_differ_from_none():
    run = Staged(2)
    run.tell(1, builders.hello(1, 2, jax=None, platform=None))
    run.train(3)
    assert run.found("versions_differ") == []


# Flags

FLAGS = {"--xla_x": "true", "jax_enable_x64": "False"}


def flagged(*flags):
    run = Staged(len(flags))
    for index, each in enumerate(flags):
        run.tell(index, builders.hello(index, len(flags), flags=each))
    return run


def test_flags_that_differ_are_a_warning_and_explain_programs_that_differ():
    run = flagged(FLAGS, FLAGS, {"jax_enable_x64": "True"})
    run.train(8)
    found = run.the("flags_differ")
    assert found.severity is Severity.WARNING and found.subject.process_index == 2
    assert found.text == (
        "--xla_x is not the same on all hosts (1 more flag too): hosts 0–1 have true, host 2 has unset"
    )
    for index, program in (
        (0, staged_devices.STEP),
        (1, staged_devices.STEP),
        (2, staged_devices.OTHER_STEP),
    ):
        programs(run, index, replace(program, devices=12))
    run.train(8)
    assert run.the("flags_differ").severity is Severity.CRITICAL
    assert run.found("program_mismatch") == []


def test_flags_that_agree_or_that_an_older_agent_does_not_report_are_fine():
    run = flagged(FLAGS, dict(FLAGS), None)
    run.train(8)
    assert run.found("flags_differ") == []


def test_an_agent_reports_flags_that_all_processes_must_share(monkeypatch):
    monkeypatch.setenv(
        "XLA_FLAGS", "--xla_a=1 --xla_dump_to=/tmp/7 --xla_b --xla_force_host_platform_device_count=4"
    )
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--tpu=x")
    found = flags.flags()
    assert {name: found[name] for name in found if name.startswith("--")} == {
        "--tpu": "x", "--xla_a": "1", "--xla_b": "true",
    }  # fmt: skip


# Meshes


def census(run, index, *meshes):
    made = tuple(wire.Mesh(axes, wire.pack_ids(ids)) for axes, ids in meshes)
    run.tell(index, wire.Arrays(int(run.at * 1000), meshes=made))


DATA_MODEL = (("data", 4), ("model", 2))
ALL = tuple(range(8))
SWAPPED = (*range(4, 8), *range(4))


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (
            (DATA_MODEL, SWAPPED),
            "host 1 uses another mesh than host 0: data 4 × model 2 against another order of devices",
        ),
        (
            ((("data", 2), ("model", 4)), ALL),
            "host 1 uses another mesh than host 0: data 4 × model 2 against data 2 × model 4",
        ),
    ],
)
def test_meshes_of_another_order_or_shape_are_critical(other, text):
    run = Staged()
    census(run, 0, (DATA_MODEL, ALL))
    census(run, 1, other)
    run.train(18)
    assert run.found("mesh_mismatch") == []
    run.train(6)
    found = run.the("mesh_mismatch")
    assert (found.severity, found.text) == (Severity.CRITICAL, text)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([(DATA_MODEL, ALL)], [(DATA_MODEL, ALL)]),
        ([(DATA_MODEL, ALL)], [(DATA_MODEL, ALL), (DATA_MODEL, SWAPPED)]),  # one has not got there yet
        ([((("stage", 4),), ALL[:4])], [((("stage", 4),), ALL[4:])]),  # stages of a pipeline
        ([((("x", 8),), ALL)], [((("y", 8),), SWAPPED)]),
        ([(DATA_MODEL, ALL)], []),
    ],
)
def test_meshes_that_a_program_may_have_beside_each_other_are_not_found(ours, theirs):
    run = Staged()
    census(run, 0, *ours)
    census(run, 1, *theirs)
    run.train(40)
    assert run.found("mesh_mismatch") == []


# Clocks


def offsets(*milliseconds):
    run = Staged(len(milliseconds))
    for index, each in enumerate(milliseconds):
        run.tell(index, builders.hello(index, len(milliseconds), clock_offset_ms=each))
    run.train(10)
    return run


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        ((0, 2400), "the clock of host 1 is 2.4 s behind that of host 0"),
        ((0, 0, -61_000, 100), "the clock of host 2 is 61.0 s ahead of that of most"),
        ((0, -3000, -5000, 100, 0), "the clocks of hosts 1–2 are up to 5.0 s ahead of that of most"),
        ((0, 7000, 7000, 7100), "the clock of host 0 is 7.0 s ahead of that of most"),
    ],
)
def test_clocks_that_differ_by_a_second_are_a_warning(milliseconds, text):
    found = offsets(*milliseconds).the("clock_offset")
    assert (found.severity, found.text) == (Severity.WARNING, text)


def test_clocks_that_agree_are_fine_and_those_that_nobody_compared_are_unknown():
    assert offsets(0, 900, -900, None).found("clock_offset") == []
    assert offsets(0, 0).cluster.findings.unchecked.get(("r1", "clock_offset")) is None
    assert "not compared" in offsets(None, None).cluster.findings.unchecked["r1", "clock_offset"]
    assert offsets(None).cluster.findings.unchecked.get(("r1", "clock_offset")) is None


# Real runs

DIFFERING = """
import sys, time
from jaxtop import agent
coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
agent.start(name="differing")

{before}
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.distributed.initialize(coordinator, count, index)
devices = np.array(jax.devices())
mesh = Mesh({devices}, ("data",))
x = jax.make_array_from_callback((8,), NamedSharding(mesh, P("data")), lambda at: np.ones(8, np.float32)[at])
step = jax.jit(lambda x: x + {constant} + x.sum())
step.lower(x).compile()
time.sleep(600)
"""


def differing(folder, before="", devices="devices", constant="1.0"):
    return script(folder, DIFFERING.format(before=before, devices=devices, constant=constant))


@pytest.mark.jax
@pytest.mark.newest
def test_a_mesh_of_another_order_is_found_in_a_real_run(tmp_path):
    path = differing(tmp_path, devices="devices if index == 0 else devices[::-1]")
    with jax_run(path, 2, 2, env=environment(2)):
        until_a_run_is_found()
        with viewer("differing") as attached:
            attached.until(
                lambda: "mesh_mismatch" in [each.rule for each in reported_findings(attached.cluster)]
            )
            found = next(each for each in reported_findings(attached.cluster) if each.rule == "mesh_mismatch")
            assert found.text.endswith("data 4 against another order of devices")


@pytest.mark.jax
@pytest.mark.newest
def test_a_program_with_another_constant_is_found_in_a_real_run(tmp_path):
    path = differing(tmp_path, constant="float(index)")
    with jax_run(path, 2, 2, env=environment(2)):
        until_a_run_is_found()
        with viewer("differing") as attached:
            attached.until(
                lambda: "program_mismatch" in [each.rule for each in reported_findings(attached.cluster)]
            )
            found = next(
                each for each in reported_findings(attached.cluster) if each.rule == "program_mismatch"
            )
            assert found.text.startswith("jit__lambda differs between processes in its ")
