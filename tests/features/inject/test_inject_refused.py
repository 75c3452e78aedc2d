"""Processes that cannot get the agent are refused in a line; and what the ways into a process are made of."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import signal
import struct
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from jaxtop import cli
from jaxtop.features.inject import remote, symbols, target
from jaxtop.features.inject.request import InjectionRequest
from jaxtop.store import runfiles
from tests.features.inject.test_inject import WHY_NOT
from tests.made.agents import hello_here
from tests.support import PYTHON, eventually, jaxtop, processes, run

# Python with JAX's libraries in its memory, as far as can be seen from outside.
AS_JAX = """
import mmap, sys, time
file = open(sys.argv[1])
library = mmap.mmap(file.fileno(), 0, prot=1)
print(1, flush=True)
"""


@contextmanager
def python(code="time.sleep(60)", **options):
    """Yield a Python process that looks as if it had loaded JAX, once it runs its code."""
    library = next((Path(sys.prefix) / "lib").glob("python*/site-packages/jaxlib/version.py"))
    with processes([PYTHON, "-c", AS_JAX + code, library], stdout=PIPE, **options) as (process,):
        process.stdout.readline()
        yield process


needs_trace = pytest.mark.skipif(
    os.geteuid() != 0 and target.scope() is not None, reason=f"{target.scope()}: here that is not the tests"
)


def refusal(pid, *words) -> str:
    done = jaxtop("inject", *words, pid)
    assert done.returncode == 2 and re.fullmatch(r"jaxtop: [^\n]{10,400}\n", done.stderr), done
    return done.stderr


@needs_trace
def test_what_is_no_process_with_jax_is_refused():
    assert "there is no process 99999999 here" in refusal(99999999)
    with processes(
        ["sleep", "60"], [PYTHON, "-c", "print(1, flush=True); import time; time.sleep(60)"], stdout=PIPE
    ) as (
        sleeping,
        plain,
    ):
        assert "is not Python" in refusal(sleeping.pid)
        plain.stdout.readline()
        assert "has not loaded JAX" in refusal(plain.pid)


def test_what_does_not_run_is_refused():
    with python() as process:
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: "\nState:\tT" in Path(f"/proc/{process.pid}/status").read_text(), every=0.01)
        assert f"is stopped: continue it first (kill -CONT {process.pid}" in refusal(process.pid)
        process.kill()
        eventually(lambda: "\nState:\tZ" in Path(f"/proc/{process.pid}/status").read_text(), every=0.01)
        assert "has ended" in refusal(process.pid)


def test_a_thread_is_not_a_process():
    with python(
        "import threading; threading.Thread(target=time.sleep, args=(60,)).start(); print(2)"
    ) as process:
        tasks = eventually(
            lambda: {int(each) for each in os.listdir(f"/proc/{process.pid}/task")} - {process.pid}
        )
        assert f"is a thread of process {process.pid}" in refusal(tasks.pop())


def test_what_another_debugger_holds_is_refused():
    c_library = ctypes.CDLL(None, use_errno=True)
    with python() as process:
        seize, detach = 0x4206, 17
        if c_library.ptrace(seize, process.pid, 0, 0):
            pytest.skip(f"ptrace is not allowed here: {os.strerror(ctypes.get_errno())}")
        assert f"is held by a debugger or tracer, pid {os.getpid()}" in refusal(process.pid)
        c_library.ptrace(detach, process.pid, 0, 0)


def without_ptrace():
    """Have the kernel refuse ptrace to this process, as a container's seccomp filter does."""
    load_number, is_ptrace, refuse, allow = (
        (0x20, 0, 0, 0),
        (0x15, 0, 1, 101),
        (6, 0, 0, 0x50001),
        (6, 0, 0, 0x7FFF0000),
    )
    code = b"".join(struct.pack("HBBI", *each) for each in (load_number, is_ptrace, refuse, allow))
    text = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", 4, ctypes.addressof(text))
    assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0 and ctypes.CDLL(None).prctl(22, 2, program) == 0


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_a_seccomp_filter_is_named():
    with python() as process:
        done = jaxtop("inject", "--yes", process.pid, preexec_fn=without_ptrace)
        assert done.returncode == 1 and done.stderr.count("\n") == 1
        assert "cannot be traced" in done.stderr and "seccomp filter, as in a container" in done.stderr
        assert process.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_processes_of_others_and_of_containers_are_refused():
    with python() as process, pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(
            target.InjectionRefused, match="belongs to root: run this as that user, or as root"
        ):
            target.inspect_process(process.pid)
    for flags in (["--mount"], ["--pid", "--fork", "--mount-proc"]):
        if run("unshare", *flags, "true").returncode:
            pytest.skip("unshare is not allowed here")
        with processes(["unshare", *flags, "sleep", "60"]) as (outer,):
            inner = eventually(lambda: of_sleep(outer.pid), every=0.02)
            assert "docker exec" in refusal(inner)
            os.kill(inner, signal.SIGKILL)


def of_sleep(pid) -> int:
    """The process that this one became, or its child."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next(
        (each for each in map(int, [pid, *children]) if Path(f"/proc/{each}/comm").read_text() == "sleep\n"),
        0,
    )


@pytest.mark.parametrize(
    ("scope", "why"),
    [("1", "only root may (sudo), or the parent"), ("3", "nobody may until"), ("0", "it has more rights")],
)
def test_a_denied_trace_says_which_setting_denies_it(monkeypatch, tmp_path, scope, why):
    (tmp_path / "ptrace_scope").write_text(scope)
    monkeypatch.setattr(target, "YAMA", tmp_path / "ptrace_scope")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert why in target._why_not_traced(7, PermissionError(1, "Operation not permitted"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--cap-add SYS_PTRACE" in target._why_not_traced(7, PermissionError(1, "Operation not permitted"))


@needs_trace
def test_without_a_terminal_and_consent_nothing_is_done(monkeypatch):
    with python() as process:
        if not WHY_NOT:
            done = jaxtop("inject", process.pid)
            assert done.returncode == 2 and "nothing was done" in done.stderr and "--yes" in done.stderr
            assert f"pid {process.pid} runs `" in done.stdout and "starts another one" in done.stdout
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
        assert cli.main(["inject", str(process.pid)]) == 2
        assert cli.main(["inject", "--way", "python", str(process.pid)]) == 2


@needs_trace
def test_without_a_way_each_missing_one_is_named_in_one_line(monkeypatch, capsys):
    """A stand-in for another machine: what Python says of this one."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(remote, "why_not", lambda _: "its Python is older than 3.14")
    with python() as process:
        assert cli.main(["inject", "--yes", str(process.pid)]) == 2
    whys = "its Python is older than 3.14; the way through ptrace is for x86-64, and this is aarch64"
    assert capsys.readouterr().err == f"jaxtop: there is no way into pid {process.pid}: {whys}\n"


@pytest.mark.parametrize(
    ("program", "why", "is_left"),
    [("false", "takes no code: no reason was given", 0), ("true", "runs no Python now", 1)],
)
def test_a_main_thread_that_hangs_runs_nothing_later(tmp_path, monkeypatch, program, why, is_left):
    """Python may come to the file of a withdrawn request hours later: then it only removes the file."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(remote, "TAKEN_WITHIN", 0.05)
    ids = {"uid": os.geteuid(), "gid": os.getegid(), "program": shutil.which(program)}
    process = target.Target(
        7, command="", python=(3, 14, 0), threads=1, ticks=1, addresses={}, code=[], **ids
    )
    with InjectionRequest(process, {}) as request, pytest.raises(target.InjectionRefused, match=why):
        remote.start(process, request)
    left = list(tmp_path.iterdir())
    assert len(left) == is_left
    for each in left:
        done = run(PYTHON, each)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


def test_only_a_thread_that_does_not_wake_up_is_refused(monkeypatch):
    """A thread that waits for a disk now is another one the next moment."""
    seen = iter([{1, 2}, {2}, {1}])
    monkeypatch.setattr(target, "_uninterruptible", lambda _: next(seen))
    target.check_threads(7)
    monkeypatch.setattr(target, "_uninterruptible", lambda _: {2, 3})
    monkeypatch.setattr(target, "ASLEEP_IN_KERNEL_S", 0.1)
    with pytest.raises(target.InjectionRefused, match=r"thread 2 of pid 7 sleeps in the kernel \(state D\)"):
        target.check_threads(7)


def test_a_process_with_an_agent_names_its_run():
    with python() as process:
        runfiles.write(hello_here("a1", process.pid, run="r-1"))
        assert "has an agent already: jaxtop attach r-1" in refusal(process.pid)


def test_functions_are_found_in_memory_where_the_loader_finds_them():
    memory = symbols.ProcessMemory(os.getpid())
    # An earlier test of this process may have mapped other files as data.
    names = ("python", "libpython", "libc.", "libpthread", "ld-musl")
    mapped = [each for each in symbols.mappings(os.getpid()) if each.offset == 0]
    images = [symbols.image(memory, each.start) for each in mapped if each.name.startswith(names)]
    for name in ("Py_IsInitialized", "PyGILState_Ensure", "pthread_create"):
        known = ctypes.cast(
            getattr(ctypes.pythonapi if name[0] == "P" else ctypes.CDLL(None), name), ctypes.c_void_p
        )
        assert known.value in {each.find(name) for each in images}
    assert {each.find("no_such_function") for each in images} == {None}
    memory.close()


CALLS = """
import ctypes, mmap, sys, time
from jaxtop.features.inject import payload
page = mmap.mmap(-1, 2 * payload.PAGE, prot=7)
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
address = lambda name: ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
page[:len(payload.CODE)] = payload.CODE
data = payload.data({name: address(name) for name in payload.CALLED}, "done = 'ö'")
page[payload.PAGE:payload.PAGE + len(data)] = data
create = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(address("pthread_create"))
done = ""
assert create(at + payload.PAGE + len(data) - 8, None, at, at + payload.PAGE) == 0
while not done:
    time.sleep(0.01)
print(done)
"""


def test_the_machine_code_runs_python_on_a_thread_of_its_own():
    done = run(PYTHON, "-c", CALLS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ö\n", "")
