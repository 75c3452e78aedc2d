"""The filter fields of collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.tui import text
from jaxtop.tui.draw.collective_pane import axes_in_words, straggler_in_words
from jaxtop.tui.filters import expressions
from jaxtop.tui.filters.expressions import Field, number, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.model.collectives import CollectiveView


def _crosses(view: CollectiveView) -> str | None:
    return {None: None, True: "yes", False: "no"}[view.crosses_hosts]


def _late(view: CollectiveView) -> int | None:
    return None if view.straggler is None else view.straggler.process_index


def _share(view: CollectiveView) -> float | None:
    return None if view.straggler is None else view.straggler.share * 100


# Times are in microseconds.
FIELDS: dict[str, Field[CollectiveView]] = {
    "kind": Field(lambda view: view.kind, words),
    "program": Field(lambda view: view.program, words),
    "op": Field(lambda view: view.op, words),
    "source": Field(lambda view: view.source, words),
    "axes": Field(axes_in_words, words),
    "shape": Field(lambda view: view.shape, words),
    "run": Field(lambda view: view.run, words),
    "crosses": Field(_crosses, words),
    "size": Field(lambda view: view.group_size, number),
    "groups": Field(lambda view: len(view.groups), number),
    "bytes": Field(lambda view: view.bytes, number),
    "rate": Field(lambda view: view.per_second, number),
    "p50": Field(lambda view: view.p50_us, number),
    "p99": Field(lambda view: view.p99_us, number),
    "wait": Field(lambda view: view.wait_us, number),
    "transfer": Field(lambda view: view.transfer_us, number),
    "bandwidth": Field(lambda view: view.busbw_bytes_per_s, number),
    "samples": Field(lambda view: view.samples, number),
    "straggler": Field(_late, number),
    "share": Field(_share, number),
}


def _text_of(view: CollectiveView) -> str:
    """Return the text in which words are searched."""
    named = view.kind, view.program, view.op, view.source, view.shape, axes_in_words(view)
    return " ".join([*(name or text.NA for name in named), straggler_in_words(view)]).lower()


def understand(typed: str) -> Callable[[CollectiveView], bool]:
    """Return a test of collectives from a typed filter. Raise expressions.Wrong if it is invalid."""
    return expressions.understand(typed, FIELDS, _text_of)
