"""The arrays of a run, with like arrays merged into one: layers repeat, so large models have few kinds.

A kind stands for all of its arrays: its `count` counts all of them, so sums over kinds equal sums over
arrays. The step's program takes, or returns, all arrays of a kind or none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.features.planning.model.memory import ExplainedBytes, Uses, uses_of
from jaxtop.features.planning.model.plan import PlacedArray
from jaxtop.features.planning.model.sharding import place_one, tests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import PlacedArray, ShardingRule, Tensor, Today


class ArrayKind(NamedTuple):
    """Arrays that differ in their names only: the first, one that stands for all, and their positions."""

    first: Tensor
    every: Tensor
    members: tuple[int, ...]


class CandidateLayout(NamedTuple):
    """The arrays on a mesh, by kind and each for itself; `today` and `uses` have the kinds as the arrays."""

    today: Today
    uses: Uses
    kinds: tuple[ArrayKind, ...]
    placed: tuple[PlacedArray, ...]
    all_placed: tuple[PlacedArray, ...]

    def firsts(self) -> Iterator[tuple[PlacedArray, int]]:
        """Yield the first array of each kind on the mesh, and how many there are."""
        for kind, each in zip(self.kinds, self.placed, strict=True):
            yield replace(each, tensor=kind.first), len(kind.members)


class RunArrays:
    """The arrays of a run, from which layouts are made."""

    def __init__(self, today: Today) -> None:
        self.today = today
        self._uses = uses_of(today)
        self._kinds = _kinds(today.tensors, self._uses)
        self._ruled: dict[tuple[ShardingRule, ...], _RuledKinds] = {}

    def kinds(self, axes: Axes, rules: tuple[ShardingRule, ...]) -> Today:
        """Return the run with kinds as its arrays, where these rules mean all arrays of a kind or none.

        Raises:
            CannotPlan: A rule matches no array, or names an axis that the mesh lacks.
        """
        return self._ruled_by(axes, rules).today

    def _ruled_by(self, axes: Axes, rules: tuple[ShardingRule, ...]) -> _RuledKinds:
        tests = tests_of(self.today, axes, rules)
        if rules not in self._ruled:
            self._ruled[rules] = _split(self.today, self._uses, self._kinds, rules, tests)
        return self._ruled[rules]

    def layout(self, axes: Axes, rules: tuple[ShardingRule, ...] = ()) -> CandidateLayout:
        """Return all arrays on a mesh, with these rules applied in order.

        Raises:
            CannotPlan: A rule matches no array, or names an axis that the mesh lacks.
        """
        ruled = self._ruled_by(axes, rules)
        before, sizes = dict(self.today.axes), dict(axes)
        placed = []
        found: list[PlacedArray | None] = [None] * len(self.today.tensors)
        for kind, meant in zip(ruled.kinds, ruled.meant, strict=True):
            first = place_one(kind.first, before, sizes, meant)
            placed.append(replace(first, tensor=kind.every))
            for i in kind.members:
                found[i] = replace(first, tensor=self.today.tensors[i])
        return CandidateLayout(
            ruled.today, ruled.uses, ruled.kinds, tuple(placed), tuple(each for each in found if each)
        )


class _RuledKinds(NamedTuple):
    """Kinds such that a rule is about all arrays of a kind or about none."""

    today: Today
    uses: Uses
    kinds: tuple[ArrayKind, ...]
    meant: tuple[tuple[ShardingRule, ...], ...]


def _kinds(tensors: Sequence[Tensor], uses: Uses) -> tuple[ArrayKind, ...]:
    arguments, results = (each.members if each is not None else () for each in uses)
    alike: dict[object, list[int]] = {}
    # Arrays of a mesh share the numbers of its devices, which may be thousands.
    shared: dict[int, int] = {}
    for i, tensor in enumerate(tensors):
        devices = shared.setdefault(id(tensor.device_ids), i) if tensor.parts is None else -1
        key = (
            tensor.name is None,
            i in arguments,
            i in results,
            tensor.role,
            tensor.shape,
            tensor.dtype,
            tensor.parts,
            tensor.bytes_global,
            tensor.bytes_per_device,
            tensor.count,
            tensor.groups,
            tensor.is_on_host,
            tensor.hidden,
            devices,
        )
        alike.setdefault(key, []).append(i)
    return tuple(_kind(tensors, members) for members in alike.values())


def _kind(tensors: Sequence[Tensor], members: Sequence[int]) -> ArrayKind:
    first = tensors[members[0]]
    every = replace(first, count=first.count * len(members)) if len(members) > 1 else first
    return ArrayKind(first, every, tuple(members))


def _members_among(explained: ExplainedBytes | None, kinds: Sequence[ArrayKind]) -> ExplainedBytes | None:
    if explained is None:
        return None
    taken = frozenset(i for i, kind in enumerate(kinds) if kind.members[0] in explained.members)
    return explained._replace(members=taken)


def _split(
    today: Today,
    uses: Uses,
    kinds: Sequence[ArrayKind],
    rules: tuple[ShardingRule, ...],
    tests: Sequence[Callable[[Tensor], bool]],
) -> _RuledKinds:
    """Return the kinds, split where a rule means some of their arrays only."""
    found: list[tuple[ArrayKind, tuple[ShardingRule, ...]]] = []
    for kind in kinds:
        by_rules: dict[tuple[ShardingRule, ...], list[int]] = {}
        for i in kind.members:
            tensor = today.tensors[i]
            meant = tuple(rule for rule, test in zip(rules, tests, strict=True) if test(tensor))
            by_rules.setdefault(meant, []).append(i)
        if len(by_rules) == 1:
            found.append((kind, next(iter(by_rules))))
        else:
            found += [(_kind(today.tensors, members), meant) for meant, members in by_rules.items()]
    found.sort(key=lambda each: each[0].members[0])
    split = tuple(kind for kind, _ in found)
    return _RuledKinds(
        replace(today, tensors=tuple(kind.every for kind in split)),
        Uses(*(_members_among(each, split) for each in uses)),
        split,
        tuple(meant for _, meant in found),
    )
