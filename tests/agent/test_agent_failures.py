"""Whatever fails inside the agent, or around it: the script goes on, and what still works is shown."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack, suppress
from subprocess import PIPE

import psutil
import pytest

from jaxtop.base import keys
from jaxtop.store import runfiles
from jaxtop.transport.reachability import SIGNATURE
from tests.cases import thorough
from tests.real.unharmed import START, START_HOT, Watch, outcome, some
from tests.support import PYTHON, environment, eventually, jaxtop, processes, script, snapshot

pytestmark = pytest.mark.jax

# `{broken}` is what the agent meets; the script trains, asks, compiles and says what came of it.
TRAINING = """
    import sys
    {broken}
    {start}
    import os, time, weakref
    import numpy as np
    import jax
    from jaxtop import agent
    step = jax.jit(lambda x: x * 0.5 + 1)
    x = step(np.full(8, 2.0))
    print("ready", flush=True)
    i = 0
    while not os.path.exists("go"):
        x = step(x)
        i += 1
        agent.step(i, loss=x.sum())
        time.sleep(0.01)
    loss = x.sum()
    agent.step(i, loss=loss)
    loss = weakref.ref(loss)
    while loss() is not None:
        time.sleep(0.01)
    agent.stop()
    print(float(x.sum()), loss())
    sys.exit(3)
"""
BOOM = "def boom(*_, **__): raise RuntimeError('broken on purpose')\n    "


def training(folder, broken, **options):
    """The script, running beside what is broken."""
    path = script(folder, TRAINING.replace("{broken}", broken).replace("{start}", START_HOT))
    return processes([PYTHON, path], stdout=PIPE, stderr=PIPE, cwd=folder, **options)


def ends_well(process, folder):
    (folder / "go").touch()
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (3, "16.0 None\n", "")


SOURCES = {"devices", "memory", "arrays", "host", "launches", "compiles", "roster"}
COLLECTORS = {
    "devices": "collectors.topology.TopologyOfProcess.collect",
    "memory": "collectors.memory.AllocatorMemory.collect",
    "arrays": "collectors.arrays.ArrayCensus.collect",
    "host": "collectors.host.HostFigures.collect",
    "launches": "hooks.launches.Launches.install",
    "compiles": "hooks.compiles.Compiles.install",
}


# The others have no rule of their own for what fails.
NOT_ALIKE = ("devices", "arrays", "launches")


@pytest.mark.newest
@pytest.mark.parametrize("name", [name if name in NOT_ALIKE else thorough(name) for name in COLLECTORS])
def test_a_collector_that_fails_is_shown_as_off_and_the_others_go_on(tmp_path, name):
    folder, module, owner, method = COLLECTORS[name].split(".")
    broken = f"import jaxtop_agent.{folder}.{module} as m; m.{owner}.{method} = boom"
    with training(tmp_path, BOOM + broken) as (process,):
        assert process.stdout.readline() == "ready\n"

        def off():
            _, document = snapshot()
            (host,) = document["hosts"]
            is_whole = host["state"] == "live" and (name == "devices" or host["devices"])
            return is_whole and host["sources"][name].startswith("off") and host

        host = eventually(off)
        assert host["sources"][name] == "off: RuntimeError: broken on purpose"
        others = SOURCES - {name} - ({"roster"} if name == "devices" else set())
        assert [each for each in others if host["sources"][each].startswith("off")] == []
        assert bool(host["launches"]) == (name != "launches")
        assert (host["rss_bytes"] is None) == (name == "host")
        if name == "devices":
            assert host["devices"] == []
        else:
            assert len(host["devices"]) == 4
            assert {device["memory"]["used_bytes"] is None for device in host["devices"]} == {
                name == "arrays"
            }
        ends_well(process, tmp_path)


@pytest.mark.newest
def test_a_collector_that_fails_later_takes_its_figures_back(tmp_path):
    """What is not known any more is not shown as if it were of now."""
    broken = """
    import os, jaxtop_agent.collectors.arrays as arrays, jaxtop_agent.collectors.host as host
    for each in (arrays.ArrayCensus, host.HostFigures):
        def collect(self, *args, real=each.collect):
            return boom() if os.path.exists("break") else real(self, *args)
        each.collect = collect
    """
    with training(tmp_path, BOOM + broken.strip()) as (process,):
        assert process.stdout.readline() == "ready\n"

        def known():
            (host,) = snapshot()[1]["hosts"]
            return host["rss_bytes"] and host["devices"] and host["devices"][0]["memory"]["used_bytes"]

        eventually(known)
        (tmp_path / "break").touch()

        def forgotten():
            (host,) = snapshot()[1]["hosts"]
            memory = host["devices"][0]["memory"]
            figures = {host["rss_bytes"], *memory.pop("parts").values(), *memory.values()}
            return host["sources"]["arrays"].startswith("off") and figures == {None}

        eventually(forgotten)
        ends_well(process, tmp_path)


HALVES = {
    "the sampler": "import jaxtop_agent.service.sampler as m; m.Sampler._tick = boom",
    "the registrar": "import jaxtop_agent.service.registrar as m; m.Registrar._is_time = m.wait = boom",
}


@pytest.mark.newest
@pytest.mark.parametrize("half", HALVES)
def test_a_thread_of_the_agent_that_fails_is_shown_as_off(tmp_path, half):
    with training(tmp_path, BOOM + HALVES[half]) as (process,):
        assert process.stdout.readline() == "ready\n"
        name = half.removeprefix("the ")

        def off():
            _, document = snapshot()
            return [host for host in document["hosts"] if host["sources"].get(name, "").startswith("off")]

        (host,) = eventually(off)
        assert host["state"] == "live" and host["launches"]
        if name == "sampler":
            assert {host["sources"][each] for each in ("devices", "memory", "arrays", "host")} == {
                "off: RuntimeError: broken on purpose"
            }
        ends_well(process, tmp_path)


UNSEEN = {
    "no third thread": """
    import _thread
    real, started = _thread.start_new_thread, []
    def start_new_thread(target, *args):
        if "Worker" in target.__qualname__:
            started.append(target)
            if len(started) == 3:
                raise RuntimeError("can't start new thread")
        return real(target, *args)
    _thread.start_new_thread = start_new_thread
    """,
    "no publisher": "import jaxtop_agent.service.publisher as m; m.Publisher._serve = boom",
    "no exit hooks": "import jaxtop_agent.service.agent as m; m.atexit = None",
    "no zmq": "sys.modules['zmq'] = None",
    "no server": "import jaxtop.transport as m; m.Server = boom",
    "no identity": "import jaxtop_agent.service.identity as m; m.identify = boom",
    "no sampler": "import jaxtop_agent.service.sampler as m; m.Sampler = boom",
    "no wakeups": "import jaxtop_agent.core.threads as m; m.WakeEvent = boom",
    "no psutil": "sys.modules['psutil'] = None",
    "no msgspec": "sys.modules['msgspec'] = None",
}


@pytest.mark.newest
@pytest.mark.parametrize("what", some(UNSEEN, 4))
def test_an_agent_that_cannot_work_is_not_there_and_the_script_goes_on(tmp_path, what):
    """It leaves no thread, no socket and no hook behind."""
    text = TRAINING.replace("{broken}", BOOM + UNSEEN[what].strip())
    path = script(tmp_path, text.replace("{start}", START))
    with processes([PYTHON, path], stdout=PIPE, stderr=PIPE, cwd=tmp_path) as (process,):
        assert process.stdout.readline() == "ready\n"
        eventually(lambda: not listening(process.pid) and not runfiles.find(), every=0.5)
        ends_well(process, tmp_path)


def listening(pid):
    found = psutil.Process(pid).net_connections("tcp")
    return [each.laddr.port for each in found if each.status == psutil.CONN_LISTEN]


KEYS = ["readable by others", "nonsense", "no home", "missing", "a folder"]


@pytest.mark.newest
@pytest.mark.parametrize("key", some(KEYS, 3))
def test_without_a_key_there_is_no_socket_and_the_script_goes_on(tmp_path, key):
    variables = environment()
    path = tmp_path / "key"
    path.write_text("nonsense" if key == "nonsense" else keys.throwaway().secret.decode())
    path.chmod(0o644 if key == "readable by others" else 0o600)
    if key == "no home":
        variables["HOME"] = "/dev/null"
    else:
        missing = {"missing": tmp_path / "nowhere", "a folder": tmp_path}
        variables["JAXTOP_KEY_FILE"] = str(missing.get(key, path))
    broken = (
        "import jaxtop_agent.service.publisher as p, builtins; real = p.Publisher.run; p.Publisher.run = "
        "lambda self: [open('tried', 'w').close(), real(self)]"
    )
    with training(tmp_path, broken, env=variables) as (process,):
        assert process.stdout.readline() == "ready\n"
        eventually((tmp_path / "tried").exists)
        assert eventually(lambda: psutil.Process(process.pid).num_threads() and [listening(process.pid)]) == [
            []
        ]
        ends_well(process, tmp_path)


@pytest.mark.newest
def test_where_nothing_can_be_written_an_address_still_helps(tmp_path):
    secret = keys.throwaway().secret.decode()
    variables = {**environment(), "HOME": "/dev/null", "JAXTOP_KEY": secret}
    with training(tmp_path, "", env=variables) as (process,):
        assert process.stdout.readline() == "ready\n"
        ports = eventually(lambda: listening(process.pid))
        status, document = snapshot(f"127.0.0.1:{min(ports)}", env={**os.environ, "JAXTOP_KEY": secret})
        assert (status, document["hosts"][0]["pid"]) == (0, process.pid)
        ends_well(process, tmp_path)


@pytest.mark.newest
def test_where_every_port_is_taken_the_script_goes_on(tmp_path):
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
            each.listen()
        broken = "\n    ".join(
            [
                "import jaxtop.transport.listener as m",
                f"m.range = lambda *_: {[one.getsockname()[1], two.getsockname()[1]]}",
            ]
        )
        with training(tmp_path, broken) as (process,):
            assert process.stdout.readline() == "ready\n"
            eventually(lambda: not listening(process.pid))
            assert jaxtop("snapshot").returncode == 2
            ends_well(process, tmp_path)


@pytest.mark.newest
@pytest.mark.parametrize("left", some([8, 12, 0, 4, 16, 20, 24, 28], 3))
def test_a_script_out_of_file_descriptors_goes_on(tmp_path, left):
    """ZeroMQ would abort the process."""
    text = """
        import os, resource, sys
        import numpy as np
        import jax, zmq, psutil, msgspec
        import jaxtop_agent.core.settings, jaxtop_agent.service.publisher
        import jaxtop_agent.service.sampler, jaxtop_agent.service.registrar
        step = jax.jit(lambda x: x * 0.5 + 1)
        x = step(np.full(8, 2.0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        held = []
        try:
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for each in held[:int(sys.argv[1])]:
            os.close(each)
        {start}
        for _ in range(2000):
            x = step(x)
        print(float(x.sum()))
        sys.exit(3)
    """
    done = outcome(tmp_path, text, "hot", str(left), imports_jax=False)
    assert (done.status, done.stdout, done.stderr) == (3, "16.0\n", "")


OPENING = """
    import os, resource, time
    limit = int(os.environ.get("FILES", 256))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    {start}
    import jax
    step = jax.jit(lambda x: x * 0.5 + 1)
    x = step(jax.numpy.ones(8))
    print("ready", flush=True)
    while not os.path.exists("go"):
        x = step(x)
        for each in [open(os.devnull) for _ in range(4)]:
            each.close()
        time.sleep(0.001)
    print(float(x.sum()))
"""


@pytest.mark.newest
def test_who_connects_without_a_key_takes_no_descriptors_of_the_script(tmp_path):
    """Though more connect than the script may open files; and the run is still served."""
    path = script(tmp_path, OPENING.replace("{start}", START))
    with (
        processes([PYTHON, path], stdout=PIPE, stderr=PIPE, cwd=tmp_path) as (process,),
        ExitStack() as held,
    ):
        assert process.stdout.readline() == "ready\n"
        eventually(lambda: [each.hello.process_count for each in runfiles.find()] == [1])
        for port in listening(process.pid):
            for _ in range(300):
                held.enter_context(socket.create_connection(("127.0.0.1", port)))
        status, document = snapshot()
        assert (status, document["hosts"][0]["pid"]) == (0, process.pid)
        (tmp_path / "go").touch()
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (0, "16.0\n", "")


def greet(ports, seconds):
    """Connect again and again, and speak ZeroMQ as far as one can without a key."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with ExitStack() as held:
            crowd = [held.enter_context(socket.socket()) for _ in range(200)]
            for number, each in enumerate(crowd):
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", ports[number % len(ports)]))
            for _ in range(5):
                time.sleep(0.02)
                for each in crowd:
                    with suppress(OSError):
                        each.send(SIGNATURE)


@pytest.mark.newest
@pytest.mark.parametrize("files", some([64, 256, 128, 512, 1024], 2))
def test_a_flood_of_greetings_takes_no_descriptors_of_the_script(tmp_path, files):
    """ZeroMQ accepts them by itself, faster than Python sees them come; and later viewers are served."""
    path = script(tmp_path, OPENING.replace("{start}", START))
    variables = environment(FILES=str(files))
    with processes([PYTHON, path], stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=variables) as (process,):
        assert process.stdout.readline() == "ready\n"
        eventually(lambda: [each.hello.process_count for each in runfiles.find()] == [1])
        greet(listening(process.pid), 5)
        eventually(lambda: snapshot()[0] == 0)
        (tmp_path / "go").touch()
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (0, "16.0\n", "")


HOOKS = {
    "launches": "import jaxtop_agent.hooks.launches as m; m.weakref = None",
    "compiles": "import jaxtop_agent.hooks.compiles as m; m._function = m.now_ms = boom",
    "sent": "import jaxtop_agent.core.board as m; m.Board.send = boom",
    "steps": "import jaxtop_agent.steps.progress as m; m.float = m.isinstance = boom",
}


@pytest.mark.parametrize("what", some(HOOKS, 2))
def test_what_fails_in_a_hook_on_the_scripts_thread_never_reaches_the_script(tmp_path, what):
    """Nor does it when the script clears all listeners that JAX knows, ours included."""
    with Watch() as watch, training(tmp_path, BOOM + HOOKS[what]) as (process,):
        assert process.stdout.readline() == "ready\n"
        watch.until_met(process.pid)
        ends_well(process, tmp_path)


def test_a_script_may_clear_the_listeners_of_jax(tmp_path):
    text = """
        {start}
        import jax, jax.monitoring
        from jaxtop import agent
        jax.monitoring.clear_event_listeners()
        print(jax.jit(lambda x: x + 1)(1))
        agent.stop()
        agent.start()
        print(jax.jit(lambda x: x + 2)(1))
    """
    done = outcome(tmp_path, text, "hot", imports_jax=False)
    assert (done.status, done.stdout, done.stderr) == (0, "2\n3\n", "")
