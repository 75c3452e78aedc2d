"""A headless Chromium, driven through its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import re
import shutil
from contextlib import asynccontextmanager
from inspect import isawaitable
from itertools import count
from typing import TYPE_CHECKING, Any

import aiohttp

from tests import patience

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--remote-debugging-port=0",
)  # fmt: skip
# Virtual key codes of keys that write nothing.
_CODES = {"Escape": 27}
_ESCAPES = re.compile(r"\x1b\[[\d;?]*[ -/]*[@-~]")


class Chromium:
    """One browser."""

    def __init__(self, devtools: aiohttp.ClientWebSocketResponse) -> None:
        self._devtools = devtools
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}

    async def listen(self) -> None:
        async for message in self._devtools:
            told = message.json()
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif told.get("sessionId") in self._pages:
                self._pages[told["sessionId"]].note(told["method"], told["params"])

    async def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        await self._devtools.send_json(message | ({"sessionId": session} if session else {}))
        told = await answer
        assert "error" not in told, told
        return told["result"]

    async def open(self, url: str, width: int = 1000, height: int = 600) -> Page:
        """Open a tab of this size, in pixels."""
        target = (await self.ask("Target.createTarget", url="about:blank"))["targetId"]
        session = (await self.ask("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Network", "Log", "Runtime", "Page"):
            await page.ask(f"{domain}.enable")
        await page.ask(
            "Emulation.setFocusEmulationEnabled", enabled=True
        )  # also when another tab is in front
        await page.resize(width, height)
        await page.ask("Page.navigate", url=url)
        return page


class Page:
    """A tab: what the app has drawn in it, what it reports, and its keyboard and mouse."""

    def __init__(self, browser: Chromium, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self._received = ""
        self.errors: list[str] = []

    def note(self, method: str, parameters: Any) -> None:
        if method == "Network.webSocketFrameReceived" and parameters["response"]["opcode"] == 2:
            self._received += base64.b64decode(parameters["response"]["payloadData"]).decode()
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(parameters["exceptionDetails"]))

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return await self._browser.ask(method, self._session, **parameters)

    async def drawn(self, words: str) -> None:
        """Wait until the app has drawn these words, and forget what it has drawn so far."""
        try:
            await until(lambda: words in _ESCAPES.sub("", self._received))
        except AssertionError:
            raise AssertionError(f"{words!r} not in {_ESCAPES.sub('', self._received)[-2000:]!r}") from None
        self._received = ""

    async def evaluate(self, script: str) -> Any:
        return (await self.ask("Runtime.evaluate", expression=script, returnByValue=True))["result"].get(
            "value"
        )

    async def says(self, words: str) -> bool:
        """Return whether the page has these words outside the app."""
        return words in await self.evaluate("document.body?.innerText ?? ''")

    async def press(self, key: str) -> None:
        is_typed = len(key) == 1
        for kind in ("keyDown", "keyUp"):
            more = {"text": key} if is_typed and kind == "keyDown" else {}
            code = ord(key.upper()) if is_typed else _CODES[key]
            await self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    async def click(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            await self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    async def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height}
        await self.ask("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)

    async def picture(self) -> bytes:
        return base64.b64decode((await self.ask("Page.captureScreenshot"))["data"])

    async def close(self) -> None:
        await self._browser.ask("Target.closeTarget", targetId=self._target)


@asynccontextmanager
async def chromium(folder: Path):
    """Start a browser whose profile is in this folder."""
    assert PROGRAM is not None
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *_FLAGS, f"--user-data-dir={folder}", "about:blank", stdout=nowhere, stderr=nowhere
    )
    try:
        port_file = folder / "DevToolsActivePort"
        await until(lambda: port_file.exists() and port_file.read_text().count("\n"))
        port, path = port_file.read_text().split()
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0) as devtools,
        ):
            browser = Chromium(devtools)
            listening = asyncio.create_task(browser.listen())
            yield browser
            await browser.ask("Browser.close")
            await listening
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def until(check: Any) -> None:
    """Wait until a check, which may be asynchronous, is true."""
    end = patience.deadline()
    while end.left() > 0:
        answer = check()
        if await answer if isawaitable(answer) else answer:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {end}")
