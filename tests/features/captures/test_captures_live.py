"""Captures of real runs: what is written opens elsewhere, and the script never notices."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from subprocess import PIPE

import jax
import pytest

from jaxtop.features.operations.model import DeviceRates, program_times
from tests.features.captures.test_captures_merged import Read
from tests.support import (
    JAXTOP,
    PYTHON,
    SOAK,
    environment,
    eventually,
    free_port,
    jax_run,
    jaxtop,
    processes,
    run,
    until_a_run_is_found,
    viewer,
)
from tests.support import script as write

pytestmark = pytest.mark.jax

HAS_XPROF = importlib.util.find_spec("xprof") is not None
needs_xprof = pytest.mark.skipif(
    not HAS_XPROF,
    reason="XProf takes several hundred megabytes; `make soak` installs it",
)


@pytest.fixture(scope="module")
def capture(pair, tmp_path_factory):
    """A capture of both processes: its folder, and what was printed."""
    root = tmp_path_factory.mktemp("captures") / "pair"
    eventually(lambda: has_short_windows(pair))  # on a busy machine the first may take a while
    done = capture_of(pair, "-o", root)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return root, done.stdout


def has_short_windows(pair):
    done = jaxtop("snapshot", "--json", "--watch", "1", env={**environment(), "HOME": str(pair.home)})
    programs = json.loads(done.stdout)["programs"]
    return any("step" in each["function"] and each["launches_in_windows"] for each in programs)


def capture_of(pair, *words):
    return jaxtop("capture", *words, env={**environment(), "HOME": str(pair.home)})


def traces_of(root):
    return sorted(root.glob("plugins/profile/*/*.xplane.pb"))


def profile(path):
    return jax.profiler.ProfileData.from_file(str(path))


def launches(path):
    """The run ids of the launches of the step that a trace contains."""
    found = set()
    for plane in profile(path).planes:
        for line in plane.lines:
            for event in line.events:
                said = dict(event.stats)
                if "hlo_op" in said and "step" in str(said["hlo_module"]):
                    found.add(said["run_id"])
    return found


def test_both_processes_are_captured_at_the_same_moment_for_the_steps_asked_for(capture):
    root, printed = capture
    first, second = traces_of(root)
    assert [path.name.rpartition("_")[2] for path in (first, second)] == ["0.xplane.pb", "1.xplane.pb"]
    one, other = launches(first), launches(second)
    assert len(one & other) >= 4, "five steps, and those at its ends may be cut off"
    assert len(one | other) <= 12
    assert printed.startswith("captured 2 of 2 processes for ")
    assert f"xprof --logdir {root}" in printed and "one machine, one clock" in printed


def test_the_merged_trace_has_the_durations_of_the_profiler_and_arrows_between_processes(capture):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    root, _ = capture
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(next(root.glob("*.pftrace")).read_bytes())
    read = Read(trace)
    assert len(read.processes) == 2
    theirs = []
    for path in traces_of(root):
        for plane in profile(path).planes:
            for line in plane.lines:
                for event in line.events:
                    said = dict(event.stats)
                    if "hlo_op" in said:
                        device = f"device {said['device_ordinal']} · cpu"
                        theirs.append((event.name, device, event.duration_ns))
    assert len(theirs) > 50
    ours = sorted(read.on_devices())
    assert [each[:2] for each in ours] == [each[:2] for each in sorted(theirs)]
    assert [each[2] for each in ours] == pytest.approx([each[2] for each in sorted(theirs)], abs=1.0)
    assert max(read.flows.values()) == 4, "the devices of both processes share an all-reduce"


@pytest.mark.newest
def test_the_summary_says_how_much_longer_things_look_than_in_a_short_window(capture):
    root, printed = capture
    document = json.loads(next(root.glob("*.json")).read_text())
    assert [each["process_index"] for each in document["hosts"]] == [0, 1]
    assert all(0 < each["lasted_us"] < 60_000_000 for each in document["hosts"])
    step = next(each for each in document["durations"] if "step" in each["program"] and not each["op"])
    assert step["window_us"] and step["times_as_long"] == round(step["capture_us"] / step["window_us"], 3)
    windows = r"windows   \S*step\S*: \S+ ms here, \S+ ms in short windows: \S+ times as long"
    assert re.search(windows, printed)


@pytest.mark.newest
def test_the_tables_of_collectives_and_operations_show_what_the_summary_says(pair, capture, monkeypatch):
    """The agents read their own captures, whose launches are those of the summary."""
    document = json.loads(next(capture[0].glob("*.json")).read_text())
    monkeypatch.setenv("HOME", str(pair.home))
    with viewer() as attached:
        shown = {}

        def is_shown():
            for frame in attached.source.poll(0.1):  # one by one: a short window may follow
                attached.cluster.feed(frame)
                for host in attached.cluster.hosts.values():
                    if host.window.is_capture:
                        shown[host.agent] = host.window
            return len(shown) == 2 and all(host.operations for host in attached.cluster.hosts.values())

        eventually(is_shown)
        times = program_times(attached.cluster, 0, lambda _: DeviceRates())
    took, shortest = defaultdict(list), {}
    for window in shown.values():
        for each in window.launches:
            took[window.programs[each.program][0], None].append(each.duration_us)
        for row in window.rounds:
            launch = window.launches[row.launch]
            key = window.programs[launch.program][0], window.ops[row.op], launch.number, row.round
            shortest[key] = min(*row.durations_us, shortest.get(key, row.durations_us[0]))
    for (name, op, *_), lasted in shortest.items():
        took[name, op].append(lasted)
    for each in document["durations"]:
        of_it = took[each["program"], each["op"]]
        assert len(of_it) == each["count"]
        assert median(of_it) == pytest.approx(each["capture_us"], abs=0.6)
    (step,) = (each for each in times if "step" in each.program)
    assert len(step.agents) == 2 and any(each.op for each in step.operations)


@needs_xprof
class TestXProf:
    """What XProf's own converters make of it. Its tables of operations have no rows for traces of CPUs."""

    def convert(self, capture, tool, hosts=2, **options):
        from xprof.convert import raw_to_tool_data

        paths = [str(path) for path in traces_of(capture[0])][:hosts]
        data, _ = raw_to_tool_data.xspace_to_tool_data(paths, tool, options)
        return json.loads(data)

    def test_the_trace_viewer_shows_our_durations(self, capture):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2

        document = self.convert(capture, "trace_viewer", hosts=1)
        shown = sorted(
            (each["name"], each["dur"] * 1000)
            for each in document["traceEvents"]
            if "hlo_op" in each.get("args", {})
        )
        trace = perfetto_trace_pb2.Trace()
        trace.ParseFromString(next(capture[0].glob("*.pftrace")).read_bytes())
        read = Read(trace)
        ours = sorted((name, took) for name, _, took in read.on_devices("process 0"))
        assert len(ours) > 20 and [name for name, _ in ours] == [name for name, _ in shown]
        for (name, our), (_, their) in zip(ours, shown, strict=True):
            assert our == pytest.approx(their, rel=0.01, abs=1.0), name

    def test_the_overview_and_the_memory_viewer_open(self, capture):
        assert self.convert(capture, "overview_page")
        from xprof.convert import raw_to_tool_data

        paths = traces_of(capture[0])
        # As when the page opens: it writes the programs of the traces beside them.
        assert "memory_viewer" in raw_to_tool_data.xspace_to_tool_names([str(path) for path in paths])
        (program,) = (path.name for path in paths[0].parent.glob("jit_step*.hlo_proto.pb"))
        module = program.removesuffix(".hlo_proto.pb")
        memory = self.convert(capture, "memory_viewer", module_name=module)
        assert memory["heapSizes"]


@pytest.mark.newest
def test_it_works_through_a_command_and_through_a_relay(pair, tmp_path):
    env = {**environment(), "HOME": str(pair.home), "PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}"}
    near = {**env, "HOME": str(tmp_path)}
    done = jaxtop(
        "capture", "--via", f"env HOME={pair.home}", "-o", tmp_path / "via", "--hosts", "1", env=near
    )
    assert done.returncode == 0, done.stderr
    assert [path.name.rpartition("_")[2] for path in traces_of(tmp_path / "via")] == ["1.xplane.pb"]
    port = free_port()
    with processes([*JAXTOP, "relay", "--listen", f"127.0.0.1:{port}"], env=env, stdout=PIPE, stderr=PIPE):
        eventually(lambda: run(*JAXTOP, "snapshot", f"127.0.0.1:{port}", env=env).returncode == 0, every=1)
        done = capture_of(pair, f"127.0.0.1:{port}", "-o", tmp_path / "relay", "--seconds", "0.5")
    assert done.returncode == 0, done.stderr
    assert len(traces_of(tmp_path / "relay")) == 2 and all(map(launches, traces_of(tmp_path / "relay")))


@pytest.mark.newest
def test_a_process_that_does_not_exist_or_cannot_answer_is_named(pair, tmp_path):
    done = capture_of(pair, "--hosts", "0,7", "-o", tmp_path / "none")
    assert (done.returncode, done.stderr) == (2, "jaxtop: no live process has the index 7\n")
    assert not (tmp_path / "none").exists()


@pytest.mark.newest
def test_a_signal_leaves_nothing_behind_and_the_next_capture_works(pair, tmp_path):
    env = {**environment(), "HOME": str(pair.home)}
    words = [*JAXTOP, "capture", "--seconds", "60", "-o", tmp_path / "cut"]
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with processes(words, env=env, stdout=PIPE, stderr=PIPE) as (process,):
            eventually((tmp_path / "cut").exists)
            time.sleep(1.5)
            process.send_signal(number)
            assert process.wait() == status
        assert not (tmp_path / "cut").exists()
    done = capture_of(pair, "-o", tmp_path / "next", "--seconds", "0.2", "--hosts", "0")
    assert done.returncode == 0, done.stderr


STEP = """
import os, sys, time
import numpy as np, jax, jax.numpy as jnp, jax._src.profiler
from jaxtop import agent
agent.start()
step = jax.jit(lambda x: jnp.tanh(x @ x) / 2)
x = step(np.ones((64, 64), np.float32))
def go_on(until):
    # A file says that the profiler has been on for longer than any window.
    global x
    since = time.monotonic()
    while not os.path.exists(until):
        time.sleep(0.01)
        x = step(x).block_until_ready()
        if type(jax._src.profiler._profile_state.lock).__name__ != "WakingLock":
            since = time.monotonic()
        elif time.monotonic() > since + 3.5:
            open("on", "w").close()
"""
PROFILING = """
go_on("begin")
jax.profiler.start_trace("own")
open("profiling", "w").close()
go_on("stopped")
jax.profiler.stop_trace()
open("free", "w").close()
go_on("profile")
began = time.monotonic()
jax.profiler.start_trace("second")
open("waited", "w").write(str(time.monotonic() - began))
for _ in range(20):
    x = step(x).block_until_ready()
jax.profiler.stop_trace()
go_on("end")
"""


def test_the_script_s_own_profile_comes_first(tmp_path):
    path = write(tmp_path, STEP + PROFILING)
    with processes([PYTHON, path], cwd=tmp_path, stdout=PIPE, stderr=PIPE) as (process,):
        until_a_run_is_found()
        (tmp_path / "begin").touch()
        eventually((tmp_path / "profiling").exists)
        done = jaxtop("capture", "-o", tmp_path / "refused", "--seconds", "1")
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert "nothing was captured: " in done.stderr and "own profile is running" in done.stderr
        assert not (tmp_path / "refused").exists()
        (tmp_path / "stopped").touch()
        eventually((tmp_path / "free").exists)
        words = [*JAXTOP, "capture", "-o", tmp_path / "cut", "--seconds", "60"]
        with processes(words, stdout=PIPE, stderr=PIPE) as (taking,):
            eventually((tmp_path / "on").exists)
            (tmp_path / "profile").touch()
            out, err = taking.communicate()
            assert taking.returncode == 0, err
        assert "s: the script began its own profile" in out
        eventually((tmp_path / "waited").exists)
        (tmp_path / "end").touch()
        assert process.wait() == 0, process.stderr.read()
    (second,) = tmp_path.glob("second/**/*.xplane.pb")
    events = [event.name for plane in profile(second).planes for line in plane.lines for event in line.events]
    assert sum(name.startswith("ThunkExecutor::Execute (wait") for name in events) == 20


def test_a_script_that_ends_during_a_capture_ends_as_without_it(tmp_path):
    path = write(tmp_path, STEP + "go_on('end')\nprint('done', flush=True)\nsys.exit(3)\n")
    with processes([PYTHON, path], cwd=tmp_path, stdout=PIPE, stderr=PIPE) as (process,):
        until_a_run_is_found()
        words = [*JAXTOP, "capture", "-o", tmp_path / "cut", "--seconds", "60"]
        with processes(words, stdout=PIPE, stderr=PIPE) as (taking,):
            eventually((tmp_path / "on").exists)
            (tmp_path / "end").touch()
            out, err = process.communicate()
            assert (process.returncode, out, err) == (3, "done\n", "")
            taking.send_signal(signal.SIGINT)
            taking.wait()


REDUCING = """
from jaxtop import agent
import os, sys, time
import numpy as np, jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
agent.start()
jax.distributed.initialize(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
mesh = Mesh(np.array(jax.devices()), ("data",))
data, half = P("data"), lambda x: jax.lax.psum(x, "data") / 2
step = jax.jit(jax.shard_map(half, mesh=mesh, in_specs=data, out_specs=data, check_vma=False))
ones = np.ones((4, 8), np.float32)
x = jax.make_array_from_callback((4, 8), NamedSharding(mesh, data), lambda part: ones[part])
while not os.path.exists("stop"):
    for _ in range(50):
        x = step(x).block_until_ready()
"""


@pytest.mark.skipif(not SOAK, reason="quarter of a minute; `make soak` runs it, others check the bounds")
def test_a_limit_of_size_ends_a_capture_and_is_said(tmp_path):
    path = write(tmp_path, REDUCING)
    with jax_run(path, 2, 2, cwd=tmp_path, stderr=PIPE):
        eventually(lambda: len([*tmp_path.rglob("runs/*.json")]) == 2)
        done = jaxtop("capture", "-o", tmp_path / "small", "--seconds", "30", "--max-size", "1M")
        (tmp_path / "stop").touch()
    assert done.returncode == 0, done.stderr
    # Counted operations tell, or what the process has grown by.
    assert re.search(r"ended after .* s: (its trace has the largest size|the process had grown)", done.stdout)
    assert all(0 < path.stat().st_size <= 2_000_000 for path in traces_of(tmp_path / "small"))
