"""The cluster as samples of metrics, at one moment or over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.export.metrics import METRICS
from jaxtop.export.readings import (
    OF_HARDWARE,
    OF_HOSTS,
    OF_MEMORY,
    OF_STEPS,
    device_values,
    host_values,
    readings,
    slowed,
    step_values,
)
from jaxtop.model import Part, State, array_views, program_views, reported_findings, runs, scaled, steps_of
from jaxtop.model.collectives import collective_views, step_shares
from jaxtop.model.steps.views import past_of
from jaxtop.model.wall_time.time_spent import goodput, seconds_by_kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtop.export.readings import HostReading
    from jaxtop.model import Cluster, Host, MemoryView
    from jaxtop.model.collectives import CollectiveView

Labels = Mapping[str, object]
# How much of a moment is exposed: each level includes the levels before it.
RUN, HOST, DEVICE, PROGRAM = DETAILS = ("run", "host", "device", "program")


class MetricSample(NamedTuple):
    """The value of a metric: `where` it was read, with its run, host and device; and its other labels."""

    metric: str
    where: Labels
    labels: Labels
    value: float


_NO_LABELS: Labels = {}
# What a process says about itself; no pid, which would make a new series of each restart.
_VERSIONS = ("jax", "jaxlib", "platform")
_SIZES = ("argument", "output", "alias", "temp", "code")
# A metric, the labels besides those of the host or device, and the value.
_Part = tuple[str, Labels, float | None]


def snapshot(cluster: Cluster, now: float, detail: str = PROGRAM) -> Iterator[MetricSample]:
    """Yield the samples of one moment; of an exited process only its state."""
    levels = DETAILS[: DETAILS.index(detail) + 1]
    if HOST in levels:
        for each in readings(cluster, now):
            yield from _process_samples(each, levels)
    if PROGRAM in levels:
        yield from _program_samples(cluster, now)
        for collective in collective_views(cluster, now):
            yield from _samples({"run": collective.run}, _collective_parts(collective))
    yield from _finding_samples(cluster)
    yield from _run_samples(cluster, now)


def labels_of(run: str, host: Host) -> Labels:
    """Return what names a process; before it has its index, its process number distinguishes it."""
    where: Labels = {"run": run, "process_index": host.process_index, "hostname": host.hostname}
    return where if host.process_index is not None else {**where, "pid": host.pid}


def _process_samples(each: HostReading, levels: Sequence[str]) -> Iterator[MetricSample]:
    host, state = each.view.host, each.view.state
    where = labels_of(each.run, host)
    for one in State:
        yield MetricSample("host_state", where, {"jaxtop_host_state": one}, int(state is one))
    if host.hello is not None:
        yield MetricSample("host", where, {name: getattr(host.hello, name) for name in _VERSIONS}, 1)
    if state.has_exited:
        return
    yield from _samples(where, _host_parts(each))
    if PROGRAM in levels:
        yield from _samples(where, _launch_parts(each))
    if DEVICE in levels:
        for view in each.devices:
            yield from _device_samples(each, where, view)


def _device_samples(each: HostReading, host: Labels, view: MemoryView) -> Iterator[MetricSample]:
    device, hello = view.device, each.view.host.hello
    where = {**host, "device": device.id, "kind": device.kind}
    uuid = None if hello is None else hello.devices[device.position].uuid
    yield MetricSample("device", where, {"uuid": uuid, "platform": device.platform}, 1)
    yield from _samples(where, _device_parts(view))
    waited = scaled(each.waits_us.get(device.id), 10**6)
    yield from _samples(where, [("device_wait_seconds", _NO_LABELS, waited)])


def at_moment(cluster: Cluster, now: float) -> Iterator[MetricSample]:
    """Yield the samples of one moment of many: of live hosts only, and with the arrays by role."""
    live = set()
    for each in readings(cluster, now):
        is_live = each.view.state is State.LIVE
        where: Labels = {"run": each.run, "process_index": each.view.host.process_index}
        yield MetricSample("host_live", where, _NO_LABELS, int(is_live))
        if is_live:
            live.add(each.run)
            yield from _samples(where, _host_parts(each))
            yield from _samples(where, _launch_parts(each))
            for view in each.devices:
                yield from _samples({**where, "device": view.device.id}, _device_parts(view))
    yield from _array_samples(cluster, live)
    for collective in collective_views(cluster, now):
        if collective.run in live:
            for sample in _samples({"run": collective.run}, _collective_parts(collective)):
                if not METRICS[sample.metric].only and sample.labels.get("quantile") != "0.99":
                    yield sample
    yield from _finding_samples(cluster)


def _samples(where: Labels, parts: Iterable[_Part]) -> Iterator[MetricSample]:
    for metric, labels, value in parts:
        if value is not None:
            yield MetricSample(metric, where, labels, value)


def _host_parts(each: HostReading) -> Iterator[_Part]:
    host, last = each.view.current, each.view.host
    values = host_values(host)
    yield from ((figure.metric, _NO_LABELS, values[figure.name]) for figure in OF_HOSTS)
    yield "agent_cpu_ratio", _NO_LABELS, scaled(host.pulse.cost.cpu_ppm, 10**6)
    yield "steps", _NO_LABELS, steps_of(last)
    if past_of(host) is None:  # else no step ends, and the figures are those of the past
        values = step_values(host)
        yield from ((figure.metric, _NO_LABELS, values[figure.name]) for figure in OF_STEPS)
    spent = seconds_by_kind(last.ledger.spent_ms)
    yield from (("spent_seconds", {"kind": kind}, seconds) for kind, seconds in spent.items())
    if (reported := last.pulse.reported) is not None:
        yield from (("step_metric", {"metric": name}, value) for name, value in reported.metrics.items())
    threads: dict[str, int] = {}
    for thread in host.pulse.host.busy_threads:
        threads[thread.name] = threads.get(thread.name, 0) + thread.cpu_permille
    yield from (("thread_cpu_ratio", {"thread": name}, cpu / 1000) for name, cpu in threads.items())


def _launch_parts(each: HostReading) -> Iterator[_Part]:
    last = each.view.host
    yield from (("launches", {"function": name}, count) for name, count in last.launches.items())


def _device_parts(view: MemoryView) -> Iterator[_Part]:
    values = device_values(view.device)
    source: Labels = {"source": view.device.memory_source}
    yield from ((figure.metric, source, values[figure.name]) for figure in OF_MEMORY)
    for part in Part:
        yield "device_memory_part_bytes", {**source, "part": part.replace(" ", "_")}, view.bytes_of(part)
    yield from ((figure.metric, _NO_LABELS, values[figure.name]) for figure in OF_HARDWARE)
    yield from (("device_slowed", {"reason": why}, holds) for why, holds in slowed(view.device).items())


def _array_samples(cluster: Cluster, live: set[str]) -> Iterator[MetricSample]:
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for view in array_views(cluster):
        if view.run in live:
            key = view.run, view.role or ("other" if view.name else "unnamed")
            count, size = counts.get(key, (0, 0))
            counts[key] = count + view.count, size + view.bytes_global
    for (run, role), (count, size) in counts.items():
        yield MetricSample("arrays", {"run": run}, {"role": role}, count)
        yield MetricSample("arrays_bytes", {"run": run}, {"role": role}, size)


def _finding_samples(cluster: Cluster) -> Iterator[MetricSample]:
    counts: dict[tuple[str, str, str], list[float]] = {}
    for each in reported_findings(cluster):
        counts.setdefault((each.run, each.rule, each.severity.value), []).append(each.since)
    for (run, rule, severity), since in counts.items():
        labels = {"rule": rule, "severity": severity}
        yield MetricSample("findings", {"run": run}, labels, len(since))
        yield MetricSample("findings_since_seconds", {"run": run}, labels, min(since))


def _run_samples(cluster: Cluster, now: float) -> Iterator[MetricSample]:
    for each in runs(cluster, now):
        described = {"name": each.name, "process_count": each.process_count}
        yield MetricSample("run", {"run": each.id}, described, 1)
        count = sum(run == each.id for run, _ in cluster.findings.unchecked)
        yield MetricSample("rules_unchecked", {"run": each.id}, _NO_LABELS, count)
        parts: list[_Part] = [("goodput_ratio", _NO_LABELS, goodput(view.host for view in each.hosts))]
        yield from _samples({"run": each.id}, parts)


def _program_samples(cluster: Cluster, now: float) -> Iterator[MetricSample]:
    shares = {(each.run, each.program, each.fingerprint): each for each in step_shares(cluster)}
    counted: dict[tuple[str, str], int] = {}
    for view in program_views(cluster, now):  # variants of a name share its count
        program = view.program
        counted[view.run, program.name] = max(counted.get((view.run, program.name), 0), view.compiles or 0)
        if program.fingerprint is None:  # nothing distinguishes it from others of its name
            continue
        share = shares.get((view.run, program.name, program.fingerprint))
        sizes = {kind: getattr(program, f"{kind}_bytes") for kind in _SIZES}
        parts: list[_Part] = [
            ("program_flops", _NO_LABELS, program.flops),
            *(("program_memory_bytes", {"kind": kind}, size) for kind, size in sizes.items()),
            ("program_differs", _NO_LABELS, len(view.differs)),
            ("program_collective_ratio", _NO_LABELS, None if share is None else share.share),
            ("program_exposed_ratio", _NO_LABELS, None if share is None else share.exposed_share),
        ]
        where: Labels = {"run": view.run, "program": program.name, "fingerprint": program.fingerprint}
        yield from _samples(where, parts)
    for (run, name), count in counted.items():
        yield from _samples({"run": run, "program": name}, [("compiles", _NO_LABELS, count or None)])


def _collective_parts(view: CollectiveView) -> Iterator[_Part]:
    axes = None if view.axes is None else ",".join(view.axes)
    names = "program", "fingerprint", "op", "kind"
    labels: Labels = {**{name: getattr(view, name) for name in names}, "axes": axes}
    yield "collective_bytes", labels, view.bytes
    yield "collective_rate", labels, view.per_second
    yield "collective_samples", labels, view.samples
    yield "collective_seconds", {**labels, "quantile": "0.5"}, scaled(view.p50_us, 10**6)
    yield "collective_seconds", {**labels, "quantile": "0.99"}, scaled(view.p99_us, 10**6)
    yield "collective_transfer_seconds", labels, scaled(view.transfer_us, 10**6)
    yield "collective_wait_seconds", labels, scaled(view.wait_us, 10**6)
    yield "collective_bus_bytes_per_second", labels, view.busbw_bytes_per_s
    if (late := view.straggler) is not None:
        who = {"process_index": late.process_index, "device": late.device_id}
        yield "collective_straggler_ratio", {**labels, **who}, late.share
