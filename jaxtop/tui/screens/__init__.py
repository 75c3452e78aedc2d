"""The screens, in the order of their keys. A new screen needs a file here and a line in `SCREENS`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxtop.tui.screens.base import View


class Screen(NamedTuple):
    """A screen: the key that opens it, its title, and its class in the file of its name."""

    key: str
    title: str
    class_name: str

    @property
    def name(self) -> str:
        """Its name in code, and in the proof of findings."""
        return self.title.lower()

    @property
    def view(self) -> type[View]:
        """Its class, imported when the screen opens: all together take a fifth of the time to start."""
        found: type[View] = getattr(import_module(f"{__name__}.{self.name}"), self.class_name)
        return found


SCREENS = (
    Screen("1", "Overview", "OverviewView"),
    Screen("2", "Mesh", "MeshScreenView"),
    Screen("3", "Hosts", "HostsView"),
    Screen("D", "Devices", "DevicesView"),
    Screen("4", "Arrays", "ArraysView"),
    Screen("5", "Memory", "MemoryScreenView"),
    Screen("6", "Collectives", "CollectivesView"),
    Screen("7", "Programs", "ProgramsView"),
    Screen("O", "Operations", "OperationsView"),
    Screen("8", "Events", "EventsView"),
    Screen("9", "Stacks", "StacksView"),
    Screen("0", "Plot", "PlotView"),
    Screen("W", "Plan", "PlanView"),
)


def load_all() -> None:
    """Import all screens: an upgrade of jaxtop must not mix its versions in an app that runs."""
    for each in SCREENS:
        each.view  # noqa: B018 - the import is wanted
    import_module(f"{__name__}.difference")
