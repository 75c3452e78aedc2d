"""Run files: with these a user's viewers find the agents on a machine, as Jupyter finds its kernels."""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from jaxtop import wire
from jaxtop.base import private, processes
from jaxtop.base.names import reason
from jaxtop.wire import Bye, Hello

if TYPE_CHECKING:
    from collections.abc import Iterable


class RunFile(NamedTuple):
    """A run file: its path, what the agent wrote, and whether its process is known to be gone."""

    path: Path
    hello: Hello
    is_stale: bool


class FailedAgent(msgspec.Struct, frozen=True):
    """A process in which the agent could not start: its identity, its name, and the reason."""

    pid: int
    ticks: int | None
    boot: str
    pid_namespace: str
    name: str
    why: str


class EndedScript(msgspec.Struct, frozen=True):
    """The file that the agent of an ended script leaves to later viewers: its identity and its goodbye."""

    hello: Hello
    bye: Bye


class PastProcess(NamedTuple):
    """A process of this user that has ended: when, and whether it died without a goodbye."""

    at: float
    hello: Hello
    is_dead: bool


_T = TypeVar("_T")
UNSHOWN, ENDED, DIED = ".unshown", ".ended", ".died"
# Endings are removed after a day, and the older half of them where there are too many.
ENDINGS_KEPT_S, MOST_ENDINGS = 86_400.0, 512


def folders() -> list[Path]:
    """Return where run files may be; agents write to the first that works, viewers read all."""
    found = []
    # The runtime folder is not set in every session (ssh, cron, containers); the state folder is known to
    # all.
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        found.append(Path(runtime) / "jaxtop")
    with suppress(RuntimeError):  # a container whose user has neither name nor HOME
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        found.append(Path(state) / "jaxtop" / "runs")
    return found


def write(hello: Hello) -> str | None:
    """Write or renew the run file of this agent; return the reason if no folder could be used."""
    folder, why = _write(f"{hello.agent}.json", _plain(hello))
    return None if folder is not None else why


def _write(name: str, content: object) -> tuple[Path | None, str]:
    """Write a file to the first usable folder; return that, if any, and why the one before is not."""
    text, why = msgspec.json.encode(content), "there is no home folder"
    for folder in folders():
        try:
            secure(folder)
            private.write(folder, name, text)
        except OSError as error:
            why = _why_not(folder, error)
        else:
            return folder, why
    return None, why


def _plain(message: wire.Message) -> object:
    """Return a message as plain values; the wire format replaces text that is not valid Unicode."""
    return msgspec.msgpack.decode(wire.encode(message))


def _why_not(folder: Path, error: OSError) -> str:
    return f"{folder} cannot be used: {reason(error)}"


def secure(folder: Path) -> None:
    """Create this folder of run files, for its user alone; raise OSError if it cannot be used."""
    if folder.name == "runs":  # its parent is ours, too
        with private.opened(folder.parent):
            pass
    with private.opened(folder):
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, "it cannot be written", str(folder))


def usable() -> tuple[Path | None, list[str]]:
    """Return the first folder that can be used, if any, and why each before it cannot."""
    whys = []
    for folder in folders():
        try:
            secure(folder)
        except OSError as error:
            whys.append(_why_not(folder, error))
        else:
            return folder, whys
    return None, whys


def why_hidden() -> str | None:
    """Return why live runs cannot be found on this machine, and what to do; None if they can."""
    folder, whys = usable()
    if folder is not None:
        return None
    if not whys:
        return "live runs cannot be looked for: there is no home folder; set HOME"
    help_ = "set XDG_STATE_HOME to a folder that you own"
    return f"live runs cannot be looked for: {'; '.join(whys)}; {help_}"


def explain(name: str | None, error: BaseException) -> None:
    """Store why this process is not shown, for `jaxtop ls`; do nothing if no folder can be written."""
    pid, place = os.getpid(), processes.here()
    ticks = processes.start_ticks(pid)
    why = str(error).strip().split("\n", 1)[0][:200] or type(error).__name__
    name = name or (Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python")
    _write(f"{pid}{UNSHOWN}", FailedAgent(pid, ticks, place.boot, place.pid_namespace, name, why))


def explain_no_more() -> None:
    """Remove what `explain` stored: this process is shown after all."""
    _remove(f"{os.getpid()}{UNSHOWN}")


def unshown() -> list[FailedAgent]:
    """Return living processes of this user that are not shown; remove the files of dead ones."""
    found = []
    for folder in filter(private.is_ours, folders()):
        for path in folder.glob(f"*{UNSHOWN}"):
            if (each := _decoded(path, FailedAgent)) is None:
                continue
            place = processes.Namespace(each.boot, each.pid_namespace)
            if processes.is_gone(place, each.pid, each.ticks):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            else:
                found.append(each)
    return found


def remove(agent: str) -> None:
    _remove(f"{agent}.json")


def _remove(name: str) -> None:
    for folder in folders():
        with suppress(OSError):
            (folder / name).unlink(missing_ok=True)


def leave(hello: Hello, bye: Bye) -> None:
    """Leave the goodbye of a script that has ended; do nothing if no folder can be written."""
    folder, _ = _write(f"{hello.agent}{ENDED}", {"hello": _plain(hello), "bye": _plain(bye)})
    if folder is not None:
        _thin_out(folder, ENDED)


def _thin_out(folder: Path, suffix: str) -> None:
    """Remove the older half of the files with this suffix, if there are too many."""
    with suppress(OSError):
        paths = list(folder.glob(f"*{suffix}"))
        if len(paths) > MOST_ENDINGS:
            paths.sort(key=lambda path: path.stat().st_mtime)
            for path in paths[: len(paths) // 2]:
                path.unlink(missing_ok=True)


def ending(agent: str) -> EndedScript | None:
    """Return what this agent left at the end of its script; None if there is nothing."""
    if not agent.isalnum():  # it comes from a roster, and becomes the name of a file
        return None
    found = (
        _decoded(folder / f"{agent}{ENDED}", EndedScript) for folder in folders() if private.is_ours(folder)
    )
    return next((each for each in found if each is not None), None)


def endings() -> list[EndedScript]:
    """Return what agents of this user left within a day, the latest first; remove what is older."""
    found = []
    for folder in filter(private.is_ours, folders()):
        for path in folder.glob(f"*{ENDED}"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > ENDINGS_KEPT_S:
                    path.unlink(missing_ok=True)
                elif (each := _decoded(path, EndedScript)) is not None:
                    found.append(each)
    return sorted(found, key=lambda each: -each.bye.at_ms)


def still_exits(hello: Hello) -> bool:
    """Whether the process of a script that has ended is still there; False if this machine cannot tell."""
    place = processes.Namespace(hello.boot, hello.pid_namespace)
    return processes.is_gone(place, hello.pid, hello.process_started_ticks) is False


def past() -> list[PastProcess]:
    """Return the processes of this user that ended or died within a day, the latest first."""
    found = [PastProcess(each.bye.at_ms / 1000, each.hello, is_dead=False) for each in endings()]
    for folder in filter(private.is_ours, folders()):
        for path in folder.glob(f"*{DIED}"):
            with suppress(OSError):
                at = path.stat().st_mtime
                if time.time() - at > ENDINGS_KEPT_S:
                    path.unlink(missing_ok=True)
                elif (hello := _decoded(path, Hello)) is not None:
                    found.append(PastProcess(at, hello, is_dead=True))
    return sorted(found, key=lambda each: -each.at)


def _keep_dead(run_file: RunFile) -> None:
    """Keep the run file of a dead process under another name for a day, as what is left of its run."""
    kept = run_file.path.with_suffix(DIED)
    with suppress(OSError):  # a home may be mounted read-only
        os.utime(run_file.path)
        run_file.path.replace(kept)
        _thin_out(kept.parent, DIED)


def _decoded(path: Path, kind: type[_T]) -> _T | None:
    """Return what a file of this user contains; None if it cannot be read, or is something else."""
    try:
        return msgspec.json.decode(private.read(path), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def read(path: Path) -> RunFile | None:
    """Return the run file at this path; None if it is not a run file, or another user's."""
    hello = _decoded(path, Hello)
    if hello is None:
        return None
    place = processes.Namespace(hello.boot, hello.pid_namespace)
    return RunFile(path, hello, bool(processes.is_gone(place, hello.pid, hello.process_started_ticks)))


def find() -> list[RunFile]:
    paths = {path for folder in folders() if private.is_ours(folder) for path in folder.glob("*.json")}
    found = [run_file for path in paths if (run_file := read(path)) is not None]
    return sorted(found, key=lambda run_file: (-run_file.hello.started_ms, run_file.hello.agent))


def together(hellos: Iterable[Hello]) -> list[list[Hello]]:
    """Return agents that are shown together: those of a run, and of runs of one family."""
    found: list[tuple[set[str], list[Hello]]] = []
    for hello in hellos:
        keys, members = {each for each in (hello.agent, hello.run, hello.family) if each is not None}, [hello]
        apart = []
        for known in found:
            if known[0] & keys:
                keys, members = known[0] | keys, known[1] + members
            else:
                apart.append(known)
        found = [*apart, (keys, members)]
    return [members for _, members in found]


def tidy(found: list[RunFile]) -> list[RunFile]:
    """Set the run files of dead processes aside, and return the rest.

    A dead process whose run still lives keeps its file, which is the evidence that the process died.
    """
    living = {run_file.hello.run for run_file in found if not run_file.is_stale} - {None}
    kept = []
    for run_file in found:
        if run_file.is_stale and run_file.hello.run not in living:
            _keep_dead(run_file)
        else:
            kept.append(run_file)
    return kept
