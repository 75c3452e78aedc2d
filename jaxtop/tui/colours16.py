"""Colours for the theme `terminal`, and for terminals with 16 colours: each role has one of its own.

The user chose these colours and the ground, which may be dark or light. So text and ground stay as the
terminal has them, notes and lines are dim, and the row under the cursor is reversed. 16 colours are too few
for four roles without a common one: the categories share some with the ramp. Each has its word beside it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rich.color import Color
from rich.style import Style

from jaxtop.tui.colours256 import Restyling, distance, true_colour
from jaxtop.tui.core.palette import palette_of

if TYPE_CHECKING:
    from jaxtop.tui.core.palette import Palette

_BLACK, _RED, _GREEN, _YELLOW, _BLUE, _MAGENTA, _CYAN, _WHITE = range(8)
_BRIGHT = 8
# The state, then the eight steps of the ramp, then the eight categories.
_STATE = (_GREEN, _YELLOW, _RED)
_RAMP = (_BLUE, _BLUE, _BLUE + _BRIGHT, _BLUE + _BRIGHT, _CYAN, _CYAN, _CYAN + _BRIGHT, _CYAN + _BRIGHT)
_CATEGORIES = (
    _BLUE + _BRIGHT, _CYAN, _MAGENTA + _BRIGHT, _YELLOW + _BRIGHT, _GREEN + _BRIGHT, _CYAN + _BRIGHT, _BLUE,
    _RED + _BRIGHT,
)  # fmt: skip
# On these, white is more legible than black.
_DARK = frozenset({_BLACK, _RED, _BLUE, _MAGENTA})


class _TerminalColour(NamedTuple):
    """How a colour is shown: by a number; without one, as the terminal shows text and ground."""

    number: int | None = None
    is_dim: bool = False
    is_cursor: bool = False

    @property
    def colour(self) -> Color:
        return Color.default() if self.number is None else Color.from_ansi(self.number)


class Colours16(Restyling):
    """A filter that replaces the colours of a palette, and mixtures of them, by those of the terminal."""

    def __init__(self, palette: Palette) -> None:
        super().__init__()
        text, dim, cursor = _TerminalColour(), _TerminalColour(is_dim=True), _TerminalColour(is_cursor=True)
        states = palette.good, palette.warning, palette.bad
        roles = {
            **dict.fromkeys((palette.cursor(focused=True), palette.cursor(focused=False)), cursor),
            **dict.fromkeys((*palette.grounds, palette.foreground, palette.label), text),
            **dict.fromkeys((palette.muted, palette.frame, palette.divider, palette.track), dim),
            palette.accent: _TerminalColour(_MAGENTA),
            **dict(zip(states, map(_TerminalColour, _STATE), strict=True)),
            **dict(zip(palette.ramp, map(_TerminalColour, _RAMP), strict=True)),
            **dict(zip(palette.categories, map(_TerminalColour, _CATEGORIES), strict=True)),
        }
        self._roles = {Color.parse(each).get_truecolor(): shown for each, shown in roles.items()}
        self._of_style = lru_cache(maxsize=4096)(self._style)

    def restyled(self, style: Style) -> Style:
        return self._of_style(style)

    def _style(self, style: Style) -> Style:
        text, ground = self._shown(style.color), self._shown(style.bgcolor)
        if ground.is_cursor:
            return style + Style(color=Color.default(), bgcolor=Color.default(), reverse=True)
        colour = text.colour
        if ground.number is not None and text.number is None:
            colour = Color.from_ansi(_WHITE + _BRIGHT if ground.number in _DARK else _BLACK)
        is_dim = text.is_dim and ground.number is None
        return style + Style(color=colour, bgcolor=ground.colour, dim=is_dim or style.dim)

    def _shown(self, colour: Color | None) -> _TerminalColour:
        if (triplet := true_colour(colour)) is None:
            return _TerminalColour(None if colour is None else colour.number)
        return self._roles[min(self._roles, key=lambda known: distance(triplet, known))]


@lru_cache(maxsize=8)
def in_16_colours(theme: str) -> Colours16:
    return Colours16(palette_of(theme))
