"""The last probe's result, compared with the live figures of devices and collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.store.probe_figures import probed_collective, probed_device
from jaxtop.tui.draw.panes.facts import pairs
from jaxtop.wire.probing import MATRIX_RATE, MEMORY_RATE

if TYPE_CHECKING:
    from rich.text import Text

    from jaxtop.model import DeviceView, Host
    from jaxtop.model.collectives import CollectiveView
    from jaxtop.store.probe_figures import Probe
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink


def device_lines(
    probe: Probe | None,
    device: DeviceView,
    host: Host,
    flops_per_second: float | None,
    ink: Ink,
    *,
    at_least: bool = False,
) -> list[Text]:
    """Return the measured rates of a device, and the share of its matrix rate that the step uses."""
    if probe is None or host.hello is None:
        return []
    probed = probed_device(probe, host.hello.hostname, host.hello.devices[device.position])
    if probed is None:
        return []
    rate, memory = probed.rate(MATRIX_RATE), probed.rate(MEMORY_RATE)
    lines = []
    if rate:
        share = None if flops_per_second is None else units.share(flops_per_second / rate)
        does = [] if share is None else [("does", units.bound(share, at_least=at_least))]
        lines.append(pairs([("probed", units.operations(rate)), *does], ink))
    if memory is not None:
        lines.append(pairs([("probed memory", units.bandwidth(memory))], ink))
    return lines


def bandwidth_note(moment: Moment, view: CollectiveView) -> str:
    """Return a live bus bandwidth as a share of the probed one at about this size; empty if not probed."""
    busbw = view.busbw_bytes_per_s
    if moment.probe is None or busbw is None or not view.groups or view.bytes is None:
        return ""
    platform = next((device.platform for device in moment.device_views if device.run == view.run), "")
    found = probed_collective(moment.probe, platform, view.kind, view.groups[0], view.bytes)
    probed = None if found is None else found.busbw_bytes_per_s
    return f"{units.share(busbw / probed)} of probed" if probed else ""
