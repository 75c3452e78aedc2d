"""The bell and desktop notifications: when, in which form, how often, and never about a recording."""

from __future__ import annotations

import pytest

from jaxtop import wire
from jaxtop.model import Cluster, Severity
from jaxtop.model.finding import Finding, Ongoing
from jaxtop.tui.notifier import BELL, EVERY, Notifier
from jaxtop.tui.playback import Start
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.made.sessions import Made
from tests.played.recordings import record, session_of
from tests.stage import Stage, play


class Found:
    """A cluster whose findings a test sets."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        for each in builders.well():
            self.cluster.feed(each)

    def have(self, at: float, *rules: str, severity: Severity = Severity.CRITICAL) -> Cluster:
        found = [
            Finding(severity, 1.0, f"{rule} is wrong; look", rule=rule, run="r1", since=at) for rule in rules
        ]
        self.cluster.findings.ongoing = {each.key: Ongoing(each, at, True, at) for each in found}
        self.cluster.findings.checked_at = at
        return self.cluster


def test_by_default_nothing_is_written():
    assert Notifier().due(Found().have(NOW, "bad_loss"), NOW) == ""


def test_the_bell_rings_once_at_the_start_and_not_at_the_end():
    notifier, found = Notifier(bell=True), Found()
    assert notifier.due(found.have(NOW, "bad_loss"), NOW) == BELL
    assert notifier.due(found.have(NOW + 20, "bad_loss"), NOW + 20) == ""
    assert notifier.due(found.have(NOW + 40), NOW + 40) == ""


@pytest.mark.parametrize(
    ("form", "environ", "start"),
    [
        ("osc9", {}, "\x1b]9;▲ train: Bad loss: bad_loss is wrong; look\a"),
        ("osc777", {}, "\x1b]777;notify;jaxtop;▲ train: Bad loss: bad_loss is wrong, look\a"),
        ("auto", {"TERM": "foot"}, "\x1b]777;notify;"),
        ("auto", {"TERM": "xterm-kitty"}, "\x1b]9;"),
        ("osc9", {"TMUX": "/tmp/x"}, "\x1bPtmux;\x1b\x1b]9;"),
        ("osc9", {"STY": "1.x"}, "\x1bP\x1b]9;"),
    ],
)
def test_the_start_and_the_end_are_notifications_in_the_form_of_the_terminal(form, environ, start):
    notifier, found = Notifier(desktop=form, environ=environ), Found()
    assert notifier.due(found.have(NOW, "bad_loss"), NOW).startswith(start)
    ended = notifier.due(found.have(NOW + 20), NOW + 20)
    assert "✓ train: ended after 20 s" in ended
    if len(environ) and "TERM" not in environ:
        assert ended.endswith("\x1b\\")  # or the terminal would wait for the rest


def test_warnings_muted_findings_and_those_that_ended_meanwhile_are_silent():
    notifier, found = Notifier(bell=True, desktop="osc9"), Found()
    assert notifier.due(found.have(NOW, "replicated", severity=Severity.WARNING), NOW) == ""
    cluster = found.have(NOW + 2, "bad_loss")
    muted = set(cluster.findings.ongoing)
    assert notifier.due(cluster, NOW + 2, muted) == ""
    assert notifier.due(found.have(NOW + 4), NOW + 4, muted) == ""
    assert notifier.due(found.have(NOW + 6, "stalled"), NOW + 6)
    assert notifier.due(found.have(NOW + 8, "stalled", "bad_loss"), NOW + 8) == ""  # too soon
    assert notifier.due(found.have(NOW + 10, "stalled"), NOW + 10) == ""
    assert notifier.due(found.have(NOW + 30, "stalled"), NOW + 30) == ""


def test_what_happens_within_ten_seconds_is_one_notification():
    notifier, found = Notifier(desktop="osc9"), Found()
    assert notifier.due(found.have(NOW, "bad_loss"), NOW)
    rules = ["bad_loss", "versions_differ", "mesh_mismatch"]
    assert notifier.due(found.have(NOW + 2, *rules), NOW + 2) == ""
    assert "(and 1 more)" in notifier.due(found.have(NOW + 4, *rules), NOW + EVERY)


def test_names_steer_no_terminal():
    notifier, found = Notifier(desktop="osc9"), Found()
    cluster = found.have(NOW)
    hostile = Finding(Severity.CRITICAL, 1.0, "a\x1b]52;c;x\a" * 80, rule="bad_loss", run="r1", since=NOW)
    cluster.findings.ongoing[hostile.key] = Ongoing(hostile, NOW, True, NOW)
    (code,) = [notifier.due(cluster, NOW)]
    assert code.count("\x1b") == 1 and code.count("\a") == 1 and len(code) < 220


class Written:
    """Stands for the driver of a terminal: keeps what the app writes beside its screen."""

    def __init__(self, app, monkeypatch):
        self.codes: list[str] = []
        monkeypatch.setattr(type(app), "is_headless", False)
        write = app._driver.write
        monkeypatch.setattr(app._driver, "write", lambda data: (self.codes.append(data), write(data)))

    @property
    def bells(self) -> int:
        return sum(each.count(BELL) for each in self.codes)


def test_the_app_writes_them_and_the_palette_turns_them_on(monkeypatch):
    async def act(stage: Stage) -> None:
        written = Written(stage.app, monkeypatch)
        commands = {each.title: each for each in stage.app.get_system_commands(stage.screen)}
        commands["Bell at critical findings: turn on"].callback()
        stage.clock.now += 5
        stage.feed.frames.append(frame(agent_id(1), wire.Link(LinkState.CLOSED, "x"), stage.clock.now, 9))
        await stage.paint()
        assert written.bells == 1 and stage.app.moment.findings
        titles = {each.title for each in stage.app.get_system_commands(stage.screen)}
        assert "Bell at critical findings: turn off" in titles
        assert "Desktop notification at critical findings: turn on" in titles

    play(act, *builders.well())


def test_a_replay_is_silent_however_fast_it_is(tmp_path, monkeypatch):
    path = tmp_path / "a.mcap"
    record(path, Made(hosts=2, devices=2, seconds=60))

    async def act(stage: Stage) -> None:
        written = Written(stage.app, monkeypatch)
        monkeypatch.setattr(stage.app._notifier, "due", lambda *_: BELL)
        for _ in range(5):
            stage.clock.now += 1
            await stage.paint()
        assert not written.codes or written.bells == 0
        assert not any("findings" in each.title for each in stage.app.get_system_commands(stage.screen))

    with session_of(path) as session:
        play(act, history=session, replay=Start(speed=64.0), notifier=Notifier(bell=True))
