"""A program as JAX gives it to the compiler: its mesh, its arguments and its results."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from jaxtop_agent import jaxprivate
from jaxtop_agent.planning.matching import Side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.features.planning.messages import Axes, Parts

SHARDING, _GSPMD = "sdy.sharding", "mhlo.sharding"
_ALIAS = "tf.aliasing_output"
_DEVICES, _REPLICAS = "mhlo.num_partitions", "mhlo.num_replicas"
_HOW = "name what JAX_DUMP_IR_TO or jax.export has written"
_PORTABLE = b"ML\xefR\x0dStableHLO_v"


class CannotCompile(Exception):
    """The program cannot be compiled for a mesh; the text says why, in one line."""


@dataclass(frozen=True)
class LoweredProgram:
    """A parsed program. `axes` is its mesh; empty where its text names no axes.

    `donated` maps a result to the argument whose memory it takes.
    """

    module: Any
    main: Any
    axes: Axes
    devices: int
    arguments: tuple[Side, ...]
    results: tuple[Side, ...]
    donated: dict[int, int]

    @property
    def argument_bytes(self) -> int:
        """The bytes of the arguments on one device, as far as their shardings are written."""
        sizes = dict(self.axes)
        return sum(
            prod(each.shape)
            * element_bytes(each.dtype)
            // prod(sizes.get(axis, 1) for axes in each.parts or () for axis in axes)
            for each in self.arguments
        )

    @property
    def named_axes(self) -> int:
        """How many axes the shardings of the arguments name, those of size 1 included."""
        return sum(len(axes) for each in self.arguments for axes in each.parts or ())

    @property
    def operations(self) -> Iterator[Any]:
        """All operations of the module, in no particular order."""
        ahead = [self.module.operation]
        while ahead:
            op = ahead.pop()
            yield op
            ahead += [child.operation for region in op.regions for block in region for child in block]


def parse(content: bytes) -> Any:
    """Return the module in a file: text, bytecode, or what `jax.export` has serialised."""
    if not content.strip():
        raise CannotCompile(f"it is empty; {_HOW}")
    start = content.find(_PORTABLE)
    try:
        if start >= 4:
            # `Exported.serialize` writes a FlatBuffer; the four bytes before a vector are its length.
            size = int.from_bytes(content[start - 4 : start], "little")
            return jaxprivate.portable(content[start : start + size])
        return jaxprivate.portable(content) if start == 0 else jaxprivate.lowered(content)
    except jaxprivate.Missing:
        raise
    except Exception as error:
        version = jaxprivate.versions()[0]
        raise CannotCompile(f"JAX {version} cannot read it as a lowered program; {_HOW}") from error


def read(module: Any) -> LoweredProgram:
    """Return what a module consists of; raise `CannotCompile` if it is not a program of one mesh."""
    ir = jaxprivate.mlir()
    attributes = module.operation.attributes
    if _number(attributes, _REPLICAS) > 1:
        raise CannotCompile("a program of jax.pmap has no mesh: use jax.jit with shardings")
    if "jax.uses_shape_polymorphism" in attributes and "true" in str(
        attributes["jax.uses_shape_polymorphism"]
    ):
        raise CannotCompile("the program has symbolic shapes: export it with the shapes of the run")
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    main = next((op for op in functions if ir.StringAttr(op.attributes["sym_name"]).value == "main"), None)
    if main is None:
        raise CannotCompile(f"it has no function main, so it is not a lowered program; {_HOW}")
    types = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    inputs = each_of(main, "arg_attrs", len(types.inputs))
    outputs = each_of(main, "res_attrs", len(types.results))
    return LoweredProgram(
        module,
        main,
        max((axes_of(op) for op in meshes(module)), key=len, default=()),
        _number(attributes, _DEVICES),
        tuple(
            _side(kind, own, _located(argument))
            for kind, own, argument in zip(types.inputs, inputs, main.arguments, strict=True)
        ),
        tuple(
            _side(kind, own, ir.StringAttr(own["jax.result_info"]).value if "jax.result_info" in own else "")
            for kind, own in zip(types.results, outputs, strict=True)
        ),
        {_number(own, _ALIAS): number for number, own in enumerate(inputs) if _ALIAS in own},
    )


def meshes(module: Any) -> list[Any]:
    """Return the operations that state a mesh."""
    return [op for op in module.body.operations if op.operation.name == "sdy.mesh"]


def axes_of(mesh: Any) -> Axes:
    """Return the axes of a mesh with their sizes."""
    sdy = jaxprivate.shardy()
    found = map(sdy.MeshAxisAttr, sdy.MeshAttr(mesh.attributes["mesh"]).axes)
    return tuple((axis.name, axis.size) for axis in found)


def element_bytes(dtype: str) -> int:
    """Return the bytes of an element in the compiler's spelling: f32, bf16, ui8, i1, complex<f32>."""
    if dtype.startswith("complex<"):
        return 2 * element_bytes(dtype[8:-1])
    bits = "".join(c if c.isdecimal() else " " for c in dtype).split()
    return max(1, int(bits[0]) // 8) if bits else 1


def each_of(main: Any, name: str, count: int) -> list[Any]:
    """Return the attributes of each argument, or of each result."""
    ir = jaxprivate.mlir()
    if name not in main.attributes:
        return [ir.DictAttr.get({}, context=main.context)] * count
    return [ir.DictAttr(each) for each in ir.ArrayAttr(main.attributes[name])]


def attributes(written: Any) -> dict[str, Any]:
    """Return what a dictionary attribute contains."""
    return {each.name: each.attr for each in (written[i] for i in range(len(written)))}


def _side(kind: Any, own: Any, name: str) -> Side:
    ir = jaxprivate.mlir()
    try:
        tensor = ir.RankedTensorType(kind)
    except ValueError:  # a token
        return Side(name, (), "", None)
    return Side(name, tuple(tensor.shape), str(tensor.element_type), *sharding_of(own))


def sharding_of(own: Any) -> tuple[Parts | None, bool]:
    """Return how an argument or a result is sharded, and whether the compiler chooses it; None if unclear."""
    sdy = jaxprivate.shardy()
    if SHARDING not in own:
        return None, _GSPMD not in own
    dimensions = [
        sdy.DimensionShardingAttr(each) for each in sdy.TensorShardingAttr(own[SHARDING]).dimension_shardings
    ]
    axes = [[sdy.AxisRefAttr(axis) for axis in each.axes] for each in dimensions]
    if any(axis.sub_axis_info is not None for listed in axes for axis in listed):
        return None, False
    is_open = not all(each.is_closed for each in dimensions)
    parts = tuple(tuple(axis.name for axis in listed) for listed in axes)
    return None if is_open else parts, is_open


def _located(argument: Any) -> str:
    """Return the name of an argument, such as "state.params['w']"; empty if the text has none."""
    try:
        return str(argument.location.name_str)
    except Exception:  # another kind of location
        return ""


def _number(attributes: Any, name: str) -> int:
    return int(jaxprivate.mlir().IntegerAttr(attributes[name]).value) if name in attributes else 1
