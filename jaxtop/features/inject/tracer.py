"""The way through ptrace: one thread of the process is stopped for a moment, and starts another one."""

from __future__ import annotations

import base64
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base.names import legible, shorten
from jaxtop.features.inject import payload
from jaxtop.features.inject.target import InjectionRefused, check_threads

if TYPE_CHECKING:
    from jaxtop.features.inject.request import InjectionRequest
    from jaxtop.features.inject.target import Target

# The seconds in which a moment to attach must come.
ATTACH_TIMEOUT = 15.0
# The seconds that the injection may take, if a call in the process hangs.
INJECTION_TIMEOUT = 90.0


def why_not() -> str | None:
    """Return why ptrace cannot be used here; None if it can."""
    machine = platform.machine()
    return None if machine == "x86_64" else f"the way through ptrace is for x86-64, and this is {machine}"


def start(target: Target, request: InjectionRequest) -> float:
    """Start the request in the process; return for how long this held one thread of it, in seconds."""
    check_threads(target.pid)
    plan = {
        "pid": target.pid,
        "attaches_within": ATTACH_TIMEOUT,
        "addresses": target.addresses,
        "code": target.code,
        "code_bytes": _base64(payload.CODE),
        "data": _base64(payload.data(target.addresses, request.line)),
    }
    # In a session of its own, Ctrl-C does not reach it: it always finishes its calls, and leaves.
    borrower = subprocess.Popen(
        [sys.executable, "-IS", Path(__file__).with_name("borrow.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = borrower.communicate(json.dumps(plan), INJECTION_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise InjectionRefused(
            f"pid {borrower.pid} waits for a lock in pid {target.pid}, and leaves by itself: let it"
        ) from None
    if not output:
        last = (errors.strip().splitlines() or [f"it ended with status {borrower.returncode}"])[-1]
        raise InjectionRefused(f"pid {target.pid}: {shorten(legible(last), 300)}")
    result = json.loads(output)
    if why := result.get("why"):
        raise InjectionRefused(f"pid {target.pid}: {why}{_filtered(why)}")
    return float(result["held_s"])


def _base64(text: bytes) -> str:
    return base64.b64encode(text).decode()


def _filtered(why: str) -> str:
    """Return the reason why the kernel did not permit what it otherwise would, if there is one."""
    if "not permitted" not in why or "\nSeccomp:\t2" not in Path("/proc/self/status").read_text("utf-8"):
        return ""
    return "; this shell has a seccomp filter, as in a container: start that with --cap-add SYS_PTRACE"
