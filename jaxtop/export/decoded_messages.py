"""Messages without their types: decoded from MessagePack, their fields named by the schemas of a recording.

So a recording of any version can be read: fields that this version does not have are named by the file.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgpack
import msgspec

from jaxtop.recording import schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Namer = Callable[[Any], Any]

JsonSchema = dict[str, Any]
# JSON Schema's names of what a panel can show, except for lists and objects.
_SCALARS = frozenset({"boolean", "integer", "number", "string"})
# The longest chain of references.
MAX_REFERENCES = 8
# The most fields of a message with all its parts.
MAX_FIELDS = 10_000


class MessageKind:
    """How the messages of one kind are read: their fields, and what a schema of them in JSON says."""

    def __init__(self, kind: str, stored: Iterable[bytes]) -> None:
        """Take the schemas of this kind in the files. Fields are only added: the longest schema is used."""
        known = [each for each in (schemas.schema(kind), *map(_parsed, stored)) if each is not None]
        for schema in sorted(known, key=_fields, reverse=True):
            self._schema, self._left = schema, MAX_FIELDS
            with suppress(AttributeError, TypeError, ValueError, KeyError, RecursionError):  # not jaxtop's
                self._defs: JsonSchema = schema.get("$defs", {})
                self._named = self._namer(schema)
                self.simple(schema, {})
                return
        self._schema, self._defs, self._named = {}, {}, _plain

    def read(self, raw: bytes) -> Any:
        """Return the message in these bytes with names for its fields; raise ValueError if it is damaged."""
        try:
            return self._named(msgpack.unpackb(raw, strict_map_key=False, unicode_errors="replace"))
        except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
            raise ValueError(str(error)) from None

    def schema_of(self, *path: str) -> JsonSchema:
        """Return the schema of a field, by the names that lead to it; empty if there is none."""
        found = self._resolved(self._schema)
        for name in path:
            found = self._resolved((_places(found) or found.get("properties", {})).get(name, {}))
        return found

    def object_schema(self, path: tuple[str, ...], example: dict[str, Any]) -> JsonSchema:
        """Return the simple schema of the messages or of a field of theirs, which is an object."""
        found = self.simple(self.schema_of(*path), example)
        is_object = found is not None and found["type"] == "object"
        return found if found and is_object else {"type": "object", "properties": {}}

    def simple(self, schema: JsonSchema, example: Any) -> JsonSchema | None:
        """Return a schema of the value as it is named here, without what simple readers of schemas refuse.

        Those want one type per field, and know no references. Fields that this cannot express are left out,
        as JSON Schema allows. The example has the keys of an object whose keys are data.
        """
        schema = self._resolved(schema)
        kind = schema.get("type")
        kind = next((each for each in kind if each != "null"), None) if isinstance(kind, list) else kind
        described = {"description": schema["description"]} if "description" in schema else {}
        if kind in _SCALARS:
            return {"type": kind, **described}
        if kind == "array" and isinstance(schema.get("items"), dict) and "prefixItems" not in schema:
            item = self.simple(schema["items"], example[0] if isinstance(example, list) and example else None)
            if item is None or item["type"] == "array" or self._may_be_null(schema["items"]):
                return None
            return {"type": "array", "items": item}
        fields: dict[str, Any] = _places(schema)
        if kind != "object" and not fields:
            return None
        fields = fields or schema.get("properties") or {}
        values = example if isinstance(example, dict) else {}
        if isinstance(schema.get("additionalProperties"), dict):
            fields = dict.fromkeys(values, schema["additionalProperties"])
        simple = {name: self.simple(each, values.get(name)) for name, each in fields.items()}
        return {
            "type": "object",
            **described,
            "properties": {name: each for name, each in simple.items() if each is not None},
        }

    def columns_schema(self, schema: JsonSchema) -> JsonSchema:
        """Return the simple schema of a row of a table whose fields are columns."""
        rows: dict[str, JsonSchema] = {}
        for name, column in _places(schema).items():
            items = self._resolved(column).get("items")
            row = self.simple(items, None) if isinstance(items, dict) else None
            rows |= {name: row} if row else {}
        return {"type": "object", "properties": rows}

    def _may_be_null(self, schema: JsonSchema) -> bool:
        """Return whether null is one of the values: fields of objects that are null are left out."""
        return "anyOf" in schema or isinstance(self._resolved(schema).get("type"), list)

    def _resolved(self, schema: JsonSchema) -> JsonSchema:
        """Return the schema that a reference, or a choice between a value and null, stands for."""
        for _ in range(MAX_REFERENCES):
            if "$ref" in schema:
                schema = self._defs[schema["$ref"].rpartition("/")[2]]
            elif "anyOf" in schema:
                schema = next((each for each in schema["anyOf"] if each.get("type") != "null"), {})
            else:
                return schema
        raise ValueError("a schema whose references do not end")

    def _namer(self, schema: JsonSchema) -> Namer:
        """Return the function that names the fields of values of this schema."""
        self._left -= 1
        if self._left < 0:
            raise ValueError("a schema of more fields than messages have")
        schema = self._resolved(schema)
        items = schema.get("prefixItems")
        if items:
            namers = [self._namer(each) for each in items]
            if not all("title" in each for each in items):
                return lambda value: _named_row(namers, value)
            names = [None if "enum" in each else str(each["title"]) for each in items]
            return lambda value: _struct(names, namers, value)
        if isinstance(schema.get("items"), dict):
            item = self._namer(schema["items"])
            return lambda value: [item(each) for each in value] if isinstance(value, list) else _plain(value)
        if "properties" in schema:
            fields = {name: self._namer(each) for name, each in schema["properties"].items()}
            return _object(fields, _plain)
        if isinstance(schema.get("additionalProperties"), dict):
            return _object({}, self._namer(schema["additionalProperties"]))
        return _plain


def _places(schema: JsonSchema) -> dict[str, JsonSchema]:
    """Return the schemas of the places of a list that have a name."""
    return {str(each["title"]): each for each in schema.get("prefixItems", ()) if "title" in each}


def _named_row(namers: list[Namer], value: Any) -> Any:
    """Return a row of values of different types."""
    if not isinstance(value, list):
        return _plain(value)
    return [named(each) for named, each in zip(namers, value, strict=False)]


def _struct(names: list[str | None], namers: list[Namer], value: Any) -> Any:
    """Return a list as an object, without unknown figures; fields that no schema names have their number."""
    if not isinstance(value, list):
        return _plain(value)
    found = {
        name: named(each)
        for name, named, each in zip(names, namers, value, strict=False)
        if each is not None and name is not None
    }
    for number, each in enumerate(value[len(names) :], start=len(names)):
        found[str(number)] = _plain(each)
    return found


def _object(fields: Mapping[str, Namer], others: Namer) -> Namer:
    def named(value: Any) -> Any:
        if not isinstance(value, dict):
            return _plain(value)
        return {str(key): fields.get(key, others)(each) for key, each in value.items() if each is not None}

    return named


def _plain(value: Any) -> Any:
    """Return a value that JSON can express: text as keys, and text for what only MessagePack has."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, msgpack.ExtType | msgpack.Timestamp) else value


def _parsed(content: bytes) -> JsonSchema | None:
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _fields(schema: Any) -> int:
    """Return how many fields a schema names."""
    parts = schema.get("$defs") if isinstance(schema, dict) else None
    each = [part for part in parts.values() if isinstance(part, dict)] if isinstance(parts, dict) else []
    counted = (part.get(key) for part in each for key in ("prefixItems", "properties"))
    return sum(len(found) for found in counted if isinstance(found, list | dict))
