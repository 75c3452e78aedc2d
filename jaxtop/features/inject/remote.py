"""The way through Python itself, from 3.14 on: the main thread runs a file between two of its lines."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop.base.names import legible, shorten
from jaxtop.features.inject.target import InjectionRefused

if TYPE_CHECKING:
    from jaxtop.features.inject.request import InjectionRequest
    from jaxtop.features.inject.target import Target

SINCE = (3, 14)
# A main thread that runs Python takes the request within milliseconds.
TAKEN_WITHIN = 3.0
_CODE = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"


def why_not(target: Target) -> str | None:
    """Return why this way does not exist for this process; None if it does."""
    return None if target.python[:2] >= SINCE else "its Python is older than 3.14"


def start(target: Target, request: InjectionRequest) -> None:
    """Start the request on the main thread; raise `InjectionRefused` if that thread does not take it soon."""
    as_user: dict[str, Any] = {}
    # Python reads this file whenever it gets to it: it stays until then, and removes itself.
    with tempfile.NamedTemporaryFile(
        "w", prefix="jaxtop-inject-", suffix=".py", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"{request.line}__import__('os').unlink({file.name!a})\n")
        if os.geteuid() != target.uid:  # root, for another user, whose Python must not run as root
            os.fchown(file.fileno(), target.uid, target.gid)
            as_user = {"user": target.uid, "group": target.gid, "extra_groups": [], "env": {}}
    path = Path(file.name)
    try:
        # Only the same version of Python can do this, so the program of the process itself does.
        done = subprocess.run(
            [target.program, "-I", "-S", "-c", _CODE, str(target.pid), file.name],
            stdin=subprocess.DEVNULL, start_new_session=True, capture_output=True, text=True, timeout=20,
            check=False, **as_user,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        path.unlink(missing_ok=True)
        raise InjectionRefused(f"Python of pid {target.pid} cannot be run: {error}") from None
    if done.returncode:
        path.unlink(missing_ok=True)
        last = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise InjectionRefused(f"pid {target.pid} takes no code: {shorten(legible(last), 200)}")
    if not request.until_taken(TAKEN_WITHIN):
        raise InjectionRefused(f"the main thread of pid {target.pid} runs no Python now")
