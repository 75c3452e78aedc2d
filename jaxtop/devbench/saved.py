"""The last result of `jaxtop probe`, in the user's state folder: what this user's devices can do.

One file, `jaxtop/probe.json`, which each probe replaces. Who shows it beside live figures reads it once with
`last()` and finds devices and collectives in it with `jaxtop.devbench.shown`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from jaxtop import private
from jaxtop.wire.probing import SCHEMA, Probe


def path() -> Path | None:
    """Where the last result is kept; None where the user has no home."""
    with suppress(RuntimeError):  # a container whose user has neither name nor HOME
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return Path(state) / "jaxtop" / "probe.json"
    return None


def last() -> Probe | None:
    """The last result; None if there is none, or it was written by a jaxtop that says more than we know."""
    file = path()
    if file is None:
        return None
    try:
        probe = msgspec.json.decode(file.read_bytes(), type=Probe)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return probe if probe.schema == SCHEMA else None


def keep(probe: Probe) -> Path | None:
    """Make this the last result; None where it cannot be kept."""
    file = path()
    if file is None:
        return None
    try:
        private.write(file.parent, file.name, msgspec.json.encode(probe))
    except OSError:
        return None
    return file
