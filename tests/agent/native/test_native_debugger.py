"""Native stacks agree with those of a debugger, for real processes that wait in different ways."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from jaxtop_agent.native import names, telling
from tests.support import PYTHON, ROOT, environment, free_port, processes

PROGRAM = ROOT / "tests" / "programs" / "waiting.py"
GDB = shutil.which("gdb")
# Prints the frames that are on the stack: not those of inlined functions, and not those of functions that
# ended with a jump to the next one, of which a debugger knows by other means.
LOOK = """
python
frame = gdb.newest_frame()
while frame is not None:
    if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
        print("frame", frame.pc(), frame.name() or "")
    frame = frame.older()
end
"""


def sampled(folder, what, *more, devices=1):
    """Start the program; return what it has read, and what a debugger says about its main thread."""
    commands = [[PYTHON, PROGRAM, what, *more, index] for index in range(2 if more else 1)]
    options = {"env": environment(devices), "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with processes(*commands, imports_jax=True, **options) as (process, *_):
        found = json.loads(next(line for line in process.stdout if line.startswith("{")))
        return found, debugged(process.pid, folder)


def debugged(pid, folder):
    """The program counter and the name of each frame, the innermost first."""
    if GDB is None:
        pytest.skip("gdb is not installed: there is nothing to compare with")
    look = folder / "look.gdb"
    look.write_text(LOOK)
    command = [GDB, "-nx", "-batch", "-ex", "set debuginfod enabled off", "-p", str(pid), "-x", look]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [line.split(" ", 2)[1:] for line in done.stdout.splitlines() if line.startswith("frame ")]
    if not found:
        pytest.skip(f"gdb cannot look at a process here: {done.stderr[-200:]}")
    return [(int(pc), name) for pc, name in found]


def plain(name):
    """A name without what symbols of one function differ in."""
    return names.readable(name).removeprefix("__GI_").lstrip("_")


def agrees(found, truth):
    """Check each frame of ours against the debugger's; return how many were compared by name."""
    assert found["why"] == ""
    frames = found["frames"]
    # A debugger ends at `main`, before the start of the process or thread.
    assert [pc for pc, _, _ in frames][: len(truth)] == [pc for pc, _ in truth]
    assert len(frames) - len(truth) <= 4
    # The symbols of libc have many names for one function, and a debugger may have more of them.
    named = [
        (plain(name), plain(known))
        for (_, name, library), (_, known) in zip(frames, truth, strict=False)
        if name and known and not telling.is_of_system(library)
    ]
    assert [ours for ours, _ in named] == [theirs for _, theirs in named]
    return len(named)


@pytest.mark.parametrize(
    ("what", "function"),
    [("event", "lock_PyThread_acquire_lock"), ("poll", "select_poll_poll"), ("recv", "sock_recv")],
)
def test_a_thread_that_waits_in_python_has_the_frames_of_the_debugger(tmp_path, what, function):
    found, truth = sampled(tmp_path, what)
    assert agrees(found, truth) >= 3
    assert function in [name for _, name, _ in found["frames"]]
    (main,) = found["sampled"]
    assert main["task"] == 0 and main["why"] == ""
    assert sum(library == telling.PYTHON for _, library, _ in main["frames"]) == 1


@pytest.mark.jax
@pytest.mark.quiet
@pytest.mark.timeout(300)
@pytest.mark.parametrize("devices", [1, 2])
def test_a_collective_that_one_process_never_joins_has_the_frames_of_the_debugger(tmp_path, devices):
    """With one device the main thread communicates, with two it waits for threads that do."""
    found, truth = sampled(tmp_path, "collective", f"127.0.0.1:{free_port()}", devices=devices)
    assert agrees(found, truth) >= 10
    waits = [each["waits_in"] for each in found["sampled"]]
    assert any(each.startswith("gloo::") for each in waits)
