"""The starting points of a live source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxtop.wire import Hello


class Seed(NamedTuple):
    """A target that a person typed, with the addresses it may mean, or an agent from a run file."""

    target: str
    endpoints: tuple[str, ...] = ()
    hello: Hello | None = None
    is_dead: bool = False
