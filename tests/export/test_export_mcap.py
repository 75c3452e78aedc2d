"""`replay --export mcap-json`: a file that the public reader decodes as JSON, and that Foxglove shows."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from itertools import pairwise

import msgpack
import pytest
from jsonschema import Draft202012Validator
from mcap.decoder import DecoderFactory
from mcap.reader import make_reader

from jaxtop import wire
from jaxtop.export import mcap_json
from jaxtop.export.decoded_messages import MessageKind
from jaxtop.recording import Writer, container, schemas
from tests.builders import folded
from tests.made import sessions as made_sessions
from tests.made.sessions import Made
from tests.played.recordings import keyframe_of, record, session_of, written
from tests.support import is_one_line, jaxtop_here

MADE = Made(hosts=2, devices=4, seconds=60)


class Json(DecoderFactory):
    """The decoder that the public reader asks for."""

    def __init__(self, *, validates):
        self.validates = validates

    def decoder_for(self, message_encoding, schema):
        assert (message_encoding, schema.encoding) == ("json", "jsonschema")
        validator = Draft202012Validator(json.loads(schema.data))

        def decoded(data):
            value = json.loads(data)
            if self.validates:
                validator.validate(value)
            return value

        return decoded


def read(path, *, validates=True):
    """The decoded messages with their times, and the schema, of each topic."""
    messages, described = defaultdict(list), {}
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[Json(validates=validates)])
        for schema, channel, message, value in reader.iter_decoded_messages():
            messages[channel.topic].append((message.log_time, value))
            described[channel.topic] = schema.name, json.loads(schema.data)
    return messages, described


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return record(tmp_path_factory.mktemp("recording") / "run.mcap", MADE).files[0]


@pytest.fixture(scope="module")
def exported(recording, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "out.mcap"
    with session_of(recording) as session:
        mcap_json.write(session, path)
    return read(path)


def replay(*words):
    done = jaxtop_here("replay", *words)
    return done.returncode, done.stdout, done.stderr


def test_each_device_has_its_figures_over_time(exported):
    messages, _ = exported
    expected = defaultdict(list)
    for frame in made_sessions.frames(MADE):
        if frame.kind == "pulse":
            pulse, index = wire.decode("pulse", frame.raw), int(frame.agent, 16)
            for i, used in enumerate(pulse.devices.used_bytes):
                topic = f"/node{index:04}-{index}/device/{index * MADE.devices + i}"
                expected[topic].append(used)
    assert len(expected) == MADE.hosts * MADE.devices
    for topic, used in expected.items():
        assert [value["used_bytes"] for _, value in messages[topic]] == used


def test_each_process_has_its_figures_and_the_metrics_of_its_script(exported):
    messages, described = exported
    pulses = [
        wire.decode("pulse", frame.raw)
        for frame in made_sessions.frames(MADE)
        if frame.kind == "pulse" and frame.agent == made_sessions.agent_id(0)
    ]
    of_host = [value for _, value in messages["/node0000-0/host"]]
    assert [value["rss_bytes"] for value in of_host] == [each.host.rss_bytes for each in pulses]
    assert [value["index"] for _, value in messages["/node0000-0/step"]] == [
        each.step.index for each in pulses
    ]
    losses = [value["value"] for _, value in messages["/node0000-0/metric/loss"]]
    assert losses == [each.step.metrics["loss"] for each in pulses]
    assert described["/node0000-0/host"][1]["properties"]["rss_bytes"] == {"type": "integer"}


def test_events_and_findings_are_in_the_log(recording, exported):
    messages, described = exported
    with session_of(recording) as session:
        events = session.overview.events
    assert described["/log"][0] == "foxglove.Log" and {each.severity for each in events} >= {
        "info",
        "critical",
    }
    assert [value["message"] for _, value in messages["/log"]] == [each.text for each in events]
    levels = {"info": 2, "warning": 3, "critical": 4}
    assert [value["level"] for _, value in messages["/log"]] == [levels[each.severity] for each in events]
    for at, value in messages["/log"]:
        assert value["timestamp"]["sec"] * 10**9 + value["timestamp"]["nsec"] == at


def test_no_message_is_lost(exported):
    """Each kind other than pulses has as many messages as the recording."""
    messages, _ = exported
    frames = [each for each in made_sessions.frames(MADE) if each.kind != "pulse"]
    for kind in {each.kind for each in frames}:
        found = sum(len(found) for topic, found in messages.items() if topic.endswith(f"/{kind}"))
        assert found == sum(each.kind == kind for each in frames), kind


def refused(schema, name):
    """Why Foxglove does not show messages with this schema: rules of its parser of schemas."""
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        return f"{name} is no object with properties"
    for field, each in schema["properties"].items():
        if "oneOf" in each and all(isinstance(one["const"], int) for one in each["oneOf"]):
            continue
        item = each["items"] if each.get("type") == "array" else each
        if item.get("type") == "object":
            why = refused(item, f"{name}.{field}")
            if why:
                return why
        elif item.get("type") not in ("boolean", "string", "number", "integer"):
            return f"{name}.{field} has the type {each}"
    return None


def test_every_schema_is_one_that_foxglove_reads(exported):
    _, described = exported
    for topic, (name, schema) in described.items():
        assert refused(schema, name) is None, topic
    contents = defaultdict(set)
    for name, schema in described.values():
        contents[name].add(json.dumps(schema))
    assert {len(each) for each in contents.values()} == {1}  # one name, one schema


def test_recordings_of_several_processes_become_one_file(tmp_path):
    frames = list(made_sessions.frames(MADE))
    files = [tmp_path / f"{agent}.mcap" for agent in sorted({each.agent for each in frames if each.agent})]
    for file in files:
        written(file, [each for each in frames if each.agent == file.stem]).finish()
    status, out, err = replay(*files, "--export", "mcap-json", tmp_path / "out.mcap")
    assert status == 0 and out.startswith("wrote ") and "unreadable" not in err
    messages, described = read(tmp_path / "out.mcap")
    assert [
        refused(schema, topic) for topic, (_, schema) in described.items() if refused(schema, topic)
    ] == []
    of_devices = [topic for topic in messages if "/device/" in topic]
    assert len(of_devices) == MADE.hosts * MADE.devices
    assert all(value["used_bytes"] for _, value in messages[of_devices[0]])


def newer(path, stored, messages):
    """A file that a later version wrote: its own schema, and messages with more fields."""
    file = container.McapFile(path, "jaxtop", "jaxtop 9", is_indexed=False)
    number = file.schema("jaxtop.pulse", "jsonschema", stored) if stored is not None else 0
    about = {"agent": "a1", "kind": "pulse"}
    channel = file.channel("/a1/pulse", "msgpack", about, number)
    for at, message in enumerate(messages, start=1):
        file.message(channel, at * 10**9, at, message)
    file.flush()
    file.close()


def test_fields_of_a_newer_version_are_named_by_the_file(tmp_path):
    schema = schemas.schema("pulse")
    count = len(schema["$defs"]["Pulse"]["prefixItems"])
    schema["$defs"]["Pulse"]["prefixItems"].append({"title": "mood", "$ref": "#/$defs/Mood"})
    schema["$defs"]["Mood"] = {"type": "array", "prefixItems": [{"title": "joy", "type": "number"}]}
    raw = msgpack.packb(["pulse", 1000, *[None] * (count - 2), [0.5]])
    newer(tmp_path / "a.mcap", json.dumps(schema).encode(), [raw])
    assert replay(tmp_path / "a.mcap", "--export", "mcap-json", tmp_path / "named.mcap")[0] == 0
    assert read(tmp_path / "named.mcap")[0]["/a1/mood"] == [(10**9, {"joy": 0.5})]
    newer(tmp_path / "b.mcap", None, [raw])
    assert replay(tmp_path / "b.mcap", "--export", "mcap-json", tmp_path / "numbered.mcap")[0] == 0
    ((_, value),) = read(tmp_path / "numbered.mcap")[0]["/a1/pulse"]
    assert value == {"at_ms": 1000, str(count): [0.5]}


def of_pulse(schema):
    return json.dumps({"$ref": "#/$defs/A", "$defs": {"A": schema}}).encode()


HOSTILE = [
    b"",
    b"{",
    b"[]",
    of_pulse({"$ref": "#/$defs/A"}),
    of_pulse({"$ref": "#/$defs/None", "prefixItems": [{}] * 300}),
    of_pulse({"$ref": 7, "prefixItems": [{}] * 300}),
    of_pulse({"type": {}, "prefixItems": [{"title": []}] * 300}),
    of_pulse({"type": "array", "prefixItems": [{"title": {}, "type": []}] * 300}),
    of_pulse({"type": "array", "prefixItems": ["title"] * 300}),
    of_pulse({"items": {"$ref": "#/$defs/A"}, "properties": {str(i): {"type": 1} for i in range(300)}}),
    of_pulse({"anyOf": [], "prefixItems": [{}] * 300}),
    of_pulse({"anyOf": 3, "prefixItems": [{}] * 300}),
    json.dumps(
        {
            "$ref": "#/$defs/0",
            "$defs": {
                str(i): {"prefixItems": [{"title": f"{j}", "$ref": f"#/$defs/{i + 1}"} for j in range(50)]}
                for i in range(9)
            },
        }
    ).encode(),
    b'{"$defs":{"A":{"prefixItems":[{},{},{}]}},"items":' * 500 + b"{}" + b"}" * 500,
]


@pytest.mark.parametrize("stored", HOSTILE, ids=range(len(HOSTILE)))
def test_strange_schemas_and_messages_do_no_harm(tmp_path, stored):
    messages = [
        msgpack.packb(["pulse", 1000, None, "arrays"]),
        msgpack.packb({"pulse": b"\xff", 7: float("nan"), (1, 2): msgpack.ExtType(5, b"x")}),
        msgpack.packb([[]] * 300),
        msgpack.packb([1, 2, 3, 4, "five", [6], {"seven": 8}]),
        b"\x91" * 5000 + b"\x00",
        b"\xc1",
        b"\xdd\xff\xff\xff\xff",
        b"\x82\x90\x01\x91\x01\x02",
    ]
    newer(tmp_path / "a.mcap", stored, messages)
    status, out, err = replay(tmp_path / "a.mcap", "--export", "mcap-json", tmp_path / "out.mcap")
    assert status == 0 and out.startswith("wrote "), err
    assert all(is_one_line(line + "\n") for line in err.splitlines()) and "unreadable messages" in err
    messages, _ = read(tmp_path / "out.mcap", validates=False)
    assert any(at == 10**9 for found in messages.values() for at, _ in found)


def test_only_part_of_a_session_is_written_on_request(recording, tmp_path):
    assert (
        replay(recording, "--export", "mcap-json", tmp_path / "a.mcap", "--start", "+30s", "--step", "5")[0]
        == 0
    )
    messages, _ = read(tmp_path / "a.mcap")
    times = [at for at, _ in messages["/node0000-0/host"]]
    assert all(later - earlier >= 5 * 10**9 for earlier, later in pairwise(times))
    assert min(at for found in messages.values() for at, _ in found) >= (MADE.start + 30) * 10**9


def test_launches_between_two_written_pulses_are_not_lost():
    kind = MessageKind("pulse", ())
    pulse = wire.Pulse(at_ms=1, launches={"step": 3})
    assert kind.read(wire.encode(pulse))["launches"] == {"step": 3}
    export = object.__new__(mcap_json._Export)
    export._step, export._pulsed, export._launches = 5.0, {}, {}
    shown = []
    for second, launches in enumerate([{"a": 1}, {"b": 1}, {"a": 2}, {}, {}, {"c": 1}]):
        message = {"launches": launches}
        if export._is_wanted(wire.Frame(float(second), "x", "pulse", 1, b""), message):
            shown.append(message["launches"])
    assert shown == [{"a": 1}, {"a": 2, "b": 1, "c": 1}]


def test_what_cannot_be_written_is_said_in_one_line(recording, tmp_path):
    taken = tmp_path / "taken.mcap"
    taken.write_text("mine")
    (tmp_path / "link.mcap").symlink_to(tmp_path / "nowhere")
    for out, said in [
        (taken, "already exists"),
        (tmp_path, "already exists"),
        (tmp_path / "link.mcap", "already exists"),
        (recording, "already exists"),
        (tmp_path / "no" / "folder.mcap", "cannot be written"),
    ]:
        status, shown, err = replay(recording, "--export", "mcap-json", out)
        assert status and not shown and is_one_line(err) and said in err, err
    assert taken.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["link.mcap", "taken.mcap"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--export", "mcap-json"], "needs the file to write"),
        (["--export", "parquet"], "none of them"),
        (["--export", "mcap-json", "OUT", "--at", "+1s"], "give only one"),
    ],
)
def test_a_wrong_command_line_is_said_in_one_line(recording, tmp_path, words, said):
    words = [tmp_path / "out.mcap" if each == "OUT" else each for each in words]
    status, _, err = replay(recording, *words)
    assert status == 2 and is_one_line(err) and said in err
    assert is_one_line(replay()[2]) and list(tmp_path.iterdir()) == []


def test_recordings_may_stand_behind_the_export(recording, tmp_path):
    status, out, _ = replay("--export", "csv", recording)
    assert status == 0 and out.startswith("time,run,")
    assert replay("--export", "mcap-json", tmp_path / "out.mcap", recording)[0] == 0
    assert (tmp_path / "out.mcap").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_export_that_fails_leaves_nothing(recording, tmp_path, monkeypatch, error):
    def flush(_):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(container.McapFile, "_close_chunk", flush)
        status, out, err = replay(recording, "--export", "mcap-json", tmp_path / "out.mcap")
    assert (status, out) == ((130, "") if error is KeyboardInterrupt else (1, ""))
    assert not err or (is_one_line(err) and "out.mcap cannot be written: No space" in err)
    assert list(tmp_path.iterdir()) == []


def test_a_recording_that_began_in_the_middle_has_what_was_sent_before(tmp_path):
    """Its first keyframe has the names of processes, arrays and programs."""
    frames = made_sessions.frames(MADE)
    cluster = folded(frames[:100])
    writer = Writer(tmp_path / "a.mcap", {"writer": "t"})
    writer.write_keyframe(keyframe_of(cluster, frames[99].at))
    for frame in frames[100:200]:
        writer.write(frame)
    writer.finish()
    assert replay(tmp_path / "a.mcap", "--export", "mcap-json", tmp_path / "out.mcap")[0] == 0
    messages, _ = read(tmp_path / "out.mcap")
    assert {"/node0000-0/hello", "/node0001-1/arrays", "/node0001-1/device/7"} <= messages.keys()
    assert min(at for found in messages.values() for at, _ in found) >= (MADE.start + 5) * 10**9
