"""The exporter: both text formats by negotiation, bounded series, JSON, health, TLS and passwords."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parsed_classic

from jaxtop.cli.errors import UserError
from jaxtop.cli.exporter import Watched, pages
from jaxtop.cli.http_server import MOST_CLIENTS, Protection, Server, address
from jaxtop.export import to_document, to_openmetrics
from jaxtop.export.prometheus import DETAILS, exposition
from jaxtop.model import Cluster
from tests.made_runs import run_of
from tests.made_windows import Made
from tests.support import jaxtop
from tests.test_export import NOW, cluster, everything

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PROMTOOL = shutil.which("promtool")


OPEN = Protection()


def served(made: Cluster, detail: str = "program", protection: Protection = OPEN) -> Server:
    return Server("127.0.0.1", 0, pages(Watched(made, lambda: NOW), detail), protection)


def get(url: str, accept: str = "", authorization: str = "", **more: Any) -> tuple[int, str, str]:
    request = urllib.request.Request(url, headers={"Accept": accept, "Authorization": authorization})
    try:
        with urllib.request.urlopen(request, timeout=10, **more) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def values(families) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_prometheus_gets_what_the_snapshot_says_in_the_format_that_it_prefers():
    with served(everything()) as server:
        _, kind, classic = get(f"{server.url}/metrics")
        assert kind.startswith("text/plain; version=")
        _, kind, openmetrics = get(f"{server.url}/metrics", OPENMETRICS)
        assert kind.startswith("application/openmetrics-text")
    expected = values(parsed_openmetrics(to_openmetrics(everything(), NOW)))
    assert values(parsed_openmetrics(openmetrics)) == expected
    assert set(values(parsed_classic(classic)).values()) >= set(expected.values())


def test_runs_processes_and_devices_can_be_joined_by_their_info():
    found = values(parsed_openmetrics(exposition(everything(), NOW, OPENMETRICS, "program")[0].decode()))
    for name in ("run", "host", "device"):
        assert any(key[0] == f"jaxtop_{name}_info" and value == 1 for key, value in found.items())


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: the package prometheus)")
def test_promtool_accepts_what_is_served():
    text, _ = exposition(everything(), NOW, "", "program")
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_each_level_of_detail_adds_series_to_the_one_before():
    before: set[object] = set()
    made = run_of(Made(hosts=3, devices=2, late=1), windows=5)
    for detail in DETAILS:
        text, _ = exposition(made, NOW, OPENMETRICS, detail)
        found = set(values(parsed_openmetrics(text.decode())))
        assert found > before, detail
        before = found
    text, _ = exposition(everything(), NOW, OPENMETRICS, "host")
    assert not any("device" in dict(labels) for _, labels in values(parsed_openmetrics(text.decode())))


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


def test_a_wrong_password_gets_nothing(tmp_path):
    file = tmp_path / "passwords"
    file.write_text("# scrapers\nprometheus:sesame\n")
    file.chmod(0o600)
    with served(cluster(), protection=Protection(passwords=file)) as server:
        for credentials, status in (("prometheus:sesame", 200), ("prometheus:wrong", 401), ("sesame", 401)):
            basic = f"Basic {base64.b64encode(credentials.encode()).decode()}"
            assert get(f"{server.url}/metrics", authorization=basic)[0] == status
        assert get(f"{server.url}/metrics", authorization="Basic !")[0] == 401
        assert get(f"{server.url}/metrics")[0] == 401


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return cert, key


def test_it_serves_with_tls_and_a_silent_client_holds_nobody_up(certificate):
    cert, key = certificate
    with served(cluster(), protection=Protection(cert, key)) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)):  # says nothing
            context = ssl.create_default_context(cafile=str(cert))
            assert get(f"{server.url}/metrics", context=context)[0] == 200
        assert server.url.startswith("https://")


def test_other_machines_are_served_only_with_tls_and_passwords(certificate, tmp_path):
    cert, key = certificate
    file = tmp_path / "passwords"
    file.write_text("a:b\n")
    for protection in (Protection(), Protection(cert, key), Protection(passwords=file)):
        with pytest.raises(UserError, match="can be reached from other machines"):
            Server("0.0.0.0", 0, {}, protection)
    file.chmod(0o644)
    with pytest.raises(UserError, match="can be read by others"):
        Server("127.0.0.1", 0, {}, Protection(passwords=file))
    with pytest.raises(UserError, match="is no certificate"):
        Server("127.0.0.1", 0, {}, Protection(file, file))


def test_many_clients_at_once_are_bounded_and_the_next_one_is_served():
    with served(cluster()) as server:
        port = int(server.url.rpartition(":")[2])
        before = threading.active_count()
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(MOST_CLIENTS + 20)]
        time.sleep(0.3)
        assert threading.active_count() - before <= MOST_CLIENTS
        for each in silent:
            each.close()
        end = time.monotonic() + 10
        while True:
            try:
                assert get(f"{server.url}/healthz")[0] == 200
                break
            except (urllib.error.URLError, ConnectionError):
                assert time.monotonic() < end
                time.sleep(0.1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8000", ("127.0.0.1", 8000)),
        ("login01", ("login01", 9410)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:8000", ("::1", 8000)),
        ("[::1]", ("::1", 9410)),
    ],
)
def test_an_address_may_leave_out_its_host_or_port(text, expected):
    assert address(text, 9410) == expected


def test_wrong_addresses_are_one_line():
    for text in ("127.0.0.1:x", "no-such-host.invalid:1", "127.0.0.1:70000"):
        done = jaxtop("exporter", "--listen", text, "127.0.0.1:1")
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
