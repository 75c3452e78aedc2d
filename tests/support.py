"""Real processes for tests: scripts with and without jaxtop, JAX runs of several processes, snapshots."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from jaxtop import discovery, keys, runfiles
from jaxtop.model import EMPTY_HOST, Cluster, hosts, state_of
from jaxtop.sources import LiveSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.model import Host
    from jaxtop.wire import Hello

# Long repetitions and loads instead of a sample of each: `make soak`.
SOAK = bool(os.environ.get("JAXTOP_SOAK"))
PYTHON = sys.executable
JAXTOP = [PYTHON, "-m", "jaxtop"]
ROOT = Path(__file__).parent.parent


def environment(devices: int = 4, **more: str) -> dict[str, str]:
    """The environment of a JAX process on the CPU with this many devices; HOME is the test's own."""
    return {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        **more,
    }


def script(folder: Path, text: str, name: str = "script.py") -> Path:
    """A script file with this text."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def run(*words: object, timeout: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    options.setdefault("env", environment())
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=timeout, check=False, **options
    )


def jaxtop(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a jaxtop command to its end."""
    return run(*JAXTOP, *words, **options)


def snapshot(*words: object, **options: Any) -> tuple[int, dict[str, Any]]:
    """The exit status and the document of `jaxtop snapshot`."""
    done = jaxtop("snapshot", *words, **options)
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def loopback_address() -> str:
    """An address of this machine that nobody else uses now: its ports are free, and stay so."""
    return f"127.{os.getpid() % 250 + 1}.{time.time_ns() // 1_000_000 % 250 + 1}.1"


def eventually(check: Any, timeout: float = 60, every: float = 0.2) -> Any:
    """Call until it returns something true; the last answer is in the failure."""
    end = time.monotonic() + timeout
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s; the last answer was {answer!r}")
        time.sleep(every)


def _die_with_tests() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@contextmanager
def processes(*commands: list[object], **options: Any):
    """Start commands side by side; all are gone afterwards, also when the tests themselves are killed."""
    options.setdefault("env", environment())
    options.setdefault("preexec_fn", _die_with_tests)
    started = [
        subprocess.Popen([str(word) for word in command], text=True, stdin=subprocess.DEVNULL, **options)
        for command in commands
    ]
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


@contextmanager
def in_a_group(folder: Path, *words: object, devices: int = 4):
    """A command of jaxtop as a shell starts it, in a group of its own; nothing of it is left afterwards.

    What it says is in the files `out` and `err` of this folder.
    """
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = subprocess.Popen(
            [*JAXTOP, *map(str, words)],
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            env=environment(devices),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for each in group(process):
            each.kill()
        process.wait()


def group(leader: subprocess.Popen[Any]) -> list[psutil.Process]:
    """The processes of a group that are still there."""
    found = []
    for each in psutil.process_iter():
        try:
            if os.getpgid(each.pid) == leader.pid and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
        except (ProcessLookupError, psutil.Error):
            continue
    return found


@contextmanager
def jax_run(script_path: Path, hosts: int = 2, devices: int = 4, **options: Any):
    """A multi-process JAX run of a script that is given: coordinator, number of processes, index."""
    coordinator = f"127.0.0.1:{free_port()}"
    options.setdefault("env", environment(devices))
    commands = [[PYTHON, script_path, coordinator, hosts, index] for index in range(hosts)]
    with processes(*commands, **options) as started:
        yield started


class Viewer:
    """A viewer that stays attached, as the app does; it sees what happens while a check is waited for."""

    def __init__(self, *targets: str) -> None:
        if not targets:  # an agent loads on a thread of its own: its run file may be a moment away
            eventually(lambda: any(not each.is_stale for each in runfiles.find()), every=0.05)
        self.source = LiveSource(discovery.seeds(targets), keys.load())
        self.cluster = Cluster()

    def look(self, seconds: float = 0.1) -> None:
        """Take in what arrives within this time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for frame in self.source.poll(left):
                self.cluster.feed(frame)

    def host(self, index: int) -> Host:
        """What is known of the process with this index; an empty host before it was met."""
        return next((host for host in hosts(self.cluster) if host.process_index == index), EMPTY_HOST)

    def state(self, index: int) -> str:
        return str(state_of(self.host(index), time.time()))

    def until(self, check: Callable[[], Any], timeout: float = 60) -> float:
        """Look until the check is true; returns how many seconds that took."""
        start = time.monotonic()
        while not check():
            taken = time.monotonic() - start
            states = {host.label: str(state_of(host, time.time())) for host in hosts(self.cluster)}
            assert taken < timeout, f"not within {timeout} s; the hosts are {states}"
            self.look(0.05)
        return time.monotonic() - start

    def until_state(self, states: dict[int, str], timeout: float = 60) -> float:
        """Look until the processes are in these states."""
        return self.until(lambda: all(self.state(i) == state for i, state in states.items()), timeout)


@contextmanager
def viewer(*targets: str):
    """An attached viewer of these targets, or of the newest run."""
    attached = Viewer(*targets)
    try:
        yield attached
    finally:
        attached.source.close()


class Training:
    """Processes that train together (programs/train.py), as a test meets them."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder  # what steers it
        self.home = home
        self.processes: list[subprocess.Popen[str]] = []

    def hellos(self) -> list[Hello]:
        """What the processes wrote into their run files, in order; empty until all of them know their run."""
        written = [runfiles.read(path) for path in (self.home / ".local/state/jaxtop/runs").glob("*.json")]
        known = {each.hello.pid: each.hello for each in written if each is not None and each.hello.run}
        pids = [process.pid for process in self.processes]
        return [known[pid] for pid in pids] if known.keys() >= set(pids) else []

    def steps(self, index: int = 0) -> int:
        """How many steps this process says it took: the truth that figures are held against."""
        with suppress(OSError, ValueError):
            return int((self.folder / f"steps-{index}").read_text())
        return 0

    def go_on(self) -> None:
        """Wait until every process has taken another step."""
        before = [self.steps(i) for i in range(len(self.processes))]
        eventually(lambda: all(self.steps(i) > step for i, step in enumerate(before)))

    def ask(self, what: str, value: object = "") -> None:
        """Ask for `stop`, `pause` or `hold-gil-INDEX`."""
        draft = self.folder / f"{what}.draft"
        draft.write_text(str(value))
        draft.replace(self.folder / what)

    @contextmanager
    def paused(self):
        """All processes stand between the same two steps; nothing is launched meanwhile."""
        marks = [self.folder / f"paused-{i}" for i in range(len(self.processes))]
        self.ask("pause")
        try:
            eventually(lambda: all(mark.exists() for mark in marks))
            yield
        finally:
            (self.folder / "pause").unlink()
        eventually(lambda: not any(mark.exists() for mark in marks))

    def rss(self, index: int = 0) -> int:
        return psutil.Process(self.processes[index].pid).memory_info().rss


@contextmanager
def training(
    folder: Path,
    hosts: int = 2,
    devices: int = 4,
    coordinator: str | None = None,
    within: Sequence[Sequence[str]] = (),
    **more: str,
):
    """A run that trains until it is asked to stop, steered by files in this folder, which is HOME, too.

    `within` has the words that go before the command of each process.
    """
    folder.mkdir(exist_ok=True)
    inherited = {name: value for name, value in environment(devices).items() if not name.startswith("XDG_")}
    variables = {**inherited, "HOME": str(folder), **more, "STEER": str(folder)}
    if coordinator is None:
        coordinator = f"127.0.0.1:{free_port()}" if hosts > 1 else "-"
    program = [PYTHON, ROOT / "tests" / "programs" / "train.py", coordinator, hosts]
    before = within or [()] * hosts
    run = Training(folder, Path(variables["HOME"]))
    try:
        with processes(*([*before[i], *program, i] for i in range(hosts)), env=variables) as run.processes:
            eventually(lambda: run.hellos() and all(run.steps(i) > 1 for i in range(hosts)), timeout=120)
            yield run
    finally:
        for worker in folder.glob("worker-*"):
            with suppress(ProcessLookupError):
                os.kill(int(worker.read_text()), signal.SIGKILL)
