"""The filter fields of arrays."""

from __future__ import annotations

from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.tui.core import text
from jaxtop.tui.filters import expressions
from jaxtop.tui.filters.expressions import Field, number, sizes, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.model import ArrayView

# The compiler's names of dtypes.
_SHORT = {
    "bf16": "bfloat16",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"{letter}{bits}": f"int{bits}" for letter in "is" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}


def _dtypes(operator: str, value: str) -> Callable[[str], bool]:
    return words(operator, _SHORT.get(value.lower(), value))


FIELDS: dict[str, Field[ArrayView]] = {
    **{name: Field(attrgetter(name), words) for name in ("name", "function", "role", "created", "run")},
    **{name: Field(attrgetter(name), number) for name in ("count", "replication")},
    "bytes": Field(lambda view: view.bytes_per_device, number),
    "global": Field(lambda view: view.bytes_global, number),
    "grown": Field(lambda view: view.grown_bytes, number),
    "devices": Field(lambda view: len(view.device_ids), number),
    "dims": Field(lambda view: None if view.groups > 1 else len(view.shape), number),
    "shape": Field(lambda view: view.shape, sizes),
    "dtype": Field(lambda view: view.dtype, _dtypes),
    "spec": Field(lambda view: view.sharding, words),
    "kind": Field(lambda view: view.memory_kind, words),
}


def _text_of(view: ArrayView) -> str:
    names = view.name, view.function, view.role, view.created, view.dtype, view.sharding, view.memory_kind
    return _searched(names, view.shape, view.groups, view.bytes_per_device)


# Cached, because each key press in a filter searches thousands of arrays.
@lru_cache(maxsize=1 << 15)
def _searched(names: tuple[str | None, ...], shape: tuple[int, ...], groups: int, held: int) -> str:
    words = " ".join([name or units.NA for name in names])
    return f"{words} {text.shape(shape, groups)} {shape} {units.size(held)}".lower()


understand = partial(expressions.understand, fields=FIELDS, text_of=_text_of)
