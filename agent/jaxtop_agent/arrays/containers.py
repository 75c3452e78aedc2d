"""How to look into the containers of a script without running any code of its own.

No iterator, property, flatten function or `__getattr__` of a foreign class is called: only what the built-in
types themselves offer, and the slots and instance dicts of objects, through Python's own descriptors.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, NamedTuple

from jaxtop_agent.arrays.roles import role_of_type

# How a path reads: `a['key']`, `a[0]`, `a.attribute`.
KEY, INDEX, ATTRIBUTE = range(3)

# Objects of these hold no state of a training run, or hold it in their own ways, listed below.
_CLOSED = frozenset({"jax", "jaxlib", "numpy", "builtins", "jaxtop", "jaxtop_agent", "zmq"})
# Of the standard library only what people put arrays into.
_OPEN = frozenset({"queue.Queue", "types.SimpleNamespace"})
_HIDDEN = ("_pytree__", "_object__", "__")
# Mappings that wrap a dict in an attribute of this name.
_WRAPPED = {"flax.core.frozen_dict.FrozenDict": "_dict", "flax.nnx.statelib.State": "_mapping"}
# Attributes that are the content of a box around one value.
_BOXED = {"flax": ("raw_value", "_raw_value", "value"), "jax": ("_base_array",)}

Part = tuple[Sequence[Any], Sequence[Any]]


class Container(NamedTuple):
    """How to look into objects of one type."""

    access: int
    size: Callable[[Any], int]
    # The keys and the values of the children from one place up to another.
    part: Callable[[Any, int, int], Part]
    child: Callable[[Any, Any], Any]
    # What the type itself says that its arrays are.
    role: str | None = None
    # It shows as the one thing that it holds.
    is_box: bool = False


def container(kind: type) -> Container | None:
    """How to look into objects of this type; None where there is nothing to be seen."""
    if issubclass(kind, dict):
        return Container(KEY, dict.__len__, _entries, dict.get)
    if issubclass(kind, tuple):
        fields = next((vars(base)["_fields"] for base in kind.__mro__ if "_fields" in vars(base)), None)
        if isinstance(fields, tuple) and fields:
            return _named_tuple(fields, role_of_type(kind))
        return Container(INDEX, tuple.__len__, _items, _item)
    if issubclass(kind, list):
        return Container(INDEX, list.__len__, _elements, _element)
    if issubclass(kind, deque):
        return Container(INDEX, deque.__len__, _queued, _in_queue)
    return _object(kind)


def _entries(value: Any, start: int, stop: int) -> Part:
    if start == 0 and stop >= dict.__len__(value):
        return list(dict.keys(value)), list(dict.values(value))
    return list(islice(dict.keys(value), start, stop)), list(islice(dict.values(value), start, stop))


def _items(value: Any, start: int, stop: int) -> Part:
    return range(start, stop), tuple.__getitem__(value, slice(start, stop))


def _item(value: Any, at: Any) -> Any:
    return tuple.__getitem__(value, at) if at < tuple.__len__(value) else None


def _elements(value: Any, start: int, stop: int) -> Part:
    return range(start, stop), list.__getitem__(value, slice(start, stop))


def _element(value: Any, at: Any) -> Any:
    return list.__getitem__(value, at) if at < list.__len__(value) else None


def _queued(value: Any, start: int, stop: int) -> Part:
    return range(start, stop), list(islice(deque.__iter__(value), start, stop))


def _in_queue(value: Any, at: Any) -> Any:
    return deque.__getitem__(value, at) if at < deque.__len__(value) else None


def _named_tuple(names: tuple[str, ...], role: str | None) -> Container:
    def part(value: Any, start: int, stop: int) -> Part:
        return names[start:stop], tuple.__getitem__(value, slice(start, stop))

    return Container(
        ATTRIBUTE, tuple.__len__, part, lambda value, name: _item(value, names.index(name)), role
    )


def _object(kind: type) -> Container | None:
    package = str(kind.__module__).partition(".")[0]
    boxed = _BOXED.get(package, ())
    if package == "jax":
        if kind.__name__ != "PRNGKeyArray":
            return None
    elif _is_closed(kind, package):
        return None
    attributes = _Attributes.of(kind)
    if attributes is None:
        return None
    wrapped = _WRAPPED.get(f"{kind.__module__}.{kind.__qualname__}")
    if wrapped is not None:
        return Container(
            KEY,
            lambda value: len(attributes.inner(value, wrapped)),
            lambda value, start, stop: _entries(attributes.inner(value, wrapped), start, stop),
            lambda value, key: dict.get(attributes.inner(value, wrapped), key),
        )
    if package == "jax" or any(base.__name__ == "Variable" for base in kind.__mro__[:-1] if boxed):
        return Container(
            ATTRIBUTE,
            lambda _: 1,
            partial(attributes.content, boxed),
            attributes.child,
            role_of_type(kind),
            is_box=True,
        )
    return Container(ATTRIBUTE, lambda _: 1, attributes.part, attributes.child, role_of_type(kind))


def _is_closed(kind: type, package: str) -> bool:
    if issubclass(kind, type) or package in _CLOSED:
        return True
    is_standard = package in sys.stdlib_module_names and package != "__main__"
    return is_standard and f"{kind.__module__}.{kind.__qualname__}" not in _OPEN


class _Attributes:
    """The attributes of objects of one type, by their instance dict and slots."""

    def __init__(
        self, read_dict: Callable[[Any], Any] | None, slots: dict[str, Callable[[Any], Any]]
    ) -> None:
        self._read_dict = read_dict
        self._slots = slots

    @classmethod
    def of(cls, kind: type) -> _Attributes | None:
        """None where there are none, or where the class has a way of its own to tell them."""
        read_dict: Callable[[Any], Any] | None = None
        slots: dict[str, Callable[[Any], Any]] = {}
        for base in kind.__mro__:
            for name, entry in vars(base).items():
                if name == "__dict__" and read_dict is None:
                    if not isinstance(entry, GetSetDescriptorType | MemberDescriptorType):
                        return None
                    read_dict = entry.__get__
                elif isinstance(entry, MemberDescriptorType) and not name.startswith(_HIDDEN):
                    slots.setdefault(name, entry.__get__)
        return cls(read_dict, slots) if read_dict or slots else None

    def part(self, value: Any, _start: int, _stop: int) -> Part:
        names, values = [], []
        if self._read_dict is not None:
            for name, child in dict.copy(self._read_dict(value)).items():
                if type(name) is str and not name.startswith(_HIDDEN):
                    names.append(name)
                    values.append(child)
        for name in self._slots:
            names.append(name)
            values.append(self.child(value, name))
        return names, values

    def child(self, value: Any, name: Any) -> Any:
        read = self._slots.get(name)
        if read is not None:
            try:
                return read(value)
            except AttributeError:  # not set
                return None
        return None if self._read_dict is None else dict.get(self._read_dict(value), name)

    def content(self, names: tuple[str, ...], value: Any, _start: int, _stop: int) -> Part:
        """The one thing in a box."""
        for name in names:
            child = self.child(value, name)
            if child is not None:
                return (name,), (child,)
        return (), ()

    def inner(self, value: Any, name: str) -> dict[Any, Any]:
        """The dict in an attribute."""
        found = self.child(value, name)
        return found if isinstance(found, dict) else {}


def is_plain(key: Any) -> bool:
    """Whether a key is of a built-in type all through: others compare and print by the user's code."""
    if type(key) is tuple:
        return all(map(is_plain, key))
    return type(key) in (str, int, bool, float, bytes, type(None))
