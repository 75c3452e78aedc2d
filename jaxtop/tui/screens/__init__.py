"""The screens, in the order of their keys: those of the core have a file here, others come from features."""

from __future__ import annotations

from importlib import import_module

from jaxtop.base.feature import Screen, features

_OF_CORE = tuple(
    Screen(key, title, f"{__name__}.{title.lower()}:{class_name}")
    for key, title, class_name in (
        ("1", "Overview", "OverviewView"),
        ("2", "Mesh", "MeshScreenView"),
        ("3", "Hosts", "HostsView"),
        ("D", "Devices", "DevicesView"),
        ("4", "Arrays", "ArraysView"),
        ("5", "Memory", "MemoryScreenView"),
        ("6", "Collectives", "CollectivesView"),
        ("7", "Programs", "ProgramsView"),
        ("8", "Events", "EventsView"),
        ("9", "Stacks", "StacksView"),
        ("0", "Plot", "PlotView"),
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
