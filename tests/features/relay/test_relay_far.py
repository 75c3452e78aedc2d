"""The relay end of a relay alone: its order, and when it ends."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from jaxtop import wire
from jaxtop.features.relay import feed, relay_end, stream
from jaxtop.features.relay.relay_end import RelayEnd
from tests import patience
from tests.support import PYTHON, ROOT, eventually

AGENT = "a" * 16
FRAMES = 300


class Made:
    """A source with 3 MB of frames at once, and an answer to each request."""

    is_settled = True
    notes = ()

    def __init__(self) -> None:
        self.rejected: Counter[str] = Counter()
        self.polls = 0
        self.is_closed = False

    def poll(self, _timeout: float) -> list[wire.Frame]:
        self.polls += 1
        time.sleep(0.001)
        if self.polls > 1:
            return []
        return [wire.Frame(0.0, AGENT, "event", i, bytes(10_000)) for i in range(FRAMES)]

    def request(self, _agent, request, done) -> None:
        done(wire.Reply(request.what))

    def close(self) -> None:
        self.is_closed = True


@contextmanager
def running(source):
    """Yield a thread with a relay end, and the descriptors of its viewer end."""
    requests, frames = os.pipe(), os.pipe()
    half = RelayEnd(requests[0], frames[1], lambda _: source, KeyError)
    thread = threading.Thread(target=half.run)
    thread.start()
    os.write(requests[1], stream.FIRST_LINE + stream.pack(stream.Open()))
    try:
        yield thread, requests[1], frames[0]
    finally:
        os.close(requests[1])
        os.close(frames[0])
        thread.join()
        os.close(requests[0])
        os.close(frames[1])


def test_answers_and_the_status_follow_the_frames(monkeypatch):
    monkeypatch.setattr(feed, "ANSWER_WITHIN_S", 600.0)
    source, reader, read = Made(), stream.Reader(), []
    with running(source) as (_, requests, frames):
        eventually(lambda: source.polls > 0)
        os.write(requests, stream.pack(stream.RelayedRequest(1, AGENT, wire.Request("capture"))))
        polls = source.polls
        eventually(lambda: source.polls > polls + 3)
        while not any(isinstance(each, stream.Answer) for each in read):
            read += reader.feed(os.read(frames, 1 << 16))
            arrived = sum(isinstance(each, stream.RelayedFrames) for each in read)
            os.write(requests, stream.pack(stream.Alive(arrived)))
        kinds = [type(each) for each in read]
        settled = [isinstance(each, stream.Status) and each.is_settled for each in read]
        last = max(i for i, kind in enumerate(kinds) if kind is stream.RelayedFrames)
        assert sum(len(each.frames) for each in read if isinstance(each, stream.RelayedFrames)) == FRAMES
        assert kinds.index(stream.Answer) > last and not any(settled[:last])


def test_it_ends_when_the_near_half_is_silent(monkeypatch):
    monkeypatch.setattr(relay_end, "LOST_AFTER_S", 0.3)
    source = Made()
    with running(source) as (thread, _, _):
        thread.join(patience.left())
        assert not thread.is_alive() and source.is_closed


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_viewer_that_does_not_say_what_to_follow_is_refused(monkeypatch, is_silent):
    if is_silent:
        monkeypatch.setattr(relay_end, "OPEN_WITHIN_S", 0.2)
    requests, frames = os.pipe(), os.pipe()
    os.write(requests[1], stream.FIRST_LINE + (b"" if is_silent else stream.pack(stream.Alive())))
    RelayEnd(requests[0], frames[1], lambda _: Made(), KeyError).run()
    (refused,) = stream.Reader().feed(os.read(frames[0], 1 << 16))
    assert isinstance(refused, stream.RelayRefused) and "does not say what to follow" in refused.why
    for each in (*requests, *frames):
        os.close(each)


def test_other_bytes_than_a_viewer_sends_are_no_traceback():
    command = [PYTHON, ROOT / "tests" / "programs" / "far.py", "1", "1"]
    done = subprocess.run(command, input=b"x" * (stream.MAX_BEFORE + 1), capture_output=True, check=False)
    assert done.returncode == 0 and not done.stderr and b"bytes of other text" in done.stdout
