"""The traps that JAX sets an observer (backends, pinned arrays, unconnected clients, ...): none is met."""

from __future__ import annotations

from subprocess import PIPE

import pytest

from tests.cases import thorough
from tests.real.unharmed import PLAIN, START_HOT, Watch, outcome
from tests.support import PYTHON, SOAK, environment, eventually, free_port, processes, run, script

pytestmark = pytest.mark.jax

LONG = 10 if SOAK else 1


@pytest.fixture
def watch():
    with Watch() as watching:
        yield watching


def watched(folder, watch, text, *words, **options):
    """Run a script with an agent that is never at rest and a viewer; its complaints are the test's."""
    done = outcome(folder, text, "hot", *words, watch=watch, imports_jax=False, **options)
    assert (done.status, done.stderr) == (0, ""), done.stdout
    assert watch.met == {done.pid}
    return done.stdout


def test_backends_are_not_initialised_by_the_agent(tmp_path, watch):
    """Nor is the choice of the platform or the number of devices taken from the script.

    A process that joins a run is shown before it has backends.
    """
    text = """
        {start}
        import jax, os, sys, time
        from jax._src import xla_bridge
        jax.distributed.initialize("127.0.0.1:" + sys.argv[2], 1, 0)
        end = time.monotonic() + 1.5 * int(sys.argv[1])
        while time.monotonic() < end or not os.path.exists("go"):
            assert not xla_bridge._backends
            time.sleep(0.001)
        jax.config.update("jax_num_cpu_devices", 3)
        print(jax.device_count(), jax.default_backend())
    """
    env = {**environment(), "XLA_FLAGS": ""}
    assert watched(tmp_path, watch, text, str(LONG), str(free_port()), env=env) == "3 cpu\n"


LATE = """
    {start}
    import os, sys, time
    import numpy as np
    import jax
    from jax.extend.backend import clear_backends
    address, index, moment, pause = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    if moment == "cleared":                            # alone at first, and then anew with the others
        jax.numpy.ones(4).block_until_ready()
        time.sleep(pause / 2)
        clear_backends()
    time.sleep(pause * index)
    jax.distributed.initialize(address, 2, index)
    named, spec = jax.sharding.NamedSharding, jax.sharding.PartitionSpec
    mesh = jax.sharding.Mesh(np.array(jax.devices()), "x")
    x = jax.make_array_from_callback((8,), named(mesh, spec("x")), np.arange(8.0).__getitem__)
    total = jax.jit(lambda x: x.sum(), out_shardings=named(mesh, spec()))
    for _ in range(20):
        total(x).block_until_ready()
    print(float(total(x)), jax.process_count(), flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
"""


@pytest.mark.parametrize("moment", [thorough("late"), "cleared"])
def test_a_host_that_comes_late_harms_nobody(tmp_path, watch, moment):
    """Between `initialize` and the connection JAX's client kills the process of whoever touches it."""
    path = script(tmp_path, LATE.replace("{start}", START_HOT))
    address = f"127.0.0.1:{free_port()}"
    commands = [[PYTHON, path, address, index, moment, 4 if SOAK else 2] for index in (0, 1)]
    with processes(*commands, stdout=PIPE, stderr=PIPE, cwd=tmp_path) as started:

        def is_one_run():
            met = [watch.live(each.pid) for each in started]
            return all(met) and {each["hello"].process_count for each in met} == {2}

        def has_ended():
            return any(each.poll() is not None for each in started)

        eventually(lambda: is_one_run() or has_ended())
        (tmp_path / "go").touch()
        ends = [process.communicate() for process in started]
        assert [process.returncode for process in started] == [0, 0], ends
    assert [stdout.splitlines()[-1] for stdout, _ in ends] == ["28.0 2"] * 2
    assert {watch.live(process.pid)["hello"].process_count for process in started} == {2}


def test_arrays_that_the_script_drops_are_gone_at_once(tmp_path, watch):
    """Also in the middle of a census of thousands of arrays of hundreds of kinds."""
    text = """
        {start}
        import sys, time, weakref
        import numpy as np
        import jax
        many = [jax.device_put(np.zeros(i % 300 + 1)) for i in range(6000)]
        longest = 0
        end = time.monotonic() + 2 * int(sys.argv[1])
        while time.monotonic() < end:
            x = jax.device_put(np.zeros(1000))
            time.sleep(0.003)
            gone, dropped = weakref.ref(x), time.monotonic()
            del x
            while gone() is not None:
                time.sleep(0)
                assert time.monotonic() < dropped + 10, "still held"
            longest = max(longest, time.monotonic() - dropped)
        print(len(jax.live_arrays()))
        open("longest", "w").write(str(longest))
    """
    assert watched(tmp_path, watch, text, str(LONG)) == "6000\n"


def test_a_census_adds_no_arrays_to_those_of_the_script(tmp_path, watch):
    """As reading `addressable_shards` would: eight more for an array over eight devices."""
    text = """
        {start}
        import sys, time
        import numpy as np
        import jax
        mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
        for spec in [(), ("data",), ("data", "model"), (None, "model")]:
            sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
            globals()[str(spec)] = jax.device_put(np.zeros((8, 8)), sharding)
        time.sleep(0.5)  # what it took to make them, a census may hold for a moment
        counts = set()
        for _ in range(50 * int(sys.argv[1])):
            counts.add(len(jax.live_arrays()))
            time.sleep(0.02)
        print(counts)
    """
    assert watched(tmp_path, watch, text, str(LONG), env=environment(8)) == "{4}\n"


DONATING = """
    {start}
    import sys, time
    import numpy as np
    import jax
    step = jax.jit(lambda x, y: (x * 0.99 + y.sum(), y + 1), donate_argnums=(0, 1))
    state = [(jax.device_put(np.full(50 + i % 9, i, np.float32)), jax.device_put(np.zeros(9)))
             for i in range(200)]
    for _ in range(30 * int(sys.argv[1])):
        old = state
        state = [step(*each) for each in state]
        for each in old[:20]:
            each[0].delete()
    np.save("result.npy", np.concatenate([np.asarray(x) for x, _ in state]))
"""


def test_donated_and_deleted_arrays_change_nothing_in_the_results(tmp_path, watch):
    plain = outcome(tmp_path, DONATING, PLAIN, str(LONG), imports_jax=False)
    done = outcome(tmp_path, DONATING, "hot", str(LONG), watch=watch, imports_jax=False)
    assert plain.status == 0 and plain.results and not done.told_apart(plain)
    assert watch.met == {done.pid}


NANS = """
    {start}
    import sys, threading, time
    import jax, jax.numpy as jnp
    from jax._src import api
    log = jax.jit(jnp.log)
    def raises():
        log(jnp.ones(3))
        try:
            log(-jnp.ones(3))
        except FloatingPointError:
            return True
        return False
    log(-jnp.ones(3))
    seen = [raises()]
    with jax.debug_nans(True):
        seen.append(raises())
    for wanted in (True, False, True, False):
        jax.config.update("jax_debug_nans", wanted)
        time.sleep(0.3)                                # the agent notices that its hook was taken, or is free
        thread = threading.Thread(target=lambda: seen.append(raises()))
        thread.start()
        thread.join()
    print(seen, file=sys.stderr)
    for _ in range(1000):
        log(jnp.ones(3))
    print("ready", flush=True)
    time.sleep(60)
"""


def test_nan_checks_of_the_script_work_and_launches_are_counted_again_afterwards(tmp_path, watch):
    path = script(tmp_path, NANS.replace("{start}", START_HOT))
    with processes([PYTHON, path], stdout=PIPE, stderr=PIPE) as (process,):
        assert process.stderr.readline() == "[False, True, True, False, True, False]\n"
        assert "ready\n" in process.stdout  # after what JAX says of the values it found
        eventually(lambda: max([*watch.launches(process.pid).values(), 0]) >= 1000)
        eventually(lambda: not watch.live(process.pid)["hello"].sources["launches"].startswith("off"))


@pytest.mark.parametrize("at", ["while it runs", thorough("at its end")])
def test_backends_can_be_cleared_and_no_client_is_left(tmp_path, watch, at):
    """With JAX's own check for clients that somebody still holds, where this JAX has one."""
    text = """
        {start}
        import sys, time
        import numpy as np
        import jax
        from jax.extend.backend import clear_backends
        name = "jax_debug_leaked_clients_on_clear_backends"
        if hasattr(jax.config, name):
            jax.config.update(name, True)
        for i in range(int(sys.argv[1])):
            many = [jax.device_put(np.zeros(i % 300 + 1)) for i in range(3000)]
            time.sleep(0.3)
            del many
            if sys.argv[2] == "while it runs":
                clear_backends()
            print(jax.jit(lambda x: x + i)(np.ones(2)))
    """
    times = 3 * LONG
    assert watched(tmp_path, watch, text, str(times), at).splitlines() == [
        f"[{i + 1}. {i + 1}.]" for i in range(times)
    ]


def test_new_backends_are_reported_as_they_are(tmp_path, watch):
    """A program that clears its backends may bring up others, with other devices."""
    text = """
        {start}
        import time
        import jax
        from jax.extend.backend import clear_backends
        for count in (3, 5, 2):
            jax.config.update("jax_num_cpu_devices", count)
            x = jax.jit(lambda x: x + 1)(jax.numpy.ones(4)).block_until_ready()
            print(count, flush=True)
            time.sleep(60 if count == 2 else 0.5)
            del x
            clear_backends()
    """
    path = script(tmp_path, text.replace("{start}", START_HOT))
    with processes([PYTHON, path], env={**environment(), "XLA_FLAGS": ""}) as (process,):
        watch.until_live(process.pid)
        eventually(lambda: len(watch.live(process.pid)["hello"].devices) == 2)


STEPS = """
    {start}
    import sys, time, warnings, weakref
    import numpy as np
    import jax, jax.numpy as jnp
    from jaxtop import agent

    class Strange:
        @property
        def size(self): raise SystemExit("a property of the script was called")
        shape = dtype = __float__ = __int__ = __array__ = size

    big = jnp.zeros(1 << 20)
    sum_up = jax.jit(lambda x: (x * 1.5).sum())
    metrics = dict(text="text", big=big, strange=Strange(), none=None, numpy=np.float32(3), huge=10 ** 400,
                   complex=1j, nan=float("nan"), one=np.ones((1, 1)), name=jnp.ones((1, 1)))
    for i in range(200):
        indices = (i, np.int64(i), jnp.int32(i), float(i), True, None, "i", 1 << 90, float("nan"), Strange())
        for index in indices:
            agent.step(index, loss=sum_up(big), **metrics)
        agent.step(i, **{f"metric {i}": i, "x" * 100_000: 1, "\\udcff": 2, "": 3})
        agent.step(0, **dict.fromkeys(map(str, range(1000)), 1.0))
    deleted = jnp.ones(())
    agent.step(i, deleted=deleted)
    deleted.delete()
    with jax.checking_leaks():
        print(jax.jit(lambda x: [agent.step(x, traced=x), x + 1][1])(1.0))
    kept = [jnp.full((), 7.0), jax.random.key(1)]
    agent.step(77, loss=kept[0], key=kept[1], bfloat=jnp.bfloat16(2))
    reference = weakref.ref(kept[0])
    del kept
    while reference() is not None:  # held although it is ready
        time.sleep(0.01)
    print("ready", flush=True)
    while sys.argv[1] == "wait":
        time.sleep(0.1)
"""


def test_a_step_takes_whatever_it_is_given_and_holds_nothing(tmp_path, watch):
    """Numbers, arrays that are ready or not, deleted, huge or traced ones, texts, objects of the script."""
    path = script(tmp_path, STEPS.replace("{start}", START_HOT))
    with processes([PYTHON, path, "wait"], stdout=PIPE, stderr=PIPE) as (process,):
        assert process.stdout.readline() == "2.0\n", process.stderr.read()
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        eventually(lambda: watch.live(process.pid)["pulse"].step.index == 77)
        # Each metric is read once its array is ready.
        eventually(lambda: watch.live(process.pid)["pulse"].step.metrics.get("loss") == 7)
        eventually(lambda: watch.live(process.pid)["pulse"].step.metrics.get("bfloat") == 2)
        step = watch.live(process.pid)["pulse"].step
        assert len(step.metrics) <= 17
        assert step.calls == 200 * 12 + 3


def test_programs_have_the_names_that_jax_and_xla_make_of_those_of_functions(tmp_path):
    """XLA writes an underscore for each byte of a letter that is not ASCII."""
    text = """
        import jax
        from jaxtop.base.names import program_of
        names = "step", "<lambda>", "tr\\u00e4in_step", "gr\\u00f6\\u00dfe_", "\\u0448\\u0430", "s\\u2603p"
        for name in names:
            def function(x): return x + 1
            function.__name__ = name
            compiled = jax.jit(function).lower(1.0).compile()
            (module,) = compiled.runtime_executable().hlo_modules()
            print(ascii(name), module.name, program_of(name))
    """
    done = run(PYTHON, script(tmp_path, text), env=environment(1), imports_jax=True)
    rows = [line.rsplit(" ", 2) for line in done.stdout.splitlines()]
    assert len(rows) == 6 and [row for row in rows if row[1] != row[2]] == [], done.stderr
