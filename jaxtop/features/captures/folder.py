"""The files of a capture, in the layout that XProf and TensorBoard read."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop.base import private

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import BinaryIO

    from jaxtop.model import Host

_UNSAFE = re.compile(r"[^\w.-]+")
_TRACE = ".xplane.pb"


def file_name(host: Host) -> str:
    """Return the name of a host's trace: XProf shows what comes before the ending."""
    name = _UNSAFE.sub("-", host.hostname or "host").strip("-.")[:100] or "host"
    return f"{name}_{0 if host.process_index is None else host.process_index}{_TRACE}"


def file_names(hosts: Mapping[str, Host]) -> dict[str, str]:
    """Return the names of the traces of hosts; those that would be equal get a number."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for agent, host in hosts.items():
        name, number = file_name(host), 1
        stem = name.removesuffix(_TRACE)
        while name in taken:
            number += 1
            name = f"{stem}-{number}{_TRACE}"
        taken.add(name)
        found[agent] = name
    return found


class CaptureFolder:
    """A capture below a folder that may hold others: `plugins/profile/<time>/<host>.xplane.pb` for XProf.

    The merged trace and the summary lie in the folder itself, named after the time.
    """

    def __init__(self, root: Path) -> None:
        """Create the folders; raises `OSError`."""
        self.root = root
        runs = root / "plugins" / "profile"
        private.make(runs)
        taken = time.strftime("%Y_%m_%d_%H_%M_%S")
        number = 1
        while True:
            self.name = taken if number == 1 else f"{taken}_{number}"
            try:
                (runs / self.name).mkdir(private.FOLDER)
                break
            except FileExistsError:
                number += 1
        self.run = runs / self.name

    @property
    def perfetto(self) -> Path:
        return self.root / f"{self.name}.pftrace"

    @property
    def summary(self) -> Path:
        return self.root / f"{self.name}.json"

    def draft(self, name: str) -> BinaryIO:
        """Open the draft of a trace, which XProf does not take for one."""
        return os.fdopen(private.create(self.run / f".{name}.part"), "wb")

    def keep(self, name: str) -> Path:
        """Give a complete draft its name, and return it."""
        path = self.run / name
        (self.run / f".{name}.part").rename(path)
        return path

    def drop_drafts(self) -> None:
        """Remove what is not complete, and the folders if nothing is left in them."""
        for path in self.run.glob(".*.part"):
            path.unlink(missing_ok=True)
        for folder in (self.run, self.run.parent, self.run.parent.parent, self.root):
            with suppress(OSError):  # it is not empty
                folder.rmdir()
