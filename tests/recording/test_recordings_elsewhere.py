"""Recordings for others: the public MCAP reader validates and reads every file, as the documentation says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from functools import cache
from hashlib import sha256

import msgpack
import pytest
from jsonschema import Draft202012Validator, validators
from mcap.reader import NonSeekingReader, make_reader
from mcap.stream_reader import StreamReader

from jaxtop import wire
from jaxtop.export import mcap_json
from jaxtop.recording import Recording, RecordingLimits, Writer, compact, thread
from tests.made import sessions as made_sessions
from tests.made.sessions import Made
from tests.played.recordings import record, session_of, writing, written
from tests.support import ROOT

MADE = Made(hosts=2, devices=4, seconds=60)


def black_box(folder):
    """As an agent writes it, finished."""
    with writing(folder / "a.mcap", compacts=False) as writer:
        writer.write(made_sessions.frames(MADE))
    return writer.files


def killed(folder):
    """A black box of a process that was killed."""
    written(folder / "a.mcap", made_sessions.frames(MADE), keyframe_every=50, is_indexed=True).abandon()
    return [folder / "a.mcap"]


def growing(folder):
    """What `jaxtop record` has on the disk until it ends."""
    written(folder / "a.mcap", made_sessions.frames(MADE), keyframe_every=50).abandon()
    return [folder / "a.mcap"]


def finished(folder):
    """The same, where there was no room to write it anew."""
    written(folder / "a.mcap", made_sessions.frames(MADE), keyframe_every=50).finish()
    return [folder / "a.mcap"]


def compacted(folder):
    (path,) = finished(folder)
    compact(path)
    return [path]


def recorded(folder):
    return record(folder / "a.mcap", MADE).files


def rotated(folder):
    return record(folder / "a.mcap", MADE, limits=RecordingLimits(size=20_000)).files


INDEXED = [black_box, killed, compacted, recorded, rotated]
UNINDEXED = [growing, finished]


@pytest.mark.parametrize("made", [*INDEXED, *UNINDEXED])
def test_the_public_reader_validates_and_reads_every_file(tmp_path, monkeypatch, made):
    """All frames, with their times and bytes; the index that it goes by leads to the same ones."""
    monkeypatch.setattr(thread, "MIN_FILE_SECONDS", 0.0)
    seen = []
    for path in made(tmp_path):
        by_index, in_order, summary = read_by_python(path)
        assert (summary is not None) == (made in INDEXED)
        if summary is not None:
            assert summary.statistics.message_count == len(by_index)
            assert {channel.message_encoding for channel in summary.channels.values()} == {"msgpack"}
            assert summary.statistics.schema_count == len(summary.schemas)
        for found in (by_index, in_order):
            assert_explained(found)
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


def assert_explained(found):
    """The schema of each channel is there, and its first messages are valid by it."""
    seen: Counter[str] = Counter()
    for schema, channel, message in found:
        kind = "keyframe" if "keyframe" in channel.metadata else channel.metadata["kind"]
        assert (schema.name, schema.encoding) == (f"jaxtop.{kind}", "jsonschema")
        seen[kind] += 1
        if seen[kind] <= 3:
            validator(schema.data).validate(msgpack.unpackb(message.data))


@cache
def validator(content):
    schema = json.loads(content)
    Draft202012Validator.check_schema(schema)
    # MessagePack has bytes, and JSON's base64 is a string: the public validator knows only the latter.
    binary = Draft202012Validator.TYPE_CHECKER.redefine(
        "string", lambda _, value: isinstance(value, str | bytes)
    )
    return validators.extend(Draft202012Validator, type_checker=binary)(schema)


def read_by_python(path):
    """The messages by the index, those in the order of the file, and the summary."""
    with path.open("rb") as file:
        by_index = list(make_reader(file, validate_crcs=True).iter_messages())
    with path.open("rb") as file:
        in_order = list(NonSeekingReader(file, validate_crcs=True).iter_messages(log_time_order=False))
    with path.open("rb") as file:
        assert len(list(StreamReader(file, validate_crcs=True, emit_chunks=False).records)) > len(in_order)
    with path.open("rb") as file:
        return by_index, in_order, make_reader(file).get_summary()


def moments(folder, *, is_indexed):
    """A file after each of its first flushes, and how many messages were flushed then."""
    frames = made_sessions.frames(MADE)[:40]
    writer = Writer(folder / "growing", {}, is_indexed=is_indexed)
    found = []
    for count, frame in enumerate(frames):
        if count % 4 == 0:
            writer.flush()
            moment = folder / f"{count:02}.mcap"
            moment.write_bytes((folder / "growing").read_bytes())
            found.append((moment, count))
        writer.write(frame)
    writer.abandon()
    return found


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_growing_file_is_complete_at_any_time(tmp_path, is_indexed):
    for path, count in moments(tmp_path, is_indexed=is_indexed):
        by_index, in_order, summary = read_by_python(path)
        assert len(by_index) == len(in_order) == count
        assert (summary is not None) == is_indexed
        with Recording(path) as recording:
            assert not recording.index.is_finished and recording.index.corrupt == 0


NODE = shutil.which("node")
HAS_READER = (
    NODE
    and not subprocess.run(
        [NODE, "-e", "require('@mcap/core'); require('fzstd')"], capture_output=True, check=False
    ).returncode
)


@pytest.mark.skipif(not HAS_READER, reason="needs node, with @mcap/core and fzstd: `make test-node`")
def test_the_public_typescript_readers_read_every_file(tmp_path, monkeypatch):
    """By index and as a stream; a recording that is being written has no index, and says so."""
    monkeypatch.setattr(thread, "MIN_FILE_SECONDS", 0.0)
    files = {}
    for made in (*INDEXED, *UNINDEXED):
        (tmp_path / made.__name__).mkdir()
        files |= dict.fromkeys(made(tmp_path / made.__name__), made in INDEXED)
    with session_of(next(iter(files))) as session:
        mcap_json.write(session, tmp_path / "foxglove.mcap")
    files[tmp_path / "foxglove.mcap"] = True
    for is_indexed in (True, False):
        (folder := tmp_path / str(is_indexed)).mkdir()
        files |= {path: is_indexed for path, _ in moments(folder, is_indexed=is_indexed)}
    done = subprocess.run(
        [NODE, ROOT / "tests/programs/read_mcap.cjs", *files], capture_output=True, text=True, check=True
    )
    for (path, is_indexed), line in zip(files.items(), done.stdout.splitlines(), strict=True):
        expected = [
            [
                str(message.log_time),
                sha256(message.data).hexdigest(),
                channel.message_encoding,
                schema.name,
                sha256(schema.data).hexdigest(),
            ]
            for schema, channel, message in read_by_python(path)[1]
        ]
        streamed, by_index = json.loads(line)
        assert streamed == expected, path
        if is_indexed:
            assert sorted(by_index) == sorted(expected), path
        else:
            assert "not indexed" in by_index


def wire_time(frame: wire.Frame) -> int:
    from jaxtop.wire.bounds import to_ns

    return to_ns(frame.at)


def test_the_lines_in_the_documentation_run_as_they_are(tmp_path):
    """On a real file, with mcap and msgpack alone; they print what the page says."""
    found = re.search(
        r"<!-- ten lines -->\n(.*?)<!-- -->", (ROOT / "docs/recordings.md").read_text(), re.DOTALL
    )
    assert found is not None
    lines = textwrap.dedent(found.group(1)).strip("\n")
    assert len(lines.splitlines()) <= 10 and "jaxtop" not in lines
    record(tmp_path / "run.mcap", MADE)
    done = subprocess.run(
        [sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    pulses = [each for each in made_sessions.frames(MADE) if each.kind == "pulse"]
    expected = [
        f"{each.at:.3f} {each.agent} {[*wire.decode('pulse', each.raw).devices.used_bytes]}"
        for each in pulses
    ]
    assert done.stdout.splitlines() == expected and done.stderr == ""
