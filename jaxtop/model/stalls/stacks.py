"""The hosts grouped by the place of their main threads.

Files of the script's own code have bare names ("train.py"). Files of libraries and of Python itself have the
folder that they are imported from ("jax/_src/array.py").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.base.names import shorten
from jaxtop.model.host import run_of
from jaxtop.model.hosts import run_members
from jaxtop.wire import COMPILED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState
    from jaxtop.wire import Place, Stacks

# JAX waits in these files of its own: for a result, for room to launch, for the other processes.
_WAITING = {
    "api.py", "array.py", "dispatch.py", "distributed.py", "multihost_utils.py", "profiler.py", "pxla.py",
    COMPILED.rpartition("/")[2],
}  # fmt: skip
# Frames in these files mean that a program is being compiled.
_MAKING = {"compiler.py", "mlir.py", "partial_eval.py"}
LONGEST_NAME = 60
# Code that is in no file, but is the user's own.
_SPOKEN = ("<string>", "<stdin>", "<ipython")


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Hosts whose main threads are at the same place.

    `place` is the innermost line of the script's own code. `is_waiting` states that JAX waits there; a wait
    without a Python frame cannot be detected. `is_making` states that JAX compiles a program.
    """

    run: str
    agents: tuple[str, ...]
    place: Place | None
    is_waiting: bool
    is_making: bool

    @property
    def text(self) -> str:
        """The place as text: "train.py:88 load_batch"."""
        return place_text(self.place)


def stack_groups(cluster: ClusterState) -> list[StackGroup]:
    """Return the groups of hosts of all runs in order, the largest group of each run first."""
    found: list[StackGroup] = []
    for each in run_members(cluster):
        found += groups_of(host for host, _ in each.members if host.stacks.threads)
    return found


def groups_of(hosts: Iterable[Host]) -> list[StackGroup]:
    """Group these hosts of one run, whose stacks are known, by the place of their main threads."""
    by_stand: dict[tuple[object, ...], list[Host]] = {}
    for host in hosts:
        by_stand.setdefault(_stand(main_frames(host.stacks)), []).append(host)
    groups = [_group(members) for members in by_stand.values()]
    return sorted(groups, key=lambda group: -len(group.agents))  # stable: then by the first host


def place_text(place: Place | None) -> str:
    """Return a line as text."""
    return "an unknown place" if place is None else _written(place, place.file)


def line_text(place: Place) -> str:
    """Return a line as short text, without the folder of its file."""
    return _written(place, place.file.rpartition("/")[2])


def _written(place: Place, file: str) -> str:
    name = shorten(place.function, LONGEST_NAME)
    if place.file == COMPILED:
        return f"{name}, inside jaxlib"
    return f"{shorten(file, LONGEST_NAME)}:{place.line} {name}"


def main_frames(stacks: Stacks) -> tuple[Place, ...]:
    """Return the frames of the main thread, the innermost last."""
    thread = next((thread for thread in stacks.threads if thread.is_main), None)
    thread = thread or (stacks.threads[0] if stacks.threads else None)
    return thread.frames if thread else ()


def main_place(stacks: Stacks) -> Place | None:
    """Return the innermost line of the script's own code on the main thread; None without stacks."""
    return _place(main_frames(stacks))


def is_waiting(stacks: Stacks) -> bool:
    """Return whether the main thread waits in JAX."""
    frames = main_frames(stacks)
    inner = frames[_inside(frames) :]
    return bool(inner) and not _is_making(frames) and _is_of_jax(inner[-1], _WAITING)


def _group(hosts: list[Host]) -> StackGroup:
    first = hosts[0]
    frames = main_frames(first.stacks)
    return StackGroup(
        run=run_of(first),
        agents=tuple(host.agent for host in hosts),
        place=main_place(first.stacks),
        is_waiting=is_waiting(first.stacks),
        is_making=_is_making(frames),
    )


def _stand(frames: tuple[Place, ...]) -> tuple[object, ...]:
    """Return what two hosts must share to be grouped: all frames, except progress inside JAX."""
    end = _inside(frames)
    if end and any(map(_is_jax, frames[end:])):
        return frames[:end], _is_making(frames)
    return frames


def _is_making(frames: tuple[Place, ...]) -> bool:
    return any(_is_of_jax(frame, _MAKING) for frame in frames)


def _inside(frames: tuple[Place, ...]) -> int:
    """Return the index where the script's own code ends and the code that it called begins."""
    ends = (end for end in range(len(frames), 0, -1) if _is_own(frames[end - 1]))
    return next(ends, 0)


def _place(frames: tuple[Place, ...]) -> Place | None:
    end = _inside(frames)
    if end:
        return frames[end - 1]
    # The script itself may be installed like a library.
    installed = [frame for frame in frames if not _is_jax(frame) and not _is_python(frame)]
    return installed[-1] if installed else (frames[-1] if frames else None)


def _is_own(frame: Place) -> bool:
    return frame.file.startswith(_SPOKEN) if frame.file.startswith("<") else "/" not in frame.file


def _is_jax(frame: Place) -> bool:
    return frame.file.startswith(("jax/", "jaxlib/"))


def _is_of_jax(frame: Place, files: set[str]) -> bool:
    return _is_jax(frame) and frame.file.rpartition("/")[2] in files


def _is_python(frame: Place) -> bool:
    return frame.file.startswith(("python3", "<frozen"))
