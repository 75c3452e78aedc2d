"""The black box: a process that was killed can be seen as it was at the end; the script notices nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import closing
from functools import cache

import pytest

from jaxtop.model import State, state_of
from jaxtop.sources import Session
from tests import patience
from tests.real.unharmed import outcome
from tests.support import (
    JAXTOP,
    PYTHON,
    ROOT,
    environment,
    eventually,
    jax_run,
    jaxtop,
    processes,
    run,
    script,
    snapshot,
)

pytestmark = [pytest.mark.jax, pytest.mark.newest]

COUNTING = """
    import sys, time
    import jax, jax.numpy as jnp
    from jaxtop import agent
    from jaxtop_agent.core import budget
    budget.COLLECTOR = budget.RHYTHM = budget.CpuShare(1.0)  # else they pause for seconds
    agent.start(record=sys.argv[1])
    @jax.jit
    def step(x):
        return x * 0.999 + 1
    x = jnp.ones((1024, 256))
    for i in range(1_000_000):
        x = step(x)
        x.block_until_ready()
        agent.step(i)
        print(time.time(), i + 1, flush=True)
        time.sleep(0.05)
"""


def boxes(folder):
    return sorted(folder.glob("*.mcap"))


def last(folder):
    """The end of the black boxes in a folder: the session, the time, the cluster."""
    session = Session(boxes(folder))
    end = session.span[1]
    return session, end, session.at(end)


@pytest.mark.quiet
def test_a_killed_process_is_shown_as_it_was_less_than_two_seconds_before(tmp_path):
    """Against what the script itself wrote: the state is that of a step which it took at most 2 s before."""
    box = tmp_path / "box"
    out = tmp_path / "out"
    with (
        out.open("w") as file,
        processes([PYTHON, script(tmp_path, COUNTING), box], stdout=file) as (process,),
    ):
        eventually(lambda: boxes(box) and len(out.read_text().splitlines()) > 150)
        process.send_signal(signal.SIGKILL)
        process.wait()
    lines = [line.split() for line in out.read_text().splitlines() if line.count(" ") == 1]
    took = {int(count): float(at) for at, count in lines}
    session, end, cluster = last(box)
    (host,) = cluster.hosts.values()
    assert state_of(host, end) is State.DIED
    launches = host.launches["step"]
    assert max(took.values()) - took[launches] < 2.0 * patience.factor()
    assert host.pulse.step.calls == pytest.approx(launches, abs=2)
    assert max(took.values()) - host.pulse.sampled_ms / 1000 < 2.0 * patience.factor()
    assert host.pulse.devices.used_bytes[0] >= 1024 * 256 * 4
    assert [group.name for group in host.arrays.groups if group.shape == (1024, 256)] == ["x"]
    assert [event.kind for event in cluster.events][-1] == "died"
    assert any("was not finished" in note for note in session.notes)
    session.close()


PAIR = """
    import sys, time
    from jaxtop import agent
    agent.start(record=sys.argv[4] if len(sys.argv) > 4 else None)
    import jax, jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    jax.distributed.initialize(coordinator, count, index)
    mesh = Mesh(jax.devices(), ("data",))
    x = jax.device_put(jnp.ones(len(jax.devices())), NamedSharding(mesh, P("data")))
    total = jax.jit(lambda x: x * 0 + x.sum() / x.size)
    while True:
        x = total(x)
        x.block_until_ready()
        time.sleep(0.05)
"""


def _outlived(box):
    """Whether the others have recorded more since one of them died."""
    session, end, _ = last(box)
    died = [event.at for event in session.overview.events if event.kind == "died"]
    session.close()
    return bool(died) and end > min(died)


def test_the_boxes_of_several_processes_are_one_session(tmp_path):
    """By the environment alone; at the end who was killed is dead, and the others are not."""
    box = tmp_path / "boxes"
    env = environment(2, JAXTOP_RECORD=str(box))
    with jax_run(script(tmp_path, PAIR), hosts=3, env=env, stderr=subprocess.DEVNULL) as started:

        def has_all():
            with closing(Session(boxes(box))) as session:
                if session.span is None:  # a file is there before its first keyframe
                    return False
                hosts = session.at(session.span[1]).hosts.values()
            return sum(sum(host.launches.values()) > 40 for host in hosts) == 3

        eventually(has_all, every=1.0)
        started[1].send_signal(signal.SIGKILL)
        started[1].wait()
        eventually(lambda: _outlived(box), every=1.0)
        session, _, cluster = last(box)
        assert {host.run for host in cluster.hosts.values()} == {next(iter(cluster.hosts.values())).run}
        (one,) = (agent for agent, host in cluster.hosts.items() if host.process_index == 1)
        died = next(event for event in session.overview.events if (event.kind, event.agent) == ("died", one))
        # The others may end, too, once they miss it: but not before.
        then = session.at(died.at + 0.001)
        states = {host.process_index: state_of(host, died.at + 0.001) for host in then.hosts.values()}
        assert states.pop(1) is State.DIED
        assert set(states.values()) <= {State.LIVE, State.QUIET}
        before = session.at(died.at - 0.5)
        assert {state_of(host, died.at - 0.5) for host in before.hosts.values()} == {State.LIVE}
        session.close()
        printed = jaxtop("replay", box, "--at", f"{died.at - 0.5:.3f}")
    assert printed.returncode == 0
    document = json.loads(printed.stdout)
    assert [(host["process_index"], host["state"]) for host in document["hosts"]] == [
        (index, "live") for index in range(3)
    ]
    assert len(document["meshes"][0]["device_ids"]) == 6


BOUNDED = """
    import sys, time
    import jaxtop_agent.blackbox as box
    box.FILE_SECONDS = 1.0
    import os
    os.environ["JAXTOP_RECORD_MINUTES"] = "3"
    from jaxtop import agent
    agent.start(record=sys.argv[1], interval=0.1)
    import jax
    step = jax.jit(lambda x: x + 1)
    x = 0
    while not os.path.exists(sys.argv[2]):
        x = step(x)
        time.sleep(0.01)
"""


def test_only_the_last_minutes_are_kept_and_a_process_that_ends_in_order_closes_its_box(tmp_path):
    box, stop = tmp_path / "box", tmp_path / "stop"
    with processes([PYTHON, script(tmp_path, BOUNDED), box, stop]) as (process,):
        eventually(lambda: boxes(box) and "-006" in boxes(box)[-1].name)
        assert len(boxes(box)) <= 4  # one may have been begun, and the oldest not yet be gone
        stop.touch()
        assert process.wait() == 0
    session, end, cluster = last(box)
    (host,) = cluster.hosts.values()
    assert len(boxes(box)) == 3 and not session.notes
    assert 1.5 < end - session.span[0] < 30 * patience.factor()
    assert state_of(host, end) is State.ENDED
    # What was told once, in a file that is gone, is in the one that is there.
    assert host.hello.jax and host.programs.programs and host.launches
    session.close()


WORKING = """
    {start}
    import os, sys, time
    import jax
    import numpy as np
    step = jax.jit(lambda x: x * 1.5 + 1)
    x = np.ones(8, np.float32)
    for i in range(100):
        x = step(x)
        time.sleep(0.02)
        if i == 50 and len(sys.argv) > 1:
            exec(sys.argv[1])
    if os.fork() == 0:
        print("a child that ends like a program", flush=True)
        sys.exit(3)
    os.wait()
    print(x.sum())
    np.save("result.npy", np.asarray(x))
"""
TAKEN_AWAY = "import shutil; shutil.rmtree(os.environ.get('JAXTOP_RECORD', ''), ignore_errors=True)"


@pytest.fixture(scope="module")
def without_a_box(tmp_path_factory):
    """Returns how the script ends without an agent: with each argument it runs once."""
    return cache(
        lambda *words: outcome(tmp_path_factory.mktemp("plain"), WORKING, "plain", *words, imports_jax=False)
    )


@pytest.mark.parametrize("trouble", ["none", "a file", "taken away", "full", "no such place"])
def test_whatever_the_disk_does_the_script_ends_as_without_a_black_box(tmp_path, without_a_box, trouble):
    box = tmp_path / "box"
    words = []
    if trouble == "a file":
        box.write_text("not a folder")
    elif trouble == "taken away":
        words = [TAKEN_AWAY]
    elif trouble == "full":
        box = tmp_path / "full"
        box.symlink_to("/dev/full")
        box = box / "x.mcap"
    elif trouble == "no such place":
        box = "/proc/nowhere"
    plain = without_a_box(*words)
    env = environment(JAXTOP_RECORD=str(box))
    done = outcome(tmp_path, WORKING, "start", *words, env=env, imports_jax=False)
    assert plain.status == 0 and plain.results
    assert not [line for line in done.told_apart(plain) if "os.fork() was called" not in line]
    if trouble == "none":
        session, end, cluster = last(box)
        (host,) = cluster.hosts.values()
        assert not session.notes  # the child that ended wrote nothing into it
        assert state_of(host, end) is State.ENDED
        session.close()


def test_a_run_says_that_it_records_and_when_it_cannot(tmp_path):
    """`jaxtop run --record`, and a viewer beside it."""
    (tmp_path / "file").touch()
    text = script(tmp_path, COUNTING.replace("record=sys.argv[1]", ""))
    for record, said in ((tmp_path / "box", "on: "), (tmp_path / "file", "off: ")):
        with processes(
            [*JAXTOP, "run", "--name", "told", "--record", record, text], stdout=subprocess.DEVNULL, cwd=ROOT
        ):

            def recording_source():
                hosts = snapshot("told", "--wait", "2")[1].get("hosts", [])
                return hosts[0]["sources"].get("recording", "") if hosts else ""

            eventually(lambda said=said, source=recording_source: source().startswith(said))
    assert boxes(tmp_path / "box")
    assert os.listdir(tmp_path / "box")


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=False).returncode:
        pytest.skip("nobody but root can make a small file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


SAYING = """
    import sys, time
    from jaxtop import agent
    handle = agent.start(record=sys.argv[1])
    import jax
    jax.devices()
    while not handle.ignored:
        time.sleep(0.05)
    print(handle)
"""


def test_a_box_for_which_the_disk_has_no_room_is_said_on_the_terminal(small_disk, tmp_path):
    """By `jaxtop run`, by the handle of `agent.start`, and as a finding: the folder stays empty."""
    done = jaxtop("run", "--record", small_disk / "box", "-c", "print('done')")
    why = "the disk has 1.0 MiB free; 64 MiB stay for the run: nothing is recorded"
    said = f"--record {small_disk / 'box'}: {why}"
    assert done.stdout == "done\n" and said in done.stderr and done.stderr.count("\n") == 1
    done = jaxtop("run", "-c", "print('done')", env=environment(JAXTOP_RECORD=str(small_disk)))
    assert f"JAXTOP_RECORD {small_disk}: the disk has 1.0 MiB free" in done.stderr
    handle = run(PYTHON, script(tmp_path, SAYING), small_disk, env=environment(), imports_jax=True)
    assert why in handle.stdout
    assert not boxes(small_disk)
