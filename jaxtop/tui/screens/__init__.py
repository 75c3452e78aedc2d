"""The screens, in the order of their keys. A new screen needs a file here and a line in `SCREENS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.screens.arrays import ArraysView
from jaxtop.tui.screens.collectives import CollectivesView
from jaxtop.tui.screens.devices import DevicesView
from jaxtop.tui.screens.events import EventsView
from jaxtop.tui.screens.hosts import HostsView
from jaxtop.tui.screens.memory import MemoryScreenView
from jaxtop.tui.screens.mesh import MeshScreenView
from jaxtop.tui.screens.operations import OperationsView
from jaxtop.tui.screens.overview import OverviewView
from jaxtop.tui.screens.plan import PlanView
from jaxtop.tui.screens.plot import PlotView
from jaxtop.tui.screens.programs import ProgramsView
from jaxtop.tui.screens.stacks import StacksView

if TYPE_CHECKING:
    from jaxtop.tui.screens.base import View


class Screen(NamedTuple):
    """A screen: the key that opens it, its title, and its class."""

    key: str
    title: str
    view: type[View]

    @property
    def name(self) -> str:
        """Its name in code, and in the proof of findings."""
        return self.title.lower()


SCREENS = (
    Screen("1", "Overview", OverviewView),
    Screen("2", "Mesh", MeshScreenView),
    Screen("3", "Hosts", HostsView),
    Screen("D", "Devices", DevicesView),
    Screen("4", "Arrays", ArraysView),
    Screen("5", "Memory", MemoryScreenView),
    Screen("6", "Collectives", CollectivesView),
    Screen("7", "Programs", ProgramsView),
    Screen("O", "Operations", OperationsView),
    Screen("8", "Events", EventsView),
    Screen("9", "Stacks", StacksView),
    Screen("0", "Plot", PlotView),
    Screen("W", "Plan", PlanView),
)
