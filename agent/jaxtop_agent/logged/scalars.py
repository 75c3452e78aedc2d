"""The last values of the scalars that a script logs, from the files that it or its writer has open."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple, Protocol

from jaxtop.base import debuglog
from jaxtop.base.protobuf import Malformed
from jaxtop.wire import Step
from jaxtop_agent.logged.files import children_of_this, open_files
from jaxtop_agent.logged.tensorboard import EventFile
from jaxtop_agent.logged.wandb import WandbFile
from jaxtop_agent.steps.progress import LONGEST_NAME, MOST_METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Files are looked for in every turn of so many. So many are read, for so many scalars.
LOOK_EVERY, MOST_FILES, MOST_SCALARS = 5, 8, 64


class LogFile(Protocol):
    """A file of scalars that grows."""

    path: Path

    def new_scalars(self) -> Iterator[tuple[str, int, float]]:
        """Yield what was added since the last time: name, step and value."""
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
    """The scalars of all these files. One thread looks; the last values are in `latest`.

    Each value is passed to `note`: its name, step and number.
    """

    def __init__(self, note: Callable[[str, int, float], None] = lambda *_: None) -> None:
        self._pass_on = note
        self._files: dict[tuple[int, int], LogFile] = {}
        self._scalars: dict[str, float] = {}
        self._step = self._reports = self._turn = 0
        self.latest: Step | None = None

    def look(self) -> None:
        """Read what was added to the files. A file that cannot be read is left out."""
        loaded = [each for each in WRITERS if any(name in sys.modules for name in each.modules)]
        if not loaded:
            return
        if self._turn % LOOK_EVERY == 0:
            self._find(loaded)
        self._turn += 1
        before = self._reports
        for key, file in list(self._files.items()):
            try:
                for name, step, value in file.new_scalars():
                    self._note(self._full_name(name, file), step, value)
            except (OSError, Malformed, ValueError) as error:
                debuglog.warning("logged", f"{file.path} cannot be read", error=error)
                del self._files[key]
        if self._reports != before:
            # Each pulse has them, so they are few; whether the run learns is what matters most.
            names = sorted(self._scalars, key=lambda name: "loss" not in name.lower())[:MOST_METRICS]
            self.latest = Step(self._step, self._reports, {name: self._scalars[name] for name in names})

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

    def _note(self, name: str, step: int, value: float) -> None:
        if name in self._scalars or len(self._scalars) < MOST_SCALARS:
            self._scalars[name] = value
            self._step = max(self._step, step)
            self._reports += 1
            self._pass_on(name, step, value)
