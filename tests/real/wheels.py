"""Wheels and source archives of the project, as they are published."""

from __future__ import annotations

import sys
import zipfile
from email import message_from_bytes
from typing import TYPE_CHECKING

from tests.support import ROOT, run

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path


def built(target: str, folder: Path, project: Path = ROOT, **variables: str) -> Path:
    """Build with the backend itself: what a build in an environment of its own adds is time."""
    done = run(
        sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder,
        cwd=project, env={"PATH": "/usr/bin:/bin", **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = folder.iterdir()
    return path


def metadata(wheel: Path) -> Message:
    """Return the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))
