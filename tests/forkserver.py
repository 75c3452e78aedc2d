"""Starts scripts in forks of a process that has imported JAX, so that not every script imports it anew.

Such a script runs as under `python SCRIPT`, except that some modules are already imported. Tests of what
happens before or during the import of JAX start a new interpreter.
"""

from __future__ import annotations

import atexit
import ctypes
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import types
from functools import cache
from pathlib import Path
from typing import Any

PARENT_DIES, ADOPT_ORPHANS = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
IMPORTED = ("numpy", "jax", "jax.numpy", "jax.sharding", "msgspec", "zmq", "asyncio", "psutil")
# What libraries read once, when they are imported.
READ_AT_IMPORT = ("JAX_", "PYTHON", "OMP_", "OPENBLAS_", "LD_")
# The arguments of Popen._execute_child that are ends of pipes; the script has those of STREAMS.
STREAMS = ("p2cread", "c2pwrite", "errwrite")
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
LONGEST_REQUEST = 1 << 17


class Forked(subprocess.Popen[str]):
    """A script in a fork of the server; a child of the test like every other process."""

    _close_pipe_fds: Any

    def _execute_child(self, *words):
        given = inspect.signature(vars(subprocess.Popen)["_execute_child"]).bind(self, *words).arguments
        request = {"words": given["args"][1:], "env": given["env"], "cwd": str(given["cwd"] or os.getcwd())}
        ends = [number if given[name] == -1 else given[name] for number, name in enumerate(STREAMS)]
        self.pid = _server().start(request, ends)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in PIPES))


def can_fork(command: list[str], env: dict[str, str]) -> bool:
    """Whether a command is a Python script that sees the same variables as the server's imports did."""
    is_script = command[0] == sys.executable and command[1].endswith(".py")
    return is_script and _read_at_import(env) == _read_at_import(_server().env)


def _read_at_import(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_IMPORT)}


class Server:
    """The test's side of the server: a process that lives as long as the tests."""

    def __init__(self) -> None:
        self.env = {**os.environ, "JAX_PLATFORMS": "cpu"}
        self._asked = threading.Lock()
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A script is forked from a process that ends at once, and so becomes a child of this one.
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forkserver", str(theirs.fileno())],
                cwd=Path(__file__).parent.parent,
                env=self.env,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self._stop)

    def start(self, request: dict[str, object], ends: list[int]) -> int:
        with self._asked:
            socket.send_fds(self._end, [json.dumps(request).encode()], ends)
            return int(self._end.recv(64))

    def _stop(self) -> None:
        self._end.close()
        self._process.wait()


@cache
def _server() -> Server:
    return Server()


def serve(asked: socket.socket) -> tuple[dict[str, object], list[int]]:
    """Fork for each request; return in the fork, with what it is to run."""
    while True:
        raw, ends, _, _ = socket.recv_fds(asked, LONGEST_REQUEST, 3)
        if not raw:
            os._exit(0)
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            for end in ends:
                os.close(end)
            continue
        between = os.getpid()
        if pid := os.fork():
            asked.send(str(pid).encode())
            os._exit(0)
        while os.getppid() == between:
            os.sched_yield()
        ctypes.CDLL(None).prctl(PARENT_DIES, signal.SIGKILL)
        asked.close()
        return json.loads(raw), ends


def become(request: dict[str, Any], ends: list[int]) -> types.CodeType:
    """Make this process look like one that Python started for the script; return the script's code."""
    for number, end in enumerate(ends):
        os.dup2(end, number)
        os.close(end)
    os.chdir(request["cwd"])
    for name in os.environ.keys() - request["env"].keys():
        del os.environ[name]
    os.environ.update(request["env"])
    sys.argv = request["words"]
    path = Path(sys.argv[0])
    sys.path[0] = str(path.resolve().parent)
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    main.__file__ = sys.argv[0]
    del sys.modules["tests"]
    code = compile(path.read_bytes(), sys.argv[0], "exec")

    def show(kind, error, trace):
        while trace.tb_frame.f_code is not code:  # the frames of the server
            trace = trace.tb_next
        sys.__excepthook__(kind, error.with_traceback(trace), trace)

    sys.excepthook = show
    return code


if __name__ == "__main__":
    for each in IMPORTED:
        __import__(each)
    code = become(*serve(socket.socket(fileno=int(sys.argv[1]))))
    __name__ = "runpy"  # the agent takes this frame for Python's own, not for the script's
    exec(code, vars(sys.modules["__main__"]))
