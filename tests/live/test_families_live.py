"""Processes that others start: each that uses JAX is shown, none other, and all notice nothing."""

from __future__ import annotations

import json
from subprocess import PIPE

import pytest

from jaxtop.store import runfiles
from tests.cases import thorough
from tests.real.unharmed import PLAIN, outcome
from tests.support import PYTHON, eventually, processes, script, snapshot

pytestmark = [pytest.mark.jax, pytest.mark.newest]

WORKERS = """
    {start}
    import concurrent.futures, multiprocessing, os, subprocess, sys, time

    def work(number=0):
        import jax
        total = float(jax.jit(lambda x: x + number)(jax.numpy.ones(4)).sum())
        open(f"up-{os.getpid()}", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.02)
        return total

    if __name__ == "__main__":
        method, how = sys.argv[1:]
        if how == "subprocess":
            words = [sys.executable, "-c", "import script; print(script.work())"]
            print(subprocess.run(words, capture_output=True, text=True))
        else:
            context = multiprocessing.get_context(method)
        if how == "process":
            process = context.Process(target=work)
            process.start()
            process.join()
            print(process.exitcode)
        if how == "pool":
            with context.Pool(1) as pool:
                print(pool.map(work, [1]))
                pool.close()
                pool.join()
        if how == "executor":
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
                print(list(pool.map(work, [2])))
        tasks, files = (len(os.listdir(f"/proc/self/{kind}")) for kind in ("task", "fd"))
        # A thread of the executor ends later. A parent that imports JAX loads the agent's modules with it.
        has_loaded = "jaxtop.wire" in sys.modules and "jax" not in sys.modules
        print(how == "executor" or tasks, files, has_loaded)
"""


@pytest.mark.parametrize(
    ("way", "method", "how"),
    [
        thorough("run", "spawn", "process"),
        ("start", "forkserver", "process"),
        thorough("run", "forkserver", "executor"),
        thorough("start", "spawn", "pool"),
        ("run", "fork", "process"),
        ("run", "any", "subprocess"),
    ],
)
def test_workers_that_use_jax_are_shown_and_their_parent_is_not(tmp_path, way, method, how):
    plain = outcome(tmp_path, WORKERS, PLAIN, method, how)
    for old in tmp_path.glob("up-*"):
        old.unlink()
    text = WORKERS.replace("{start}", "import jaxtop; jaxtop.agent.start()" if way == "start" else "pass")
    path = script(tmp_path, text)
    (tmp_path / "go").unlink()
    before = [] if way == "start" else ["-m", "jaxtop", "run"]
    with processes([PYTHON, *before, path, method, how], cwd=tmp_path, stdout=PIPE, stderr=PIPE) as (
        process,
    ):
        (worker,) = eventually(lambda: [int(each.name[3:]) for each in tmp_path.glob("up-*")])
        eventually(lambda: [len(each.hello.devices) for each in runfiles.find()] == [4])
        status, document = snapshot()
        (tmp_path / "go").touch()
        out, err = process.communicate()
    (host,) = document["hosts"]
    assert (status, host["pid"], len(host["devices"]), worker) == (0, worker, 4, worker)
    (run,) = document["runs"]
    assert run["role"] == {"name": "worker", "is_guess": True} and run["family"]
    assert (process.returncode, out, err) == (plain.status, plain.stdout, plain.stderr)


LOADERS = """
    {start}
    import multiprocessing, os, sys
    import jax

    def load(number):
        ours = sorted(name for name in sys.modules if name.startswith("jaxtop"))
        finders = [type(each).__name__ for each in sys.meta_path if "Before" in type(each).__name__]
        return number, len(os.listdir("/proc/self/task")), {**os.environ}, sys.path, ours[:9], finders

    if __name__ == "__main__":
        with multiprocessing.get_context("forkserver").Pool(1) as pool:
            numbers, threads, variables, paths, ours, finders = zip(*pool.map(load, range(3)))
            pool.close()
            pool.join()
        print(numbers, threads, sorted(variables[0].items()), paths[0])
        print(ours[0], finders[0], file=open("ours", "w"))
"""


def test_a_worker_that_never_uses_jax_gets_no_agent_and_its_own_environment(tmp_path):
    plain = outcome(tmp_path, LOADERS, PLAIN, uses_jax=False, imports_jax=False)
    watched = outcome(tmp_path, LOADERS, "run", uses_jax=False)
    assert watched.told_apart(plain) == []
    assert runfiles.find() == [] and runfiles.endings() == []


ACTORS = """
    import multiprocessing, os, sys, time
    import jax, jax.numpy as jnp

    def act(number, parameters, samples):
        step = jax.jit(lambda w, x: jnp.tanh(x @ w).sum(0))
        while (w := parameters.get()) is not None:
            for _ in range(4):
                x = step(w, jnp.ones((16, 32)) * number)
            samples.put((number, jax.device_get(x)))
            time.sleep(0.03 * number)
        if number == 2:
            raise ValueError("an actor that fails in the end")

    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[1])
        samples, queues = context.Queue(), [context.Queue() for _ in range(2)]
        actors = [
            context.Process(target=act, args=(number, queue, samples), name=f"actor-{number}")
            for number, queue in enumerate(queues, start=1)
        ]
        for each in actors:
            each.start()
        update = jax.jit(lambda w, x: w * 0.5 + x)
        w, steps = jnp.full((32, 32), 0.01), 0
        while steps < 20 or not os.path.exists("go"):
            for queue in queues:
                queue.put(jax.device_get(w))
            for _, x in sorted(samples.get() for _ in queues):
                w = update(w, x)
            steps += 1
            if steps == 20:
                total = float(w.sum())
        for queue in queues:
            queue.put(None)
        for each in actors:
            each.join()
        print([each.exitcode for each in actors], f"{total:.4f}")
        sys.exit(3)
"""


def test_a_learner_and_its_actors_are_groups_with_steps_of_their_own(tmp_path):
    def ends(*before):
        (tmp_path / "go").unlink(missing_ok=True)
        command = [PYTHON, *before, script(tmp_path, ACTORS), "spawn"]
        with processes(command, cwd=tmp_path, stdout=PIPE, stderr=PIPE) as (process,):
            if before:
                eventually(lambda: len(runfiles.find()) == 3)
                found = eventually(stepping, every=1.0)
                actor = next(each.hello for each in runfiles.find() if each.hello.parent_pid)
                # From an address of one of them, all are found.
                eventually(lambda: len(snapshot("--wait", "4", actor.requests)[1]["hosts"]) == 3)
            (tmp_path / "go").touch()
            out, err = process.communicate()
        lines = [line for line in err.splitlines() if "import_lock" not in line]
        return (process.returncode, out, lines), found if before else None

    def stepping():
        _, document = snapshot("--wait", "3")
        return document if sum(bool(host["step"]) for host in document["hosts"]) == 3 else None

    plain, _ = ends()
    watched, document = ends("-m", "jaxtop", "run")
    assert watched == plain and plain[0] == 3
    groups = [(each["role"], len(each["runs"])) for each in document["groups"]]
    assert groups == [({"name": "main", "is_guess": True}, 1), ({"name": "actor", "is_guess": True}, 2)]
    assert len({each["family"] for each in document["groups"]}) == 1
    assert [run["process_count"] for run in document["runs"]] == [1, 1, 1]
    assert [len(host["devices"]) for host in document["hosts"]] == [4, 4, 4]
    assert not [each for each in document["findings"] if each["rule"] == "straggler"], document["findings"]
    byes = {each.hello.role: each.bye for each in runfiles.endings()}
    assert byes[None].error is None
    errors = [each.bye.error for each in runfiles.endings() if each.hello.role == "actor"]
    assert sorted(each.type if each else "" for each in errors) == ["", "ValueError"], json.dumps(groups)


RAY = """
    import os, sys, time

    import jax
    import jax.numpy as jnp
    import ray

    {start}

    @ray.remote(num_cpus=0.5)
    class Explorer:
        def __init__(self):
            self.step = jax.jit(lambda w: jnp.tanh(w @ w))

        def explore(self, w):
            return jax.device_get(self.step(w))

    @ray.remote(num_cpus=0.5)
    def idle():
        return os.getpid()

    ray.init(num_cpus=3, include_dashboard=False, logging_level="error", log_to_driver=False, **{init})
    explorers = [Explorer.remote() for _ in range(2)]
    learn = jax.jit(lambda w, found: 0.9 * w + 0.05 * sum(found))
    w, number = jnp.eye(16), 0
    while number < 100 or not os.path.exists("go"):
        w, number = learn(w, ray.get([each.explore.remote(w) for each in explorers])), number + 1
        ray.get(idle.remote())
    print(number >= 100, float(w.sum()) > 0)
    ray.shutdown()
    sys.exit(3)
"""


@pytest.mark.thorough
def test_actors_of_ray_are_shown_with_the_names_of_their_classes_and_tasks_without_jax_are_not(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: `make soak` installs it")

    def text(start, init):
        return RAY.replace("{start}", start).replace("{init}", init)

    (tmp_path / "go").touch()
    plain = outcome(tmp_path, text("pass", "{}"), PLAIN)
    (tmp_path / "go").unlink()
    hook = '{"runtime_env": {"worker_process_setup_hook": agent.start}}'
    path = script(tmp_path, text("from jaxtop import agent; agent.start()", hook))
    with processes([PYTHON, path], cwd=tmp_path, stdout=PIPE) as (process,):
        eventually(lambda: len(runfiles.find()) == 3)
        _, document = snapshot()
        (tmp_path / "go").touch()
        out, _ = process.communicate()
    assert (process.returncode, out) == (plain.status, plain.stdout) == (3, "True True\n")
    roles = sorted(run["role"]["name"] for run in document["runs"])
    assert roles == ["Explorer", "Explorer", "main"]
    assert len({run["name"] for run in document["runs"]}) == 1  # none is called after Ray's own script
    assert len({run["family"] for run in document["runs"]}) == 1
