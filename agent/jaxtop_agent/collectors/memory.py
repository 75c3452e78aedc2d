"""Device memory figures of the allocator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop.wire import DeviceSample
from jaxtop_agent import jaxprivate
from jaxtop_agent.core import budget

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board


class AllocatorMemory:
    """The allocator's bytes in use, peak and limit per device; the CPU's allocator does not count."""

    name = "memory"
    share = budget.COLLECTOR
    also_unwatched = False

    def collect(self, board: Board, client: Any) -> None:
        devices = [] if client is None else jaxprivate.local_devices(client)
        stats = [jaxprivate.memory_stats(device) for device in devices]
        if not any(stats):
            self.forget(board)  # earlier figures may be outdated, because backends can be cleared
            return
        board.sampler.devices = msgspec.structs.replace(
            board.sampler.devices,
            used_bytes=_column(stats, "bytes_in_use"),
            peak_bytes=_column(stats, "peak_bytes_in_use"),
            limit_bytes=_column(stats, "bytes_limit"),
            reserved_bytes=_column(stats, "bytes_reserved"),
            peak_reserved_bytes=_column(stats, "peak_bytes_reserved"),
            largest_free_bytes=_column(stats, "largest_free_block_bytes"),
            pool_bytes=_column(stats, "pool_bytes"),
        )
        board.sampler.memory_source = "allocator"

    def forget(self, board: Board) -> None:
        if board.sampler.memory_source == "allocator":
            board.sampler.devices, board.sampler.memory_source = DeviceSample(), None


def _column(stats: list[dict[str, int] | None], key: str) -> tuple[int | None, ...] | None:
    column = tuple(each.get(key) if each else None for each in stats)
    return column if any(value is not None for value in column) else None
