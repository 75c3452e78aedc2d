"""The screens, in the order of their keys. A new screen needs a file here and a line in `SCREENS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.tui.screens.arrays import ArraysView
from jaxtop.tui.screens.collectives import CollectivesView
from jaxtop.tui.screens.devices import DevicesView
from jaxtop.tui.screens.events import EventsView
from jaxtop.tui.screens.hosts import HostsView
from jaxtop.tui.screens.memory import MemoryScreenView
from jaxtop.tui.screens.mesh import MeshScreenView
from jaxtop.tui.screens.plot import PlotView
from jaxtop.tui.screens.programs import ProgramsView
from jaxtop.tui.screens.stacks import StacksView

if TYPE_CHECKING:
    from jaxtop.tui.screens.base import View


SCREENS: tuple[type[View], ...] = (
    MeshScreenView,
    HostsView,
    DevicesView,
    ArraysView,
    MemoryScreenView,
    CollectivesView,
    ProgramsView,
    EventsView,
    StacksView,
    PlotView,
)


def all_screens() -> list[View]:
    """Return new instances of all screens."""
    return [each() for each in SCREENS]
