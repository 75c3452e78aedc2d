"""Reads the containers of a script without running any of the script's code.

No iterator, property, flatten function or `__getattr__` of a foreign class is called. Only methods of the
built-in types are used, and Python's own descriptors for the slots and instance dicts of objects.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from types import (
    AsyncGeneratorType,
    CoroutineType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
)
from typing import Any, NamedTuple

from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays import frames, running_frames
from jaxtop_agent.arrays.roles import role_of_type

# The forms of a step in a path: `a['key']`, `a[0]`, `a.attribute`.
KEY, INDEX, ATTRIBUTE = range(3)

# Objects of these packages hold no state of a training run, or hold it in special ways, listed below.
_CLOSED = frozenset(
    {"jax", "jaxlib", "numpy", "builtins", "jaxtop", "jaxtop_agent", "zmq"}
    | {"IPython", "ipykernel", "traitlets", "tornado"}  # they lead to the whole kernel
)
# Only these classes of the standard library usually contain arrays.
_OPEN = frozenset({"queue.Queue", "types.SimpleNamespace", "functools.partial"})
_HIDDEN = ("_pytree__", "_object__", "__")
# Mappings that wrap a dict in an attribute of this name.
_WRAPPED = {"flax.core.frozen_dict.FrozenDict": "_dict", "flax.nnx.statelib.State": "_mapping"}
# The variable classes of Flax NNX, and the attributes that may hold their content.
_FLAX_VARIABLES = ("Variable", "HijaxVariable", "VariableState")
_FLAX_VALUE = ("raw_value", "_raw_value", "value", "_leaves")

# The types of suspended functions, with the attribute that holds their frame.
_SUSPENDED: dict[type, str] = {
    GeneratorType: "gi_frame",
    CoroutineType: "cr_frame",
    AsyncGeneratorType: "ag_frame",
}
# Python's own iterators. They hold what they iterate over, and some keep values, as `cycle` does.
_ITERATORS = frozenset(
    {enumerate, zip, map, filter, reversed}
    | {type(iter(())), type(iter([])), type(iter({})), type(iter({}.values())), type(iter({}.items()))}
    | {each for each in vars(itertools).values() if isinstance(each, type)}
)

# Reads the attributes of a class even where its metaclass defines `__getattribute__`.
_CLASS_DICT = vars(type)["__dict__"].__get__

Part = tuple[Sequence[Any], Sequence[Any]]


class Container(NamedTuple):
    """The functions that read objects of one type."""

    access: int
    size: Callable[[Any], int]
    # The keys and the values of the children from one index up to another.
    part: Callable[[Any, int, int], Part]
    child: Callable[[Any, Any], Any]
    # The role of the arrays, if the type determines it.
    role: str | None = None
    # The object is shown as the one value that it holds.
    is_box: bool = False


def container(kind: type) -> Container | None:
    """Return how to read objects of this type; None if they are not read."""
    if issubclass(kind, tuple):
        fields = next((vars(base)["_fields"] for base in kind.__mro__ if "_fields" in vars(base)), None)
        if isinstance(fields, tuple) and fields:
            return _named_tuple(fields, role_of_type(kind))
    return next((each for base, each in _BUILT_IN.items() if issubclass(kind, base)), None) or _object(kind)


def attribute(value: Any, name: str) -> Any:
    """Return an attribute that an object or its class stores; None if there is none of this name."""
    classes = value.__mro__ if isinstance(value, type) else type(value).__mro__
    attributes = None if isinstance(value, type) else _Attributes.of(type(value))
    found = None if attributes is None else attributes.child(value, name)
    if found is not None:
        return found
    return next((vars(base)[name] for base in classes if name in vars(base)), None)


def _one(_value: Any) -> int:
    return 1


def _by_key(part: Callable[[Any, int, int], Part], value: Any, key: Any) -> Any:
    return next((child for name, child in zip(*part(value, 0, 1), strict=True) if name == key), None)


def _variables(frame_of: str, value: Any, _start: int, _stop: int) -> Part:
    """Return the variables of a suspended function, and the iterators of its loops, which have no names."""
    frame = running_frames.suspended(value, frame_of)
    if frame is None:
        return (), ()
    found = frames.values(frame)
    named = set(map(id, found.values()))
    for held in running_frames.referents(value):
        kind = type(held)
        if (kind in _SUSPENDED or kind in _ITERATORS) and id(held) not in named:
            found.setdefault(f"({held.__name__ if kind in _SUSPENDED else kind.__name__})", held)
    return tuple(found), tuple(found.values())


def _class_attributes(value: Any, _start: int, _stop: int) -> Part:
    """Return what a class of the script stores; nothing of a class of a library."""
    stored = _CLASS_DICT(value).copy()
    module = stored.get("__module__")
    if type(module) is not str or _is_of_a_library(module):
        return (), ()
    found = {name: child for name, child in stored.items() if type(name) is str and name[:2] != "__"}
    return tuple(found), tuple(found.values())


def _gone_through(value: Any, _start: int, _stop: int) -> Part:
    held = running_frames.referents(value)
    return range(len(held)), held


def _entries(value: Any, start: int, stop: int) -> Part:
    if start == 0 and stop >= dict.__len__(value):
        return list(dict.keys(value)), list(dict.values(value))
    return list(islice(dict.keys(value), start, stop)), list(islice(dict.values(value), start, stop))


def _sequence(kind: Any) -> Container:
    """Return how to read a tuple, a list or a deque, which supports no slices."""

    def part(value: Any, start: int, stop: int) -> Part:
        if kind is deque:
            return range(start, stop), list(islice(deque.__iter__(value), start, stop))
        return range(start, stop), kind.__getitem__(value, slice(start, stop))

    def child(value: Any, at: Any) -> Any:
        return kind.__getitem__(value, at) if at < kind.__len__(value) else None

    return Container(INDEX, kind.__len__, part, child)


_BUILT_IN: dict[type, Container] = {
    dict: Container(KEY, dict.__len__, _entries, dict.get),
    **{kind: _sequence(kind) for kind in (tuple, list, deque)},
    **{
        kind: Container(ATTRIBUTE, _one, variables, partial(_by_key, variables))
        for kind, variables in ((kind, partial(_variables, frame)) for kind, frame in _SUSPENDED.items())
    },
    type: Container(ATTRIBUTE, _one, _class_attributes, partial(_by_key, _class_attributes)),
    **dict.fromkeys(
        _ITERATORS, Container(ATTRIBUTE, _one, _gone_through, partial(_by_key, _gone_through), is_box=True)
    ),
}


def _named_tuple(names: tuple[str, ...], role: str | None) -> Container:
    def part(value: Any, start: int, stop: int) -> Part:
        return names[start:stop], tuple.__getitem__(value, slice(start, stop))

    def child(value: Any, name: Any) -> Any:
        at = names.index(name)
        return tuple.__getitem__(value, at) if at < tuple.__len__(value) else None

    return Container(ATTRIBUTE, tuple.__len__, part, child, role)


def _object(kind: type) -> Container | None:
    package = str(kind.__module__).partition(".")[0]
    if _is_closed(kind, package):
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
    boxed = _boxed(kind, package)
    if boxed:
        return Container(
            ATTRIBUTE,
            _one,
            partial(attributes.content, boxed),
            attributes.child,
            role_of_type(kind),
            is_box=True,
        )
    return Container(ATTRIBUTE, _one, attributes.part, attributes.child, role_of_type(kind))


def _boxed(kind: type, package: str) -> tuple[str, ...]:
    """Return the attributes that may hold the content of a box; none if the type is not a box."""
    if package == "jax":
        return jaxprivate.BOXES.get(kind.__name__, ())
    # A script may derive its own variable class from Flax's.
    is_variable = any(
        base.__name__ in _FLAX_VARIABLES and base.__module__.partition(".")[0] == "flax"
        for base in kind.__mro__
    )
    return _FLAX_VALUE if is_variable else ()


def _is_closed(kind: type, package: str) -> bool:
    if package == "jax":
        names = {base.__name__ for base in kind.__mro__}
        return kind.__name__ not in jaxprivate.BOXES and names.isdisjoint(jaxprivate.HOLDERS)
    return _is_of_a_library(package) and f"{kind.__module__}.{kind.__qualname__}" not in _OPEN


def _is_of_a_library(module: str) -> bool:
    """Whether a module is part of Python or of a package whose objects hold no state of a training run."""
    package = module.partition(".")[0]
    return package in _CLOSED or (package in sys.stdlib_module_names and package != "__main__")


class _Attributes:
    """Reads the attributes of objects of one type from their instance dict and slots."""

    def __init__(
        self, read_dict: Callable[[Any], Any] | None, slots: dict[str, Callable[[Any], Any]]
    ) -> None:
        self._read_dict = read_dict
        self._slots = slots

    @classmethod
    def of(cls, kind: type) -> _Attributes | None:
        """Return the reader for a type; None if it has no attributes, or defines its own `__dict__`."""
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
        """Return the one value in a box."""
        for name in names:
            child = self.child(value, name)
            if child is not None:
                return (name,), (child,)
        return (), ()

    def inner(self, value: Any, name: str) -> dict[Any, Any]:
        """Return the dict in an attribute; an empty one if there is none."""
        found = self.child(value, name)
        return found if isinstance(found, dict) else {}


def is_plain(key: Any) -> bool:
    """Whether a key consists of built-in types only; comparing or printing others runs the user's code."""
    if type(key) is tuple:
        return all(map(is_plain, key))
    return type(key) in (str, int, bool, float, bytes, type(None))
