"""The way through gdb: it stops the process for a moment, starts a thread in it, and leaves."""

from __future__ import annotations

import base64
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop.injection import payload
from jaxtop.injection.target import Refused, check_threads
from jaxtop.names import legible, shorten

if TYPE_CHECKING:
    from jaxtop.injection.request import Request
    from jaxtop.injection.target import Target

MARK = "jaxtop: "
# The script looks for a moment to attach for this long; then gdb has a little longer, if a call of it hangs.
ATTACHES_WITHIN, LONGEST_ATTACH, LONGEST = 15.0, 25.0, 90.0
ENDS_WITHIN = 5.0
# Older ones know a fixed size of the registers that ptrace writes; with AMX there are more.
FIRST_WITH_AMX = 14
_OPTIONS = (
    *("-nx", "-nh", "-batch", "-iex", "set auto-solib-add off", "-iex", "set auto-load no"),
    *("-iex", "set sysroot /", "-iex", "set debuginfod enabled off"),
)


def why_not() -> str | None:
    """Return why gdb cannot be used here; None if it can."""
    if platform.machine() != "x86_64":
        return f"the way through gdb is for x86-64, and this is {platform.machine()}"
    gdb = shutil.which("gdb")
    if gdb is None:
        instead = "; lldb cannot take its place" if shutil.which("lldb") else ""
        return f"gdb is not installed (apt-get install gdb){instead}"
    version = _version(gdb)
    if version < FIRST_WITH_AMX and " amx_tile " in Path("/proc/cpuinfo").read_text("utf-8"):
        return (
            f"gdb {version} cannot write registers on this processor: install gdb {FIRST_WITH_AMX} or newer"
        )
    return None


def _version(gdb: str) -> int:
    said = subprocess.run(
        [gdb, *_OPTIONS[:2], "--version"], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r" (\d+)\.\d", said)
    return int(found[1]) if found else 0


def start(target: Target, request: Request) -> float:
    """Start the request in the process; return for how long this held the process, in seconds."""
    check_threads(target.pid)
    plan = {
        "pid": target.pid,
        "attaches_within": ATTACHES_WITHIN,
        "addresses": target.addresses,
        "code": target.code,
        "code_bytes": _base64(payload.CODE),
        "data": _base64(payload.data(target.addresses, request.line)),
    }
    coded = _base64(json.dumps(plan).encode())
    script = Path(__file__).with_name("in_gdb.py")
    # In a session of its own, Ctrl-C does not reach it: it always finishes its calls, and leaves.
    gdb = subprocess.Popen(
        [shutil.which("gdb") or "gdb", *_OPTIONS, "-ex", f"python CODED = '{coded}'", "-x", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
    )
    try:
        said, output = _follow(gdb, target)
    finally:
        _release(target)
    if "stopped_s" not in said or said["why"]:
        lines = output.strip().splitlines() or [f"it ended with status {gdb.returncode}"]
        why = said.get("why") or f"gdb failed: {lines[-1]}"
        raise Refused(f"pid {target.pid}: {shorten(legible(why), 300)}{_filtered(why)}")
    return float(said["stopped_s"])


def _base64(text: bytes) -> str:
    return base64.b64encode(text).decode()


def _follow(gdb: subprocess.Popen[bytes], target: Target) -> tuple[dict[str, Any], str]:
    """Return what gdb's script said last, and all other output.

    Before its first call, gdb may be ended at any time, and lets go of the process. In a call it is left.
    """
    assert gdb.stdout is not None
    os.set_blocking(gdb.stdout.fileno(), False)
    said: dict[str, Any] = {}
    output = unread = ""
    began = time.monotonic()
    while True:
        ended = gdb.poll() is not None
        unread += (gdb.stdout.read() or b"").decode("utf-8", "replace")
        *lines, unread = unread.split("\n")
        for line in lines:
            if line.startswith(MARK):
                said = json.loads(line.removeprefix(MARK))
            else:
                output += f"{line}\n"
        if ended:
            gdb.stdout.close()
            return said, output + unread
        waited = time.monotonic() - began
        if not said and waited > LONGEST_ATTACH:
            _end(gdb)
            raise Refused(f"pid {target.pid}: gdb could not attach within {LONGEST_ATTACH:.0f} s")
        if waited > LONGEST:
            raise Refused(
                f"gdb (pid {gdb.pid}) waits for a lock in pid {target.pid}, and leaves by itself: let it"
            )
        time.sleep(0.01)


def _filtered(why: str) -> str:
    """Return the reason why the kernel did not permit what it otherwise would, if there is one."""
    if "not permitted" not in why or "\nSeccomp:\t2" not in Path("/proc/self/status").read_text("utf-8"):
        return ""
    return "; this shell has a seccomp filter, as in a container: start that with --cap-add SYS_PTRACE"


def _end(gdb: subprocess.Popen[bytes]) -> None:
    for stop in (gdb.terminate, gdb.kill):
        stop()
        with suppress(subprocess.TimeoutExpired):
            gdb.wait(ENDS_WITHIN)
            return


def _release(target: Target) -> None:
    """Continue the process if gdb has left it stopped, which it does only when something ended gdb."""
    with suppress(OSError):
        status = Path(f"/proc/{target.pid}/status").read_text("utf-8", errors="replace")
        if "\nState:\tT" in status and "\nTracerPid:\t0\n" in status and target.is_same:
            os.kill(target.pid, signal.SIGCONT)
