"""The conditions of the memory screen: those of devices, and one for each part of memory."""

from __future__ import annotations

from jaxtop.model import PARTS, Part
from jaxtop.tui.columns.memory import TITLES, MemoryRow
from jaxtop.tui.filters.expressions import Field, number
from jaxtop.tui.filters.figures import OF_DEVICES


def _part_fields() -> dict[str, Field[MemoryRow]]:
    def field(part: Part) -> Field[MemoryRow]:
        return Field(lambda row: row.view.bytes_of(part), number)

    return {
        name.rstrip("~").replace(" ", "_"): field(part)
        for part in PARTS
        for name in (part, TITLES.get(part, part))
    }


FIELDS: dict[str, Field[MemoryRow]] = {
    **OF_DEVICES,
    **_part_fields(),
    "used": OF_DEVICES["memory"],
    "largest": Field(lambda row: row.view.largest_free_bytes, number),
}
