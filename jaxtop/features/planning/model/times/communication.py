"""The collectives of a step on another mesh: today's with their bytes rescaled, and those that are new.

What parameters cause follows from their shardings (`state_traffic`): gradients are reduced over the axes that
divide the batch; where such an axis divides a parameter, the parameter is gathered over it. Today's program
says how often that really happens: the same formula for today's mesh is compared with what it contains. All
other collectives carry activations, which the axes of the batch divide.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.features.planning.model.roles import (
    EXCHANGED,
    Layers,
    axes_in,
    batch_axes,
    divisor,
    expert_axes,
    layers_of,
    parameters,
    pipeline_of,
    rows_of,
    trains,
)
from jaxtop.features.planning.model.times.activations import DividedMatrix, Total, activations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import Exchange, Parts, PlacedArray, Tensor, Today
    from jaxtop.features.planning.model.times.activations import Totals

# A smaller collective carries a loss or a metric: its bytes do not depend on the mesh.
SCALAR_BYTES = 64
REDUCED, GATHERED = "reduction of the gradients", "gathering of divided parameters"
REDUCTIONS = ("all-reduce", "reduce-scatter")


class MovedOnMesh(NamedTuple):
    """Alike collectives on a mesh: `bytes` is S of each as nccl-tests defines it, `times` their number."""

    kind: str
    axes: tuple[str, ...]
    bytes: float
    times: float
    # The line of the script, or why it is expected.
    source: str
    is_derived: bool = False


class MeshTraffic(NamedTuple):
    """The collectives of a launch on a mesh, and what was assumed to find them."""

    moved: list[MovedOnMesh]
    assumptions: list[str]


def traffic(today: Today, axes: Axes, placed: Sequence[PlacedArray]) -> MeshTraffic:
    """Return the collectives of a launch on another mesh."""
    return _Planner(today, axes, placed).traffic()


class _Planner:
    def __init__(self, today: Today, axes: Axes, placed: Sequence[PlacedArray]) -> None:
        self.today = today
        self.old, self.new = dict(today.axes), dict(axes)
        self.placed = placed
        self.of_batch = batch_axes(today, placed)
        self.parameters = [(each.tensor, each.tensor.parts, each.parts) for each in parameters(placed)]
        self.layers = layers_of([tensor for tensor, _, _ in self.parameters])
        self.pipeline = pipeline_of(today, parameters(placed))
        self.of_experts = expert_axes(today, self.of_batch)
        self.before = self._state_traffic(self.old, is_today=True)
        self.moved: list[MovedOnMesh] = []
        self.assumptions: list[str] = []

    def traffic(self) -> MeshTraffic:
        of_state: list[Exchange] = []
        for each in self.today.exchanges:
            if self._is_of_state(each):
                of_state.append(each)
            else:
                self._activation(each)
        self._state(of_state)
        self._new_activations()
        self._note_unknown()
        return MeshTraffic(self.moved, self.assumptions)

    def _assume(self, text: str) -> None:
        if text not in self.assumptions:
            self.assumptions.append(text)

    def _sized(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Return the axes that have a size on the candidate, in the order of its mesh."""
        names = frozenset(axes)
        return tuple(name for name, size in self.new.items() if name in names and size > 1)

    def _is_of_state(self, each: Exchange) -> bool:
        """Return whether it reduces gradients or gathers parameters: only over axes that divide the batch."""
        if not each.axes or each.bytes <= SCALAR_BYTES or not self.of_batch.issuperset(each.axes):
            return False
        if each.kind == "all-gather":
            return self._expects(GATHERED) and self.of_experts.isdisjoint(each.axes)
        return each.kind in REDUCTIONS and self._expects(REDUCED)

    def _expects(self, cause: str) -> bool:
        return any(of_cause == cause for of_cause, *_ in self.before)

    def _state(self, of_state: Sequence[Exchange]) -> None:
        """Add what the parameters cause, corrected by what they cause today beyond the formula."""
        found: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for each in of_state:
            cause = REDUCED if each.kind in REDUCTIONS else GATHERED
            found[cause][0] += each.bytes * each.times
            found[cause][1] += each.times
        for (cause, kind, axes), total in self._state_traffic(self.new, is_today=False).items():
            expected = [each for (of_cause, *_), each in self.before.items() if of_cause == cause]
            if expected:
                size = total.bytes * found[cause][0] / sum(each.bytes for each in expected)
                times = total.times * found[cause][1] / sum(each.times for each in expected)
                self._add(kind, axes, size, times, f"{cause}, as today's program does it")
            elif cause == GATHERED or trains(self.today):
                self._assume(f"{cause} over {'+'.join(axes)} is derived: no axis needs it today")
                self._derive(kind, axes, total, cause)

    def _derive(self, kind: str, axes: tuple[str, ...], total: Total, cause: str) -> None:
        """Add what today's program lacks; the total is that of a step."""
        launches = max(self.today.launches_per_step, 1e-9)
        self._add(
            kind, axes, total.bytes / launches, total.times / launches, f"{cause}, derived", is_derived=True
        )

    def _add(
        self,
        kind: str,
        axes: tuple[str, ...],
        size: float,
        times: float,
        source: str,
        *,
        is_derived: bool = False,
    ) -> None:
        if size > 0 and times > 0:
            self.moved.append(MovedOnMesh(kind, axes, size / times, times, source, is_derived))

    def _state_traffic(self, sizes: Mapping[str, int], *, is_today: bool) -> Totals:
        listed = [(tensor, old if is_today else new) for tensor, old, new in self.parameters]
        active = tuple(name for name, size in sizes.items() if size > 1)
        of_batch = [name for name in active if name in self.of_batch]
        return state_traffic(
            listed, sizes, of_batch, self.of_experts, self.layers, scatters=self.today.platform != "cpu"
        )

    def _activation(self, each: Exchange) -> None:
        """Add a collective of today: the axes of the batch divide what it carries, unless it joins them.

        What is exchanged all to all stays divided by its own axes.
        """
        if each.axes is None:
            self._assume(f"{each.op} is taken to run over all axes: its groups are unknown")
            self.moved.append(
                MovedOnMesh(each.kind, self._sized(self.new), float(each.bytes), each.times, each.op)
            )
            return
        own = frozenset() if each.kind in EXCHANGED else frozenset(each.axes)
        size = float(each.bytes)
        if size > SCALAR_BYTES:
            size *= prod(self.old.get(axis, 1) / self.new.get(axis, 1) for axis in self.of_batch - own)
        axes, times = self._sized(each.axes), float(each.times)
        if self.pipeline is not None and each.kind == "collective-permute" and each.times > 1:
            axes, times = self._sized({self.pipeline.axis}), float(self.pipeline.rounds(self.new))
        if axes:
            self.moved.append(MovedOnMesh(each.kind, axes, size, times, each.line or each.op))

    def _new_activations(self) -> None:
        """Add what the activations cause over axes that divide matrices on the candidate, but not today."""
        divided = [
            DividedMatrix(tensor, number, axis)
            for tensor, _, parts in self.parameters
            for number, axis in self._newly_dividing(tensor, parts)
        ]
        rows = rows_of(self.today, self.new, self.of_batch)
        if divided and rows is None:
            names = ", ".join(sorted({each.axis for each in divided}))
            self._assume(
                f"what {names} moves of the activations is left out: the rows of a batch are unknown"
            )
        elif rows is not None:
            for (cause, kind, axes), total in activations(
                divided, rows, self.layers, self.of_experts
            ).items():
                self._assume(f"{cause} over {'+'.join(axes)}, derived: the axis divides nothing today")
                self._derive(kind, axes, total, cause)

    def _note_unknown(self) -> None:
        """Say what is left out where no array is known to be a parameter."""
        if self.parameters:
            return
        axes = {
            axis
            for each in self.placed
            if each.tensor.role is None and each.tensor.name
            for _, axis in self._newly_dividing(each.tensor, each.parts, is_batch=True)
        }
        if axes:
            names = ", ".join(name for name in self.new if name in axes)
            self._assume(f"what {names} moves is left out: no array is known to be a parameter")

    def _newly_dividing(
        self, tensor: Tensor, parts: Parts | None, *, is_batch: bool = False
    ) -> Iterator[tuple[int, str]]:
        """Return the dimensions of a matrix that axes divide on the candidate, without those of today."""
        if len(tensor.shape) < 2:
            return
        for number, of_dimension in enumerate(parts or ()):
            for axis in of_dimension:
                is_new = self.old.get(axis, 1) == 1 and self.new.get(axis, 1) > 1
                if self.pipeline is not None and axis == self.pipeline.axis:
                    continue
                if is_new and (is_batch or axis not in self.of_batch or axis in self.of_experts):
                    yield number, axis


def state_traffic(
    listed: Sequence[tuple[Tensor, Parts | None]],
    sizes: Mapping[str, int],
    of_batch: Sequence[str],
    of_experts: frozenset[str],
    layers: Layers,
    *,
    scatters: bool,
) -> Totals:
    """Return what parameters with these shardings cause in a step: by cause, kind and axes.

    Compilers join reductions over the same axes into one, for the layers of a loop in each round. A gathering
    is one collective per parameter and layer. On CPU, gradients are reduced whole and then cut.
    """
    totals: defaultdict[tuple[str, str, tuple[str, ...]], list[float]] = defaultdict(lambda: [0.0, 0.0])
    spread = cache(partial(_spread, sizes=sizes, of_batch=of_batch, of_experts=of_experts))
    for tensor, parts in listed:
        dividing, others, pieces, shards = spread(parts)
        size = tensor.count * tensor.bytes_global / pieces
        rounds = layers.layers_in(tensor) or 1
        if dividing:
            gathered = totals[GATHERED, "all-gather", dividing]
            gathered[0] += size
            gathered[1] += tensor.count * rounds
            reduced = totals[REDUCED, "reduce-scatter" if scatters else "all-reduce", dividing]
            reduced[0] += size
            reduced[1] = max(reduced[1], rounds)
        if others:
            reduced = totals[REDUCED, "all-reduce", others]
            reduced[0] += size / shards
            reduced[1] = max(reduced[1], rounds)
    return {key: Total(*each) for key, each in totals.items()}


class _Spread(NamedTuple):
    """The axes of the batch that divide an array and those that do not; and into how many pieces axes cut it.

    `pieces` are those of the other axes, `shards` those of the axes of the batch.
    """

    dividing: tuple[str, ...]
    others: tuple[str, ...]
    pieces: int
    shards: int


def _spread(
    parts: Parts | None, sizes: Mapping[str, int], of_batch: Sequence[str], of_experts: frozenset[str]
) -> _Spread:
    own = set(axes_in(parts))
    dividing = tuple(axis for axis in of_batch if axis in own and axis not in of_experts)
    others = tuple(axis for axis in of_batch if axis not in own)
    return _Spread(dividing, others, divisor(parts, sizes, dividing), divisor((dividing,), sizes))
