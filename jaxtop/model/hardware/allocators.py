"""The memory that allocators can still provide: the one owner of the arithmetic of their figures.

The figures are those of `device.memory_stats()` (`AllocatorStats` in openxla/xla,
`xla/tsl/framework/allocator.h`). For every allocator with a limit, `limit = used + reserved + free`:

- TPU: `reserved` is counted besides the bytes in use, and its peak besides their peak; there is no pool. One
  printed 2,353,927,680 in use, which is also the peak, 66,560 reserved, a largest block of 14,555,338,240:
  together the limit of 16,909,332,480.
- GPU, the default (BFC, `bfc_allocator.cc`): `pool` is what it took from the driver, in use or not, at most
  the limit; `reserved` is 0. Only since 2026 does it search for its largest block: before, that is always 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.host import device_entry

if TYPE_CHECKING:
    from jaxtop import wire


def taken_bytes(sample: wire.DeviceSample, i: int) -> int | None:
    """Return the bytes of a device that are in use or reserved, so that no allocation gets them."""
    used = device_entry(sample.used_bytes, i)
    return None if used is None else used + (device_entry(sample.reserved_bytes, i) or 0)


def taken_share(sample: wire.DeviceSample, i: int) -> float | None:
    """Return the share of a device's limit that is in use or reserved; None without a limit."""
    limit, taken = device_entry(sample.limit_bytes, i), taken_bytes(sample, i)
    return None if taken is None or not limit else taken / limit


def usable_bytes(sample: wire.DeviceSample, i: int) -> int | None:
    """Return the bytes that arrays and temporaries can use at most: the limit without what is reserved."""
    limit = device_entry(sample.limit_bytes, i)
    return max(0, limit - (device_entry(sample.reserved_bytes, i) or 0)) if limit else None


def free_of(sample: wire.DeviceSample, i: int) -> int | None:
    """Return the bytes that the allocator of a device can still provide; None without a limit."""
    limit, taken = device_entry(sample.limit_bytes, i), taken_bytes(sample, i)
    return max(0, limit - taken) if limit and taken is not None else None


def free_bytes(pulse: wire.Pulse) -> list[int]:
    """Return the bytes that the allocator of each device can still provide, for devices where it is known."""
    places = range(len(pulse.devices.limit_bytes or ()))
    return [free for i in places if (free := free_of(pulse.devices, i)) is not None]


def most_held(sample: wire.DeviceSample, i: int) -> int | None:
    """Return an upper bound of what a device ever held: the peaks in use and reserved may not coincide."""
    peak = device_entry(sample.peak_bytes, i)
    return None if peak is None else peak + (device_entry(sample.peak_reserved_bytes, i) or 0)


def largest_block(sample: wire.DeviceSample, i: int) -> int | None:
    """Return the largest free block at hand; None where the allocator does not search for it.

    Free bytes lie in at least one block, so that 0 is true only where none are free.
    """
    largest = device_entry(sample.largest_free_bytes, i)
    return None if largest == 0 and _free_at_hand(sample, i) != 0 else largest


def largest_piece(sample: wire.DeviceSample, i: int) -> int | None:
    """Return the largest allocation that can succeed: in a free block, or in what the pool can grow by."""
    largest, limit = largest_block(sample, i), device_entry(sample.limit_bytes, i)
    pool = device_entry(sample.pool_bytes, i)
    if largest is None or limit is None or pool is None:
        return largest
    return max(largest, limit - pool)


def scattered_bytes(sample: wire.DeviceSample, i: int) -> int:
    """Return the bytes of the pool that are free, but in pieces smaller than its largest block."""
    pool, used = device_entry(sample.pool_bytes, i), device_entry(sample.used_bytes, i)
    largest = largest_block(sample, i)
    return 0 if pool is None or used is None or largest is None else max(0, pool - used - largest)


def _free_at_hand(sample: wire.DeviceSample, i: int) -> int | None:
    """Return the free bytes in which the allocator looks for its largest block: those of its pool, if any."""
    pool, used = device_entry(sample.pool_bytes, i), device_entry(sample.used_bytes, i)
    if pool is None:
        return free_of(sample, i)
    return None if used is None else max(0, pool - used)
