"""The exporter: both text formats by negotiation, bounded series, JSON, health, and a real run."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parsed_classic

from jaxtop import wire
from jaxtop.cli.serving.http_server import HttpRequest, HttpServer
from jaxtop.cli.serving.watched_cluster import WatchedCluster
from jaxtop.export import openmetrics, to_document, to_openmetrics
from jaxtop.export.samples import DETAILS
from jaxtop.features.metrics import command as exporter
from jaxtop.features.metrics.command import pages
from jaxtop.features.metrics.prometheus import exposition, targets
from jaxtop.model import Cluster
from tests import builders, patience
from tests.features.metrics.served import OPEN, Frames, get, served
from tests.made.clusters import HOSTILE, NOW, cluster, everything
from tests.made.runs import run_of
from tests.made.windows import Made
from tests.pages import DOCS
from tests.stories import tell
from tests.support import JAXTOP, environment, eventually, processes, training

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PROMTOOL = shutil.which("promtool")


def values(families) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def exposed(*what) -> bytes:
    return b"".join(exposition(*what)[0])


def test_prometheus_gets_what_the_snapshot_says_in_the_format_that_it_prefers():
    with served(everything()) as server:
        _, kind, classic = get(f"{server.url}/metrics")
        assert kind.startswith("text/plain; version=")
        _, kind, openmetrics = get(f"{server.url}/metrics", OPENMETRICS)
        assert kind.startswith("application/openmetrics-text")
    expected = values(parsed_openmetrics(to_openmetrics(everything(), NOW)))
    assert values(parsed_openmetrics(openmetrics)) == expected
    assert values(parsed_classic(classic)) == expected


def test_runs_processes_and_devices_can_be_joined_by_their_info():
    found = values(parsed_openmetrics(exposed(everything(), NOW, OPENMETRICS, "program").decode()))
    for name in ("run", "host", "device"):
        assert any(key[0] == f"jaxtop_{name}_info" and value == 1 for key, value in found.items())


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: the package prometheus)")
@pytest.mark.parametrize("detail", DETAILS)
def test_promtool_accepts_what_is_served(detail):
    text = exposed(everything(), NOW, "", detail)
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_pieces_of_any_size_are_the_same_page(monkeypatch):
    """The samples of a metric stand side by side, however many there are."""
    made = run_of(Made(hosts=3, devices=2, late=1), windows=5)
    whole = exposed(made, NOW, OPENMETRICS, "program")
    for size in (1, 2, 7):
        monkeypatch.setattr(openmetrics, "LINES_AT_ONCE", size)
        assert exposed(made, NOW, OPENMETRICS, "program") == whole


def test_each_level_of_detail_adds_series_to_the_one_before():
    before: set[object] = set()
    made = run_of(Made(hosts=3, devices=2, late=1), windows=5)
    for detail in DETAILS:
        text = exposed(made, NOW, OPENMETRICS, detail)
        found = set(values(parsed_openmetrics(text.decode())))
        assert found > before, detail
        before = found
    text = exposed(everything(), NOW, OPENMETRICS, "host")
    assert not any("device" in dict(labels) for _, labels in values(parsed_openmetrics(text.decode())))


def test_a_process_and_a_device_have_no_more_series_than_the_page_says():
    text = (DOCS / "monitoring.md").read_text()
    per_process, per_device = (
        int(re.search(rf"at most (\d+) per {name}", text)[1]) for name in ("process", "device")
    )
    run, host, device, _ = (
        len(values(parsed_openmetrics(exposed(everything(), NOW, OPENMETRICS, each).decode())))
        for each in DETAILS
    )
    # `everything` has one metric of the step and two busy threads; an agent sends at most 16 and 3.
    assert host - run + 15 + 1 <= per_process
    assert device - host <= per_device


def test_scripts_get_the_snapshot_the_findings_and_the_health():
    with served(cluster()) as server:
        status, kind, text = get(f"{server.url}/api/snapshot?x=1")
        assert (status, kind) == (200, "application/json")
        assert json.loads(text) == json.loads(json.dumps(to_document(cluster(), NOW)))
        assert json.loads(get(f"{server.url}/api/findings")[2])["schema"] == 1
        status, _, text = get(f"{server.url}/healthz")
        assert status == 200 and "processes are live" in text
        status, _, text = get(f"{server.url}/metric")
        assert status == 404 and "/metrics" in text
    with served(Cluster()) as server:
        assert get(f"{server.url}/healthz")[0] == 503


def test_what_a_source_yields_is_served():
    now = [builders.NOW]
    watched = WatchedCluster(Cluster(), lambda: now[0])
    with HttpServer("127.0.0.1", 0, pages(watched, "program"), OPEN) as server:
        assert get(f"{server.url}/healthz")[::2] == (503, "0 of 0 processes are live\n")
        watched.take(Frames(*builders.well(), notes=["the connection is slow"]))
        expected = 200, "2 of 2 processes are live\nthe connection is slow\n"
        assert get(f"{server.url}/healthz")[::2] == expected
        found = values(parsed_openmetrics(get(f"{server.url}/metrics", OPENMETRICS)[2]))
        assert sum(name == "jaxtop_device_info" for name, _ in found) == builders.PROCESSES * builders.DEVICES
        now[0] += 60
        watched.take(Frames())
        assert watched._cluster.findings.checked_at == now[0], "a silent run is checked too"
        assert get(f"{server.url}/healthz")[0] == 503
        states = [host["state"] for host in json.loads(get(f"{server.url}/api/snapshot")[2])["hosts"]]
        assert len(states) == 2 and "live" not in states


def test_clients_share_a_page_and_the_fold_does_not_wait_for_it():
    now, asked, written = [builders.NOW], [], []

    def clock():
        asked.append(now[0])
        return now[0]

    watched = WatchedCluster(Cluster(), clock)
    is_begun, may_end = threading.Event(), threading.Event()

    def write(cluster, at):
        is_begun.set()
        assert may_end.wait(patience.left())
        written.append((at, len(cluster.hosts)))
        return [b""], "text/plain"

    clients = [threading.Thread(target=watched.page, args=("page", write)) for _ in range(2)]
    for each in clients:
        each.start()
    assert is_begun.wait(patience.left())
    eventually(lambda: len(asked) == 2, every=0.01)
    watched.take(Frames(*builders.well()))
    assert watched.health().status == 200
    now[0] += 5
    watched.take(Frames())
    assert watched._moment is not None, "a page that is being written is for all who ask"
    may_end.set()
    for each in clients:
        each.join()
    assert written == [(builders.NOW, 0)], "one page, of the time of its request"
    watched.page("page", write)
    watched.page("page", write)
    assert written[1:] == [(now[0], 2)]


def test_clients_share_two_formats_whatever_they_accept():
    watched = WatchedCluster(everything(), lambda: NOW)
    metrics = pages(watched, "program")["/metrics"]
    accepted = (
        "",
        "text/plain;version=1.0.0",
        "*/*",
        OPENMETRICS,
        "application/openmetrics-text;version=9.0.0",
    )
    assert len({id(metrics(HttpRequest(each))) for each in accepted}) == 2
    prometheus = "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    assert metrics(HttpRequest(prometheus)).content_type.startswith("application/openmetrics-text")


def test_a_client_that_reads_gzip_gets_the_same_page_compressed():
    with served(everything()) as server:
        plain = get(f"{server.url}/metrics")[2]
        for accepted, encoding in (
            ("gzip", "gzip"),
            ("br, gzip;q=0.5", "gzip"),
            ("br", None),
            ("gzip;q=0", None),
        ):
            request = urllib.request.Request(f"{server.url}/metrics", headers={"Accept-Encoding": accepted})
            with urllib.request.urlopen(request, timeout=patience.left()) as answer:
                assert answer.headers["Content-Encoding"] == encoding
                body = answer.read()
            assert (gzip.decompress(body) if encoding else body).decode() == plain


def test_service_discovery_lists_the_machines_of_the_run_and_the_ports_that_were_asked_for():
    made = builders.folded(builders.well())
    watched = WatchedCluster(made, lambda: builders.NOW)
    with HttpServer("127.0.0.1", 0, pages(watched, "program"), OPEN) as server:
        status, kind, text = get(f"{server.url}/http_sd?port=9100&port=9400")
        assert (status, kind) == (200, "application/json")
        [first, second] = json.loads(text)
        assert first["targets"] == [f"{first['labels']['hostname']}:{port}" for port in (9100, 9400)]
        assert first["labels"]["__meta_jaxtop_processes"] == "0"
        assert second["labels"]["__meta_jaxtop_processes"] == "1"
        assert all(isinstance(each, str) for target in (first, second) for each in target["labels"].values())
        for wrong in ("", "?port=", "?port=x", "?port=99999", "?port=1" + "&port=1" * 16, "?port=9100/x"):
            status, kind, text = get(f"{server.url}/http_sd{wrong}")
            assert (status, len(text.splitlines())) == (400, 1)


def test_service_discovery_leaves_out_what_has_exited_and_what_is_no_name():
    model = everything()
    assert [each["targets"] for each in targets(model, NOW, ["1"])] == [["node0:1"]]
    tell(model, (19.5, "r1-0", wire.Bye(19_500, "ended")))
    assert targets(model, NOW, ["1"]) == []
    assert [each["targets"] for each in targets(cluster(HOSTILE), NOW, ["1"])] == [["node1:1"]]


def test_the_exporter_reaches_a_run_through_a_command():
    parser = argparse.ArgumentParser()
    exporter.add_arguments(parser)
    arguments = parser.parse_args(["--via", "ssh login01"])
    assert (arguments.via, arguments.detail) == ("ssh login01", "program")


@pytest.mark.jax
@pytest.mark.newest
def test_a_real_run_is_scraped_and_sigterm_ends_the_exporter(tmp_path):
    command = [*JAXTOP, "exporter", "--listen", "127.0.0.1:0"]
    with training(tmp_path / "run", hosts=1, devices=2) as run:
        env = {**environment(), "HOME": str(run.home)}
        with processes(command, env=env, stderr=subprocess.PIPE) as (serving,):
            line = serving.stderr.readline()
            assert line.startswith("jaxtop: serves http://127.0.0.1:")
            url = line.split()[-1].removesuffix("/metrics")
            eventually(lambda: get(f"{url}/healthz")[0] == 200)

            def launches():
                found = values(parsed_openmetrics(get(f"{url}/metrics", OPENMETRICS)[2]))
                assert sum(name == "jaxtop_device_info" for name, _ in found) == 2
                return sum(value for (name, _), value in found.items() if name == "jaxtop_launches_total")

            eventually(launches)
            serving.send_signal(signal.SIGTERM)
            assert serving.wait() == 0, serving.stderr.read()
