"""The last result of `jaxtop probe`, in the user's state folder.

Each probe replaces the one file, `jaxtop/probe.json`. To compare it with live figures, read it once with
`last()` and find devices and collectives in it with `jaxtop.store.probe_figures`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from jaxtop.base import private
from jaxtop.wire.probing import SCHEMA, Probe


def path() -> Path | None:
    """Return where the last result is stored; None where the user has no home."""
    with suppress(RuntimeError):  # a container whose user has neither name nor HOME
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return Path(state) / "jaxtop" / "probe.json"
    return None


def last() -> Probe | None:
    """Return the last result; None if there is none, or if a jaxtop with another schema wrote it."""
    file = path()
    if file is None:
        return None
    try:
        probe = msgspec.json.decode(file.read_bytes(), type=Probe)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return probe if probe.schema == SCHEMA else None


def keep(probe: Probe) -> Path | None:
    """Store this as the last result; return its path, or None if it cannot be stored."""
    file = path()
    if file is None:
        return None
    try:
        private.write(file.parent, file.name, msgspec.json.encode(probe))
    except OSError:
        return None
    return file
