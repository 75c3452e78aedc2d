"""A script gives the same output, results and exit status, byte for byte, with the agent in it as without."""

from __future__ import annotations

import textwrap

import pytest

from tests.cases import thorough
from tests.real.unharmed import PLAIN, WAYS, Watch, outcome
from tests.support import JAXTOP, PYTHON, SOAK, environment, run, script

pytestmark = pytest.mark.jax

TRAINING = """
    {start}
    import logging, pickle, random, sys, threading, warnings, weakref, atexit
    import numpy as np
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    class Results:                      # pickled as __main__.Results
        def __init__(self, value):
            self.value = value

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(threadName)s %(message)s")
    atexit.register(print, "the script's own exit hook", file=sys.stderr)

    @jax.jit
    def step(w, key):
        key, own = jax.random.split(key)
        x = jax.random.uniform(own, (64, 8))
        loss, g = jax.value_and_grad(lambda w: jnp.mean((x @ w - 1) ** 2))(w)
        return w - 0.1 * g, key, loss

    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
    w = jax.device_put(jnp.zeros((8, 4)), NamedSharding(mesh, P(None, "model")))
    key = jax.random.key(random.Random(3).randrange(99))
    np.random.seed(1)
    for i in range(200):
        w, key, loss = step(w, key)
        if i % 20 == 0:
            print(i, repr(float(loss)), random.Random(i).random(), np.random.random())
            logging.info("step %d", i)
    weakref.finalize(mesh_user := Results(1), print, "finalized")
    warnings.warn("the script's own warning")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start(); thread.join()
    jax.debug.print("from a program: {}", w.sum())
    np.save("result.npy", np.asarray(w))
    with open("result.pickle", "wb") as file:
        pickle.dump(Results(float(loss)), file)
"""

FAILING = """
    {start}
    import sys
    import jax
    import jax.numpy as jnp

    def inner(x):
        raise KeyError("the script's own")

    def outer(x):
        try:
            return jax.jit(inner)(x)
        except KeyError as error:
            raise ValueError("chained") from error

    jax.block_until_ready(jax.jit(lambda x: x + 1)(jnp.ones(4)))
    outer(jnp.ones(4))
"""

NAN = """
    {start}
    import jax
    import jax.numpy as jnp
    import time

    @jax.jit
    def f(x):
        return jnp.log(x)

    jax.config.update("jax_debug_nans", True)
    jax.block_until_ready(f(jnp.ones(3)))
    time.sleep(0.5)                       # the agent sees that its hook was taken
    for x in (1.0, 2.0, -1.0):
        f(jnp.full(3, x))
"""

LEAVING = """
    {start}
    import sys
    import jax
    print(float(jax.numpy.ones(4).sum()))
    sys.exit(int(sys.argv[1]) if sys.argv[1].isdecimal() else sys.argv[1])
"""


# Each kind of script in all ways once; here a sample.
SAMPLE = WAYS if SOAK else ("run", "hot")


@pytest.fixture
def watch():
    with Watch() as watching:
        yield watching


def assert_unharmed(folder, text, watch, *words, ways=SAMPLE, agent=True, **options):
    plain = outcome(folder, text, PLAIN, *words, **options)
    for way in ways:
        watched = outcome(folder, text, way, *words, watch=watch if agent else None, **options)
        difference = "\n".join(watched.told_apart(plain))
        assert not difference, f"{way}:\n{difference}"
        assert (watched.pid in watch.met) == agent, f"{way}: was the agent there?"
    assert plain.pid not in watch.met
    return plain


def test_a_training_run_gives_the_same_output_and_the_same_results(tmp_path, watch):
    plain = assert_unharmed(tmp_path, TRAINING, watch, imports_jax=False)
    assert plain.status == 0 and "from a program" in plain.stdout
    assert "Thread-1" in plain.stderr and "the script's own exit hook" in plain.stderr
    assert len(plain.results) == 2


def test_an_exception_ends_the_script_with_the_same_traceback(tmp_path, watch):
    ways = WAYS if SOAK else ("run",)  # the only one with frames of its own around the script
    plain = assert_unharmed(tmp_path, FAILING, watch, ways=ways, imports_jax=False)
    assert plain.status == 1 and plain.stderr.count("Traceback") >= 1


def test_a_nan_found_by_jax_is_reported_with_the_same_traceback(tmp_path, watch):
    """debug_nans raises in the very slot of JAX in which launches are counted."""
    plain = assert_unharmed(tmp_path, NAN, watch, ways=("hot",), imports_jax=False)
    assert plain.status == 1 and "FloatingPointError" in plain.stderr


@pytest.mark.newest
def test_a_script_that_leaves_leaves_with_its_own_last_words(tmp_path, watch):
    ways = WAYS if SOAK else ("run",)
    plain = assert_unharmed(tmp_path, LEAVING, watch, "a message", ways=ways, imports_jax=False)
    assert (plain.status, plain.stderr) == (1, "a message\n")


@pytest.mark.newest
def test_a_failing_import_of_jax_shows_the_same_traceback(tmp_path, watch):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("import jax.missing\n")
    text = """
        {start}
        try:
            import jax
        except ImportError as error:
            print(error.name)
        import jax.numpy
    """
    plain = assert_unharmed(tmp_path, text, watch, agent=False)
    assert plain.status == 1 and plain.stdout == "jax.missing\n"


WORLD = """
    {start}
    import os, random, signal, sys, threading, warnings, logging, gc, resource, pprint
    state = random.getstate()
    import numpy as np
    numbers = np.random.get_state()[1].tolist()
    import jax
    jax.jit(lambda x: x + 1)(jax.numpy.ones(4)).block_until_ready()
    pprint.pprint({
        "environment": dict(os.environ), "order": list(os.environ), "path": sys.path, "cwd": os.getcwd(),
        "argv": sys.argv, "flags": sys.flags, "executable": sys.executable,
        "main": sorted(vars(sys.modules["__main__"])), "name": __name__, "file": __file__,
        "spec": getattr(__spec__, "name", None),
        "finders": [getattr(each, "__name__", type(each)) for each in sys.meta_path],
        "loader": type(jax.__loader__), "jax": type(jax.__spec__.loader),
        "threads": [each.name for each in threading.enumerate()], "count": threading.active_count(),
        "signals": [signal.getsignal(each) for each in sorted(signal.valid_signals())],
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, []), "wakeup": signal.set_wakeup_fd(-1),
        "traced": [sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()],
        "excepthooks": [sys.excepthook, sys.unraisablehook, threading.excepthook is threading.__excepthook__],
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval()], "hooks": len(sys.path_hooks),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "collectors": [each.__name__ for each in gc.callbacks if "jaxtop" not in each.__module__],
        "warnings": warnings.filters, "log": [logging.root.level, logging.root.handlers],
        "gc": [gc.isenabled(), gc.get_threshold()],
        "random": random.getstate() == state, "numpy": np.random.get_state()[1].tolist() == numbers,
        "config": {name: str(value) for name, value in jax.config.values.items()},
    })
"""

FLAGS = """
    {start}
    import sys, warnings
    import jax
    add = jax.jit(lambda x: x + 1)
    for _ in range(5):
        value = add(jax.numpy.ones(4))
    print(sys.flags, __debug__, sys.argv, warnings.filters[:5], float(value.sum()))
"""


@pytest.mark.newest
def test_the_world_a_script_sees_is_the_same(tmp_path, watch):
    """Environment, path, threads, signals, hooks, random numbers, JAX's configuration, `__main__`."""
    assert_unharmed(tmp_path, WORLD, watch, "--lr", "3e-4")


@pytest.mark.newest
@pytest.mark.parametrize(
    "flags",
    [
        thorough(("-O", "-W", "error", "-u"), id="optimized"),
        pytest.param(("-X", "dev", "-bb", "-X", "warn_default_encoding"), id="development"),
    ],
)
def test_flags_of_the_interpreter_act_on_the_script_and_not_on_the_agent(tmp_path, watch, flags):
    """Also with every warning an error, and with each resource that was not closed complained about."""
    plain = assert_unharmed(tmp_path, FLAGS, watch, flags=flags, ways=("hot",))
    assert plain.status == 0


@pytest.mark.newest
def test_flags_that_hide_the_environment_are_declined_in_one_line(tmp_path):
    done = run(PYTHON, "-I", *JAXTOP[1:], "run", script(tmp_path, "print(1)"))
    assert done.returncode == 2 and not done.stdout
    assert len(done.stderr.splitlines()) == 1 and "agent.start()" in done.stderr


@pytest.mark.newest
def test_arguments_arrive_as_they_were_given(tmp_path, watch):
    words = ("--name", "-m", "", "two words", "--", "ü", "\udcff not utf-8", "-c")
    text = LEAVING.replace("print(", "print(ascii(sys.argv), ")
    plain = assert_unharmed(tmp_path, text, watch, "0", *words, ways=("run",), imports_jax=False)
    assert ascii(list(words))[1:] in plain.stdout


@pytest.mark.newest
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("-m", "script", "-x"), id="module"),
        pytest.param(("-c", "exec(open('script.py').read())", "-x"), id="code", marks=pytest.mark.thorough),
    ],
)
def test_modules_and_code_run_as_under_python(tmp_path, watch, words):
    text = WORLD.replace('"file": __file__, ', '"argv again": sys.orig_argv[-3:], ')
    assert_unharmed(tmp_path, text, watch, *words, ways=("run",))


@pytest.mark.newest
@pytest.mark.parametrize(
    "then",
    [
        thorough("sys.then = 1", id="whole"),
        pytest.param("raise OSError('broken')", id="broken"),
    ],
)
def test_the_users_own_sitecustomize_and_python_path_stay_in_force(tmp_path, watch, then):
    """In the script, and in what it starts in turn."""
    (tmp_path / "own").mkdir()
    own = script(tmp_path / "own", "import sys; sys.mine = __file__\n", "sitecustomize.py")
    with own.open("a") as file:  # not in the command itself, which is a Python program, too
        file.write(f"if 'jaxtop' not in sys.orig_argv: {then}\n")
    text = """
        {start}
        import os, subprocess, sys, jax
        look = "import os, sys; print(sys.mine, sys.path, sorted(os.environ.items()))"
        print(sys.mine, sys.path, "sitecustomize" in sys.modules, jax.numpy.ones(2), flush=True)
        print(subprocess.run([sys.executable, '-c', look], capture_output=True, text=True))
    """
    env = environment(PYTHONPATH=f"own:{tmp_path}/nowhere:")
    plain = assert_unharmed(tmp_path, text, watch, ways=("run",), env=env)
    assert plain.stdout.count(str(own)) == 2
    assert ("broken" in plain.stderr) == ("broken" in then)


ODD = """
    {start}
    import os, sys
    import jax
    step = jax.jit(lambda x: x * 0.5 + 1)
    def train():
        x = step(jax.numpy.ones(8))
        for _ in range(20):
            x = step(x)
        print(float(x.sum()), flush=True)
    train()
"""
# What a script may do to its process while the agent is there, or leave to the end of it.
DEEDS = {
    "no more files": """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        train()""",
    "few descriptors": """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
        train()""",
    "its folder is gone": """
        import tempfile
        os.chdir(folder := tempfile.mkdtemp())
        os.rmdir(folder)
        train()""",
    "no environment": """
        os.environ.clear()
        train()""",
    "closed streams": """
        train()
        os.close(0), os.close(1), os.close(2)
        step(1.0).block_until_ready()
        os._exit(4)""",
    "a closed stdout": """
        train()
        sys.stdout.close()""",
    "a broken pipe": """
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)
        train()""",
}
# What acts on what the command gave the process; to the other deeds it is the same how the agent came there.
AFTER_RUN = ("no environment", "closed streams")
# A broken pipe shows more than a closed file.
SIMILAR = ("a closed stdout",)


@pytest.mark.newest
@pytest.mark.parametrize(
    "deed", [pytest.param(deed, marks=[pytest.mark.thorough] if deed in SIMILAR else []) for deed in DEEDS]
)
def test_what_a_script_does_to_its_process_has_its_own_consequences_only(tmp_path, watch, deed):
    text = ODD + textwrap.indent(textwrap.dedent(DEEDS[deed]), "    ") + "\n"
    ways = SAMPLE if SOAK else ("run",) if deed in AFTER_RUN else ("hot",)
    assert_unharmed(tmp_path, text, watch, ways=ways, imports_jax=False)
