"""The last values of the scalars that a script logs: from files that are open, and from calls of trackers."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from jaxtop.base import debuglog
from jaxtop.base.protobuf import Malformed
from jaxtop.wire import Step
from jaxtop_agent.logged.files import FileValue, children_of_this, open_files
from jaxtop_agent.logged.tensorboard import EventFile
from jaxtop_agent.logged.wandb import WandbFile
from jaxtop_agent.steps.progress import LONGEST_NAME, MOST_METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jaxtop_agent.hooks.trackers import LoggedCall, TrackerCalls

# Turns between two searches for files. The most files that are read, and the most scalars.
LOOK_EVERY, MOST_FILES, MOST_SCALARS = 5, 8, 64
# The characters of a run's name or id that are put before a scalar's name.
LONGEST_RUN = 12


class LoggedValue(NamedTuple):
    """A number that the script logged, from a file or a tracker (`origin`), and the run of the tracker.

    `has_gap` says that values before it were not seen. `at` is the time in the file.
    """

    name: str
    step: int
    value: float
    origin: str
    run: str = ""
    has_gap: bool = False
    at: float | None = None


FILE = "file"


class LogFile(Protocol):
    """A file of scalars that grows."""

    path: Path

    def new_scalars(self) -> Iterator[FileValue]:
        """Yield what was added since the last time."""
        ...


class LogWriter(NamedTuple):
    """A library that writes such files: its modules, what marks a name, and who has the file open."""

    modules: tuple[str, ...]
    mark: str
    file: Callable[[Path], LogFile]
    is_a_child: bool


WRITERS = (
    LogWriter(
        ("tensorboardX", "torch.utils.tensorboard", "tensorboard", "tensorflow"),
        ".tfevents.",
        EventFile,
        is_a_child=False,
    ),
    LogWriter(("wandb",), ".wandb", WandbFile, is_a_child=True),
)


class LoggedScalars:
    """The scalars of all these files and calls. One thread looks; the last values are in `latest`.

    Each value is passed to `note`.
    """

    def __init__(
        self, note: Callable[[LoggedValue], None] = lambda _: None, calls: TrackerCalls | None = None
    ) -> None:
        self._pass_on, self._calls = note, calls
        self._files: dict[tuple[int, int], LogFile] = {}
        self._scalars: dict[str, float] = {}
        self._runs = RunNames()
        self._step = self._reports = self._turn = 0
        self.latest: Step | None = None

    def read_new(self) -> None:
        """Read what was added to the files and what was called. A file that cannot be read is left out."""
        before = self._reports
        self._read_files()
        if self._calls is not None:
            self._calls.wrap_new()
            self._read_calls(self._calls)
        if self._reports != before:
            # Each pulse has them, so they are few; whether the run learns is what matters most.
            names = sorted(self._scalars, key=lambda name: "loss" not in name.lower())[:MOST_METRICS]
            self.latest = Step(self._step, self._reports, {name: self._scalars[name] for name in names})

    def _read_files(self) -> None:
        loaded = [each for each in WRITERS if any(name in sys.modules for name in each.modules)]
        if not loaded:
            return
        if self._turn % LOOK_EVERY == 0:
            self._find(loaded)
        self._turn += 1
        for key, file in list(self._files.items()):
            try:
                for name, step, value, at in file.new_scalars():
                    self._note(LoggedValue(self._full_name(name, file), step, value, FILE, at=at))
            except (OSError, Malformed, ValueError) as error:
                debuglog.warning("logged", f"{file.path} cannot be read", error=error)
                del self._files[key]

    def _read_calls(self, calls: TrackerCalls) -> None:
        found, has_gap = calls.take_calls()
        seen: set[tuple[str, str]] = set()
        for each in found:
            is_first = (each.tracker, each.name) not in seen
            seen.add((each.tracker, each.name))
            self._note(
                LoggedValue(
                    self._runs.name_of(each)[:LONGEST_NAME],
                    each.step,
                    each.value,
                    each.tracker,
                    each.run,
                    has_gap and is_first,
                )
            )

    def _find(self, writers: list[LogWriter]) -> None:
        for writer in writers:
            for path in open_files(children_of_this() if writer.is_a_child else ["self"], writer.mark):
                try:
                    status = path.stat()
                except OSError:  # deleted: its name says so, too
                    continue
                key = status.st_dev, status.st_ino
                if key not in self._files and len(self._files) < MOST_FILES:
                    self._files[key] = writer.file(path)

    def _full_name(self, name: str, file: LogFile) -> str:
        """Return the name; with the folder of its file where there are several, as TensorBoard shows it."""
        folders = {each.path.parent for each in self._files.values()}
        return (name if len(folders) == 1 else f"{file.path.parent.name}/{name}")[:LONGEST_NAME]

    def _note(self, read: LoggedValue) -> None:
        if read.name in self._scalars or len(self._scalars) < MOST_SCALARS:
            self._scalars[read.name] = read.value
            self._step = max(self._step, read.step)
            self._reports += 1
            self._pass_on(read)


class RunNames:
    """The names of scalars of several runs in one process.

    Runs that follow each other, as in a search, log under the same names. Runs that take turns are told apart
    by the run before the name.
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], deque[str]] = {}
        self._takes_turns: set[str] = set()  # trackers

    def name_of(self, call: LoggedCall) -> str:
        runs = self._runs.setdefault((call.tracker, call.name), deque(maxlen=MOST_FILES))
        if not runs or runs[-1] != call.run:
            if call.run in runs:
                self._takes_turns.add(call.tracker)
            runs.append(call.run)
        if len(self._runs) > MOST_SCALARS:
            self._runs.pop(next(iter(self._runs)))
        return f"{call.run[:LONGEST_RUN]}/{call.name}" if call.tracker in self._takes_turns else call.name
