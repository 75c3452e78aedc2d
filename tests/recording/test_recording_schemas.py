"""Schemas in recordings: they name every field of every message, wherever the file is cut."""

from __future__ import annotations

import json
from contextlib import suppress

import msgspec
import pytest
from mcap.exceptions import McapError
from mcap.reader import NonSeekingReader

from jaxtop import wire
from jaxtop.recording import Recording, Writer, schemas
from tests.made import sessions as made_sessions
from tests.made.sessions import Made
from tests.played.recordings import record, written

MADE = Made(hosts=2, devices=4, seconds=60)


def structs_in(kind):
    """The types that messages of this kind consist of, by name."""
    found = {}

    def visit(one):
        if isinstance(one, msgspec.inspect.StructType) and one.cls.__name__ not in found:
            found[one.cls.__name__] = one.cls
            for each in one.fields:
                visit(each.type)
        for name in ("type", "item_type", "key_type", "value_type"):
            if hasattr(one, name):
                visit(getattr(one, name))
        for name in ("types", "item_types"):
            for each in getattr(one, name, ()):
                visit(each)

    visit(msgspec.inspect.type_info(wire.KINDS[kind]))
    return found


@pytest.mark.parametrize("kind", wire.KINDS)
def test_a_schema_names_the_fields_in_the_order_of_the_message(kind):
    schema = schemas.schema(kind)
    types = structs_in(kind)
    assert {name for name, each in schema["$defs"].items() if "enum" not in each} == types.keys()
    for name, struct in types.items():
        tag = struct.__struct_config__.tag_field
        fields = [*([tag] if tag else []), *(each.name for each in msgspec.structs.fields(struct))]
        named = [each["title"] for each in schema["$defs"][name].get("prefixItems", ())]
        named = named or list(schema["$defs"][name]["properties"])
        assert named == fields
        assert schema["$defs"][name]["description"] == struct.__doc__.partition("\n")[0]


def test_a_file_cut_anywhere_explains_what_is_left(tmp_path):
    written(tmp_path / "a.mcap", made_sessions.frames(MADE), keyframe_every=50).abandon()
    whole = (tmp_path / "a.mcap").read_bytes()
    counts = []
    for part in range(1, 10):
        (tmp_path / "cut.mcap").write_bytes(whole[: len(whole) * part // 10])
        counts.append(0)
        with (tmp_path / "cut.mcap").open("rb") as file, suppress(McapError, EOFError):
            for schema, channel, _ in NonSeekingReader(file).iter_messages(log_time_order=False):
                assert schema.name in (f"jaxtop.{channel.metadata['kind']}", "jaxtop.keyframe")
                counts[-1] += 1
        with Recording(tmp_path / "cut.mcap") as recording:
            kinds = {frame.kind for _, frame in recording.frames()}
            assert recording.schemas().keys() >= {f"jaxtop.{kind}" for kind in kinds}
    assert counts == sorted(counts) and counts[-1] > counts[0]


def test_a_kind_of_a_newer_version_is_recorded_without_a_schema(tmp_path):
    writer = Writer(tmp_path / "a.mcap", {}, is_indexed=True)
    writer.write(wire.Frame(1.0, "a", "novel", 1, b"\x01"))
    writer.write(made_sessions.frames(MADE)[0]._replace(at=1.0))
    writer.finish()
    with (tmp_path / "a.mcap").open("rb") as file:
        found = [
            (schema and schema.name, message.data)
            for schema, _, message in NonSeekingReader(file).iter_messages()
        ]
    assert [name for name, _ in found] == [None, "jaxtop.link"] and found[0][1] == b"\x01"


def test_a_recording_of_an_earlier_version_has_none(tmp_path, monkeypatch):
    """And is no larger than one with schemas by more than a few kilobytes."""
    with_schemas = record(tmp_path / "with.mcap", MADE).files[0]
    monkeypatch.setattr(schemas, "encoded", lambda _: None)
    without = record(tmp_path / "without.mcap", MADE).files[0]
    with Recording(without) as recording:
        assert recording.schemas() == {}
    assert 0 < with_schemas.stat().st_size - without.stat().st_size < 40_000


def test_hostile_schemas_are_bounded(tmp_path, monkeypatch):
    huge = json.dumps({"title": "x" * 6_000_000}).encode()
    monkeypatch.setattr(schemas, "encoded", lambda _: huge)
    written(tmp_path / "a.mcap", made_sessions.frames(MADE)[:200]).finish()
    with Recording(tmp_path / "a.mcap") as recording:
        assert sum(map(len, recording.schemas().values())) < 1 << 26
