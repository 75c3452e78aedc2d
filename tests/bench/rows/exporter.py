"""The costs of the exporter at a thousand generated hosts, and of scrapes by a real Prometheus."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from jaxtop.export.samples import DETAILS
from tests.bench.frame import Figure, one, whole
from tests.bench.processes import REPOSITORY
from tests.bench.rows.app import load
from tests.features.metrics.prometheus import PROMETHEUS, prometheus
from tests.support import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Estimate, Setting

EVERY_S = 15
CONFIGURATION = """\
global: {{scrape_interval: {every}s, scrape_timeout: {every}s}}
scrape_configs: [{{job_name: jaxtop, static_configs: [{{targets: ["{address}"]}}]}}]
"""


def measure(setting: Setting) -> Iterator[Figure]:
    """Measure each detail: a page as a client sees it, and the exporter while Prometheus scrapes it."""
    hosts, scrapes = setting.pick((1024, 5), (64, 2))
    with load(hosts, figures="all") as target:
        for detail in DETAILS:
            with _exporter(target, detail) as exporter:
                eventually(lambda: exporter.is_complete(hosts), every=1)
                label = f"{hosts:,} × 8, --detail {detail}"
                idle = exporter.cpu_percent(EVERY_S)
                yield from _pages(exporter, label)
                if PROMETHEUS is not None:
                    yield from _scrapes(exporter, label, scrapes, idle)


class _Exporter:
    """A running exporter."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

    def is_complete(self, hosts: int) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=60) as answer:
                return bool(answer.read().startswith(b"%d of %d " % (hosts, hosts)))
        except OSError:
            return False

    def page(self, encoding: str) -> tuple[float, float, bytes]:
        """Return the seconds that a new page takes, the CPU that is used meanwhile, and the page."""
        time.sleep(2)  # clients share a page for a second
        request = urllib.request.Request(f"{self.url}/metrics", headers={"Accept-Encoding": encoding})
        cpu, began = self._cpu(), time.perf_counter()
        with urllib.request.urlopen(request, timeout=120) as answer:
            body = answer.read()
        return time.perf_counter() - began, self._cpu() - cpu, body

    def cpu_percent(self, seconds: float) -> Estimate:
        """Return the percentage of one core that it uses meanwhile."""
        cpu, began = self._cpu(), time.monotonic()
        time.sleep(seconds)
        return one(100 * (self._cpu() - cpu) / (time.monotonic() - began))

    def _cpu(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system


def _pages(exporter: _Exporter, label: str) -> Iterator[Figure]:
    for encoding, about in (("identity", "a page"), ("gzip", "a page, compressed")):
        pages = [exporter.page(encoding) for _ in range(5)]
        yield Figure(f"{label}: {about}", whole([took for took, _, _ in pages]), "s")
        yield Figure(f"{label}: {about}, CPU", whole([cpu for _, cpu, _ in pages]), "s")
        yield Figure(f"{label}: {about}, size", one(len(pages[0][2]) / 1e6), "MB")
        if encoding == "identity":
            series = sum(not line.startswith(b"#") for line in pages[0][2].splitlines())
            yield Figure(f"{label}: series", one(series), "")


def _scrapes(exporter: _Exporter, label: str, scrapes: int, idle: Estimate) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        address = exporter.url.removeprefix("http://")
        with prometheus(Path(folder), CONFIGURATION.format(every=EVERY_S, address=address)) as asked:
            eventually(lambda: asked.value("up") == 1)
            cpu = exporter.cpu_percent(EVERY_S * scrapes)
            over = f"scrape_duration_seconds[{EVERY_S * scrapes}s]"
            took = [float(value) for _, value in asked.query(over)[0]["values"]]
            yield Figure(f"{label}: a scrape of Prometheus", whole(took), "s", budget=EVERY_S)
            yield Figure(f"{label}: CPU, a scrape each {EVERY_S} s", cpu, "%", control=idle)
    memory = psutil.Process(exporter.process.pid).memory_info().rss / 1e6
    yield Figure(f"{label}: memory", one(memory), "MB", budget=500.0)


@contextmanager
def _exporter(target: str, detail: str) -> Iterator[_Exporter]:
    words = [
        sys.executable,
        "-m",
        "jaxtop",
        "exporter",
        target,
        "--listen",
        "127.0.0.1:0",
        "--detail",
        detail,
    ]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        try:
            assert process.stderr is not None
            yield _Exporter(process, process.stderr.readline().split()[-1].removesuffix("/metrics"))
        finally:
            process.kill()
