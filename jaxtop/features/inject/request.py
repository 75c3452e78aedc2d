"""The request to start the agent: a folder that the process and the command share while it is open."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from jaxtop import __version__

if TYPE_CHECKING:
    from jaxtop.features.inject.target import Target

# How long the process waits for an import of JAX that is under way.
IMPORT_TAKES = 20.0
MAX_ANSWER = 1 << 16


class InjectionRequest:
    """Whoever renames the file `request` first decides: the process takes it, or the command withdraws it."""

    import_takes = IMPORT_TAKES

    def __init__(self, target: Target, settings: dict[str, object]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jaxtop-inject-"))
        begin = {"folder": str(self.folder), "version": __version__, "settings": settings}
        given = json.dumps({**begin, "patience": IMPORT_TAKES})
        text = Path(__file__).with_name("bootstrap.py").read_text("utf-8")
        (self.folder / "start.py").write_text(
            f"{text}\n\nbegin(**__import__('json').loads({given!a}))\n", "utf-8"
        )
        (self.folder / "request").touch()
        # Root works for another user here, who could replace files in a folder of theirs.
        if os.geteuid() != target.uid:
            for each in (*self.folder.iterdir(), self.folder):
                os.chown(each, target.uid, target.gid, follow_symlinks=False)

    @property
    def line(self) -> str:
        """The Python that the process is to run. It leaves no name and no exception in the script."""
        builtins = "__import__('builtins')"
        path = ascii(str(self.folder / "start.py"))
        text = f"__import__('pathlib').Path({path}).read_text('utf-8')"  # which closes the file
        given = "{'__name__': 'jaxtop_inject'}"
        return (
            f"try:\n {builtins}.exec({builtins}.compile({text}, 'jaxtop inject', 'exec'), {given})\n"
            f"except {builtins}.Exception:\n pass\n"
        )

    @property
    def is_taken(self) -> bool:
        return not (self.folder / "request").exists()

    def until_taken(self, seconds: float) -> bool:
        """Wait until the process has taken the request; return whether it has."""
        end = time.monotonic() + seconds
        while not self.is_taken and time.monotonic() < end:
            time.sleep(0.02)
        return self.is_taken

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """Wait for the answer of the process; None if none came, or none that can be read."""
        end = time.monotonic() + seconds
        path = self.folder / "answer"
        while not path.exists():
            if time.monotonic() > end:
                return None
            time.sleep(0.02)
        with suppress(ValueError, OSError):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(fd, "rb") as file:
                found = json.loads(file.read(MAX_ANSWER))
                return found if isinstance(found, dict) else None
        return None

    def withdraw(self) -> bool:
        """Withdraw the request; return False if the process has taken it."""
        try:
            (self.folder / "request").rename(self.folder / "withdrawn")
        except OSError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.withdraw()
        shutil.rmtree(self.folder, ignore_errors=True)
