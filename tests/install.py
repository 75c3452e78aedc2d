"""Installs packages with pip, and says on one line what it is doing: `python install.py PACKAGES…`.

pip itself either prints hundreds of lines or nothing. Only the standard library is there yet.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time

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
INSTALLING = "Installing collected packages: "


class Shown:
    """The line, which is written again and again on a terminal. Elsewhere each step has a line of its own."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._began = time.monotonic()
        self._step = ""

    def say(self, step: str, more: str = "") -> None:
        if not self._is_terminal:
            if step != self._step:
                print(step, flush=True)
            self._step = step
            return
        self._step = step
        spent = f"{time.monotonic() - self._began:.0f} s"
        print(f"\r\x1b[K{step}, {spent}{f': {more}' if more else ''}"[:100], end="", flush=True)

    def end(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", flush=True)


def main(packages: list[str]) -> int:
    shown, found, lines = Shown(), set[str](), []
    shown.say("looking for packages")
    with subprocess.Popen(
        [*PIP, *packages], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line)
            if (match := FOUND.match(line.strip())) is not None:
                found.add(match[1])
                shown.say("fetching packages", f"{len(found)}, {match[1]}")
            elif line.startswith(INSTALLING):
                count = line.removeprefix(INSTALLING).count(",") + 1
                shown.say(f"installing {count} packages")
    shown.end()
    if pip.returncode:
        print("".join(lines[-20:]), end="", file=sys.stderr)
        print(f"pip could not install {' '.join(packages)}", file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
