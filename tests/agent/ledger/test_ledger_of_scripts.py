"""The ledger of real scripts that know what they spent their time on."""

import json
import signal

import pytest

from jaxtop.cli import replay
from jaxtop.features.ledger import collect
from jaxtop.store import ledgers
from tests import patience
from tests.cases import thorough
from tests.support import PYTHON, environment, run, script

pytestmark = [pytest.mark.jax, pytest.mark.newest]

PLANTED = """
    import gc, json, os, signal, sys, time
    from jaxtop import agent
    agent.start("planted")
    import jax, jax.numpy as jnp
    import numpy as np

    spent = {}
    class planted:
        def __init__(self, kind): self.kind = kind
        def __enter__(self): self.at = time.monotonic()
        def __exit__(self, *_): spent[self.kind] = spent.get(self.kind, 0.0) + time.monotonic() - self.at

    def restore_state():
        with planted("restoring"): time.sleep(2)
    def next_batch():
        with planted("input"): time.sleep(0.03)
    def save_state():
        with planted("saving"): time.sleep(1)
    @jax.jit
    def step(x):
        for i in range(12):
            x = jnp.tanh(x @ x * 0.01 + i)
        return x

    x = jax.device_put(np.ones((200, 200), np.float32))  # compiles nothing
    while agent.status().state != "serves":  # it loads beside the script, which has nothing to import here
        time.sleep(0.01)
    restore_state()
    with planted("compiling"): step(x).block_until_ready()
    first, last, killed = map(int, sys.argv[1:])
    garbage = [{} for _ in range(500_000)]
    for i in range(first, last):
        next_batch()
        with planted("stepping"): x = step(x).block_until_ready()
        if i % 50 == 49:
            with planted("garbage"): gc.collect()
        if i % 100 == 99: save_state()
        if i == killed:
            print(json.dumps(spent), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    print(json.dumps(spent))
"""

SAVES = """
    import json, os, signal, sys, threading, time
    from jaxtop import agent
    agent.start("saving")
    import jax, jax.numpy as jnp
    import orbax.checkpoint as ocp
    step = jax.jit(lambda state: {name: value * 0.999 for name, value in state.items()})
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=sys.argv[2] == "async")
    manager = ocp.CheckpointManager(sys.argv[1], options=options)
    first = manager.latest_step() or 0
"""

ORBAX = (
    SAVES
    + """
    spent = {"saving": 0.0, "restoring": 0.0}
    state = {f"w{i}": jnp.ones((512, 512)) for i in range(20)}
    if first:
        at = time.monotonic()
        state = manager.restore(first, args=ocp.args.StandardRestore(state))
        spent["restoring"] += time.monotonic() - at
    for i in range(first, first + 60):
        state = jax.block_until_ready(step(state))
        time.sleep(0.02)
        if i % 20 == 19:
            at = time.monotonic()
            manager.save(i + 1, args=ocp.args.StandardSave(state))
            spent["saving"] += time.monotonic() - at
    at = time.monotonic()
    manager.wait_until_finished()
    spent["saving"] += time.monotonic() - at
    print(json.dumps(spent))
"""
)

# Its second save is cut short by SIGKILL: while it blocks the script, or while it is written beside it.
KILLED_IN_A_SAVE = (
    SAVES
    + """
    state = {f"w{i}": jnp.ones((512, 1024)) for i in range(20)}
    if first:
        state = manager.restore(first, args=ocp.args.StandardRestore(state))
    for i in range(first, first + 60):
        state = jax.block_until_ready(step(state))
        time.sleep(0.1)
        if i == 19:
            manager.save(i + 1, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()
        if i == 49 and not first:
            time.sleep(3)  # the last two seconds of a killed process are not in its file
            die = lambda: os.kill(os.getpid(), signal.SIGKILL)
            if sys.argv[2] == "sync":
                threading.Timer(0.03, die).start()
            manager.save(i + 1, args=ocp.args.StandardSave(state))
            die()
    print(json.dumps({"first": first}))
"""
)


def ran(path, folder, *words, **more):
    """Run a script to its end; return what it knows that it spent, and its status."""
    env = environment(1, JAXTOP_LEDGER=str(folder), **more)
    done = run(PYTHON, path, *words, env=env, imports_jax=True)
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.returncode


def in_folder(folder):
    (job,), problems = collect.ledgers_of_files(sorted(folder.glob(f"*{ledgers.SUFFIX}")))
    assert not problems
    return job


def assert_close(process, truth, kinds):
    """Each kind is within 3 % of the wall time, or half a second, of what the script measured itself."""
    whole = sum(process.spent.values())
    assert whole == pytest.approx(process.until - process.started, abs=0.01)
    for kind in kinds:
        # Samples come late where they wait for a core.
        allowed = max(0.5, 0.03 * whole) * min(patience.factor(), 3.0)
        assert process.spent.get(kind, 0.0) == pytest.approx(truth.get(kind, 0.0), abs=allowed), kind


def test_each_kind_is_what_the_script_planted_and_what_a_restart_does_again_is_lost(tmp_path):
    path, folder = script(tmp_path, PLANTED), tmp_path / "ledgers"
    kinds = ("restoring", "compiling", "input", "saving", "garbage")
    before, status = ran(path, folder, 0, 300, 260)
    assert status == -signal.SIGKILL
    (first,) = in_folder(folder).attempts[0].processes
    assert first.end == ""
    after, status = ran(path, folder, 200, 400, -1, JAXTOP_RECORD=str(tmp_path / "boxes"))
    assert status == 0
    job = in_folder(folder)
    killed, ended = (attempt.processes[0] for attempt in job.attempts)
    assert_close(ended, after, kinds)
    with replay.opened([tmp_path / "boxes"]) as (session, span):
        (recorded,) = collect.ledgers_of_cluster(session.at(span[1]), span[1])
    assert recorded.attempts[0].processes[0].spent == pytest.approx(dict(ended.spent), abs=0.01)
    # The last two seconds of a killed process are not in its file.
    assert_close(killed, before, ("restoring", "compiling", "saving", "garbage"))
    assert [save.step for save in killed.saves] == [101, 201]
    assert ended.end == "ended" and job.attempts[1].ending == "ended"
    lost = killed.until - (killed.saves[-1].at_ms + killed.saves[-1].blocked_ms) / 1000
    assert job.spent["lost"] == pytest.approx(lost, abs=0.2)
    assert job.spent["down"] == pytest.approx(ended.started - killed.until, abs=0.01)
    assert sum(job.spent.values()) == pytest.approx(job.until - job.started, abs=0.05)


@pytest.mark.parametrize("mode", [thorough("sync"), "async"])
def test_checkpoints_of_orbax_are_known_from_its_own_reports(tmp_path, mode):
    pytest.importorskip("orbax.checkpoint")
    path, folder = script(tmp_path, ORBAX), tmp_path / "ledgers"
    for _ in range(2):
        truth, status = ran(path, folder, tmp_path / "checkpoints", mode)
        assert status == 0
    process = in_folder(folder).attempts[1].processes[0]
    assert_close(process, truth, ("saving", "restoring"))
    assert [save.seen_by for save in process.saves] == ["orbax"] * 3
    assert all(save.committed_ms is not None for save in process.saves)


@pytest.mark.parametrize("mode", [thorough("sync"), "async"])
def test_a_save_that_a_kill_cuts_short_is_none_and_the_work_since_the_one_before_is_lost(tmp_path, mode):
    pytest.importorskip("orbax.checkpoint")
    path, folder, checkpoints = script(tmp_path, KILLED_IN_A_SAVE), tmp_path / "ledgers", tmp_path / "orbax"
    env = environment(1, JAXTOP_LEDGER=str(folder))
    killed = run(PYTHON, path, checkpoints, mode, env=env, imports_jax=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    truth, status = ran(path, folder, checkpoints, mode)
    assert (truth, status) == ({"first": 20}, 0), "Orbax itself goes back to the save before"
    job = in_folder(folder)
    (before,), (after,) = (attempt.processes for attempt in job.attempts)
    complete = [save for save in before.saves if save.committed_ms is not None]
    assert [save.step for save in complete] == [20]
    assert before.end == "" and after.end == "ended"
    (saved,) = complete
    # What was done while it was written is done again, too: at least 30 steps of 0.1 s.
    assert job.spent["lost"] == pytest.approx(before.until - (saved.at_ms + saved.blocked_ms) / 1000, abs=0.2)
    assert job.spent["lost"] > 3
