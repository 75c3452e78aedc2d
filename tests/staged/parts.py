"""Processes whose wall time has known parts: launches in windows, a rhythm, samples of the main thread."""

from __future__ import annotations

from jaxtop import wire
from jaxtop.model import RULES_BY_NAME, Cluster, runs
from jaxtop.model.findings.rule import RunFacts
from jaxtop.wire import LinkState
from tests.builders import NOW, agent_id, frame, hello

LINE = wire.Place("train.py", 54, "load")
MS = 1000


def window(*launches, at=NOW, program="jit_train_step", exposed=0):
    """A window with launches of a program at these times and of these durations, in milliseconds."""
    return wire.Window(
        int(at * 1000),
        1_000_000,
        1,
        ((program, "f"),),
        launches=tuple(
            wire.Launch(0, i, start * MS, took * MS, exposed * MS, exposed * MS)
            for i, (start, took) in enumerate(launches)
        ),
    )


def activity(*, script=0, launch=0, wait=0, compiling=0, lines=None, at=NOW, span_s=20, **more):
    lines = (wire.ActiveLine(LINE, wire.SCRIPT, script),) if lines is None else lines
    return wire.Activity(int(at * 1000), span_s * 1000, (script, launch, wait, compiling), lines, **more)


def rhythm(*functions, per_second=5.0, p50_ms=200):
    return wire.Rhythm(1, functions or ("train_step",), 50, 100, p50_ms * MS, int(per_second * 1000), 50,
                       p50_ms * MS, p50_ms * MS, p50_ms * MS)  # fmt: skip


def run(*messages, launches=50, functions=("train_step",), rhythms=None, pulses=(0, 1)):
    """A process that launches its functions so often in ten seconds."""
    cluster, agent = Cluster(), agent_id(0)
    cluster.feed(frame(agent, wire.Link(LinkState.UP, "10.0.0.1:7411"), NOW - 20, 0))
    cluster.feed(frame(agent, hello(0, 1), NOW - 20))
    counts = dict.fromkeys(functions, launches) if isinstance(launches, int) else launches
    listed = tuple(wire.Program(f"jit_{each}", "f", 4, 4) for each in counts)
    cluster.feed(frame(agent, wire.Programs(1, listed, seen_ms=(5,) * len(listed)), NOW - 20))
    for i in pulses:
        counted = {name: 7 + i * count for name, count in counts.items()}
        seen = wire.Pulse(int((NOW - 10 + 10 * i) * 1000), launches=counted, rhythm=rhythms or rhythm())
        cluster.feed(frame(agent, seen, NOW - 10 + 10 * i))
    for each in messages:
        cluster.feed(frame(agent, each, NOW))
    return cluster


EVEN = ((0, 100), (200, 100), (400, 100), (600, 100))


def two_hosts(*, took, exposed=0, script=(0, 24), rhythms=None, at=NOW - 60, **late):
    """Two processes whose steps take 500 ms; of 40 samples of each main thread so many are in the script.

    One old window shows that launches took so long, of which so much was exposed.
    """
    cluster = Cluster()
    for each in of_two_hosts(took=took, exposed=exposed, script=script, rhythms=rhythms, at=at, **late):
        cluster.feed(each)
    return cluster


def of_two_hosts(*, took, exposed=0, script=(0, 24), rhythms=None, at=NOW - 60, **late):
    """The frames of these processes, one after the other."""
    rhythms = rhythms or (rhythm(per_second=2.0, p50_ms=500),) * 2
    frames = []
    for index in (0, 1):
        agent = agent_id(index)
        listed = (wire.Program("jit_train_step", "f", 8, 4),)
        every = 500 if script[index] else took[index]
        seen = window(*((every * i, took[index]) for i in range(4)), exposed=exposed, at=at)
        samples = activity(script=script[index], wait=40 - script[index], lines=LATE, **late)
        frames += [
            frame(agent, hello(index, 2), NOW - 70),
            frame(agent, wire.Programs(1, listed, seen_ms=(5,)), NOW - 70),
            frame(agent, seen, at),
            *(frame(agent, launched(when, count, rhythms[index]), when) for when, count in LAUNCHED),
            frame(agent, samples, NOW),
        ]
    return frames


# When the processes report how often they have launched their step.
LAUNCHED = ((NOW - 10, 7), (NOW, 27))


def launched(at, count, rhythm):
    return wire.Pulse(int(at * 1000), launches={"train_step": count}, rhythm=rhythm)


def of_rule(name, cluster):
    facts = RunFacts(cluster, runs(cluster, NOW)[0], NOW)
    return list(RULES_BY_NAME[name].findings(facts))


LATE = (wire.ActiveLine(LINE, wire.SCRIPT, 24),)
