"""Recordings that grow: a reader sees all that was flushed, and no damage, while the end is written over."""

from __future__ import annotations

import textwrap

import pytest
from mcap.reader import make_reader

from jaxtop.recording import Recording, Writer
from jaxtop.recording.file import GrowingFile
from tests.made import sessions as made_sessions
from tests.made.sessions import Made
from tests.played.recordings import read
from tests.support import PYTHON, run

FRAMES = made_sessions.frames(Made(hosts=2, devices=4, seconds=40))


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_reader_meets_no_half_of_what_is_being_written(tmp_path, monkeypatch, is_indexed):
    """It looks before and after each single write to the file."""
    writer = Writer(tmp_path / "a.mcap", {}, is_indexed=is_indexed)
    with Recording(tmp_path / "a.mcap") as recording:
        put = GrowingFile._put
        looks = []

        def look():
            recording.refresh()
            assert recording.index.corrupt == 0 and not recording.index.is_finished
            looks.append(len([*recording.frames()]))

        def seen(self, data, at):
            look()
            put(self, data, at)
            look()

        monkeypatch.setattr(GrowingFile, "_put", seen)
        for count, frame in enumerate(FRAMES):
            writer.write(frame)
            if count % 3 == 2:
                writer.flush()
                assert recording.refresh() or looks[-1] == count + 1
                assert [each for _, each in recording.frames()] == FRAMES[: count + 1]
        assert len(set(looks)) > 10
        monkeypatch.undo()
        writer.finish()
        recording.refresh()
        assert recording.index.is_finished and recording.notes == ()


FULL = """
    import resource, sys
    from pathlib import Path
    from jaxtop.recording import Writer
    from tests.recording.test_recordings_growing import FRAMES
    path = Path(sys.argv[1])
    writer = Writer(path, {}, is_indexed=True)
    flushed = 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (34_567, 34_567))
    try:
        for count, frame in enumerate(FRAMES):
            writer.write(frame)
            if count % 5 == 4:
                writer.flush()
                flushed = count + 1
    except OSError as error:
        print(flushed)
    writer.abandon()
"""


def test_a_file_for_which_there_is_no_more_room_stays_as_it_was(tmp_path):
    """Complete up to the last flush, for the public reader, too."""
    path = tmp_path / "a.mcap"
    done = run(PYTHON, "-c", textwrap.dedent(FULL), path)
    assert done.stderr == ""
    assert int(done.stdout) > 10
    assert read(path) == FRAMES[: int(done.stdout)]
    with path.open("rb") as file:
        assert len(list(make_reader(file, validate_crcs=True).iter_messages())) == int(done.stdout)
