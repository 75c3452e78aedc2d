"""Files that commands write for the user, and the line that shows how far they are."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from jaxtop.base import private
from jaxtop.base.names import as_file_name
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import legible

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def must_be_new(path: Path) -> None:
    """Raise `UserError` if there is a file of this name, also a link that leads nowhere."""
    if os.path.lexists(path):
        raise UserError(f"{path} already exists; choose another name, or remove it")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield the name of a draft to write. It becomes the file at the end, and is removed after an error."""
    must_be_new(path)
    draft = path.with_name(private.draft_of(as_file_name(path.name)))
    try:
        yield draft
        _rename(draft, path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}", 1) from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _rename(draft: Path, path: Path) -> None:
    """Give the draft its name, unless somebody has used it meanwhile."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        must_be_new(path)
    except OSError:  # a file system without links
        must_be_new(path)
        draft.rename(path)


class ProgressLine:
    """One line on standard error that is replaced again and again; nothing where that is not a terminal."""

    def __init__(self) -> None:
        self.is_terminal = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line; an empty text clears it."""
        if self.is_terminal:
            print(f"\r\x1b[K{legible(text)}", end="", file=sys.stderr, flush=True)
