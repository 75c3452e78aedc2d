"""Runs of so many hosts and devices over meshes, told to the model; and the mesh screen alone in an app."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.app import App

from jaxtop import wire
from jaxtop.model import Cluster
from jaxtop.tui.core.moment import Moment
from jaxtop.tui.core.palette import DARK, PALETTES
from jaxtop.tui.screens.mesh import MeshScreen
from tests.stories import hello, link, peer, tell

if TYPE_CHECKING:
    from jaxtop.tui.screens.base import ScreenPane

NOW = 1000.0
MIB = 1 << 20
DATA_MODEL = (("data", 4), ("model", 2))


def a_run(
    hosts=2,
    per_host=4,
    meshes=(DATA_MODEL,),
    *,
    used=lambda device: (device + 1) * MIB,
    limit=None,
    source="arrays",
    coords=lambda _: None,
    core=lambda _: None,
    slice_of=lambda _: None,
    run="r1",
    silent=(),
    platform="cpu",
):
    """A cluster with one run. A mesh is its axes, or axes and device ids in their order."""
    cluster = Cluster()
    for index in range(hosts):
        if index in silent:
            agents = tuple(peer(i, run) for i in range(hosts))
            tell(cluster, (NOW, f"{run}-0", wire.Roster(f"{run}-0", agents, run=run, process_count=hosts)))
            tell(cluster, (NOW, f"{run}-{index}", link("unreachable")))
            continue
        ids = range(index * per_host, (index + 1) * per_host)
        devices = tuple(
            _device(each, i, coords, core, slice_of, platform=platform) for i, each in enumerate(ids)
        )
        agent = f"{run}-{index}"
        tell(
            cluster,
            (NOW - 1, agent, link("up")),
            (NOW - 1, agent, hello(index, run, devices=devices, process_count=hosts)),
            (NOW - 1, agent, pulse(ids, used, limit, source)),
            (NOW, agent, pulse(ids, used, limit, source)),
            (NOW, agent, wire.Arrays(0, meshes=tuple(_mesh(mesh) for mesh in meshes))),
        )
    return cluster


def _device(number, place, coords, core, slice_of, *, platform):
    return wire.Device(
        number,
        platform,
        platform,
        place,
        coords(number),
        core_on_chip=core(number),
        slice_index=slice_of(number),
    )


def pulse(ids, used, limit=None, source="arrays"):
    held = tuple(used(each) for each in ids)
    limits = None if limit is None else (limit,) * len(held)
    figures = wire.DeviceSample(held, None, limits)
    return wire.Pulse(0, 0, source, figures, wire.HostSample(450), launches={"step": 10})


def _mesh(mesh):
    axes, ids = (mesh, None) if isinstance(mesh[0][0], str) else mesh
    count = 1
    for _, size in axes:
        count *= size
    return wire.Mesh(tuple(axes), wire.pack_ids(tuple(range(count) if ids is None else ids)))


class MeshApp(App[None]):
    """Nothing but the mesh screen."""

    def __init__(self, cluster, now=NOW):
        super().__init__()
        self.cluster = cluster
        self.now = now
        self.heard = []
        for palette in PALETTES.values():
            self.register_theme(palette.theme)
        self.theme = DARK.theme.name

    def compose(self):
        self.view = MeshScreen()
        yield self.view

    def on_mount(self):
        self.view.first_focus.focus()
        self.look()

    def look(self):
        self.view.show(Moment(self.cluster, self.now))

    def on_screen_pane_selected(self, message: ScreenPane.Selected):
        self.heard.append(message.selection)

    def on_screen_pane_drilled(self, message: ScreenPane.Drilled):
        self.heard.append((message.screen, message.selection))

    # What a person sees

    @property
    def grid(self):
        return self.view.first_focus

    @property
    def level(self):
        return self.grid.plan.tile.level.name

    def lines(self, name="MeshGrid"):
        """The lines of a part of the screen, as text."""
        widget = self.view.query_one(name)
        return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]

    def text(self, name="MeshGrid"):
        return "\n".join(self.lines(name))

    @property
    def selected(self):
        return self.view.selection.device_id


def drive(steps, cluster, size=(120, 40), now=NOW):
    """Run these steps on the mesh screen."""

    async def run():
        app = MeshApp(cluster, now)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(run())
