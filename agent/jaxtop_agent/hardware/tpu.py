"""TPUs, through the metric service that their runtime opens on this machine.

Names and layout are those of Google's tpu-info (tpu_info/proto/tpu_metric_service.proto and
tpu_info/metrics.py in github.com/AI-Hypercomputer/cloud-accelerator-diagnostics). The service does not report
how busy the tensor cores are. tpu-info reads that from libtpu's library, which must not be used by a second
thread during the run.
"""

from __future__ import annotations

import os
import time
from math import inf
from typing import TYPE_CHECKING, TypeVar

from jaxtop.base import protobuf
from jaxtop_agent.hardware.distribution import Buckets, add, buckets
from jaxtop_agent.hardware.reader import Figures, Off

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from types import ModuleType

    from jaxtop.base.protobuf import ProtobufMessage
    from jaxtop.wire import Device

_Value = TypeVar("_Value")
SERVICE = "/tpu.monitoring.runtime.RuntimeMetricService/"
PORT = 8431
# The longest that one round of calls takes, with all ports and requests.
ROUND_TIMEOUT_S = 2.0

# Column: the metric, and the factor that converts its value to the column's unit. Duty cycles are per chip.
GAUGES: Mapping[str, tuple[str, float]] = {
    "driver_used_bytes": ("tpu.runtime.hbm.memory.usage.bytes", 1),
    "driver_total_bytes": ("tpu.runtime.hbm.memory.total.bytes", 1),
    "utilization_permille": ("tpu.runtime.tensorcore.dutycycle.percent", 10),
    "queued": ("hlo.queue.size.gauge", 1),
    "dram_permille": ("tpu.runtime.hbm.utilization.percent", 10),
    "idle_ms": ("tpu.runtime.tensorcore.idle_duration.seconds", 1000),
}
OF_CHIPS = "utilization_permille"
# The first part of the columns with percentiles, and the metric that counts how long each operation took.
# Transfers, over all buffer sizes, and collectives are counted per process: each of its devices has the same
# figure. Programs are counted per device.
_LATENCIES = "megascale.{}_latencies.microsecond.cumulative.distribution"
LATENCIES: Mapping[str, str] = {
    "transfer": _LATENCIES.format("dcn_transfer"),
    "from_host": _LATENCIES.format("host_to_device_transfer"),
    "to_host": _LATENCIES.format("device_to_host_transfer"),
    "collective": _LATENCIES.format("collective_end_to_end"),
}
PROGRAMS = "hlo.execution.timing.distribution.microseconds"
PERCENTILES = (("p50", 0.5), ("p99", 0.99))
METRICS = frozenset({name for name, _ in GAUGES.values()} | set(LATENCIES.values()) | {PROGRAMS})


class Tpu:
    """A reader of the metrics of this process's devices."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._grpc = grpc = transport()
        self._devices = tuple(devices)
        self._ports = ports()
        self._offered: dict[int, frozenset[str]] = {}
        self._counted: dict[tuple[str, int | None], Buckets] = {}  # by metric and position, as last read
        self._unmapped: tuple[str, ...] = ()
        self.uuids: tuple[str | None, ...] = (None,) * len(devices)
        failures = []
        for port, seconds in shares(self._ports):
            try:
                self._offered[port] = self._list(port, seconds)
            except (grpc.GrpcFailed, protobuf.Malformed) as error:
                failures.append(f"port {port}: {error}")
        if not self._offered:
            raise Off(f"the TPU runtime's metric service does not answer ({'; '.join(failures)})")

    def _list(self, port: int, seconds: float) -> frozenset[str]:
        (answer,) = self._grpc.call(port, SERVICE + "ListSupportedMetrics", [b""], seconds)
        if answer.message is None and answer.status != self._grpc.UNIMPLEMENTED:
            raise self._grpc.GrpcFailed(answer.text or f"status {answer.status}")
        if answer.message is None:  # older runtimes cannot list their metrics
            return METRICS
        names = (each.text(1) for each in protobuf.read(answer.message).messages(1))
        return frozenset(name for name in names if name is not None)

    def read(self, now: float) -> Sequence[Figures]:  # noqa: ARG002 - no figure is computed from the time
        found: list[Figures] = [{} for _ in self._devices]
        metrics = self._fetch()
        unmapped = []
        for column, (name, scale) in GAUGES.items():
            values = self._per_device(metrics.get(name, []), _gauge, of_chips=column == OF_CHIPS)
            if values is None:
                unmapped.append(column)
            for figures, kinds in zip(found, values or (), strict=False):
                figures[column] = round(sum(kinds) * scale)
        timed = self._per_device(metrics.get(PROGRAMS, []), _distribution, of_chips=False)
        for place, counted in enumerate(timed or ()):
            found[place].update(self._percentiles("program", PROGRAMS, counted, place))
        self._unmapped = tuple(unmapped if timed is not None else [*unmapped, "program"])
        for column, name in LATENCIES.items():
            counted = [each for point in metrics.get(name, []) if (each := _distribution(point)) is not None]
            latencies = self._percentiles(column, name, counted)
            found = [figures | latencies for figures in found]
        return found

    def _fetch(self) -> dict[str, list[ProtobufMessage]]:
        """Return the points of each metric, from all ports that answer."""
        found: dict[str, list[ProtobufMessage]] = {}
        failures = []
        for port, seconds in shares(self._offered):
            names = sorted(METRICS & self._offered[port])
            requests = [protobuf.text_field(1, name) for name in names]
            try:
                answers = self._grpc.call(port, SERVICE + "GetRuntimeMetric", requests, seconds)
            except self._grpc.GrpcFailed as error:
                failures.append(f"port {port}: {error}")
                continue
            for name, answer in zip(names, answers, strict=True):
                metric = None if answer.message is None else protobuf.read(answer.message).message(1)
                if metric is not None:
                    found.setdefault(name, []).extend(metric.messages(3))
        if len(failures) == len(self._offered):
            raise Off(f"the TPU runtime's metric service does not answer ({'; '.join(failures)})")
        return found

    def _per_device(
        self,
        points: Sequence[ProtobufMessage],
        value_of: Callable[[ProtobufMessage], _Value | None],
        *,
        of_chips: bool,
    ) -> list[list[_Value]] | None:
        """Return the values of each device; none if there are none at all, None if they match no devices."""
        by_id, is_ambiguous = _by_id(points, value_of)
        if not by_id:
            return []
        places = self._places(by_id, is_ambiguous=is_ambiguous, of_chips=of_chips)
        return None if places is None else [by_id[place] for place in places]

    def _places(self, by_id: Mapping[int, object], *, is_ambiguous: bool, of_chips: bool) -> list[int] | None:
        """Return the metric's id for each device; None where the ids match no devices.

        The ids are JAX's. If the service has no other devices, they may be numbers on this host, or those of
        chips.
        """
        if is_ambiguous and len(by_id) <= len(self._devices):
            return None  # several processes, each of which counts its own devices from 0
        ids = [device.id for device in self._devices]
        if set(ids) <= by_id.keys():
            return ids
        if is_ambiguous:
            return None
        local = [device.local_id for device in self._devices]
        if len(by_id) == len(local) and None not in local and set(local) == by_id.keys():
            return [each for each in local if each is not None]
        chips = list(dict.fromkeys(d.coords for d in sorted(self._devices, key=lambda each: each.id)))
        if of_chips and None not in chips and len(chips) == len(by_id) < len(ids):
            # Chips of two cores, in the order of their ids, as tpu-info assumes.
            by_chip = dict(zip(chips, sorted(by_id), strict=True))
            return [by_chip[device.coords] for device in self._devices]
        return None

    def _percentiles(
        self, column: str, metric: str, counted: Sequence[Buckets], place: int | None = None
    ) -> Figures:
        """Return percentiles of what was counted since the previous reading; no figures if nothing was."""
        key, total = (metric, place), add(counted)
        before = self._counted.pop(key, None)
        if total is None:
            return {}
        self._counted[key] = total
        fresh = total.counts_since(before)
        values = {name: fresh.percentile(share) for name, share in PERCENTILES} if fresh is not None else {}
        return {f"{column}_{name}_us": round(value) for name, value in values.items() if value is not None}

    def rest(self) -> None:
        self._counted.clear()

    def remarks(self) -> str:
        names = ", ".join(dict.fromkeys(column.split("_", maxsplit=1)[0] for column in self._unmapped))
        return f"cannot be matched to devices: {names}" if names else ""

    def close(self) -> None:
        """Do nothing: each reading has its own connections."""


def ports() -> tuple[int, ...]:
    """Return the service's ports: those in TPU_RUNTIME_METRICS_PORTS, else the default."""
    listed = os.environ.get("TPU_RUNTIME_METRICS_PORTS", "").split(",")
    return tuple(int(each) for each in listed if each.strip().isdecimal()) or (PORT,)


def transport() -> ModuleType:
    """Return the module that calls the service."""
    try:
        from jaxtop_agent.hardware import grpc  # h2 is optional
    except ImportError:
        raise Off("pip install 'jaxtop[tpu]'") from None
    return grpc


def shares(ports: Collection[int]) -> Iterator[tuple[int, float]]:
    """Yield each port with the seconds that it may take: the rest, divided among it and the later ones."""
    end = time.monotonic() + ROUND_TIMEOUT_S
    for left, port in zip(range(len(ports), 0, -1), ports, strict=True):
        yield port, max(0.0, end - time.monotonic()) / left


def _by_id(
    points: Sequence[ProtobufMessage], value_of: Callable[[ProtobufMessage], _Value | None]
) -> tuple[dict[int, list[_Value]], bool]:
    """Return the values of each device, one for each kind of cores, and whether two points contradict."""
    found: dict[int, list[_Value]] = {}
    is_ambiguous = False
    seen: dict[tuple[int, tuple[str, ...]], _Value] = {}
    for point in points:
        device, kinds = _device(point.message(1))
        value = value_of(point)
        if device is None or value is None:
            continue
        if (device, kinds) in seen:  # several ports report a whole host, or each its own device 0
            is_ambiguous = is_ambiguous or seen[device, kinds] != value
            continue
        seen[device, kinds] = value
        found.setdefault(device, []).append(value)
    return found, is_ambiguous


def _gauge(point: ProtobufMessage) -> float | None:
    gauge = point.message(3)
    if gauge is None:
        return None
    value = gauge.double(1) if gauge.double(1) is not None else gauge.number(2)
    return value if value is not None and 0 <= value < inf else None


def _distribution(point: ProtobufMessage) -> Buckets | None:
    counted = point.message(5)
    return None if counted is None else buckets(counted)


def _device(attribute: ProtobufMessage | None) -> tuple[int | None, tuple[str, ...]]:
    """Return the device that an attribute names, and the attributes next to it."""
    value = None if attribute is None else attribute.message(2)
    if value is None:
        return None, ()
    among = value.message(6)
    if among is None:
        return _whole(value), ()
    device, others = None, []
    for each in among.messages(1):
        name, inner = each.text(1) or "", each.message(2)
        if inner is not None and name.replace("-", "_") in {"device_ordinal", "device_id"}:
            device = _whole(inner)
        elif inner is not None:
            others.append(f"{name}={inner.text(1)}")
    return device, tuple(sorted(others))


def _whole(value: ProtobufMessage) -> int | None:
    """Return an integer: a number in older runtimes, text in newer ones."""
    text = value.text(1)
    if text is not None:
        return int(text) if text.isdecimal() else None
    return value.number(3)
