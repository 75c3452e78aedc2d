"""Runs that hang with all stacks alike, and agents that ask the libraries of their devices."""

from __future__ import annotations

import os
from contextlib import contextmanager
from itertools import count

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.export.json import to_document
from jaxtop_agent.core.board import Board
from jaxtop_agent.hardware.libraries import stuck
from jaxtop_agent.hardware.libraries.stuck import CORES, NCCL, Stuck
from jaxtop_agent.service.identity import identify
from tests import builders
from tests.builders import NOW, agent_id
from tests.cases import thorough
from tests.staged.stalls import BEGAN, VALUE, Run
from tests.stories import hello

SEEDS = [*range(6), *map(thorough, range(6, 20))]


def tick(monkeypatch):
    """A second passes between two questions."""
    seconds = count(int(BEGAN))
    monkeypatch.setattr(stuck, "now_ms", lambda: next(seconds) * 1000)
    monkeypatch.setattr(stuck, "SECOND_REQUEST_S", 0.0)


@contextmanager
def watched(topology, *, viewers=1, is_stuck=True):
    """The board of an agent, and what asks for it; its descriptors are closed afterwards."""
    board = Board(identify("test"))
    board.sampler.topology, board.publisher.viewers, board.publisher.is_stuck = topology, viewers, is_stuck
    try:
        yield board, Stuck(board)
    finally:
        for wakeup in board.wakeups:
            wakeup.close()


def asked(topology, maker, times=2):
    """Return the messages of an agent that is stuck, and the state of the source."""
    with watched(topology) as (board, asking):
        for _ in range(times):
            asking.turn(maker)
        messages = list(iter(board.outbox.take, None))
        return messages, {name: board.sources[name] for name in (NCCL, CORES) if name in board.sources}


def devices(index, each, kind="gpu"):
    return tuple(wire.Device(index * each + i, "H100", kind, i) for i in range(each))


def stalled(chance, each, kind="gpu", hosts=None):
    """A run whose processes all wait at the same line; process 0 is this process."""
    run = Run(hosts or chance.randint(3, 9))
    for i in run.launches:
        said = hello(i, process_count=len(run.launches), started_ms=1, devices=devices(i, each, kind))
        pid = os.getpid() if i == 0 else 40_000 + i
        run.say(i, replace(said, pid=pid, telemetry=f"10.0.0.{i}:7411"))
    run.stand(*run.launches, at=VALUE)
    return run


def finding(run):
    (found,) = [each for each in to_document(run.cluster, run.now)["findings"] if each["rule"] == "stalled"]
    return found


def stopped_steps(*, seen, hung):
    """One process with steps of 0.2 s, watched for `seen` seconds up to now, and hung for the last `hung`."""
    rhythm = wire.Rhythm(1, ("step",), 500, 100, 200_000, 5000, 100, 200_000, 210_000, 300_000)
    began = NOW - seen
    frames = [
        builders.frame(agent_id(0), builders.hello(0, 1), began),
        builders.frame(agent_id(0), wire.Link(wire.LinkState.UP, "10.0.0.0:7411"), began, 0),
    ]
    for second in range(seen + 1):
        at = began + second
        lull = wire.Lull("step", int((NOW - hung) * 1000)) if at > NOW - hung + 3 else None
        steps = 500 + 5 * min(second, max(0, seen - hung))
        said = builders.pulse(0, at, launches=steps, rhythm=replace(rhythm, steps=steps), lull=lull)
        frames.append(builders.frame(agent_id(0), said, at))
    return frames


def named(run):
    """The processes that the diagnosis names, and its text."""
    found = run.diagnosis()
    if found is None:
        return [], ""
    return [int(agent.removeprefix("r1-")) for agent in found.odd], found.text
