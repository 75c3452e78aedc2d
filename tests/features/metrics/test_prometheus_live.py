"""A real Prometheus scrapes a real demo with a late process: every query of the boards, alerts, discovery."""

from __future__ import annotations

import subprocess

import pytest

from jaxtop.export.samples import DETAILS
from jaxtop.features.metrics.alert_rules import to_yaml
from jaxtop.features.metrics.boards import BOARDS
from tests.features.metrics.prometheus import chosen, imported, prometheus, promtool, with_prometheus
from tests.features.metrics.served import get
from tests.support import JAXTOP, environment, eventually, in_a_group, processes

pytestmark = [pytest.mark.jax, pytest.mark.newest, pytest.mark.quiet, pytest.mark.timeout(600)]

CONFIGURATION = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
- job_name: jaxtop
  static_configs: [{{targets: ["{address}"]}}]
- job_name: machines
  http_sd_configs: [{{url: "http://{address}/http_sd?port=1", refresh_interval: 1s}}]
"""


@with_prometheus
def test_boards_alerts_and_discovery_work_on_a_demo_with_a_late_process(home):
    rules = home / "rules.yml"
    rules.write_text(to_yaml())
    demo = ("demo", "--headless", "--hosts", 2, "--fault", "straggler", "--fault-after", 5)
    with in_a_group(home, *demo, devices=2):
        eventually(lambda: "step" in (home / "out").read_text())
        exporters = [[*JAXTOP, "exporter", "--listen", "127.0.0.1:0", "--detail", each] for each in DETAILS]
        with processes(*exporters, env=environment(), stderr=subprocess.PIPE) as serving:
            urls = [each.stderr.readline().split()[-1].removesuffix("/metrics") for each in serving]
            address = urls[-1].removeprefix("http://")
            with prometheus(home / "prometheus", CONFIGURATION.format(rules=rules, address=address)) as asked:
                missing = eventually_empty(lambda: [each for each in panels() if not has_data(asked, *each)])
                assert not missing
                for name in BOARDS:
                    for choice in imported(name)["templating"]["list"]:
                        if choice["type"] == "query":
                            assert values_of(asked, choice["query"]["query"]), (name, choice["name"])
                eventually(lambda: "JaxtopStraggler" in asked.alerts())
                [machine] = [each for each in asked.targets() if each["labels"]["job"] == "machines"]
                assert machine["labels"]["run"] == asked.query("jaxtop_run_info")[0]["metric"]["run"]
                assert machine["discoveredLabels"]["__meta_jaxtop_processes"] == "0,1"
            for url in urls:
                done = promtool("check", "metrics", text=get(f"{url}/metrics")[2].encode())
                assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def panels():
    """The queries of all boards, but those that need what a run on CPUs of one machine may lack."""
    for board in BOARDS.values():
        for row in board.rows.values():
            for panel in row:
                for query, _ in panel.queries:
                    if not panel.needs:
                        yield board.name, panel.title, query


def has_data(asked, _board, _title, query):
    return bool(asked.query(chosen(query, every="30s")))


def values_of(asked, query):
    """What Grafana's `label_values(selector, label)` returns."""
    selector, _, label = query.removeprefix("label_values(").removesuffix(")").rpartition(", ")
    return asked.values(label, chosen(selector))


def eventually_empty(check):
    """Wait until nothing is missing; return what is."""
    try:
        eventually(lambda: not check(), every=2)
    except AssertionError:
        return check()
    return []
