"""Partition specs as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def entries(spec: Any) -> Iterable[Any]:
    """Return the entries of a PartitionSpec, one per dimension."""
    # Newer JAX forbids iterating over specs with unreduced axes, since that would lose those axes.
    found: Iterable[Any] = getattr(spec, "partitions", spec)
    return found


def spec_text(spec: Any) -> str:
    """Return a PartitionSpec as text that is the same for all versions of JAX."""
    shown = [repr(entry) for entry in entries(spec)]
    for what in ("unreduced", "reduced"):
        axes = getattr(spec, what, None)
        if axes:
            shown.append(f"{what}={{{', '.join(sorted(map(repr, axes)))}}}")
    return f"P({', '.join(shown)})"
