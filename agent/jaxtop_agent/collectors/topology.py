"""The devices of this process, and its place among the processes of the run."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from jaxtop.wire import Device
from jaxtop_agent import jaxprivate
from jaxtop_agent.core import budget
from jaxtop_agent.core.board import Board, Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.jaxprivate import declarations


class TopologyOfProcess:
    """The topology, read once per set of backends: a program may clear these and create others."""

    name = "devices"
    share = budget.COLLECTOR
    also_unwatched = True

    def __init__(self) -> None:
        self._seen: Callable[[], Any] = lambda: None

    def collect(self, board: Board, client: declarations.Client | None) -> None:
        if client is None or client is self._seen():
            return
        board.sampler.topology = Topology(
            process_index=jaxprivate.process_index(client),
            process_count=jaxprivate.process_count(client),
            platform=str(client.platform),
            devices=tuple(describe(device) for device in jaxprivate.local_devices(client)),
            coordinator=jaxprivate.Coordination().address,
        )
        self._seen = weakref.ref(client)  # not its id, which the next client may get

    def forget(self, board: Board) -> None:
        """Keep the devices: those of a process do not change while it runs."""


def _slice_index(device: declarations.Device) -> int | None:
    """Return the slice of a TPU, or the partition of a GPU, which some versions call slice_index, too."""
    found = getattr(device, "slice_index", None)
    return getattr(device, "partition_index", None) if found is None else found


def describe(device: declarations.Device, uuid: str | None = None) -> Device:
    """Return a device of this process as messages have it; `uuid` is the driver's name of it."""
    coords = getattr(device, "coords", None)
    return Device(
        id=device.id,
        kind=str(device.device_kind),
        platform=str(device.platform),
        local_id=jaxprivate.hardware_ordinal(device),
        coords=tuple(int(c) for c in coords) if coords is not None else None,
        core_on_chip=getattr(device, "core_on_chip", None),
        slice_index=_slice_index(device),
        uuid=uuid,
    )
