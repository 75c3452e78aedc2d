"""Finds what a frame has called that has no frame itself: a compiled function, or a method of an array.

The function's code object has the source position of the running instruction, and the name that it loaded.
Only the variable of that name is read, and no file.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jaxtop_agent.arrays.frames import local

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import CodeType, FrameType

# Reading a longer function would make the script wait too long.
MOST_CODE = 6_000
WAITS = frozenset({"block_until_ready", "copy_to_host_async", "item", "tolist", "__array__", "device_get"})
COMPILED = "PjitFunction"


def launch(frame: FrameType, functions: Collection[str]) -> str | None:
    """Return the compiled function, or the waiting method of an array, that this frame has called, if any."""
    name = _called(frame.f_code, frame.f_lasti)
    if name is None:
        return None
    if name in WAITS or name in functions:
        return name
    found = frame.f_globals.get(name)
    return _compiled(local(frame, name) if found is None else found)


def _compiled(value: Any) -> str | None:
    """Return the name of a compiled function; None for other values, of which only the type is read."""
    return str(value.__name__) if type(value).__name__ == COMPILED else None


@lru_cache(maxsize=512)
def _called(code: CodeType, last: int) -> str | None:
    """Return the last name of the expression being called: `step` for `step(x)` and `model.run.step(x)`."""
    at = last // 2
    if at < 0 or len(code.co_code) > MOST_CODE:
        return None
    positions = list(code.co_positions())
    line, _, column, _ = positions[at]
    if column is None:
        return None
    name, is_call = None, False
    for instruction in dis.get_instructions(code):
        place = instruction.offset // 2
        if place > at:
            break
        is_call = "CALL" in instruction.opname
        starts_there = positions[place][0] == line and positions[place][2] == column
        if starts_there and instruction.opname.startswith("LOAD_") and isinstance(instruction.argval, str):
            name = instruction.argval
    return name if is_call else None
