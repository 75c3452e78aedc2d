"""Windows of the profiler in real runs: they arrive, and the script's own profiling never notices them."""

from __future__ import annotations

import json
import random
import time
from subprocess import PIPE

import pytest

from jaxtop import wire
from tests import patience
from tests.cases import thorough
from tests.real.unharmed import Watch
from tests.support import PYTHON, SOAK, Viewer, environment, eventually, free_port, jax_run, processes, script

pytestmark = pytest.mark.jax

REPEATS = 10 if SOAK else 1
# Windows without a rest, and long ones: what harms, harms sooner.
HOT = """
import jaxtop_agent.core.budget as budget
import jaxtop_agent.profiler.schedule as schedule, jaxtop_agent.profiler.worker as worker
worker.SLOT_S = schedule.SLOT_S = {slot}
schedule.SHORTEST_S = schedule.LONGEST_FIRST_S = {length}
schedule.Schedule.level = 0
budget.WINDOWS = schedule.TIME_SHARE = 100
from jaxtop import agent
agent.start(collectives={policy!r})
"""
STEP = """
import os, sys, time
import numpy as np, jax, jax.numpy as jnp, jax._src.profiler
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
def is_open():
    return type(jax._src.profiler._profile_state.lock).__name__ == "WakingLock"
mesh = Mesh(np.array(jax.devices()), ("data",))
mean = lambda x: jax.lax.pmean(jnp.tanh(x), "data")
step = jax.jit(jax.shard_map(mean, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False))
x = step(jax.device_put(np.ones(8, np.float32), NamedSharding(mesh, P("data")))).block_until_ready()
"""


def hot(text, slot=0.3, length=0.25, policy="auto"):
    return HOT.format(slot=slot, length=length, policy=policy) + STEP + text


@pytest.fixture
def watch():
    with Watch() as watching:
        yield watching


def windows_seen(viewer, seconds=0.2):
    """The windows that arrive within this time, with the agent that sent each."""
    found = []
    for frame in viewer.source.poll(seconds):
        viewer.cluster.feed(frame)
        if frame.kind == "window":
            found.append((frame.agent, wire.decode("window", frame.raw)))
    return found


TWO = """
from jaxtop import agent
import os, sys, time
import numpy as np, jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
agent.start()
jax.distributed.initialize(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
def on_each_device(x):
    x = jax.lax.psum(x, "data") / 2
    x = jax.lax.scan(lambda c, _: (jax.lax.psum(c, "model") / 2, None), x, None, length=3)[0]
    return jax.lax.ppermute(x, "model", [(0, 1), (1, 0)])
both = P("data", "model")
step = jax.jit(jax.shard_map(on_each_device, mesh=mesh, in_specs=both, out_specs=both, check_vma=False))
ones = np.ones((8, 8), np.float32)
x = jax.make_array_from_callback((8, 8), NamedSharding(mesh, both), lambda part: ones[part])
while not os.path.exists("stop"):
    time.sleep(0.03)
    x = step(x).block_until_ready()
"""


def _numbers(window):
    return {each.number for each in window.launches}


def test_two_processes_tell_of_the_same_launches_and_of_every_collective(tmp_path):
    path = script(tmp_path, TWO)
    with jax_run(path, 2, 2, cwd=tmp_path, stderr=PIPE):
        eventually(lambda: len([*tmp_path.rglob("*.json")]) == 2)
        viewer = Viewer()
        try:
            slots = {}

            def of_one_launch():
                """Return windows of both processes with a launch in common; some have none."""
                for agent, window in windows_seen(viewer):
                    slots.setdefault(window.slot, {})[agent] = window
                pairs = ([*each.values()] for each in slots.values() if len(each) == 2)
                return next((pair for pair in pairs if _numbers(pair[0]) & _numbers(pair[1])), None)

            one, other = eventually(of_one_launch)
        finally:
            viewer.source.close()
    assert one.programs[0][0] == "jit_on_each_device"
    for window in (one, other):
        for place, launch in enumerate(window.launches):
            rows = [(window.ops[row.op], row.round) for row in window.rounds if row.launch == place]
            kinds = [name.split(".")[0] for name, _ in rows]
            assert sorted(kinds) == ["ppermute", "psum", "psum", "psum", "psum"], launch
            assert sorted(number for _, number in rows) == [0, 0, 0, 1, 2]
        assert all(None not in row.durations_us for row in window.rounds)
    assert abs(one.at_ms - other.at_ms) < 4000 * patience.factor()


PROFILING = """
import json, pathlib, random
waits, open_then = [], 0
print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
for number in range(int(sys.argv[1])):
    moment = time.monotonic() + random.uniform(0, 0.3)
    while time.monotonic() < moment:
        x = step(x).block_until_ready()
    if number % 2:
        while not is_open():
            time.sleep(0.0005)
        # At once, or some time into it: by then it may have closed by itself.
        moment = time.monotonic() + (random.uniform(0, 0.2) if number % 4 == 3 else 0.0)
        while time.monotonic() < moment and is_open():
            x = step(x).block_until_ready()
    folder = f"profile-{number}"
    open_then += is_open()
    began = time.monotonic()
    jax.profiler.start_trace(folder)
    waits.append(time.monotonic() - began)
    for _ in range(5):
        x = step(x).block_until_ready()
    jax.profiler.stop_trace()
    (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
    profile = jax.profiler.ProfileData.from_file(str(path))
    names = [event.name for plane in profile.planes for line in plane.lines for event in line.events]
    launches = sum(name.startswith("ThunkExecutor::Execute (wait") for name in names)
    assert launches == 5 * len(jax.devices()), launches
print(json.dumps([open_then, max(waits)]), flush=True)
"""


def test_a_profile_of_the_script_never_fails_and_is_complete(tmp_path, watch):
    """It waits for our window to close, and is none the worse for it."""
    tries = 60 if SOAK else 8
    path = script(tmp_path, hot(PROFILING))
    command = [PYTHON, path, tries]
    with processes(command, stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=environment(2)) as (process,):
        assert process.stdout.readline() == "ready\n"
        watch.until_live(process.pid)
        (tmp_path / "go").touch()
        stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "")
    open_then, longest_wait = json.loads(stdout)
    assert open_then >= tries // 4, "windows were open when the script began its profiles"
    print(f"{open_then} of {tries} profiles began in a window; the longest wait was {longest_wait:.3f} s")


ENDING = """
print("ready", flush=True)
while not is_open():
    x = step(x).block_until_ready()
    time.sleep(0.005)
time.sleep(float(sys.argv[2]))
match sys.argv[1]:
    case "exception": raise ValueError("the script's own")
    case "exit": sys.exit(3)
    case "at once": os._exit(7)
print("done")
"""


@pytest.mark.parametrize("_", [0, *(pytest.param(i, marks=pytest.mark.newest) for i in range(1, REPEATS))])
@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("end", 0),
        ("exception", 1),
        thorough("exit", 3),
        pytest.param("at once", 7, marks=pytest.mark.newest),
    ],
)
def test_a_script_that_ends_within_a_window_ends_as_it_would_alone(tmp_path, watch, ending, status, _):
    path = script(tmp_path, hot(ENDING, slot=2.0, length=1.8))
    command = [PYTHON, path, ending, random.uniform(0, 0.3)]
    with processes(command, stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=environment(2)) as (process,):
        stdout, stderr = process.communicate()
    assert process.pid in watch.met
    assert (process.returncode, stdout) == (status, "ready\ndone\n" if ending == "end" else "ready\n")
    if ending == "exception":
        assert stderr.startswith("Traceback") and stderr.endswith("ValueError: the script's own\n")
    else:
        assert stderr == ""


BROKEN = """
from jax._src.lib import _profiler as profiler
class Broken:
    def stop(self):
        pass
    def __init__(self, options):
        raise RuntimeError("no profiler today")
profiler.ProfilerSession = Broken
print("ready", flush=True)
while not os.path.exists("go"):
    x = step(x).block_until_ready()
    time.sleep(0.005)
print("done")
"""


@pytest.mark.newest
def test_a_profiler_that_fails_is_switched_off_and_the_script_goes_on(tmp_path, watch):
    path = script(tmp_path, hot(BROKEN))
    with processes([PYTHON, path], stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=environment(2)) as (process,):
        watch.until_live(process.pid)
        off = eventually(
            lambda: (
                (source := watch.live(process.pid)["hello"].sources["collectives"]).startswith("off")
                and source
            )
        )
        (tmp_path / "go").touch()
        stdout, stderr = process.communicate()
    assert off == "off: RuntimeError: no profiler today"
    assert (process.returncode, stdout, stderr) == (0, "ready\ndone\n", "")


UNWATCHED = """
opened = 0
end = time.monotonic() + 2
while time.monotonic() < end:
    x = step(x).block_until_ready()
    opened += is_open()
    time.sleep(0.005)
print(opened)
"""


@pytest.mark.newest
@pytest.mark.parametrize("policy", ["auto", "off"])
def test_while_nobody_watches_no_window_is_taken(tmp_path, policy):
    path = script(tmp_path, hot(UNWATCHED, policy=policy))
    with processes([PYTHON, path], stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=environment(2)) as (process,):
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (0, "0\n", "")


SERVING = """
server = jax.profiler.start_server(int(sys.argv[1]))
while not os.path.exists("go"):
    x = step(x).block_until_ready()
    time.sleep(0.005)  # without a pause, a window that closes late on a busy machine has too many events
"""


def test_beside_a_profiler_server_a_window_is_taken_only_on_request(tmp_path):
    path = script(tmp_path, hot(SERVING))
    command = [PYTHON, path, free_port()]
    with processes(command, stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=environment(2)) as (process,):
        eventually(lambda: [*tmp_path.rglob("*.json")])
        viewer = Viewer()
        try:
            viewer.until(lambda: viewer.host(0).pulse.sampled_ms is not None)
            viewer.until(
                lambda: (
                    viewer.host(0).hello.sources["collectives"]
                    == "on request: this script has a profiler server"
                )
            )
            time.sleep(1)
            assert not windows_seen(viewer, 1)
            answers = []
            viewer.source.request(viewer.host(0).agent, wire.Request("capture"), answers.append)
            ((_, window),) = eventually(lambda: windows_seen(viewer))
            assert window.slot is None and window.launches and window.rounds
            assert not answers[0].error
        finally:
            viewer.source.close()
        (tmp_path / "go").touch()
        process.communicate()
    assert process.returncode == 0
