"""What holds memory at the peak of a program, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop.times import timestamp

if TYPE_CHECKING:
    from jaxtop import wire

_OF_PEAK = (
    "argument_bytes", "result_bytes", "constant_bytes", "temporary_bytes", "alive_bytes", "op", "source",
    "rest", "rest_bytes",
)  # fmt: skip


def as_value(peak: wire.Peak) -> dict[str, Any]:
    """Return what holds memory at the peak of a program; no figures where they are not known."""
    unknown = peak.why_not
    return {
        "at": timestamp(peak.at_ms / 1000),
        **{name: None if unknown else getattr(peak, name) for name in _OF_PEAK},
        "buffers": None if unknown else [msgspec.structs.asdict(each) for each in peak.buffers],
        "note": peak.note or None,
        "why_not": unknown or None,
    }
