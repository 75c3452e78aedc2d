"""Find out which of the addresses that a person gave belong to agents, a limited number at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.sources.connection import Connection
from jaxtop.wire import LinkState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import zmq

    from jaxtop.sources.descriptors import Descriptors
    from jaxtop.sources.requests import RequestPool

# The most addresses that are probed at the same time.
AT_ONCE = 256
# A target with several addresses has the first of these states that one of them is in.
_MOST_INFORMATIVE = (
    LinkState.CONNECTING, LinkState.REFUSED, LinkState.BLOCKED, LinkState.STOPPED, LinkState.UNREACHABLE,
    LinkState.CLOSED,
)  # fmt: skip


class Seed(NamedTuple):
    """A target that a person typed, with the addresses it may mean, or an agent from a run file.

    `exited` is the state of the link of an agent whose process is known to have exited; None for others.
    """

    target: str
    endpoints: tuple[str, ...] = ()
    hello: wire.Hello | None = None
    exited: LinkState | None = None


@dataclass
class _Address:
    """One of the addresses that a target may mean."""

    connection: Connection
    request_due: float = 0.0


class Seeking:
    """Probe addresses, ask ZeroMQ peers for their roster, and report the state of each target."""

    def __init__(
        self,
        descriptors: Descriptors,
        requests: RequestPool,
        emit: Callable[[wire.Message], None],
        found: Callable[[str, str, wire.Reply | None, list[wire.Frame]], str | None],
    ) -> None:
        """Begin with no targets.

        `emit` passes on a link message. `found` takes a target, an address and the answer from it; it returns
        the id of the agent or relay that answered, if any.
        """
        self._descriptors, self._requests, self._emit, self._found = descriptors, requests, emit, found
        self._targets: dict[str, list[_Address]] = {}
        self._reported: dict[str, LinkState] = {}
        self._now = 0.0
        self._is_behind = False

    def seek(self, target: str, endpoints: Sequence[str]) -> None:
        """Begin to look for an agent at these addresses."""
        addresses = [_Address(Connection(each, self._descriptors, is_of_process=False)) for each in endpoints]
        for address in addresses:
            address.connection.probe_by(0.0)
        self._targets[target] = addresses
        self._report(target)

    @property
    def is_settled(self) -> bool:
        """Whether every target has an answer, or a known reason for having none."""
        return LinkState.CONNECTING not in self._reported.values()

    def wait_with(self, poller: zmq.Poller) -> bool:
        """Let probes wake this poller; return whether a probe is under way or overdue."""
        probing = [each.wait_with(poller) for each in self._connections()]
        return any(probing) or self._is_behind

    def _connections(self) -> Iterator[Connection]:
        return (each.connection for addresses in self._targets.values() for each in addresses)

    def advance(self, now: float) -> None:
        """Advance the probes under way, and begin those that are due, longest wait first."""
        self._now = now
        searched = [(target, each) for target, addresses in self._targets.items() for each in addresses]
        free = AT_ONCE - sum(each.connection.is_probing for _, each in searched)
        for target, address in searched:
            connection = address.connection
            if connection.is_probing:
                connection.advance(now)
            if (connection.is_greeted or connection.state is LinkState.UP) and now >= address.request_due:
                address.request_due = now + connection.pace(now)
                self._request_roster(target, connection, now)
        waiting = [(each.connection.overdue(now), i) for i, (_, each) in enumerate(searched)]
        due = sorted((-since, i) for since, i in waiting if since is not None)
        for _, i in due[: max(0, free)]:
            searched[i][1].connection.advance(now)
        self._is_behind = any(each.connection.overdue(now) is not None for _, each in searched)
        for target in list(self._targets):
            self._report(target)

    def close(self) -> None:
        for each in self._connections():
            each.close()
        self._targets.clear()

    def _request_roster(self, target: str, connection: Connection, now: float) -> None:
        self._requests.send(
            connection.endpoint,
            wire.Request("roster"),
            now,
            partial(self._take_reply, target, connection),
            lambda change: connection.change(change.what, self._now),
        )

    def _take_reply(
        self, target: str, connection: Connection, reply: wire.Reply | None, frames: list[wire.Frame]
    ) -> None:
        is_sought = target in self._targets
        agent = self._found(target, connection.endpoint, reply, frames) if is_sought else None
        if agent is not None:
            for address in self._targets.pop(target):
                address.connection.close()
            del self._reported[target]
            self._emit(wire.Link(LinkState.MERGED, target, agent))

    def _report(self, target: str) -> None:
        states = {address.connection.state or LinkState.CONNECTING for address in self._targets[target]}
        if LinkState.UP in states:  # a peer is there, but has not yet said which agent it is
            states.add(LinkState.CONNECTING)
        state = next(each for each in _MOST_INFORMATIVE if each in states)
        if self._reported.get(target) != state:
            self._reported[target] = state
            self._emit(wire.Link(state, target))
