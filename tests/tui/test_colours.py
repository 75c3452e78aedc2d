"""Each colour has one role, in every theme, and one module names them all."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from rich.color import ANSI_COLOR_NAMES
from textual.color import Color

from jaxtop import tui
from jaxtop.tui.colours256 import nearest
from jaxtop.tui.core import palette as palettes
from jaxtop.tui.core.palette import PALETTES
from tests.tui.sight import contrast, lab, least

HOME = Path(tui.__file__).parent
# The palette names them; the filter for 256 colours computes with numbers only.
OWNER = Path(palettes.__file__)
FILES = sorted(path for path in HOME.rglob("*.py") if path != OWNER)
HEX = re.compile(r"#[0-9a-fA-F]{6}\b|#[0-9a-fA-F]{3}\b|\brgb\(|\bansi_\w+")
THEME = re.compile(r"\btheme\.(primary|secondary|accent|foreground|background|surface|panel|warning)\b")
# The variables that Textual's styles may use: the grounds, the accent (as primary), the state of an error.
VARIABLES = {"primary", "accent", "error", "panel", "surface", "background", "foreground", "foreground-muted"}
# Names of colours that are no other word.
NAMES = {each for each in ANSI_COLOR_NAMES if re.fullmatch(r"\w*(red|green|yellow|blue|cyan)\w*", each)}
# The least distance between colours of two roles, weighted as human vision weights them; black to white: 765.
LEAST = 60
# The contrast that WCAG asks for: of text, and of what only shows something.
READABLE, VISIBLE = 4.5, 3.0
# The least distance in OKLab between states and between categories, also for the colour-blind.
TOLD_APART = 6


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOME)))
def test_no_other_module_names_a_colour(path):
    source = path.read_text()
    assert not HEX.findall(source) and not THEME.findall(source)
    named = {name for words in re.findall(r'"([a-z0-9_ ]+)"', source) for name in words.split()}
    assert not named & NAMES
    assert 'Color.parse("' not in source
    assert set(re.findall(r"\$([a-z][a-z-]*)", source)) <= VARIABLES


def roles(palette):
    return {
        "state": (palette.good, palette.warning, palette.bad),
        "magnitude": palette.ramp,
        "category": palette.categories,
        "interaction": (palette.accent,),
    }


def distance(one, other):
    one, other = Color.parse(one), Color.parse(other)
    mean = (one.r + other.r) / 2 / 256
    squares = (2 + mean) * (one.r - other.r) ** 2 + 4 * (one.g - other.g) ** 2
    return (squares + (3 - mean) * (one.b - other.b) ** 2) ** 0.5


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
class TestRoles:
    def test_no_colour_has_two_roles_or_resembles_one_of_another(self, palette):
        for mine, others in combinations(roles(palette).values(), 2):
            assert min(distance(one, other) for one in mine for other in others) > LEAST

    def test_nor_in_256_colours(self, palette):
        numbers = [{nearest(*Color.parse(each).rgb) for each in role} for role in roles(palette).values()]
        assert all(not mine & others for mine, others in combinations(numbers, 2))

    def test_the_ramp_has_no_amber_and_runs_one_way(self, palette):
        colours = [Color.parse(each) for each in palette.ramp]
        assert not [each for each in colours if 20 < each.hsl.h * 360 < 65 and each.hsl.s > 0.2]
        bright = [each.brightness for each in colours]
        assert bright in (sorted(bright), sorted(bright, reverse=True))

    def test_the_ramp_is_even_to_the_eye(self, palette):
        steps = [lab(high).lightness - lab(low).lightness for low, high in pairwise(palette.ramp)]
        assert max(steps) - min(steps) < 0.1 * abs(sum(steps)) / len(steps)

    def test_text_is_readable_on_each_ground(self, palette):
        rows = palette.cursor(focused=True), palette.cursor(focused=False)
        grounds = *palette.grounds, *rows
        states = palette.good, palette.warning, palette.bad
        for text in (palette.foreground, palette.label, palette.muted, palette.accent, *states):
            assert min(contrast(text, ground) for ground in grounds) >= READABLE, text
        for text in palette.categories:
            assert min(contrast(text, ground) for ground in grounds[:3]) >= READABLE, text
            assert min(contrast(text, ground) for ground in rows) >= VISIBLE, text

    def test_states_and_categories_differ_for_the_colour_blind(self, palette):
        assert least((palette.good, palette.warning, palette.bad)) >= TOLD_APART
        assert least(palette.categories) >= TOLD_APART

    def test_categories_differ_from_each_other(self, palette):
        assert min(distance(*two) for two in combinations(palette.categories, 2)) > LEAST
        numbers = {nearest(*Color.parse(each).rgb) for each in palette.categories}
        assert len(numbers) == len(palette.categories)
