"""One tab: the app in a process of its own, and the websocket through which the browser draws it.

Textual's driver for the web writes packets of a letter, a length and a payload to standard output, and reads
such packets from standard input. The script of textual-serve, in the browser, speaks JSON instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jaxtop.base import debuglog
from jaxtop.cli.machine.processes import die_with_parent
from jaxtop.cli.terminal import WEB_DRIVER
from jaxtop.cli.text.words import legible

if TYPE_CHECKING:
    from collections.abc import Sequence

# What Textual writes before its first packet.
_PRELUDE = b"__GANGLION__\n"
_DATA, _META = b"D", b"M"
# The smallest size that a browser may ask for.
MIN_SIZE = (1, 1)
# The largest size that a browser may ask for; each cell takes memory.
MAX_SIZE = (600, 250)
DEFAULT_SIZE = (120, 36)
_LAST_WORDS = 4096
# How long the app may take to leave, to end after SIGTERM, and to be gone after SIGKILL, in seconds.
LEAVES_WITHIN = ENDS_WITHIN = GONE_WITHIN = 3.0
LAST_WORDS_WITHIN = 1.0
# Leaves the app's screen, its mouse and its colours.
CLEARED = "\x1b[?1049l\x1b[?1000l\x1b[?1003l\x1b[0m\x1b[2J\x1b[H"


class Tab:
    """The app of one tab."""

    def __init__(self, words: Sequence[str], websocket: Any) -> None:
        self._words = [sys.executable, "-m", "jaxtop", *words]
        self._websocket = websocket
        self._last_words = bytearray()

    async def run(self, width: object, height: object) -> None:
        """Show the app until the tab is closed or the app ends."""
        try:
            process = await self._started(width, height)
        except OSError as error:
            await self._sent(f"{CLEARED}jaxtop cannot be started: {error.strerror}".encode())
            return
        assert process.stdout is not None
        assert process.stderr is not None
        shown = asyncio.create_task(self._to_browser(process.stdout))
        noted = asyncio.create_task(self._remember(process.stderr))
        typed = asyncio.create_task(self._from_browser(process))
        try:
            await asyncio.wait({shown, typed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._end(process)
            # What the app has started may hold its standard error open.
            await asyncio.wait({noted}, timeout=LAST_WORDS_WITHIN)
            for task in (shown, noted, typed):
                task.cancel()
            await asyncio.gather(shown, noted, typed, return_exceptions=True)
        await self._say_why(process.returncode)

    async def _started(self, width: object, height: object) -> asyncio.subprocess.Process:
        columns, lines = _size(width, height)
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *self._words,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={
                **os.environ,
                "TEXTUAL_DRIVER": WEB_DRIVER,
                "TEXTUAL_COLOR_SYSTEM": "truecolor",
                "TERM_PROGRAM": "textual",
                "COLUMNS": str(columns),
                "ROWS": str(lines),
            },
            preexec_fn=die_with_parent,
        )

    async def _to_browser(self, output: asyncio.StreamReader) -> None:
        # The reading goes on after the tab is closed: the app cannot exit while its pipe is full.
        with suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            while await output.readline() not in (_PRELUDE, b""):
                pass
            is_open = True
            while True:
                kind = await output.readexactly(1)
                payload = await output.readexactly(int.from_bytes(await output.readexactly(4), "big"))
                if kind == _DATA and is_open:
                    is_open = await self._sent(payload)

    async def _sent(self, payload: bytes) -> bool:
        """Send to the browser; return False if it has gone."""
        try:
            await self._websocket.send_bytes(payload)
        except (ConnectionError, RuntimeError):
            return False
        return True

    async def _remember(self, errors: asyncio.StreamReader) -> None:
        while part := await errors.read(_LAST_WORDS):
            self._last_words += part
            del self._last_words[:-_LAST_WORDS]

    async def _from_browser(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        with suppress(ConnectionError, RuntimeError):
            async for message in self._websocket:
                packet = packet_of(message.data)
                if packet is not None:
                    process.stdin.write(packet)
                    await process.stdin.drain()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Let the app leave; end it if it does not."""
        assert process.stdin is not None
        with suppress(ConnectionError, RuntimeError):
            process.stdin.write(_meta({"type": "quit"}))
        for patience, then in ((LEAVES_WITHIN, process.terminate), (ENDS_WITHIN, process.kill)):
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), patience)
                return
            debuglog.warning("web", f"the app of a tab (pid {process.pid}) does not end")
            with suppress(ProcessLookupError):
                then()
        with suppress(TimeoutError):  # what the app has started may hold its pipes open
            await asyncio.wait_for(process.wait(), GONE_WITHIN)

    async def _say_why(self, status: int | None) -> None:
        """Show the last lines of an app that failed."""
        if status:
            lines = self._last_words.decode(errors="replace").splitlines()
            words = "\r\n".join(map(legible, lines)) or f"jaxtop ended with status {status}"
            await self._sent((CLEARED + words).encode())


def packet_of(message: object) -> bytes | None:
    """Return what the app gets for a message of the browser; None for one without a meaning for it."""
    match _decoded(message):
        case ["stdin", str(typed)]:
            return _packet(_DATA, typed.encode(errors="replace"))
        case ["resize", {"width": width, "height": height}]:
            columns, lines = _size(width, height)
            return _meta({"type": "resize", "width": columns, "height": lines})
        case ["focus" | "blur" as kind, *_]:
            return _meta({"type": kind})
    return None


def _decoded(message: object) -> object:
    try:
        return json.loads(message) if isinstance(message, str) else None
    except (ValueError, RecursionError):
        return None


def _size(width: object, height: object) -> tuple[int, ...]:
    """Return the columns and lines that a browser asks for, within bounds."""
    found = []
    for given, least, usual, most in zip((width, height), MIN_SIZE, DEFAULT_SIZE, MAX_SIZE, strict=True):
        is_number = str(given).isascii() and str(given).isdecimal() and len(str(given)) < 10
        found.append(min(max(int(str(given)), least), most) if is_number else usual)
    return tuple(found)


def _meta(content: dict[str, object]) -> bytes:
    return _packet(_META, json.dumps(content).encode())


def _packet(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "big") + payload
