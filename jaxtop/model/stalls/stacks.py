"""Where the processes stand: hosts whose main threads stand alike, together.

Files of the script's own code come as bare names ("train.py"); those of libraries and of Python itself with
the folder that they are imported from ("jax/_src/array.py").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.model.views import run_of, runs
from jaxtop.names import shorten
from jaxtop.wire import COMPILED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model.fold import Cluster
    from jaxtop.model.host import Host
    from jaxtop.wire import Place, Stacks, Thread

# JAX waits in these files of its own: for a result, for room to launch, for the other processes.
_WAITING = {
    "api.py",
    "array.py",
    "dispatch.py",
    "distributed.py",
    "multihost_utils.py",
    "profiler.py",
    "pxla.py",
    COMPILED.rpartition("/")[2],
}
# And by way of these a program is being made.
_MAKING = {"compiler.py", "mlir.py", "partial_eval.py"}
LONGEST_NAME = 60
# Code that is in no file, and yet the user's own.
_SPOKEN = ("<string>", "<stdin>", "<ipython")


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Hosts whose main threads stand at the same place, with the threads of the first of them.

    `place` is the innermost line of the script's own code. `is_waiting` says that JAX waits there; where it
    waits without a frame of Python's, nobody can tell. `is_making` says that JAX makes a program. `at_ms` is
    the oldest of their own times.
    """

    run: str
    agents: tuple[str, ...]
    threads: tuple[Thread, ...]
    place: Place | None
    is_waiting: bool
    at_ms: int
    is_making: bool = False

    @property
    def text(self) -> str:
        """The place as a person would say it: "train.py:88 load_batch"."""
        return place_text(self.place)


def stack_groups(cluster: Cluster, run: str | None = None) -> list[StackGroup]:
    """The hosts of a run, or of all, by where they stand: run by run, the largest group first."""
    found: list[StackGroup] = []
    for each in runs(cluster):
        if run is None or each.id == run:
            found += groups_of(view.host for view in each.hosts if view.host.stacks.threads)
    return found


def groups_of(hosts: Iterable[Host]) -> list[StackGroup]:
    """These hosts of one run, whose stacks are known, by where they stand."""
    by_stand: dict[tuple[object, ...], list[Host]] = {}
    for host in hosts:
        by_stand.setdefault(_stand(main_frames(host.stacks)), []).append(host)
    groups = [_group(members) for members in by_stand.values()]
    return sorted(groups, key=lambda group: -len(group.agents))  # stable: then by the first host


def place_text(place: Place | None) -> str:
    """A line as a person would say it."""
    return "a place that is not known" if place is None else _written(place, place.file)


def line_text(place: Place) -> str:
    """The same where there is little room: without the folder of its file."""
    return _written(place, place.file.rpartition("/")[2])


def _written(place: Place, file: str) -> str:
    name = shorten(place.function, LONGEST_NAME)
    if place.file == COMPILED:
        return f"{name}, inside jaxlib"
    return f"{shorten(file, LONGEST_NAME)}:{place.line} {name}"


def main_frames(stacks: Stacks) -> tuple[Place, ...]:
    """Where the main thread stands, the innermost frame last."""
    thread = next((thread for thread in stacks.threads if thread.is_main), None)
    thread = thread or (stacks.threads[0] if stacks.threads else None)
    return thread.frames if thread else ()


def is_waiting(stacks: Stacks) -> bool:
    """Whether the main thread waits in JAX."""
    frames = main_frames(stacks)
    inner = frames[_inside(frames) :]
    return bool(inner) and not _is_making(frames) and _is_of_jax(inner[-1], _WAITING)


def _group(hosts: list[Host]) -> StackGroup:
    first = hosts[0]
    frames = main_frames(first.stacks)
    return StackGroup(
        run=run_of(first),
        agents=tuple(host.agent for host in hosts),
        threads=first.stacks.threads,
        place=_place(frames),
        is_waiting=is_waiting(first.stacks),
        at_ms=min(host.stacks.at_ms for host in hosts),
        is_making=_is_making(frames),
    )


def _stand(frames: tuple[Place, ...]) -> tuple[object, ...]:
    """What two hosts must have alike: all frames, but how far it went on inside JAX is no difference."""
    end = _inside(frames)
    if end and any(map(_is_jax, frames[end:])):
        return frames[:end], _is_making(frames)
    return frames


def _is_making(frames: tuple[Place, ...]) -> bool:
    return any(_is_of_jax(frame, _MAKING) for frame in frames)


def _inside(frames: tuple[Place, ...]) -> int:
    """Where the script's own code ends and what it called begins."""
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
