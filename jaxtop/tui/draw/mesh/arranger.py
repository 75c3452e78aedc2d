"""The arrangement of devices: by host, by the axes of a mesh, or by physical coordinates."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from jaxtop.tui.core.moment import EMPTY, Moment
from jaxtop.tui.draw.mesh.axes import Grid, Pair, physical
from jaxtop.tui.draw.mesh.axis_bands import by_axes
from jaxtop.tui.draw.mesh.host_blocks import by_host
from jaxtop.tui.draw.mesh.layouts import NO_LAYOUT, Block, CellDetail, DeviceLayout, MeshDrawing, Room
from jaxtop.tui.draw.mesh.means import Axis
from jaxtop.tui.draw.reading import UNSEEN, placeholder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import DeviceView, Host, MeshView, State


class Arrangement(StrEnum):
    """The criterion that places devices next to each other."""

    HOST = "by host"
    AXES = "by mesh axes"
    COORDINATES = "by coordinates"


class Arranger:
    """The user's choices of arrangement, and the layouts derived from them.

    The layouts are cached for as long as hosts and devices stay the same.
    """

    def __init__(self) -> None:
        self.moment: Moment = EMPTY
        self.page = 0
        self.meshes: list[MeshView] = []
        self.mesh: MeshView | None = None
        self._wanted = Arrangement.HOST
        self._run = 0
        self._pair_of: dict[tuple[str, ...], Pair] = {}
        # Counted back from the last axis. One past the first axis means that no group is marked.
        self._group_from_end = 0
        self._cluster: object = None
        self._index: dict[tuple[str, int], int] = {}
        self._in_run: dict[tuple[str, int], int] = {}
        self._mesh_grid: tuple[MeshView, Grid] | None = None
        self._physical: dict[str, Grid] = {}
        self._blocks: tuple[object, tuple[Block, ...]] = (None, ())
        # Hosts that have not reported their devices.
        self._without_devices: tuple[str, ...] = ()
        self.id_width = 1
        self._layout: tuple[object, DeviceLayout] = (None, NO_LAYOUT)
        self._axes: tuple[object, tuple[Axis, ...]] = (None, ())

    @property
    def devices(self) -> Sequence[DeviceView]:
        return self.moment.device_views

    def see(self, moment: Moment) -> None:
        self.moment = moment
        # A mesh without axes, or with an axis of size 0, has nothing to arrange.
        self.meshes = [
            mesh for mesh in moment.mesh_views if mesh.axes and all(size > 0 for _, size in mesh.axes)
        ]
        if self.mesh not in self.meshes and self.meshes:
            self.mesh, self.page = self.meshes[0], 0
        # A hello is immutable: an equal hello means the same devices.
        hosts = [view.host for view in moment.host_views]
        cluster = [(host.agent, host.process_index, host.hostname, host.hello) for host in hosts]
        if cluster != self._cluster:
            self._cluster = cluster
            self._learn(moment)
        self.page %= self.pages

    def _learn(self, moment: Moment) -> None:
        """Rebuild the indexes of hosts and devices. Changes of figures and states do not need this."""
        self._index = {device.key: i for i, device in enumerate(moment.device_views)}
        self._in_run = {(device.run, device.id): i for i, device in enumerate(moment.device_views)}
        self._mesh_grid = None
        hellos = ((view.host.agent, view.host.hello) for view in moment.host_views)
        self._without_devices = tuple(agent for agent, hello in hellos if hello is None or not hello.devices)
        self.id_width = max((len(str(device.id)) for device in moment.device_views), default=1)
        grids = {run.id: physical(moment.device_views, run.id) for run in moment.runs}
        self._physical = {run: grid for run, grid in grids.items() if grid is not None}

    def position(self, key: tuple[str, int] | None) -> int | None:
        return None if key is None else self._index.get(key)

    def position_in_run(self, run: str, device_id: int) -> int | None:
        return self._in_run.get((run, device_id))

    @property
    def available(self) -> tuple[Arrangement, ...]:
        found = [Arrangement.HOST]
        if self.mesh is not None:
            found.append(Arrangement.AXES)
        if self._physical:
            found.append(Arrangement.COORDINATES)
        return tuple(found)

    @property
    def arrangement(self) -> Arrangement:
        return self._wanted if self._wanted in self.available else Arrangement.HOST

    @property
    def grid(self) -> Grid | None:
        """The axes of the arrangement, over positions of devices; None if arranged by host."""
        if self.arrangement is Arrangement.AXES:
            return self._grid_of_mesh()
        if self.arrangement is Arrangement.COORDINATES:
            return list(self._physical.values())[self._run % len(self._physical)]
        return None

    def _grid_of_mesh(self) -> Grid | None:
        if self.mesh is None:
            return None
        if self._mesh_grid is None or self._mesh_grid[0] is not self.mesh:
            run = self.mesh.run
            members = tuple(self._in_run.get((run, each), UNSEEN) for each in self.mesh.device_ids)
            self._mesh_grid = self.mesh, Grid(self.mesh.axes, members)
        return self._mesh_grid[1]

    @property
    def states(self) -> tuple[State, ...]:
        if self.arrangement is not Arrangement.HOST:
            return ()
        return tuple(self.moment.states[view.host.agent] for view in self.moment.host_views)

    def cycle(self, by: int = 1) -> None:
        here = self.available
        self._wanted = here[(here.index(self.arrangement) + by) % len(here)]

    def arrange(self, arrangement: Arrangement) -> None:
        if arrangement in self.available:
            self._wanted = arrangement

    @property
    def choices(self) -> tuple[int, int]:
        """The index of the selected mesh and the number of meshes; of runs where coordinates are shown."""
        if self.arrangement is Arrangement.COORDINATES:
            return self._run % len(self._physical), len(self._physical)
        at = self.meshes.index(self.mesh) if self.mesh in self.meshes else 0
        return at, max(1, len(self.meshes))

    def next_choice(self) -> None:
        self.page = 0
        if self.arrangement is Arrangement.COORDINATES:
            self._run += 1
        elif self.meshes:
            self.mesh = self.meshes[(self.choices[0] + 1) % self.choices[1]]

    @property
    def pair(self) -> Pair:
        grid = self.grid
        assert grid is not None
        return self._pair_of.get(_names(grid), grid.pairs[0])

    def next_pair(self) -> None:
        grid = self.grid
        if grid is not None:
            at = grid.pairs.index(self.pair)
            self._pair_of[_names(grid)] = grid.pairs[(at + 1) % len(grid.pairs)]

    @property
    def pages(self) -> int:
        grid = self.grid
        return 1 if grid is None else grid.pages(self.pair)

    def turn(self, by: int, device: int | None) -> int | None:
        """Turn pages. Return the device at the place on the new page that `device` had on the old one."""
        grid = self.grid
        if grid is None or self.pages < 2:
            return None
        before = [each for row in grid.table(self.pair, self.page) for each in row]
        self.page = (self.page + by) % self.pages
        after = [each for row in grid.table(self.pair, self.page) for each in row]
        found = after[before.index(device)] if device in before else after[0]
        return None if found == UNSEEN else found

    def follow(self, device: int | None) -> None:
        grid = self.grid
        page = None if grid is None or device is None else grid.page_of(device, self.pair)
        self.page = self.page % self.pages if page is None else page

    @property
    def group(self) -> tuple[MeshView, int] | None:
        """The mesh and the axis along which the selected device's group is marked; None if no group is."""
        axes = [] if self.mesh is None else [i for i, (_, size) in enumerate(self.mesh.axes) if size > 1]
        at = len(axes) - 1 - self._group_from_end
        return (self.mesh, axes[at]) if self.mesh is not None and at >= 0 else None

    def next_group(self) -> None:
        """Mark the group along the previous axis, then no group, then the group along the last axis again."""
        self._group_from_end = 0 if self.group is None else self._group_from_end + 1

    def peers(self, device: int | None) -> frozenset[int]:
        """Return the other devices in the marked group of this device."""
        grid = self._grid_of_mesh()
        if grid is None or device is None or self.group is None or device not in grid.places:
            return frozenset()
        return frozenset(grid.group(device, self.group[1])) - {device, UNSEEN}

    def notes(self, device: int) -> tuple[str, ...]:
        """Return what the arrangement does not show: mesh coordinates if by host, else the process."""
        if self.arrangement is not Arrangement.HOST:
            view = self.devices[device]
            index = view.process_index
            return (
                ()
                if index is None
                else (
                    f"{view.noun} {index} {view.hostname or ''}".strip(),
                    f"{view.noun} {index}",
                    f"p{index}",
                )
            )
        grid = self._grid_of_mesh()
        at = None if grid is None else grid.coordinates(device)
        if grid is None or at is None:
            return ()
        named = " ".join(f"{name} {place}" for (name, _), place in zip(grid.axes, at, strict=True))
        return named, ",".join(map(str, at))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What the devices have in common: the axes of the arrangement, or hosts and places on a host."""
        grid = self.grid
        key = self._host_blocks() if grid is None else grid
        if self._axes[0] is not key:
            self._axes = key, _axes_of_blocks(self._host_blocks()) if grid is None else _axes_of_grid(grid)
        return self._axes[1]

    @property
    def layout(self) -> DeviceLayout:
        """The layout of the arrangement. It is the same object while the arrangement does not change."""
        grid = self.grid
        if grid is None:
            blocks = self._host_blocks()
            if self._layout[0] is not blocks:
                self._layout = blocks, DeviceLayout(lambda room: by_host(blocks, room))
            return self._layout[1]
        key = (grid, self.pair, self.page)
        if self._layout[0] != key:
            chosen = _names(grid) in self._pair_of
            pair, page = self.pair, self.page
            self._layout = key, DeviceLayout(lambda room: _plan_axes(grid, pair, page, room, chosen=chosen))
        return self._layout[1]

    def _host_blocks(self) -> tuple[Block, ...]:
        """Return a block for each host. The result is the same object while hosts, names and devices are."""
        names = tuple(self.moment.run_names.values())
        key = self._cluster, names, tuple(self.moment.states[agent] for agent in self._without_devices)
        if self._blocks[0] != key:
            self._blocks = key, _blocks(self.moment)
        return self._blocks[1]


def _axes_of_grid(grid: Grid) -> tuple[Axis, ...]:
    """Return the axes of a grid that have more than one place."""
    found = []
    for (name, size), stride in zip(grid.axes, grid.strides, strict=True):
        places: list[list[int]] = [[] for _ in range(size)]
        for at, member in enumerate(grid.members):
            if member != UNSEEN:
                places[at // stride % size].append(member)
        if size > 1:
            found.append(Axis(name, tuple(map(tuple, places))))
    return tuple(found)


def _axes_of_blocks(blocks: Sequence[Block]) -> tuple[Axis, ...]:
    """Return hosts, and the places of devices on a host, if there are several."""
    hosts = [tuple(device for device in block.devices if device >= 0) for block in blocks]
    count = max(map(len, hosts), default=0)
    places = tuple(tuple(host[at] for host in hosts if at < len(host)) for at in range(count))
    axes = Axis("host", tuple(hosts), "hosts"), Axis("place on a host", places, "places on a host")
    return tuple(axis for axis in axes if len(axis.places) > 1)


def _blocks(moment: Moment) -> tuple[Block, ...]:
    counts = Counter(device.agent for device in moment.device_views)
    usual = Counter(counts.values()).most_common(1)[0][0] if counts else 1
    several = len(moment.runs) > 1
    blocks, start = [], 0
    for run in moment.runs:
        for view in run.hosts:
            count = counts[view.host.agent]
            unknown = (placeholder(moment.states[view.host.agent]),) * usual
            names = _host_names(view.host, f"{moment.run_name(run.id)} " if several else "")
            blocks.append(Block(names, tuple(range(start, start + count)) or unknown))
            start += count
    return tuple(blocks)


def _host_names(host: Host, run: str) -> tuple[str, ...]:
    where = host.hostname or host.link.endpoint or host.agent
    index = host.process_index
    if index is None:
        return f"{run}{where}", where, where[:8]
    return f"{run}{host.label}", f"{run}{host.number}", host.number, f"{index}"


def _names(grid: Grid) -> tuple[str, ...]:
    return tuple(name for name, _ in grid.axes)


def _plan_axes(grid: Grid, pair: Pair, page: int, room: Room, *, chosen: bool) -> MeshDrawing:
    """Plan the pair of axes. If the user chose no pair, swap the axes where only that makes them fit."""
    plan = _plan_pair(grid, pair, page, room)
    if chosen or pair.rows is None or (plan.height <= room.height and plan.tile.level < CellDetail.QUARTER):
        return plan
    turned = _plan_pair(grid, Pair(pair.columns, pair.rows), page, room)
    return turned if turned.height <= room.height else plan


def _plan_pair(grid: Grid, pair: Pair, page: int, room: Room) -> MeshDrawing:
    names = grid.name(pair.rows), grid.name(pair.columns)
    return by_axes(grid.table(pair, page), names, room)
