"""The filter fields of operations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.tui.filters import expressions
from jaxtop.tui.filters.expressions import Field, number, words

if TYPE_CHECKING:
    from jaxtop.features.operations.model import OperationRow


# Shares are in percent, times in microseconds.
FIELDS: dict[str, Field[OperationRow]] = {
    "op": Field(lambda row: row.view.op, words),
    "kind": Field(lambda row: row.view.kind, words),
    "program": Field(lambda row: row.time.program, words),
    "run": Field(lambda row: row.time.run, words),
    "source": Field(lambda row: row.view.source, words),
    "bound": Field(lambda row: row.view.bound, words),
    "share": Field(lambda row: row.view.time_share * 100, number),
    "time": Field(lambda row: row.view.time_us, number),
    "runs": Field(lambda row: row.view.runs, number),
    "flops": Field(lambda row: row.view.flops, number),
    "bytes": Field(lambda row: row.view.bytes, number),
    "roofline": Field(
        lambda row: row.view.roof and row.view.roof.reached and row.view.roof.reached * 100, number
    ),
}


def _text_of(row: OperationRow) -> str:
    view = row.view
    named = view.op, view.kind, row.time.program, view.source, view.bound
    return " ".join(name or units.NA for name in named).lower()


understand = partial(expressions.understand, fields=FIELDS, text_of=_text_of)
