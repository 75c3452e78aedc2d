"""The signatures that JAX compiles a function for, as plain values, and the differences between two of them.

A signature holds no array, no sharding and no object of the script, except weakly.
"""

from __future__ import annotations

import weakref
from itertools import chain, islice
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.base.names import shorten
from jaxtop_agent.arrays.specs import sharding_text
from jaxtop_agent.programs.compiles import statics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtop_agent.jaxprivate import FunctionToCompile
    from jaxtop_agent.programs.compiles.statics import Static

    # A cause, the argument, and both sides of it as they are compared: their texts take longer to make.
    _Difference = tuple[str, str, "Leaf | str | None", "Leaf | str | None"]
    # Whether the function is another one, the number of differences, and the rank of the first.
    _Distance = tuple[bool, int, int]

# The length of the text of a value.
MAX_VALUE_CHARS = 80
# The differences that are described; the others are counted.
MOST_CHANGES = 64
ABSENT = "absent"
SHAPE, DTYPE, WEAK, SHARDING = "shape", "dtype", "weak_type", "sharding"
STATIC, FUNCTION, STRUCTURE, SETTING, FIRST = "static", "function", "structure", "setting", "first"


class Leaf(NamedTuple):
    """An array argument, or a part of one."""

    shape: tuple[Any, ...]
    dtype: str
    is_weak: bool
    sharding: str

    def __str__(self) -> str:
        return shorten(f"{self.dtype}[{','.join(map(str, self.shape))}]", MAX_VALUE_CHARS)


class SignatureChange(NamedTuple):
    """A difference between two signatures; `argument` is empty if it is not about one."""

    cause: str
    argument: str = ""
    before: str = ""
    after: str = ""


class Changes(list[SignatureChange]):
    """The first differences between two signatures, and how many there are in all."""

    def __init__(self, first: Iterable[SignatureChange], total: int) -> None:
        super().__init__(first)
        self.total = total


class Identity:
    """The identity of a function as JAX compares it, without keeping the function alive."""

    def __init__(self, function: Any) -> None:
        parts = (function.__self__, function.__func__) if type(function) is MethodType else (function,)
        try:
            self._parts = tuple(map(weakref.ref, parts))
        except TypeError:  # no difference is claimed
            self._parts = ()

    def is_same(self, other: Identity) -> bool:
        mine, others = [part() for part in self._parts], [part() for part in other._parts]
        return len(mine) == len(others) and all(
            one is not None and one is another for one, another in zip(mine, others, strict=True)
        )


class Signature(NamedTuple):
    """The arguments of a compilation: arrays by name, static values, settings of JAX, and the function."""

    names: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    statics: tuple[Static, ...]
    settings: tuple[str, ...]
    # None for programs that JAX derives from the function, as by differentiation.
    function: Identity | None
    options: int = 0

    @classmethod
    def of(cls, compiled: FunctionToCompile) -> Signature:
        leaves: list[Leaf] = []
        # The arguments of large models are alike, and making the text of a dtype takes long.
        texts: dict[int, str] = {}
        shared: dict[tuple[Any, ...], Leaf] = {}
        for aval, sharding in zip(compiled.avals, compiled.shardings, strict=True):
            dtype = getattr(aval, "dtype", None)
            key = getattr(aval, "shape", ()), dtype, getattr(aval, "weak_type", False), id(sharding)
            if key not in shared:
                if id(sharding) not in texts:
                    texts[id(sharding)] = sharding_text(sharding)
                shared[key] = _leaf(aval, texts[id(sharding)])
            leaves.append(shared[key])
        return cls(
            names=compiled.names,
            leaves=tuple(leaves),
            statics=tuple(part for name, value in compiled.statics for part in statics.parts(name, value)),
            settings=tuple(map(_setting_text, compiled.settings)),
            function=None if compiled.function is None else Identity(compiled.function),
            options=compiled.options,
        )

    def is_same_function(self, other: Signature) -> bool:
        if self.function is None or other.function is None:
            return self.function is other.function
        return self.function.is_same(other.function)


def _leaf(aval: Any, sharding: str) -> Leaf:
    shape, dtype = getattr(aval, "shape", ()), getattr(aval, "dtype", None)
    return Leaf(
        tuple(shape),
        type(aval).__name__ if dtype is None else str(dtype),
        bool(getattr(aval, "weak_type", False)),
        sharding,
    )


def _setting_text(value: Any) -> str:
    """Return the text of a setting; extensions of JAX add values of any class, which stay a type's name."""
    return shorten(", ".join(part.text.strip("'") for part in statics.parts("", value)), MAX_VALUE_CHARS)


def difference(new: Signature, old: Signature, setting_names: tuple[str, ...] = ()) -> Changes:
    """Return what differs, what explains most first."""
    found: dict[str, list[_Difference]] = {cause: [] for cause in _ORDER}
    total = 0
    for each in _differences(new, old, setting_names):
        total += 1
        if len(found[each[0]]) < MOST_CHANGES:
            found[each[0]].append(each)
    first = islice(chain.from_iterable(found.values()), MOST_CHANGES)
    return Changes(
        (
            SignatureChange(cause, name, _text(cause, was), _text(cause, now))
            for cause, name, was, now in first
        ),
        total,
    )


# A change of an earlier kind often brings one of a later kind along.
_ORDER = (FUNCTION, STRUCTURE, STATIC, SHAPE, DTYPE, WEAK, SHARDING, SETTING)
_RANK = {cause: rank for rank, cause in enumerate(_ORDER)}


def _text(cause: str, side: Leaf | str | None) -> str:
    if side is None or isinstance(side, str):
        return ABSENT if side is None else side
    if cause == SHARDING:
        return side.sharding
    return f"{'weak' if side.is_weak else 'strong'} {side}" if cause == WEAK else str(side)


def _differences(
    new: Signature, old: Signature, setting_names: tuple[str, ...] = ()
) -> Iterator[_Difference]:
    """Yield what differs, another function first; a side is None where the argument is absent."""
    is_same = True
    for each in _differences_of_parts(new, old, setting_names):
        is_same = False
        yield each
    if is_same:
        yield from _same_text_differences(new, old)


def _differences_of_parts(
    new: Signature, old: Signature, setting_names: tuple[str, ...]
) -> Iterator[_Difference]:
    if not new.is_same_function(old):
        yield FUNCTION, "", "", ""
    if new.names == old.names:
        pairs: Iterable[tuple[str, Leaf, Leaf]] = zip(new.names, old.leaves, new.leaves, strict=True)
    else:
        before = dict(zip(old.names, old.leaves, strict=True))
        after = dict(zip(new.names, new.leaves, strict=True))
        yield from ((STRUCTURE, name, None, after[name]) for name in after if name not in before)
        yield from ((STRUCTURE, name, before[name], None) for name in before if name not in after)
        pairs = ((name, before[name], after[name]) for name in after if name in before)
    yield from _static_differences(old.statics, new.statics)
    for name, was, now in pairs:
        if was is not now and was != now:
            yield from _leaf_differences(name, was, now)
    for i, (then, now_) in enumerate(zip(old.settings, new.settings, strict=False)):
        if then != now_:
            yield SETTING, setting_names[i] if i < len(setting_names) else "", then, now_


def _leaf_differences(name: str, was: Leaf, now: Leaf) -> Iterator[_Difference]:
    if was.shape != now.shape:
        yield SHAPE, name, was, now
    if was.dtype != now.dtype:
        yield DTYPE, name, was, now
    if was.is_weak != now.is_weak:
        yield WEAK, name, was, now
    if was.sharding != now.sharding:
        yield SHARDING, name, was, now


def _static_differences(old: tuple[Static, ...], new: tuple[Static, ...]) -> Iterator[_Difference]:
    before, after = ({each.name: each for each in side} for side in (old, new))
    for name in before | after:
        was, now = before.get(name), after.get(name)
        if was is None or now is None or was.text != now.text:
            yield STATIC, name, None if was is None else was.text, None if now is None else now.text
        elif was.digest != now.digest:
            yield STATIC, name, was.text, statics.ANOTHER


def _same_text_differences(new: Signature, old: Signature) -> Iterator[_Difference]:
    """Yield a difference that texts do not show; JAX may find such values equal."""
    before = {each.name: each.identity for each in old.statics}
    for each in new.statics:
        if before.get(each.name) != each.identity:
            yield STATIC, each.name, each.text, f"another object: {each.text}"
            return
    if old.options != new.options:
        yield FUNCTION, "", "", "other options of jax.jit"


def nearest(
    new: Signature, cached: Sequence[Signature], setting_names: tuple[str, ...] = ()
) -> Changes | None:
    """Return the fewest differences from a cached signature; None if there is none.

    Signatures of the same function come first: JAX finds programs of no other function. Among those with
    as few differences, the most alike comes first (the same shapes in another sharding), then the latest.
    """
    least: tuple[_Distance, Signature] | None = None
    for old in reversed(cached):
        distance = _distance(new, old, None if least is None else least[0])
        if distance is not None and (least is None or distance < least[0]):
            least = distance, old
    return None if least is None else difference(new, least[1], setting_names)


def _distance(new: Signature, old: Signature, least: _Distance | None) -> _Distance | None:
    """Return how far apart two signatures are; None as soon as that exceeds the least distance so far."""
    count, rank, is_other = 0, len(_ORDER), False
    for cause, *_ in _differences(new, old):
        count, rank, is_other = count + 1, min(rank, _RANK[cause]), is_other or cause == FUNCTION
        if least is not None and (is_other, count) > least[:2]:
            return None
    return is_other, count, -rank if count else 0
