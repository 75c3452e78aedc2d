"""What the model keeps of exited processes: bounded by number and age, and dropped ones are counted.

All of it follows from the messages and their times, so live views and replays keep the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.host import EMPTY_HOST, Host
from jaxtop.model.liveness import is_over
from jaxtop.model.views import run_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# The bounds on runs whose processes have all exited: runs, their processes, and seconds. The newest of these
# runs is kept whatever their number, and at any age if no live run is left.
MOST_RUNS, MOST_PROCESSES, RUN_KEPT = 32, 512, 86_400.0
# After this many seconds, a process that exited from a live run keeps only the fact that it exited.
DETAILS_KEPT = 600.0
LOOK_EVERY = 60.0
# Agents that were dropped. Rosters may still list them, and these entries are ignored.
MOST_NAMED = 1_000


class Place(NamedTuple):
    """A process of a run."""

    run: str
    process_index: int | None


@dataclass
class Dropped:
    """The number of dropped processes, the last of them by agent, and how often each process was started."""

    count: int = 0
    agents: dict[str, Place] = field(default_factory=dict)
    starts: dict[Place, int] = field(default_factory=dict)

    def copy(self) -> Dropped:
        return replace(self, agents=self.agents.copy(), starts=self.starts.copy())

    def add(self, host: Host) -> None:
        """Record that a process was dropped."""
        place = Place(run_of(host), host.process_index)
        self.count += 1
        self.agents[host.agent] = place
        if len(self.agents) > MOST_NAMED:
            del self.agents[next(iter(self.agents))]
        if place.process_index is not None:
            self.starts[place] = self.starts.get(place, 0) + 1

    def forget_runs(self, known: set[str]) -> None:
        """Remove the starts of runs that are no longer in the model."""
        self.starts = {place: count for place, count in self.starts.items() if place.run in known}


def replaced(hosts: Mapping[str, Host], at: float) -> Iterator[Host]:
    """Yield the processes that exited by this time and were started again."""
    by_place: dict[Place, list[Host]] = {}
    for host in hosts.values():
        if host.process_index is not None and host.hello is not None:
            by_place.setdefault(Place(run_of(host), host.process_index), []).append(host)
    for found in by_place.values():
        if len(found) > 1:
            newest = max(found, key=_started_ms)
            yield from (
                each
                for each in found
                if is_over(each) and _started_ms(each) < _started_ms(newest) and _ended_at((each,)) <= at
            )


def outlived(hosts: Mapping[str, Host], at: float) -> Iterator[Host]:
    """Yield the processes of runs that ended by this time, where the runs are too many or too old."""
    members: dict[str, list[Host]] = {}
    for host in hosts.values():
        members.setdefault(run_of(host), []).append(host)
    past = [found for found in members.values() if all(map(is_over, found)) and _ended_at(found) <= at]
    past.sort(key=_ended_at, reverse=True)
    count, is_any_left = 0, len(past) < len(members)
    for number, found in enumerate(past):
        count += len(found)
        is_newest = number == 0
        is_old = at - _ended_at(found) > RUN_KEPT and (is_any_left or not is_newest)
        if is_old or (not is_newest and (number >= MOST_RUNS or count > MOST_PROCESSES)):
            yield from found


def faded(hosts: Mapping[str, Host], at: float) -> list[Host]:
    """Return exited processes of live runs whose details have been kept for long enough."""
    going_on = {run_of(host) for host in hosts.values() if not is_over(host)}
    return [
        host
        for host in hosts.values()
        if is_over(host)
        and _has_details(host)
        and run_of(host) in going_on
        and at - _ended_at((host,)) > DETAILS_KEPT
    ]


def without_details(host: Host) -> Host:
    """Return the host reduced to its identity and how it ended."""
    return Host(
        host.agent,
        hello=host.hello,
        peer=host.peer,
        run=host.run,
        run_name=host.run_name,
        process_count=host.process_count,
        bye=host.bye,
        link=host.link,
        link_at=host.link_at,
        heard_at=host.heard_at,
        pulse_at=host.pulse_at,
    )


def _has_details(host: Host) -> bool:
    return host.pulse is not EMPTY_HOST.pulse or host.arrays is not EMPTY_HOST.arrays


def _started_ms(host: Host) -> int:
    return host.hello.started_ms if host.hello is not None else 0


def _ended_at(hosts: Iterable[Host]) -> float:
    return max(max(host.link_at, host.heard_at or 0.0) for host in hosts)
