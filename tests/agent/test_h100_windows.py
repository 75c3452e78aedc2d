"""Profiles of two processes on one H100, with NCCL, and of one: launches, operations, and who waited.

Process 1 slept 30 ms before each launch, so process 0 waited for it in the all-reduce.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from jaxtop import traces, wire
from jaxtop.model.collectives import collective_views
from jaxtop.traces import protos
from jaxtop.traces.contents import contents
from jaxtop.traces.xspace import Trace
from jaxtop_agent.profiler import rows
from jaxtop_agent.profiler.numbers import numbers
from jaxtop_agent.programs import hlo
from jaxtop_agent.programs.loaded_executables import LoadedExecutable
from tests.made import h100
from tests.stories import census, cluster_of, hello, pulse

FINGERPRINT = "f"
KERNELS = 23  # those of a launch


def seen_of(name: str, device: int = 0) -> traces.TraceContents:
    trace = Trace(h100.profile(name))
    return traces.read("cuda", trace, protos.programs(trace).wanted, {0: device}, has_names=True)


@pytest.mark.parametrize("name", ["single", "single-with-programs"])
def test_launches_of_one_process(name):
    """The loop is in one graph of CUDA; `jit_single` was launched after every second one."""
    trace = Trace(h100.profile(name))
    found = contents(trace, protos.programs(trace))
    launches = {each.name: (len(each.launches), each.host_runs) for each in found.programs}
    assert launches == {"jit_chain": (6, 6), "jit_single": (3, 3)}
    assert (found.cut, found.seen.unassigned, found.warnings) == (0, 0.0, ())
    assert [device.kind for device in found.devices] == ["NVIDIA H100 80GB HBM3"]


@pytest.mark.parametrize("process", [0, 1])
def test_kernels_of_a_graph_belong_to_the_launch_that_launched_it(process):
    seen = seen_of(h100.PAIR[process])
    assert (len(seen.spans), seen.cut, seen.left_ns, seen.unassigned) == (6, set(), {}, 0.0)
    for span in seen.spans:
        named = seen.named[span.device_launch]
        assert named["command_buffer_1"].count == 7
        collectives = [op for op in seen.ops if op.device_launch == span.device_launch]
        assert sum(each.count for each in named.values()) + len(collectives) == KERNELS - 3


def test_both_processes_give_a_launch_the_same_number():
    first, second = (numbers(seen_of(name), (), 0) for name in h100.PAIR)
    assert first == second and len(first) == 6
    assert sorted(first.values()) == list(range(min(first.values()), min(first.values()) + 6))


def lasted(process: int, op: str) -> float:
    """The median time of a collective in milliseconds."""
    return median(each.end - each.start for each in seen_of(h100.PAIR[process]).ops if each.name == op) / 1e6


def test_each_collective_took_what_its_kernel_took():
    assert lasted(0, "all-reduce.2") == pytest.approx(34.02, abs=0.01)
    assert lasted(1, "all-reduce.2") == pytest.approx(4.52, abs=0.01)
    assert [lasted(each, "all_gather.3.1") for each in (0, 1)] == pytest.approx([4.47, 4.50], abs=0.01)
    assert [lasted(each, "reduce_scatter.7.1") for each in (0, 1)] == pytest.approx([2.53, 0.07], abs=0.01)


def windows(process: int, inventory: wire.Inventory) -> list[wire.Window]:
    """Four windows, as if the profiler had stopped after the second, fourth and fifth launch."""
    seen = seen_of(h100.PAIR[process], process)
    runs = sorted((span.module, span.run) for span in seen.spans)
    loaded = (
        LoadedExecutable("jit_body", FINGERPRINT, None, frozenset(each.op for each in inventory.collectives)),
    )
    return [
        rows.message(
            replace(seen, cut={run for place, run in enumerate(runs) if place not in places}),
            [process],
            loaded,
            512,
            wire.Window(1000 * slot, 300_000, slot),
            numbers=numbers(seen, (), 0),
        )
        for slot, places in enumerate(((0, 1), (2, 3), (4,), (5,)))
    ]


def test_the_late_process_is_named_and_how_long_the_other_waited():
    reading = hlo.read(
        (h100.FOLDER / "pair.hlo").read_text(), started=protos.started(h100.message("jit_body"))
    )
    story = []
    for process in (0, 1):
        inventory = wire.Inventory(
            1, "jit_body", FINGERPRINT, 2, ((process, 1),), reading.groups, reading.collectives
        )
        gpu = wire.Device(process, "NVIDIA H100 80GB HBM3", "cuda", 0)
        told = (
            hello(process, devices=(gpu,), platform="cuda"),
            census(mesh=wire.Mesh((("data", 2),), ((0, 2),))),
            pulse(),
            inventory,
            *windows(process, inventory),
        )
        story += [(float(place), f"r1-{process}", each) for place, each in enumerate(told)]
    found = {
        each.op: each for each in collective_views(cluster_of(*sorted(story, key=lambda each: each[0])), 0)
    }
    assert found.keys() == {"all-reduce.2", "all_gather.3.1", "reduce_scatter.7.1"}
    psum = found["all-reduce.2"]
    assert (psum.samples, psum.axes, psum.line) == (6, ("data",), "pair.py:11")
    assert psum.wait_us == pytest.approx(29_500, abs=50) and psum.transfer_us == pytest.approx(4_520, abs=10)
    assert dict(psum.waits_us)[1] == 0 and psum.busbw_bytes_per_s == pytest.approx(0.928e9, rel=0.01)
    assert psum.straggler is not None and psum.straggler.process_index == 1
    assert psum.straggler.late_us == pytest.approx(29_500, abs=50)
