"""The declaration of a feature to the core, and the features that are installed.

The core imports no feature. It asks here for what they declare, and loads a part when it is used: a place is
`module:name`. So a declaration imports nothing, and `jaxtop --help` stays fast.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ROOM = "jaxtop.features"


class Command(NamedTuple):
    """A command: its summary, and the module with its `add_arguments` and `main`.

    `failed` is the exit status of errors, where the usual 1 has another meaning.
    """

    summary: str
    module: str
    failed: int | None = None


class ScreenEntry(NamedTuple):
    """A screen: the key that opens it, its title, the place of its class, and the screen that it follows.

    `short` is its title in narrow terminals. Where that is too long, too, those with a small `keeps` lose
    their names first. `shows` says what it shows, and `page` is the page of `docs/` about it:
    `docs/watching.md` lists them.
    """

    key: str
    title: str
    place: str
    after: str = ""
    short: str = ""
    shows: str = ""
    page: str = ""
    keeps: int = 0

    @property
    def name(self) -> str:
        """Its name in code, and in the proof of findings."""
        return self.title.lower()

    @property
    def view(self) -> Any:
        """Its class, imported when the screen opens: all together take a fifth of the time to start."""
        return load(self.place)


_NOTHING: Mapping[str, Any] = {}


class Feature(NamedTuple):
    """What the monitor can do without: one folder of `jaxtop/features/`, and what it adds to the core."""

    name: str
    commands: Mapping[str, Command] = _NOTHING
    screens: tuple[ScreenEntry, ...] = ()
    # Options of a command that replace what it does, by command: a module with `NAME`,
    # `add_arguments(parser)`, `is_asked(arguments)` and `serve(arguments)`.
    options: Mapping[str, str] = _NOTHING
    # Attributes of the package `jaxtop`, with their places; a place without a name is the module.
    attributes: Mapping[str, str] = _NOTHING
    # Places of functions and classes that the core calls, where a feature has one. `HOOKS` says for what.
    hooks: Mapping[str, str] = _NOTHING


HOOKS = {
    "doctor_checks": "() -> findings of `jaxtop doctor`",
    "program_fields": "(cluster, now, probe) -> (run, name, fingerprint) -> fields of a program in JSON",
    "program_lines": "(moment, program, width, ink) -> lines about a program on its screen",
    "device_lines": "(probe, device, host, its operations a second, ink, at_least) -> lines about it",
    "bandwidth_note": "(moment, collective) -> what its bandwidth is compared with",
    "app_capturer": "(start of a job) -> what takes full profiles with a key of the app",
    "relays": "the relays that a live source finds at addresses",
    "open_through": "(command, targets, owner, name, show) -> the source on the other side of a command",
}


@cache
def features() -> tuple[Feature, ...]:
    """Return the features that are installed, in the order of `jaxtop.features.NAMES`."""
    if find_spec(_ROOM) is None:
        return ()
    names = import_module(_ROOM).NAMES
    return tuple(import_module(f"{_ROOM}.{name}").FEATURE for name in names if find_spec(f"{_ROOM}.{name}"))


def load(place: str) -> Any:
    """Return the object at `module:name`, or the module."""
    module, _, name = place.partition(":")
    found = import_module(module)
    return getattr(found, name) if name else found


def hook(name: str) -> Any:
    """Return what the features have for a hook; None if there is none."""
    return next(hooks(name), None)


def has_hook(name: str) -> bool:
    """Return whether a feature has something for a hook, without loading it."""
    return any(name in each.hooks for each in features())


def hooks(name: str) -> Iterator[Any]:
    """Yield what each feature has for a hook."""
    assert name in HOOKS
    return (load(each.hooks[name]) for each in features() if name in each.hooks)


def options_of(command: str) -> list[Any]:
    """Return the modules of the options that features add to a command."""
    return [load(each.options[command]) for each in features() if command in each.options]
