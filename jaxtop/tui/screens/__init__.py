"""The screens, in the order of their keys: those of the core have a file here, others come from features.

What is where, in the order in which to read it:

- base.py: one screen, which draws a moment and holds the selection
- tables.py: the base classes of the screens with a table
- overview.py: is the run healthy, what costs most, who causes it
- mesh.py, mesh_split.py: one cell per device; how that screen divides its room
- device_subject.py: what the pane of a device shows, on this screen and on that of devices
- hosts.py: the processes
- devices.py: the devices
- arrays.py: the tree of arrays
- memory.py: the memory of each device by use
- collectives.py: cost, waits and straggler of each collective
- programs.py: the compiled programs
- events.py: all events, newest first
- stacks.py: the stacks of all processes
- plot.py: a figure over time
- difference.py: the difference between the marked time and the one that is shown
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jaxtop.base.feature import ScreenEntry, features


def _own(key: str, title: str, class_name: str, **more: Any) -> ScreenEntry:
    return ScreenEntry(key, title, f"{__name__}.{title.lower()}:{class_name}", **more)


_OF_CORE = (
    _own(
        "1", "Overview", "OverviewScreen", keeps=3,
        shows="is the run healthy, what costs most, who causes it; where a step goes, memory, hosts",
    ),
    _own(
        "2", "Mesh", "MeshScreen", keeps=3,
        shows="one cell per device, by host, by mesh axes, or by physical coordinates",
    ),
    _own(
        "3", "Hosts", "HostsScreen", keeps=3,
        shows="one row per process: state, step, launches, CPU, memory, network, disks",
    ),
    _own(
        "D", "Devices", "DevicesScreen", keeps=1,
        shows="one row per device: memory and the figures of its driver",
    ),
    _own(
        "4", "Arrays", "ArraysScreen", keeps=1,
        shows="every live array, by the name that the script gives it",
        page="arrays-and-memory.md",
    ),
    _own(
        "5", "Memory", "MemoryScreen", short="Mem", keeps=2,
        shows="what fills each device, what grows, what a launch would add",
    ),
    _own(
        "6", "Collectives", "CollectivesScreen", short="Comms", keeps=2,
        shows="what each collective costs and which host is late",
        page="collectives.md",
    ),
    _own(
        "7", "Programs", "ProgramsScreen", short="Progs", keeps=2,
        shows="compiled programs, their memory, and functions that are compiled repeatedly",
        page="steps.md",
    ),
    _own(
        "8", "Events", "EventsScreen",
        shows="what happened, newest first",
    ),
    _own(
        "9", "Stacks", "StacksScreen",
        shows="the stacks of the threads of each process",
        page="hangs.md",
    ),
    _own(
        "0", "Plot", "PlotScreen",
        shows="any figure over the last 120 samples, and what the script reports since its start",
        page="hardware.md",
    ),
)  # fmt: skip


def _with_features() -> tuple[ScreenEntry, ...]:
    """Return the screens of the core, each followed by those that features put after it."""
    added = [screen for each in features() for screen in each.screens]
    return tuple(
        screen for own in _OF_CORE for screen in (own, *(each for each in added if each.after == own.title))
    )


SCREENS = _with_features()


def load_all() -> None:
    """Import all screens: an upgrade of jaxtop must not mix its versions in an app that runs."""
    for each in SCREENS:
        each.view  # noqa: B018 - the import is wanted
    import_module(f"{__name__}.difference")
