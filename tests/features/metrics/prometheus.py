"""A real Prometheus that scrapes an exporter, and its tool `promtool`, for tests and measurements."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from jaxtop.features.metrics.boards import BOARDS, grafana
from tests import patience
from tests.support import eventually, free_port, processes

if TYPE_CHECKING:
    from collections.abc import Iterator


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
WHERE = "(Debian: the package prometheus)"
with_promtool = pytest.mark.skipif(PROMTOOL is None, reason=f"promtool is not installed {WHERE}")
with_prometheus = pytest.mark.skipif(PROMETHEUS is None, reason=f"prometheus is not installed {WHERE}")


def promtool(*words: object, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *map(str, words)], input=text, capture_output=True, check=False)


class Prometheus:
    """A running Prometheus, asked over its API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def _get(self, path: str, **query: object) -> Any:
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query, doseq=True)}"
        with urllib.request.urlopen(address, timeout=patience.left()) as answer:
            return json.load(answer)["data"]

    def query(self, text: str) -> list[dict[str, Any]]:
        """Return the series that a query yields now."""
        return list(self._get("query", query=text)["result"])

    def value(self, text: str) -> float:
        """Return the value of a query that yields one series; NaN if it yields none."""
        found = self.query(text)
        return float(found[0]["value"][1]) if found else float("nan")

    def values(self, label: str, selector: str) -> list[str]:
        """Return the values of a label, as Grafana's `label_values` does."""
        return list(self._get(f"label/{label}/values", **{"match[]": selector}))

    def targets(self) -> list[dict[str, Any]]:
        return list(self._get("targets")["activeTargets"])

    def alerts(self) -> set[str]:
        return {each["labels"]["alertname"] for each in self._get("alerts")["alerts"]}


@contextmanager
def prometheus(folder: Path, configuration: str) -> Iterator[Prometheus]:
    """Run Prometheus with this configuration until the block ends."""
    assert PROMETHEUS is not None
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "prometheus.yml"
    file.write_text(configuration)
    address = f"127.0.0.1:{free_port()}"
    command = [
        PROMETHEUS,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=error",
    ]
    with processes(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as (running,):
        opened = Prometheus(f"http://{address}")

        def is_ready() -> bool:
            assert running.poll() is None, "prometheus has ended"
            try:
                with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5):
                    return True
            except OSError:
                return False

        eventually(is_ready)
        yield opened


def imported(name: str) -> dict:
    return json.loads(grafana.dashboard(BOARDS[name]))


def chosen(query: str, every: str = "1m") -> str:
    """A query as Grafana sends it, with all runs and the first of other choices."""
    for name, value in {"as": "max", "by": "run", "__rate_interval": every}.items():
        query = re.sub(rf"\${name}\b", value, query)
    return re.sub(r"\$\w+", ".*", query)
