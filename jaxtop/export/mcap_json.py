"""A session as an MCAP file of JSON, which Foxglove and other viewers show without an extension.

Each process has topics of its own: `/NODE-INDEX/device/ID` and the parts of a pulse (`host`, `step`, `rhythm`
…) with figures to plot, and one topic for each other kind of message. `/log` has events and findings.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from jaxtop import __version__
from jaxtop.base.names import as_file_name
from jaxtop.export.decoded_messages import MessageKind
from jaxtop.recording import schemas
from jaxtop.recording.container import McapFile
from jaxtop.wire.bounds import NANOSECONDS, to_ns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jaxtop import wire
    from jaxtop.export.decoded_messages import JsonSchema
    from jaxtop.model import Host, LoggedEvent
    from jaxtop.sources import Session

ENCODING = "json"
# Channels are numbered with 16 bits.
MAX_TOPICS = (1 << 16) - 1
# The end of the file, with its whole index, is written once for this many bytes.
FLUSH_BYTES = 64 << 20
PROGRESS_EVERY = 1_000

# The schema that log panels know by its name, with the severities of jaxtop as its levels.
LOG, LOG_TOPIC = "foxglove.Log", "/log"
_LEVELS = {"UNKNOWN": 0, "DEBUG": 1, "INFO": 2, "WARNING": 3, "ERROR": 4, "FATAL": 5}
_LEVEL_OF = {"info": _LEVELS["INFO"], "warning": _LEVELS["WARNING"], "critical": _LEVELS["ERROR"]}
_TIME = {"type": "object", "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}}}
_LOG_SCHEMA = {
    "type": "object",
    "properties": {
        "timestamp": {"title": "time", **_TIME},
        "level": {"oneOf": [{"title": name, "const": number} for name, number in _LEVELS.items()]},
        "message": {"type": "string"},
        "name": {"type": "string"},
        "file": {"type": "string"},
        "line": {"type": "integer"},
    },
}
_METRIC = {"type": "object", "properties": {"value": {"type": "number"}}}


class ExportSummary(NamedTuple):
    """What an export wrote, and what it left out."""

    messages: int
    topics: int
    unreadable: int
    topics_left_out: int


def write(
    session: Session,
    path: Path,
    start: float | None = None,
    step: float | None = None,
    progress: Callable[[float], object] = lambda _: None,
) -> ExportSummary:
    """Write the session, from a time on, to a new file; `step` is the least time between two pulses."""
    span = session.span
    assert span is not None
    first, last = start if start is not None else span[0], span[1]
    progress(0.0)
    topics = _Topics(McapFile(path, "", f"jaxtop {__version__}", is_indexed=True))
    try:
        export = _Export(session, topics, step or 0.0)
        events = deque(each for each in session.overview.events if each.at >= first)
        state = (frame._replace(at=first) for frame in session.opening()) if start is None else iter(())
        for number, frame in enumerate(chain(state, session.frames(start))):
            while events and events[0].at <= frame.at:
                export.log(events.popleft())
            export.take(frame)
            if number % PROGRESS_EVERY == 0:
                progress((frame.at - first) / max(last - first, 1e-9))
        for event in events:
            export.log(event)
        return ExportSummary(*topics.finish(), export.unreadable, len(topics.left_out))
    finally:
        topics.close()


class _Topics:
    """The topics of the file; a topic and its schema are written with its first message."""

    def __init__(self, file: McapFile) -> None:
        self._file, self._flushed = file, 0
        self._channels: dict[str, int] = {}
        self._schemas: dict[tuple[str, bytes], int] = {}
        self._named: dict[str, int] = {}
        self._messages = 0
        self.left_out: set[str] = set()

    def put(self, at: float, topic: str, schema: Callable[[], tuple[str, JsonSchema]], value: Any) -> None:
        """Write a message; `schema` returns the name and the schema for the first one of the topic."""
        channel = self._channels.get(topic)
        if channel is None:
            if len(self._channels) >= MAX_TOPICS:
                if len(self.left_out) < MAX_TOPICS:
                    self.left_out.add(topic)
                return
            channel = self._channels[topic] = self._file.channel(topic, ENCODING, {}, self._schema(*schema()))
        self._messages += 1
        self._file.message(channel, to_ns(at), self._messages % (1 << 32), msgspec.json.encode(value))
        if self._file.size - self._flushed > FLUSH_BYTES:
            self._file.flush()
            self._flushed = self._file.size

    def _schema(self, name: str, schema: JsonSchema) -> int:
        content = msgspec.json.encode({"title": name, **schema})
        number = self._schemas.get((name, content))
        if number is None:
            # A viewer takes schemas of one name for the same.
            count = self._named[name] = self._named.get(name, 0) + 1
            shown = name if count == 1 else f"{name}.{count}"
            number = self._schemas[name, content] = self._file.schema(shown, schemas.ENCODING, content)
        return number

    def finish(self) -> tuple[int, int]:
        """Write the rest, and return the number of messages and of topics."""
        self._file.flush()
        return self._messages, len(self._channels)

    def close(self) -> None:
        self._file.close()


class _Export:
    """Turns frames and events into messages on topics."""

    def __init__(self, session: Session, topics: _Topics, step: float) -> None:
        self._topics, self._step = topics, step
        self._stored: dict[str, list[bytes]] = {}
        for recording in session.recordings:
            for name, content in recording.schemas().items():
                self._stored.setdefault(name.removeprefix(schemas.PREFIX), []).append(content)
        self._kinds: dict[str, MessageKind] = {}
        self._names: dict[str, str] = {"": "viewer"}
        self._devices: dict[str, list[Any]] = {}
        self._pulsed: dict[str, float] = {}
        self._launches: dict[str, dict[str, Any]] = {}
        self.unreadable = 0
        # The last moment knows the indices that processes got while the session was recorded.
        span = session.span
        for host in session.at(span[1]).hosts.values() if span is not None else ():
            self._meet(host)

    def _meet(self, host: Host) -> None:
        which = host.process_index if host.process_index is not None else host.pid
        if host.hostname is not None:
            self._name(host.agent, host.hostname, which)
        self._devices[host.agent] = [each.id for each in host.hello.devices] if host.hello else []

    def _name(self, agent: str, hostname: object, which: object) -> None:
        """Name the topics of an agent; a process that took the place of another has its agent id, too."""
        name = as_file_name(f"{hostname}-{which}")
        is_taken = name in self._names.values()
        self._names.setdefault(agent, as_file_name(f"{name[:40]}-{agent[:6]}") if is_taken else name)

    def log(self, event: LoggedEvent) -> None:
        seconds, nanoseconds = divmod(to_ns(event.at), NANOSECONDS)
        value = {
            "timestamp": {"sec": seconds, "nsec": nanoseconds},
            "level": _LEVEL_OF.get(event.severity, _LEVELS["UNKNOWN"]),
            "message": event.text,
            "name": self._name_of(event.agent) if event.agent else "jaxtop",
            "file": event.kind,
            "line": 0,
        }
        self._topics.put(event.at, LOG_TOPIC, lambda: (LOG, _LOG_SCHEMA), value)

    def take(self, frame: wire.Frame) -> None:
        kind = self._kinds.get(frame.kind)
        if kind is None:
            kind = self._kinds[frame.kind] = MessageKind(frame.kind, self._stored.get(frame.kind, ()))
        try:
            message = kind.read(frame.raw)
        except ValueError:
            self.unreadable += 1
            return
        if not isinstance(message, dict):  # of a version whose fields are not known
            message = {"value": message}
        elif frame.kind == "hello":
            self._hear(frame.agent, message)
        elif frame.kind == "pulse":
            if self._is_wanted(frame, message):
                self._take_pulse(frame, kind, message)
            return
        self._put(frame, kind, (), frame.kind, message)

    def _hear(self, agent: str, hello: dict[str, Any]) -> None:
        if agent not in self._names and "hostname" in hello:
            which = hello.get("process_index")
            self._name(agent, hello["hostname"], hello.get("pid") if which is None else which)
        devices = hello.get("devices")
        listed = devices if isinstance(devices, list) else []
        self._devices[agent] = [each.get("id") for each in listed if isinstance(each, dict)]

    def _is_wanted(self, frame: wire.Frame, pulse: dict[str, Any]) -> bool:
        """Return whether a pulse is far enough from the last one; launch counters join those of the next."""
        if not self._step:
            return True
        launches = self._launches.setdefault(frame.agent, {})
        counted = pulse.get("launches")
        launches |= counted if isinstance(counted, dict) else {}
        if frame.at - self._pulsed.get(frame.agent, -math.inf) < self._step:
            return False
        self._pulsed[frame.agent] = frame.at
        pulse["launches"] = self._launches.pop(frame.agent)
        return True

    def _take_pulse(self, frame: wire.Frame, kind: MessageKind, pulse: dict[str, Any]) -> None:
        reports = [each for each in (pulse.get("step"), pulse.pop("logged", None)) if isinstance(each, dict)]
        metrics = [each.pop("metrics", None) for each in reports]
        for name, value in chain.from_iterable(each.items() for each in metrics if isinstance(each, dict)):
            if isinstance(value, int | float) and math.isfinite(value):  # JSON has no other numbers
                topic = f"/{self._name_of(frame.agent)}/metric/{as_file_name(name)}"
                self._topics.put(
                    frame.at, topic, lambda: (f"{schemas.PREFIX}metric", _METRIC), {"value": value}
                )
        for part in [name for name, value in pulse.items() if isinstance(value, dict)]:
            figures = pulse.pop(part)
            if part == "devices":
                self._put_devices(frame, kind, figures)
            elif figures:
                self._put(frame, kind, (part,), part, figures)
        self._put(frame, kind, (), frame.kind, pulse)

    def _put_devices(self, frame: wire.Frame, kind: MessageKind, columns: dict[str, Any]) -> None:
        listed = {name: column for name, column in columns.items() if isinstance(column, list)}
        ids = self._devices.get(frame.agent, [])

        def schema() -> tuple[str, JsonSchema]:
            return f"{schemas.PREFIX}device", kind.columns_schema(kind.schema_of("devices"))

        for place in range(max(map(len, listed.values()), default=0)):
            figures = {
                name: column[place]
                for name, column in listed.items()
                if place < len(column) and column[place] is not None
            }
            if figures:
                number = as_file_name(str(ids[place] if place < len(ids) else f"local-{place}"))
                self._topics.put(frame.at, f"/{self._name_of(frame.agent)}/device/{number}", schema, figures)

    def _put(
        self, frame: wire.Frame, kind: MessageKind, path: tuple[str, ...], name: str, value: Any
    ) -> None:
        def schema() -> tuple[str, JsonSchema]:
            return schemas.PREFIX + name, kind.object_schema(path, value)

        self._topics.put(frame.at, f"/{self._name_of(frame.agent)}/{as_file_name(name)}", schema, value)

    def _name_of(self, agent: str) -> str:
        return self._names.get(agent) or as_file_name(agent)
