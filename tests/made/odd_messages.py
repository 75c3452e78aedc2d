"""Messages that are well formed, with one or a few values in them that no honest agent would send.

Random bytes seldom get beyond the decoder. These do: of a message that a story tells, some values become
others of their kind, or lists lose, repeat and swap members. So what is left of it still refers to the rest
of the story: to devices, programs, meshes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from jaxtop import wire

LAST = (1 << 63) - 1
NUMBERS = (
    -(1 << 63), -(1 << 31), -7, -1, 0, 1, 2, 3, 4, 7, 8, 100, 999, 1000, 1 << 16, (1 << 31) - 1, 1 << 31,
    1 << 40, 1 << 53, (1 << 62) - 1, 1 << 62, LAST, (1 << 64) - 1,
)  # fmt: skip
FLOATS = (math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e-9, 0.5, 1.0, 3.4e38, -1e308, 1e308)
TEXTS = (
    "", " ", "a1", "step", "train_step", "jit_train_step", "data", "model", "loss", "parameters", "[b]",
    "[/]", "\x1b[31m", "\x9b2J", "a\nb\tc", "e\u0301\u202e", "节点", "👩\u200d👩", "%s{0}", "P('data', None)",
    "train.py:3 f", "all-reduce", "f32[16,32]", "127.0.0.1:1", "[::1]:99999", "-", "x" * 300, "\0",
)  # fmt: skip
# A message has at most so many changes.
MOST_CHANGES = 3


def changed(raw: bytes, dice: random.Random) -> bytes:
    """Return a message with some values changed."""
    value = msgspec.msgpack.decode(raw)
    for _ in range(dice.randint(1, MOST_CHANGES)):
        places = list(_places(value))
        if places:
            _change(*dice.choice(places), dice)
    return msgspec.msgpack.encode(value)


def odd_stream(
    frames: list[wire.Frame], dice: random.Random, share: float
) -> Iterator[tuple[wire.Frame, bool]]:
    """Yield the frames of a story, of which this share is odd, and for each whether it is.

    An odd frame may also come twice, too late, or from another agent.
    """
    agents = sorted({each.agent for each in frames})
    earlier: list[wire.Frame] = []
    for frame in frames:
        if dice.random() >= share:
            yield frame, False
            earlier.append(frame)
            continue
        source = dice.choice(earlier) if earlier and dice.random() < 0.2 else frame
        agent = dice.choice(agents) if dice.random() < 0.1 else source.agent
        raw = changed(source.raw, dice) if dice.random() < 0.95 else source.raw
        yield source._replace(at=frame.at, agent=agent, raw=raw), True
        if dice.random() < 0.3:
            yield frame, False


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list or dictionary in a value, with each of its indices or keys."""
    inside = [value]
    while inside:
        at = inside.pop()
        keys = range(len(at)) if isinstance(at, list) else list(at)
        for key in keys:
            yield at, key
            if isinstance(at[key], list | dict):
                inside.append(at[key])


def _change(within: Any, key: Any, dice: random.Random) -> None:
    old = within[key]
    match old:
        case bool():
            within[key] = not old
        case int():
            near = old + dice.choice((-1, 1, 1000)), -old, old * 1000
            within[key] = dice.choice(
                (dice.choice(NUMBERS), *(each for each in near if -LAST - 1 <= each <= LAST))
            )
        case float():
            within[key] = dice.choice((*FLOATS, old * 1e6, -old))
        case str():
            within[key] = dice.choice((*TEXTS, old * 2, old[:-1]))
        case bytes():
            within[key] = dice.choice((b"", old[:-1], old * 2, dice.randbytes(len(old))))
        case None:
            within[key] = dice.choice((0, 1, "", [], dice.choice(NUMBERS), dice.choice(FLOATS)))
        case list():
            _change_list(old, dice)
        case dict():
            _change_table(old, dice)
    if dice.random() < 0.05:
        within[key] = dice.choice((None, 0, "", [], {}, dice.choice(NUMBERS), dice.choice(TEXTS)))


def _change_list(old: list[Any], dice: random.Random) -> None:
    match dice.randrange(5):
        case 0:
            old.clear()
        case 1 if old:
            old.pop(dice.randrange(len(old)))
        case 2 if old:
            old.insert(dice.randrange(len(old)), dice.choice(old))
        case 3:
            dice.shuffle(old)
        case _:
            old.extend(old[:] * dice.choice((1, 1, 20)) if len(old) < 100 else [])


def _change_table(old: dict[Any, Any], dice: random.Random) -> None:
    if old and dice.random() < 0.5:
        old[dice.choice(TEXTS)] = old.pop(dice.choice(list(old)))
    else:
        old.update({dice.choice(TEXTS): dice.choice(NUMBERS)})
