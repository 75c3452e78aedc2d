"""A viewer in two halves: what passes between them, and what happens when the connection does not behave."""

from __future__ import annotations

import re
import signal
import struct
import time
from contextlib import closing

import psutil
import pytest

from jaxtop import wire
from jaxtop.features.relay import conversation, feed, stream, viewer_end
from jaxtop.features.relay.conversation import NoRelay
from jaxtop.features.relay.stream import Open
from jaxtop.features.relay.viewer_end import RelaySource
from jaxtop.wire import LinkState
from tests import patience
from tests.support import PYTHON, ROOT

AGENT = "a" * 16
FAR = (str(PYTHON), str(ROOT / "tests" / "programs" / "far.py"))


def relay(*far: object, way: tuple[str, ...] = ("env",), targets: tuple[str, ...] = ()) -> RelaySource:
    return RelaySource(way, Open(targets), tuple(map(str, (*FAR, *far))))


def until(source: RelaySource, check) -> list[wire.Frame]:
    """Poll until the check is true of all frames so far."""
    frames: list[wire.Frame] = []
    end = patience.deadline()
    while not check(frames):
        assert end.left() > 0, f"not within {end}; {len(frames)} frames, notes {source.notes}"
        frames += source.poll(0.1)
    return frames


def test_messages_pass_in_pieces_of_any_size_and_behind_what_a_login_shell_prints():
    messages = [
        Open(("a b", "host:7410"), "k" * 40),
        stream.RelayedRequest(3, AGENT, wire.Request("pace", 500)),
    ]
    data = b"Welcome to login01!\r\njaxtop relay\n" + stream.FIRST_LINE + b"".join(map(stream.pack, messages))
    for size in (1, 2, 7, len(data)):
        reader = stream.Reader()
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        assert [message for piece in pieces for message in reader.feed(piece)] == messages


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (stream.MAX_BEFORE + 1),
        stream.FIRST_LINE + struct.pack(">I", stream.MAX_BYTES + 1),
        stream.FIRST_LINE + struct.pack(">I", 3) + b"\xc1\xc1\xc1\n",
        stream.FIRST_LINE + stream.pack(stream.Opened("1", wire.VERSION))[:4] + b"\x80" * 100,
        stream.FIRST_LINE + stream.pack(stream.Opened("1", wire.VERSION))[:-1] + b"x",
        stream.FIRST_LINE + stream.pack(stream.RelayedFrames(((AGENT, "k" * 65, 1, b""),))),
        stream.FIRST_LINE
        + stream.pack(stream.RelayedFrames(((AGENT, "event", 1, bytes(wire.MAX_PAYLOAD + 1)),))),
        stream.FIRST_LINE + stream.pack(stream.Status(notes=("x",) * 101)),
    ],
    ids=[
        *("only text", "too long", "no message", "no known message", "no end", "long kind"),
        *("long frame", "many notes"),
    ],
)
def test_other_bytes_are_an_error_and_no_message(data):
    with pytest.raises(stream.Garbled):
        list(stream.Reader().feed(data))


def test_frames_answers_and_the_state_of_the_far_source_arrive():
    with closing(relay(1, 10)) as source:
        answers: list[wire.Reply | None] = []
        frames = until(source, lambda frames: len(frames) > 20)
        assert [frame.kind for frame in frames[:2]] == ["link", "event"]
        assert [frame.sequence for frame in frames[1:20]] == list(range(2, 21))
        assert all(frame.at > time.time() - 60 for frame in frames)
        source.request(AGENT, wire.Request("capture"), answers.append)
        source.request("b" * 16, wire.Request("capture"), answers.append)
        until(source, lambda _: len(answers) == 2)
        assert answers == [wire.Reply("capture", at_ms=7), None]
        until(source, lambda _: source.is_settled)
        assert source.notes == ["made"] and source.rejected == {"made": 1}
        far = source._process._popen
    assert far.poll() is not None


def test_large_frames_pass():
    with closing(
        relay(20, wire.MAX_PAYLOAD - 100)
    ) as source:  # more than a message holds, and then more than the queue
        frames = until(source, lambda frames: len(frames) > 40)
        assert min(len(frame.raw) for frame in frames[1:]) > wire.MAX_PAYLOAD - 200


def test_a_connection_that_says_nothing_any_more_is_lost(monkeypatch):
    with closing(relay(0, 0)) as source:
        until(source, lambda frames: frames and source.is_settled)
        source._process._popen.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(conversation, "LOST_AFTER_S", 3.0)
        (lost,) = until(source, lambda frames: frames)
        assert wire.decode("link", lost.raw).state == "unreachable"
        assert "said nothing for 3 s" in source.notes[0]


def test_the_command_line_of_the_far_half_may_be_one_word_of_the_way():
    with closing(relay(1, 10, way=("sh", "-c", "exec {}"))) as source:
        assert until(source, lambda frames: len(frames) > 2)


def test_frames_pass_a_filter_that_waits_for_the_end_of_lines():
    lines = f"{PYTHON} {ROOT / 'tests' / 'programs' / 'lines.py'}"
    with closing(relay(1, 10, way=("sh", "-c", f"{lines} | {{}} | {lines}"))) as source:
        answers: list[wire.Reply | None] = []
        until(source, lambda frames: frames and source.is_settled)
        source.request(AGENT, wire.Request("capture"), answers.append)
        until(source, lambda _: answers)


def test_ten_thousand_targets_pass():
    with pytest.raises(NoRelay, match="10001 targets"):
        relay(1, 1, targets=("count", *(f"node{i:05}.cluster.example:7410" for i in range(10_000))))


def test_the_near_half_sends_something_every_few_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr(conversation, "ALIVE_EVERY_S", 0.1)
    with closing(relay(0, 0, way=("sh", "-c", f"tee {tmp_path}/sent | {{}}"))) as source:
        until(source, lambda _: (tmp_path / "sent").read_bytes().count(b"alive") > 2)


def test_silence_while_the_viewer_was_suspended_is_no_cut():
    now = [time.time()]
    with closing(RelaySource(("env",), Open(), (*FAR, "0", "0"), clock=lambda: now[0])) as source:
        until(source, lambda frames: frames and source.is_settled)
        source._process._popen.send_signal(signal.SIGSTOP)
        until(source, lambda _: not source._process.read())
        now[0] += 1000
        assert source.poll(0) == [] and source.is_settled
        while source.is_settled:
            now[0] += 1
            source.poll(0)
        assert "said nothing" in source.notes[0]


def test_a_retry_cannot_ask_for_a_password(tmp_path):
    said = tmp_path / "said"
    with closing(
        relay(0, 0, 0.5, way=("sh", "-c", f'echo "=$SSH_ASKPASS_REQUIRE" >> {said}; exec {{}}'))
    ) as source:
        until(source, lambda _: len(said.read_text().splitlines()) == 2)
        assert said.read_text().splitlines() == ["=", "=never"]


def test_a_command_that_never_opens_is_given_up_and_what_it_says_is_shown(monkeypatch):
    monkeypatch.setattr(viewer_end, "OPEN_WITHIN_S", 1.0)
    monkeypatch.setattr(viewer_end, "SHOW_AFTER_S", 0.0)
    shown: list[str] = []
    way = ("sh", "-c", r"printf 'a push was \033sent\n' >&2; while sleep 0.1; do echo; done")
    with pytest.raises(NoRelay, match=r"was not connected after 1 s: a push was \\x1bsent"):
        RelaySource(way, Open(), show=shown.append)
    assert shown == [r"a push was \x1bsent"]


LINK = wire.encode(wire.Link(LinkState.UP, "host:1"))


@pytest.mark.parametrize(
    "messages",
    [
        [stream.RelayedFrames(((AGENT, "link", 0, LINK),))],
        [stream.Status()],
        [stream.Opened("1", wire.VERSION), stream.Opened("1", wire.VERSION)],
        [stream.Opened("1", wire.VERSION), stream.RelayedFrames(((AGENT, "past", 0, b""),))],
        [stream.Opened("1", wire.VERSION), Open()],
    ],
)
def test_a_far_half_out_of_order_is_refused(tmp_path, messages):
    (tmp_path / "data").write_bytes(stream.FIRST_LINE + b"".join(map(stream.pack, messages)))
    with pytest.raises(NoRelay, match="does not lead to"):
        RelaySource(("sh", "-c", f"cat {tmp_path}/data; sleep 5"), Open())


def test_a_far_half_that_never_stops_sending_does_not_hold_up_the_viewer(tmp_path):
    (tmp_path / "head").write_bytes(stream.FIRST_LINE + stream.pack(stream.Opened("1", wire.VERSION)))
    (tmp_path / "data").write_bytes(stream.pack(stream.Status()) * 10_000)
    with closing(
        RelaySource(("sh", "-c", f"cat {tmp_path}/head; while cat {tmp_path}/data; do :; done"), Open())
    ) as source:
        assert [source.poll(0.1) for _ in range(3)] == [[], [], []]


def test_after_a_cut_the_hosts_are_out_of_reach_and_the_connection_heals():
    with closing(relay(0, 0, 1.5)) as source:
        asked: list[wire.Reply | None] = []
        frames = until(source, lambda frames: any(frame.kind == "link" for frame in frames))
        frames += until(source, lambda frames: frames)
        states = [wire.decode("link", frame.raw).state for frame in frames]
        assert states == ["up", "unreachable"]
        assert not source.is_settled
        assert re.search(r"was lost \d s ago: .*the far side was stopped", source.notes[0])
        source.request(AGENT, wire.Request("capture"), asked.append)
        assert asked == [None]
        (healed,) = until(source, lambda frames: frames)
        assert wire.decode("link", healed.raw).state == "up"
        until(source, lambda _: source.is_settled)


def test_a_viewer_that_does_not_read_costs_the_far_half_bounded_memory_and_then_sees_the_present():
    with closing(relay(2_000, 1_000)) as source:
        until(source, lambda frames: len(frames) > 10)
        far = psutil.Process(source._process._popen.pid)
        most = 0
        for _ in range(60):
            time.sleep(0.1)
            most = max(most, far.memory_info().rss)
        assert most < 500e6
        # Little that is old comes before the newest; what was dropped is counted.
        frames = until(source, lambda frames: frames and source.is_settled)
        numbers = [frame.sequence for frame in frames]
        assert numbers == sorted(numbers) and source.rejected["the connection to the viewer was too slow"]
        assert sum(len(frame.raw) for frame in frames) < 4 * feed.MAX_EVENTS


@pytest.mark.parametrize(
    ("way", "why"),
    [
        (("sh", "-c", "echo boom >&2; exit 3"), "ended: boom"),
        (("sh", "-c", "exit 3"), "ended with status 3 without running `jaxtop relay`: --via needs a command"),
        (("true",), "`true` ended with status 0 without running `jaxtop relay`"),
        (("sh", "-c", r"printf '\033[31mred' >&2; exit 3"), r"ended: \x1b[31mred"),
        (("env", "PATH=/nowhere", "sh"), "No such file or directory"),
        (("no-such-command",), "no-such-command cannot be run"),
        (
            ("sh", "-c", f"yes | head -c {stream.MAX_BEFORE + 10_000}; sleep 5"),
            "does not lead to `jaxtop relay`",
        ),
        (("sh", "-c", "echo jaxtop-relay-stream 7 wire 9; sleep 5"), "install the same jaxtop on both sides"),
        (("sh", "-c", "echo 'sh: 1: jaxtop: not found' >&2; exit 127"), "finds no jaxtop on the other side"),
    ],
)
def test_a_way_without_a_far_half_is_one_line(way, why):
    with pytest.raises(NoRelay, match=r"\w") as error:
        relay(way=way)
    assert why in str(error.value) and "\n" not in str(error.value)


def test_the_far_side_says_why_there_is_nothing_to_follow():
    with pytest.raises(NoRelay, match=r"there is nothing like it \(through `env`\)"):
        relay(1, 1, targets=("nothing",))
