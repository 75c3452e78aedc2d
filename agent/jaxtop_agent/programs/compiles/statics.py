"""Static arguments as text, in parts: no code of the script runs while they are read."""

from __future__ import annotations

import re
import sys
from enum import EnumMeta
from functools import cache
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple

from jaxtop.base.names import legible, shorten
from jaxtop_agent.arrays.specs import abstract_mesh_text, mesh_text, sharding_text, spec_text
from jaxtop_agent.core.redaction import is_hidden_number, is_hidden_text, looks_secret

# The length of the text of a static argument.
MAX_TEXT_CHARS = 60
# The depth of nested containers that is compared.
MAX_DEPTH = 4
MOST_PARTS = 64
MOST_BITS = 256
_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), type(...), range})
_OPEN = frozenset({bool, type(None), type(...)})
# Strings that are shown, unless their name says that they are secret or they look like it.
LONGEST_SHOWN = 40
_SHOWN = re.compile(r"[\w.,:/-]*")
ANOTHER = "another value"
_SEQUENCES = (tuple, list)


class Static(NamedTuple):
    """A part of a static argument: its place and its text.

    The identity tells objects of the same text apart, the digest tells values apart whose text is not sent.
    """

    name: str
    text: str
    identity: int = 0
    digest: int = 0


def parts(name: str, value: Any) -> tuple[Static, ...]:
    """Return the parts of a static value, such as the fields of a configuration."""
    found: list[Static] = []
    try:
        _add(found, name, value, 0)
    except Exception:  # such as an object whose fields are not set
        return (Static(name, f"a {type(value).__name__}", id(value)),)
    return tuple(found)


def _add(found: list[Static], name: str, value: Any, depth: int) -> None:
    kind = type(value)
    if len(found) >= MOST_PARTS:
        return
    if depth < MAX_DEPTH:
        inner = _inside(name, value, kind)
        if inner is not None:
            for each, child in inner[:MOST_PARTS]:
                _add(found, each, child, depth + 1)
            if not inner:
                found.append(Static(name, f"an empty {kind.__name__}"))
            return
    found.append(_leaf(name, value, kind))


def _inside(name: str, value: Any, kind: type) -> list[tuple[str, Any]] | None:
    """Return the parts of a container of a built-in type, a named tuple or a dataclass; None for others."""
    if issubclass(kind, _SEQUENCES):
        base = tuple if issubclass(kind, tuple) else list
        items = base.__getitem__(value, slice(0, MOST_PARTS))
        fields = next((vars(each)["_fields"] for each in kind.__mro__ if "_fields" in vars(each)), None)
        if type(fields) is tuple and len(fields) == base.__len__(value):
            return [(f"{name}.{field}", item) for field, item in zip(fields, items, strict=False)]
        return [(f"{name}[{i}]", item) for i, item in enumerate(items)]
    if kind is dict:
        listed = islice(dict.items(value), MOST_PARTS)
        return [(f"{name}[{_key(key, i)}]", item) for i, (key, item) in enumerate(listed)]
    key = "__dataclass_fields__"
    fields = next((vars(each)[key] for each in kind.__mro__ if key in vars(each)), None)
    if type(fields) is dict:
        from jaxtop_agent.arrays.containers import attribute  # most runs have no such argument

        return [(f"{name}.{field}", attribute(value, field)) for field in list(fields)[:MOST_PARTS]]
    return None


def _key(key: Any, place: int) -> str:
    kind = type(key)
    if kind is str:
        return repr(key) if _is_shown(key) else f"{'secret' if is_hidden_text(key) else 'entry'} {place}"
    return repr(key)[:MAX_TEXT_CHARS] if kind in _PLAIN else f"a {kind.__name__}"


def _leaf(name: str, value: Any, kind: type) -> Static:
    text, identity, digest = f"a {kind.__name__}", id(value), 0
    if _is_hidden(name, kind):
        text, identity, digest = "a value", 0, hash(value)
    elif kind is str and not _is_shown(value):
        text, identity, digest = f"a str of {len(value)} characters", 0, hash(value)
    elif kind is bytes:
        text, identity, digest = f"{len(value)} bytes", 0, hash(value)
    elif kind is int and int.bit_length(value) > MOST_BITS:  # it takes long to print
        text, identity, digest = "a large int", 0, hash(value)
    elif kind in _PLAIN:
        text, identity = repr(value), 0
    elif issubclass(kind, type):
        text = type.__getattribute__(value, "__qualname__")
    elif issubclass(type(kind), EnumMeta):
        member = object.__getattribute__(value, "__dict__").get("_name_")
        text, identity = f"{kind.__name__}.{member if type(member) is str else ''}", 0
    elif kind is FunctionType or kind is BuiltinFunctionType:
        text = f"function {value.__qualname__}"
    elif kind is MethodType:
        text, identity = f"method {value.__func__.__qualname__}", id(value.__self__)
    elif (written := _jax_text(value, kind)) is not None:
        text, identity = written, 0
    return Static(name, shorten(legible(text), MAX_TEXT_CHARS), identity, digest)


def _is_hidden(name: str, kind: type) -> bool:
    """Return whether a value may be a secret by its name; true and false tell nothing."""
    if kind is str or kind is bytes:
        return is_hidden_text(name)
    return (kind in _PLAIN or kind in _scalars()) and kind not in _OPEN and is_hidden_number(name)


def _is_shown(text: str) -> bool:
    """Return whether a string is an identifier or a short option; any other may be a secret."""
    return len(text) <= LONGEST_SHOWN and bool(_SHOWN.fullmatch(text)) and not looks_secret(text)


def _jax_text(value: Any, kind: type) -> str | None:
    """Return the text of a scalar, dtype, device, mesh or sharding; None for all other objects.

    The text of an array waits for its device. That of other objects may call the script's `__repr__`.
    """
    if kind in _scalars():
        return str(value)
    numpy, jax = sys.modules.get("numpy"), sys.modules.get("jax")
    if numpy is not None and issubclass(kind, numpy.dtype):
        return str(value) if value.type in _scalars() else None  # the others hold objects or many fields
    if jax is None:
        return None
    if kind is jax.Device:
        return f"device {value.id}"
    writers = {
        jax.sharding.PartitionSpec: spec_text,
        jax.sharding.Mesh: mesh_text,
        jax.sharding.AbstractMesh: abstract_mesh_text,
        jax.sharding.NamedSharding: sharding_text,
        jax.sharding.SingleDeviceSharding: sharding_text,
    }
    return writers[kind](value) if kind in writers else None


@cache
def _scalars() -> frozenset[type]:
    """Return the types of NumPy's scalars, with those of ml_dtypes, whose text is cheap."""
    numpy, more = sys.modules.get("numpy"), sys.modules.get("ml_dtypes")
    if numpy is None:
        return frozenset()
    of_numpy = set(numpy.sctypeDict.values()) - {numpy.object_, numpy.void, numpy.str_, numpy.bytes_}
    others = () if more is None else vars(more).values()
    return frozenset(
        of_numpy | {each for each in others if isinstance(each, type) and issubclass(each, numpy.generic)}
    )
