"""Figures, states and names as text for the screens. Quantities are written by `jaxtop.base.units`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import units
from jaxtop.model import State, Unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.model import Figure

# What the user must read stays for this long; other messages stay for Textual's usual time or less.
NOTE_SECONDS = 12


def printable(words: str) -> str:
    """Replace unprintable characters by blanks. Names are untrusted and could contain terminal codes."""
    return words if words.isprintable() else "".join(c if c.isprintable() else " " for c in words)


def time_of_day(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def shape(sizes: tuple[int, ...], groups: int = 1) -> str:
    """Return a shape such as `8×128`, or the number of kinds if there are several groups."""
    return f"{groups:,} kinds" if groups > 1 else "×".join(map(str, sizes)) or "scalar"


# A sign for each state, so that states do not depend on colour alone.
STATE_SIGNS = {
    State.CONNECTING: "…",
    State.LIVE: "●",
    State.QUIET: "~",
    State.BLOCKED: "!",
    State.STOPPED: "z",
    State.UNREACHABLE: "?",
    State.REFUSED: "#",
    State.ENDED: "-",
    State.DIED: "×",
    State.GONE: "×",
}


# The mark of what the others wait for: alone, and in words.
LATE_SIGN, LATE = "▲", "▲ late"


class _Form(NamedTuple):
    write: Callable[[float | None], str]
    # The width of a column of it.
    width: int


_FORMS = {
    Unit.BYTES: _Form(units.size, 6),
    Unit.BYTES_PER_SECOND: _Form(units.bandwidth, 8),
    Unit.SHARE: _Form(units.share, 4),
    Unit.WATTS: _Form(units.watts, 6),
    Unit.JOULES: _Form(units.joules, 8),
    Unit.DEGREES: _Form(units.degrees, 6),
    Unit.HERTZ: _Form(units.hertz, 7),
    Unit.SECONDS: _Form(units.seconds, 6),
    Unit.FLOPS: _Form(units.amount, 6),
    Unit.FLOPS_PER_SECOND: _Form(units.operations, 8),
    Unit.TOKENS_PER_SECOND: _Form(units.amount, 8),
    Unit.LOSS: _Form(units.loss, 10),
    Unit.NUMBER: _Form(units.plain, 6),
}


def writer(figure: Figure) -> Callable[[float | None], str]:
    return writer_of(figure.unit)


def writer_of(unit: Unit) -> Callable[[float | None], str]:
    return _FORMS[unit].write


def width_of(figure: Figure) -> int:
    """Return the width of a column of this figure: for its values with a sign, and for its title."""
    width = _FORMS[figure.unit].width
    if figure.unit is Unit.SHARE:  # other widths have room for a sign, and for any value
        width += bool(figure.thresholds) + 2 * (figure.maximum is not None)
    return max(len(figure.short), width)
