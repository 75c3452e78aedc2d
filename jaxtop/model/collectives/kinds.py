"""Kinds of collectives, and their bus bandwidth."""

from __future__ import annotations

# The first words of an op's name in HLO. A kind that begins like another one comes first if it is longer.
KINDS = (
    "ragged-all-to-all", "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
    "collective-broadcast",
)  # fmt: skip
# How often the data of all other members crosses the bus. For other kinds the whole data crosses it once.
_TRIPS = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1, "ragged-all-to-all": 1}


def kind_of(op: str) -> str:
    """Return the kind of collective that an op's name begins with; "?" if it begins with none."""
    return next((kind for kind in KINDS if op.startswith(kind)), "?")


def busbw(kind: str, size: int | None, members: int | None, transfer_us: float | None) -> int | None:
    """Return the bus bandwidth in bytes per second, as nccl-tests defines it."""
    if size is None or not members or not transfer_us:
        return None
    return round(size * bus_factor(kind, members) * 1_000_000 / transfer_us)


def bus_factor(kind: str, members: int) -> float:
    """Return how often the bytes of a collective cross the bus, as nccl-tests defines it."""
    times = _TRIPS.get(kind)
    return 1.0 if times is None else times * (members - 1) / members
