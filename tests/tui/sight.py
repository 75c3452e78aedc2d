"""How people see colours: contrast, distance in OKLab, and with three kinds of colour blindness."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import dist
from typing import TYPE_CHECKING, NamedTuple

from textual.color import Color

if TYPE_CHECKING:
    from collections.abc import Iterable

# Machado, Oliveira, Fernandes 2009, at full severity, for linear RGB.
BLINDNESS = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


class Lab(NamedTuple):
    """A colour in OKLab: lightness from 0 to 1, green to red, blue to yellow."""

    lightness: float
    a: float
    b: float


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours as WCAG defines it, from 1 to 21."""
    low, high = sorted(_luminance(each) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


@lru_cache
def lab(colour: str) -> Lab:
    return _lab(_linear(colour))


def least(colours: Iterable[str]) -> float:
    """Return the least distance between two of the colours, for whomever it is least; black to white: 100."""
    return min(
        100 * dist(*two)
        for one, other in combinations(colours, 2)
        for two in zip(_seen(one), _seen(other), strict=True)
    )


@lru_cache
def _seen(colour: str) -> tuple[Lab, ...]:
    linear = _linear(colour)
    seen = [
        tuple(min(1.0, max(0.0, sum(x * y for x, y in zip(row, linear, strict=True)))) for row in matrix)
        for matrix in BLINDNESS.values()
    ]
    return tuple(_lab(each) for each in (linear, *seen))


def _linear(colour: str) -> tuple[float, ...]:
    shares = (each / 255 for each in Color.parse(colour).rgb)
    return tuple(each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)


def _luminance(colour: str) -> float:
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _lab(linear: tuple[float, ...]) -> Lab:
    red, green, blue = linear
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return Lab(
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )
