"""A lowered program for another mesh: the sizes of its mesh, and the shardings of its arguments.

In the text of current JAX, shardings name the axes of a mesh that is written once. So another mesh is one
change. A `shard_map` contains the local shapes of its mesh, which cannot be changed.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jaxtop.features.planning.messages import NamedArray, trimmed
from jaxtop_agent import jaxprivate
from jaxtop_agent.planning.lowered_program import (
    SHARDING,
    CannotCompile,
    attributes,
    axes_of,
    each_of,
    meshes,
)
from jaxtop_agent.planning.matching import match

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.features.planning.messages import Axes, Parts, WantedCandidate
    from jaxtop_agent.planning.lowered_program import LoweredProgram
    from jaxtop_agent.planning.matching import Side

_MANUAL = "sdy.manual_computation"
_COPY = "stablehlo.mesh"
MOST_NAMED = 3


def rewrite(program: LoweredProgram, wanted: WantedCandidate, today: Axes) -> tuple[str, ...]:
    """Change the module for a candidate; return what differs from what was asked."""
    is_same = _used(program.axes) == _used(wanted.axes)
    if not program.axes:
        is_today = _used(wanted.axes) == _used(today) and not wanted.arrays
        if is_today and program.devices == prod(size for _, size in today):
            return ()
        raise CannotCompile(
            "its text names no mesh axes, as with the GSPMD partitioner or on one device: it can be compiled"
            f" only as it is, for {program.devices} device{'s' * (program.devices != 1)}"
        )
    if _names(program.axes) != _names(today):
        raise CannotCompile(f"the program's mesh is {words(program.axes)}, the run's is {words(today)}")
    if not is_same and any(op.name == _MANUAL for op in program.operations):
        raise CannotCompile(
            "it uses shard_map, whose local shapes belong to one mesh: it can be compiled only for"
            f" {words(program.axes)}"
        )
    with program.module.context:
        if not is_same:
            lacking = _names(program.axes) - _names(wanted.axes)
            _resize(program, (*wanted.axes, *((name, 1) for name, _ in program.axes if name in lacking)))
        return tuple(_reshard(program, wanted.arrays, dict(wanted.axes)))


def unnamed(program: LoweredProgram, wanted: WantedCandidate) -> tuple[str, ...]:
    """Return the axes of size 1 that the candidate uses, but that no argument of the program names."""
    sizes = dict(wanted.axes)
    named = {axis for each in program.arguments for axes in each.parts or () for axis in axes}
    named |= {axis for each in wanted.arrays for axes in each.then for axis in axes}
    return tuple(axis for axis, size in program.axes if size == 1 < sizes.get(axis, 1) and axis not in named)


def words(axes: Axes) -> str:
    """Return a mesh as people write it: data=4,model=2."""
    return ",".join(f"{name}={size}" for name, size in axes)


def _used(axes: Axes) -> Axes:
    return tuple(axis for axis in axes if axis[1] > 1)


def _names(axes: Axes) -> set[str]:
    return {name for name, _ in axes}


def _resize(program: LoweredProgram, axes: Axes) -> None:
    """Write the sizes of the axes into the mesh, and the number of devices into the module."""
    ir, sdy = jaxprivate.mlir(), jaxprivate.shardy()
    mesh = sdy.MeshAttr.get([sdy.MeshAxisAttr.get(name, size) for name, size in axes])
    copy = ir.Attribute.parse(
        "{axes = ["
        + ", ".join(f"{{name = {ir.StringAttr.get(name)}, size = {size} : i64}}" for name, size in axes)
        + "]}"
    )
    for op in meshes(program.module):
        other = axes_of(op)
        if other and other != program.axes:
            raise CannotCompile(
                f"it uses two meshes, {words(program.axes)} and {words(other)}: neither can be changed alone"
            )
        if other:
            op.attributes["mesh"] = mesh
            if _COPY in op.attributes:
                op.attributes[_COPY] = copy
    count = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), prod(size for _, size in axes))
    program.module.operation.attributes["mhlo.num_partitions"] = count


def _reshard(program: LoweredProgram, arrays: Sequence[NamedArray], sizes: dict[str, int]) -> Iterator[str]:
    """Write the shardings of arguments, and of results that hold the same state; yield what differs."""
    unused = {axis for axis, size in program.axes if size == 1}
    found = match(program.arguments, list(_as_written(arrays, program.module.context)), unused=unused)
    if found.doubtful:
        yield f"{_some(found.doubtful)} may be several arrays of the run: sharded as today"
    requested = [
        side.parts if parts is None else parts
        for side, parts in zip(program.arguments, found.parts, strict=True)
    ]
    uneven = _write(program, "arg_attrs", program.arguments, requested, sizes)
    if uneven:
        yield f"{_some(uneven)} cannot be divided evenly: replicated over that dimension"
    _write(program, "res_attrs", program.results, list(_result_shardings(program, requested)), sizes)


def _result_shardings(program: LoweredProgram, requested: Sequence[Parts | None]) -> Iterator[Parts | None]:
    """Yield the sharding of each result: that of the argument with the same memory or the same name."""
    arguments = [
        NamedArray(side.name, side.shape, side.dtype, side.parts, parts)
        for side, parts in zip(program.arguments, requested, strict=True)
        if side.parts is not None and parts is not None
    ]
    named = match(program.results, arguments, least_common=1).parts
    for number, side in enumerate(program.results):
        donor = program.donated.get(number)
        if donor is not None and program.arguments[donor].parts == side.parts:
            yield requested[donor]
        else:
            yield side.parts if named[number] is None else named[number]


def _as_written(arrays: Sequence[NamedArray], context: Any) -> Iterator[NamedArray]:
    """Yield the arrays with the compiler's names of their data types; omit types that it lacks."""
    known: dict[str, str] = {}
    for each in arrays:
        if each.dtype not in known:
            try:
                known[each.dtype] = jaxprivate.element_type(each.dtype, context)
            except Exception:  # a type of JAX's own, such as that of random keys
                known[each.dtype] = ""
        if known[each.dtype]:
            yield replace(each, dtype=known[each.dtype])


def _write(
    program: LoweredProgram,
    name: str,
    sides: Sequence[Side],
    requested: Sequence[Parts | None],
    sizes: dict[str, int],
) -> list[str]:
    """Write the shardings that differ from today's; return the names of sides with an uneven division."""
    ir, sdy = jaxprivate.mlir(), jaxprivate.shardy()
    mesh = next(op for op in meshes(program.module) if axes_of(op))
    symbol = ir.StringAttr(mesh.attributes["sym_name"]).value
    written, uneven = each_of(program.main, name, len(sides)), []
    for number, (side, parts) in enumerate(zip(sides, requested, strict=True)):
        if side.parts is None or parts is None:
            continue
        filled = (*parts, *((),) * (len(side.shape) - len(parts)))
        even = tuple(
            axes if size % prod(sizes.get(axis, 1) for axis in axes) == 0 else ()
            for size, axes in zip(side.shape, filled, strict=False)
        )
        uneven += [side.name] if even != filled else []
        if trimmed(even) != trimmed(side.parts):
            dimensions = [
                sdy.DimensionShardingAttr.get([sdy.AxisRefAttr.get(axis) for axis in axes], is_closed=True)
                for axes in even
            ]
            sharding = sdy.TensorShardingAttr.get(symbol, dimensions)
            written[number] = ir.DictAttr.get({**attributes(written[number]), SHARDING: sharding})
    program.main.attributes[name] = ir.ArrayAttr.get(written)
    return uneven


def _some(names: Sequence[str]) -> str:
    """Return a few of the names, and how many more there are."""
    shown = ", ".join(name or "an argument without a name" for name in names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
