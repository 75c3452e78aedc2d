"""The limits that keep what others send small: where each is in the code, and what happens beyond it.

The page of security shows them with the values that the code has.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from jaxtop.base import units


class Limit(NamedTuple):
    """A constant as `module:NAME`, what it bounds, in which unit, and what happens beyond it."""

    what: str
    place: str
    unit: str
    beyond: str

    @property
    def value(self) -> float:
        module, _, name = self.place.partition(":")
        found: float = getattr(import_module(module), name)
        return found

    def shown(self) -> str:
        if self.unit == "bytes":
            return units.in_bytes(round(self.value))
        return (
            f"{self.value:,g} {self.unit}".strip()
            if self.value < 1e6
            else f"{round(self.value):,} {self.unit}".strip()
        )


REFUSED = "the message is refused, and counted by its reason"
SKIPPED = "the message is refused unread"

LIMITS = {
    "Connections of an agent and of a relay": (
        Limit(
            "connections",
            "jaxtop.transport.listener:MAX_CONNECTIONS",
            "",
            "the oldest without a key are ended, then the newest",
        ),
        Limit(
            "descriptors for them: one of so many that are left",
            "jaxtop.transport.listener:DESCRIPTOR_FRACTION",
            "",
            "as above",
        ),
        Limit(
            "new connections a second",
            "jaxtop.transport.listener:MOST_A_SECOND",
            "",
            "none are accepted for a second",
        ),
        Limit(
            "bytes that a connection sends", "jaxtop.transport.listener:ALLOWED_BYTES", "bytes", "it is ended"
        ),
        Limit(
            "and more of them a second", "jaxtop.transport.listener:ALLOWED_A_SECOND", "bytes", "it is ended"
        ),
        Limit("viewers", "jaxtop.transport.telemetry:MOST_VIEWERS", "", "a further one gets nothing"),
        Limit(
            "messages that wait for one viewer",
            "jaxtop.transport.server:QUEUE",
            "",
            "messages are dropped, and counted as missed",
        ),
        Limit(
            "bytes of a request", "jaxtop.transport.server:MAX_REQUEST", "bytes", "the connection is ended"
        ),
        Limit(
            "bytes of a message to all viewers",
            "jaxtop.wire.codec:MAX_TELEMETRY",
            "bytes",
            "it says less: fewer rows, and how many are left out",
        ),
        Limit(
            "requests of a relay's viewer under way",
            "jaxtop.features.relay.relay_listener:MAX_ASKED",
            "",
            "further ones are dropped",
        ),
    ),
    "Messages of agents": (
        Limit("bytes of a message", "jaxtop.wire.codec:MAX_PAYLOAD", "bytes", SKIPPED),
        Limit(
            "bytes of a frame of the network",
            "jaxtop.transport.client:MAX_MESSAGE",
            "bytes",
            "the connection is ended",
        ),
        Limit("devices", "jaxtop.wire.bounds:MAX_DEVICES", "", REFUSED),
        Limit("processes", "jaxtop.wire.bounds:MAX_PROCESSES", "", REFUSED),
        Limit("axes of a mesh", "jaxtop.wire.bounds:MAX_AXES", "", REFUSED),
        Limit("dimensions of an array", "jaxtop.wire.bounds:MAX_DIMENSIONS", "", REFUSED),
        Limit("shardings in a table of arrays", "jaxtop.wire.bounds:MAX_SHARDINGS", "", REFUSED),
        Limit("groups of replicas", "jaxtop.wire.bounds:MAX_GROUPS", "", REFUSED),
        Limit("places that a message unfolds to", "jaxtop.wire.bounds:MAX_PLACES", "", REFUSED),
        Limit("operations of a program", "jaxtop.wire.bounds:MAX_OPERATIONS", "", REFUSED),
        Limit("time, in seconds since 1970", "jaxtop.wire.bounds:LATEST_S", "", REFUSED),
        Limit("reasons of refusals", "jaxtop.wire.bounds:MOST_REASONS", "", "counted as other reasons"),
        Limit(
            "frames of agents that wait to be shown",
            "jaxtop.sources.backlog:MOST_FRAMES",
            "",
            "older ones are dropped, and a note says so",
        ),
        Limit("bytes of them", "jaxtop.sources.backlog:MOST_BYTES", "bytes", "as above"),
        Limit("hosts of a host file", "jaxtop.base.hostnames:MOST_HOSTS", "", "refused in one line"),
    ),
    "What an agent keeps and sends of a script": (
        Limit(
            "arrays that are listed",
            "jaxtop_agent.arrays.listing:MAX_LIVE_ARRAYS",
            "",
            "no array is shown until they are fewer; the reason is",
        ),
        Limit(
            "arrays in a table",
            "jaxtop_agent.arrays.table:MOST_LISTED",
            "",
            "the largest; the rest are a sum",
        ),
        Limit(
            "variables that are visited to name arrays",
            "jaxtop_agent.arrays.walk:MOST_VISITED",
            "",
            "the other arrays have no name",
        ),
        Limit("nesting of containers", "jaxtop_agent.arrays.walk:MAX_DEPTH", "", "as above"),
        Limit("characters of a name", "jaxtop_agent.arrays.paths:LONGEST_NAME", "", "it is cut"),
        Limit(
            "programs", "jaxtop_agent.collectors.programs:MOST_PROGRAMS", "", "those that ran most recently"
        ),
        Limit(
            "threads in stacks", "jaxtop_agent.stalls.stacks:MOST_THREADS", "", "the main thread comes first"
        ),
        Limit("frames of a stack", "jaxtop_agent.stalls.stacks:MOST_FRAMES", "", "the innermost"),
        Limit(
            "threads with native frames",
            "jaxtop_agent.native.sampling:MOST_THREADS",
            "",
            "the main thread, Python's, then others that communicate",
        ),
        Limit("native frames of a thread", "jaxtop_agent.native.sampling:MOST_FRAMES", "", "the innermost"),
        Limit(
            "CPU time to read native frames",
            "jaxtop_agent.native.sampling:CPU_S",
            "s",
            "the stacks are incomplete, and say so",
        ),
        Limit(
            "scalars that are followed",
            "jaxtop_agent.logged.courses:MOST_COURSES",
            "",
            "further names are not followed",
        ),
        Limit(
            "scalars with a curve",
            "jaxtop.wire.scalars:MOST_CURVES",
            "",
            "losses take the place of others; others have none",
        ),
        Limit(
            "bytes of what an engine serves",
            "jaxtop_agent.served.scraper:MOST_BYTES",
            "bytes",
            "not read; the reason is shown",
        ),
        Limit(
            "figures of an engine",
            "jaxtop_agent.served.figures:MOST_FIGURES",
            "",
            "those of requests and latencies come first",
        ),
        Limit(
            "bytes of a profile that is read",
            "jaxtop_agent.profiler.reading:MOST_BYTES",
            "bytes",
            "windows get shorter",
        ),
    ),
    "Recordings and traces": (
        Limit(
            "bytes that a file unpacks to",
            "jaxtop.recording.index:MOST_UNPACKED",
            "bytes",
            "refused, if it is also more than the next",
        ),
        Limit(
            "times of its size that it unpacks to",
            "jaxtop.recording.index:MOST_UNPACKED_TIMES",
            "",
            "refused",
        ),
        Limit(
            "unpacked chunks that are kept",
            "jaxtop.recording.reader:MOST_CHUNKS",
            "",
            "read again when needed",
        ),
        Limit(
            "bytes that wait for a slow disk",
            "jaxtop.recording.thread:MOST_WAITING_BYTES",
            "bytes",
            "the recording has a gap, and says so",
        ),
        Limit("bytes of a trace", "jaxtop.traces.files:MOST_BYTES", "bytes", "refused before it is read"),
        Limit("events of a trace", "jaxtop.traces.files:MOST_EVENTS", "", "refused"),
        Limit(
            "bytes of a ledger that are read",
            "jaxtop.store.ledgers:MOST_BYTES",
            "bytes",
            "the rest is not read",
        ),
        Limit("ledgers that are kept", "jaxtop.store.ledgers:MOST_FILES", "", "the oldest are removed"),
    ),
    "Over HTTP": (
        Limit(
            "clients of the exporter at a time",
            "jaxtop.cli.serving.http_server:MAX_CLIENTS",
            "",
            "a further one is refused in words",
        ),
        Limit(
            "connections without a password or cookie",
            "jaxtop.cli.serving.listening:MAX_STRANGERS",
            "",
            "the oldest is ended",
        ),
        Limit(
            "seconds for a request and its password",
            "jaxtop.cli.serving.listening:REQUEST_S",
            "s",
            "the connection is ended",
        ),
        Limit(
            "tabs of `--web`",
            "jaxtop.features.web.browser.server:MAX_TABS",
            "",
            "a further one is refused in words",
        ),
    ),
}


def table() -> str:
    lines = []
    for title, limits in LIMITS.items():
        lines += [f"**{title}**", "", "| limit | at most | beyond it |", "|---|---|---|"]
        lines += [f"| {each.what} | {each.shown()} | {each.beyond} |" for each in limits]
        lines.append("")
    return "\n".join(lines).strip()
