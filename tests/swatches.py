"""The swatches of `docs/development/looks.md`: the colours of each theme by role, as one picture."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from jaxtop.tui.core.palette import PALETTES, STEP_PARTS, TERMINAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.tui.core.palette import Palette

WIDTH, ROW, LABELS, COLUMN = 720, 26, 110, 76
TOP = 34


def picture() -> str:
    """Return the swatches of all themes as SVG, one below the other."""
    themes = [
        palette for name, palette in PALETTES.items() if name not in ("jaxtop-own", TERMINAL.theme.name)
    ]
    height = TOP + ROW * len(_rows(themes[0])) + 10
    drawn = "\n".join(
        f'<g transform="translate(0 {i * height})">{"".join(_theme(each, height))}</g>'
        for i, each in enumerate(themes)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height * len(themes)}" '
        f'font-family="monospace" font-size="12">\n{drawn}\n</svg>\n'
    )


def _rows(palette: Palette) -> dict[str, dict[str, str]]:
    """Return the colours of a theme by role and name."""
    return {
        "state": {"good": palette.good, "warning": palette.warning, "bad": palette.bad},
        "magnitude": {each: each for each in palette.ramp},
        "category": dict(zip((*STEP_PARTS, "6", "7", "8"), palette.categories, strict=True)),
        "interaction": {"accent": palette.accent, "cursor": palette.cursor(focused=True)},
        "text": {"figure": palette.foreground, "label": palette.label, "note": palette.muted},
        "line": {"frame": palette.frame, "divider": palette.divider, "track": palette.track},
    }


def _theme(palette: Palette, height: int) -> Iterator[str]:
    name = palette.theme.name.removeprefix("jaxtop-")
    yield f'<rect width="{WIDTH}" height="{height}" fill="{palette.background}"/>'
    yield f'<text x="10" y="22" font-weight="bold" fill="{palette.foreground}">{name}</text>'
    for row, (role, colours) in enumerate(_rows(palette).items()):
        y = TOP + ROW * row
        yield f'<text x="10" y="{y + 14}" fill="{palette.muted}">{role}</text>'
        for i, (label, colour) in enumerate(colours.items()):
            x = LABELS + COLUMN * i
            if role == "text":
                weight = ' font-weight="bold"' if label == "figure" else ""
                yield f'<text x="{x}" y="{y + 14}"{weight} fill="{colour}">{label}</text>'
                continue
            yield f'<rect x="{x}" y="{y}" width="{COLUMN - 6}" height="9" fill="{colour}"/>'
            yield f'<text x="{x}" y="{y + 19}" font-size="9" fill="{palette.muted}">{escape(label)}</text>'
