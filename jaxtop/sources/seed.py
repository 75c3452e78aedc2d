"""Where a live source begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxtop.wire import Hello


class Seed(NamedTuple):
    """What a person typed, with the addresses it may mean; or an agent that a run file told of."""

    target: str
    endpoints: tuple[str, ...] = ()
    hello: Hello | None = None
    is_dead: bool = False
