"""The OpenMetrics text obeys the naming rules of Prometheus, by its own linter where that is installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from jaxtop.export import to_openmetrics
from jaxtop.export.series import SERIES
from tests.export.test_export_series import moments
from tests.made.clusters import NOW, cluster, everything
from tests.made.runs import run_of
from tests.made.windows import Made

PROMTOOL = shutil.which("promtool")
UNITS = ("bytes", "seconds", "ratio", "watts", "joules", "celsius", "hertz", "per_second", "flops")
TEXTS = {
    "a snapshot": lambda: to_openmetrics(cluster(), NOW),
    "every figure": lambda: to_openmetrics(everything(), NOW),
    "collectives": lambda: to_openmetrics(run_of(Made(hosts=3, devices=2, late=1), windows=5), NOW),
    "a recording": lambda: "".join(SERIES["openmetrics"](moments(step=5.0))),
    "figures over time": lambda: "".join(SERIES["openmetrics"]([(NOW, everything())])),
}


class Exposed:
    """A collector of what an OpenMetrics text says, for the older text format that promtool reads."""

    def __init__(self, text: str) -> None:
        self._text = text

    def collect(self):
        return text_string_to_metric_families(self._text)


@pytest.mark.parametrize("about", TEXTS)
def test_a_name_that_ends_in_a_unit_declares_it_and_only_summaries_have_quantiles(about):
    for family in text_string_to_metric_families(TEXTS[about]()):
        if family.name.endswith(UNITS):
            assert family.unit and family.name.endswith(f"_{family.unit}"), family.name
        if any("quantile" in sample.labels for sample in family.samples):
            assert family.type == "summary", family.name


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: the package prometheus)")
@pytest.mark.parametrize("about", TEXTS)
def test_promtool_has_nothing_to_say(about):
    text = generate_latest(Exposed(TEXTS[about]()))
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
