"""Addresses of agents, states of connections, requests of viewers and the answers to them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from jaxtop.wire.bounds import AgentId, Count, Process, SpanMs, TimeMs, WireInteger  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.captures import CaptureRequest, CaptureState  # noqa: TC001 - as above

# The most relays between an agent and a viewer.
MAX_PATH = 16


class Peer(Struct, frozen=True, omit_defaults=True):
    """One line of the roster: the address of the agent of a process."""

    agent: AgentId
    process_index: Process | None
    hostname: str
    pid: WireInteger
    process_started_ticks: WireInteger | None
    boot: str
    pid_namespace: str
    telemetry: str
    requests: str


class Roster(Struct, frozen=True, omit_defaults=True, tag="roster"):
    """All agents of a run that one of them knows. Addresses only: a peer proves its identity with the key.

    `kin` are agents of other runs that belong to the same family.
    """

    agent: AgentId
    peers: tuple[Peer, ...]
    run: str | None = None
    name: str | None = None
    process_count: Process | None = None
    kin: tuple[Peer, ...] = ()


class LinkState(StrEnum):
    """The states of a connection to an agent or to an address. The values are the words on the wire."""

    CONNECTING = "connecting"
    UP = "up"
    # Nothing listens at the address.
    CLOSED = "closed"
    # The machine accepts connections, but the process does not run.
    STOPPED = "silent"
    # The process runs, but its Python does not answer.
    BLOCKED = "deaf"
    UNREACHABLE = "unreachable"
    # The agent does not accept the viewer's key.
    REFUSED = "refused"
    # The text of the link is the id of the agent or relay behind the address.
    MERGED = "merged"
    # The process has exited, according to its own machine.
    DEAD = "dead"

    @property
    def has_exited(self) -> bool:
        """Whether this state means that the process has exited."""
        return self in (LinkState.CLOSED, LinkState.DEAD)

    @property
    def is_away(self) -> bool:
        """Whether the process has exited or no packet reaches it: there is nothing to connect to."""
        return self.has_exited or self is LinkState.UNREACHABLE


class Link(Struct, frozen=True, omit_defaults=True, tag="link"):
    """A change of a connection, noticed by the viewer's side and put into the stream so that it is recorded.

    `path` lists the relays through which it is seen, by their ids, the nearest first.
    """

    state: LinkState
    endpoint: str
    text: str = ""
    boot: str = ""
    path: Annotated[tuple[AgentId, ...], Meta(max_length=MAX_PATH)] = ()


# The words of requests on the wire: one takes a window; the others begin a capture, fetch a part of it, and
# end it.
TAKE_WINDOW = "capture"
BEGIN_CAPTURE, FETCH_CAPTURE, END_CAPTURE = "profile", "profile_part", "profile_end"
# The requests that guests may send, too.
READING = frozenset({"ping", "roster", "state", "cost", "stacks"})


class Still(Struct, frozen=True, omit_defaults=True):
    """The report of a process to the agent of process 0 of its run: nothing in it has moved for `for_ms`."""

    run: AgentId
    process_index: Process
    for_ms: Count


class Request(Struct, frozen=True, omit_defaults=True, tag="request"):
    """A viewer's request to one agent. Those in `READING` only read; others change what the agent does.

    `at_ms` is when a requested window or capture begins, so that it is the same moment on all hosts. Requests
    about a capture name it in `capture`; `END_CAPTURE` discards what was not fetched. A `still` comes from
    another agent of the run, which is to be ended if all of it is stuck.
    """

    what: str
    interval_ms: WireInteger | None = None
    at_ms: TimeMs | None = None
    capture: CaptureRequest | None = None
    still: Still | None = None


class Reply(Struct, frozen=True, omit_defaults=True, tag="reply"):
    """The first part of the answer; the requested messages follow it.

    `relay` is the id of the relay that answers; an agent has none. `ends_in_ms` answers a report of a process
    that is stuck: all processes of its run are, and end after this time.
    """

    what: str
    error: str = ""
    at_ms: WireInteger = 0
    relay: AgentId = ""
    capture: CaptureState | None = None
    ends_in_ms: SpanMs | None = None


class Costs(Struct, frozen=True, omit_defaults=True, tag="costs"):
    """The CPU time of each part of an agent, in microseconds, over the `for_ms` since it started.

    Collectors run on the sampler's thread, so their time is part of that thread's. Neither includes JAX's
    hooks, which run on the threads of the script.
    """

    at_ms: TimeMs
    for_ms: WireInteger
    collectors_us: dict[str, WireInteger] = {}
    threads_us: dict[str, WireInteger] = {}
