"""The request to compile each candidate, and the meaning of its reply for the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.features.planning.messages import NamedArray, WantedCandidate, trimmed
from jaxtop.features.planning.model.plan import CompiledCandidate, Exchange
from jaxtop.model.arrays.meshes import MeshView
from jaxtop.model.collectives.groups import axes_of, expand

if TYPE_CHECKING:
    from jaxtop import wire
    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.messages import CompilationEnded
    from jaxtop.features.planning.model.plan import Candidate


def wanted(candidate: Candidate) -> WantedCandidate:
    """Return the mesh of a candidate with the arrays whose sharding differs from today's.

    Arrays that look like one of these come along, so that arguments are not mistaken for it.
    """
    arrays = [
        NamedArray(
            each.tensor.name or "",
            each.tensor.shape,
            each.tensor.dtype,
            trimmed(each.tensor.parts),
            trimmed(each.parts),
        )
        for each in candidate.placed
        if each.tensor.parts is not None and each.parts is not None and each.tensor.groups == 1
    ]
    looks = {(each.shape, each.dtype, each.today) for each in arrays if each.then != each.today}
    return WantedCandidate(
        candidate.axes, tuple(each for each in arrays if (each.shape, each.dtype, each.today) in looks)
    )


def compiled(ended: CompilationEnded, axes: Axes, doubt: str = "") -> CompiledCandidate:
    """Return what a compilation for this mesh gave; `doubt` is what is doubtful about the program's text."""
    inventory = ended.inventory
    left_out = 0 if inventory is None else inventory.rest + inventory.unread + _unsized(inventory)
    lost = f"the text does not show what {' and '.join(ended.unnamed)} divides: nothing, in this compilation"
    notes = [
        doubt,
        *ended.notes,
        lost if ended.unnamed else "",
        f"{left_out} collectives could not be read" if left_out else "",
    ]
    return CompiledCandidate(
        ended.argument_bytes,
        ended.output_bytes,
        ended.temp_bytes,
        ended.alias_bytes,
        () if inventory is None else _exchanges(inventory, axes),
        ended.flops,
        "; ".join(each for each in notes if each),
        ended.why_not,
        ended.unnamed,
    )


def _unsized(inventory: wire.Inventory) -> int:
    return sum(each.bytes is None for each in inventory.collectives)


def not_compiled(why_not: str) -> CompiledCandidate:
    """Return the result for a candidate that could not be compiled."""
    return CompiledCandidate(0, 0, 0, 0, (), why_not=why_not)


def _exchanges(inventory: wire.Inventory, axes: Axes) -> tuple[Exchange, ...]:
    """Return the collectives with the axes of their groups; the program's devices have the mesh's order."""
    mesh = MeshView("", axes, tuple(range(inventory.devices)))
    return tuple(
        Exchange(
            each.op,
            each.kind,
            each.shape,
            each.bytes,
            _axes(inventory, each, mesh),
            1 if each.times is None else each.times,
            each.line,
            each.is_async,
        )
        for each in inventory.collectives
        if each.bytes is not None
    )


def _axes(inventory: wire.Inventory, collective: wire.Collective, mesh: MeshView) -> tuple[str, ...] | None:
    if collective.groups is None:
        return None
    found = axes_of(mesh, expand(inventory.groups[collective.groups]))
    return None if found is None else found.names
