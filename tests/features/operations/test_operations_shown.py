"""Operations of programs over hosts and devices: shares that add up, and what bounds each."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.cli.text.formats import written
from jaxtop.export import to_document
from jaxtop.features.operations.model import IDLE, DeviceRates, Roof, program_times, roof
from jaxtop.features.operations.rates import DATA_SHEET, rates_of
from jaxtop.model import keyframe
from jaxtop.model.hardware.peaks import SET_BY_OWNER
from jaxtop.store import saved_probe
from jaxtop.wire import Operation, Operations
from jaxtop.wire.probing import FigureSummary
from tests.builders import folded, hello
from tests.features.operations.staged_operations import LOADED, NAME, RATES, cluster_of, shown
from tests.staged.probe import of_device, probe

DOT = Operation("dot.1", "matmul", "train.py:12", 600, 2, 2 * 10**8, 10**6)
ADD = Operation("add.2", "elementwise", "train.py:13", 100, 2, 10**6, 10**7)
REDUCE = Operation("all-reduce.3", "collective", "train.py:14", 200, 2, 10**6, 10**7)
SHOWN = Operations(
    5_000,
    NAME,
    "f1",
    launches=2,
    operations=(DOT, REDUCE, ADD),
    idle_us=60,
    rest=7,
    rest_us={"copy": 30, "": 10},
)


class TestShares:
    def test_they_add_up_to_one_with_what_is_not_listed_and_idle_time(self):
        time = shown(cluster_of(SHOWN))
        assert sum(each.time_share for each in time.operations) == pytest.approx(1)
        assert [(each.op, each.kind) for each in time.operations] == [
            ("dot.1", "matmul"), ("all-reduce.3", "collective"), ("add.2", "elementwise"),
            (None, "copy"), (None, "unknown"), (None, IDLE),
        ]  # fmt: skip
        assert time.operations[0].time_share == pytest.approx(0.6)
        assert time.kinds == pytest.approx(
            {
                "matmul": 0.6,
                "collective": 0.2,
                "elementwise": 0.1,
                "copy": 0.03,
                "unknown": 0.01,
                "idle": 0.06,
            }
        )
        assert list(time.kinds)[-1] == IDLE
        assert (time.launches, time.launch_us, time.rest) == (2, 500, 7)

    def test_figures_are_those_of_a_launch_on_a_device(self):
        dot = shown(cluster_of(SHOWN)).operations[0]
        assert (dot.time_us, dot.runs, dot.flops, dot.bytes) == (300, 1, 2 * 10**8, 10**6)

    def test_hosts_count_by_their_launches(self):
        cluster = cluster_of(SHOWN)
        other = Operations(6_000, NAME, "f1", launches=6, operations=(Operation(*_with(DOT, 600, 6)),))
        for message in (hello(1), LOADED, other):
            cluster.apply("agent1", message, 1.0)
        time = shown(cluster)
        dot = time.operations[0]
        assert (dot.time_us, dot.runs, time.launches) == (1200 / 8, 1, 8)
        assert dot.time_share == pytest.approx(1200 / 1600)
        assert sum(each.time_share for each in time.operations) == pytest.approx(1)

    def test_runs_that_the_trace_does_not_show_leave_no_flops(self):
        unknown = Operations(
            1, NAME, "f1", launches=2, operations=(Operation("dot.1", "matmul", "", 600, None, 8, 8),)
        )
        (dot,) = shown(cluster_of(unknown)).operations
        assert (dot.runs, dot.flops, dot.bytes, dot.roof, dot.source) == (None, None, None, None, None)

    def test_a_window_that_cannot_tell_programs_of_a_name_apart(self):
        cluster = cluster_of(Operations(1, NAME, None, launches=1, operations=(DOT,)))
        assert shown(cluster).operations[0].op == "dot.1"
        # It could, until another program of that name was loaded.
        later = Operations(6_000, NAME, None, launches=1, operations=(ADD,))
        assert shown(cluster_of(SHOWN, Operations(6_000, NAME, "f1"), later)).operations[0].op == ADD.op

    def test_no_window_no_times(self):
        assert shown(cluster_of()) is None
        assert shown(cluster_of(Operations(1, NAME, "f1"))) is None


def _with(operation, time_us, runs):
    return (operation.op, operation.kind, operation.source, time_us, runs, operation.flops, operation.bytes)


def test_programs_that_are_no_longer_launched_come_last():
    both = wire.Programs(1, (wire.Program(NAME, "f1"), wire.Program("jit_init", "f2")), (1, 1), (None, None))
    init = Operations(
        5_000, "jit_init", "f2", launches=1, operations=(Operation("add.1", "copy", "", 9_999),)
    )
    cluster = cluster_of(both, SHOWN, init)

    def order():
        return [each.program for each in program_times(cluster, 1.0, lambda _: RATES)]

    assert order() == ["jit_init", NAME]
    cluster.apply("agent0", replace(SHOWN, at_ms=500_000), 1.0)
    assert order() == [NAME, "jit_init"]


class TestRoof:
    """At 10^12 operations and 10^11 bytes a second."""

    def test_the_slower_of_compute_and_memory_bounds(self):
        assert roof("matmul", 400, 2 * 10**8, 10**6, RATES) == Roof("compute", 20, 0.5)
        assert roof("fusion", 400, 10**7, 10**7, RATES) == Roof("memory", 10, 0.25)
        assert roof("collective", 400, None, None, RATES) == Roof("communication")

    def test_operations_that_xla_does_not_count_have_no_bound(self):
        assert roof("elementwise", 400, 0, 10**7, RATES) is None

    def test_moving_alone_is_bound_by_memory_whatever_the_rates(self):
        assert roof("copy", 400, 0, 10**7, RATES) == Roof("memory", None, 0.25)
        assert roof("copy", 400, 0, 10**7, DeviceRates()) == Roof("memory")

    @pytest.mark.parametrize(
        ("flops", "touched", "rates"),
        [(None, 8, RATES), (8, None, RATES), (8, 8, DeviceRates()), (8, 8, DeviceRates(1e12)), (0, 0, RATES)],
    )
    def test_nothing_is_said_where_a_figure_is_unknown(self, flops, touched, rates):
        assert roof("fusion", 400, flops, touched, rates) is None


class TestStored:
    def test_a_program_that_is_no_longer_loaded_takes_them_along(self):
        cluster = cluster_of(SHOWN)
        cluster.apply("agent0", wire.Programs(2, (wire.Program("jit_other", "f2"),), (1,), (None,)), 2.0)
        assert not cluster.hosts["agent0"].operations

    def test_a_keyframe_has_them(self):
        cluster = cluster_of(SHOWN)
        again = folded(keyframe.frames(cluster, 1.0))
        assert again.hosts["agent0"].operations == cluster.hosts["agent0"].operations

    def test_too_many_are_refused(self):
        many = wire.Operations(1, NAME, "f1", operations=(DOT,) * 1_001)
        with pytest.raises(wire.Unreadable):
            wire.decode("operations", wire.encode(many))


def test_rates_are_those_of_a_probe_where_there_is_one():
    cluster = cluster_of(SHOWN)
    known = probe(
        devices=[of_device(0), of_device(0, 1, figures={"matrix_flops_per_s": FigureSummary(4e12, 0, 9)})]
    )
    rates = rates_of(cluster.hosts["agent0"], known)
    assert rates == DeviceRates(3e12, 1024**4, "probed", "probed")
    (program,) = to_document(cluster, 1.0, known)["programs"]
    assert program["timed"]["device_flops_source"] == "probed"
    dot = program["operations"][0]
    assert (dot["op"], dot["kind"], dot["source"], dot["time_us"]) == ("dot.1", "matmul", "train.py:12", 300)
    assert (dot["bound"], dot["flops"], dot["bytes"]) == ("compute", 2 * 10**8, 10**6)
    assert dot["roofline_share"] == pytest.approx(2e8 / 3e12 / 300e-6)
    assert sum(each["time_share"] for each in program["operations"]) == pytest.approx(1)


def test_the_document_has_null_where_no_window_showed_a_program():
    (program,) = to_document(cluster_of(), 1.0)["programs"]
    assert (program["operations"], program["time_by_kind"], program["timed"]) == (None, None, None)


def test_rates_are_published_ones_without_a_probe():
    cluster = cluster_of()
    host = cluster.hosts["agent0"]
    device = wire.Device(0, "NVIDIA H100 80GB HBM3", "gpu")
    gpu = host.but(hello=replace(host.hello, devices=(device,)))
    assert rates_of(gpu, None)[:2] == (989e12, 3.35e12)
    assert rates_of(host.but(hello=None), None) == DeviceRates()
    told = gpu.but(hello=replace(gpu.hello, peak_flops=10**12))
    assert rates_of(told, None) == DeviceRates(1e12, 3.35e12, SET_BY_OWNER, DATA_SHEET)


def test_a_recorded_moment_does_not_depend_on_the_last_probe_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster = cluster_of(SHOWN)
    before = written("json", cluster, 1.0)
    saved_probe.keep(probe(devices=[of_device(0)]))
    assert saved_probe.last() is not None and written("json", cluster, 1.0) == before
    assert written("json", cluster, 1.0, saved_probe.last()) != before  # as snapshot prints it
