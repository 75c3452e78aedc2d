"""Quantities as text, for screens, commands and findings. An unknown value is always `n/a`.

Cells of tables have the compact form (`12.3M`, `61.2ms`), sentences the form with a blank and the whole unit
(`12.3 MiB`, `61.2 ms`). Bytes are counted in powers of 1,024 in both.
"""

from __future__ import annotations

from math import isfinite

NA = "n/a"
_BYTES = ("KiB", "MiB", "GiB", "TiB", "PiB")

# For cells


def size(value: float | None) -> str:
    """Format bytes in powers of 1,024, in at most five characters: 987B, 1.5K, 12.3M, 456G."""
    return _scaled(value, 1024, ("B", "K", "M", "G", "T", "P"))


def amount(value: float | None) -> str:
    """Format a number in powers of 1,000, in at most five characters: 987, 1.5k, 12.3M, 456G."""
    return _scaled(value, 1000, ("", "k", "M", "G", "T", "P", "E"))


def _scaled(value: float | None, base: int, units: tuple[str, ...]) -> str:
    if value is None:
        return NA
    left, power = float(value), 0
    while abs(left) >= 999.5 and power < len(units) - 1:
        left, power = left / base, power + 1
    return f"{left:.{0 if not power or abs(left) >= 99.95 else 1}f}{units[power]}"


def share(value: float | None) -> str:
    return NA if value is None else f"{value * 100:.0f}%"


def rate(value: float | None) -> str:
    if value is None:
        return NA
    return f"{value:.0f}/s" if value >= 99.95 else f"{value:.1f}/s"


def number(value: float | None, digits: int = 0) -> str:
    return NA if value is None else f"{value:,.{digits}f}"


def bound(words: str, *, at_least: bool) -> str:
    """Mark a formatted figure as a lower bound, if it is one."""
    return f"≥{words}" if at_least and words != NA else words


def duration(milliseconds: float | None) -> str:
    if milliseconds is None:
        return NA
    return f"{milliseconds:.0f}ms" if milliseconds < 999.5 else f"{milliseconds / 1000:.1f}s"


def micros(microseconds: float | None) -> str:
    """Format a short duration, in at most six characters: 850us, 61.2ms, 12.3s."""
    if microseconds is None:
        return NA
    if microseconds < 999.5:
        return f"{microseconds:.0f}us"
    if microseconds < 999_500:
        return f"{microseconds / 1000:.{1 if microseconds < 99_950 else 0}f}ms"
    return f"{microseconds / 1_000_000:.{1 if microseconds < 999_950_000 else 0}f}s"


def bandwidth(bytes_per_second: float | None) -> str:
    return NA if bytes_per_second is None else f"{size(bytes_per_second)}/s"


def age(seconds: float | None) -> str:
    if seconds is None:
        return NA
    whole = int(max(0, seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def watts(value: float | None) -> str:
    return NA if value is None else f"{value:.0f}W"


def degrees(value: float | None) -> str:
    return NA if value is None else f"{value:.0f}°C"


def hertz(value: float | None) -> str:
    """Format the clock of a device: 1.98GHz, 345MHz."""
    if value is None:
        return NA
    return f"{value / 1e9:.2f}GHz" if value >= 999.5e6 else f"{value / 1e6:.0f}MHz"


def seconds(value: float | None) -> str:
    return micros(None if value is None else value * 1e6)


def joules(value: float | None) -> str:
    """Format an energy, from one token to one step: 958uJ, 12mJ, 35J, 1.2kJ."""
    if value is None:
        return NA
    if value < 999.5e-6:
        return f"{value * 1e6:.0f}uJ"
    if value < 999.5e-3:
        return f"{amount(value * 1e3)}mJ"
    return f"{amount(value)}J"


def operations(value: float | None) -> str:
    return NA if value is None else f"{amount(value)}F/s"


def plain(value: float | None) -> str:
    """Format a number with its significant digits only: 12, 1.50, 1,234."""
    if value is None:
        return NA
    return number(value, 0 if value == int(value) or abs(value) >= 99.995 else 2)


def loss(value: float | None) -> str:
    if value is None:
        return NA
    return f"{value:.4g}" if isfinite(value) else "not finite"


# For sentences


def in_bytes(value: float) -> str:
    """Return an amount of memory in three digits, with its unit."""
    if abs(value) < 999.5:
        return "1 byte" if round(value) == 1 else f"{value:.0f} bytes"
    found = ""
    for unit in _BYTES:
        value, found = value / 1024, unit
        if abs(value) < 999.5:
            break
    return f"{value:.{0 if abs(value) >= 99.95 else 1}f} {found}"


def in_ms(milliseconds: float) -> str:
    """Return a time in three digits: milliseconds, or seconds from one second on."""
    if abs(milliseconds) < 999.5:
        return f"{ms(milliseconds)} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.3g} s" if abs(seconds) < 999.5 else f"{seconds:,.0f} s"


def ms(milliseconds: float) -> str:
    """Return milliseconds without their unit, in three digits: a step may take 0.42 or 1,046 of them."""
    return f"{milliseconds:.3g}" if abs(milliseconds) < 999.5 else f"{milliseconds:,.0f}"


def in_minutes(minutes: float) -> str:
    """Return a duration in seconds, minutes, hours or days, whichever gives a short number."""
    if minutes < 1:
        return f"{minutes * 60:.0f} s"
    if minutes < 90:
        return f"{minutes:.0f} min"
    hours = minutes / 60
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} days"


def length(seconds: float) -> str:
    """Format a duration as a clock does: 0:35, 12:04, 3:00:01."""
    whole = int(max(0.0, seconds))
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"
