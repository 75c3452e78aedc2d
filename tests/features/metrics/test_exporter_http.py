"""The HTTP server of the exporter: TLS, passwords, and clients that are slow, silent or many."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from http.server import ThreadingHTTPServer

import pytest

from jaxtop.cli.errors import UserError
from jaxtop.cli.serving import http_server
from jaxtop.cli.serving.http_server import MAX_CLIENTS, HttpServer
from jaxtop.cli.serving.listening import MAX_STRANGERS, Protection, address
from tests import patience
from tests.features.metrics.served import get, served
from tests.made.clusters import cluster
from tests.support import eventually, jaxtop


def connect(server: HttpServer) -> socket.socket:
    return socket.create_connection(
        ("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=patience.left()
    )


def is_served(server: HttpServer) -> bool:
    try:
        return get(f"{server.url}/healthz")[0] == 200
    except (urllib.error.URLError, ConnectionError):
        return False


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
        with connect(server):  # says nothing
            context = ssl.create_default_context(cafile=str(cert))
            assert get(f"{server.url}/metrics", context=context)[0] == 200
        assert server.url.startswith("https://")


def test_other_machines_are_served_only_with_tls_and_passwords(certificate, tmp_path):
    cert, key = certificate
    file = tmp_path / "passwords"
    file.write_text("a:b\n")
    for protection in (Protection(), Protection(cert, key), Protection(passwords=file)):
        with pytest.raises(UserError, match="can be reached from other machines"):
            HttpServer("0.0.0.0", 0, {}, protection)
    file.chmod(0o644)
    with pytest.raises(UserError, match="can be read by others"):
        HttpServer("127.0.0.1", 0, {}, Protection(passwords=file))
    with pytest.raises(UserError, match="is no certificate"):
        HttpServer("127.0.0.1", 0, {}, Protection(file, file))


def test_silent_clients_are_bounded_and_keep_nobody_out(monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_S", 60.0)
    with served(cluster()) as server:
        before = threading.active_count()
        silent = [connect(server) for _ in range(MAX_STRANGERS + 20)]
        assert is_served(server)
        for each in silent[:21]:  # the oldest gave way, the last of them to the client that was served
            assert each.recv(1) == b""
        eventually(lambda: threading.active_count() - before <= MAX_STRANGERS)
        for each in silent:
            each.close()


def test_strangers_who_come_again_all_the_time_keep_nobody_out():
    with served(cluster()) as server:
        strangers: list[socket.socket] = []
        for _ in range(10):
            strangers += [connect(server) for _ in range(MAX_STRANGERS)]
            eventually(lambda: is_served(server))
        assert len(server._server._strangers) <= 2 * MAX_STRANGERS
        for each in strangers:
            each.close()


def test_more_answers_at_a_time_than_are_allowed_are_refused_in_words():
    go_on = threading.Event()

    def slow(_):
        go_on.wait(patience.left())
        return http_server.Page(b"", "text/plain")

    with HttpServer("127.0.0.1", 0, {"/slow": slow}, Protection()) as server:
        busy = [connect(server) for _ in range(MAX_CLIENTS)]
        for each in busy:
            each.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
        eventually(lambda: len(server._server._answered) == MAX_CLIENTS)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{server.url}/slow", timeout=patience.left())
        go_on.set()
        for each in busy:
            each.close()


def test_a_client_that_sends_its_request_slowly_is_cut_off(monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_S", 0.5)
    with served(cluster()) as server, connect(server) as slow:
        slow.settimeout(0.1)

        def is_cut_off():
            try:
                slow.send(b"G")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        eventually(is_cut_off, every=0.05)


def test_a_client_that_does_not_read_its_answer_is_cut_off(monkeypatch):
    monkeypatch.setattr(http_server, "ANSWER_S", 0.5)
    large = http_server.Page(b"x" * (64 << 20), "text/plain")
    with (
        HttpServer("127.0.0.1", 0, {"/large": lambda _: large}, Protection()) as server,
        connect(server) as slow,
    ):
        slow.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        assert slow.recv(1) == b"H"
        eventually(lambda: not server._server._answered)


def test_a_client_whose_thread_cannot_start_holds_no_slot(monkeypatch):
    def fail(*_):
        raise RuntimeError("can't start new thread")

    with served(cluster()) as server:
        with monkeypatch.context() as patched:
            patched.setattr(ThreadingHTTPServer, "process_request", fail)
            for _ in range(2 * MAX_STRANGERS + 1):
                with connect(server) as refused:
                    assert refused.recv(1) == b""
        assert is_served(server)


def test_the_body_of_a_request_is_not_another_request():
    with served(cluster()) as server, connect(server) as client:
        inner = b"GET /api/findings HTTP/1.1\r\n\r\n"
        client.sendall(b"GET /healthz HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(inner), inner))
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
        assert answer.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in answer


@pytest.mark.parametrize("text", [b"", b"a", b"a:", b":b", b"a:b\nc:\n", b"   \n"])
def test_a_line_of_the_password_file_needs_a_user_and_a_password(tmp_path, text):
    file = tmp_path / "passwords"
    file.write_bytes(text)
    file.chmod(0o600)
    with pytest.raises(UserError, match="user:password"):
        HttpServer("127.0.0.1", 0, {}, Protection(passwords=file))


def test_a_password_keeps_its_spaces(tmp_path):
    file = tmp_path / "passwords"
    file.write_bytes(b"a: b \r\n")
    file.chmod(0o600)
    with served(cluster(), protection=Protection(passwords=file)) as server:
        for credentials, status in ((b"a: b ", 200), (b"a:b", 401)):
            basic = f"Basic {base64.b64encode(credentials).decode()}"
            assert get(f"{server.url}/metrics", authorization=basic)[0] == status


def test_a_password_file_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(UserError, match="is not a regular file"):
        HttpServer("127.0.0.1", 0, {}, Protection(passwords=tmp_path / "fifo"))
    with pytest.raises(UserError, match="cannot be read"):
        HttpServer("127.0.0.1", 0, {}, Protection(passwords=tmp_path))


def test_a_key_without_its_certificate_is_an_error(tmp_path):
    with pytest.raises(UserError, match="--tls-key needs --tls-cert"):
        HttpServer("127.0.0.1", 0, {}, Protection(key=tmp_path / "key.pem"))


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
    for text in (
        "127.0.0.1:x",
        "no-such-host.invalid:1",
        "127.0.0.1:70000",
        f":{'1' * 5000}",
        f"{'a' * 64}:1",
    ):
        done = jaxtop("exporter", "--listen", text, "127.0.0.1:1")
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
