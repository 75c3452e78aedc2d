"""What JAX compiles a function for, as plain values, and what differs between two of them.

A signature holds no array, no sharding and no object of the script, except weakly.
"""

from __future__ import annotations

import weakref
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.names import legible, shorten
from jaxtop_agent.arrays.specs import spec_text
from jaxtop_agent.programs import statics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtop_agent.jaxprivate import Compiles
    from jaxtop_agent.programs.statics import Static

LONGEST = 80
MOST_IDS = 8
ANYWHERE = "on any device"
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
        return shorten(f"{self.dtype}[{','.join(map(str, self.shape))}]", LONGEST)


class Change(NamedTuple):
    """A difference between two signatures; `argument` is empty if it is not about one."""

    cause: str
    argument: str = ""
    before: str = ""
    after: str = ""


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
    def of(cls, compiled: Compiles) -> Signature:
        leaves: list[Leaf] = []
        # The arguments of large models are alike, and making the text of a dtype takes long.
        texts: dict[int, str] = {}
        shared: dict[tuple[Any, ...], Leaf] = {}
        for aval, sharding in zip(compiled.avals, compiled.shardings, strict=True):
            dtype = getattr(aval, "dtype", None)
            key = getattr(aval, "shape", ()), dtype, getattr(aval, "weak_type", False), id(sharding)
            if key not in shared:
                if id(sharding) not in texts:
                    texts[id(sharding)] = _sharding_text(sharding)
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


def _sharding_text(sharding: Any) -> str:
    """Return where an argument must be: on which devices, cut along which axes."""
    if sharding is None:
        return ANYWHERE
    mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
    try:
        if spec is not None and mesh is not None:
            axes = ", ".join(f"{name}={size}" for name, size in mesh.shape.items())
            text = f"{spec_text(spec)} over {axes}"
            devices = getattr(mesh, "devices", None)
            ids = () if devices is None else tuple(device.id for device in devices.flat)
        else:
            ids = tuple(sorted(device.id for device in sharding.device_set))
            text = "" if len(ids) == 1 else str(getattr(sharding, "_hlo_sharding", sharding))
    except Exception:  # a kind of sharding that this does not know
        return shorten(legible(str(sharding)), LONGEST)
    kind = getattr(sharding, "memory_kind", None)
    memory = f" in {kind}" if kind not in (None, "device", "unpinned_host") else ""
    return shorten(f"{text} {_on(ids)}{memory}".strip(), LONGEST)


def _on(ids: tuple[int, ...]) -> str:
    if not ids:
        return ""
    if len(ids) == 1:
        return f"on device {ids[0]}"
    if ids == tuple(range(ids[0], ids[0] + len(ids))):
        return f"on devices {ids[0]} to {ids[-1]}"
    return f"on devices {','.join(map(str, ids[:MOST_IDS]))}{'…' if len(ids) > MOST_IDS else ''}"


def _setting_text(value: Any) -> str:
    text = str(value)
    return type(value).__name__ if " at 0x" in text else shorten(legible(text), LONGEST)


def difference(new: Signature, old: Signature, setting_names: tuple[str, ...] = ()) -> list[Change]:
    """Return what differs, what explains most first."""
    changes = [] if new.is_same_function(old) else [Change(FUNCTION)]
    if new.names == old.names:
        pairs: Iterable[tuple[str, Leaf, Leaf]] = zip(new.names, old.leaves, new.leaves, strict=True)
    else:
        before = dict(zip(old.names, old.leaves, strict=True))
        after = dict(zip(new.names, new.leaves, strict=True))
        changes += [Change(STRUCTURE, name, ABSENT, str(after[name])) for name in after if name not in before]
        changes += [
            Change(STRUCTURE, name, str(before[name]), ABSENT) for name in before if name not in after
        ]
        pairs = [(name, before[name], after[name]) for name in after if name in before]
    changes += _static_changes(old.statics, new.statics)
    for name, was, now in pairs:
        if was is not now and was != now:
            changes += _leaf_changes(name, was, now)
    changes.sort(key=lambda change: _ORDER.index(change.cause))
    for i, (then, now_) in enumerate(zip(old.settings, new.settings, strict=False)):
        if then != now_:
            changes.append(Change(SETTING, setting_names[i] if i < len(setting_names) else "", then, now_))
    if not changes:
        changes += _same_text_changes(old, new)
    return changes


# A change of an earlier kind often brings one of a later kind along.
_ORDER = (FUNCTION, STRUCTURE, STATIC, SHAPE, DTYPE, WEAK, SHARDING, SETTING)


def _leaf_changes(name: str, was: Leaf, now: Leaf) -> Iterator[Change]:
    if was.shape != now.shape:
        yield Change(SHAPE, name, str(was), str(now))
    if was.dtype != now.dtype:
        yield Change(DTYPE, name, str(was), str(now))
    if was.is_weak != now.is_weak:
        words = ("strong", "weak")
        yield Change(WEAK, name, f"{words[was.is_weak]} {was}", f"{words[now.is_weak]} {now}")
    if was.sharding != now.sharding:
        yield Change(SHARDING, name, was.sharding, now.sharding)


def _static_changes(old: tuple[Static, ...], new: tuple[Static, ...]) -> Iterator[Change]:
    before, after = ({each.name: each.text for each in side} for side in (old, new))
    for name in before | after:
        if before.get(name) != after.get(name):
            yield Change(STATIC, name, before.get(name, ABSENT), after.get(name, ABSENT))


def _same_text_changes(old: Signature, new: Signature) -> list[Change]:
    """Return differences that texts do not show; JAX may find such values equal."""
    before = {each.name: each.identity for each in old.statics}
    for each in new.statics:
        if before.get(each.name) != each.identity:
            return [Change(STATIC, each.name, each.text, f"another object: {each.text}")]
    return [Change(FUNCTION, "", "", "other options of jax.jit")] if old.options != new.options else []


def nearest(
    new: Signature, cached: Iterable[Signature], setting_names: tuple[str, ...] = ()
) -> list[Change] | None:
    """Return the fewest differences from a cached signature; None if there is none.

    Signatures of the same function come first: JAX finds programs of no other function. Of several with as
    few differences, the most alike comes first (the same shapes in another sharding), then the latest.
    """
    found = [difference(new, each, setting_names) for each in cached]
    found.reverse()
    return min(found, key=_distance, default=None)


def _distance(changes: list[Change]) -> tuple[bool, int, int]:
    kinds = [_ORDER.index(each.cause) for each in changes]
    return FUNCTION in (each.cause for each in changes), len(changes), -min(kinds, default=0)
