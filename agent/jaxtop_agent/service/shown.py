"""What the publisher sends about the hardware: current readings, and a driver that does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jaxtop_agent.hardware.worker import SOURCE

if TYPE_CHECKING:
    from jaxtop.wire import Device, DeviceSample
    from jaxtop_agent.core.board import Board

# For how long a driver has not answered. The steps are coarse because each new text causes a new hello.
SILENCES = (
    (3600, "an hour"),
    (1800, "half an hour"),
    (600, "10 min"),
    (300, "5 min"),
    (60, "1 min"),
    (30, "30 s"),
    (10, "10 s"),
)


def sample(board: Board, now: float) -> DeviceSample:
    """Return the allocator's figures, with those of the hardware if they are still current."""
    read, topology = board.hardware.readings, board.sampler.topology
    if now - read.at > read.valid_s or topology is None:
        return board.sampler.devices
    fitting = {
        name: column
        for name, column in read.columns.items()
        if column is not None and len(column) == len(topology.devices)
    }
    return msgspec.structs.replace(board.sampler.devices, **fitting)


def sources(board: Board, now: float) -> dict[str, str]:
    """Return the states of the sources; if the hardware thread hangs, its state says for how long."""
    states = dict(board.sources)
    asked = board.hardware.asked_at
    silent = 0.0 if asked is None else now - asked
    for seconds, words in SILENCES:
        if silent >= seconds:
            states[SOURCE] = f"off: the driver has not answered for {words}"
            break
    return states


def devices(board: Board) -> tuple[Device, ...]:
    """Return the devices, with the driver's UUIDs where it provided them."""
    if board.sampler.topology is None:
        return ()
    found = board.sampler.topology.devices
    if len(board.hardware.uuids) != len(found):
        return found
    return tuple(
        msgspec.structs.replace(device, uuid=uuid)
        for device, uuid in zip(found, board.hardware.uuids, strict=True)
    )
