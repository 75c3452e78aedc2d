"""The rewind buffer is bounded, says so, and what it holds is what was seen."""

from __future__ import annotations

import tempfile
from itertools import pairwise

import pytest

from jaxtop.cli import rewind
from jaxtop.cli.errors import UserError
from jaxtop.cli.rewind import FILES, USUAL_SIZE, RewindBuffer, size_of
from jaxtop.model import Cluster
from tests import made_sessions
from tests.made_sessions import Made

MADE = Made(hosts=4, devices=2, seconds=120, arrays=6)


@pytest.fixture
def batches():
    return list(made_sessions.batches(MADE))


def told(cluster: Cluster) -> list[object]:
    """What is known apart from the windows of the profiler, of which a file has those since it was begun."""
    fields = ("hello", "pulse", "arrays", "programs", "link", "launches", "heard_at", "steps")
    hosts = [(agent, *(getattr(host, name) for name in fields)) for agent, host in cluster.hosts.items()]
    return [sorted(hosts, key=lambda each: each[0]), cluster.history, cluster.past_arrays]


def filled(batches, most_bytes: int) -> RewindBuffer:
    """A buffer that was given a session, at the pace of the disk."""
    buffer, cluster = RewindBuffer(most_bytes), Cluster()
    for batch in batches:
        for frame in batch:
            cluster.feed(frame)
        buffer.take(batch, cluster, batch[-1].at)
        if buffer._files:
            buffer._files[-1].recorder.writer.sync()
    for each in buffer._files:
        each.session.refresh()  # as a second later
    return buffer


def between(batches, when: float) -> float:
    """Return a time after this one at which no batch is under way: a new file begins between two batches."""
    ends = [(one[-1].at + next_one[0].at) / 2 for one, next_one in pairwise(batches)]
    return next((each for each in ends if each >= when), when + 1)


def test_it_holds_the_last_part_of_the_session_in_so_many_bytes_at_most(batches):
    most = 100_000
    buffer = filled(batches, most)
    try:
        taken = [each.recorder.writer.size for each in buffer._files]
        assert len(taken) == FILES and sum(taken) < 1.25 * most
        (note,) = buffer.notes
        assert "older history was dropped" in note and "100 kB" in note
        first, last = buffer.span
        assert batches[0][0].at < first < last == pytest.approx(batches[-1][-1].at)
        for part in (0.95, 0.1, 0.5, 0.3, 1.0, 0.0):  # from one file to another, and back
            when = between(batches, first + part * (last - first))
            expected = Cluster()
            for batch in batches:
                for frame in batch:
                    if frame.at <= when:
                        expected.feed(frame)
            assert told(buffer.at(when)) == told(expected)
        overview = buffer.overview
        assert overview.bins == tuple(sorted(overview.bins)) and overview is buffer.overview
    finally:
        buffer.close()


def test_a_session_that_fits_is_kept_whole_and_leaves_no_file(tmp_path, monkeypatch, batches):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    buffer = filled(batches[:30], USUAL_SIZE)
    assert list(tmp_path.iterdir()) == []
    assert buffer.notes == () and buffer.span[0] == pytest.approx(batches[0][0].at)
    buffer.close()


def test_where_nothing_can_be_written_it_says_so(monkeypatch, batches):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    buffer = filled(batches[:0], USUAL_SIZE)
    assert buffer.span is None and "no rewind buffer" in buffer.notes[0]
    buffer.take(batches[0], Cluster(), 0.0)
    buffer.close()


def test_its_size_can_be_set(monkeypatch):
    assert size_of(None) == USUAL_SIZE == 256_000_000
    monkeypatch.setenv(rewind.VARIABLE, "1G")
    assert (size_of(None), size_of("64M")) == (10**9, 64_000_000)
    monkeypatch.setenv(rewind.VARIABLE, "much")
    with pytest.raises(UserError, match=r"JAXTOP_REWIND: much is not a size"):
        size_of(None)
    with pytest.raises(UserError, match=r"--rewind: 1k is not a size"):
        size_of("1k")
