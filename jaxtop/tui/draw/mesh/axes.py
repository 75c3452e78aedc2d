"""A mesh as a grid of named axes: the place of each device, the pages, and the groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.draw.reading import UNSEEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model import DeviceView


def sizes_in_words(axes: Sequence[tuple[str, int]]) -> str:
    """Return axes with their sizes, such as `data 4 × model 2`."""
    return " × ".join(f"{name} {size}" for name, size in axes)


class Pair(NamedTuple):
    """The two axes that are drawn, by position; `rows` is None if there is only one axis."""

    rows: int | None
    columns: int


@dataclass(frozen=True)
class Grid:
    """Axes with their sizes, and the members (ids, or positions in a list) in row-major order of the axes."""

    axes: tuple[tuple[str, int], ...]
    members: tuple[int, ...]

    @cached_property
    def places(self) -> dict[int, int]:
        return {member: place for place, member in enumerate(self.members) if member != UNSEEN}

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """The distance between neighbours along each axis, in row-major order."""
        return tuple(prod(size for _, size in self.axes[i + 1 :]) for i in range(len(self.axes)))

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs of axes, the one that shows most devices first; ties go to the last axes."""
        if len(self.axes) < 2:
            return (Pair(None, 0),)
        found = [Pair(*pair) for pair in permutations(range(len(self.axes)), 2)]
        return tuple(sorted(found, key=lambda pair: (-self._shown(pair), -pair.columns, -(pair.rows or 0))))

    def _shown(self, pair: Pair) -> float:
        # Half a device is added if the axes are in their own order, so that this pair precedes its transpose.
        in_order = pair.rows is not None and pair.rows < pair.columns
        return self.size(pair.rows) * self.size(pair.columns) + (0.5 if in_order else 0.0)

    def size(self, axis: int | None) -> int:
        return 1 if axis is None else self.axes[axis][1]

    def name(self, axis: int | None) -> str:
        return "" if axis is None else self.axes[axis][0]

    def coordinates(self, member: int) -> tuple[int, ...] | None:
        place = self.places.get(member)
        if place is None:
            return None
        return tuple(
            place // stride % size for stride, (_, size) in zip(self.strides, self.axes, strict=True)
        )

    def group(self, member: int, axis: int) -> tuple[int, ...]:
        """Return the members that differ from this one only along this axis, including itself."""
        place, at = self.places[member], self.coordinates(member)
        assert at is not None
        first = place - at[axis] * self.strides[axis]
        return tuple(self.members[first + i * self.strides[axis]] for i in range(self.size(axis)))

    def others(self, pair: Pair) -> tuple[int, ...]:
        """Return the axes that are not drawn; each combination of their indices is a page."""
        return tuple(axis for axis in range(len(self.axes)) if axis not in pair)

    def pages(self, pair: Pair) -> int:
        return prod(self.size(axis) for axis in self.others(pair))

    def page_of(self, member: int, pair: Pair) -> int | None:
        at = self.coordinates(member)
        if at is None:
            return None
        page = 0
        for axis in self.others(pair):
            page = page * self.size(axis) + at[axis]
        return page

    def on_page(self, pair: Pair, page: int) -> tuple[tuple[str, int], ...]:
        """Return the axes that are not drawn, with their indices on this page."""
        found = []
        for axis in reversed(self.others(pair)):
            page, index = divmod(page, self.size(axis))
            found.append((self.name(axis), index))
        return tuple(reversed(found))

    def table(self, pair: Pair, page: int) -> tuple[tuple[int, ...], ...]:
        fixed = self.on_page(pair, page)
        first = sum(
            index * self.strides[axis] for axis, (_, index) in zip(self.others(pair), fixed, strict=True)
        )
        down = 0 if pair.rows is None else self.strides[pair.rows]
        across = self.strides[pair.columns]
        return tuple(
            tuple(
                self.members[first + row * down + column * across]
                for column in range(self.size(pair.columns))
            )
            for row in range(self.size(pair.rows))
        )


def physical(devices: Sequence[DeviceView], run: str) -> Grid | None:
    """Return the devices of a run at their physical coordinates; None if no device reports any.

    x runs across and y down, as on a map. The axes before these make pages: slices, each with its own
    coordinates; cores, if several share a chip; and the other dimensions.
    """
    placed = [
        (i, device)
        for i, device in enumerate(devices)
        # GPUs have coords in recent versions of XLA: their ordinal in the host, which repeats on each.
        if device.run == run and device.coords and device.platform != "gpu"
    ]
    if not placed:
        return None
    dimensions = max(len(device.coords or ()) for _, device in placed)
    spots: dict[tuple[int, ...], list[int]] = {}
    for i, device in placed:
        coords = ((device.coords or ()) + (0,) * dimensions)[:dimensions]
        spots.setdefault((device.slice_index or 0, *coords[::-1]), []).append(i)
    slices = sorted({spot[0] for spot in spots})
    low = [min(spot[d] for spot in spots) for d in range(1, dimensions + 1)]
    sizes = [max(spot[d] for spot in spots) - low[d - 1] + 1 for d in range(1, dimensions + 1)]
    cores = max(len(found) for found in spots.values())
    if len(slices) * cores * prod(sizes) > 64 * len(placed):
        return None  # the coordinates are too sparse for a grid
    members = [UNSEEN] * (len(slices) * cores * prod(sizes))
    for spot, found in spots.items():
        place = 0
        for i in range(dimensions):
            place = place * sizes[i] + spot[i + 1] - low[i]
        for core, position in _cores(devices, found, cores):
            members[(slices.index(spot[0]) * cores + core) * prod(sizes) + place] = position
    names = ["x", "y", "z", *(f"dimension {i}" for i in range(3, dimensions))][:dimensions][::-1]
    outer = [(name, size) for name, size in (("slice", len(slices)), ("core", cores)) if size > 1]
    return Grid((*outer, *zip(names, sizes, strict=True)), tuple(members))


def _cores(devices: Sequence[DeviceView], found: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    reported = [devices[i].core_on_chip for i in found]
    numbers = [each for each in reported if each is not None and 0 <= each < most]
    if len(set(numbers)) == len(found):
        return zip(numbers, found, strict=True)
    return enumerate(found)
