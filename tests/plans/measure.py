"""Runs a program on a mesh, records it as a viewer does, and reads what the program says of itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop import wire
from jaxtop.base import keys
from jaxtop.base.clock import steady
from jaxtop.cli import record
from jaxtop.cli.live.broadcast import request_to
from jaxtop.cli.machine import processes
from jaxtop.features.planning.model.arguments import mesh_as_typed
from jaxtop.model import Cluster
from jaxtop.recording import RecordingLimits
from jaxtop.sources import LiveSource, Seed, SessionRecorder
from jaxtop.store import runfiles
from tests.plans import machine
from tests.plans.cases import DEVICES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.model import Host

ROOT = Path(__file__).parents[2]
STARTS_WITHIN, ENDS_WITHIN = 90.0, 60.0
# The first five windows of a viewer are two seconds apart, if each contains a launch.
WINDOWS, WINDOWS_WITHIN = 3, 10.0
SLOT_S, SPARE_S, BETWEEN_REQUESTS_S = 2.0, 1.0, 3.0
PEAKS_WITHIN, SETTLES_WITHIN, AGREE = 10.0, 30.0, 3


def path_of(folder: Path, name: str, axes: Axes) -> Path:
    """Return where the recording of a program on a mesh is."""
    return folder / f"{name}-{mesh_as_typed(axes)}.mcap"


def measure(
    name: str, axes: Axes, folder: Path, seconds: float, *, windows: int = WINDOWS, words: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a program for so many seconds and windows after its first step; return what it says of itself."""
    path = path_of(folder, name, axes)
    path.unlink(missing_ok=True)
    with tempfile.TemporaryFile("w+") as errors:
        process = _start([name, "--mesh", mesh_as_typed(axes), *words], errors)
        began, busy = time.monotonic(), machine.busy_s()
        try:
            _record(process.pid, path, seconds, windows, lambda: process.poll() is not None)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=ENDS_WITHIN)
            wall, all_s = time.monotonic() - began, machine.busy_s() - busy
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"{error}{processes.last_words(errors)}") from None
        finally:
            process.kill()
            process.wait()
        if process.returncode or not output:
            raise RuntimeError(f"it {processes.how(process.returncode)}{processes.last_words(errors)}")
    truth: dict[str, Any] = json.loads(output.splitlines()[-1])
    others = round((all_s - truth["cpu_s"]) / wall, 2)
    return {"program": name, "mesh": dict(axes), **truth, "others": others, "cores": os.cpu_count()}


def _start(words: Sequence[str], errors: Any) -> subprocess.Popen[bytes]:
    name, *rest = words
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.plans.programs.{name}", *rest],
        cwd=ROOT,
        env=processes.on_cpu(DEVICES),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        preexec_fn=_die_with_the_bench,  # noqa: PLW1509 - this process has only one thread
    )


def _die_with_the_bench() -> None:
    processes.die_with_parent(signal.SIGKILL)


def _record(pid: int, path: Path, seconds: float, wanted: int, has_ended: Callable[[], bool]) -> None:
    source = _source(pid, has_ended)
    cluster = Cluster()
    recorder = SessionRecorder(record.begin(path, RecordingLimits()))

    def follow(limit: float, is_enough: Callable[[Host], bool]) -> None:
        end = time.monotonic() + limit
        while time.monotonic() < end and not has_ended():
            frames = source.poll(0.25)
            for frame in frames:
                cluster.feed(frame)
            recorder.take(frames, cluster, steady())
            host = next(iter(cluster.hosts.values()), None)
            if host is not None and is_enough(host):
                return

    windows: set[int] = set()

    def has_windows(host: Host) -> bool:
        if host.window.launches:
            windows.add(host.window.at_ms)
        return len(windows) >= wanted

    def ask_for_windows() -> None:
        """Steps of very many operations are in no window unless somebody asks for it, as the key `c` does."""
        end = time.monotonic() + WINDOWS_WITHIN
        follow(wanted * SLOT_S + SPARE_S, has_windows)
        while len(windows) < wanted and time.monotonic() < end and not has_ended():
            agents = [*cluster.hosts]
            for agent in agents:
                source.request(agent, request_to("capture", agents, steady()), lambda _: None)
            follow(BETWEEN_REQUESTS_S, has_windows)

    def has_begun(host: Host) -> bool:
        """Return whether the first step has ended: only then its loss is among the arrays."""
        return bool(host.arrays.counts) and host.launches.get("step", 0) >= 2

    censuses: dict[int, tuple[int, ...]] = {}

    def has_settled(host: Host) -> bool:
        """Return whether the last three counts agree.

        One alone may have been made in the middle of a step, and a pulse may say that there is another one
        before its census arrives.
        """
        censuses[max(host.pulse.counted_ms or 0, host.arrays.at_ms)] = tuple(host.arrays.counts)
        last = [censuses[at] for at in sorted(censuses)[-AGREE:]]
        return len(last) == AGREE and len({*last}) == 1

    try:
        follow(STARTS_WITHIN, has_begun)
        stepped = time.monotonic()
        ask_for_windows()
        follow(seconds - (time.monotonic() - stepped), lambda _: False)
        for agent in cluster.hosts:
            source.request(agent, wire.Request("peaks"), lambda _: None)
        follow(PEAKS_WITHIN, lambda host: "jit_step" in {name for name, _ in host.peaks})
        follow(SETTLES_WITHIN, has_settled)
    finally:
        source.close()
        recorder.finish(cluster)


def _source(pid: int, has_ended: Callable[[], bool]) -> LiveSource:
    end = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < end and not has_ended():
        with suppress(StopIteration):
            found = next(each for each in runfiles.find() if each.hello.pid == pid)
            return LiveSource([Seed(found.hello.agent, hello=found.hello)], keys.load())
        time.sleep(0.1)
    raise TimeoutError("no agent was found")
