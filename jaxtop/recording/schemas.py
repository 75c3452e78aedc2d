"""JSON Schemas of the messages, generated from their types: a recording explains itself to any reader."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from jaxtop import wire
from jaxtop.recording.layout import KEYFRAMES, KeyframePart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.recording.layout import Channel

ENCODING, PREFIX = "jsonschema", "jaxtop."
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# A black box has schemas in each of its files, one a minute: bounds and defaults would double them.
_LEFT_OUT = frozenset({"default", "minimum", "maximum", "minLength", "maxLength"})
# Under these keys, the keys are the names of fields and of types.
_NAMED = frozenset({"properties", "$defs"})
_NULL = {"type": "null"}


def name_of(channel: Channel) -> str:
    """Return the name of the schema of a channel's messages."""
    return f"{PREFIX}{'keyframe' if channel.is_keyframe else channel.kind}"


@lru_cache
def encoded(name: str) -> bytes | None:
    """Return the schema of this name as JSON; None for kinds of messages of other versions."""
    found = schema(name.removeprefix(PREFIX))
    return msgspec.json.encode(found) if found is not None else None


def schema(kind: str) -> dict[str, Any] | None:
    """Return the schema of the messages of this kind, with the names of fields that are sent as arrays."""
    if PREFIX + kind == name_of(KEYFRAMES):
        described = {"title": "Keyframe", "description": "Part of a state: time in ns, agent, kind, message."}
        return {"$schema": DIALECT, **described, **_lean(msgspec.json.schema(KeyframePart))}
    struct = wire.KINDS.get(kind)
    if struct is None:
        return None
    found = msgspec.json.schema(struct)
    structs = _structs()
    for name, one in found["$defs"].items():
        if "prefixItems" in one:
            fields = zip(_fields(structs[name]), one["prefixItems"], strict=True)
            one["prefixItems"] = [{"title": title, **each} for title, each in fields]
    return {"$schema": DIALECT, **_lean(found)}


@cache
def _structs() -> dict[str, type[Struct]]:
    """Return the types that messages consist of, by name: a script may have thousands of types of its own."""
    return {each.__name__: each for each in _messages(Struct)}


def _messages(base: type[Struct]) -> Iterator[type[Struct]]:
    """Yield the types that messages consist of."""
    for each in base.__subclasses__():
        if each.__module__.startswith(wire.__name__):
            yield each
        yield from _messages(each)


def _fields(struct: type[Struct]) -> list[str]:
    tag = struct.__struct_config__.tag_field
    return [*([tag] if tag else []), *struct.__struct_encode_fields__]


def _lean(part: Any) -> Any:
    """Return a part of a schema without what readers do not need, with the first line of descriptions."""
    if isinstance(part, list):
        return [_lean(each) for each in part]
    if not isinstance(part, dict):
        return part
    found: dict[str, Any] = {}
    for key, each in part.items():
        if key in _NAMED:
            found[key] = {name: _lean(one) for name, one in each.items()}
        elif key == "description":
            found[key] = each.partition("\n")[0]
        elif key not in _LEFT_OUT:
            found[key] = _lean(each)
    options: list[dict[str, Any]] = found.get("anyOf", [])
    if len(options) == 2 and options[1] == _NULL and isinstance(options[0].get("type"), str):
        del found["anyOf"]
        found |= options[0]
        found["type"] = [options[0]["type"], "null"]
    return found
