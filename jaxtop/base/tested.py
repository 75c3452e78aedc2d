"""The versions of JAX that jaxtop was tested with."""

from __future__ import annotations

import re

# The lowest that `pip install` allows, and the highest minor version. `make soak` fails on a higher one.
LOWEST_JAX = (0, 8, 0)
HIGHEST_JAX = (0, 12)


def written(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version[:2]))


def untested(version: str | None) -> str:
    """Return in words that this version of JAX was never tested; empty if it was, or is unknown."""
    numbers = tuple(int(each) for each in re.findall(r"\d+", version or "")[:3])
    if len(numbers) < 2:
        return ""
    which = "older" if numbers < LOWEST_JAX[: len(numbers)] else "newer" if numbers[:2] > HIGHEST_JAX else ""
    if not which:
        return ""
    name = written(numbers) if which == "newer" else ".".join(map(str, numbers))
    return (
        f"JAX {name} is {which} than any that jaxtop was tested with "
        f"({written(LOWEST_JAX)} to {written(HIGHEST_JAX)})"
    )
