"""The versions of JAX that jaxtop was tested with."""

from __future__ import annotations

import re

# The lowest that `pip install` allows, and the highest minor version. `make soak` fails on a higher one.
LOWEST_JAX = (0, 8, 0)
HIGHEST_JAX = (0, 12)


def written(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def untested_name(version: str | None) -> str:
    """Return a version that was never tested, such as "JAX 0.14"; empty if it was, or is unknown."""
    numbers = tuple(int(each) for each in re.findall(r"\d+", version or "")[:3])
    if len(numbers) < 2 or LOWEST_JAX[: len(numbers)] <= numbers <= (*HIGHEST_JAX, *numbers[2:]):
        return ""
    return f"JAX {written(numbers[:2])}"


def untested(version: str | None) -> str:
    """Return in a sentence that a version was never tested; empty as for its name."""
    name = untested_name(version)
    if not name:
        return ""
    is_older = tuple(map(int, name.removeprefix("JAX ").split("."))) < HIGHEST_JAX
    return (
        f"{name} is {'older' if is_older else 'newer'} than any that jaxtop was tested with "
        f"({written(LOWEST_JAX[:2])} to {written(HIGHEST_JAX)})"
    )
