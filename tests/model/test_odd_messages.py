"""Runs some of whose messages are well formed but odd: everything is shown, exported, kept and restored."""

from __future__ import annotations

import random
import resource
import time
from functools import partial

import msgspec
import pytest

from jaxtop import wire
from jaxtop.export import FORMATS
from jaxtop.model import Cluster, keyframe
from jaxtop.tui.screens import SCREENS
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.made.every_message import MESSAGES
from tests.made.odd_messages import odd_stream
from tests.stage import Stage, play
from tests.staged import collectives as staged_collectives
from tests.staged import devices as staged_devices
from tests.staged import hardware as staged_hardware
from tests.staged import parts as staged_parts
from tests.support import SOAK

# The odd messages in all, and their share in a story.
COUNT, SHARE = 1_000_000 if SOAK else 1_500, 0.2
# What a message may take: CPU time of the process, and memory. A story has the first message of its kind.
MOST_CPU_S, MOST_BYTES, TRIES = 0.05, 20 << 20, 5
EXACT = 1 << 53
# Of so many stories one is shown by the app, in one of these sizes.
SCREENS_EVERY, SIZES = 50, ((80, 24), (120, 40), (200, 50), (40, 10))


def every_kind() -> list[wire.Frame]:
    """One message of each kind, for a process that is known."""
    return [
        *builders.well(),
        *(frame(agent_id(0), each, NOW, 9) for each in MESSAGES if not isinstance(each, wire.Hello)),
    ]


STORIES = (
    every_kind, builders.training, builders.two_processes, staged_devices.compiled, staged_devices.at_odds,
    staged_devices.held, staged_devices.counted, staged_collectives.late, staged_collectives.in_step,
    staged_collectives.standing, staged_hardware.working, lambda: staged_parts.of_two_hosts(took=(200, 200)),
)  # fmt: skip


def told(cluster: Cluster, at: float) -> list[str]:
    """All that a keyframe tells, as text in which 2 and 2.0 are the same, and NaN equals itself.

    Windows of one moment may be in another order of their processes.
    """
    found = keyframe.frames(cluster, at, has_windows=True)
    return sorted(repr(with_whole_numbers(msgspec.msgpack.decode(each.raw))) for each in found)


def with_whole_numbers(value: object) -> object:
    """The value with an integer for each float without a fraction; large numbers are as exact as floats."""
    if isinstance(value, dict):
        return {with_whole_numbers(key): with_whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(with_whole_numbers, value)]
    if isinstance(value, int | float) and abs(value) > EXACT:
        return f"{value:.12e}"
    return int(value) if isinstance(value, float) and value.is_integer() else value


async def look(stage: Stage, number: int) -> None:
    """Open every screen."""
    for screen in SCREENS:
        await stage.press(screen.key, "down", "enter", "escape")
        assert stage.app.is_running, f"story {number}, screen {screen.key}"


def fed(frames: list[wire.Frame]) -> tuple[Cluster, list[float], list[int]]:
    """A cluster that was told all of these, and of each the seconds of CPU and the bytes that it took."""
    cluster, took, grew = Cluster(), [], []
    for each in frames:
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        cluster.feed(each)
        took.append(time.process_time() - began)
        grew.append((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
    return cluster, took, grew


@pytest.mark.long
@pytest.mark.timeout(4 * 3600 if SOAK else 300)
def test_whatever_well_formed_messages_say_everything_is_shown_and_nothing_takes_long():
    dice, stories = random.Random(20261128), [[*each()] for each in STORIES]
    count, number = 0, 0
    while count < COUNT:
        number += 1
        stream = list(odd_stream(stories[number % len(stories)], dice, SHARE))
        if not number % SCREENS_EVERY:
            play(partial(look, number=number), *(each for each, _ in stream), size=dice.choice(SIZES))
        count += sum(is_odd for _, is_odd in stream)
        frames = [each for each, _ in stream]
        cluster, took, grew = fed(frames)
        at = frames[-1].at
        for _ in range(TRIES):  # on a busy machine anything may seem to take long
            if max(took) >= MOST_CPU_S:
                took = list(map(min, took, fed(frames)[1]))
        assert max(took) < MOST_CPU_S, (
            f"story {number}: {max(took):.3f} s for {frames[took.index(max(took))]}"
        )
        is_warm = number >= len(stories)
        assert not is_warm or max(grew) < MOST_BYTES, f"story {number}: {max(grew)} bytes"
        for name, write in FORMATS.items():
            assert write(cluster, at + 1), f"story {number}: {name}"
        again = Cluster()
        with again.restoring():
            for each in sorted(
                keyframe.frames(cluster, at, has_windows=True), key=lambda each: each.kind in keyframe.KINDS
            ):
                again.feed(each)
        assert not again.rejected, f"story {number}: {again.rejected}"
        assert told(again, at) == told(cluster, at), f"story {number}"
        for write in FORMATS.values():
            assert write(again, at + 1), f"story {number}"
