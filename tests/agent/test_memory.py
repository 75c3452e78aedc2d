"""What the agent reads of an allocator."""

from __future__ import annotations

from jaxtop_agent.collectors.memory import AllocatorMemory
from tests.made.allocators import Board, Client, Device

RECORDED = {
    "num_allocs": 1033, "bytes_in_use": 5_368_709_120, "peak_bytes_in_use": 9_663_676_416,
    "largest_alloc_size": 1_073_741_824, "bytes_limit": 112_742_891_520, "bytes_reserved": 0,
    "peak_bytes_reserved": 0, "largest_free_block_bytes": 104_152_956_928, "pool_bytes": 112_742_891_520,
    "peak_pool_bytes": 112_742_891_520,
}  # fmt: skip


def test_the_agent_reads_what_the_allocator_offers():
    board = Board()
    AllocatorMemory().collect(board, Client(Device(**RECORDED), Device(bytes_in_use=1)))
    assert board.sampler.memory_source == "allocator"
    assert board.sampler.devices.used_bytes == (5_368_709_120, 1)
    assert board.sampler.devices.reserved_bytes == (0, None)
    assert board.sampler.devices.largest_free_bytes == (104_152_956_928, None)
    assert board.sampler.devices.pool_bytes == (112_742_891_520, None)


def test_a_figure_that_no_device_has_is_no_column():
    board = Board()
    AllocatorMemory().collect(board, Client(Device(bytes_in_use=1), Device(bytes_in_use=2)))
    assert board.sampler.devices.used_bytes == (1, 2)
    assert board.sampler.devices.largest_free_bytes is None and board.sampler.devices.pool_bytes is None
