"""Static arguments as text, in parts: no code of the script runs while they are read."""

from __future__ import annotations

from enum import EnumMeta
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple

from jaxtop.names import legible, shorten

LONGEST = 60
DEEPEST = 4
MOST_PARTS = 64
MOST_BITS = 256
_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), type(...), range})
# Text of these packages' own objects is made by their code, not the script's.
_PRINTED = frozenset({"numpy", "jax", "jaxlib", "ml_dtypes"})
_SEQUENCES = (tuple, list)


class Static(NamedTuple):
    """A part of a static argument: its place, its text, and an identity if others may have the same text."""

    name: str
    text: str
    identity: int = 0


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
    if depth < DEEPEST:
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
        listed = list(value.items())[:MOST_PARTS]
        return [(f"{name}[{_key(key)}]", item) for key, item in listed]
    fields = next((vars(each)["__dataclass_fields__"] for each in kind.__mro__ if _has_fields(each)), None)
    if type(fields) is dict:
        from jaxtop_agent.arrays.containers import attribute  # most runs have no such argument

        return [(f"{name}.{field}", attribute(value, field)) for field in list(fields)[:MOST_PARTS]]
    return None


def _has_fields(kind: type) -> bool:
    return "__dataclass_fields__" in vars(kind)


def _key(key: Any) -> str:
    return repr(key)[:LONGEST] if type(key) in _PLAIN else f"a {type(key).__name__}"


def _leaf(name: str, value: Any, kind: type) -> Static:
    text, identity = f"a {kind.__name__}", id(value)
    if kind is int and int.bit_length(value) > MOST_BITS:  # it takes long to print
        text, identity = "a large int", hash(value)
    elif kind in _PLAIN:
        text, identity = repr(value[: 2 * LONGEST] if kind in {str, bytes} else value), 0
    elif isinstance(value, type):
        text = type.__getattribute__(value, "__qualname__")
    elif isinstance(kind, EnumMeta):
        text, identity = f"{kind.__name__}.{vars(value).get('_name_')}", 0
    elif kind is FunctionType or kind is BuiltinFunctionType:
        text = f"function {value.__qualname__}"
    elif kind is MethodType:
        text, identity = f"method {value.__func__.__qualname__}", id(value.__self__)
    elif kind.__module__.partition(".")[0] in _PRINTED:
        text = str(value)
        identity = id(value) if " at 0x" in text else 0
    return Static(name, shorten(legible(text), LONGEST), identity)
