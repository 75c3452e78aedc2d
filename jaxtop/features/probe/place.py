"""`jaxtop place`: rank the devices of this machine or of a run, and say why."""

from __future__ import annotations

import argparse
import json
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.base.units import in_bytes, in_minutes
from jaxtop.cli import targets
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine import drivers
from jaxtop.cli.text.words import aligned, legible, note
from jaxtop.features.probe import placement
from jaxtop.features.probe.figures import FIGURES
from jaxtop.features.probe.messages import KnownDevice
from jaxtop.features.probe.placement import FLOPS_PER_JOULE, FREE, IDLE, WATTS, DeviceScore, Reason
from jaxtop.store import saved_probe
from jaxtop.store.probe_figures import probed_rates
from jaxtop.wire import Device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model import Cluster, DeviceView
    from jaxtop.wire.probing import Probe

SCHEMA = 1
NOTHING_RANKED = 2
NVIDIA = "nvidia"
MAKERS = (NVIDIA, "amd")
CUDA = "CUDA_VISIBLE_DEVICES"


class DevicesToRank(NamedTuple):
    """Devices to rank, what they belong to, and what the user should know of them."""

    devices: list[KnownDevice]
    origin: str
    notes: list[str]
    # Whether CUDA_VISIBLE_DEVICES can name them.
    are_cuda: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "without TARGET: the GPUs of this machine, else the devices of its last probe"
    targets.add_arguments(parser)
    parser.add_argument(
        "--for",
        dest="prefer",
        choices=placement.PREFERENCES,
        default=placement.THROUGHPUT,
        help="what to rank by besides free memory: rates of computing and of memory, the time of a launch, "
        "or the rate of computing per watt (default: throughput)",
    )
    parser.add_argument("-n", type=_count, metavar="N", help="list only the N best devices")
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of devices")
    return int(text)


def main(arguments: argparse.Namespace) -> int:
    probe = saved_probe.last()
    is_run = bool(arguments.target or arguments.hostfile or arguments.via is not None)
    to_rank = _devices_of_run(arguments, probe) if is_run else _devices_of_machine(probe)
    if arguments.n is not None and arguments.n > len(to_rank.devices):
        raise UserError(f"-n {arguments.n}: there are {len(to_rank.devices)} devices", NOTHING_RANKED)
    standings = placement.ranked(to_rank.devices, arguments.prefer)[: arguments.n]
    notes = [*to_rank.notes, *_notes(standings, arguments.prefer, probe)]
    if arguments.json:
        print(json.dumps(_document(standings, to_rank, arguments.prefer, notes), indent=2))
    else:
        print("\n".join(_lines(standings, to_rank)))
        for line in notes:
            note(line)
    return 0


def _devices_of_machine(probe: Probe | None) -> DevicesToRank:
    """Return the GPUs that the drivers list; without any, the devices of this machine's last probe."""
    hostname = socket.gethostname()
    known: list[KnownDevice] = []
    notes, makers = [], []
    for maker, gpus in drivers.asked("jaxtop_agent.hardware.inventory", {each: (each,) for each in MAKERS}):
        if isinstance(gpus, drivers.NoAnswer):
            notes.append(f"{maker}: {gpus}")
        else:
            known += [_gpu(number, gpu, hostname, probe) for number, gpu in enumerate(gpus, len(known))]
            makers += [maker] * bool(gpus)
    if not known and probe is not None:
        known = [
            KnownDevice(
                each.id,
                each.process,
                hostname,
                each.platform,
                each.kind,
                each.uuid,
                rates=each.rates,
                title=f"device {each.id}",
            )
            for each in probe.devices
            if each.hostname == hostname
        ]
    if not known:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise UserError(
            f"no GPU was found here{why}, and no device of this machine was probed: "
            "run `jaxtop probe`, or name a run",
            NOTHING_RANKED,
        )
    return DevicesToRank(known, "machine", notes, are_cuda=makers == [NVIDIA])


def _gpu(number: int, gpu: dict[str, Any], hostname: str, probe: Probe | None) -> KnownDevice:
    device = Device(number, gpu["kind"], "gpu", number, uuid=gpu["uuid"])
    figures: dict[str, int] = gpu["figures"]
    total, used = figures.get("driver_total_bytes"), figures.get("driver_used_bytes")
    busy, limit = figures.get("utilization_permille"), figures.get("power_limit_mw")
    return KnownDevice(
        number,
        0,
        hostname,
        device.platform,
        device.kind,
        device.uuid,
        None if total is None or used is None else max(0, total - used),
        total,
        probed_rates(probe, hostname, device),
        None if limit is None else limit / 1000,
        None if busy is None else busy / 1000,
        gpu["title"],
    )


def _devices_of_run(arguments: argparse.Namespace, probe: Probe | None) -> DevicesToRank:
    from jaxtop.cli.reading.gather import LONGEST_GATHERING_S, measured  # heavy: errors above must be fast
    from jaxtop.model.tuning import AS_DECLARED

    source = targets.open_source(arguments)
    cluster, now, notes = measured(
        source, LONGEST_GATHERING_S, AS_DECLARED, lambda _cluster, _since: True, NOTHING_RANKED
    )
    known = known_devices(cluster, now, probe)
    if not known:
        raise UserError("; ".join(notes) or "the run has no live devices", NOTHING_RANKED)
    return DevicesToRank(known, "run", notes)


def known_devices(cluster: Cluster, now: float, probe: Probe | None) -> list[KnownDevice]:
    """Return the devices of processes that have not exited."""
    from jaxtop.model import device_views  # as above

    views = [view for view in device_views(cluster, now) if not view.state.has_exited]
    return [_known_device(view, cluster, probe) for view in views]


def _known_device(view: DeviceView, cluster: Cluster, probe: Probe | None) -> KnownDevice:
    from jaxtop.model.hardware.allocators import free_of  # as above
    from jaxtop.model.host import device_entry

    hello = cluster.hosts[view.agent].hello
    assert hello is not None  # it lists the device
    sample, total = view.pulse.devices, view.limit_bytes
    free = free_of(sample, view.position)
    if total is None:  # the allocator does not count, but the driver may
        used = device_entry(sample.driver_used_bytes, view.position)
        total = device_entry(sample.driver_total_bytes, view.position)
        free = None if total is None or used is None else max(0, total - used)
    power = device_entry(sample.power_mw, view.position)
    return KnownDevice(
        view.id,
        view.process_index or 0,
        hello.hostname,
        view.platform,
        view.kind,
        hello.devices[view.position].uuid,
        free,
        total,
        probed_rates(probe, hello.hostname, hello.devices[view.position]),
        None if power is None else power / 1000,
        title=f"device {view.id} on {hello.hostname}",
    )


def _notes(standings: Sequence[DeviceScore], prefer: str, probe: Probe | None) -> Iterator[str]:
    """Yield what the ranking could not take into account, and how old its rates are."""
    devices = [each.device for each in standings]
    probed = [each for each in devices if each.rates]
    if not probed:
        yield "nothing measured what these devices can do: run `jaxtop probe` while they are idle"
    elif probe is not None:
        ago = in_minutes(max(0.0, time.time() - probe.at_ms / 1000) / 60)
        yield f"rates are those of a probe {ago} ago, of {len(probed)} of {len(devices)} devices"
    if all(each.free_bytes is None for each in devices):
        is_cpu = devices[0].platform == "cpu"
        why = (
            "CPU devices share the memory of their machine" if is_cpu else "no allocator or driver reports it"
        )
        yield f"free memory is not ranked: {why}"
    if prefer == placement.ENERGY and all(each.watts is None for each in devices):
        yield "power is unknown: ranked by the rate of computing"


def _lines(standings: Sequence[DeviceScore], found: DevicesToRank) -> list[str]:
    rows = [["RANK", "DEVICE", "KIND", "SCORE", "WHY"]]
    for rank, (device, score, reasons) in enumerate(standings, 1):
        why = ", ".join(_words(reason, device) for reason in reasons) or "nothing is known of it"
        shown = "n/a" if score is None else f"{score:.2f}"
        rows.append([str(rank), legible(device.title), legible(device.kind) or "n/a", shown, why])
    lines = aligned(rows)
    lines.append(f"order: {','.join(str(each.device.id) for each in standings)}")
    if (value := _cuda(standings, found)) is not None:
        lines.append(f"export {CUDA}={value}")
    return lines


def _words(reason: Reason, device: KnownDevice) -> str:
    """Return a figure with its share of the best device's, if it is less."""
    figure, value, share = reason
    if figure == FREE:
        what = "free" if value is None else f"{in_bytes(int(value))} free"
        if value is not None and device.total_bytes:
            what += f" of {in_bytes(device.total_bytes)}"
    elif figure == IDLE:
        what = "idle" if value is None else f"idle {value:.0%}"
    elif figure == WATTS:
        what = "power" if value is None else f"{value:.0f} W"
    elif figure == FLOPS_PER_JOULE:
        what = "matrix rate per watt" + ("" if value is None else f" {value / 1e9:.3g} GFLOP/s")
    else:
        title, unit, scale, _ = FIGURES[figure]
        what = title + ("" if value is None else f" {value / scale:.3g} {unit}")
    if value is None:
        return f"{what} n/a (counted as {share:.0%})"
    return what if share == 1 else f"{what} ({share:.0%})"


def _cuda(standings: Sequence[DeviceScore], found: DevicesToRank) -> str | None:
    """Return the order for CUDA_VISIBLE_DEVICES; None where that variable does not name these devices."""
    uuids = [each.device.uuid for each in standings]
    return ",".join(uuid for uuid in uuids if uuid) if found.are_cuda else None


def _document(
    standings: Sequence[DeviceScore], found: DevicesToRank, prefer: str, notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "for": prefer,
        "of": found.origin,
        "devices": [
            {
                "rank": rank,
                "id": device.id,
                "process_index": device.process if found.origin == "run" else None,
                "hostname": device.hostname,
                "platform": device.platform,
                "kind": device.kind or None,
                "uuid": device.uuid,
                "score": score,
                "free_bytes": device.free_bytes,
                "total_bytes": device.total_bytes,
                "watts": device.watts,
                "reasons": [reason._asdict() for reason in reasons],
            }
            for rank, (device, score, reasons) in enumerate(standings, 1)
        ],
        "order": [each.device.id for each in standings],
        "cuda_visible_devices": _cuda(standings, found),
        "notes": list(notes),
    }
