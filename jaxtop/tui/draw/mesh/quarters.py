"""Four devices in one character: each has a quarter, in one of the two colours that a character can have."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from jaxtop.tui.core.palette import STEPS
from jaxtop.tui.draw.ink import PEER, SELECTED, Ink, sign
from jaxtop.tui.draw.reading import CellCode, state_of_code

if TYPE_CHECKING:
    from rich.style import Style

# By the sum of the filled quarters: upper left 1, lower left 2, upper right 4, lower right 8.
_GLYPHS = " ▘▖▌▝▀▞▛▗▚▄▙▐▜▟█"
_ARROWS = "◤◣◥◢"
# The dots of braille of each quarter, for terminals without colours.
_DOTS = ((0x01, 0x02), (0x04, 0x40), (0x08, 0x10), (0x20, 0x80))
# Lower than each step of a ramp: a place without a device.
_BLANK = -1


@lru_cache(maxsize=16_384)
def quarters(ink: Ink, marked: tuple[int, ...]) -> tuple[str, Style]:
    """Return the character of four codes: of an upper and a lower one on the left, then on the right."""
    marks = [code // PEER for code in marked]
    codes = [code % PEER for code in marked]
    chosen = next((i for i, mark in enumerate(marks) if mark * PEER >= SELECTED), None)
    if chosen is not None:
        return _ARROWS[chosen], ink.chosen
    steps = [code if code < STEPS else _BLANK for code in codes]
    apart = next((code for code in codes if code == CellCode.MARKED or state_of_code(code) is not None), None)
    if apart is not None:
        known = [step for step in steps if step != _BLANK]
        back = ink.ramp(round(sum(known) / len(known))) if known else ink.panel
        return sign(apart), ink.style(ink.colour(apart), back, bold=True)
    peer = any(marks)
    if ink.plain:
        dots = sum(
            sum(pair[: 1 + (step >= STEPS // 2)])
            for step, pair in zip(steps, _DOTS, strict=True)
            if step >= 0
        )
        return chr(0x2800 + dots), ink.style(underline=peer)
    if all(code in (CellCode.ABSENT, CellCode.EMPTY, CellCode.UNKNOWN) for code in codes):
        return sign(codes[0]), ink.note
    low, high = _two(steps)
    filled = sum(1 << i for i, step in enumerate(steps) if abs(step - high) < abs(step - low))
    back = ink.background if low == _BLANK else ink.ramp(low)
    if peer:
        front = back.get_contrast_text(1.0)
        return ":", ink.style(front, back, bold=True)
    return _GLYPHS[filled], ink.style(ink.ramp(high), back)


def _two(steps: list[int]) -> tuple[int, int]:
    """Return the two steps that stand for all: the means of those below and above the widest distance."""
    ordered = sorted(steps)
    cut = max(range(1, len(ordered)), key=lambda i: ordered[i] - ordered[i - 1])
    below, above = ordered[:cut], ordered[cut:]
    return round(sum(below) / len(below)), round(sum(above) / len(above))
