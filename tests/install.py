"""Installs packages with pip, and says on one line what it is doing: `python install.py PACKAGES…`.

pip itself either prints hundreds of lines or nothing. Only the standard library is there yet.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

PIP = [
    sys.executable,
    "-m",
    "pip",
    "install",
    "--disable-pip-version-check",
    "--no-compile",
    "--progress-bar",
    "off",
]
FOUND = re.compile(r"(?:Collecting|Obtaining|Requirement already satisfied:) ([^\s<>=!~;\[(]+)")
SIZE = re.compile(r"Downloading \S+ \(([\d.]+ \wB)\)")
INSTALLING = "Installing collected packages: "
BAR, WIDEST = 20, 78
# The seconds go on while pip says nothing.
EVERY_S = 0.5


def bar(done: int, of: int) -> str:
    """Return a bar of this share."""
    full = BAR * min(done, of) // of
    return "█" * full + "░" * (BAR - full)


def packaged(count: int) -> str:
    return f"{count} package{'' if count == 1 else 's'}"


def installed() -> int:
    """Return how many packages are in this environment: each leaves such a folder at its end."""
    return sum(1 for _ in Path(sysconfig.get_paths()["purelib"]).glob("*.dist-info"))


class Shown:
    """The line, which is written again and again on a terminal. Elsewhere each step has a line of its own."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._began = time.monotonic()
        self._step, self._more, self._count, self._before = "", "", 0, 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._repeat, daemon=True).start()

    def say(self, step: str, more: str = "", count: int = 0) -> None:
        """Show a step; with a count, a bar for how many of these packages are installed."""
        if not self._is_terminal and step != self._step:
            print(step, flush=True)
        self._before = installed() if count else 0
        self._step, self._more, self._count = step, more, count
        self._draw()

    def end(self, words: str) -> None:
        """Replace the line by these words."""
        with self._lock:
            self._ended.set()
            if self._is_terminal:
                print("\r\x1b[K", end="")
            if words:
                print(f"{words}, {self._spent}", flush=True)

    @property
    def _spent(self) -> str:
        return f"{time.monotonic() - self._began:.0f} s"

    def _repeat(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._draw()

    def _draw(self) -> None:
        done = installed() - self._before if self._count else 0
        share = f" {bar(done, self._count)} {done}" if self._count else ""
        line = f"{self._step}{share}, {self._spent}{f': {self._more}' if self._more else ''}"
        with self._lock:
            if self._is_terminal and not self._ended.is_set():
                print(f"\r\x1b[K{line[:WIDEST]}", end="", flush=True)


def main(packages: list[str]) -> int:
    shown, found, lines, count = Shown(), [""], [], 0
    shown.say("looking for packages")
    with subprocess.Popen(
        [*PIP, *packages], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line)
            if (match := FOUND.match(line.strip())) is not None:
                name = match[1].rpartition("/")[2]
                found += [name] if name not in found else []
                shown.say("fetching packages", f"{len(found) - 1}, {name}")
            elif (match := SIZE.match(line.strip())) is not None:
                shown.say("fetching packages", f"{len(found) - 1}, {found[-1]} ({match[1]})")
            elif line.startswith(INSTALLING):
                count = line.removeprefix(INSTALLING).count(",") + 1
                shown.say(f"installing {packaged(count)}", count=count)
    shown.end("" if pip.returncode else f"{packaged(count)} installed")
    if pip.returncode:
        print("".join(lines[-20:]), end="", file=sys.stderr)
        print(f"pip could not install {' '.join(packages)}", file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
