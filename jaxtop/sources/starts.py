"""Where the folding of a session begins: the last keyframes of all its writers, and the frames after them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jaxtop.model import Cluster
from jaxtop.model.state import HISTORY
from jaxtop.model.tuning import AS_DECLARED
from jaxtop.sources.streams import NOT_YET, side_by_side
from jaxtop.wire.bounds import NANOSECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop import wire
    from jaxtop.model import Tuning
    from jaxtop.sources.streams import WriterStream

# Two viewers receive a message at about the same time, and their clocks differ by at most this.
OVERLAP_NS = 5 * NANOSECONDS


@dataclass
class Starts:
    """The times after which frames are folded: for each track, and for each agent with a state."""

    of_tracks: dict[int, int] = field(default_factory=dict)
    of_agents: dict[str, int] = field(default_factory=dict)


def begun(found: list[WriterStream], ns: int, tuning: Tuning = AS_DECLARED) -> tuple[Cluster, Starts]:
    """Return a cluster from the last keyframe of each track, with their times; an empty one without any."""
    cluster, starts = Cluster(tuning=tuning), Starts()
    states = []
    for number, track in enumerate(found):
        # Keyframes of an agent have no history: history is folded from frames.
        keyframe = track.keyframe_before(ns - (HISTORY * NANOSECONDS if track.is_black_box else 0))
        if keyframe is not None:
            starts.of_tracks[number] = track.time_of(keyframe[1])
            states.append((track.span or NOT_YET, number, keyframe))
    owners: dict[str, int] = {}
    with cluster.restoring():
        for _, number, (recording, keyframe_at) in sorted(states, key=lambda each: each[:2]):
            for frame in found[number].state(recording, keyframe_at):
                # If several tracks have the same agent, the track that began first knows most of its past.
                if not frame.agent or owners.setdefault(frame.agent, number) == number:
                    cluster.feed(frame)
    starts.of_agents = {agent: starts.of_tracks[number] for agent, number in owners.items()}
    return cluster, starts


def frames_between(
    found: list[WriterStream], starts: Starts, after: int | None, until: int | None
) -> Iterator[tuple[int, wire.Frame]]:
    bounds = [_latest(after, starts.of_tracks.get(number)) for number in range(len(found))]
    if len(found) < 2:
        return found[0].frames(bounds[0], until) if found else iter(())
    # A frame in two tracks is yielded once, even if their clocks differ. So earlier frames are read, too.
    streams = [
        track.frames(None if bound is None else bound - OVERLAP_NS, until)
        for track, bound in zip(found, bounds, strict=True)
    ]

    def is_folded(at: int, number: int, frame: wire.Frame) -> bool:
        begin = starts.of_agents.get(frame.agent) if frame.agent else starts.of_tracks.get(number)
        return at <= (_latest(after, begin) or 0)

    return side_by_side(streams, is_folded)


def _latest(*times: int | None) -> int | None:
    return max((each for each in times if each is not None), default=None)
