"""Forks, spawned workers, notebooks, signals, tracing: what a program does works beside the agent."""

from __future__ import annotations

from subprocess import PIPE

import pytest

from jaxtop.store import runfiles
from tests.cases import thorough
from tests.real.unharmed import PLAIN, START_HOT, WAYS, Watch, outcome, some
from tests.support import PYTHON, SOAK, environment, eventually, processes, run, script, snapshot

pytestmark = pytest.mark.jax

FORKS = 300 if SOAK else 7
# How often a script does what the agent, which is never at rest there, must not disturb.
OFTEN = 300 if SOAK else 60

WORKERS = """
    {start}
    import multiprocessing, os, sys
    import concurrent.futures
    import numpy as np
    import jax

    class Sample:                                # pickled by its name in __main__
        def __init__(self, value):
            self.value = value

    def load(sample):
        import threading
        names = [each.name for each in threading.enumerate()]
        return Sample(np.sqrt(sample.value)), names, "zmq" in sys.modules, "JAXTOP_BOOT" in os.environ

    if __name__ == "__main__":
        step = jax.jit(lambda x: x + 1)
        x = step(np.zeros(4))
        context = multiprocessing.get_context(sys.argv[1])
        count = 2 if sys.argv[1] == "fork" else 1      # others import JAX anew
        with concurrent.futures.ProcessPoolExecutor(count, mp_context=context) as pool:
            for i, (sample, names, *flags) in enumerate(pool.map(load, map(Sample, range(20)))):
                x = step(x)
                print(i, sample.value, names, flags if sys.argv[1] != "fork" else "")
        if sys.argv[2] == "one more":
            process = context.Process(target=sys.exit, args=(5,))
            process.start()
            process.join()
            print(process.exitcode)
        print(float(x.sum()), multiprocessing.active_children())
"""

FORKING = """
    {start}
    import os, sys, time
    import jax
    if sys.argv[1] == "train":
        step = jax.jit(lambda x: x + 1)
        x = step(jax.numpy.zeros(4))
    for i in range(int(sys.argv[2])):
        pid = os.fork()
        if pid == 0:
            import decimal, subprocess, threading
            thread = threading.Thread(target=lambda: sum(range(1000)))
            thread.start()
            thread.join()
            from jaxtop import agent
            agent.step(i, loss=1.0)
            agent.stop()
            if sys.argv[1] == "train":
                os._exit(i % 7)         # JAX's own exit hooks wait for threads that a child does not have
            sys.exit(i % 7)
        if sys.argv[1] == "train":
            x = step(x)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == i % 7, (i, status)
        time.sleep(0.002)
    print("done")
"""

EARLY_FORK = """
    {start}
    import os, sys
    pid = os.fork()
    import jax                                   # parent and child, each for itself
    print(float(jax.jit(lambda x: x + 1)(jax.numpy.ones(4)).sum()), flush=True)
    if pid:
        os.waitpid(pid, 0)
        import time
        while not os.path.exists("go"):          # until it was met
            time.sleep(0.01)
"""


@pytest.fixture
def watch():
    with Watch() as watching:
        yield watching


@pytest.mark.newest
@pytest.mark.parametrize("method", ["fork", "spawn", thorough("forkserver")])
def test_pools_of_workers_work_and_are_no_hosts_of_the_run(tmp_path, watch, method):
    """Whoever started the agent: the command, the script, and not the copy of it that a worker imports."""
    imports = {"imports_jax": method == "spawn"}  # what is spawned imports the script
    # Each process that is not forked imports JAX, so that one more takes seconds.
    words = (method, "one more" if SOAK or method == "fork" else "no more")
    plain = outcome(tmp_path, WORKERS, PLAIN, *words, imports_jax=False)
    end = "5\n84.0 []\n" if words[1] == "one more" else "\n84.0 []\n"
    assert plain.status == 0 and plain.stdout.endswith(end)
    for way in WAYS if SOAK else ("run" if method == "spawn" else "hot",):
        watched = outcome(tmp_path, WORKERS, way, *words, watch=watch, **imports)
        assert watched.told_apart(plain) == [], way
        assert watch.met == {watched.pid}
        watch.met.clear()


@pytest.mark.parametrize("moment", [pytest.param("before training", marks=pytest.mark.newest), "train"])
def test_forked_children_live_and_end_as_they_would_alone(tmp_path, watch, moment):
    """Forked while the agent's threads are in the middle of everything, and calling the agent themselves."""
    trains = moment == "train"
    met = watch if trains else None
    words = (moment, str(FORKS))
    done = outcome(tmp_path, FORKING, "hot", *words, watch=met, uses_jax=trains, imports_jax=False)
    assert (done.status, done.stdout) == (0, "done\n")
    assert watch.met == ({done.pid} if trains else set())


FORKED_AT_ONCE = """
    import os, signal
    import jax
    jax.numpy.ones(4).block_until_ready()
    import jaxtop_agent.loading as loading
    {start}
    for _ in range(30):                  # while the agent's modules are imported, one after the other
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            for name in loading.MODULES:
                __import__(name)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
"""


@pytest.mark.newest
def test_children_forked_while_the_agent_is_loaded_can_import_what_it_imports(tmp_path):
    done = outcome(tmp_path, FORKED_AT_ONCE, "start")
    assert done.status == 0, done.stderr


WINDOW = """
    import sys
    from jaxtop import agent
    agent.start(collectives="sampled")
    import jax
    running = agent._agent
    running._loader.join(120)
    before = set(sys.modules)
    step = jax.jit(lambda x: x * 0.5 + 1)
    x = jax.numpy.ones(8)
    while not running._board.windows.latest:
        x = step(x).block_until_ready()
    print(sorted(name for name in set(sys.modules) - before if name.startswith("jaxtop")))
"""


@pytest.mark.newest
def test_windows_import_nothing_of_ours(tmp_path, watch):
    """Only while the agent is loaded does a fork wait for the end of an import."""
    done = outcome(tmp_path, WINDOW, "plain", watch=watch)
    assert (done.status, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.newest
@pytest.mark.parametrize("way", ["run", thorough("start")])
def test_a_process_that_forks_before_it_imports_jax_is_shown(tmp_path, watch, way):
    """And its child may use JAX as well."""
    done = outcome(tmp_path, EARLY_FORK, way, watch=watch)
    assert (done.status, done.stdout) == (0, "8.0\n8.0\n")
    assert done.pid in watch.met


STARTS = {
    "before the import": "agent.start(); import jax; step()",
    "after the backends": "import jax; step(); agent.start()",
    "again": "import jax; agent.start(); step(); agent.stop(); agent.stop(); agent.start(); step()",
    "in a thread": "t = threading.Thread(target=agent.start); t.start(); t.join(); import jax; step()",
    "before initialize": "agent.start(); import jax; jax.distributed.initialize(address, 1, 0); step()",
    "after initialize": "import jax; jax.distributed.initialize(address, 1, 0); agent.start(); step()",
    "after the import": "import jax; agent.start(); step()",
    "twice": "agent.start(); agent.start(); import jax; agent.start(); step(); agent.start()",
    "again before the import": "agent.start(); agent.stop(); agent.start(); import jax; step()",
    "in a loop of asyncio": "asyncio.run(main()); import jax; step()",
}

STARTING = """
    import asyncio, os, socket, sys, threading, time
    from jaxtop import agent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % free.getsockname()[1]
    async def main():
        agent.start()
        await asyncio.sleep(0)
    def step():
        for i in range(5):
            agent.step(i, loss=jax.jit(lambda x: x.sum())(jax.numpy.ones(4)))
    {starts}
    print("ready", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.02)
    print(threading.enumerate() == [threading.main_thread()], threading.active_count(), flush=True)
    agent.stop()
    print("stopped", flush=True)
"""


# The oldest JAX runs those whose order matters to what is private in it.
ORDERS = [
    pytest.param(order, marks=[] if "initialize" in order or "backends" in order else [pytest.mark.newest])
    for order in some(STARTS, 6)
]


@pytest.mark.parametrize("order", ORDERS)
def test_the_agent_starts_whenever_it_should(tmp_path, order):
    """And shows one host, its devices and its step, and is gone when told to stop."""
    path = script(tmp_path, STARTING.replace("{starts}", STARTS[order]))
    with processes([PYTHON, path], stdout=PIPE, stderr=PIPE, cwd=tmp_path) as (process,):
        assert process.stdout.readline() == "ready\n"
        eventually(lambda: [len(each.hello.devices) for each in runfiles.find()] == [4])
        status, document = snapshot()
        assert [run["process_count"] for run in document["runs"]] == [1]
        (host,) = document["hosts"]
        assert (status, host["state"], host["pid"]) == (0, "live", process.pid)
        assert (host["step"] or {}).get("index") == (None if order == "after the backends" else 4)
        assert len(host["devices"]) == 4
        (tmp_path / "go").touch()
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (0, "True 1\nstopped\n", "")
    assert runfiles.find() == []


NOTEBOOK = """
    import code, sys, threading
    cells = [
        "from jaxtop import agent; agent.start('notebook')",
        "import jax",
        "x = jax.jit(lambda x: x + 1)(jax.numpy.ones(4)); x",
        "1 / 0",                                         # a cell that fails
        "agent.start('notebook')",                       # a cell that is run again
        "x = jax.jit(lambda x: x + 1)(x); float(x.sum())",
        "agent.stop()",
        "agent.start('notebook')",
        "import subprocess; snapshot = [sys.executable, '-m', 'jaxtop', 'snapshot', 'notebook']",
        "subprocess.run(snapshot, capture_output=True).returncode",
        "[each.name for each in threading.enumerate()]",
    ]
    session = code.InteractiveInterpreter({"sys": sys, "threading": threading})
    for cell in cells:
        session.runsource(cell, symbol="single")
"""


@pytest.mark.newest
@pytest.mark.thorough
def test_the_agent_lives_in_a_notebook(tmp_path):
    """Cells that fail, cells that are run again, an agent that is stopped and started."""
    done = run(PYTHON, script(tmp_path, NOTEBOOK), imports_jax=True)
    assert done.returncode == 0
    handles, others = [], []
    for line in done.stdout.splitlines():
        (handles if line.startswith("<jaxtop agent: ") else others).append(line)
    assert others == ["Array([2., 2., 2., 2.], dtype=float32)", "12.0", "0", "['MainThread']"]
    assert [handle.split()[2].rstrip(">") for handle in handles[:1]] == ["waits"] and len(handles) == 3
    assert done.stderr.count("Traceback") == done.stderr.count("ZeroDivisionError") == 1


STARTED = """
    import jax, sys
    from jaxtop import agent
    from jaxtop_agent.hooks import jax as hooks
    from jaxtop_agent.core import redaction
    print(sum(each.cache_info().currsize for each in redaction._EXPRESSIONS))
    agent.start()
    jax.devices()
    while agent.status().state == "starts":
        pass
    print(agent.status().state, "psutil" in sys.modules)
    print(min(each.cache_info().currsize for each in redaction._EXPRESSIONS))
"""


@pytest.mark.jax
@pytest.mark.newest
def test_start_leaves_what_takes_long_to_the_agent_s_own_thread(tmp_path):
    """Imports of the hooks compile no expression of secrets; what the agent does not use is not loaded."""
    done = run(PYTHON, script(tmp_path, STARTED), imports_jax=True)
    assert done.stdout.splitlines() == ["0", "serves False", "1"]


IDLE = """
    {start}
    import os, sys, time
    {then}
    time.sleep(0.5)
    print(len(os.listdir("/proc/self/task")), sorted({"zmq", "psutil", "msgspec", "jax"} & {*sys.modules}))
    print([os.readlink(f"/proc/self/fd/{n}") for n in range(3, 50) if os.path.exists(f"/proc/self/fd/{n}")])
"""


@pytest.mark.newest
@pytest.mark.parametrize("way", WAYS[:2])
def test_without_jax_there_is_no_thread_no_socket_and_no_heavy_import(tmp_path, watch, way):
    done = outcome(tmp_path, IDLE.replace("{then}", ""), way)
    assert (done.status, done.stdout, done.stderr) == (0, "1 []\n[]\n", "")
    assert not watch.met


@pytest.mark.newest
@pytest.mark.parametrize("way", ["run", thorough("start")])
def test_switched_off_by_the_environment_there_is_no_agent(tmp_path, watch, way):
    text = IDLE.replace("{then}", "import jax; jax.jit(lambda x: x + 1)(1)")
    text = text.replace("len(os.listdir", "min(0, len(os.listdir").replace('task"))', 'task")))')
    done = outcome(tmp_path, text, way, env=environment(JAXTOP="0"))
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.startswith("0 ['jax']\n") and "eventfd" not in done.stdout
    assert not watch.met and not runfiles.find()


STOPPED = """
    import gc, os, sys, time
    import jax, jax.numpy
    from jax._src import api, monitoring
    step = jax.jit(lambda x: x + 1)
    x = step(jax.numpy.ones(4))
    x.sum()                                        # or XLA might start more of its own threads to compile it
    def around():
        own = "/proc/self/fd/"
        links = [os.path.realpath(own + fd).split("/")[-1] for fd in os.listdir(own)]
        slot = getattr(api, "_post_hook_state", None)
        return {
            "threads": len(os.listdir("/proc/self/task")), "hook": slot and slot.get_global(),
            "finders": sys.meta_path,
            "files": sorted(each.partition(":[")[0] for each in links), "arrays": len(jax.live_arrays()),
            "listeners": [len(each()) for each in (monitoring.get_event_duration_listeners,
                                                   monitoring.get_event_listeners)],
        }
    import zmq, psutil, msgspec                     # what imports leave is not what the agent leaves
    from jaxtop import agent
    before = around()
    for _ in range(3):
        {start}
        while not os.path.exists("go"):
            time.sleep(0.01)
        for i in range(int(sys.argv[1])):
            x = step(x)
            agent.step(i, loss=x.sum())
            time.sleep(0.005)
        agent.stop()
        time.sleep(0.2)                            # ZeroMQ's threads are joined; the kernel may lag behind
    for key, value in around().items():
        print(key, value == before[key] or (before[key], value))
"""


def test_stopped_it_leaves_nothing_behind(tmp_path, watch):
    """No thread, no file, no hook, no listener, no array; also after several starts."""
    done = outcome(tmp_path, STOPPED, "hot", str(OFTEN), watch=watch, imports_jax=False)
    assert (done.status, done.stderr) == (0, "")
    assert {line.partition(" ")[2] for line in done.stdout.splitlines()} == {"True"}, done.stdout
    assert watch.met == {done.pid} and not runfiles.find()


SIGNALS = """
    import os, signal, sys, threading, time
    import jax
    jax.devices()
    before = {*os.listdir("/proc/self/task")}
    {start}
    ours = []
    while len(ours) < 5 or not os.path.exists("met"):      # three threads, and ZeroMQ's
        ours = {*os.listdir("/proc/self/task")} - before
        time.sleep(0.01)
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGUSR1)
    for each in ours:
        try:
            with open(f"/proc/self/task/{each}/status") as file:
                blocked = int(next(line for line in file if line.startswith("SigBlk")).split()[1], 16)
        except FileNotFoundError:                        # it loaded the agent, and has ended
            continue
        assert all(blocked >> (number - 1) & 1 for number in wanted), hex(blocked)
    step = jax.jit(lambda x: x + 1)
    x = step(jax.numpy.ones(4))
    rung = []
    signal.signal(signal.SIGALRM, lambda *_: rung.append(threading.current_thread()))
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    often = int(sys.argv[1])
    for _ in range(often):
        signal.pause()                                   # would stay here if another thread took the signal
    while len(rung) < 2 * often:
        x = step(x)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print({*rung} == {threading.main_thread()})
    signal.signal(signal.SIGINT, lambda *_: sys.exit(9))
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
"""


@pytest.mark.newest
def test_signals_reach_the_script_and_never_a_thread_of_the_agent(tmp_path, watch):
    path = script(tmp_path, SIGNALS.replace("{start}", START_HOT))
    with processes([PYTHON, path, OFTEN], stdout=PIPE, stderr=PIPE, cwd=tmp_path) as (process,):
        watch.until_met(process.pid)
        (tmp_path / "met").touch()
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (9, "True\n", "")


TRACED = """
    import os, sys, threading
    seen = set()
    def trace(frame, event, arg):
        name = frame.f_code.co_filename
        if "jaxtop" in name:
            seen.add((threading.get_ident() == threading.main_thread().ident, name.rpartition("jaxtop")[2]))
        return trace
    for module in (sys, threading):
        module.settrace(trace), module.setprofile(trace)
    {start}
    import jax, time
    sys.settrace(None); sys.setprofile(None)  # else the script takes minutes; threads keep theirs
    step = jax.jit(lambda x: x + 1)
    x = step(jax.numpy.ones(4))
    for _ in range(int(sys.argv[1])):
        x = step(x)
        time.sleep(0.01)
    while not os.path.exists("go"):
        time.sleep(0.01)
    threading.Thread(target=trace, args=(sys._getframe(), "", None)).start()
    print(bool(seen), [name for is_main, name in seen if not is_main])
"""


@pytest.mark.newest
def test_a_debugger_or_coverage_does_not_stop_or_count_in_the_agents_threads(tmp_path, watch):
    done = outcome(tmp_path, TRACED, "hot", str(OFTEN), watch=watch, imports_jax=False)
    assert (done.status, done.stdout, done.stderr) == (0, "True []\n", "")
    assert watch.met == {done.pid}


REPLACED = """
    {start}
    import os, subprocess, sys, time
    import jax
    x = jax.jit(lambda x: x + 1)(jax.numpy.ones(4)).block_until_ready()
    time.sleep(1.5)
    look = "import os; own = '/proc/self/fd/'; print(*[os.path.realpath(own + fd) for fd in os.listdir(own)])"
    words = [sys.executable, "-c", look]
    print(subprocess.run(words, close_fds=False, capture_output=True, text=True).stdout, flush=True)
    os.execv(sys.executable, words)                        # a run that starts itself anew
"""


@pytest.mark.newest
def test_programs_that_the_script_starts_inherit_nothing(tmp_path, watch):
    """No socket, no eventfd, no agent; not even one that takes the script's own place."""
    done = outcome(tmp_path, REPLACED, "hot", watch=watch, imports_jax=False)
    assert (done.status, done.stderr) == (0, "")
    assert len(done.stdout.split()) > 4 and "socket" not in done.stdout and "eventfd" not in done.stdout
    assert watch.met == {done.pid}
