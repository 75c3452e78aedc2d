"""The writer of recordings: it never waits for the disk, and what it has written can be read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jaxtop.recording import Recording, RecordingLimits, RecordingWriter, thread
from tests import builders, patience
from tests.made import sessions as made_sessions
from tests.made.sessions import Made
from tests.played.recordings import (
    ABOUT,
    assert_equal,
    by_time,
    read,
    record,
    record_batches,
    session_of,
    writing,
)
from tests.support import eventually

MADE = Made(hosts=2, devices=8, seconds=60)


@pytest.fixture
def frames():
    return made_sessions.frames(MADE)


def test_a_file_is_followed_while_it_is_written(tmp_path):
    """All that was synced is there, at once; and it goes on growing until it is finished."""
    path = tmp_path / "a.mcap"
    with writing(path, flush_every=0.1) as written:
        first, *batches = made_sessions.batches(MADE)
        written.write(first)
        written.sync(60)
        frames = [*first]
        with session_of(path) as session:
            for batch in batches:
                frames += batch
                written.write(batch)
                written.sync(60)
                session.refresh()
                told = frames
                start, end = session.span
                # More may come of what came last: it ends just before that.
                assert session.is_growing and start == frames[0].at and 0 < told[-1].at - end < 1e-5
                assert list(session.frames()) == told
                assert_equal(session.at(told[-1].at), builders.folded(frames, told[-1].at), told[-1].at)
            assert session.notes == ()
    assert read(path) == frames


def test_what_was_given_is_in_the_file_before_long_also_if_nothing_follows(tmp_path, frames):
    path = tmp_path / "a.mcap"
    with writing(path, flush_every=0.2) as written:
        for i in range(0, 40, 2):
            written.write(frames[i : i + 2])
            eventually(lambda many=i + 2: read(path) == frames[:many], every=0.02)


def test_a_chunk_that_is_open_is_closed_on_time(tmp_path, frames, monkeypatch):
    """So many frames that they are taken at once, again and again, must not put it off."""
    monkeypatch.setattr(thread, "BATCH_BYTES", 0)
    asked = []

    class WakeEvent(threading.Event):
        def wait(self, timeout=None):
            asked.append(timeout)
            return super().wait(timeout)

    written = RecordingWriter(tmp_path / "a.mcap", ABOUT, flush_every=30.0)
    written._wakeup = WakeEvent()
    written.start()
    written.sync()
    written.write(frames[:3])
    eventually(lambda: asked[-1] < 30.0, every=0.02)
    written.write(frames[3:6])
    eventually(lambda: asked[-1] < asked[-2] < 30.0, every=0.02)
    assert written.finish(patience.left())


def test_a_killed_writer_loses_what_came_since_the_last_flush_alone(tmp_path):
    """A process that records is killed; its file has all up to then, and no more is missing."""
    path = tmp_path / "a.mcap"
    program = (
        "import sys, time, pathlib\n"
        "from jaxtop.recording import RecordingWriter\n"
        "from tests.made import sessions\n"
        "writer = RecordingWriter(pathlib.Path(sys.argv[1]), {'writer': 'w1'}); writer.start()\n"
        "frames = sessions.frames(sessions.Made(seconds=30))\n"
        "writer.write(frames[:50]); writer.sync(60); writer.write(frames[50:])\n"
        "print('written', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "written\n"
        process.kill()
    found, frames = read(path), made_sessions.frames(Made(seconds=30))
    assert len(found) >= 50 and found == frames[: len(found)]


def test_threads_that_give_and_take_do_not_lose_count(tmp_path, frames):
    """Else a long recording would end one day because of bytes that nobody waits for."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with writing(tmp_path / "a.mcap") as written:
            for _ in range(30):
                written.write(frames)
            written.sync(60)
            eventually(lambda: written._given == written._taken)
    finally:
        sys.setswitchinterval(before)


# Disks that fail


@pytest.fixture
def small_disk(tmp_path):
    """A file system with room for 1 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("nobody but root can make a small file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(written, frames):
    """Give frames until the writer has had enough; it must not raise, and never wait."""
    end = patience.deadline()
    while not written.is_over and end.left() > 0:
        written.write(frames)
        time.sleep(0.01)
    assert written.failure is not None and "\n" not in written.failure
    written.write(frames)
    assert written.finish(patience.left())


def test_a_full_disk_ends_the_recording_and_leaves_what_it_had(small_disk, frames, monkeypatch):
    monkeypatch.setattr(thread, "LEAST_FREE", 0)
    with writing(small_disk / "a.mcap", flush_every=0.05) as written:
        fill(written, frames)
    assert written.failure == "no space left on device"
    assert len(read(small_disk / "a.mcap")) > 100
    with session_of(small_disk / "a.mcap") as session:
        assert session.at(session.span[1]).hosts


def test_a_disk_that_is_nearly_full_is_left_to_the_run(small_disk, frames):
    with writing(small_disk / "a.mcap") as written:
        fill(written, frames)
    assert written.failure is not None and "MiB free; 64 MiB stay for the run" in written.failure
    assert sum(each.stat().st_size for each in small_disk.iterdir()) < 1 << 19


@pytest.mark.parametrize(("least_free", "is_rewritten"), [(0, True), (700_000, False)])
def test_a_file_is_rewritten_only_where_the_run_keeps_its_room(
    small_disk, frames, monkeypatch, least_free, is_rewritten
):
    monkeypatch.setattr(thread, "LEAST_FREE", least_free)
    path = small_disk / "a.mcap"
    with writing(path) as written:
        written.write([frames[0]._replace(raw=os.urandom(200_000))])
        written.sync(60)
        before = path.stat()
    assert (path.stat().st_ino != before.st_ino) is is_rewritten
    assert written.failure is None and len(read(path)) == 1


def test_a_folder_that_vanishes_ends_the_recording(tmp_path, frames, monkeypatch):
    monkeypatch.setattr(thread, "LOOK_AT_DISK_EVERY", 0.05)
    (tmp_path / "gone").mkdir()
    with writing(tmp_path / "gone" / "a.mcap", flush_every=0.05) as written:
        written.write(frames)
        written.sync(60)
        shutil.rmtree(tmp_path / "gone")
        fill(written, frames[:1])
    assert written.failure == "no such file or directory"


def test_a_folder_that_is_not_there_is_said(tmp_path, frames):
    with writing(tmp_path / "nowhere" / "a.mcap") as written:
        fill(written, frames)
    assert written.failure == "no such file or directory"


def test_a_file_system_that_counts_no_space_is_not_full():
    with writing(Path("/proc/a.mcap")) as written:
        pass
    assert written.failure == "no such file or directory"


def test_nothing_is_written_over(tmp_path, frames):
    (tmp_path / "a.mcap").write_text("mine")
    with writing(tmp_path / "a.mcap") as written:
        fill(written, frames)
    assert written.failure == "file exists" and (tmp_path / "a.mcap").read_text() == "mine"


def test_a_disk_that_does_not_answer_keeps_nobody_waiting(tmp_path, frames, monkeypatch):
    """What waits to be written is bounded; then the recording is over, also for who wants to end it."""
    answers, real = threading.Event(), os.pwrite

    def stuck(fd, data, at):
        answers.wait(patience.left())
        return real(fd, data, at)

    written = RecordingWriter(tmp_path / "a.mcap", ABOUT, RecordingLimits(waiting=1 << 20), flush_every=0.05)
    written.start()
    written.write(frames)
    written.sync(60)
    monkeypatch.setattr(os, "pwrite", stuck)
    try:
        while not written.is_over:
            written.write(frames)
            assert written.size > 0
        assert written.failure == "the disk is too slow: 1.0 MiB were waiting to be written"
        written.write(frames)
        assert not written.finish()
        assert not written._queue
    finally:
        answers.set()
    assert written._done.wait(patience.left())
    found = read(tmp_path / "a.mcap")
    assert found[: len(frames)] == frames


def test_no_room_to_write_it_anew_is_no_loss(tmp_path, frames, monkeypatch):
    def no_room(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(thread, "compact", no_room)
    with writing(tmp_path / "a.mcap") as written:
        written.write(frames)
    assert written.failure is None
    assert read(tmp_path / "a.mcap") == frames


# Files that are kept


def test_files_of_a_size_open_alone_and_are_one_session_together(tmp_path, monkeypatch):
    """Nobody is late here: a verdict wants several windows, of which a new file has but the last."""
    monkeypatch.setattr(thread, "MIN_FILE_SECONDS", 0.0)
    made = MADE._replace(has_trouble=False, seconds=90)
    frames = made_sessions.frames(made)
    done = record(tmp_path / "a.mcap", made, limits=RecordingLimits(size=30_000), flush_every=0, together=5)
    assert len(done.files) > 3 and {*done.files} == {*tmp_path.iterdir()}
    assert [frame for path in done.files for frame in read(path)] == frames
    for path in done.files:
        with session_of(path) as session:
            begun, end = session.span
            for at in (begun, *(frame.at for frame in read(path)[1:9]), (begun + end) / 2, end):
                session._at = None
                assert_equal(session.at(at), builders.folded(frames, at), at)
    with session_of(*reversed(done.files)) as session:
        assert len(session._tracks) == 1
        assert session.span == (frames[0].at, frames[-1].at)
        assert list(session.frames()) == frames
        for i in range(0, len(frames), 37):
            assert_equal(session.at(frames[i].at), builders.folded(frames, frames[i].at), frames[i].at)


def test_a_number_that_is_taken_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(thread, "MIN_FILE_SECONDS", 0.0)
    (tmp_path / "a-002.mcap").write_text("mine")
    done = record(tmp_path / "a.mcap", MADE, limits=RecordingLimits(size=21_000), flush_every=0)
    assert [each.name for each in done.files[:2]] == ["a.mcap", "a-003.mcap"] and done.failure is None
    assert (tmp_path / "a-002.mcap").read_text() == "mine"


def test_the_oldest_files_go(tmp_path, frames, monkeypatch):
    monkeypatch.setattr(thread, "MIN_FILE_SECONDS", 0.0)
    done = record(tmp_path / "a.mcap", MADE, limits=RecordingLimits(size=21_000, files=2), flush_every=0)
    kept = sorted(tmp_path.iterdir())
    assert [*done.files] == kept and len(kept) == 2 and kept[-1].name > "a-003.mcap"
    assert done.size == sum(path.stat().st_size for path in kept)
    with session_of(*kept) as session:
        found = list(session.frames())
        assert found == frames[-len(found) :]
        assert_equal(session.at(frames[-1].at), builders.folded(frames, frames[-1].at), frames[-1].at)


def test_a_file_is_begun_with_what_was_known_before(tmp_path, frames):
    """Who starts to record in the middle of a session has all of it from the first moment on."""
    middle = next(i for i in range(len(frames) // 2, len(frames)) if frames[i].at > frames[i - 1].at)
    cluster = builders.folded(frames[:middle])
    record_batches(tmp_path / "a.mcap", by_time(frames[middle:]), cluster)
    with session_of(tmp_path / "a.mcap") as session, Recording(tmp_path / "a.mcap") as recording:
        assert recording.index.keyframes[0].at / 1e9 == pytest.approx(frames[middle].at)
        for frame in frames[middle::19]:
            session._at = None
            assert_equal(session.at(frame.at), builders.folded(frames, frame.at), frame.at)
