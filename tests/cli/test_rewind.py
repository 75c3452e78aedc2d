"""The rewind buffer is bounded, says so, and what it holds is what was seen."""

from __future__ import annotations

import tempfile
from contextlib import closing

import pytest

from jaxtop.cli.errors import UserError
from jaxtop.cli.live import rewind
from jaxtop.cli.live.rewind import FILES, RewindBuffer, size_of
from jaxtop.model import Cluster
from tests.builders import folded
from tests.made import sessions as made_sessions
from tests.made.sessions import Made

MADE = Made(hosts=4, devices=2, seconds=120, arrays=6)


@pytest.fixture
def batches():
    return list(made_sessions.batches(MADE))


def state_without_windows(cluster: Cluster) -> list[object]:
    """What is known apart from the windows of the profiler, of which a file has those since it was begun."""
    fields = ("hello", "pulse", "arrays", "programs", "link", "launches", "heard_at", "steps")
    hosts = [(agent, *(getattr(host, name) for name in fields)) for agent, host in cluster.hosts.items()]
    return [sorted(hosts, key=lambda each: each[0]), cluster.past_pulses, cluster.past_arrays]


def filled(batches, most_bytes: int) -> RewindBuffer:
    """A buffer that was just given a session, at the pace of the disk."""
    buffer, cluster = RewindBuffer(most_bytes), Cluster()
    for batch in batches:
        give(buffer, cluster, batch)
    return buffer


def give(buffer: RewindBuffer, cluster: Cluster, batch) -> None:
    for frame in batch:
        cluster.feed(frame)
    buffer.take(batch, cluster, batch[-1].at)
    if buffer._files:
        buffer._files[-1].recorder.writer.sync()


def refresh(buffer: RewindBuffer) -> None:
    """Look at the files as the buffer does half a second later."""
    for each in buffer._files:
        each.session.refresh()


def test_it_holds_the_last_part_of_the_session_in_so_many_bytes_at_most():
    """A jump shows its very moment, also one amid frames that the app took together."""
    batches, most = list(made_sessions.batches(MADE, together=5)), 100_000
    frames = [frame for batch in batches for frame in batch]
    buffer = filled(batches, most)
    refresh(buffer)
    try:
        taken = [each.recorder.writer.size for each in buffer._files]
        assert len(taken) == FILES and sum(taken) < 1.25 * most
        (note,) = buffer.notes
        assert "older history was dropped" in note and "97.7 KiB" in note
        first, last = buffer.span
        assert batches[0][0].at < first < last == pytest.approx(batches[-1][-1].at)
        when = sorted({frame.at for frame in frames if frame.at >= first})
        for at in (*when[::-90], *when[::70]):  # from one file to another, and back
            assert state_without_windows(buffer.at(at)) == state_without_windows(folded(frames, at))
        overview = buffer.overview
        assert overview.bins == tuple(sorted(overview.bins)) and overview is buffer.overview
    finally:
        buffer.close()


def test_a_jump_shows_its_very_moment_also_when_a_file_was_just_begun():
    batches, frames, cluster = made_sessions.batches(MADE, together=5), [], Cluster()
    with closing(RewindBuffer(200_000)) as buffer:
        while len(buffer._files) == 1:
            frames += (batch := next(batches))
            give(buffer, cluster, batch)
        frames += (later := next(batches))
        give(buffer, cluster, later)
        for frame in (*batch, *later):
            assert state_without_windows(buffer.at(frame.at)) == state_without_windows(
                folded(frames, frame.at)
            )
        refresh(buffer)
        assert buffer.overview.events == tuple(cluster.events_after(None))


def test_a_session_that_fits_is_kept_whole_and_leaves_no_file(tmp_path, monkeypatch, batches):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    buffer = filled(batches[:30], size_of(None))
    refresh(buffer)
    assert list(tmp_path.iterdir()) == []
    assert buffer.notes == () and buffer.span[0] == pytest.approx(batches[0][0].at)
    buffer.close()


def test_where_nothing_can_be_written_it_says_so(monkeypatch, batches):
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    buffer = filled(batches[:0], size_of(None))
    assert buffer.span is None and "no rewind buffer" in buffer.notes[0]
    buffer.take(batches[0], Cluster(), 0.0)
    buffer.close()


def test_its_size_can_be_set(monkeypatch):
    assert size_of(None) == 256 << 20
    monkeypatch.setenv(rewind.VARIABLE, "1G")
    assert (size_of(None), size_of("64M")) == (1 << 30, 64 << 20)
    monkeypatch.setenv(rewind.VARIABLE, "much")
    with pytest.raises(UserError, match=r"JAXTOP_REWIND: much is not a size"):
        size_of(None)
    with pytest.raises(UserError, match=r"--rewind: 1k is not a size"):
        size_of("1k")
