"""Which native function says what a thread waits for, and which threads communicate."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.wire import NativeFrame

# Frames of the interpreter are one line: its own stack is shown beside.
PYTHON = "python"
# Functions through which everything waits, and through which everything calls Python or is called by it.
_PLUMBING = re.compile(
    r"^(?:std|__gnu_cxx|absl|Eigen|nanobind|pybind11|__\w*cxx\w*)::|^Absl|^(?:tsl::)?PThread|^operator|^__?[a-z]"
    r"|::(?:BlockUntilReady\w*|WaitForNotification\w*|operator\(\)|__invoke)$|^(?:nsync|folly)_?"
    r"|^_?Py[A-Z][A-Za-z]*_|_tp_\w+$"
)
# Libraries through which Python calls any function.
_CALLING = re.compile(r"^(?:_ctypes|_cffi_backend)\b|^libffi[-.]")
# Libraries of the system, which wait for whoever called them.
_SYSTEM = re.compile(r"^(?:(?:libc|libm|libpthread|libstdc\+\+|libgcc_s|ld-linux|ld-musl)[-.]|\[vdso\])")
# Functions of libraries that communicate.
_COMMUNICATION = re.compile(
    r"nccl|rccl|gloo|mpi_|ucp_|ucc_|Collective|Communicator|Rendezvous|AllReduce|AllGather|AllToAll"
    r"|ReduceScatter|Broadcast|SendRecv|Barrier|CrossHost",
    re.IGNORECASE,
)
# Threads of such libraries that wait here whenever there is nothing to do.
_IDLE = re.compile(
    r"gloo::transport::\w+::Loop::run|[nr]cclProxy|[nr]cclRas|rasThreadMain|CoordinationService|WaitForWork"
)


def waits_in(frames: Sequence[NativeFrame]) -> str:
    """Return the function that says what a thread waits for; empty if none does.

    That is the innermost one of a library that communicates, or else the innermost of no general library.
    What called the innermost Python code does not wait: that code does. The innermost frame comes last.
    """
    named = [each.function for each in _inside_python(frames) if _says_something(each)]
    return next(filter(_COMMUNICATION.search, named), named[0] if named else "")


def communicates(frames: Sequence[NativeFrame]) -> bool:
    """Return whether a thread is in the midst of communication; one that waits for work is not."""
    inside = [each.function for each in _inside_python(frames)]
    return any(map(_COMMUNICATION.search, inside)) and not any(_IDLE.search(each.function) for each in frames)


def is_of_system(library: str) -> bool:
    return _SYSTEM.match(library) is not None


def _inside_python(frames: Sequence[NativeFrame]) -> Iterator[NativeFrame]:
    """Yield the frames that the innermost Python code has called, the innermost first."""
    return takewhile(lambda each: each.library != PYTHON, reversed(frames))


def _says_something(frame: NativeFrame) -> bool:
    name, library = frame.function, frame.library
    if not name or library == PYTHON or _SYSTEM.match(library) or _CALLING.match(library):
        return False
    return _PLUMBING.search(name) is None or _COMMUNICATION.search(name) is not None
