"""The memory figures of each backend, in the dictionaries that `device.memory_stats()` printed in public."""

from __future__ import annotations

import pytest

from jaxtop import wire
from jaxtop.model import MEMORY, Part, device_views, memory_views
from jaxtop.model.hardware.allocators import (
    free_of,
    largest_block,
    largest_piece,
    scattered_bytes,
    taken_share,
)
from jaxtop_agent import jaxprivate
from jaxtop_agent.collectors.memory import AllocatorMemory
from tests.builders import NOW
from tests.made.allocators import Board, Client, Device, Silent, sampled
from tests.staged.memory import GIB, Run
from tests.stories import cluster_of, hello, link, pulse

KEYS = [
    "num_allocs",
    "bytes_in_use",
    "peak_bytes_in_use",
    "largest_alloc_size",
    "bytes_limit",
    "bytes_reserved",
    "peak_bytes_reserved",
    "bytes_reservable_limit",
    "largest_free_block_bytes",
    "pool_bytes",
    "peak_pool_bytes",
]


def printed(*values: int | None) -> dict[str, int]:
    return {key: value for key, value in zip(KEYS, values, strict=True) if value is not None}


# https://github.com/jax-ml/jax/issues/1491 (comment of 2023-06-13): a TPU.
TPU = printed(3, 76288, 76800, 40960, 33014415360, 0, 0, 33014415360, 33014338560, None, None)
# https://github.com/pytorch/xla/pull/7086: a TPU.
TPU_32 = printed(2, 214528, 214528, 201728, 34088157184, 0, 0, 34088157184, 34087942656, None, None)
# A public notebook of a training run on eight TPU cores with 16 GiB each: a program's memory is reserved.
TPU_RESERVED = printed(
    1044, 2353927680, 2353927680, 44040192, 16909332480, 66560, 66560, 14573867008, 14555338240, None, None
)
# Printed in the comments of a public reconstruction library: a GPU with its whole pool, jaxlib before 2026.
BFC = printed(63, 22846976, 4251233024, 4228123904, 12701761536, 0, 0, None, 0, 12701761536, 12701761536)
# The same before the pool had grown: XLA_PYTHON_CLIENT_PREALLOCATE=false.
BFC_GROWS = printed(63, 14983168, 2431167744, 2415922432, 12701761536, 0, 0, None, 0, 3228616192, 3228616192)
# Printed in the tests of a public package for displaying arrays: a GPU with 35.7 GB.
BFC_A100 = printed(
    222, 3897557504, 32087482368, 25232940032, 35714334720, 0, 0, None, 0, 35714334720, 35714334720
)
# A device before its first operation, in a comment of a public application.
BFC_UNUSED = printed(0, 0, 0, 0, 2965372928, 0, 0, None, 0, 0, 0)
# BFCAllocator::GetStats of 2026 searches for its largest block.
BFC_SEARCHES = printed(
    222, 3897557504, 32087482368, 25232940032, 35714334720, 0, 0, None, 20 << 30, 35714334720, 35714334720
)
# GpuCudaMallocAsyncAllocator: bytes in use and the size of its pool, as openxla/xla issue 19431 logs it.
CUDA_ASYNC = printed(9, 95 << 30, 95 << 30, 1 << 30, 91809703526, 0, 0, None, 0, None, None)
# https://github.com/tillahoffmann/jax-mps/pull/177: a plugin that has few of the figures.
PLUGIN = printed(-1, 1 << 20, 2 << 20, -1, 8 << 30, -1, -1, None, -1, 3 << 20, None)


class Raises(Device):
    """A device of Pathways, which is no PjRt client (jaxlib's `PyDevice::MemoryStats`)."""

    def memory_stats(self):
        raise ValueError("MemoryStats is only supported for addressable PjRt devices.")


def cluster_with(sample: wire.DeviceSample, platform: str = "gpu"):
    """A cluster with one device with these figures."""
    return cluster_of(
        (NOW, "r1-0", link("up")),
        (NOW, "r1-0", hello(0, devices=(wire.Device(0, platform, platform, 0),), platform=platform)),
        (NOW, "r1-0", wire.Arrays(1000)),
        (NOW, "r1-0", pulse(at_ms=1000, devices=sample, memory_source="allocator")),
    )


@pytest.mark.parametrize("stats", [TPU, TPU_32, TPU_RESERVED])
def test_the_free_memory_of_a_tpu_is_one_block_beside_what_is_used_and_reserved(stats):
    sample = sampled(stats, "tpu")
    free, largest = free_of(sample, 0), largest_block(sample, 0)
    assert free == stats["bytes_limit"] - stats["bytes_in_use"] - stats["bytes_reserved"]
    assert largest == stats["largest_free_block_bytes"] and 0 <= free - largest < 1024


def test_what_a_tpu_reserves_is_taken_and_nearly_fills_it():
    sample = sampled(TPU_RESERVED | {"bytes_reserved": 13 << 30, "largest_free_block_bytes": 1 << 29}, "tpu")
    view = device_views(cluster_with(sample, "tpu"), NOW)[0]
    assert view.used_share == pytest.approx((2353927680 + (13 << 30)) / 16909332480)
    threshold = MEMORY.reached(view.pulse, 0)
    assert threshold is not None and threshold.word == "nearly full"
    assert MEMORY.reached(device_views(cluster_with(sampled(TPU_RESERVED, "tpu")), NOW)[0].pulse, 0) is None


@pytest.mark.parametrize("stats", [BFC, BFC_A100, BFC_GROWS])
def test_a_pool_whose_largest_block_is_not_searched_for_is_not_in_pieces(stats):
    sample = sampled(stats)
    assert largest_block(sample, 0) is None and largest_piece(sample, 0) is None
    assert scattered_bytes(sample, 0) == 0
    (view,) = memory_views(cluster_with(sample), device_views(cluster_with(sample), NOW))
    assert (view.bytes_of(Part.RESERVED), view.largest_free_bytes) == (0, None)
    assert view.bytes_of(Part.FREE) == stats["bytes_limit"] - stats["bytes_in_use"]


def test_a_pool_that_is_all_in_use_has_a_largest_block_of_nothing():
    full = sampled(BFC | {"bytes_in_use": BFC["pool_bytes"]})
    assert (largest_block(full, 0), free_of(full, 0), taken_share(full, 0)) == (0, 0, 1.0)
    grows = sampled(BFC_GROWS | {"bytes_in_use": BFC_GROWS["pool_bytes"]})
    assert largest_piece(grows, 0) == BFC["bytes_limit"] - BFC_GROWS["pool_bytes"]
    unused = sampled(BFC_UNUSED)
    assert (free_of(unused, 0), largest_piece(unused, 0)) == (BFC_UNUSED["bytes_limit"],) * 2


def test_a_pool_that_is_searched_says_what_is_in_pieces():
    sample = sampled(BFC_SEARCHES)
    assert largest_block(sample, 0) == largest_piece(sample, 0) == 20 << 30
    assert scattered_bytes(sample, 0) == 35714334720 - 3897557504 - (20 << 30)


def test_gpus_that_do_not_search_for_their_largest_block_have_no_finding_of_fragments():
    """Half of the memory is free in the pool: this must not read as at most 0 bytes in one piece."""
    limit = 80 << 30
    run = Run().live(40, lambda *_: 50 << 30, largest_free_bytes=0, pool_bytes=limit)
    assert run.found("fragmentation") is None
    assert "largest free block" in (run.why_not("fragmentation") or "")


def test_the_pool_of_cuda_is_no_limit():
    """It is the size from which free memory goes back to the driver: more than it may be in use."""
    sample = sampled(CUDA_ASYNC)
    assert (sample.used_bytes, sample.limit_bytes, sample.pool_bytes) == ((95 << 30,), None, None)
    view = device_views(cluster_with(sample), NOW)[0]
    assert (view.used_bytes, view.limit_bytes, view.used_share) == (95 << 30, None, None)
    assert (free_of(sample, 0), largest_block(sample, 0)) == (None, None)


def test_a_figure_that_a_plugin_does_not_have_is_unknown():
    found = jaxprivate.memory_stats(Device("mps", **PLUGIN))
    assert found is not None and min(found.values()) >= 0 and "bytes_reserved" not in found
    sample = sampled(PLUGIN, "mps")
    assert (sample.reserved_bytes, sample.largest_free_bytes) == (None, None)
    assert free_of(sample, 0) == (8 << 30) - (1 << 20)


@pytest.mark.parametrize("device", [Raises(), Silent(), Device()])
def test_a_device_without_figures_has_none(device):
    board = Board()
    assert jaxprivate.memory_stats(device) is None
    AllocatorMemory().collect(board, Client(device))
    assert (board.sampler.devices, board.sampler.memory_source) == (wire.DeviceSample(), None)


def test_one_device_of_a_process_may_have_figures_and_another_none():
    board = Board()
    AllocatorMemory().collect(board, Client(Device("tpu", **TPU), Raises()))
    assert board.sampler.devices.limit_bytes == (33014415360, None)
    assert board.sampler.devices.used_bytes == (76288, None)
    assert free_of(board.sampler.devices, 1) is None and taken_share(board.sampler.devices, 1) is None


def test_a_program_whose_memory_was_reserved_has_run():
    """The peak of a TPU's bytes in use is without what its programs reserved."""
    evaluate = wire.Program(
        "jit_evaluate", "f2", 8, 4, 10**12, 0, 6 * GIB, 4096, 0, 45 * GIB, 0, "t.py:140 e"
    )
    found = []
    for reserved in (0, 50 * GIB):
        run = Run()
        run.tell_all(wire.Programs(int(NOW * 1000), (evaluate,)))
        run.live(2, launches={"step": 1})
        run.live(30, lambda *_: 40 * GIB, peak_bytes=45 * GIB, peak_reserved_bytes=reserved)
        found.append(run.found("will_not_fit"))
    never_ran, has_run = found
    assert never_ran is not None and never_ran.severity == "warning"
    assert has_run is None  # once only, so that it is not launched again
