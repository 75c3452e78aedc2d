"""Recordings for others: the public MCAP reader validates and reads every file, and so does the README."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

import msgpack
import pytest
from mcap.reader import NonSeekingReader, make_reader
from mcap.stream_reader import StreamReader

from jaxtop import wire
from jaxtop.recordings import Limits, compact, tape
from tests import made_sessions
from tests.made_sessions import Made
from tests.recorded import record, written
from tests.support import ROOT

MADE = Made(hosts=2, devices=4, seconds=60)


def finished(folder):
    written(folder / "a.mcap", made_sessions.frames(MADE), keyframe_every=50).finish()
    return [folder / "a.mcap"]


def compacted(folder):
    (path,) = finished(folder)
    compact(path)
    return [path]


def recorded(folder):
    return record(folder / "a.mcap", MADE).files


def rotated(folder):
    return record(folder / "a.mcap", MADE, limits=Limits(size=20_000)).files


@pytest.mark.parametrize("made", [finished, compacted, recorded, rotated])
def test_the_public_reader_validates_and_reads_every_file(tmp_path, monkeypatch, made):
    """All frames, with their times and bytes; the index that it goes by leads to the same ones."""
    monkeypatch.setattr(tape, "SHORTEST", 0.0)
    seen = []
    for path in made(tmp_path):
        with path.open("rb") as file:
            by_index = list(make_reader(file, validate_crcs=True).iter_messages())
        with path.open("rb") as file:
            in_order = list(NonSeekingReader(file, validate_crcs=True).iter_messages(log_time_order=False))
        with path.open("rb") as file:
            assert len(list(StreamReader(file, validate_crcs=True, emit_chunks=False).records)) > len(
                in_order
            )
        with path.open("rb") as file:
            summary = make_reader(file).get_summary()
        assert summary.statistics.message_count == len(by_index) == len(in_order)
        assert {channel.message_encoding for channel in summary.channels.values()} == {"msgpack"}
        assert sorted(message.data for *_, message in by_index) == sorted(
            message.data for *_, message in in_order
        )
        seen += [(channel, message) for _, channel, message in in_order if "keyframe" not in channel.metadata]
    assert [
        (message.log_time, channel.metadata["agent"], channel.metadata["kind"], message.data)
        for channel, message in seen
    ] == [(wire_time(frame), frame.agent, frame.kind, frame.raw) for frame in made_sessions.frames(MADE)]
    for channel, message in seen:
        assert msgpack.unpackb(message.data) is not None, channel.topic


def wire_time(frame: wire.Frame) -> int:
    from jaxtop.wire.times import to_ns

    return to_ns(frame.at)


def test_the_lines_in_the_readme_run_as_they_are(tmp_path):
    """On a real file, with mcap and msgpack alone; they print what the README says that they print."""
    found = re.search(r"<!-- ten lines -->\n(.*?)<!-- -->", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    lines = textwrap.dedent(found.group(1)).strip("\n")
    assert len(lines.splitlines()) <= 10 and "jaxtop" not in lines
    record(tmp_path / "run.mcap", MADE)
    done = subprocess.run(
        [sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    pulses = [each for each in made_sessions.frames(MADE) if each.kind == "pulse"]
    expected = [
        f"{each.at:.3f} {each.agent} {[*wire.decode('pulse', each.raw).devices.used_bytes]}"
        for each in pulses
    ]
    assert done.stdout.splitlines() == expected and done.stderr == ""
