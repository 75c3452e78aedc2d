"""The slices of an array, which device holds which, and their names."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from string import ascii_letters, digits

from jaxtop.model import ArrayView, Span, distinct, slices

SIGNS = ascii_letters + digits


def sign_of(piece: int, count: int) -> str:
    """Return the name of one of `count` pieces: a letter, or a number if there are too many for letters."""
    return SIGNS[piece] if count <= len(SIGNS) else str(piece)


@dataclass(frozen=True, eq=False)
class ArraySlices:
    """The slices of an array in index order, and the slice that each device holds."""

    pieces: tuple[tuple[tuple[Span, ...], tuple[int, ...]], ...]
    ordinals: dict[int, int]
    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...]

    def label(self, piece: int) -> str:
        return sign_of(piece, len(self.pieces))

    def sign(self, piece: int) -> str:
        """Return the name in one character; if there are too many slices, some share one."""
        return SIGNS[piece % len(SIGNS)]

    def span_of(self, device_id: int) -> tuple[Span, ...] | None:
        at = self.ordinals.get(device_id)
        return None if at is None else self.pieces[at][0]


def slices_of(view: ArrayView) -> ArraySlices | None:
    if view.mesh is not None and prod(size for _, size in view.mesh.axes) != len(view.device_ids):
        return None  # figures from another process may contradict each other
    spans = slices(view)
    if not spans:
        return None
    pieces = tuple(distinct(spans))
    ordinals = {device_id: i for i, (_, ids) in enumerate(pieces) for device_id in ids}
    return ArraySlices(pieces, ordinals, view.mesh.axes if view.mesh else (), view.device_ids)


def in_words(span: tuple[Span, ...]) -> str:
    """Return a slice in Python's notation, such as `[0:256, 0:512]`."""
    return f"[{', '.join(f'{first}:{last}' for first, last in span)}]" if span else "the whole scalar"
