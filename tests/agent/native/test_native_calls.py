"""What a thread waits for, in words: by its system call, as the kernel reports it for real threads."""

from __future__ import annotations

import json
import os

import pytest

from jaxtop_agent.native import calls
from jaxtop_agent.native.memory import UnwindError
from tests.support import PYTHON, ROOT, run

PROGRAM = ROOT / "tests" / "programs" / "waiting_calls.py"


def test_the_system_call_of_a_waiting_thread_says_what_it_waits_for(tmp_path):
    done = run(PYTHON, PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "lock": "a lock or condition",
        "child": "a child process",
        "sleep": "a time to pass (sleep)",
        "sleep in poll": "a time to pass (sleep)",
        "sleep in select": "a time to pass (sleep)",
        "read": "data from a pipe",
        "terminal": "data from a terminal",
        "write": "room to write to a pipe",
        "recv": "data from a socket",
        "accept": "a connection to a socket",
        "poll": "data from a pipe or a socket",
        "poll to write": "room to write to a pipe",
        "select": "data from a pipe",
        "epoll": "data from a pipe",
        "open": "a file to open",
        "read of a named pipe": "data from a file or named pipe",
        "flock": "a file lock",
        "lockf": "a file lock",
    }


class NoMemory:
    """Memory that cannot be read."""

    def read(self, address, size):
        raise UnwindError(f"no readable memory at {address:#x}, {size}")


def call(number, *arguments):
    """What the kernel says about a thread in this system call."""
    filled = [*arguments, *[0] * (6 - len(arguments)), 1, 1]
    return " ".join([str(number), *map(hex, filled)])


@pytest.mark.parametrize("text", ["", "running", "-1 0x1 0x1", "0 0x1 0x1", call(99999), call(-1), "x " * 9])
def test_what_does_not_tell_has_no_words(text):
    assert calls.words(text, NoMemory()) == ""


def test_descriptors_that_are_not_known_have_a_general_word():
    assert calls.words(call(0, 0xFFFFFFFF), NoMemory()) == "data from a descriptor"
    for number in (7, 271):
        assert calls.words(call(number, 1, 1), NoMemory()) == "data from a descriptor"
    assert calls.words(call(270, 64, 1), NoMemory()) == "data from a descriptor"
    assert calls.words(call(232, 0xFFFFFFFF), NoMemory()) == "data from a descriptor"


@pytest.mark.parametrize("number", [74, 75, 162, 306])
def test_a_thread_that_waits_for_a_disk_says_so(number):
    assert calls.words(call(number, 1), NoMemory()) == "a disk"


def test_no_file_is_looked_at(monkeypatch, tmp_path):
    """It may lie on a network that does not answer, which is why the thread waits."""

    def refuse(*_arguments, **_more):
        raise AssertionError("a file was looked at")

    with (tmp_path / "file").open("w") as file:
        for name in ("stat", "lstat", "fstat", "open"):
            monkeypatch.setattr(os, name, refuse)
        text = calls.words(call(0, file.fileno()), NoMemory())
        monkeypatch.undo()
    assert text == "data from a file or named pipe"
