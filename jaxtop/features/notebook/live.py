"""`jaxtop.live()`: a small summary of a run in a cell of a notebook, which follows the run.

A process of its own follows the run; here a thread only shows the texts that it writes. So the process that
trains imports nothing of a viewer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SHORTEST_S, LONGEST_S = 0.5, 3600.0
WAITS = "waits until jax is used and the agent serves"
_current: LiveSummary | None = None


def live(target: str | None = None, *, every: float = 2.0, idle: float = 300.0) -> LiveSummary:
    """Show a summary of a run, with its findings, in this cell; outside a notebook, print it when it changes.

    Args:
        target: what to follow, as in `jaxtop attach` (default: the run of this process).
        every: seconds between two updates.
        idle: the summary ends by itself once the kernel has run no cell for this many seconds.

    The summary also ends with the run, at `stop()` of what is returned, and when this is called again.
    """
    global _current  # noqa: PLW0603 - a cell that is run again shows one summary, not two
    if _current is not None:
        _current.stop()
    shell = _notebook()
    _current = LiveSummary(target, every, idle, _Text() if shell is None else _Cell(shell))
    return _current


class LiveSummary:
    """A summary that follows a run until it is stopped."""

    def __init__(self, target: str | None, every: float, idle: float, place: _Text | _Cell) -> None:
        self._target = target
        self._every = min(max(SHORTEST_S, every), LONGEST_S)
        self._idle = idle
        self._place = place
        self._why = ""
        self._process: subprocess.Popen[str] | None = None
        from jaxtop_agent.core.threads import Worker

        # Scripts may join all of their threads, and would wait for one of Python's forever.
        self._worker = Worker("jaxtop live", self._run, lambda _: None)
        self._worker.start()

    def __repr__(self) -> str:
        return f"<jaxtop.live: {self._why or 'follows the run'}>"

    def _ipython_display_(self) -> None:
        """Show nothing more where a cell ends with `jaxtop.live()`: the summary is there already."""

    def stop(self) -> None:
        """End the summary; what it showed last stays."""
        self._end("stopped")
        self._worker.join(2 * SHORTEST_S)

    def _end(self, why: str) -> None:
        self._why = self._why or why
        process = self._process
        if process is not None:
            with suppress(OSError):
                process.kill()

    def _run(self) -> None:
        try:
            self._follow(self._target or _own_address(self._wait))
        except Exception as error:  # noqa: BLE001 - the script's thread must not be affected
            self._why = self._why or f"{type(error).__name__}: {error}"
        self._why = self._why or "the run has ended"
        with suppress(Exception):
            self._place.end(self._why)

    def _wait(self) -> bool:
        """Wait a moment for the agent of this process; return whether to go on."""
        self._place.show({"text": WAITS, "html": WAITS, "gist": WAITS})
        time.sleep(SHORTEST_S / 2)
        self._check_idle()
        return not self._why

    def _follow(self, target: str | None) -> None:
        if self._why:
            return
        words = [
            sys.executable,
            "-m",
            "jaxtop.features.notebook.cell",
            str(self._every),
            *([target] if target else []),
        ]
        pipe = subprocess.PIPE
        # In a session of its own: Jupyter interrupts all processes of the kernel's group.
        with subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        ) as process:
            self._process = process
            if self._why:  # it was stopped meanwhile
                process.kill()
            assert process.stdout is not None
            for line in process.stdout:
                update = json.loads(line)
                if "error" in update:
                    self._why = self._why or update["error"]
                elif not self._why:
                    self._place.show(update)
                self._check_idle()
                if self._why:
                    process.kill()

    def _check_idle(self) -> None:
        since = self._place.idle_since
        if since is not None and time.monotonic() - since > self._idle:
            self._end(f"no cell ran for {self._idle:g} s; jaxtop.live() shows it again")


def _own_address(wait: Callable[[], bool]) -> str | None:
    """Return the address of this process's agent once it serves; None if there is no agent to wait for."""
    import jaxtop_agent  # only what `from jaxtop import agent` imports

    while (status := jaxtop_agent.status()).state in ("waits", "starts"):
        if not wait():
            break
    return status.address


def _notebook() -> Any:
    """Return the shell of IPython if its output goes to a notebook; None elsewhere."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if get is None else get()
    return shell if getattr(shell, "kernel", None) is not None else None


class _Text:
    """Prints the summary when more than its figures changes."""

    idle_since: float | None = None  # a script ends by itself

    def __init__(self) -> None:
        self._gist = ""

    def show(self, update: dict[str, str]) -> None:
        if update["gist"] != self._gist:
            self._gist = update["gist"]
            _print(update["text"])

    def end(self, why: str) -> None:
        _print(why)


class _Cell:
    """Shows the summary below a cell."""

    def __init__(self, shell: Any) -> None:
        from IPython.display import display  # its shell is given

        self._html = ""
        self._text = ""
        self.idle_since: float | None = None
        self._events = (("pre_run_cell", self._busy), ("post_run_cell", self._quiet))
        self._shell = shell
        for name, function in self._events:
            shell.events.register(name, function)
        self._display = display(_formats("jaxtop", "jaxtop"), raw=True, display_id=True)

    def _busy(self, *_: Any) -> None:
        self.idle_since = None

    def _quiet(self, *_: Any) -> None:
        self.idle_since = time.monotonic()

    def show(self, update: dict[str, str]) -> None:
        if update["html"] != self._html:
            self._html, self._text = update["html"], update["text"]
            self._display.update(_formats(self._text, self._html), raw=True)

    def end(self, why: str) -> None:
        from html import escape

        at = time.strftime("%H:%M:%S")
        for name, function in self._events:
            with suppress(ValueError):
                self._shell.events.unregister(name, function)
        html = f"{self._html}<div><small>ended at {at}: {escape(why)}</small></div>"
        self._display.update(_formats(f"{self._text}\nended at {at}: {why}", html), raw=True)


def _print(text: str) -> None:
    print(f"jaxtop: {text}", flush=True)


def _formats(text: str, html: str) -> dict[str, str]:
    return {"text/plain": text, "text/html": html}
