"""The screens, in the order of their keys: those of the core have a file here, others come from features.

What is where, in the order in which to read it:

- base.py: one screen, which draws a moment and holds the selection
- tables.py: the base classes of the screens with a table
- overview.py: is the run healthy, what costs most, who causes it
- overview_panels.py: what its panels show of a moment
- mesh.py: one cell per device
- arranger.py: the arrangement of devices on it
- mesh_switches.py: the switches above it
- hosts.py: the processes
- devices.py: the devices
- arrays.py: the tree of arrays
- memory.py: the memory of each device by use
- collectives.py: cost, waits and straggler of each collective
- collective_chart.py: the strips below them
- programs.py: the compiled programs
- events.py: all events, newest first
- stacks.py: the stacks of all processes
- plot.py: a figure over time
- difference.py: the difference between the marked time and the one that is shown
- places.py: hosts, devices, arrays and programs in the palette
"""

from __future__ import annotations

from importlib import import_module

from jaxtop.base.feature import Screen, features

_OF_CORE = tuple(
    Screen(key, title, f"{__name__}.{title.lower()}:{class_name}", short=short)
    for key, title, short, class_name in (
        ("1", "Overview", "Over", "OverviewView"),
        ("2", "Mesh", "Mesh", "MeshScreenView"),
        ("3", "Hosts", "Host", "HostsView"),
        ("D", "Devices", "Dev", "DevicesView"),
        ("4", "Arrays", "Arr", "ArraysView"),
        ("5", "Memory", "Mem", "MemoryScreenView"),
        ("6", "Collectives", "Col", "CollectivesView"),
        ("7", "Programs", "Prog", "ProgramsView"),
        ("8", "Events", "Ev", "EventsView"),
        ("9", "Stacks", "Stk", "StacksView"),
        ("0", "Plot", "Plot", "PlotView"),
    )
)


def _with_features() -> tuple[Screen, ...]:
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
