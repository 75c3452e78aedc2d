"""Recordings that were cut off or damaged: what is left of them is shown, and said to be so in one line."""

from __future__ import annotations

import os
import random
import struct
import time
import tracemalloc
import zlib
from functools import partial

import pytest
import zstandard
from mcap.writer import Writer as McapWriter

from jaxtop import wire
from jaxtop.recording import NotARecording, Recording, compact, index, layout
from tests.made import sessions as made_sessions
from tests.made.sessions import Made
from tests.played.recordings import read, session_of, written
from tests.support import SOAK, jaxtop

pytestmark = pytest.mark.long

CUTS, HARMS, EVERY = (3_000, 3_000, 1) if SOAK else (100, 40, 7)
TINY = 8
MAGIC = b"\x89MCAP0\r\n"


def made(path, seconds, form):
    """A file that is still written to, is finished, or was written anew."""
    frames = made_sessions.frames(Made(seconds=seconds, arrays=5))
    if seconds == TINY:
        frames = [each for each in frames if each.kind == "pulse"][-11:]
    writer = written(path, frames, keyframe_every=0 if seconds == TINY else 40)
    if form != "unfinished":
        writer.finish()
    else:
        writer.abandon()
    if form == "compacted":
        compact(path)
    return path.read_bytes(), frames


def places(path):
    """Of each chunk with frames: where it begins and ends, and its frames."""
    found = []
    with Recording(path) as recording, path.open("rb") as file:
        for chunk in recording.index.chunks:
            file.seek(chunk.offset + 1)
            (length,) = struct.unpack("<Q", file.read(8))
            frames = [frame for _, channel, frame in recording._messages(chunk) if not channel.is_keyframe]
            found.append((chunk.offset, chunk.offset + 9 + length, frames))
    return found


def opened(path, content):
    """The frames and the notes of a file with these bytes; it may be none, in one line."""
    path.write_bytes(content)
    refused = ""
    try:
        with Recording(path) as recording:
            frames = [frame for _, frame in recording.frames()]
            notes = recording.notes
    except NotARecording as error:
        refused = str(error)
    if refused:
        frames, notes = [], (refused,)
    assert not any("\n" in note for note in notes)
    return frames, notes


# Cut off


@pytest.mark.parametrize("form", ["unfinished", "finished", "compacted"])
def test_a_file_cut_anywhere_opens_with_all_that_is_complete(tmp_path, form):
    """At every byte of a small file in the long run; at every seventh one here."""
    check_cuts(tmp_path, form, seconds=TINY, cuts=None)


@pytest.mark.parametrize("form", ["unfinished", "compacted"])
def test_a_larger_file_cut_anywhere_opens_with_all_that_is_complete(tmp_path, form):
    check_cuts(tmp_path, form, seconds=120, cuts=CUTS)


def check_cuts(folder, form, seconds, cuts):
    whole, frames = made(folder / "a.mcap", seconds, form)
    chunks = places(folder / "a.mcap")
    assert [frame for *_, told in chunks for frame in told] == frames
    dice = random.Random(cuts)
    for cut in range(0, len(whole), EVERY) if cuts is None else sorted(dice.sample(range(len(whole)), cuts)):
        found, notes = opened(folder / "cut.mcap", whole[:cut])
        complete = [frame for _, end, told in chunks if end <= cut for frame in told]
        assert found == complete, f"cut at {cut} of {len(whole)}"
        assert not any("corrupt" in note for note in notes), f"cut at {cut}: {notes}"
        if len(found) < len(frames):
            assert any("was not finished" in note for note in notes)


def test_a_session_opens_wherever_its_file_was_cut(tmp_path):
    """And shows its last moment, its overview and what it has to say of itself."""
    whole, frames = made(tmp_path / "a.mcap", 60, "unfinished")
    dice = random.Random(4)
    for cut in [9, 200, *(dice.randrange(len(whole)) for _ in range(30))]:
        (tmp_path / "cut.mcap").write_bytes(whole[:cut])
        with session_of(tmp_path / "cut.mcap") as session:
            if session.span is not None:
                session.at(session.span[1])
                session.overview  # noqa: B018 - it is made as it is asked for
            assert len(list(session.frames())) <= len(frames)


# Damaged


def flipped(dice, content, at):
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 3))):
        changed[min(at + dice.randrange(4), len(content) - 1)] ^= 1 << dice.randrange(8)
    return bytes(changed), (at, at + 4)


def zeroed(dice, content, at):
    count = dice.choice((1, 8, 100, 3_000))
    rest = content[at + count :]
    return content[:at] + bytes(len(content) - at - len(rest)) + rest, (at, at + count)


def scrambled(dice, content, at):
    count = dice.choice((4, 64, 2_000))
    return content[:at] + dice.randbytes(count) + content[at + count :], (at, at + count)


def inserted(dice, content, at):
    return content[:at] + dice.randbytes(dice.choice((1, 7, 500))) + content[at:], (at, at + 1)


def removed(dice, content, at):
    count = dice.choice((1, 9, 700))
    return content[:at] + content[at + count :], (at, at + count)


@pytest.mark.parametrize("form", ["unfinished", "compacted"])
@pytest.mark.parametrize("harm", [flipped, zeroed, scrambled, inserted, removed])
def test_damage_costs_no_more_than_the_chunks_that_it_touches(tmp_path, harm, form):
    """Nothing is shown that was not written; and where something is missing, a line says so."""
    whole, frames = made(tmp_path / "a.mcap", 60, form)
    chunks, known = places(tmp_path / "a.mcap"), set(frames)
    dice = random.Random(f"{harm.__name__} {form}")
    for _ in range(HARMS):
        at = dice.choice((dice.randrange(8, len(whole)), dice.choice(chunks)[0] + dice.randrange(50)))
        content, (start, end) = harm(dice, whole, at)
        found, notes = opened(tmp_path / "harmed.mcap", content)
        where = f"{harm.__name__} at {at} of {len(whole)}: {notes}"
        assert set(found) <= known, where
        left = [frame for first, last, told in chunks if last <= start or first >= end for frame in told]
        assert set(left) <= set(found), where
        assert [frame for frame in frames if frame in set(found)] == found, where
        if len(found) < len(frames):
            assert any("corrupt" in note or "not finished" in note for note in notes), where


def test_a_damaged_session_can_be_watched(tmp_path):
    """Any moment, the overview, going back and forth: whatever was damaged, there is no exception."""
    whole, _ = made(tmp_path / "a.mcap", 60, "unfinished")
    dice = random.Random(6)
    for _ in range(HARMS // 4):
        content = whole
        for harm in dice.sample((flipped, zeroed, scrambled, inserted, removed), 2):
            content, _ = harm(dice, content, dice.randrange(8, len(content)))
        (tmp_path / "harmed.mcap").write_bytes(content)
        with session_of(tmp_path / "harmed.mcap") as session:
            span = session.span
            if span is None:
                continue
            assert span[1] - span[0] < 100
            for _ in range(3):
                session.at(dice.uniform(*span))
            session.overview  # noqa: B018 - it is made as it is asked for
            assert all("\n" not in note for note in session.notes)


def test_damage_of_the_index_is_no_loss(tmp_path):
    """A finished file is opened by its index; without it the file is read as an unfinished one."""
    whole, frames = made(tmp_path / "a.mcap", 30, "compacted")
    at = whole.index(layout.INDEX.encode())
    found, notes = opened(tmp_path / "b.mcap", whole[: at + 40] + b"\xff" + whole[at + 41 :])
    assert (found, notes) == (frames, ())


def test_damage_of_the_header_is_no_loss(tmp_path):
    """Whose file it is stands there; but what is in it tells that, too."""
    whole, frames = made(tmp_path / "a.mcap", 30, "unfinished")
    at = whole.index(b"jaxtop")
    assert opened(tmp_path / "b.mcap", whole[:at] + b"kaxtop" + whole[at + 6 :])[0] == frames


# Hostile


def record_of(code, body, length=None):
    return struct.pack("<BQ", code, len(body) if length is None else length) + body


def chunk_of(packed, unpacked, length=None):
    body = struct.pack("<QQQII", 1, 2, unpacked, 7, 4) + b"zstd" + struct.pack("<Q", len(packed))
    return record_of(6, body + packed, length)


def message_of(raw, length=None, channel=1):
    return record_of(5, struct.pack("<HIQQ", channel, 1, 1, 1) + raw, length)


def bomb(unpacked):
    return chunk_of(zstandard.compress(bytes(200 << 20)), unpacked)


# Large ones are functions, so that only the test that needs one makes it.
HUGE = (1 << 62, (1 << 64) - 1, 1 << 40)
HOSTILE = {
    **{f"a chunk of {size} bytes": chunk_of(b"x" * 100, 100, length=size) for size in HUGE},
    **{f"a chunk that unpacks to {size} bytes": chunk_of(b"x" * 100, size) for size in HUGE},
    "a chunk that unpacks to more than it says": partial(bomb, 1_000),
    "a chunk that unpacks to 200 MB": partial(bomb, 200 << 20),
    **{
        f"a message of {size} bytes": chunk_of(zstandard.compress(message_of(b"abc", size)), 34)
        for size in HUGE
    },
    "messages without an end": chunk_of(zstandard.compress(b"\x05" * 5_000), 5_000),
    **{f"metadata of {size} bytes": record_of(12, struct.pack("<I", 7) + b"jaxtop.", size) for size in HUGE},
    "metadata with a long word": record_of(12, struct.pack("<I", 0xFFFFFFFF) + b"jaxtop"),
    "records of nothing": record_of(8, b"") * 10_000,
    "chunks that begin like chunks": (chunk_of(b"x" * 50, 50, length=10)[:60]) * 2_000,
    "a footer that points anywhere": record_of(2, struct.pack("<QQI", 1 << 63, 1 << 63, 0)) + MAGIC,
    "a footer that points to the start": record_of(2, struct.pack("<QQI", 8, 8, 0)) + MAGIC,
}


def made_now(harm):
    return harm() if callable(harm) else harm


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_bytes_neither_eat_memory_nor_time(tmp_path, what):
    harm = made_now(HOSTILE[what])
    frames = made_sessions.frames(Made(seconds=5, arrays=2))
    writer = written(tmp_path / "a.mcap", frames)
    writer.abandon()
    content = (tmp_path / "a.mcap").read_bytes()
    tracemalloc.start()
    started = time.process_time()
    found, _ = opened(tmp_path / "b.mcap", content + harm + content[8:])
    taken = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found[: len(frames)] == frames
    assert peak < 100 << 20 and taken < 20  # of CPU: it comes to an end


def test_an_index_that_claims_anything_is_not_believed(tmp_path):
    """A footer that leads to an attachment of any length, anywhere."""
    whole, frames = made(tmp_path / "a.mcap", 5, "compacted")
    tail = struct.unpack_from("<QQI", whole, len(whole) - 28)
    groups = tail[1]
    dice = random.Random(2)
    for _ in range(500):
        content = bytearray(whole)
        at = dice.choice(
            (groups + dice.randrange(len(whole) - groups), tail[0] + dice.randrange(groups - tail[0]))
        )
        value = dice.choice((*HUGE, len(whole), len(whole) - 100, 0))
        content[at : at + 8] = struct.pack("<Q", value)
        found, _ = opened(tmp_path / "b.mcap", bytes(content[: len(whole)]))
        assert found == frames


def metadata_of(name, told):
    def word(text):
        return struct.pack("<I", len(text)) + text.encode()

    pairs = b"".join(word(key) + word(value) for key, value in layout.sealed(told).items())
    return record_of(12, word(name) + struct.pack("<I", len(pairs)) + pairs)


def sound_chunk(content, start, end):
    """A chunk whose lengths and checksum agree."""
    packed = zstandard.compress(content)
    head = struct.pack("<QQQII", start, end, len(content), zlib.crc32(content), 4)
    return record_of(6, head + b"zstd" + struct.pack("<Q", len(packed)) + packed)


def pulse_at(*times):
    """A chunk with messages of these times, which end the recording."""
    content = b"".join(record_of(5, struct.pack("<HIQQ", 1, 1, each, each) + b"x") for each in times)
    return sound_chunk(content, min(times), max(times))


NOW_NS = 1_800_000_004 * 10**9
FAR = (1 << 63, (1 << 64) - 1)
WRONG = {
    **{f"a clock that is off by {off}": metadata_of(layout.CLOCK, {"offset_s": off, "error_s": "0"})
       for off in ("nan", "inf", "1e300", "-1e300", "1e12")},
    "a clock of unknown error": metadata_of(layout.CLOCK, {"offset_s": "0", "error_s": "nan"}),
    **{f"a keyframe at {at[:20]}": metadata_of(
        layout.KEYFRAME, {"at": at, "windows": "[]", "happened": "{}"}
       ) for at in ("9" * 400, "-5", str(FAR[0]))},
    "windows in another time": metadata_of(
        layout.KEYFRAME, {"at": "1", "windows": f"[{'9' * 400}]", "happened": "{}"}
    ),
    **{f"a message at {at}": pulse_at(at) for at in FAR},
    "a message now and one later than there are times": pulse_at(NOW_NS, FAR[0]),
    "19 GB of nothing": lambda: sound_chunk(bytes(64 << 20), NOW_NS, NOW_NS) * 300,
    "19 GB of messages": lambda: sound_chunk(
        record_of(5, struct.pack("<HIQQ", 1, 1, NOW_NS, NOW_NS)) * (2 << 20), NOW_NS, NOW_NS) * 300,
    "more messages than chunks have": lambda: sound_chunk(
        b"".join(record_of(5, struct.pack("<HIQQ", 1, i, NOW_NS, NOW_NS)) for i in range(200_000)),
        NOW_NS, NOW_NS),
    "records that chunks do not have": sound_chunk(bytes(50_000), NOW_NS, NOW_NS) * 2_000,
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_sound_bytes_that_say_the_impossible_are_damage(tmp_path, what):
    """Lengths and checksums agree; what is left is shown, in bounded memory and time."""
    harm = made_now(WRONG[what])
    frames = made_sessions.frames(Made(seconds=5, arrays=2))
    written(tmp_path / "a.mcap", frames).abandon()
    content = (tmp_path / "a.mcap").read_bytes()
    with Recording(tmp_path / "a.mcap") as recording:
        end = recording.index.scanned
    path = tmp_path / "b.mcap"
    path.write_bytes(content[:end] + harm)
    os.utime(path, (1, 1))  # nobody is writing to it
    tracemalloc.start()
    started = time.process_time()
    with session_of(path) as session:
        assert list(session.frames()) == frames
        assert "corrupt" in session.notes[0]
        assert session.span == pytest.approx((frames[0].at, frames[-1].at))
        session.at(frames[-1].at)
        session.overview  # noqa: B018 - it is made as it is asked for
    taken = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 << 20 and taken < 20  # of CPU: it comes to an end


@pytest.mark.parametrize("at", ["Infinity", "NaN", "1e300", "-5"])
def test_impossible_times_of_what_happened_are_left_out(tmp_path, at):
    frames = made_sessions.frames(Made(seconds=5, arrays=2))
    written(tmp_path / "a.mcap", frames).abandon()
    with Recording(tmp_path / "a.mcap") as recording:
        end = recording.index.scanned
    happened = f'{{"bins": [[1, {at}, 1, 1, null, 0]], "events": [[{at}, "info", "kind", "", "text"]]}}'
    told = {"at": str(NOW_NS), "windows": "[]", "happened": happened}
    keyframe = metadata_of(layout.KEYFRAME, told) + metadata_of(layout.KEYFRAME_END, {"at": str(NOW_NS)})
    path = tmp_path / "b.mcap"
    path.write_bytes((tmp_path / "a.mcap").read_bytes()[:end] + keyframe)
    with session_of(path) as session:
        assert session.at(frames[-1].at).hosts and session.overview.bins
        assert all(each.kind != "kind" for each in session.overview.events)


@pytest.mark.parametrize("header", [b"", b"ja", struct.pack("<I", 1 << 31) + b"jaxtop"])
def test_a_header_that_is_too_short_is_damage(tmp_path, header):
    written(tmp_path / "a.mcap", frames := made_sessions.frames(Made(seconds=5))).abandon()
    content = (tmp_path / "a.mcap").read_bytes()
    (length,) = struct.unpack_from("<Q", content, 9)
    rest = content[17 + length :]
    found, notes = opened(tmp_path / "b.mcap", MAGIC + record_of(1, header) + rest)
    assert found == frames and "corrupt" in notes[0]
    found, notes = opened(tmp_path / "c.mcap", MAGIC + record_of(1, header))
    assert found == [] and ("not a jaxtop recording" in notes[0] or "corrupt" in notes[0])


def test_a_file_that_unpacks_to_far_more_than_recordings_do_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "MOST_UNPACKED", 1 << 24)
    written(tmp_path / "a.mcap", made_sessions.frames(Made(seconds=5))).abandon()
    content = (tmp_path / "a.mcap").read_bytes()
    dice = random.Random(4)
    chunk = sound_chunk(dice.randbytes(2_000) * 900, NOW_NS, NOW_NS)
    _, notes = opened(tmp_path / "b.mcap", content[:-50] + chunk * 600)
    assert len(notes) == 1 and "unpack to 1 GB" in notes[0]


def test_a_pause_of_decades_is_not_exported_second_by_second(tmp_path):
    """A clock may have begun in 1970."""
    frames = made_sessions.frames(Made(seconds=5))
    later = [frame._replace(at=frame.at + 2e9) for frame in frames]
    written(tmp_path / "a.mcap", [*frames, *later]).finish()
    done = jaxtop("replay", tmp_path / "a.mcap", "--export", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    stamps = {line.split(",", 1)[0] for line in done.stdout.splitlines()[1:]}
    assert 8 < len(stamps) < 40
    assert {stamp[:4] for stamp in stamps} == {"2027", "2090"}


# What is none


def test_what_is_no_recording_is_refused_in_one_line(tmp_path):
    (tmp_path / "text.mcap").write_text("step 1 loss 2.5\n" * 100)
    (tmp_path / "folder.mcap").mkdir()
    os.mkfifo(tmp_path / "pipe.mcap")  # which nobody writes to
    with (tmp_path / "robot.mcap").open("wb") as file:
        robot = McapWriter(file)
        robot.start("ros2")
        robot.add_message(robot.register_channel("/camera", "cdr", 0), 1, b"abc", 1)
        robot.finish()
    for name, why in {
        "text.mcap": "does not start like an MCAP file",
        "folder.mcap": "directory",
        "missing.mcap": "No such file",
        "pipe.mcap": "cannot be read",
        "robot.mcap": "not a jaxtop recording",
    }.items():
        with pytest.raises(NotARecording) as caught:
            Recording(tmp_path / name)
        assert why in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_still_empty_is_an_empty_recording(tmp_path):
    (tmp_path / "a.mcap").touch()
    assert read(tmp_path / "a.mcap") == []
    with session_of(tmp_path / "a.mcap") as session:
        assert session.span is None


@pytest.mark.parametrize("form", ["unfinished", "finished", "compacted"])
@pytest.mark.parametrize(
    ("later", "words"),
    [
        (1, "a newer jaxtop.*: upgrade jaxtop$"),
        (-1, "an older jaxtop.*: replay it with that jaxtop, or record"),
    ],
)
def test_a_recording_of_another_version_says_what_to_do(tmp_path, monkeypatch, form, later, words):
    monkeypatch.setattr(wire, "VERSION", wire.VERSION + later)
    made(tmp_path / "a.mcap", 5, form)
    monkeypatch.undo()
    with pytest.raises(NotARecording, match=words) as refused:
        Recording(tmp_path / "a.mcap")
    assert "\n" not in str(refused.value)


def test_messages_that_nobody_knows_are_kept_and_counted(tmp_path):
    """A newer agent may tell more than this viewer knows."""
    frames = [wire.Frame(10.0 + i, "a1", "weather", i, b"\x81\xa1a\x01") for i in range(20)]
    written(tmp_path / "a.mcap", frames).finish()
    with session_of(tmp_path / "a.mcap") as session:
        assert list(session.frames()) == frames
        assert session.at(40.0).rejected == {"unknown message 'weather'": 20}
