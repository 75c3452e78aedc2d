"""`jaxtop watch`: one alert at the start and the end of a finding, delivered whatever the receiver does."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE

import pytest

from jaxtop import wire
from jaxtop.features.alerts import command, senders
from jaxtop.features.alerts.document import body
from jaxtop.model import Cluster, Severity
from jaxtop.model.finding import Ongoing
from jaxtop.model.findings.alerts import ENDS, STARTS, Alert, AlertBook
from tests import patience
from tests.builders import NOW, agent_id, folded, frame, two_processes
from tests.staged.findings import LATE
from tests.support import JAXTOP, PYTHON, ROOT, eventually, is_one_line, jaxtop_here, processes

ALERT = Alert(STARTS, NOW + 20, "train", LATE)
HOSTILE = replace(LATE, text="<!channel> @everyone & <http://x|y>\x1b[31m")
NOT_MUCH = (0.05, 0.05)


class Server(ThreadingHTTPServer):
    """A webhook that answers with these statuses, then with 200; None: it never answers."""

    daemon_threads = True

    def __init__(self, *statuses: int | None, retry_after: str = "") -> None:
        self.bodies: list[dict] = []
        self.statuses, self.retry_after = list(statuses), retry_after
        self.released = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/secret"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self):
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status is None:
            self.server.released.wait(patience.left())
            return
        self.send_response(status)
        if self.server.retry_after:
            self.send_header("Retry-After", self.server.retry_after)
        if status in (301, 302):
            self.send_header("Location", self.server.address + "/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def webhook(*statuses, **more):
    with Server(*statuses, **more) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()


def deliver(server: Server, *alerts: Alert, seconds: float = 20, form: str = "plain", delays=NOT_MUCH):
    sender = senders.webhook(server.address, form, delays)
    for each in alerts:
        sender.put(each)
    sender.finish(seconds)


# Alerts


def ongoing(cluster, finding, *, is_reported=True):
    cluster.findings.ongoing[finding.key] = Ongoing(finding, NOW, is_reported, NOW)


def test_a_finding_has_one_alert_at_its_start_and_one_at_its_end():
    cluster, book = folded(two_processes()), AlertBook(Severity.WARNING)
    assert book.changes(cluster, NOW + 30) == []
    ongoing(cluster, LATE)
    (start,) = book.changes(cluster, NOW + 31)
    assert (start.event, start.run_name, start.finding) == (STARTS, "train", LATE)
    ongoing(cluster, replace(LATE, text="host 1 is later"))
    assert book.changes(cluster, NOW + 32) == []
    del cluster.findings.ongoing[LATE.key]
    (end,) = book.changes(cluster, NOW + 60)
    assert end.event == ENDS and end.title.startswith("✓ train: ended after 50 s: Straggler: host 1 is late")
    assert book.changes(cluster, NOW + 61) == []


def test_only_findings_of_the_severity_asked_for_and_a_worse_one_again():
    cluster, book = folded(two_processes()), AlertBook(Severity.CRITICAL)
    ongoing(cluster, LATE)
    assert book.changes(cluster, NOW + 30) == []
    ongoing(cluster, replace(LATE, severity=Severity.CRITICAL))
    assert len(book.changes(cluster, NOW + 31)) == 1
    ongoing(cluster, LATE)
    assert book.changes(cluster, NOW + 32) == []
    both = AlertBook(Severity.WARNING)
    assert len(both.changes(cluster, NOW + 33)) == 1
    ongoing(cluster, replace(LATE, severity=Severity.CRITICAL))
    assert len(both.changes(cluster, NOW + 34)) == 1


def test_a_finding_that_another_explains_has_not_ended():
    cluster, book = folded(two_processes()), AlertBook(Severity.WARNING)
    ongoing(cluster, LATE)
    book.changes(cluster, NOW + 30)
    ongoing(cluster, replace(LATE, rule="host_lost", severity=Severity.CRITICAL, about="died"))
    assert [(each.event, each.finding.rule) for each in book.changes(cluster, NOW + 31)] == [
        (STARTS, "host_lost")
    ]


def test_the_body_is_documented_and_each_form_is_that_of_its_service():
    plain = json.loads(body(ALERT, "plain"))
    assert set(plain) == {"schema", "jaxtop", "event", "at", "run", "title", "finding"}
    assert plain["event"] == "start" and plain["run"] == {"id": "r1", "name": "train"}
    assert plain["finding"]["rule"] == "straggler" and plain["finding"]["cost"]["ms_per_step"] == 84.0
    assert (plain["schema"], plain["title"]) == (1, "△ train: Straggler: " + LATE.text)
    slack = json.loads(body(ALERT, "slack"))["text"].splitlines()
    assert slack[0] == plain["title"] and slack[1].startswith("Cost: 84 ms")
    assert slack[2].startswith("Next step: ")
    ended = ALERT._replace(event=ENDS)
    assert len(json.loads(body(ended, "discord"))["content"].splitlines()) == 1


def test_text_of_others_mentions_nobody():
    hostile = ALERT._replace(finding=HOSTILE)
    assert "&lt;!channel&gt; @everyone &amp; &lt;http" in json.loads(body(hostile, "slack"))["text"]
    discord = json.loads(body(hostile, "discord"))
    assert discord["allowed_mentions"] == {"parse": []} and "\x1b" not in discord["content"]
    long = ALERT._replace(finding=replace(LATE, text="x" * 5000))
    assert len(json.loads(body(long, "discord"))["content"]) < 2000


# Delivery


def test_a_webhook_receives_each_alert_once_and_in_order():
    with webhook() as server:
        deliver(server, ALERT, ALERT._replace(event=ENDS))
    assert [each["event"] for each in server.bodies] == ["start", "end"]


def test_a_webhook_that_fails_is_tried_again(capsys):
    with webhook(500, 429) as server:
        deliver(server, ALERT)
    assert len(server.bodies) == 3
    said = capsys.readouterr().err
    assert "webhook 127.0.0.1: HTTP status 500; next attempt in 0.05 s" in said and "given up" not in said
    assert "secret" not in said


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (302, 1), (503, 3)])
def test_it_is_given_up_at_once_where_trying_again_is_useless(status, attempts, capsys):
    with webhook(*[status] * 9) as server:
        deliver(server, ALERT)
    assert len(server.bodies) == attempts
    said = capsys.readouterr().err
    assert f"HTTP status {status}; given up" in said and "1 alert was not delivered" in said


def test_it_waits_as_long_as_the_webhook_asks():
    with webhook(429, retry_after="1") as server:
        begun = time.monotonic()
        deliver(server, ALERT)
    assert len(server.bodies) == 2 and time.monotonic() - begun >= 1


def test_a_webhook_that_hangs_delays_nobody(capsys):
    with webhook(None) as server:
        sender = senders.webhook(server.address, "plain", NOT_MUCH)
        begun = time.monotonic()
        for _ in range(senders.MAX_WAITING + 20):
            sender.put(ALERT)
        sender.finish(0.5)
        assert time.monotonic() - begun < 5 * patience.factor()
    assert "alerts were not delivered" in capsys.readouterr().err


def test_nobody_listens(capsys):
    with webhook() as server:
        pass
    deliver(server, ALERT)
    assert "connection refused; given up" in capsys.readouterr().err


def test_not_more_than_so_many_are_sent_at_a_time():
    times = []
    sender = senders.Sender("test", lambda _: times.append(time.monotonic()), most=2, within=0.5)
    for _ in range(4):
        sender.put(ALERT)
    sender.finish(patience.left())
    assert len(times) == 4 and times[2] - times[0] >= 0.5


def test_a_command_reads_the_alert_and_its_variables(tmp_path, capfd):
    sender = senders.command(
        f'cat > {tmp_path}/body; echo "$JAXTOP_ALERT $JAXTOP_ALERT_RULE $JAXTOP_ALERT_SEVERITY'
        f' $JAXTOP_ALERT_RUN $JAXTOP_ALERT_TITLE" > {tmp_path}/said; exit 3'
    )
    sender.put(ALERT._replace(finding=replace(HOSTILE, text="'; touch harmed; $(touch harmed) \0")))
    sender.finish(patience.left())
    assert json.loads((tmp_path / "body").read_text())["finding"]["rule"] == "straggler"
    assert (
        (tmp_path / "said")
        .read_text()
        .startswith("start straggler warning train △ train: Straggler: '; touch")
    )
    assert "command: exit status 3; given up" in capfd.readouterr().err


def test_a_command_that_hangs_is_killed(monkeypatch, capsys):
    monkeypatch.setattr(senders, "EXEC_SECONDS", 0.3)
    sender = senders.command("sleep 100")
    sender.put(ALERT)
    sender.finish(patience.left())
    assert "it took longer than 0.3 s and was killed; given up" in capsys.readouterr().err


# The command


class Played:
    """A source of staged frames, and the clock that goes with it."""

    def __init__(self, frames):
        self._frames = sorted(frames, key=lambda each: each.at)
        self.now = NOW - 3
        self.rejected, self.notes = {}, []

    def poll(self, seconds):
        self.now += seconds
        due = [each for each in self._frames if each.at <= self.now]
        self._frames = self._frames[len(due) :]
        return due


class Kept:
    """A receiver that keeps what it was given."""

    def __init__(self):
        self.alerts = []

    def put(self, alert):
        self.alerts.append(alert)


def test_a_run_is_followed_to_its_end(capsys):
    source, kept = Played(two_processes(died_at=10)), Kept()
    frames = source._frames
    last = frames[-1].at
    source._frames = [*frames, frame(agent_id(0), wire.Bye(int(last * 1000), "exit"), last + 1, 99)]
    command.follow(source, Cluster(), AlertBook(Severity.CRITICAL), [kept], lambda: source.now)
    assert (kept.alerts[0].event, kept.alerts[0].finding.rule) == (STARTS, "host_lost")
    out = capsys.readouterr()
    assert "▲ train: Host lost: host 1 has died" in out.out and "the run has ended" in out.err


def test_a_wrong_webhook_is_an_error():
    for address in ("file:///etc/passwd", "hooks.example.org", "http://"):
        done = jaxtop_here("watch", "127.0.0.1:1", "--webhook", address)
        assert done.returncode == 2 and is_one_line(done.stderr) and "--webhook" in done.stderr


def test_the_way_to_a_person_can_be_tried(tmp_path):
    with webhook(404) as server:
        words = ["watch", "--test", "--webhook", server.address]
        assert jaxtop_here(*words, "--exec", f"cat > {tmp_path}/body").returncode == 1
        assert jaxtop_here(*words, "--form", "discord").returncode == 0
    assert "this is a test" in server.bodies[1]["content"]
    assert json.loads((tmp_path / "body").read_text())["run"]["name"] == "test"
    assert is_one_line(jaxtop_here("watch", "--test").stderr)


def test_a_real_run_is_watched_until_it_ends(tmp_path):
    words = [*JAXTOP, "watch", "--exec", f"cat >> {tmp_path}/alerts"]
    load = [PYTHON, "-m", "tests.real.load", 2, 2, 120, 8]
    with webhook() as server, processes(load, stdout=PIPE, cwd=ROOT) as (agents,):
        address = agents.stdout.readline().strip()
        more = [address, "--webhook", server.address, "--form", "slack"]
        with processes([*words, *more], stdout=PIPE, stderr=PIPE) as (watching,):
            assert "watching" in watching.stderr.readline()
            agents.kill()
            out, err = watching.communicate()
        assert watching.returncode == 0, err
        eventually(lambda: server.bodies)
    assert any("Host lost" in each["text"] for each in server.bodies), (out, err)
    assert '"event":"start"' in (tmp_path / "alerts").read_text() and "Host lost" in out


def test_it_ends_in_order_on_ctrl_c():
    load = [PYTHON, "-m", "tests.real.load", 1, 1, 120, 8]
    with processes(load, stdout=PIPE, cwd=ROOT) as (agents,):
        address = agents.stdout.readline().strip()
        with processes([*JAXTOP, "watch", address], stderr=PIPE) as (watching,):
            assert "watching" in watching.stderr.readline()
            os.kill(watching.pid, signal.SIGINT)
            assert watching.wait() == 0
