"""The formatting of figures of devices, hosts and steps, by unit, the same on all screens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model import Figure, Unit
from jaxtop.tui import text

if TYPE_CHECKING:
    from collections.abc import Callable


def watts(value: float | None) -> str:
    return text.NA if value is None else f"{value:.0f}W"


def degrees(value: float | None) -> str:
    return text.NA if value is None else f"{value:.0f}°C"


def hertz(value: float | None) -> str:
    """Format the clock of a device: 1.98GHz, 345MHz."""
    if value is None:
        return text.NA
    return f"{value / 1e9:.2f}GHz" if value >= 999.5e6 else f"{value / 1e6:.0f}MHz"


def seconds(value: float | None) -> str:
    return text.micros(None if value is None else value * 1e6)


def joules(value: float | None) -> str:
    """Format an energy, from one token to one step: 958uJ, 12mJ, 35J, 1.2kJ."""
    if value is None:
        return text.NA
    if value < 999.5e-6:
        return f"{value * 1e6:.0f}uJ"
    if value < 999.5e-3:
        return f"{text.amount(value * 1e3)}mJ"
    return f"{text.amount(value)}J"


def operations(value: float | None) -> str:
    return text.NA if value is None else f"{text.amount(value)}F/s"


def plain(value: float | None) -> str:
    """Format a number with its significant digits only: 12, 1.50, 1,234."""
    if value is None:
        return text.NA
    return text.number(value, 0 if value == int(value) or abs(value) >= 99.995 else 2)


class _Form(NamedTuple):
    write: Callable[[float | None], str]
    # The width of a column of it.
    width: int


_FORMS = {
    Unit.BYTES: _Form(text.size, 6),
    Unit.BYTES_PER_SECOND: _Form(text.bandwidth, 8),
    Unit.SHARE: _Form(text.share, 4),
    Unit.WATTS: _Form(watts, 6),
    Unit.JOULES: _Form(joules, 8),
    Unit.DEGREES: _Form(degrees, 6),
    Unit.HERTZ: _Form(hertz, 7),
    Unit.SECONDS: _Form(seconds, 6),
    Unit.FLOPS: _Form(text.amount, 6),
    Unit.FLOPS_PER_SECOND: _Form(operations, 8),
    Unit.TOKENS_PER_SECOND: _Form(text.amount, 8),
    Unit.NUMBER: _Form(plain, 6),
}


def writer(figure: Figure) -> Callable[[float | None], str]:
    """Return the formatter of this figure. It writes an unknown value as `n/a`."""
    return _FORMS[figure.unit].write


def width_of(figure: Figure) -> int:
    """Return the width of a column of this figure: for its values with a sign, and for its title."""
    width = _FORMS[figure.unit].width
    if figure.unit is Unit.SHARE:  # other widths have room for a sign, and for any value
        width += bool(figure.thresholds) + 2 * (figure.maximum is not None)
    return max(len(figure.short), width)
