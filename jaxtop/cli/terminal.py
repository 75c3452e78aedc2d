"""Check the terminal for an app, and run the app on it."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, TypeVar

from jaxtop.cli import hangup
from jaxtop.cli.errors import UserError

if TYPE_CHECKING:
    from textual.app import App

Result = TypeVar("Result")

# Terminals that cannot position the cursor: shells in editors, CI logs.
_DUMB = ("dumb", "unknown")
# Textual's driver in a process that --web, textual-serve or textual-web has started.
WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
CRASHED = 1
# Tens of thousands of rows and messages are created and freed per second, and none of them is cyclic.
COLLECT_AFTER = 50_000, 20, 100


def need(instead: str) -> None:
    """Raise `UserError` if an app cannot be shown; `instead` says what to use. The terminal is watched."""
    hangup.watch()
    why_not = _why_not()
    if why_not is not None:
        raise UserError(f"{why_not}; {instead}")


def is_there() -> bool:
    """Return whether there is a terminal to draw on and to read keys from."""
    return _why_not() is None


def is_in_browser() -> bool:
    """Return whether the app of this process is drawn by a browser."""
    return os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER


def _why_not() -> str | None:
    if is_in_browser():
        return None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "the app needs a terminal"
    kind = os.environ.get("TERM", "")
    return (
        f"the app needs a terminal that can place its cursor, and TERM is {kind}" if kind in _DUMB else None
    )


def collect_rarely() -> None:
    """Make garbage collection rare: with a thousand hosts a full one delays keys by a tenth of a second."""
    gc.set_threshold(*COLLECT_AFTER)


def show(app: App[Result]) -> Result | None:
    """Run an app until the user leaves it; return its result. A crash raises an error with its own status."""
    from textual.drivers.linux_driver import LinuxDriver  # heavy: errors must be fast

    hangup.watch()
    if app.driver_class is LinuxDriver:
        from jaxtop.cli.tty_driver import TTYDriver  # as above

        app.driver_class = TTYDriver
    try:
        result = None if hangup.shown(app) else app.run()
    finally:
        hangup.shown(None)
    if app.return_code and not hangup.is_ending():
        raise UserError("the app failed; the lines above say where", CRASHED)
    return result
