"""A long recording of many hosts by the real writer: its size, its cost, and the time to open any moment."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.model import Cluster
from jaxtop.recording import RecordingWriter
from jaxtop.sources.recorder import SessionRecorder
from tests.bench.frame import Estimate, Figure, one, whole
from tests.bench.processes import REPOSITORY
from tests.made import sessions as made_sessions
from tests.made.sessions import Made

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.frame import Setting

DEVICES = 8
FLUSH_EVERY = 1.5
SEEKS = 100
# The cost of a frame is taken over so many.
FRAMES_A_PART = 5_000
# Published bytes per sample for the same kind of figures, times included.
GORILLA, PROMETHEUS = 1.37, 1.3
BUDGET_FINISHED_MB, BUDGET_OPEN_MB = 1.0, 2.0
BUDGET_OPEN_S, BUDGET_SEEK_MS = 1.0, 100.0


class _Written(NamedTuple):
    """A recording, and the cost of writing it."""

    frames: int
    figures: int
    pulses: int
    open_bytes: int
    finished_bytes: int
    cpu_us: list[float]
    loop_us: list[float]
    finish_s: float


def measure(setting: Setting) -> Iterator[Figure]:
    hosts, hours = setting.pick((64, 24), (16, 0.25))
    path = setting.home / "day.mcap"
    written = _write(path, Made(hosts, DEVICES, int(hours * 3600), has_trouble=False))
    label = f"{hosts} hosts × {DEVICES} devices, {hours} h"
    per_hour = 1e6 * hosts * hours
    yield Figure(
        f"{label}: a host and hour, open", one(written.open_bytes / per_hour), "MB", budget=BUDGET_OPEN_MB
    )
    yield Figure(
        f"{label}: a host and hour, finished",
        one(written.finished_bytes / per_hour),
        "MB",
        one(written.open_bytes / per_hour),
        BUDGET_FINISHED_MB,
    )
    yield Figure(f"{label}: frames", one(written.frames / 1e6), "million")
    whole_file = one(written.finished_bytes / written.figures)
    yield Figure("bytes a figure of the pulses, all of the file ÷ them", whole_file, "B", one(GORILLA))
    pulses = setting.home / "pulses.mcap"
    alone = _pulses_alone(pulses, Made(min(hosts, 16), DEVICES, int(min(hours, 1) * 3600), has_trouble=False))
    yield Figure("bytes a figure, a file of pulses alone", one(alone), "B", one(PROMETHEUS))
    yield Figure("to record a frame: CPU of all threads", whole(written.cpu_us), "us")
    yield Figure("to record a frame: on the thread that gives it", whole(written.loop_us), "us")
    yield Figure("to write it anew, finished", one(written.finish_s), "s")
    viewers = [_view(path, seed) for seed in range(setting.pick(3, 1))]

    def of(name: str, unit: float = 1.0) -> Estimate:
        return whole([viewer[name] * unit for viewer in viewers])

    yield Figure("to open it", of("open"), "s", budget=BUDGET_OPEN_S)
    yield Figure("the overview of all of it", of("overview", 1000), "ms")
    yield Figure("to seek anywhere, median", of("p50", 1000), "ms", of("cpu_p50", 1000))
    yield Figure("to seek anywhere, p99", of("p99", 1000), "ms", of("cpu_p99", 1000), BUDGET_SEEK_MS)
    yield Figure("memory of a process that opened it, before", of("memory_before", 1e-6), "MB")
    yield Figure("memory of it after as many seeks", of("memory", 1e-6), "MB")
    path.unlink()


def _write(path: Path, made: Made) -> _Written:
    """Record the session, flushed as often as a live one in the session's own time."""
    written = RecordingWriter(path, {"writer": "bench"}, flush_every=3600.0)
    written.start()
    cluster, recorder = Cluster(), SessionRecorder(written)
    frames = pulses = figures = 0
    cpu: list[float] = []
    loop: list[float] = []
    due, spent, in_loop, part = 0.0, 0.0, 0.0, 0
    for batch in made_sessions.batches(made):
        for frame in batch:
            cluster.feed(frame)
            pulses += frame.kind == "pulse"
        if not figures and batch[0].kind == "pulse":
            figures = made_sessions.figures(batch[0])
        at = batch[-1].at
        started, cpu_started = time.perf_counter(), time.process_time()
        recorder.take(batch, cluster, at)
        in_loop += time.perf_counter() - started
        if at >= due:
            written.sync(600)
            due = at + FLUSH_EVERY
        spent += time.process_time() - cpu_started
        frames += len(batch)
        part += len(batch)
        if part >= FRAMES_A_PART:
            cpu.append(1e6 * spent / part)
            loop.append(1e6 * in_loop / part)
            spent, in_loop, part = 0.0, 0.0, 0
    open_bytes = written.size
    started = time.perf_counter()
    recorder.finish(cluster)
    finish_s = time.perf_counter() - started
    assert written.failure is None, written.failure
    sizes = open_bytes, path.stat().st_size
    return _Written(frames, figures * pulses, pulses, *sizes, cpu, loop, finish_s)


def _pulses_alone(path: Path, made: Made) -> float:
    """Return the bytes per figure of a recording that has only pulses, and no keyframes."""
    written = RecordingWriter(path, {"writer": "bench"})
    written.start()
    figures = count = 0
    for batch in made_sessions.batches(made):
        pulses = [frame for frame in batch if frame.kind == "pulse"]
        figures = figures or sum(map(made_sessions.figures, pulses))
        count += len(pulses)
        written.write(pulses)
        if count % 1000 == 0:
            written.sync(600)
    written.finish()
    return path.stat().st_size / (figures * count)


def _view(path: Path, seed: int) -> dict[str, Any]:
    """Return what a new process measures that opens the recording and seeks in it."""
    words = [sys.executable, "-m", "tests.bench.rows.recordings", path, str(seed)]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _look(path: Path, seed: int) -> dict[str, float]:
    import psutil

    from jaxtop.sources import Session

    process = psutil.Process()
    before = process.memory_info().rss
    started = time.perf_counter()
    session = Session([path])
    span = session.span
    assert span is not None
    session.at(span[0])
    opened = time.perf_counter()
    session.overview  # noqa: B018 - access computes it
    seen = time.perf_counter()
    dice = random.Random(seed)
    walls, cpus = [], []
    for _ in range(SEEKS):
        at = dice.uniform(*span)
        wall, cpu = time.perf_counter(), time.process_time()
        session.at(at)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    walls.sort()
    cpus.sort()
    last = int(0.99 * (SEEKS - 1))
    return {
        "open": opened - started,
        "overview": seen - opened,
        "p50": walls[SEEKS // 2],
        "p99": walls[last],
        "cpu_p50": cpus[SEEKS // 2],
        "cpu_p99": cpus[last],
        "memory_before": before,
        "memory": process.memory_info().rss,
    }


if __name__ == "__main__":
    from pathlib import Path

    print(json.dumps(_look(Path(sys.argv[1]), int(sys.argv[2]))))
