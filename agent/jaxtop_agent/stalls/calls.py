"""Finds what a frame has called that has no frame itself: a compiled function, or a method of an array.

The function's code object has the source position of the running instruction, and the names that it loaded:
`model`, `run` and `step` for `model.run.step(x)`. Only these variables and attributes are read, and no file.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from typing import TYPE_CHECKING

from jaxtop_agent.arrays.containers import attribute
from jaxtop_agent.arrays.frames import local

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import CodeType, FrameType

# Reading a longer function would make the script wait too long.
MOST_CODE = 6_000
WAITS = frozenset({"block_until_ready", "copy_to_host_async", "item", "tolist", "__array__", "device_get"})
# The types of compiled functions; versions of JAX before 0.10 have one of their own for `pmap`.
COMPILED = frozenset({"PjitFunction", "PmapFunction"})


def launch(frame: FrameType, functions: Collection[str]) -> str | None:
    """Return the compiled function, or the waiting method of an array, that this frame has called, if any."""
    names = _called(frame.f_code, frame.f_lasti)
    if not names:
        return None
    if names[-1] in WAITS or names[-1] in functions:
        return names[-1]
    found = frame.f_globals.get(names[0])
    value = local(frame, names[0]) if found is None else found
    for name in names[1:]:
        value = attribute(value, name)
    return str(value.__name__) if type(value).__name__ in COMPILED else None


@lru_cache(maxsize=512)
def _called(code: CodeType, last: int) -> tuple[str, ...]:
    """Return the names of the expression being called; none if it is not a plain chain of names."""
    at = last // 2
    if at < 0 or len(code.co_code) > MOST_CODE:
        return ()
    positions = list(code.co_positions())
    line, _, column, _ = positions[at]
    if column is None:
        return ()
    names: list[str] = []
    is_call = False
    for instruction in dis.get_instructions(code):
        place = instruction.offset // 2
        if place > at:
            break
        is_call = "CALL" in instruction.opname
        starts_there = positions[place][0] == line and positions[place][2] == column
        if starts_there and instruction.opname.startswith("LOAD_") and isinstance(instruction.argval, str):
            if not instruction.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
                names = []
            names.append(instruction.argval)
    return tuple(names) if is_call else ()
