"""The subject of the pane of a device, gathered from a moment."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from jaxtop.model import MEMORY, DeviceView, MeshView, memory_views, recent
from jaxtop.model.steps.script import main_thread
from jaxtop.tui.draw.mesh.axes import Grid
from jaxtop.tui.draw.panes.device import DeviceSubject
from jaxtop.tui.draw.panes.hardware import LONGEST_TREND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.tui.core.moment import Moment


def subject_of(
    moment: Moment,
    device: DeviceView,
    meshes: Sequence[MeshView],
    group: tuple[MeshView, int] | None = None,
) -> DeviceSubject | None:
    """Return what is known of a device, and of those meshes that contain it; None if its host is gone."""
    view = moment.views.get(device.agent)
    if view is None:
        return None
    samples = moment.cluster.past_pulses.get(device.agent)
    does = main_thread(view.current)
    late = moment.late.get(device.agent)
    return DeviceSubject(
        device,
        view.current,
        moment.label(view.host),
        tuple(_ids(mesh) for mesh in meshes if mesh.run == device.run and device.id in mesh.positions),
        None if group is None else (_ids(group[0]), group[1]),
        tuple(recent(moment.cluster, device.agent, MEMORY, device.position)),
        samples[-1].at - samples[0].at if samples else 0.0,
        lambda figure: recent(moment.cluster, device.agent, figure, device.position, 2 * LONGEST_TREND),
        moment.probe,
        next(iter(memory_views(moment.cluster, [device])), None),
        "" if does is None else does.line,
        "" if late is None else late.text,
    )


@lru_cache(maxsize=64)
def _ids(mesh: MeshView) -> Grid:
    return Grid(mesh.axes, mesh.device_ids)
