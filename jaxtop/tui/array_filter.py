"""What can be asked of arrays in a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.tui import expressions, text
from jaxtop.tui.expressions import Field, number, sizes, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.cluster import ArrayView

# Dtypes as the compiler writes them.
_SHORT = {
    "bf16": "bfloat16",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"{letter}{bits}": f"int{bits}" for letter in "is" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}


def _dtypes(operator: str, value: str) -> Callable[[str], bool]:
    return words(operator, _SHORT.get(value.lower(), value))


FIELDS: dict[str, Field[ArrayView]] = {
    "bytes": Field(lambda view: view.bytes_per_device, number),
    "global": Field(lambda view: view.bytes_global, number),
    "count": Field(lambda view: view.count, number),
    "replication": Field(lambda view: view.replication, number),
    "grown": Field(lambda view: view.grown_bytes, number),
    "devices": Field(lambda view: len(view.device_ids), number),
    "dims": Field(lambda view: None if view.groups > 1 else len(view.shape), number),
    "shape": Field(lambda view: view.shape, sizes),
    "name": Field(lambda view: view.name, words),
    "function": Field(lambda view: view.function, words),
    "role": Field(lambda view: view.role, words),
    "created": Field(lambda view: view.created, words),
    "dtype": Field(lambda view: view.dtype, _dtypes),
    "spec": Field(lambda view: view.sharding, words),
    "kind": Field(lambda view: view.memory_kind, words),
    "run": Field(lambda view: view.run, words),
}


def shape(view: ArrayView) -> str:
    """`8×128`."""
    if view.groups > 1:
        return f"{view.groups:,} kinds"
    return "×".join(map(str, view.shape)) or "scalar"


def _text_of(view: ArrayView) -> str:
    """Where words are looked for."""
    said = (view.name, view.function, view.role, view.created, view.dtype, view.sharding, view.memory_kind)
    found = " ".join([each or text.NA for each in said])
    return f"{found} {shape(view)} {view.shape} {text.size(view.bytes_per_device)}".lower()


def understand(typed: str) -> Callable[[ArrayView], bool]:
    """What was typed, as a test of an array; raises expressions.Wrong."""
    return expressions.understand(typed, FIELDS, _text_of)
