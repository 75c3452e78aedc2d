"""However a script ends, at whatever moment, it ends with its own exit status and its own last words."""

from __future__ import annotations

import random
import signal
import time
from subprocess import PIPE

import pytest

from jaxtop.store import runfiles
from tests.cases import thorough
from tests.real.unharmed import START_HOT, Watch
from tests.support import JAXTOP, PYTHON, ROOT, SOAK, environment, eventually, free_port, processes, script

pytestmark = pytest.mark.jax

REPEATS = range(25 if SOAK else 1)

# Trains until it is told how to end; the agent is never at rest meanwhile: it looks at 4,000 arrays of 40
# kinds, or asks the coordination service, over and over.
TRAINING = """
    {start}
    import os, signal, sys
    import numpy as np
    import jax
    ending, busy_with = sys.argv[1:3]
    if ending == "caught":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if busy_with == "coordination":
        jax.distributed.initialize("127.0.0.1:" + sys.argv[3], 1, 0)
    many = [jax.device_put(np.zeros(i % 40 + 1)) for i in range(4000 if busy_with == "census" else 10)]
    step = jax.jit(lambda x: x * 0.5 + 1)
    x = step(np.ones(100))
    print("ready", flush=True)
    while not os.path.exists("go"):
        x = step(x)
    match ending:
        case "exception": raise ValueError("the script's own")
        case "exit": sys.exit(3)
        case "at once": os._exit(7)
"""
LAST_WORDS = """Traceback (most recent call last):
  File "{path}", line {line}, in <module>
    case "exception": raise ValueError("the script's own")
                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: the script's own
"""
ENDINGS = {
    "end": (None, 0),
    "exception": (None, 1),
    "exit": (None, 3),
    "at once": (None, 7),
    "interrupt": (signal.SIGINT, -signal.SIGINT),
    "terminate": (signal.SIGTERM, -signal.SIGTERM),
    "caught": (signal.SIGTERM, 143),
}
# One of each kind, also on the oldest JAX: the interpreter ends, an exception or a signal unwinds it.
ON_OLDEST = (
    ("end", "census"),
    ("terminate", "census"),
    ("end", "coordination"),
    ("exception", "coordination"),
    ("interrupt", "coordination"),
)
# `jaxtop run` runs the same script in the same interpreter, and a coordinator adds a client to it: a sample
# of each, and all of them in the long run.
BY_COMMAND = tuple(ENDINGS) if SOAK else ("exit", "terminate")
WITH_COORDINATOR = tuple(ENDINGS) if SOAK else ("end", "exception", "interrupt")
# Others show the same end with less around it.
ALSO_ELSEWHERE = (
    ("exception", "census"),
    ("exit", "census"),
    ("at once", "census"),
    ("interrupt", "census"),
    ("exit", "its own pace"),
)


def marks(*case: str) -> list[pytest.MarkDecorator]:
    if case in ALSO_ELSEWHERE:
        return [pytest.mark.newest, pytest.mark.thorough]
    return [] if case in ON_OLDEST else [pytest.mark.newest]


# In a run with a coordinator JAX keeps SIGTERM for itself, and the process lives on.
CASES = [
    pytest.param(ending, busy_with, marks=marks(ending, busy_with))
    for ending, (way, _) in ENDINGS.items()
    for busy_with in ("census", "coordination", "its own pace")
    if (way, busy_with) != (signal.SIGTERM, "coordination")
    and (busy_with != "its own pace" or ending in BY_COMMAND)
    and (busy_with != "coordination" or ending in WITH_COORDINATOR)
]


@pytest.fixture
def watch():
    with Watch() as watching:
        yield watching


@pytest.mark.parametrize("_", REPEATS)
@pytest.mark.parametrize(("ending", "busy_with"), CASES)
def test_a_watched_script_ends_as_it_would_alone(tmp_path, watch, ending, busy_with, _):
    """At a random moment, in the middle of whatever the agent does then."""
    way, status = ENDINGS[ending]
    by_command = busy_with == "its own pace"
    path = script(tmp_path, TRAINING.replace("{start}", "pass" if by_command else START_HOT))
    words = [path, ending, busy_with, free_port()]
    command = [*JAXTOP, "run", *words] if by_command else [PYTHON, *words]
    with processes(command, stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=environment(2)) as (process,):
        assert process.stdout.readline() == "ready\n"
        hello = watch.until_live(process.pid)["hello"]
        if busy_with == "coordination":
            eventually(lambda: watch.live(process.pid)["hello"].sources.get("roster") == "on")
        time.sleep(random.uniform(0, 0.3))
        if way is None:
            (tmp_path / "go").touch()
        else:
            process.send_signal(way)
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout) == (status, "")
    if ending == "exception":
        line = (
            path.read_text().splitlines().index('    case "exception": raise ValueError("the script\'s own")')
        )
        assert stderr == LAST_WORDS.format(path=path, line=line + 1)
    elif ending == "interrupt":
        assert stderr.startswith("Traceback") and "KeyboardInterrupt" in stderr.splitlines()[-1]
    else:
        assert stderr == ""
    assert hello.pid == process.pid


SLOW = """
    import os, signal, sys, time
    import jaxtop_agent.collectors.host as host
    def collect(*_):
        open("collects", "w").close()
        while not os.path.exists("go"):      # the agent's goodbye takes so long
            time.sleep(0.01)
    host.HostFigures.collect = collect
    {start}
    import atexit, jax
    atexit.register(print, "leaving", flush=True)      # and the agent's own hook comes next
    x = jax.jit(lambda x: x * 0.5)(jax.numpy.ones(8)).block_until_ready()
    while not os.path.exists("collects"):
        time.sleep(0.01)
    if sys.argv[1] == "interrupt":
        signal.raise_signal(signal.SIGINT)
    sys.exit(3)
"""


@pytest.mark.newest
@pytest.mark.parametrize("ending", ["exit", "interrupt"])
def test_a_second_ctrl_c_while_the_agent_says_goodbye_changes_nothing(tmp_path, ending):
    path = script(tmp_path, SLOW.replace("{start}", START_HOT))
    with processes([PYTHON, path, ending], stdout=PIPE, stderr=PIPE, cwd=tmp_path) as (process,):
        assert process.stdout.readline() == "leaving\n"
        for _ in range(3):
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        (tmp_path / "go").touch()
        _, stderr = process.communicate()
    assert process.returncode == (3 if ending == "exit" else -signal.SIGINT)
    assert stderr.count("Traceback") == (0 if ending == "exit" else 1)
    assert "ignored" not in stderr


STALLED = """
    {start}
    import os, signal, sys, time
    import numpy as np
    import jax
    step = jax.jit(lambda x: x * 0.5 + 1)
    x = step(np.ones(100))
    print("ready", flush=True)
    many = []
    while not os.path.exists("go"):
        x = step(x)
        many = [*many[-500:], jax.device_put(np.zeros(len(many) % 400 + 1))]   # a new census each time
    print(int(len(many) > 400), flush=True)
    sys.exit(3)
"""


@pytest.mark.newest
@pytest.mark.parametrize(
    "fate", [pytest.param(signal.SIGSTOP, id="stopped"), thorough(signal.SIGKILL, id="killed")]
)
def test_a_viewer_that_is_stopped_or_killed_does_not_keep_the_script_from_ending(tmp_path, fate):
    path = script(tmp_path, STALLED.replace("{start}", START_HOT))
    command = [PYTHON, path]
    with processes(command, stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=environment(2)) as (process,):
        assert process.stdout.readline() == "ready\n"
        eventually(runfiles.find)
        with processes([PYTHON, ROOT / "tests" / "programs" / "watch.py", 0.05], stdout=PIPE) as (viewer,):
            eventually(lambda: '"live"' in viewer.stdout.readline(), every=0)
            viewer.send_signal(fate)
            time.sleep(2)  # as much telemetry as two seconds bring runs into the viewer's full queues
            (tmp_path / "go").touch()
            stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (3, "1\n", "")
