"""Large arrays of which each device holds a copy, although a mesh axis could divide them."""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.units import in_bytes
from jaxtop.model.arrays.growth import without_indices
from jaxtop.model.arrays.tree import path_parts
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.large_arrays import (
    ALL_SMALL,
    LARGE_ARRAY_BYTES,
    MIN_SAVED_SHARE,
    SAVES_AT_LEAST,
    has_large,
    is_single,
    large,
    on_device,
    one_host_per_mesh,
    step_programs,
)
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.findings.sentences import containing, line_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop import wire
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.liveness import HostView

# The mesh axes over which parameters are replicated in ordinary data parallelism, if no batch shows them.
DATA_AXES = frozenset(("data", "batch", "dp", "replica", "replicas", "ddp"))


class _Copies(NamedTuple):
    """Arrays that are alike in why they are replicated: an optimizer's state, a variable, or a line."""

    role: str
    about: str
    axes: tuple[str, ...]
    copies: int

    def saved(self, held: int) -> float:
        """Return the bytes that a device would not hold, of those that it holds."""
        return held * (1 - 1 / self.copies)


def _replicated(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for each variable, and one for optimizer state, by the axes that could divide it."""
    views = one_host_per_mesh(facts)
    if not views:
        raise Unmeasured("no process has counted its arrays yet")
    if not has_large(views):
        raise Unmeasured(ALL_SMALL)
    reported: set[_Copies] = set()
    growing = {grower.name for grower in facts.growers}
    for view in views:
        host = view.host
        found: dict[_Copies, list[tuple[wire.ArrayGroup, int]]] = defaultdict(list)
        data_axes = _data_axes(host.arrays)
        lines = {program.created for program in step_programs(view)}
        for group, count, sharding in large(host):
            if group.name and without_indices(group.name) in growing:
                continue  # that they grow is what is wrong with them
            is_model = group.role == "parameters" or (group.role is None and group.created in lines)
            copies = _copies(host.arrays, group, sharding, data_axes if is_model else frozenset())
            if copies is not None:
                found[copies].append((group, count))
        share = MIN_SAVED_SHARE * on_device(host.arrays) if found else 0
        least = max(facts.number(SAVES_AT_LEAST), share)
        for copies, members in found.items():
            held = sum(group.bytes_per_device * count for group, count in members)
            if copies.saved(held) >= least and copies not in reported:
                reported.add(copies)
                yield _copies_finding(facts, view, copies, [group for group, _ in members], held)


def _data_axes(census: wire.Arrays) -> frozenset[str]:
    """Return the mesh axes that divide batches; if there is no batch, those with such names."""
    found = {
        axis
        for group in census.groups
        if group.role == "batch"
        for axes in census.shardings[group.sharding].parts or ()
        for axis in axes
    }
    return frozenset(found) or DATA_AXES


def _copies(
    census: wire.Arrays, group: wire.ArrayGroup, sharding: wire.Sharding, usual: frozenset[str]
) -> _Copies | None:
    """Return why an array is replicated although mesh axes could divide it; None if it is not.

    Copies along the `usual` axes do not count: a copy of the model for each part of the batch is what data
    parallelism is.
    """
    if group.role in ("gradients", "batch"):
        return None
    if sharding.mesh is not None and sharding.parts is not None:
        sizes = dict(census.meshes[sharding.mesh].axes)
        taken = {axis for axes in sharding.parts for axis in axes}
        free = [axis for axis, size in sizes.items() if size > 1 and axis not in taken | usual]
        used = [prod(sizes.get(axis, 1) for axis in axes) for axes in sharding.parts]
        axes = _dividing(group.shape, used, {axis: sizes[axis] for axis in free})
        copies = prod(sizes[axis] for axis in axes)
    elif sharding.mesh is None and sharding.tiles is not None and not is_single(sharding):
        devices = sum(count for _, count in sharding.device_ids)
        copies = devices // max(1, prod(sharding.tiles))
        if usual or not _dividing(group.shape, list(sharding.tiles), {"": copies}):
            return None
        axes = ()
    else:
        return None
    if copies < 2:
        return None
    role = "optimizer" if group.role == "optimizer" else ""
    about = "" if role else _root(group)
    return _Copies(role, about, axes, copies)


def _root(group: wire.ArrayGroup) -> str:
    """Return the variable that holds an array, or the line that created it."""
    return path_parts(group.name)[0] if group.name else (group.created or "")


def _dividing(shape: Sequence[int], used: Sequence[int], free: dict[str, int]) -> tuple[str, ...]:
    """Return the axes that divide a dimension of an array, beyond the pieces that it has already."""
    rest = [size // max(1, pieces) for size, pieces in zip(shape, [*used, *(1,) * len(shape)], strict=False)]
    found = []
    for axis, size in free.items():
        place = next((i for i, length in enumerate(rest) if length >= size and length % size == 0), None)
        if size > 1 and place is not None:
            rest[place] //= size
            found.append(axis)
    return tuple(found)


def _copies_finding(
    facts: RunFacts, view: HostView, copies: _Copies, groups: Sequence[wire.ArrayGroup], held: int
) -> Finding:
    largest = max(groups, key=lambda group: group.bytes_per_device)
    line, axis, saved = line_of(largest.created), ", ".join(copies.axes), copies.saved(held)
    name = _common([group.name or "" for group in groups]) or copies.about or "optimizer state"
    over = f" over {axis}" if axis else ""
    what = f"optimizer state {name}" if copies.role and name != "optimizer state" else name
    asked = containing("name", name) if largest.name else containing("created", line)
    if copies.role:
        asked = (
            f"role=optimizer & {asked}" if largest.name and name != "optimizer state" else "role=optimizer"
        )
    return Finding(
        Severity.WARNING if facts.is_memory_scarce else Severity.INFO,
        0.9,
        f"{what} is held ×{copies.copies}{over}: {in_bytes(saved)} less on each device if divided",
        Subject.of(view.host, array=name, axis=axis, source=line),
        about=f"{copies.role or copies.about}|{axis}",
        cost=FindingCost(bytes_per_device=round(saved)),
        evidence=(
            Evidence("bytes on a device", held, "bytes", "arrays", facts.read_time()),
            Evidence("copies", copies.copies, source="shardings", at=facts.read_time()),
            Evidence("arrays", len(groups), source="arrays", at=facts.read_time()),
        ),
        proof=Proof("arrays", f"{asked} & bytes>={LARGE_ARRAY_BYTES >> 20}M", largest.name or ""),
        advice=_advice(copies, axis),
    )


def _advice(copies: _Copies, axis: str) -> str:
    first = f"{copies.axes[0]!r}" if copies.axes else "an axis of a mesh"
    if copies.role:
        return (
            f"Divide the optimizer state over {axis or first} (ZeRO stage 1): give it a NamedSharding with "
            f"{first} in a dimension, where it is created and in out_shardings of the step."
        )
    return (
        f"If devices need not hold all of it, give it a NamedSharding with {first} in a dimension that it "
        f"divides; XLA gathers it where it is used."
    )


def _common(names: Sequence[str]) -> str:
    """Return the path that all names share."""
    shared = []
    for steps in zip(*map(path_parts, names), strict=False):
        if len(set(steps)) > 1:
            break
        shared.append(steps[0])
    return "".join(shared)


RULES = (
    Rule(
        name="replicated",
        title="Replicated arrays",
        threshold="arrays of at least 1 MiB are replicated over mesh axes that divide one of their "
        "dimensions",
        details=(
            "Divided, each device would hold 8 MiB and 5 % of its arrays less.",
            "A warning where a device is 85 % full.",
            "A copy of the model for each part of the batch does not count: that is data parallelism.",
        ),
        rationale="Each copy takes memory that a larger model or batch could use.",
        source="shapes, shardings and meshes of the live arrays, and their roles by name",
        advice="Give them a NamedSharding with the axis in a dimension that it divides.",
        check=_replicated,
        holds_for=6.0,
        stays_for=20.0,
        numbers=(SAVES_AT_LEAST,),
    ),
)
