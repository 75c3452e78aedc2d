"""What the app writes to a terminal, and what the terminal then shows."""

from __future__ import annotations

import os
import re
import select
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual import events
from textual.driver import Driver
from textual.geometry import Size

from jaxtop.tui.app import JaxtopApp
from tests import patience
from tests.stage import Clock, Feed, Stage, notified

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from jaxtop import wire

_PARTS = re.compile(
    r"\x1b\[(?P<y>\d+);(?P<x>\d+)H|\x1b\[(?P<style>[\d;]*)m|\x1b\[[?\d;]*[a-zA-Z]|(?P<text>.)", re.DOTALL
)


class WrittenDriver(Driver):
    """A driver whose output is kept, at its app."""

    written = ""

    def write(self, data: str) -> None:
        self.written += data

    def start_application_mode(self) -> None:
        assert self._size is not None
        size = Size(*self._size)
        self.send_message(events.Resize(size, size))

    def disable_input(self) -> None:
        """Nothing is read."""

    def stop_application_mode(self) -> None:
        """Nothing was begun."""


class Emulator:
    """The cells of a terminal: letters with their styles. The second cell of a wide letter is empty."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], tuple[str, str]] = {}

    def feed(self, written: str) -> None:
        x, y, style = 0, 0, ""
        for part in _PARTS.finditer(written):
            if part["y"] is not None:
                x, y = int(part["x"]) - 1, int(part["y"]) - 1
            elif part["style"] is not None:
                style = "" if part["style"] in ("", "0") else part["style"]
            elif part["text"] is not None and part["text"] >= " ":
                self.cells[y, x] = part["text"], style
                if cell_len(part["text"]) == 2:
                    self.cells[y, x + 1] = "", style
                x += cell_len(part["text"])

    def text(self, width: int, height: int) -> str:
        rows = ("".join(self.cells.get((y, x), (" ",))[0] for x in range(width)) for y in range(height))
        return "\n".join(rows)


class TerminalScreen:
    """What a terminal of 80×24 shows of what a process writes to it; words that stay are written once."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._emulator = Emulator()

    def until(self, words: str) -> str:
        """Return the text on the screen once it has these words, or at the end of what is written."""
        end = patience.deadline()
        while words not in (text := self._emulator.text(80, 24)) and end.left() > 0:
            written = b""
            with suppress(OSError):  # the other side may have closed
                while select.select([self._file], [], [], 0.2)[0] and (more := os.read(self._file, 65_536)):
                    written += more
            self._emulator.feed(written.decode(errors="replace"))
        return text


class WrittenStage(Stage):
    """An app in a test whose output is kept."""

    def taken(self) -> str:
        """Return what was written since the last call."""
        driver: Any = self.app._driver
        taken, driver.written = driver.written, ""
        return str(taken)


@asynccontextmanager
async def on_terminal(*frames: wire.Frame, size: tuple[int, int], **more: Any) -> AsyncIterator[WrittenStage]:
    """Run the app on these frames, or on a replay if one is given, with a driver that writes."""
    feed, clock = Feed(*frames), Clock()
    app = JaxtopApp(None if "replay" in more else feed, clock, **more)
    app.driver_class = WrittenDriver
    async with app.run_test(size=size, headless=False) as pilot:
        yield WrittenStage(app, feed, clock, pilot, notified(app))
