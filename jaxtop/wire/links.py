"""Who is where, how a connection stands, and what viewers ask."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import AgentId, Process  # noqa: TC001 - msgspec reads the annotations


class Peer(Struct, frozen=True, omit_defaults=True):
    """One line of the roster: where the agent of a process is to be found."""

    agent: AgentId
    process_index: Process | None
    hostname: str
    pid: int
    process_started_ticks: int | None
    boot: str
    pid_namespace: str
    telemetry: str
    requests: str


class Roster(Struct, frozen=True, omit_defaults=True, tag="roster"):
    """All agents of a run, as one of them knows it. Addresses only: a peer proves itself with the key."""

    agent: AgentId
    peers: tuple[Peer, ...]
    run: str | None = None
    name: str | None = None
    process_count: Process | None = None


class Link(Struct, frozen=True, omit_defaults=True, tag="link"):
    """What the viewer's side learnt of a connection; put into the stream, so that recordings hold it too.

    States: connecting, up, closed (nobody listens), silent (the machine answers, the process does not),
    deaf (the process is there, its Python does not answer), unreachable, refused, merged (`text` is the
    agent that stands behind the address). `dead` is a process known to have ended: its own machine says so.
    """

    state: str
    endpoint: str
    text: str = ""
    boot: str = ""


class Request(Struct, frozen=True, omit_defaults=True, tag="request"):
    """What a viewer asks of one agent. `pace` and `capture` act on the run's agent, the others only look."""

    what: str
    interval_ms: int | None = None


class Reply(Struct, frozen=True, omit_defaults=True, tag="reply"):
    """The answer's first part; the messages asked for follow it."""

    what: str
    error: str = ""
    at_ms: int = 0
