"""For tests of what a training run notices of the agent: nothing. Runs with it, without it, and watched."""

from __future__ import annotations

import difflib
import re
import threading
from contextlib import suppress
from subprocess import PIPE
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from jaxtop.sources.discovery import NoTarget
from jaxtop.store import runfiles
from tests.support import JAXTOP, PYTHON, SOAK, Viewer, eventually, processes, script

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def some(cases: Iterable[Any], count: int) -> list[Any]:
    """The first cases, which say most; all of them in the long run."""
    return [*cases] if SOAK else [*cases][:count]


# As one line, so that the lines of a script keep their numbers; as an expression, so that no name is left.
START = "__import__('jaxtop').agent.start()"
# The same with everything the agent does done without pause: what harms, harms sooner.
START_HOT = (
    "from jaxtop_agent.core import budget as _b, settings as _t; "
    "from jaxtop_agent.service import registrar as _r; "
    "_r.FIRST_PAUSE = _r.LONGEST_PAUSE = _t.SHORTEST_INTERVAL = 0.001; "
    "_b.CENSUS = _b.COLLECTOR = _b.PROGRAMS = _b.CpuShare(1.0); "
    "__import__('jaxtop').agent.start(interval=0.001); del _b, _r, _t"
)


# Without the agent, and with it: started by the command, by the script, and by the script and never at rest.
PLAIN = "plain"
WAYS = ("run", "start", "hot")


# Added to the line that imports JAX: the script continues once this file exists. The agent loads on its own
# thread, and a script of one second would end before a viewer could see it.
WAIT = "[*iter(lambda: __import__('time').sleep(0.01) or __import__('os').path.exists('go'), True)]"
# An agent starts with the backends. Workers import the script, too, and need none.
WITH_BACKENDS = f"__name__ == '__main__' and __import__('jax').devices(), {WAIT}"


class Outcome(NamedTuple):
    """All that a process leaves behind."""

    status: int
    stdout: str
    stderr: str
    results: dict[str, bytes]
    pid: int

    def told_apart(self, other: Outcome) -> list[str]:
        """In what two outcomes differ, line by line; the pid does not count."""
        found = [] if self.status == other.status else [f"status {self.status}, not {other.status}"]
        for mine, its in ((self.stdout, other.stdout), (self.stderr, other.stderr)):
            found += difflib.unified_diff(its.splitlines(), mine.splitlines(), "without", "with", lineterm="")
        return found + sorted(name for name, _ in self.results.items() ^ other.results.items())


class Watch:
    """A viewer of every run of this HOME, attached as soon as it is there and for as long as it lasts."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._viewers: dict[str, Viewer] = {}
        self.met: set[int] = set()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        try:
            while not self._stop.wait(0.02):
                for run_file in runfiles.find():
                    if not run_file.is_stale and run_file.hello.agent not in self._viewers:
                        with suppress(NoTarget):  # it ended while we looked
                            self._viewers[run_file.hello.agent] = Viewer(run_file.hello.agent)
                            self.met.add(run_file.hello.pid)
                for attached in self._viewers.values():
                    attached.look(0.01)
        except BaseException as error:
            self.failure = error

    def live(self, pid: int) -> dict[str, Any] | None:
        """The hello of this process, once its figures arrive."""
        for attached in list(self._viewers.values()):
            for host in list(attached.cluster.hosts.values()):
                if host.hello and host.hello.pid == pid and host.pulse.sampled_ms is not None:
                    return {"hello": host.hello, "pulse": host.pulse, "arrays": host.arrays}
        return None

    def launches(self, pid: int) -> dict[str, int]:
        """How often this process launched each function, as far as it said."""
        clusters = [attached.cluster for attached in list(self._viewers.values())]
        hosts = [host for cluster in clusters for host in list(cluster.hosts.values())]
        return next((dict(host.launches) for host in hosts if host.hello and host.hello.pid == pid), {})

    def until_live(self, pid: int) -> dict[str, Any]:
        return eventually(lambda: self.live(pid), every=0.02)

    def until_met(self, pid: int) -> None:
        eventually(lambda: pid in self.met, every=0.02)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for attached in self._viewers.values():
            attached.source.close()
        if self.failure:
            raise self.failure


def outcome(
    folder: Path,
    text: str,
    way: str,
    *words: str,
    flags: tuple[str, ...] = (),
    watch: Watch | None = None,
    uses_jax: bool = True,
    **options: Any,
) -> Outcome:
    """Run the script in one of the ways (WAYS) and wait for its end; `{start}` in it is where `start` goes.

    `words` are its arguments, or instead of the script `-m MODULE` or `-c CODE` with theirs. Behind its
    import of JAX the script makes the backends, if it `uses_jax`, and waits for a `watch` to meet it.
    """
    for old in (*folder.glob("result*"), *folder.glob("go")):
        old.unlink()
    start = {"start": START, "hot": START_HOT}.get(way, "pass")
    wait = WITH_BACKENDS if uses_jax else WAIT
    text = re.sub(r"^( *import .*\bjax)$", rf"\1; {wait}", text, count=1, flags=re.MULTILINE)
    path = script(folder, text.replace("{start}", start))
    what = [*words] if words[:1] in (("-m",), ("-c",)) else [path.name, *words]
    launcher = [PYTHON, *flags, *JAXTOP[1:], "run"] if way == "run" else [PYTHON, *flags]
    started = {"stdout": PIPE, "stderr": PIPE, "cwd": folder, "imports_jax": True, **options}
    with processes([*launcher, *what], **started) as (process,):
        if watch is not None:
            eventually(lambda: process.pid in watch.met or process.poll() is not None, every=0.02)
        (folder / "go").touch()
        stdout, stderr = process.communicate()
    results = {path.name: path.read_bytes() for path in folder.glob("result*")}
    # In warnings and tracebacks; Python 3.12 and newer name the pid in a warning of each fork.
    stderr = stderr.replace(str(path), path.name).replace(f"pid={process.pid}", "pid=…")
    return Outcome(process.returncode, stdout, stderr, results, process.pid)
