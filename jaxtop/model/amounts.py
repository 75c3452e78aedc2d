"""Amounts in texts of the model."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def in_bytes(value: float) -> str:
    """Return an amount of memory in three digits, with its unit."""
    if abs(value) < 999.5:
        return f"{value:.0f} bytes"
    found = ""
    for unit in _UNITS:
        value, found = value / 1024, unit
        if abs(value) < 999.5:
            break
    return f"{value:.{0 if abs(value) >= 99.95 else 1}f} {found}"
