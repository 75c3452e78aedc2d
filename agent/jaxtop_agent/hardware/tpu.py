"""TPUs, through the metric service that their runtime opens on this machine.

Names and layout are those of Google's tpu-info (tpu_info/proto/tpu_metric_service.proto and
tpu_info/metrics.py in github.com/AI-Hypercomputer/cloud-accelerator-diagnostics). The service does not report
how busy the tensor cores are. tpu-info reads that from libtpu's library, which must not be used by a thread
beside the run.
"""

from __future__ import annotations

import os
import time
from math import inf
from typing import TYPE_CHECKING

from jaxtop_agent.hardware import protobuf
from jaxtop_agent.hardware.distribution import Buckets, add, buckets
from jaxtop_agent.hardware.reader import Figures, Off

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from jaxtop.wire import Device
    from jaxtop_agent.hardware.protobuf import Message

SERVICE = "/tpu.monitoring.runtime.RuntimeMetricService/"
PORT = 8431
# The longest that one round of calls takes, with all ports and requests.
SECONDS = 2.0

# Column: the metric, and the factor that converts its value to the column's unit. Duty cycles are per chip.
GAUGES: Mapping[str, tuple[str, float]] = {
    "driver_used_bytes": ("tpu.runtime.hbm.memory.usage.bytes", 1),
    "driver_total_bytes": ("tpu.runtime.hbm.memory.total.bytes", 1),
    "utilization_permille": ("tpu.runtime.tensorcore.dutycycle.percent", 10),
    "queued": ("hlo.queue.size.gauge", 1),
}
OF_CHIPS = "utilization_permille"
# Transfers between hosts, over all buffer sizes. They are counted per process, so each of its devices shows
# the same value.
TRANSFERS = "megascale.dcn_transfer_latencies.microsecond.cumulative.distribution"


class Tpu:
    """A reader of the metrics of this process's devices."""

    def __init__(self, devices: Sequence[Device]) -> None:
        try:
            from jaxtop_agent.hardware import grpc  # h2 is optional
        except ImportError:
            raise Off("pip install 'jaxtop[tpu]'") from None
        self._grpc = grpc
        self._devices = tuple(devices)
        self._ports = ports()
        self._offered: dict[int, frozenset[str]] = {}
        self._transfers: Buckets | None = None
        self._unmapped: tuple[str, ...] = ()
        self.uuids: tuple[str | None, ...] = (None,) * len(devices)
        failures = []
        for port, seconds in _shares(self._ports):
            try:
                self._offered[port] = self._list(port, seconds)
            except (grpc.Failed, protobuf.Malformed) as error:
                failures.append(f"port {port}: {error}")
        if not self._offered:
            raise Off(f"the TPU runtime's metric service does not answer ({'; '.join(failures)})")

    def _list(self, port: int, seconds: float) -> frozenset[str]:
        (answer,) = self._grpc.call(port, SERVICE + "ListSupportedMetrics", [b""], seconds)
        if answer.message is None and answer.status != self._grpc.UNIMPLEMENTED:
            raise self._grpc.Failed(answer.text or f"status {answer.status}")
        if answer.message is None:  # older runtimes cannot list their metrics
            return frozenset({name for name, _ in GAUGES.values()} | {TRANSFERS})
        names = (each.text(1) for each in protobuf.read(answer.message).messages(1))
        return frozenset(name for name in names if name is not None)

    def read(self, now: float) -> Sequence[Figures]:  # noqa: ARG002 - no figure is computed from the time
        found: list[Figures] = [{} for _ in self._devices]
        metrics = self._fetch()
        unmapped = []
        for column, (name, scale) in GAUGES.items():
            by_id, is_ambiguous = _by_id(metrics.get(name, []), scale)
            if not by_id:
                continue
            places = self._places(by_id, is_ambiguous=is_ambiguous, of_chips=column == OF_CHIPS)
            if places is None:
                unmapped.append(column)
                continue
            for figures, place in zip(found, places, strict=True):
                figures[column] = round(by_id[place])
        self._unmapped = tuple(unmapped)
        latencies = self._latencies(metrics.get(TRANSFERS, []))
        return [figures | latencies for figures in found]

    def _fetch(self) -> dict[str, list[Message]]:
        """Return the points of each metric, from all ports that answer."""
        wanted = {name for name, _ in GAUGES.values()} | {TRANSFERS}
        found: dict[str, list[Message]] = {}
        failures = []
        for port, seconds in _shares(self._offered):
            names = sorted(wanted & self._offered[port])
            requests = [protobuf.text_field(1, name) for name in names]
            try:
                answers = self._grpc.call(port, SERVICE + "GetRuntimeMetric", requests, seconds)
            except self._grpc.Failed as error:
                failures.append(f"port {port}: {error}")
                continue
            for name, answer in zip(names, answers, strict=True):
                metric = None if answer.message is None else protobuf.read(answer.message).message(1)
                if metric is not None:
                    found.setdefault(name, []).extend(metric.messages(3))
        if len(failures) == len(self._offered):
            raise Off(f"the TPU runtime's metric service does not answer ({'; '.join(failures)})")
        return found

    def _places(self, by_id: Mapping[int, float], *, is_ambiguous: bool, of_chips: bool) -> list[int] | None:
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

    def _latencies(self, points: Sequence[Message]) -> Figures:
        """Return percentiles of the transfers since the previous reading; no figures if there were none."""
        read = [buckets(each) for point in points if (each := point.message(5)) is not None]
        before, self._transfers = self._transfers, add([each for each in read if each is not None])
        fresh = None if self._transfers is None else self._transfers.since(before)
        figures: Figures = {}
        for column, share in (("transfer_p50_us", 0.5), ("transfer_p99_us", 0.99)):
            value = None if fresh is None else fresh.percentile(share)
            if value is not None:
                figures[column] = round(value)
        return figures

    def rest(self) -> None:
        self._transfers = None

    def remarks(self) -> str:
        names = ", ".join(column.split("_", maxsplit=1)[0] for column in self._unmapped)
        return f"cannot be matched to devices: {names}" if names else ""

    def close(self) -> None:
        """Do nothing: each reading has its own connections."""


def ports() -> tuple[int, ...]:
    """Return the service's ports: those in TPU_RUNTIME_METRICS_PORTS, else the default."""
    listed = os.environ.get("TPU_RUNTIME_METRICS_PORTS", "").split(",")
    return tuple(int(each) for each in listed if each.strip().isdecimal()) or (PORT,)


def _shares(ports: Collection[int]) -> Iterator[tuple[int, float]]:
    """Yield each port, with the seconds that it may take so that each later one has as many."""
    end = time.monotonic() + SECONDS
    for left, port in zip(range(len(ports), 0, -1), ports, strict=True):
        yield port, max(0.0, end - time.monotonic()) / left


def _by_id(points: Sequence[Message], scale: float) -> tuple[dict[int, float], bool]:
    """Return the values by device, summed over kinds of cores, and whether two points contradict."""
    found: dict[int, float] = {}
    is_ambiguous = False
    seen: dict[tuple[int, tuple[str, ...]], float] = {}
    for point in points:
        device, kinds = _device(point.message(1))
        gauge = point.message(3)
        if device is None or gauge is None:
            continue
        value = gauge.double(1) if gauge.double(1) is not None else gauge.number(2)
        if value is None or not 0 <= value < inf:
            continue
        if (device, kinds) in seen:  # several ports report a whole host, or each its own device 0
            is_ambiguous = is_ambiguous or seen[device, kinds] != value
            continue
        seen[device, kinds] = value
        found[device] = found.get(device, 0.0) + value * scale
    return found, is_ambiguous


def _device(attribute: Message | None) -> tuple[int | None, tuple[str, ...]]:
    """Return the device that an attribute names, and the attributes beside it."""
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


def _whole(value: Message) -> int | None:
    """Return an integer: a number in older runtimes, text in newer ones."""
    text = value.text(1)
    if text is not None:
        return int(text) if text.isdecimal() else None
    return value.number(3)
