"""Operations and bytes of one instruction, by the rules of XLA's own cost analysis.

As in XLA, transcendental functions count no operations. Where XLA gives no cost, the cost is unknown.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.programs import shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop_agent.programs.lines import Instruction

# Opcodes that do one operation for each element of the result.
_ELEMENTWISE_OPCODES = """
abs add and ceil clamp compare complex conjugate convert count-leading-zeros divide floor imag is-finite
maximum minimum multiply negate not or popcnt real reduce-precision remainder round-nearest-afz
round-nearest-even select shift-left shift-right-arithmetic shift-right-logical sign subtract
stochastic-convert xor all-reduce all-reduce-start
"""
# Opcodes that do more than one operation for each element; as in XLA, they count none.
_TRANSCENDENTAL_OPCODES = """
atan2 cbrt cosine erf exponential exponential-minus-one log log-plus-one logistic power rsqrt sine sqrt tan
tanh
"""
# Opcodes that apply a computation of the program to their elements.
APPLIES = frozenset({"map", "reduce", "reduce-window", "scatter", "select-and-scatter"})
# Opcodes that touch no memory: they only name existing values, as all do that end what another one started.
_FREE_OPCODES = """
add-dependency after-all bitcast constant domain get-tuple-element parameter partition-id replica-id tuple
opt-barrier
"""
_ENDS = ("-done", "-update")
FUSIONS = frozenset({"fusion", "fusion-start"})
ELEMENTWISE, _FREE = frozenset(_ELEMENTWISE_OPCODES.split()), frozenset(_FREE_OPCODES.split())
TRANSCENDENTAL = frozenset(_TRANSCENDENTAL_OPCODES.split())
_CONTRACTED = re.compile(r"\blhs_contracting_dim(?:ension)?s\"?[=:]\s*[{\[]([\d,\"\s]*)[}\]]")
_LABELS = re.compile(r"\bdim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"\bwindow=\{([^}]*)\}")
_COUNT = re.compile(r"\b(feature|batch)_group_count=(\d{1,9})")
_LENGTHS = re.compile(r"\bfft_length=\{([\d,]*)\}")
_TARGET = re.compile(r'\bcustom_call_target="([^"]*)"')
# Calls into libraries that multiply matrices or convolve, as XLA names them on GPUs.
_PRODUCTS = re.compile(r"__cublas\$.*")
_CONVOLUTIONS = re.compile(
    r"__cudnn\$conv(Forward|ForwardGraph|BiasActivationForward|BackwardInput|BackwardFilter)"
)
_PYTHON = re.compile(r".*python\w*callback\w*")
# Calls in which the device computes nothing: calls into Python, and annotations between compiler passes.
_NO_WORK = re.compile(
    r".*python\w*callback\w*|.*[Ss]harding.*|annotate_device_placement|AllocateBuffer|AssumeGatherIndicesInBound"
    r"|MoveTo(Host|Device)|Pin|Unpin|LayoutConstraint|xla\.sdy\..*|SliceToDynamic|PadToStatic"
    r"|ConcatBitcast|(AsyncCollective|PrepareAsyncCall)(Start|Done)|X64(Combine|SplitLow|SplitHigh)|HostExecute"
)


# The tuple that a loop carries may have thousands of arrays: few of these stay in memory.
LONGEST_SHORT = 200


class Extent(NamedTuple):
    """The dimensions and bytes of an array."""

    dimensions: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        return prod(self.dimensions)


class _Along(NamedTuple):
    """A window along one dimension: size, stride, padding before it, window dilation, base dilation."""

    size: int
    stride: int
    low: int
    dilation: int
    base: int


NOTHING = Extent((0,), 0)
# What a text that no compiler writes may raise while it is counted.
_UNREADABLE = (LookupError, ValueError, ArithmeticError)
# A window along one dimension with more pairs of kernel position and result is not counted.
MOST_POSITIONS = 1 << 20


class CountedCost(NamedTuple):
    """The cost of an instruction alone; `applied` is how often it applies the computation that it names."""

    operations: int = 0
    bytes: int = 0
    applied: int = 0
    is_known: bool = True


def extents(shape: str) -> tuple[Extent, ...]:
    """Return the dimensions and bytes of the arrays in a shape."""
    return (_of_short if len(shape) <= LONGEST_SHORT else _of_long)(shape)


def _extents(shape: str) -> tuple[Extent, ...]:
    return tuple(Extent(each.dimensions, each.bytes or 0) for each in shapes.inside(shape))


def results(instruction: Instruction) -> tuple[Extent, ...]:
    """Return the arrays that an instruction computes; what only starts an operation also has its operands."""
    if not instruction.opcode.endswith("-start") or not instruction.shape.startswith("("):
        return extents(instruction.shape)
    shape = shapes.read(instruction.shape)
    both = None if shape is None else shapes.of_start(instruction.opcode.removesuffix("-start"), shape)
    if both is None:
        return extents(instruction.shape)
    part = both[0 if instruction.opcode == "copy-start" else 1]
    return tuple(Extent(each.dimensions, each.bytes or 0) for each in shapes.arrays(part))


_of_short, _of_long = lru_cache(maxsize=4096)(_extents), lru_cache(maxsize=8)(_extents)


def cost(instruction: Instruction, operands: Sequence[Extent]) -> CountedCost:
    """Return the cost of an instruction with these operands, without the computations that it calls."""
    opcode = instruction.opcode
    if opcode in _FREE or opcode.endswith(_ENDS):
        return CountedCost()
    out = results(instruction)
    opcode = opcode if opcode in ELEMENTWISE else opcode.removesuffix("-start")
    if opcode == "custom-call":
        return _library_call_cost(instruction, operands, out)
    found = CountedCost(bytes=_bytes(opcode, operands, out))
    try:
        if opcode in ELEMENTWISE:
            found = found._replace(operations=sum(each.elements for each in out))
        elif opcode in APPLIES:
            found = found._replace(applied=_applied(instruction, operands, out))
        elif opcode in _COMPUTED:
            found = found._replace(operations=_COMPUTED[opcode](instruction, operands, out))
    except _UNREADABLE:
        found = found._replace(is_known=False)
    return found


def _bytes(opcode: str, operands: Sequence[Extent], out: tuple[Extent, ...]) -> int:
    """Return the bytes read and written; a slice counts only the bytes of the slice."""
    written = sum(each.bytes for each in out)
    match opcode:
        case "slice" | "dynamic-slice" | "gather":
            return 2 * written + sum(each.bytes for each in operands[1:])
        case "dynamic-update-slice" if len(operands) > 1:
            return 2 * operands[1].bytes + sum(each.bytes for each in operands[2:])
        case "scatter" if len(operands) > 2:
            count = len(operands) // 2
            return 3 * sum(each.bytes for each in operands[count + 1 :]) + operands[count].bytes
        case _:
            return written + sum(each.bytes for each in operands)


def _applied(instruction: Instruction, operands: Sequence[Extent], out: tuple[Extent, ...]) -> int:
    if instruction.opcode == "reduce":
        return max(0, operands[0].elements - out[0].elements)
    if instruction.opcode == "map":
        return out[0].elements
    if instruction.opcode == "scatter":
        return operands[-1].elements
    each = prod(along.size for along in _window(instruction)) - 1
    if instruction.opcode == "select-and-scatter":
        return operands[1].elements * (each + 1)
    return out[0].elements * each


def _dot(instruction: Instruction, operands: Sequence[Extent], out: tuple[Extent, ...]) -> int:
    """Count two operations per element of the result and position along the contracted dimensions."""
    match = _CONTRACTED.search(instruction.quoted)
    if match is None:
        raise ValueError("a product without contracted dimensions")
    contracted = [int(each.strip('" ')) for each in match[1].split(",") if each.strip('" ')]
    return 2 * out[0].elements * prod(operands[0].dimensions[each] for each in contracted)


def _convolved(
    instruction: Instruction, image: tuple[int, ...], kernel: tuple[int, ...], result: tuple[int, ...]
) -> int:
    """Count two operations per element of the result and kernel position that covers the image."""
    labels = instruction.match(_LABELS)
    if labels is None:
        raise ValueError("a convolution without labels")
    counts = {name: int(count) for name, count in _COUNT.findall(instruction.attributes)}
    window = _window(instruction)
    positions = 1
    for i, along in enumerate(window):
        digit = str(i)
        sizes = (
            image[labels[1].index(digit)],
            kernel[labels[2].index(digit)],
            result[labels[3].index(digit)],
        )
        positions *= _positions(*sizes, along)
    features = image[labels[1].index("f")] // counts.get("feature", 1)
    batch = image[labels[1].index("b")] // counts.get("batch", 1)
    return 2 * features * result[labels[3].index("f")] * batch * positions


@lru_cache(maxsize=512)
def _positions(image: int, kernel: int, result: int, window: _Along) -> int:
    """Count the pairs of kernel position and image element that meet, without padding and dilation holes."""
    _, stride, low, dilation, base = window
    if kernel * (1 if base == 1 else result) > MOST_POSITIONS:
        raise ValueError("a window that takes too long to count")
    found = 0
    for place in range(kernel):
        shift = place * dilation - low  # element r of the result uses position r * stride + shift
        if base == 1:
            first, last = -(shift // stride), (image - 1 - shift) // stride
            found += max(0, min(last, result - 1) - max(first, 0) + 1)
        else:
            met = (r * stride + shift for r in range(result))
            found += sum(at % base == 0 and 0 <= at // base < image for at in met)
    return found


def _window(instruction: Instruction) -> list[_Along]:
    match = instruction.match(_WINDOW)
    if match is None:
        return []
    written = dict(part.split("=", 1) for part in match[1].split() if "=" in part)
    sizes = [int(each) for each in written.get("size", "").split("x") if each]

    def column(name: str) -> list[int]:
        return [int(each.split("_")[0]) for each in written[name].split("x")] if name in written else []

    strides, low = column("stride") or [1] * len(sizes), column("pad") or [0] * len(sizes)
    window, base = column("rhs_dilate") or [1] * len(sizes), column("lhs_dilate") or [1] * len(sizes)
    return list(map(_Along, sizes, strides, low, window, base))


def _fft(instruction: Instruction, operands: Sequence[Extent], out: tuple[Extent, ...]) -> int:  # noqa: ARG001 - shared signature
    match = instruction.match(_LENGTHS)
    lengths = [int(each) for each in match[1].split(",") if each] if match else []
    return 8 * prod(each.bit_length() - 1 for each in lengths) * operands[0].elements


# The operations of an instruction, its operands and the arrays of its result.
_COMPUTED: dict[str, Callable[[Instruction, Sequence[Extent], tuple[Extent, ...]], int]] = {
    "dot": _dot,
    "convolution": lambda instruction, operands, out: _convolved(
        instruction, operands[0].dimensions, operands[1].dimensions, out[0].dimensions
    ),
    "fft": _fft,
    "sort": lambda _instruction, operands, _out: (
        operands[0].elements * max(0, operands[0].elements - 1).bit_length()
    ),
    "triangular-solve": lambda _instruction, operands, _out: (
        2 * operands[0].dimensions[-1] * operands[1].elements
    ),
    "cholesky": lambda _instruction, operands, _out: operands[0].dimensions[-1] * operands[0].elements // 3,
}


def _library_call_cost(
    instruction: Instruction, operands: Sequence[Extent], out: tuple[Extent, ...]
) -> CountedCost:
    """Return the cost of a library call; it is unknown unless the name and attributes determine it."""
    target = _target(instruction)
    if _NO_WORK.fullmatch(target):
        return CountedCost()
    touched = sum(each.bytes for each in (*operands, *out[:1]))
    try:
        if _PRODUCTS.fullmatch(target):
            return CountedCost(_dot(instruction, operands, out), touched)
        if match := _CONVOLUTIONS.fullmatch(target):
            one, two, result = operands[0].dimensions, operands[1].dimensions, out[0].dimensions
            if match[1] == "BackwardInput":
                one, result = result, one
            elif match[1] == "BackwardFilter":
                two, result = result, two
            return CountedCost(_convolved(instruction, one, two, result), touched)
    except _UNREADABLE:
        pass
    return CountedCost(bytes=touched, is_known=False)


def _target(instruction: Instruction) -> str:
    match = _TARGET.search(instruction.quoted)
    return match[1] if match else ""


def is_product(instruction: Instruction) -> bool:
    """Return whether a library call multiplies matrices."""
    return _PRODUCTS.fullmatch(_target(instruction)) is not None


def is_convolution(instruction: Instruction) -> bool:
    return _CONVOLUTIONS.fullmatch(_target(instruction)) is not None


def calls_python(instruction: Instruction) -> bool:
    return _PYTHON.fullmatch(_target(instruction)) is not None
