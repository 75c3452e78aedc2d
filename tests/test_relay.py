"""A viewer in two halves: what passes between them, and what happens when the connection does not behave."""

from __future__ import annotations

import re
import signal
import struct
import time

import psutil
import pytest

from jaxtop import wire
from jaxtop.sources.relay import NoRelay, RelaySource, near, stream
from jaxtop.sources.relay.stream import Open
from tests.support import PYTHON, ROOT

AGENT = "a" * 16
FAR = (str(PYTHON), str(ROOT / "tests" / "programs" / "far.py"))


def relay(*far: object, way: tuple[str, ...] = ("env",), targets: tuple[str, ...] = ()) -> RelaySource:
    return RelaySource(way, Open(targets), tuple(map(str, (*FAR, *far))))


def until(source: RelaySource, check, seconds: float = 20.0) -> list[wire.Frame]:
    """Poll until the check is true of all frames so far."""
    frames: list[wire.Frame] = []
    end = time.monotonic() + seconds
    while not check(frames):
        assert time.monotonic() < end, f"not within {seconds} s; {len(frames)} frames, notes {source.notes}"
        frames += source.poll(0.1)
    return frames


def test_messages_pass_in_pieces_of_any_size_and_behind_what_a_login_shell_prints():
    messages = [Open(("a b", "host:7410"), "k" * 40), stream.Ask(3, AGENT, wire.Request("pace", 500))]
    data = b"Welcome to login01!\r\njaxtop relay\n" + stream.FIRST_LINE + b"".join(map(stream.pack, messages))
    for size in (1, 2, 7, len(data)):
        reader = stream.Reader()
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        assert [message for piece in pieces for message in reader.feed(piece)] == messages


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (stream.MOST_BEFORE + 1),
        stream.FIRST_LINE + struct.pack(">I", stream.MOST_BYTES + 1),
        stream.FIRST_LINE + struct.pack(">I", 3) + b"\xc1\xc1\xc1",
        stream.FIRST_LINE + stream.pack(stream.Opened("1"))[:4] + b"\x80" * 100,
    ],
    ids=["only text", "too long", "no message", "no known message"],
)
def test_other_bytes_are_an_error_and_no_message(data):
    with pytest.raises(stream.Garbled):
        list(stream.Reader().feed(data))


def test_frames_answers_and_the_state_of_the_far_source_arrive():
    source = relay(1, 10)
    try:
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
    finally:
        source.close()
    assert not [each for each in psutil.Process().children() if "far.py" in " ".join(each.cmdline())]


def test_large_frames_pass():
    source = relay(20, wire.MAX_PAYLOAD - 100)  # more than a message holds, and then more than the queue
    try:
        frames = until(source, lambda frames: len(frames) > 40)
        assert min(len(frame.raw) for frame in frames[1:]) > wire.MAX_PAYLOAD - 200
    finally:
        source.close()


def test_a_connection_that_says_nothing_any_more_is_lost(monkeypatch):
    source = relay(0, 0)
    monkeypatch.setattr(near, "SILENT_S", 3.0)
    try:
        until(source, lambda frames: frames and source.is_settled)
        source._process._popen.send_signal(signal.SIGSTOP)
        (lost,) = until(source, lambda frames: frames)
        assert wire.decode("link", lost.raw).state == "unreachable"
        assert "said nothing for 3 s" in source.notes[0]
    finally:
        source.close()


def test_the_command_line_of_the_far_half_may_be_one_word_of_the_way():
    source = relay(1, 10, way=("sh", "-c", "exec {}"))
    try:
        assert until(source, lambda frames: len(frames) > 2)
    finally:
        source.close()


def test_after_a_cut_the_hosts_are_out_of_reach_and_the_connection_heals():
    source = relay(0, 0, 1.5)
    try:
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
    finally:
        source.close()


def test_a_viewer_that_does_not_read_costs_the_far_half_bounded_memory_and_then_sees_the_present():
    source = relay(2_000, 1_000)
    try:
        until(source, lambda frames: len(frames) > 10)
        far = psutil.Process(source._process._popen.pid)
        most = 0
        for _ in range(60):
            time.sleep(0.1)
            most = max(most, far.memory_info().rss)
        assert most < 500e6
        # What was dropped is asked for again.
        frames = until(
            source, lambda frames: frames and wire.decode("event", frames[-1].raw).text[0] == "1", 60
        )
        numbers = [frame.sequence for frame in frames]
        assert numbers == sorted(numbers)
        assert len(numbers) < numbers[-1], "the far half kept more than its bound"
    finally:
        source.close()


@pytest.mark.parametrize(
    ("way", "why"),
    [
        (("sh", "-c", "echo boom >&2; exit 3"), "ended: boom"),
        (("sh", "-c", "exit 3"), "ended with status 3"),
        (("env", "PATH=/nowhere", "sh"), "No such file or directory"),
        (("no-such-command",), "no-such-command cannot be run"),
        (
            ("sh", "-c", f"yes | head -c {stream.MOST_BEFORE + 10_000}; sleep 5"),
            "does not lead to `jaxtop relay`",
        ),
        (("sh", "-c", "echo jaxtop-relay-stream 7 wire 9; sleep 5"), "install the same jaxtop on both sides"),
        (("sh", "-c", "echo 'sh: 1: jaxtop: not found' >&2; exit 127"), "finds no jaxtop on the other side"),
    ],
)
def test_a_way_that_leads_nowhere_is_one_line(way, why):
    with pytest.raises(NoRelay, match=r"\w") as error:
        relay(way=way)
    assert why in str(error.value) and "\n" not in str(error.value)


def test_the_far_side_says_why_there_is_nothing_to_follow():
    with pytest.raises(NoRelay, match=r"there is nothing like it \(through `env`\)"):
        relay(1, 1, targets=("nothing",))
