"""The agent in processes that run already: they are unharmed, and what cannot get it is refused in a line."""

from __future__ import annotations

import os
import signal
from subprocess import PIPE

import pytest

from jaxtop.features.inject import target, tracer
from tests.real.unharmed import some
from tests.support import PYTHON, ROOT, SOAK, eventually, free_port, jaxtop, processes, snapshot

PROGRAM = ROOT / "tests" / "programs" / "injected.py"
ALONE = ("computing", "importing", "collecting", "allocating", "forking", "signalled", "waiting")
REPEATS = range(7 if SOAK else 1)
AFTER = ["go", "left", "mark", "names", "result", "rounds", "work", "wrong"]


def why_no_trace() -> str:
    """Why no process of this user can be traced here; an empty text if they can."""
    if why := tracer.why_not():
        return why
    scope = target.YAMA.read_text().strip() if target.YAMA.exists() else "0"
    return "" if scope == "0" or (scope in "12" and os.geteuid() == 0) else f"ptrace_scope is {scope} here"


WHY_NOT = why_no_trace()
needs_trace = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


def inject(*words):
    return jaxtop("inject", "--yes", *words)


def rounds(folder, index=0) -> int:
    path = folder / f"rounds-{index}"
    return int(path.read_text() or 0) if path.exists() else 0


def until_it_hangs(folder) -> int:
    """Wait until process 0 makes no more rounds; return how many it has made."""
    seen = [-1]

    def stands() -> bool:
        seen.append(rounds(folder))
        return seen[-1] == seen[-2]

    eventually(stands, every=0.5)
    return seen[-1]


def as_without(situation) -> str:
    """What a process prints that has no agent."""
    return f"{situation} 0 ['MainThread'] {AFTER}\n"


@pytest.mark.jax
@pytest.mark.newest
@needs_trace
@pytest.mark.parametrize("_repeat", REPEATS)
@pytest.mark.parametrize("situation", ALONE if SOAK else ALONE[:2])
def test_a_process_gets_the_agent_and_ends_as_without_it(tmp_path, situation, _repeat):
    options = {"cwd": tmp_path, "stdout": PIPE, "stderr": PIPE, "imports_jax": SOAK}
    with processes([PYTHON, PROGRAM, situation], **options) as (process,):
        eventually(lambda: rounds(tmp_path) > 1, every=0.02)
        done = inject(process.pid)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"pid {process.pid} has started the agent: jaxtop attach" in done.stdout
        again = inject(process.pid)
        assert again.returncode == 2 and "has an agent already: jaxtop attach" in again.stderr
        (tmp_path / "go").touch()
        out, err = process.communicate()
    assert (process.returncode, out, err) == (3, as_without(situation), "")


@pytest.mark.jax
@pytest.mark.newest
@needs_trace
@pytest.mark.parametrize("_repeat", REPEATS)
def test_a_process_that_hangs_in_a_collective_gets_the_agent(tmp_path, _repeat):
    """Its main thread waits in C for a peer that was stopped; both go on when the peer does."""
    coordinator = f"127.0.0.1:{free_port()}"
    commands = [[PYTHON, PROGRAM, "together", coordinator, 2, index, 150] for index in range(2)]
    with processes(*commands, cwd=tmp_path, stdout=PIPE, stderr=PIPE) as (first, second):
        eventually(lambda: rounds(tmp_path) > 1, every=0.02)
        second.send_signal(signal.SIGSTOP)
        hung_at = until_it_hangs(tmp_path)
        done = inject(first.pid)
        assert (done.returncode, done.stderr) == (0, "")
        _, document = snapshot(done.stdout.split()[-1])
        assert first.pid in {host["pid"] for host in document["hosts"]}
        assert rounds(tmp_path) == hung_at
        second.send_signal(signal.SIGCONT)
        ends = [each.communicate() for each in (first, second)]
    ends = [(out.splitlines(keepends=True)[-1], err) for out, err in ends]  # before it come lines of Gloo
    assert ends == [(as_without("together"), "")] * 2
    assert [first.returncode, second.returncode] == [3, 3]


HOLDING = """
import ctypes, os, pathlib, sys, time
import jax
jax.numpy.ones(4).block_until_ready()
pathlib.Path("rounds-0").write_text("2")
ctypes.PyDLL(None).read(os.open("pipe", os.O_RDWR), ctypes.create_string_buffer(1), 1)  # with the GIL
time.sleep(0.5)  # without it: what was withdrawn does not begin now
print(sys.modules.get("jaxtop_agent"))
"""


@pytest.mark.jax
@pytest.mark.newest
@needs_trace
def test_a_request_that_nobody_takes_is_withdrawn(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with processes([PYTHON, "-c", HOLDING], cwd=tmp_path, stdout=PIPE, stderr=PIPE) as (process,):
        eventually(lambda: rounds(tmp_path) > 1, every=0.02)
        done = inject("--timeout", 1, process.pid)
        assert done.returncode == 1 and "a thread of it holds the GIL. Nothing was started" in done.stderr
        (tmp_path / "pipe").write_text("x")
        assert process.communicate() == ("None\n", "")
    assert process.returncode == 0


ANSWERS = (
    (
        "sys.path[:] = [each for each in sys.path if not os.path.exists(each + '/jaxtop_agent')]",
        f"jaxtop is not installed where it could import it: {PYTHON} -m pip",
    ),
    ("import jaxtop._version as v; v.__version__ = '9.9'", "it would import jaxtop 9.9, and this is"),
    ("os.environ['JAXTOP'] = 'off'", "JAXTOP=off is set"),
    ("del sys.modules['jax']", "it has not imported jax"),
)


@pytest.mark.jax
@pytest.mark.newest
@needs_trace
@pytest.mark.parametrize(("without", "why"), some(ANSWERS, 2))
def test_what_only_the_process_can_know_is_its_answer(tmp_path, without, why):
    text = f"""
import os, pathlib, sys, time
import jax
{without}
pathlib.Path("rounds-0").write_text("2")
while not os.path.exists("go"):
    time.sleep(0.01)
print("jaxtop_agent" in sys.modules and sys.modules["jaxtop_agent"]._agent)
"""
    (tmp_path / "script.py").write_text(text)
    options = {"cwd": tmp_path, "stdout": PIPE, "stderr": PIPE}
    with processes([PYTHON, tmp_path / "script.py"], **options) as (process,):
        eventually(lambda: rounds(tmp_path) > 1, every=0.02)
        done = inject(process.pid)
        assert done.returncode == 1 and why in done.stderr and done.stderr.count("\n") == 1
        (tmp_path / "go").touch()
        out, err = process.communicate()
    assert out in ("None\n", "False\n") and err == ""
