"""The filter fields of collectives."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.tui.draw.panes.collective import axes_in_words, straggler_in_words
from jaxtop.tui.filters import expressions
from jaxtop.tui.filters.expressions import Field, number, words

if TYPE_CHECKING:
    from jaxtop.model.collectives import CollectiveView


_CROSSES = {None: None, True: "yes", False: "no"}
# Times are in microseconds.
FIELDS: dict[str, Field[CollectiveView]] = {
    **{
        name: Field(attrgetter(name), words)
        for name in ("kind", "program", "op", "source", "shape", "run", "line", "added")
    },
    **{name: Field(attrgetter(name), number) for name in ("bytes", "samples")},
    **{name: Field(attrgetter(f"{name}_us"), number) for name in ("p50", "p99", "wait", "transfer")},
    "axes": Field(axes_in_words, words),
    "crosses": Field(lambda view: _CROSSES[view.crosses_hosts], words),
    "size": Field(lambda view: view.group_size, number),
    "groups": Field(lambda view: len(view.groups), number),
    "rate": Field(lambda view: view.per_second, number),
    "bandwidth": Field(lambda view: view.busbw_bytes_per_s, number),
    "straggler": Field(lambda view: view.straggler and view.straggler.process_index, number),
    "share": Field(lambda view: view.straggler and view.straggler.share * 100, number),
}


def _text_of(view: CollectiveView) -> str:
    named = (
        view.kind,
        view.program,
        view.op,
        view.source,
        view.shape,
        axes_in_words(view),
        view.line,
        view.added,
    )
    return " ".join([*(name or units.NA for name in named), straggler_in_words(view)]).lower()


understand = partial(expressions.understand, fields=FIELDS, text_of=_text_of)
