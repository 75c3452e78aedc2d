"""Costs and filters in the texts of findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base.units import in_bytes, in_minutes, in_ms

if TYPE_CHECKING:
    from jaxtop.model.finding import FindingCost


def costs(cost: FindingCost) -> str:
    """Return what a finding costs; empty where that is unknown."""
    words = []
    if cost.ms_per_step is not None:
        share = "" if cost.share_of_step is None else f" ({cost.share_of_step:.0%} of the time)"
        words.append(f"{in_ms(cost.ms_per_step)} per step on average{share}")
    elif cost.share_of_step is not None:
        words.append(f"{cost.share_of_step:.0%} of the time")
    if cost.bytes_per_device is not None:
        words.append(f"{in_bytes(cost.bytes_per_device)} on each device")
    if cost.minutes_until_full is not None:
        words.append(f"memory is full in {in_minutes(cost.minutes_until_full)}")
    return ", ".join(words)


def containing(field: str, text: str) -> str:
    """Return a filter of the rows whose field contains a text, as far as its first quotation mark."""
    return f'{field}~"{text.partition(chr(34))[0]}"'


def line_of(created: str | None) -> str:
    """Return the file and line that created something, without the function; empty if unknown."""
    return (created or "").partition(" ")[0]
