"""The lines of the script behind operations, from the compiler's metadata.

Older versions of JAX write a file and a line next to each operation. Newer ones write the number of a stack
frame there, and list all frames at the top of the module's text.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Protocol

from jaxtop.base.names import legible, shorten
from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays.origins import is_library

# Printing the frames holds the GIL for 0.3 µs per instruction of the module.
MOST_INSTRUCTIONS = 10_000
# The length of the text of a file and line.
MAX_PLACE_CHARS = 60
# The number of frames that are searched for a line of the script.
MAX_FRAMES = 64
_FILE_NAME = re.compile(r'^(\d+) "([^"\\]*(?:\\.[^"\\]*)*)"$', re.MULTILINE)
_LOCATION = re.compile(r"^(\d+) \{file_name_id=(\d+)[^}]*? line=(\d+)", re.MULTILINE)
_FRAME = re.compile(r"^(\d+) \{file_location_id=(\d+)(?: parent_frame_id=(\d+))?", re.MULTILINE)


class FileLine(NamedTuple):
    """A line of a file; the file is a whole path."""

    file: str
    line: int

    def __str__(self) -> str:
        return shorten(f"{legible(os.path.basename(self.file))}:{self.line}", MAX_PLACE_CHARS)  # noqa: PTH119 - only text is cut


class LocatedInstruction(Protocol):
    """An instruction, in whatever form it was read."""

    @property
    def place(self) -> tuple[str, int] | None: ...
    @property
    def frame(self) -> int | None: ...


class _Frame(NamedTuple):
    place: FileLine
    parent: int


class Frames:
    """The stack frames of a module by number; empty for versions that write lines next to operations."""

    def __init__(self, header: str = "") -> None:
        files = {int(number): name for number, name in _FILE_NAME.findall(_table(header, "FileNames"))}
        locations = {
            int(number): FileLine(files.get(int(file), ""), int(line))
            for number, file, line in _LOCATION.findall(_table(header, "FileLocations"))
        }
        self._frames = {
            # The compiler writes a parent's number plus one, and one where there is none.
            int(number): _Frame(locations[int(at)], int(parent or 1) - 1)
            for number, at, parent in _FRAME.findall(_table(header, "StackFrames"))
            if int(at) in locations
        }

    @classmethod
    def of(cls, module: object, instructions: int) -> Frames:
        """Return the frames of a module with this many instructions; none if reading them takes too long."""
        if instructions > MOST_INSTRUCTIONS:
            return cls()
        try:
            return cls(jaxprivate.module_header(module))
        except Exception:  # the figures that need no lines go on
            return cls()

    def place(self, located: LocatedInstruction) -> FileLine | None:
        """Return the innermost line outside libraries, else the innermost; None if it is unknown."""
        frame = located.frame
        if frame is None:
            return None if located.place is None else FileLine(*located.place)
        found = [self._frames[frame].place] if frame in self._frames else []
        for _ in range(MAX_FRAMES):
            if frame not in self._frames:
                break
            place, frame = self._frames[frame]
            if not is_library(place.file):
                return place
        return found[0] if found else None

    def line(self, located: LocatedInstruction) -> str:
        """Return the line as "train.py:12"; empty if it is unknown."""
        place = self.place(located)
        return "" if place is None or not place.file else str(place)


def _table(header: str, name: str) -> str:
    """Return the lines of a table in the header: they end with an empty line."""
    start = header.find(f"\n{name}\n")
    if start < 0:
        return ""
    end = header.find("\n\n", start + 1)
    return header[start + len(name) + 2 : end if end >= 0 else len(header)]
