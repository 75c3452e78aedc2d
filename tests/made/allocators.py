"""Devices whose allocators answer as those of accelerators do, and what the agent reads of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop_agent.collectors.memory import AllocatorMemory
from jaxtop_agent.core.board import SamplerState

if TYPE_CHECKING:
    from jaxtop import wire


class Device:
    """As the allocator of a GPU answers."""

    def __init__(self, platform: str = "gpu", **stats: int) -> None:
        self.platform, self.stats = platform, stats

    def memory_stats(self) -> dict[str, int]:
        return self.stats


class Client:
    def __init__(self, *devices: Device) -> None:
        self.devices = devices

    def local_devices(self) -> list[Device]:
        return list(self.devices)


class Board:
    def __init__(self) -> None:
        self.sampler = SamplerState()


class Silent(Device):
    """A device without a counting allocator, as that of the CPU."""

    def memory_stats(self):
        return None


def sampled(stats: dict[str, int], platform: str = "gpu") -> wire.DeviceSample:
    """The columns that the agent sends of one such device."""
    board = Board()
    AllocatorMemory().collect(board, Client(Device(platform, **stats)))
    return board.sampler.devices
