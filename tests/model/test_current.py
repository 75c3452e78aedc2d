"""What `HostView.current` blanks, nothing shows: states of a host against its figures, for every consumer."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

import jaxtop
from jaxtop import wire
from jaxtop.export import FORMATS
from jaxtop.export.json import to_document
from jaxtop.export.series import to_csv_series
from jaxtop.model import (
    DEVICE_FIGURES,
    HOST_FIGURES,
    STEP_FIGURES,
    Cluster,
    Host,
    State,
    launch_rate,
    pace_of,
    reported_figures,
    runs,
    step_of,
)
from jaxtop.model.liveness import only_current
from jaxtop.model.programs.rates import launch_rates_of
from jaxtop.model.steps.script import collecting
from jaxtop.tui.columns import hosts as host_columns
from jaxtop.tui.columns.host_row import HostRow
from jaxtop.tui.core.metrics import METRICS
from jaxtop.tui.core.moment import Moment
from jaxtop.tui.core.palette import DARK
from jaxtop.tui.draw.plot_contents import PlotComparison, peers
from jaxtop.tui.draw.reading import read
from jaxtop.tui.filters.figures import OF_DEVICES, OF_HOSTS
from jaxtop.tui.header import TimeStatus, header
from jaxtop.tui.screens import devices as device_columns
from jaxtop.tui.status_line import AppStatus, status_line, status_parts
from tests.stories import cluster_of, hello, link, pulse, running, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.tui.draw.table import Column

# The last pulse comes at this time.
AT = 20.0
RHYTHM = wire.Rhythm(
    2,
    ("step",),
    mean_us=251_000,
    milli_per_s=3_917,
    p50_us=247_000,
    p90_us=307_000,
    p99_us=503_000,
    flops=10**12,
)


def everything(*, with_hello: bool = True) -> Cluster:
    """A host that reports every figure, each with another number, beside a host that reports none."""
    columns = {name: (1_009 + 2 * i,) for i, name in enumerate(wire.DeviceSample.__struct_fields__)}
    columns |= {"slowed": (0b1010,)}
    names = [
        each for each in wire.HostSample.__struct_fields__ if each not in ("is_container", "busy_threads")
    ]
    host = wire.HostSample(
        **{name: 2_003 + 2 * i for i, name in enumerate(names)},
        is_container=True,
        busy_threads=(wire.BusyThread("load", 913, True),),
    )
    gpu = wire.Device(0, "NVIDIA H100", "gpu", local_id=0)
    cluster = cluster_of(*running(1), (10, "r1-0", link("up")))
    if with_hello:
        tell(cluster, (11, "r1-0", hello(0, devices=(gpu,))))
    tell(
        cluster, (11, "r1-0", wire.Programs(1, (wire.Program("jit_step", "f1"),), recompiling=("jit_step",)))
    )
    for i in range(11):
        said = pulse(
            at_ms=int(AT + i - 10) * 1000,
            sampled_ms=int(AT + i - 10) * 1000 - 613,
            counted_ms=int(AT + i - 10) * 1000 - 1_627,
            memory_source="allocator",
            devices=wire.DeviceSample(**columns),
            host=host,
            launches={"step": 4_100 + 41 * i},
            compiling=(wire.Compiling("forward", int(AT) * 1000 - 7_919),),
            step=wire.Step(65_537, 13, {"loss": 2.5}),
            cost=wire.AgentCost(7_717, 3, 2),
            rhythm=RHYTHM,
        )
        tell(cluster, (AT + i - 10, "r1-0", said))
    return cluster


# How a host comes into each state, and how long after its last pulse it is looked at.
STATES: dict[State, tuple[tuple[wire.Message, ...], float]] = {
    State.LIVE: ((), 0.5),
    State.QUIET: ((), 3.0),
    State.BLOCKED: ((), 9.0),
    State.STOPPED: ((link("silent"),), 0.5),
    State.UNREACHABLE: ((link("unreachable"),), 0.5),
    State.REFUSED: ((link("refused"),), 0.5),
    State.ENDED: ((wire.Bye(20_000, "ended"),), 0.5),
    State.DIED: ((link("dead"),), 0.5),
    State.GONE: ((link("closed"),), 0.5),
}

FIGURES: dict[str, Callable[[Cluster, Host], float | None]] = {
    **{each.name: lambda _, host, each=each: each.read(host.pulse, 0) for each in DEVICE_FIGURES},
    **{each.name: lambda _, host, each=each: each.read(host.pulse, 0) for each in HOST_FIGURES},
    **{each.name: lambda _, host, each=each: each.read(host.pulse, 0) for each in STEP_FIGURES},
    "launches/s": launch_rate,
    "steps/s": lambda _, host: pace_of(host),
    "p50": lambda _, host: None if (step := step_of(host)) is None else step.p50_s,
    "flop/s": lambda _, host: None if (step := step_of(host)) is None else step.flops_per_second,
    "at step": lambda _, host: host.pulse.step.index if host.pulse.step else None,
    "agent's CPU": lambda _, host: None if host.pulse.cost.cpu_ppm is None else host.pulse.cost.cpu_ppm / 1e6,
    "program's launches/s": lambda _, host: max(launch_rates_of(host).of_function.values(), default=None),
    "busy thread": lambda _, host: (
        sum(each.cpu_permille for each in host.pulse.host.busy_threads) / 1e3 or None
    ),
    "compiling": lambda _, host: (
        (host.pulse.at_ms - host.pulse.compiling[0].since_ms) / 1e3 if host.pulse.compiling else None
    ),
    "sampled ago": lambda _, host: (
        (host.pulse.at_ms - host.pulse.sampled_ms) / 1e3 if host.pulse.sampled_ms else None
    ),
    "counted ago": lambda _, host: (
        (host.pulse.at_ms - host.pulse.counted_ms) / 1e3 if host.pulse.counted_ms else None
    ),
}

# What a consumer shows of the host: numbers, by wherever they stand in it.
Shown = dict[str, float]


def leaves(value: object, where: str = "") -> Shown:
    if isinstance(value, dict):
        return {k: v for name, each in value.items() for k, v in leaves(each, f"{where}.{name}").items()}
    if isinstance(value, list | tuple):
        return {k: v for i, each in enumerate(value) for k, v in leaves(each, f"{where}.{i}").items()}
    return {where: value} if isinstance(value, int | float) and not isinstance(value, bool) else {}


def in_json(cluster: Cluster, now: float) -> Shown:
    document = json.loads(FORMATS["json"](cluster, now))
    (host,) = (
        each for each in document["hosts"] if each["hostname"] != "node1" or each["process_index"] != 1
    )
    if host["step"]:
        del host["step"]["index"]  # it stays on purpose, as counts do
    return leaves(host)


def in_programs(cluster: Cluster, now: float) -> Shown:
    (program,) = to_document(cluster, now)["programs"]
    return leaves(program)


def in_csv(cluster: Cluster, now: float) -> Shown:
    rows = csv.DictReader(io.StringIO(FORMATS["csv"](cluster, now)))
    row = next(each for each in rows if each["process_index"] != "1")
    return {name: float(value) for name, value in row.items() if re.fullmatch(r"-?[\d.e+-]+", value)}


def in_openmetrics(cluster: Cluster, now: float) -> Shown:
    lines = [line.rpartition(" ") for line in FORMATS["openmetrics"](cluster, now).splitlines()]
    return {name: float(value) for name, _, value in lines if "{" in name and 'process_index="1"' not in name}


def in_series(cluster: Cluster, now: float) -> Shown:
    rows = csv.DictReader(io.StringIO("".join(to_csv_series([(now, cluster)]))))
    return {
        f"{each['metric']} {each['name']}": float(each["value"]) for each in rows if each["process"] != "1"
    }


def cells(columns: tuple[Column, ...], row: object) -> Shown:
    return {k: v for column in columns for k, v in leaves(column.read(row), column.key).items()}


def names(cluster: Cluster) -> set[str]:
    return reported_figures(host.pulse for host in cluster.hosts.values())


def in_hosts(cluster: Cluster, now: float) -> Shown:
    moment = Moment(cluster, now)
    (view,) = (each for each in moment.host_views if each.host.agent == "r1-0")
    row = HostRow(view, moment)
    told = frozenset({"p50", "p99", "flops"})
    shown = cells(host_columns.columns_for(moment, names(cluster), told), row)
    shown.pop("index", None)  # it stays on purpose, as in JSON
    for column in host_columns.columns_for(moment, names(cluster), told, "steps"):
        if column.key == "history":
            shown |= cells((column,), row)
    return shown


def in_devices(cluster: Cluster, now: float) -> Shown:
    moment = Moment(cluster, now)
    context = device_columns.FigureRowContext(moment, device_columns.MeshAxes([]))
    columns = device_columns.columns_for(context, names(cluster))
    return {
        k: v
        for device in moment.device_views
        for k, v in cells(columns, device_columns.FigureRow(device, context)).items()
    }


def in_filters(cluster: Cluster, now: float) -> Shown:
    moment = Moment(cluster, now)
    (view,) = (each for each in moment.host_views if each.host.agent == "r1-0")
    row = HostRow(view, moment)
    context = device_columns.FigureRowContext(moment, device_columns.MeshAxes([]))
    shown = leaves({f"host {name}": field.read(row) for name, field in OF_HOSTS.items()})
    for name in ("index", "at_step"):
        shown.pop(f".host {name}", None)  # they stay on purpose, as in JSON
    for device in moment.device_views:
        of_device = device_columns.FigureRow(device, context)
        shown |= leaves({f"device {name}": field.read(of_device) for name, field in OF_DEVICES.items()})
    return shown


def in_mesh(cluster: Cluster, now: float) -> Shown:
    devices = Moment(cluster, now).device_views
    found = {metric.name: read(devices, metric).values for metric in METRICS}
    return {name: values[0] for name, values in found.items() if values and values[0] is not None}


def in_plot(cluster: Cluster, now: float) -> Shown:
    moment, host = Moment(cluster, now), cluster.hosts["r1-0"]
    device = next(iter(moment.device_views), None)
    found = {
        f"{figure.name} {beside}": peer.now
        for figure in (*DEVICE_FIGURES, *HOST_FIGURES, *STEP_FIGURES)
        for beside in PlotComparison
        for peer in peers(moment, figure, host, device, beside)
        if peer.agent == "r1-0"
    }
    return {name: value for name, value in found.items() if value is not None}


def in_headline(cluster: Cluster, now: float) -> Shown:
    """The numbers in the two lines at the top, by the word before each."""
    moment = Moment(cluster, now)
    lines = header(moment, TimeStatus("live", "", True), 400, DARK).plain
    lines += status_line(status_parts(moment, AppStatus(), DARK), 400, DARK).plain
    found = re.findall(r"(step|steps|launches|forward for) ([\d.]+) ?(\w?)", lines)
    return {word: float(number) / (1000 if unit == "m" else 1) for word, number, unit in found}


CONSUMERS = {
    each.__name__: each
    for each in (
        in_json, in_programs, in_csv, in_openmetrics, in_series, in_hosts, in_devices, in_filters, in_mesh,
        in_plot, in_headline,
    )
}  # fmt: skip
# How many of the figures each consumer shows at least, so that the test cannot pass by finding nothing.
FEWEST = {
    "in_json": 40, "in_programs": 2, "in_csv": 30, "in_openmetrics": 38, "in_series": 38, "in_hosts": 20,
    "in_devices": 17, "in_filters": 38, "in_mesh": 18, "in_plot": 34, "in_headline": 4,
}  # fmt: skip


def is_of(value: float, figure: float, within: float) -> bool:
    """Whether a value is this figure, also in percent or in thousandths."""
    return any(math.isclose(value, figure * scale, rel_tol=within) for scale in (1, 100, 1000))


def places(consumer: str) -> dict[str, list[str]]:
    """Where a consumer shows each figure of a live host."""
    cluster = everything()
    now = AT + STATES[State.LIVE][1]
    shown, host = CONSUMERS[consumer](cluster, now), cluster.hosts["r1-0"]
    figures = {name: value for name, of in FIGURES.items() if (value := of(cluster, host)) is not None}
    within = 0.02 if consumer == "in_headline" else 1e-6
    found = {name: [k for k, v in shown.items() if is_of(v, figures[name], within)] for name in figures}
    return {name: where for name, where in found.items() if where}


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("state", STATES)
def test_no_consumer_shows_a_figure_that_is_not_current(state, consumer):
    where = places(consumer)
    assert len(where) >= FEWEST[consumer]
    cluster = everything(with_hello=state is not State.GONE)
    how, later = STATES[state]
    tell(cluster, *((AT, "r1-0", message) for message in how))
    now = AT + later
    (view,) = (view for run in runs(cluster, now) for view in run.hosts if view.host.agent == "r1-0")
    assert view.state is state
    blank = [name for name, of in FIGURES.items() if of(cluster, view.current) is None]
    assert bool(blank) is state.is_silent
    shown = CONSUMERS[consumer](cluster, now)
    wrong = {name: [place for place in where.get(name, ()) if place in shown] for name in blank}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_a_process_that_has_exited_has_no_current_figure_at_all():
    cluster = everything()
    tell(cluster, (AT, "r1-0", wire.Bye(20_000, "ended")))
    for run in runs(cluster, AT):
        for view in run.hosts:
            if view.state.has_exited:
                assert all(of(cluster, view.current) is None for of in FIGURES.values())
                assert all(of(cluster, view.host) is not None for of in FIGURES.values())


# What a process that reports nothing still has, and what ended with its reports.
LASTS: dict[type[msgspec.Struct], set[str]] = {
    wire.Pulse: {"at_ms", "memory_source", "devices", "host", "launches", "step", "logged", "cost"},
    wire.DeviceSample: {
        "used_bytes", "peak_bytes", "limit_bytes", "reserved_bytes", "largest_free_bytes", "pool_bytes",
        "peak_reserved_bytes", "driver_used_bytes", "driver_total_bytes", "power_limit_mw",
        "temperature_limit_c", "clock_max_mhz", "energy_mj", "ecc_corrected", "ecc_uncorrected",
    },
    wire.HostSample: {
        "rss_bytes", "threads", "memory_total_bytes", "cores_milli", "is_container",
        "rss_anonymous_bytes", "rss_file_bytes", "rss_shared_bytes", "locked_bytes", "pinned_bytes",
        "malloc_used_bytes", "malloc_mapped_bytes", "malloc_free_bytes",
    },
    wire.AgentCost: {"dropped", "viewers"},
}  # fmt: skip
ENDS: dict[type[msgspec.Struct], set[str]] = {
    wire.Pulse: {"sampled_ms", "counted_ms", "compiling", "stall", "rhythm", "lull", "served"},
    wire.DeviceSample: {
        "utilization_permille", "power_mw", "temperature_c", "clock_mhz", "memory_clock_mhz",
        "memory_activity_permille", "tensor_permille", "occupancy_permille", "dram_permille", "slowed",
        "pcie_received_bytes_per_s", "pcie_sent_bytes_per_s", "link_received_bytes_per_s",
        "link_sent_bytes_per_s", "queued", "idle_ms", "transfer_p50_us", "transfer_p99_us", "program_p50_us",
        "program_p99_us", "from_host_p50_us", "from_host_p99_us", "to_host_p50_us", "to_host_p99_us",
        "collective_p50_us", "collective_p99_us",
    },
    wire.HostSample: {
        "process_cpu_permille", "machine_cpu_permille", "memory_used_bytes", "load_centi",
        "received_bytes_per_s", "sent_bytes_per_s", "cpu_pressure_permille", "memory_pressure_permille",
        "io_pressure_permille", "held_back_permille", "disk_read_bytes_per_s", "disk_written_bytes_per_s",
        "process_read_bytes_per_s", "process_written_bytes_per_s", "busy_threads",
        "children", "children_rss_bytes", "children_anonymous_bytes", "machine_anonymous_bytes",
        "machine_file_bytes", "machine_shared_bytes",
    },
    wire.AgentCost: {"cpu_ppm"},
}  # fmt: skip


@pytest.mark.parametrize("kind", LASTS)
def test_each_field_of_a_pulse_lasts_or_ends_when_the_process_stops(kind):
    assert sorted((*LASTS[kind], *ENDS[kind])) == sorted(kind.__struct_fields__)
    host = everything().hosts["r1-0"]
    busy = {
        "stall": wire.Stall("step", 1_000, 250),
        "lull": wire.Lull("step", 1_000),
        "served": {"queue": 3.0},
    }
    host = host.but(pulse=msgspec.structs.replace(host.pulse, **busy))
    before, after = (_sample(each.pulse, kind) for each in (host, only_current(host, State.STOPPED)))
    nested = {"devices", "host", "cost"}
    changed = {name for name in kind.__struct_fields__ if getattr(before, name) != getattr(after, name)}
    assert changed - nested == ENDS[kind]
    assert all(getattr(after, name) in (None, (), {}) for name in ENDS[kind])


def _sample(pulse: wire.Pulse, kind: type[msgspec.Struct]) -> msgspec.Struct:
    return next(each for each in (pulse, pulse.devices, pulse.host, pulse.cost) if isinstance(each, kind))


def test_a_step_that_no_longer_ends_is_not_exported_as_current():
    cluster = everything()
    stall = wire.Stall("step", 1_000, 250)
    tell(cluster, (AT, "r1-0", pulse(at_ms=int(AT) * 1000, rhythm=RHYTHM, stall=stall)))
    for shown in (in_series(cluster, AT), in_openmetrics(cluster, AT)):
        assert not [place for place in shown if re.search("step_(p50|mean|rate|flops)", place)]


def test_samples_of_the_main_thread_are_current_for_some_seconds():
    """Agents sample while a viewer asks for it: what they found long before the last pulse is outdated."""
    seen = wire.Activity(int(AT * 1000), 20_000, (1, 2, 3, 4), gc_us=2_000_000)
    for later, share in ((15, 0.1), (16, None)):
        cluster = cluster_of(*running(0), (AT, "r1-0", seen))
        tell(cluster, (AT + later, "r1-0", pulse(at_ms=int((AT + later) * 1000))))
        (view,) = runs(cluster, AT + later)[0].hosts
        assert collecting(view.current) == share and view.host.activity == seen


def test_programs_of_exited_processes_are_not_recompiled():
    cluster = everything()
    assert to_document(cluster, AT)["programs"][0]["recompiling"] is True
    tell(cluster, (AT, "r1-0", wire.Bye(20_000, "ended")))
    assert to_document(cluster, AT)["programs"][0]["recompiling"] is False


def test_consumers_read_figures_from_now_or_by_the_name_last():
    """`view.host` is for identity, programs and arrays; a figure that is read from it is called `last`.

    This sees only figures that are read in the same expression. The `host` of a pane's subject is current.
    """
    rooms = (Path(jaxtop.__file__).parent / name for name in ("cli", "export", "features", "tui"))
    figures = re.compile(r"\b(?!subject\.)\w+\.host\.(pulse|steps|launches|launches_since|past_launches)\b")
    found = [
        f"{path.name}: {line.strip()}"
        for room in rooms
        for path in room.rglob("*.py")
        for line in path.read_text().splitlines()
        if figures.search(line)
    ]
    assert found == []


def test_one_place_decides_what_has_outlasted_the_rhythm_of_the_steps():
    """Others only begin anew when it changes, or compute for how long it has not."""
    package = Path(jaxtop.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "changed_ms(" in path.read_text()
    }
    assert found == {
        "model/host.py",  # has it
        "model/liveness.py",  # decides
        "model/fold.py",  # measures rates anew
        "model/collectives/present.py",  # reads windows again when it changes
        "model/wall_time/late_scripts.py",  # compares processes only when all have noticed it
    }
