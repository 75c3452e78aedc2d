"""Messages that a faulty or hostile agent could send: well-formed, with odd values in odd places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop.export import FORMATS
from jaxtop.model import keyframe, slices
from jaxtop.tui.core.moment import Moment
from jaxtop.tui.core.slices import slices_of
from jaxtop.tui.draw.mesh.axes import physical

if TYPE_CHECKING:
    import random

    from jaxtop.model import Cluster

INTEGERS = (-(1 << 63), -(1 << 62), -(1 << 31), -1, 0, 1, 2, 7, 255, 1 << 17, 1 << 20, 1 << 31, 1 << 32,
            1 << 53, 1 << 61, 1 << 62, (1 << 63) - 1, (1 << 64) - 1)  # fmt: skip
FLOATS = (float("nan"), float("inf"), float("-inf"), -1.0, 0.0, 1e-308, 1e308, 4.6e18)
WORDS = (
    "", " ", "[/]", "[link=", "\x1b[31m\x07", "\n", "\r\n", "a" * 300, "\u202e", "'[\"", "/", "<module>", "1",
    "=1+1",
)  # fmt: skip
MOST_TIMES = 40


def mutant(message: msgspec.Struct | bytes, dice: random.Random) -> bytes:
    """The message with one to three of its parts replaced, as bytes."""
    raw = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
    value = msgspec.msgpack.decode(raw)
    for _ in range(dice.randint(1, 3)):
        places = list(_places(value))
        holder, key = dice.choice(places)
        holder[key] = _odd(holder[key], dice)
    return msgspec.msgpack.encode(value)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every part, by what holds it and where."""
    found: list[tuple[Any, Any]] = []
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        if key != "type":
            found.append((value, key))
            found += _places(value[key])
    return found


def _odd(value: Any, dice: random.Random) -> Any:
    if isinstance(value, dict):
        choices: tuple[Any, ...] = {}, {dice.choice(WORDS): each for each in value.values()}
    elif isinstance(value, list):
        choices = [], value[1:], value[:-1], value[::-1], value + value[:1], value * MOST_TIMES
    elif isinstance(value, str):
        choices = *WORDS, value + dice.choice(WORDS)
    elif isinstance(value, float):
        choices = FLOATS
    elif isinstance(value, bytes):
        choices = b"", value[1:], value * MOST_TIMES, b"\xff" * len(value)
    elif value is None or isinstance(value, bool):
        choices = True, False, *INTEGERS
    else:
        near = (each for each in (value + 1, value - 1, -value) if each in range(-(1 << 63), 1 << 64))
        choices = *INTEGERS, *near
    return None if dice.random() < 0.08 else dice.choice(choices)


def show(cluster: Cluster, now: float) -> None:
    """Derive and write all that can be shown or recorded of it, but the screens."""
    moment = Moment(cluster, now)
    for view in moment.array_views:
        slices(view)
        slices_of(view)
    for run in moment.runs:
        physical(moment.device_views, run.id)
    for write in FORMATS.values():
        assert write(cluster, now)
    assert list(keyframe.frames(cluster, now, has_windows=True))
