"""The facts of one array, or the sums of all arrays on a branch, as a pane beside or below the tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.model.arrays.tree import MIXED, Node, form, path_parts
from jaxtop.tui.core.slices import ArraySlices, in_words
from jaxtop.tui.draw.mesh.axes import sizes_in_words
from jaxtop.tui.draw.panes import slices as pictures
from jaxtop.tui.draw.panes.facts import GAP, fitted, pairs, side_by_side

if TYPE_CHECKING:
    from jaxtop.model import ArrayView
    from jaxtop.tui.draw.ink import Ink
    from jaxtop.tui.draw.panes.slices import Picture

# From this width on, the picture is beside the facts.
SIDE_BY_SIDE_WIDTH = 60


@dataclass(frozen=True)
class Pane:
    """The lines of the pane, and the position of the picture in them."""

    lines: tuple[Text, ...] = ()
    picture: Picture | None = None
    x: int = 0
    y: int = 0

    def device_at(self, x: int, y: int) -> int | None:
        return None if self.picture is None else self.picture.device_at(x - self.x, y - self.y)


def pane(
    node: Node,
    slices: ArraySlices | None,
    ink: Ink,
    width: int,
    height: int,
    *,
    pointed: int | None = None,
    note: str = "",
) -> Pane:
    """Return the pane for this size. Its last line describes the device under the mouse, or is the note."""
    view = node.view
    if width < 1 or height < 2:
        return Pane()
    if view is None:
        drawn = Pane(tuple(_sums(node, ink)))
    elif width >= SIDE_BY_SIDE_WIDTH:
        drawn = _picture_beside(view, slices, ink, width, height - 1)
    else:
        drawn = _picture_below(view, slices, ink, width, height - 1)
    last = Text(note, ink.note)
    if view is not None and slices is not None and pointed is not None:
        last = _pointed(view, slices, ink, pointed)
    lines = drawn.lines[: height - 1]
    lines = (*lines, *[Text()] * (height - 1 - len(lines)), last)
    return Pane(tuple(fitted(lines, width, height)), drawn.picture, drawn.x, drawn.y)


def _picture_below(view: ArrayView, slices: ArraySlices | None, ink: Ink, width: int, height: int) -> Pane:
    lines = _facts(view, ink, width)
    if slices is None:
        return Pane((*lines, Text(), Text(_no_slices(view), ink.note)))
    room = height - len(lines) - 2
    if room < 2:
        lines, room = lines[: max(0, height - 4)], min(2, height - 2)
    meanings = min(len(slices.pieces), max(3, room // 2))
    picture = pictures.draw(slices, ink, width, max(1, room - meanings - 1))
    lines += [Text(), _caption(picture, ink)]
    y = len(lines)
    lines += picture.lines
    lines.append(Text())
    lines += pictures.legend(slices, picture, ink, width, max(1, height - len(lines)))
    return Pane(tuple(lines), picture, 0, y)


def _picture_beside(view: ArrayView, slices: ArraySlices | None, ink: Ink, width: int, height: int) -> Pane:
    left = min(max(33, width * 2 // 5), 40)
    facts = fitted(_facts(view, ink, left), left, height)
    if slices is None:
        return Pane(tuple(side_by_side([(left, facts), (width, [Text(_no_slices(view), ink.note)])], height)))
    rest = width - left - GAP
    picture = pictures.draw(slices, ink, max(8, rest * 2 // 5), height - 1, brief=True)
    middle = max(picture.width, len(picture.caption))
    caption = _caption(picture, ink)
    legend = pictures.legend(slices, picture, ink, rest - middle - GAP, height)
    columns = [(left, facts), (middle, [caption, *picture.lines]), (rest - middle - GAP, legend)]
    return Pane(tuple(side_by_side(columns, height)), picture, left + GAP, 1)


def _caption(picture: Picture, ink: Ink) -> Text:
    return Text(picture.caption, ink.note, no_wrap=True, end="")


def _no_slices(view: ArrayView) -> str:
    return "many small arrays" if view.groups > 1 else "unknown which device holds which slice"


def _pointed(view: ArrayView, slices: ArraySlices, ink: Ink, device_id: int) -> Text:
    span = slices.span_of(device_id)
    line = Text(f"device {device_id} ", ink.figure)
    line.append("no slice" if span is None else in_words(span))
    at = None if view.mesh is None else view.mesh.coordinates(device_id)
    if at is not None and view.mesh is not None:
        place = "  ".join(f"{name} {index}" for (name, _), index in zip(view.mesh.axes, at, strict=True))
        line.append(f"  {place}", ink.note)
    return line


def _facts(view: ArrayView, ink: Ink, width: int) -> list[Text]:
    name = view.name or (f"made at {view.created}" if view.created else "an array of unknown origin")
    copies = units.NA if view.replication is None else f"×{view.replication:,}"
    lines = [*(Text(piece, ink.figure) for piece in _wrapped(name, width))]
    lines.append(pairs([("", form(view)), ("count", units.number(view.count))], ink))
    lines.append(pairs([("spec", view.sharding or units.NA)], ink))
    if view.mesh is not None:
        lines.append(pairs([("mesh", sizes_in_words(view.mesh.axes))], ink))
    else:
        lines.append(pairs([("devices", units.number(len(view.device_ids)))], ink))
    lines.append(pairs([*_sizes(view), ("", copies)], ink))
    lines.append(_growth(view.grown_bytes, view.grown_s, ink))
    lines.append(pairs([("role", view.role or units.NA), ("memory", view.memory_kind or units.NA)], ink))
    lines.append(pairs([("made at", view.created or units.NA)], ink))
    return lines


def _sizes(shown: ArrayView | Node) -> list[tuple[str, str]]:
    return [("per device", units.size(shown.bytes_per_device)), ("global", units.size(shown.bytes_global))]


def _sums(node: Node, ink: Ink) -> list[Text]:
    seconds = max((view.grown_s for view in node.views if view.grown_s is not None), default=None)
    known = {view.shape for view in node.views if view.groups == 1}
    # The shapes of many small arrays that were summed up are not known.
    is_bound = any(view.groups > 1 for view in node.views)
    shapes = units.bound(units.number(max(1, len(known))), at_least=is_bound)
    return [
        Text(node.label, ink.figure),
        pairs([("arrays", units.number(node.count)), ("shapes", shapes)], ink),
        pairs(_sizes(node), ink),
        _growth(node.grown_bytes, seconds, ink),
        *(
            pairs([(title, node.shared(fact) or units.NA)], ink)
            for title, fact in (("dtype", "dtype"), ("spec", "sharding"), ("role", "role"))
            if node.shared(fact) != MIXED
        ),
        Text(),
        Text("select an array to see its slices", ink.note),
    ]


def growth(value: int | None) -> str:
    if value is None:
        return units.NA
    return f"+{units.size(value)}" if value > 0 else units.size(value)


def _growth(value: int | None, seconds: float | None, ink: Ink) -> Text:
    line = pairs([("growth", growth(value))], ink)
    if value is not None and value > 0:
        line.stylize(ink.style(ink.palette.warning), len("growth "))
    if value is not None:
        line.append(f" in {units.age(seconds)}", ink.note)
    return line


def _wrapped(name: str, width: int) -> list[str]:
    """Split a name that is too long into two lines, between two parts of its path where possible."""
    if len(name) <= width:
        return [name]
    first = ""
    for part in path_parts(name):
        if len(first) + len(part) > width:
            break
        first += part
    first = first or name[:width]
    return [first, name[len(first) :]]
