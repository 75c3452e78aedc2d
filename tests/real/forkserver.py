"""Starts scripts and jaxtop commands in forks of a process that has imported what they import.

A script finds JAX imported, a command of jaxtop the modules of the command line. The agent's modules are
imported when the script or the agent imports them, though not executed again. Everything else is as under
`python SCRIPT` and `python -m jaxtop`. Tests of what happens before or during an import start a new one.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import gc
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import types
from collections import defaultdict
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

COMMAND = ["-m", "jaxtop"]
MAIN = Path(__file__).parents[2] / "jaxtop" / "__main__.py"
PARENT_DIES, ADOPT_ORPHANS = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
# What the server of scripts imports. That of commands imports their modules, which know nothing of JAX.
OF_SCRIPTS = ("numpy", "jax", "jax.numpy", "jax.sharding", "msgspec", "zmq", "asyncio", "psutil")
AGENT = ("jaxtop", "jaxtop_agent")
# What is read once, when it is imported: by libraries, and by jaxtop in commands.
READ_AT_IMPORT = ("JAX_", "PYTHON", "OMP_", "OPENBLAS_", "LD_")
DEBUG = "JAXTOP_DEBUG"
# What a fork takes over of the options of Popen.
OPTIONS = {"args", "env", "cwd", "text", "stdin", "stdout", "stderr"}
# The arguments of Popen._execute_child that are ends of pipes; the script has those of STREAMS.
OPENED = {"stdin": ("r", -1), "stdout": ("w", -1), "stderr": ("w", 1)}
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
        self.pid = _server(_kind(given["args"][1:])).start(request, ends)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in PIPES))


def can_fork(command: list[str], options: dict[str, Any]) -> bool:
    """Whether a server has imported what this command imports, under the same variables."""
    if command[0] != sys.executable or not options.keys() <= OPTIONS:
        return False
    kind = _kind(command[1:])
    if kind is None or (kind == "command" and DEBUG in options["env"]):
        return False
    return _read_at_import(options["env"]) == _read_at_import(_server(kind).env)


def _kind(words: list[str]) -> str | None:
    """Return which server can start a process with these words."""
    if words[:2] == COMMAND:
        return "command"
    return "script" if words[0].endswith(".py") else None


def _read_at_import(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_IMPORT)}


class Server:
    """The test's side of the server: a process that lives as long as the tests."""

    def __init__(self, kind: str) -> None:
        self.env = {**os.environ, "JAX_PLATFORMS": "cpu"}
        self._asked = threading.Lock()
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A script is forked from a process that ends at once, and so becomes a child of this one.
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.real.forkserver", kind, str(theirs.fileno())],
                cwd=Path(__file__).parents[2],
                env=self.env,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self.pid = self._process.pid
        atexit.register(self._stop)

    def start(self, request: dict[str, object], ends: list[int]) -> int:
        with self._asked:
            socket.send_fds(self._end, [json.dumps(request).encode()], ends)
            return int(self._end.recv(64))

    def _stop(self) -> None:
        self._end.close()
        self._process.wait()


_servers: dict[str, Server] = {}


def _server(kind: str) -> Server:
    if kind not in _servers:
        _servers[kind] = Server(kind)
    return _servers[kind]


def pids() -> set[int]:
    """Return the processes of the servers that this process has started."""
    return {each.pid for each in _servers.values()}


def imported(kind: str) -> list[str]:
    """Return the modules that a server of this kind imports."""
    if kind == "script":
        return list(OF_SCRIPTS)
    from jaxtop.cli import COMMANDS  # scripts import jaxtop themselves

    return ["jaxtop.sources.discovery", "jaxtop.export", *(each.module for each in COMMANDS.values())]


class Aside(MetaPathFinder, Loader):
    """The modules of the agent: a script finds none of them imported, and gets these when it imports them."""

    def __init__(self) -> None:
        self._imports: dict[str, set[str]] = defaultdict(set)  # of each module
        really = builtins.__import__
        builtins.__import__ = partial(self._note, really)
        from jaxtop_agent.loading import MODULES
        from jaxtop_agent.service import agent  # noqa: F401

        for name in MODULES:
            import_module(name)
        builtins.__import__ = really
        own = [name for name in sys.modules if name.partition(".")[0] in AGENT]
        self._modules = {name: sys.modules.pop(name) for name in own}
        self._specs = {name: module.__spec__ for name, module in self._modules.items()}
        for name in own:
            parent, _, last = name.rpartition(".")
            if parent:
                delattr(self._modules[parent], last)

    def _note(self, really, name, variables=None, local=None, wanted=(), *level):
        importing = (variables or {}).get("__name__", "")
        self._imports[importing] |= {name, *(f"{name}.{each}" for each in wanted or ())}
        return really(name, variables, local, wanted, *level)

    def find_spec(self, name, path=None, target=None):
        """Find the module where Python would, so that the script's own path decides."""
        if name not in self._modules:
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is not None and found.origin == self._modules[name].__file__:
            found.loader = self
        return found

    def create_module(self, spec):
        return self._modules.pop(spec.name)

    def exec_module(self, module) -> None:
        """Import what it has imported, too."""
        module.__spec__ = self._specs[module.__name__]
        for name in sorted(self._imports[module.__name__]):
            if name in self._modules:
                import_module(name)


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
        if os.fork():
            os._exit(0)
        while os.getppid() == between:
            os.sched_yield()
        ctypes.CDLL(None).prctl(PARENT_DIES, signal.SIGKILL)
        asked.send(str(os.getpid()).encode())  # now it is the test's child: only then its status can be read
        asked.close()
        return json.loads(raw), ends


def become(request: dict[str, Any], ends: list[int]) -> types.CodeType:
    """Make this process look like one that Python started for the script or command; return its code."""
    for number, end in enumerate(ends):
        os.dup2(end, number)
        os.close(end)
    for number, (name, opened) in enumerate(OPENED.items()):
        old = getattr(sys, name)  # it remembers whether what it was opened on can seek
        new: Any = os.fdopen(number, *opened, encoding=old.encoding, errors=old.errors, closefd=False)
        new.buffer.raw.name = f"<{name}>"  # as Python calls it in errors
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    os.chdir(request["cwd"])
    for name in os.environ.keys() - request["env"].keys():
        del os.environ[name]
    os.environ.update(request["env"])
    words = request["words"]
    if words[:2] == COMMAND:
        sys.argv = [str(MAIN), *words[2:]]
        sys.path[0] = request["cwd"]
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
    path = Path(sys.argv[0]).absolute()
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    main.__file__ = str(path)
    del sys.modules["tests"]
    code = compile(path.read_bytes(), str(path), "exec")

    def show(kind, error, trace):
        own = trace
        while own is not None and own.tb_frame.f_code is not code:
            own = own.tb_next
        trace = own or trace  # without the frames of the server, which a console has left out already
        sys.__excepthook__(kind, error.with_traceback(trace), trace)

    sys.excepthook = show
    return code


if __name__ == "__main__":
    for each in imported(sys.argv[1]):
        __import__(each)
    aside = Aside() if sys.argv[1] == "script" else None
    gc.freeze()  # what is here lasts: no fork searches it for garbage, above all at its end
    request, ends = serve(socket.socket(fileno=int(sys.argv[2])))
    if aside is not None and DEBUG not in request["env"]:
        sys.meta_path.insert(0, aside)
    code = become(request, ends)
    __name__ = "runpy"  # the agent takes this frame for Python's own, not for the script's
    exec(code, vars(sys.modules["__main__"]))
