"""What the publisher shows of the hardware: readings that are of now, and a driver that does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jaxtop_agent.hardware.worker import SOURCE

if TYPE_CHECKING:
    from jaxtop.wire import Device, DeviceSample
    from jaxtop_agent.core.board import Board

# A driver that takes so long is said to be silent; in coarse steps, since each new text is a new hello.
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
    """The figures of the allocator, and those of the hardware that are not too old."""
    read, topology = board.hardware, board.topology
    if now - read.at > read.valid_s or topology is None:
        return board.devices
    fitting = {
        name: column
        for name, column in read.columns.items()
        if column is not None and len(column) == len(topology.devices)
    }
    return msgspec.structs.replace(board.devices, **fitting)


def sources(board: Board, now: float) -> dict[str, str]:
    """What the sources say, and what is to be said of a thread that cannot speak for itself."""
    said = dict(board.sources)
    asked = board.hardware_asked
    silent = 0.0 if asked is None else now - asked
    for seconds, words in SILENCES:
        if silent >= seconds:
            said[SOURCE] = f"off: the driver has not answered for {words}"
            break
    return said


def devices(board: Board) -> tuple[Device, ...]:
    """The devices with their names by the driver, where it told them."""
    if board.topology is None:
        return ()
    found = board.topology.devices
    if len(board.uuids) != len(found):
        return found
    return tuple(
        msgspec.structs.replace(device, uuid=uuid) for device, uuid in zip(found, board.uuids, strict=True)
    )
