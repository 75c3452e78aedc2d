"""Helpers that run real processes: scripts with and without jaxtop, multi-process JAX runs, snapshots."""

from __future__ import annotations

import ctypes
import io
import itertools
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from jaxtop import cli
from jaxtop.base import keys
from jaxtop.model import EMPTY_HOST, Cluster, newest_hosts, state_of
from jaxtop.sources import LiveSource, discovery
from jaxtop.store import runfiles
from tests import patience
from tests.real.forkserver import Forked, can_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.model import Host
    from jaxtop.wire import Hello

# Set by `make soak`: run long repetitions and loads instead of a sample of each.
SOAK = bool(os.environ.get("JAXTOP_SOAK"))
PYTHON = sys.executable
JAXTOP = [PYTHON, "-m", "jaxtop"]
ROOT = Path(__file__).parent.parent


# XLA leaves out what LLVM would optimize: for a real model that takes longer than all its steps in a test.
UNOPTIMIZED = "--xla_backend_optimization_level=0"


def environment(devices: int = 4, **more: str) -> dict[str, str]:
    """Return the environment of a JAX process with this many CPU devices; HOME is the test's own."""
    flags = f"--xla_force_host_platform_device_count={devices} {UNOPTIMIZED}"
    return {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": flags,
        "JAXTOP_DEMO_SIZE": "small",
        **more,
    }


def script(folder: Path, text: str, name: str = "script.py") -> Path:
    """Write a script file with this text and return its path."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def run(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; a script or a jaxtop command finds its imports done, see `processes`."""
    with processes([*words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as (process,):
        out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def jaxtop(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a jaxtop command to its end."""
    return run(*JAXTOP, *words, **options)


def jaxtop_here(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a jaxtop command in this process, which takes far less time than one of its own."""
    out, err = io.StringIO(), io.StringIO()
    with in_environment(env or {**os.environ}), redirect_stdout(out), redirect_stderr(err):
        status = cli.main([str(word) for word in words])
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


def snapshot(*words: object, env: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the document of `jaxtop snapshot`, which runs in this process."""
    if not words:
        with in_environment(env or {**os.environ}):
            until_a_run_is_found()
    done = jaxtop_here("snapshot", *words, env=env)
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}


def states(document: dict[str, Any]) -> list[str]:
    """Return the states of the hosts in a snapshot."""
    return [host["state"] for host in document["hosts"]]


def mode(path: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def in_environment(env: dict[str, str]):
    """Give this process exactly these variables for the block."""
    with pytest.MonkeyPatch.context() as patched:
        for name in os.environ.keys() - env.keys():
            patched.delenv(name)
        for name, value in env.items():
            patched.setenv(name, value)
        yield


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def loopback_address() -> str:
    """Return a loopback address that nothing else uses, so that its ports are free and remain so."""
    over, process = divmod(os.getpid(), 250)
    return f"127.{process + 1}.{over % 250 + 1}.{next(_ADDRESSES) % 250 + 1}"


_ADDRESSES = itertools.count()


def eventually(check: Any, within: float | None = None, every: float = 0.2) -> Any:
    """Call `check` until its result is true; past the deadline, report the last result.

    `within` is for a promise of so many seconds; without it the wait lasts as long as the test may.
    """
    end = patience.deadline(within)
    while True:
        answer = check()
        if answer:
            return answer
        if end.left() < 0:
            raise AssertionError(f"not within {end}; the last answer was {answer!r}")
        time.sleep(every)


@contextmanager
def disk_with_room_for(most_bytes: int):
    """Let no file of this process grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def until_a_run_is_found() -> None:
    """Wait for a run file: an agent loads on a thread of its own."""
    eventually(lambda: any(not each.is_stale for each in runfiles.find()), every=0.05)


def die_with_tests() -> None:
    """Have the kernel kill this child with the process that runs the tests."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def started(words: Sequence[object], **options: Any) -> subprocess.Popen[str]:
    """Start a process that ends with the tests, even if these are killed."""
    return subprocess.Popen([str(word) for word in words], **{"preexec_fn": die_with_tests, **options})


@contextmanager
def processes(*commands: list[object], imports_jax: bool = False, **options: Any):
    """Start commands in parallel. All are ended afterwards, even if the tests themselves are killed.

    Scripts begin with JAX imported and jaxtop commands with their modules, unless the test asks what these
    imports do (`imports_jax`).
    """
    options = {"env": environment(), "stdin": subprocess.DEVNULL, "text": True, **options}
    running: list[subprocess.Popen[str]] = []
    try:
        for command in commands:
            words = [str(word) for word in command]
            if not imports_jax and can_fork(words, options):
                process: Any = Forked(words, **options)
            else:
                process = started(words, **options)
            running.append(process)
        yield running
    finally:
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


@contextmanager
def in_a_group(folder: Path, *words: object, devices: int = 4):
    """Start a jaxtop command in a process group of its own, as a shell does; end the group afterwards.

    Its output is in the files `out` and `err` of this folder.
    """
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = started(
            [*JAXTOP, *words],
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
    """Return the processes of a group that still exist."""
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
    """Start a multi-process JAX run. The script receives the coordinator, number of processes and index."""
    coordinator = f"127.0.0.1:{free_port()}"
    options.setdefault("env", environment(devices))
    commands = [[PYTHON, script_path, coordinator, hosts, index] for index in range(hosts)]
    with processes(*commands, **options) as started:
        yield started


class Viewer:
    """A viewer that remains attached, like the app, and receives frames while a test waits for a check."""

    def __init__(self, *targets: str) -> None:
        if not targets:
            until_a_run_is_found()
        self.source = LiveSource(discovery.seeds(targets), keys.load())
        self.cluster = Cluster()

    def look(self, seconds: float = 0.1) -> None:
        """Fold the frames that arrive within this time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for frame in self.source.poll(left):
                self.cluster.feed(frame)

    def host(self, index: int) -> Host:
        """Return the host with this process index; an empty host before it is met."""
        return next((host for host in newest_hosts(self.cluster) if host.process_index == index), EMPTY_HOST)

    def state(self, index: int) -> str:
        return str(state_of(self.host(index), time.time()))

    def until(self, check: Callable[[], Any], within: float | None = None) -> float:
        """Follow the run until the check is true; return the seconds that this took."""
        start, end = time.monotonic(), patience.deadline(within)
        while not check():
            states = {host.label: str(state_of(host, time.time())) for host in newest_hosts(self.cluster)}
            assert end.left() > 0, f"not within {end}; the hosts are {states}"
            self.look(0.05)
        return time.monotonic() - start

    def until_state(self, states: dict[int, str], within: float | None = None) -> float:
        """Follow the run until the processes are in these states."""
        return self.until(lambda: all(self.state(i) == state for i, state in states.items()), within)


@contextmanager
def viewer(*targets: str):
    """Attach a viewer to these targets, or to the newest run."""
    attached = Viewer(*targets)
    try:
        yield attached
    finally:
        attached.source.close()


class Training:
    """The processes of one training run (programs/train.py), and the files that control them."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder  # the files here control the run
        self.home = home
        self.processes: list[subprocess.Popen[str]] = []

    def hellos(self) -> list[Hello]:
        """Return the hellos in the run files, in process order; empty until all processes know their run."""
        written = [runfiles.read(path) for path in (self.home / ".local/state/jaxtop/runs").glob("*.json")]
        known = {each.hello.pid: each.hello for each in written if each is not None and each.hello.run}
        pids = [process.pid for process in self.processes]
        return [known[pid] for pid in pids] if known.keys() >= set(pids) else []

    def steps(self, index: int = 0) -> int:
        """Return the number of steps that this process reports: the reference for its figures."""
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
        """Pause all processes between the same two steps, so that nothing is launched."""
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
    """Start a run that trains until asked to stop. Files in this folder control it; the folder is also HOME.

    `within` has the words to put before the command of each process.
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
            eventually(lambda: run.hellos() and all(run.steps(i) > 1 for i in range(hosts)))
            yield run
    finally:
        for worker in folder.glob("worker-*"):
            with suppress(ProcessLookupError):
                os.kill(int(worker.read_text()), signal.SIGKILL)


def modules_after(code: str, **options) -> set[str]:
    """The top-level modules that are loaded once this code has run."""
    done = run(PYTHON, "-c", f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)", **options)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.split()}


def is_one_line(text: str) -> bool:
    """Return whether an error is one line, as users of a command expect."""
    return re.fullmatch(r"jaxtop: [^\n]{10,400}\n", text) is not None
