"""How the figures of devices and hosts are written, whatever shows them: by what they count in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.cluster import DEVICE_FIGURES, HOST_FIGURES, STEP_FIGURES, Unit
from jaxtop.tui import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.cluster import Figure

FIGURES = {each.name: each for each in (*DEVICE_FIGURES, *HOST_FIGURES, *STEP_FIGURES)}


def watts(value: float | None) -> str:
    return text.NA if value is None else f"{value:.0f}W"


def degrees(value: float | None) -> str:
    return text.NA if value is None else f"{value:.0f}°C"


def hertz(value: float | None) -> str:
    """Clocks of devices: 1.98GHz, 345MHz."""
    if value is None:
        return text.NA
    return f"{value / 1e9:.2f}GHz" if value >= 999.5e6 else f"{value / 1e6:.0f}MHz"


def seconds(value: float | None) -> str:
    return text.micros(None if value is None else value * 1e6)


def plain(value: float | None) -> str:
    """A number with as many digits as say something: 12, 1.50, 1,234."""
    if value is None:
        return text.NA
    return text.number(value, 0 if value == int(value) or abs(value) >= 100 else 2)


_WRITERS: dict[Unit, Callable[[float | None], str]] = {
    Unit.BYTES: text.size,
    Unit.BYTES_PER_SECOND: text.bandwidth,
    Unit.SHARE: text.share,
    Unit.WATTS: watts,
    Unit.DEGREES: degrees,
    Unit.HERTZ: hertz,
    Unit.SECONDS: seconds,
    Unit.NUMBER: plain,
}


def writer(figure: Figure) -> Callable[[float | None], str]:
    """How this figure is written; `n/a` where nobody knows."""
    return _WRITERS[figure.unit]
