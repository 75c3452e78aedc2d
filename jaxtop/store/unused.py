"""Processes of `jaxtop run` whose scripts have not used JAX yet, so that they have no run file.

Until then the agent has no thread, no socket and no file. The kernel keeps the environment with which such a
process was started, and in it the mark of `jaxtop run`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from jaxtop.base import processes
from jaxtop.store import runfiles

# As `jaxtop run` writes it: the pid, two fields, and the settings on the next line.
MARK = b"JAXTOP_BOOT="
# The most of an environment or command line that is read.
MOST_BYTES = 1 << 20
WHY = "its script has not used JAX yet, or has stopped the agent"
# What decides on the folder of run files: those of another folder are not ours to list.
_OF_FOLDER = (b"XDG_STATE_HOME", b"HOME")
# Words of the interpreter with a word of their own after them.
_WITH_VALUE = frozenset({"-W", "-X"})


class Unused(NamedTuple):
    """A process that runs under `jaxtop run` and is not shown, with the name that its run will have."""

    pid: int
    name: str


def find() -> list[Unused]:
    """Return such processes of this user, by pid; none where the system has no `/proc`.

    Left out are processes that are shown, that have said goodbye or why they are not shown, and those that
    have started a process that is shown.
    """
    marked = {pid: name for pid in processes.numbers_in_proc() if (name := _name_of(pid)) is not None}
    if not marked:
        return []
    living = [each.hello.pid for each in runfiles.find() if not each.is_stale]
    # A pid of an earlier process may be that of this one.
    exiting = [each.hello.pid for each in runfiles.past() if runfiles.still_exits(each.hello)]
    known = {*living, *exiting, *(each.pid for each in runfiles.unshown())}
    for pid in living:
        known |= processes.ancestors_of(pid)
    return [Unused(pid, name) for pid, name in sorted(marked.items()) if pid not in known]


def _name_of(pid: int) -> str | None:
    """Return the name of the run of a process; None if `jaxtop run` has not started it."""
    try:
        folder = Path(f"/proc/{pid}")
        if folder.stat().st_uid != os.geteuid():
            return None
        entries = _read(folder / "environ").split(b"\0")
        mark = next((each for each in entries if each.startswith(MARK)), b"").removeprefix(MARK)
        if mark.partition(b":")[0] != str(pid).encode():  # its children have the mark of another
            return None
        variables = dict(each.partition(b"=")[::2] for each in entries)
        if any(variables.get(name) != os.environb.get(name) for name in _OF_FOLDER):
            return None
        settings = msgspec.json.decode(mark.partition(b"\n")[2], type=dict[str, object])
        words = [each.decode("utf-8", "replace") for each in _read(folder / "cmdline").split(b"\0")]
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return str(settings.get("name") or _script_in(words[1:]))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES)


def _script_in(words: list[str]) -> str:
    """Return the name of a run that has none, from the words after the interpreter, as the agent does."""
    rest = iter(words)
    for word in rest:
        if word == "-m":
            return next(rest, "").rpartition(".")[2]
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            path = Path(word)
            return path.parent.name if path.stem == "__main__" else path.stem
        elif word == "-c":
            break
    return "python"
