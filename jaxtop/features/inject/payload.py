"""The code that is put into a process: a function that runs a line of Python on a thread of its own.

The calls of a borrowed thread must be short, because it is in the middle of something else. So it only
creates another one; the new thread waits for the GIL as long as it must, after the borrowed one was left.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = 4096
# In the order in which the function calls them.
CALLED = (
    "pthread_self",
    "pthread_detach",
    "Py_IsInitialized",
    "PyGILState_Ensure",
    "PyRun_SimpleString",
    "PyGILState_Release",
)
# What the borrowed thread calls, and where the C library makes a system call.
BORROWED = ("getpid", "pthread_create", "__errno_location")

# void *run(struct { void *called[6]; char text[]; } *it), for x86-64 and the calling convention of Linux.
CODE = bytes.fromhex(
    "f30f1efa"  # endbr64
    "53 4154 4883ec08"  # push rbx; push r12; sub rsp, 8
    "4889fb"  # mov rbx, rdi
    "ff13 4889c7"  # pthread_self()
    "ff5308"  # pthread_detach(it)
    "ff5310 85c0 7413"  # if (Py_IsInitialized()) {
    "ff5318 4189c4"  # PyGILState_Ensure()
    "488d7b30 ff5320"  # PyRun_SimpleString(text)
    "4489e7 ff5328"  # PyGILState_Release(it) }
    "31c0 4883c408 415c 5b c3"  # return NULL
)


def data(addresses: Mapping[str, int], text: str) -> bytes:
    """Return what the function is given: what it calls, the Python that it runs, and room for a word."""
    called = struct.pack(f"<{len(CALLED)}Q", *(addresses[name] for name in CALLED))
    words = text.encode() + b"\0"
    return called + words + bytes(-len(called + words) % 8 + 8)
