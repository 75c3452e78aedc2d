"""Meshes, shardings and sizes as people type them for a plan, and the same as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jaxtop.base import meshes
from jaxtop.base.meshes import MOST_DEVICES, NAME, BadMesh, hint, split, twice, unquoted
from jaxtop.features.planning.model.plan import CannotPlan, ShardingRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import Parts

REPLICATED = "replicated"
_WHOLE = "None"
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(?:([kmgtp]?)(i?)b?)", re.IGNORECASE)
_POWERS = ("", "k", "m", "g", "t", "p")


def parse_mesh(text: str) -> Axes:
    """Return the axes of a mesh such as `data=8,model=4`.

    Raises:
        CannotPlan: The text is not a mesh.
    """
    try:
        return meshes.parse(text)
    except BadMesh as error:
        raise CannotPlan(str(error)) from None


def parse_rule(text: str) -> ShardingRule:
    """Return a sharding such as `state.opt_state:data`, `params:None,model` or `params:replicated`.

    Raises:
        CannotPlan: The text is not a sharding, or divides two dimensions by one axis.
    """
    *before, spec = split(text, ":")
    pattern = ":".join(before).strip()
    entries = [entry.strip() for entry in split(spec, ",")]
    names = [[name.strip() for name in split(entry, "+")] for entry in entries]
    if not pattern or not all(NAME.fullmatch(name) for entry in names for name in entry):
        raise CannotPlan(
            f"{text!r} is not a sharding such as state.opt_state:data, params:None,model "
            f"or params:{REPLICATED}{hint(spec)}"
        )
    if any(len(entry) > 1 and _WHOLE in entry for entry in names):
        raise CannotPlan(f"{_WHOLE} stands alone in its dimension; {text} joins it to an axis")
    parts = tuple(tuple(unquoted(each) for each in entry if each != _WHOLE) for entry in names)
    axes = [axis for entry in parts for axis in entry]
    if repeated := twice(axes):
        raise CannotPlan(f"axis {repeated} stands twice in {text}: an axis divides one dimension only")
    if entries == [REPLICATED]:
        return ShardingRule(pattern, parts=())
    if len(axes) == len(parts) == 1:
        return ShardingRule(pattern, axis=axes[0])
    return ShardingRule(pattern, parts=parts)


def _as_typed(axis: str) -> str:
    """Return the name of an axis, in quotes where it needs them."""
    if NAME.fullmatch(axis) and axis not in {_WHOLE, REPLICATED}:
        return axis
    return f'"{axis}"' if '"' not in axis else f"'{axis}'"


def parse_bytes(text: str) -> int:
    """Return a number of bytes: 80G and 80GiB are 80·1024³, 80GB is 80·1000³.

    Raises:
        CannotPlan: The text is not a size of memory.
    """
    found = _SIZE.fullmatch(text.strip())
    amount = 0
    if found:
        is_decimal = text.strip()[-1:] in "bB" and not found[3] and bool(found[2])
        amount = round(float(found[1]) * (1000 if is_decimal else 1024) ** _POWERS.index(found[2].lower()))
    if not 0 < amount < 1 << 60:
        raise CannotPlan(f"{text!r} is not a size of memory such as 80G, 512M or 1.5TiB")
    return amount


def parse_count(text: str) -> int:
    """Return a number of devices.

    Raises:
        CannotPlan: The text is not a number, or there cannot be that many devices.
    """
    count = int(text) if re.fullmatch(r"\s*\d{1,9}\s*", text) else 0
    if not 1 <= count <= MOST_DEVICES:
        raise CannotPlan(f"{text!r} is not a number of devices from 1 to {MOST_DEVICES:,}")
    return count


def mesh_in_words(axes: Axes) -> str:
    """Return a mesh as people read it, such as `data 8 × model 4`."""
    return " × ".join(f"{name} {size}" for name, size in axes) or "1 device"


def mesh_as_typed(axes: Axes) -> str:
    return ",".join(f"{_as_typed(name)}={size}" for name, size in axes)


def rule_as_typed(rule: ShardingRule) -> str:
    """Return the text from which `parse_rule` makes this rule."""
    if rule.parts is None:
        return f"{rule.pattern}:{_as_typed(rule.axis)}"
    entries = ["+".join(map(_as_typed, axes)) or _WHOLE for axes in rule.parts]
    if len(entries) == 1 and len(rule.parts[0]) == 1:
        entries.append(_WHOLE)  # one axis alone would stand for the largest dimension
    return f"{rule.pattern}:{','.join(entries) or REPLICATED}"


def spec_in_words(parts: Parts | None, dimensions: int = 0) -> str:
    """Return a sharding of this many dimensions as its `PartitionSpec`; n/a if unknown."""
    if parts is None:
        return "n/a"
    if not any(parts):
        return "P()"
    entries = [*map(_entry, parts), *(_WHOLE,) * (dimensions - len(parts))]
    return f"P({', '.join(entries)})"


def _entry(axes: Sequence[str]) -> str:
    if not axes:
        return _WHOLE
    return repr(axes[0]) if len(axes) == 1 else f"({', '.join(map(repr, axes))})"
