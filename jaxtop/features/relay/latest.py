"""The last values of all agents: what a viewer needs that comes late, or that missed frames."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import wire
from jaxtop.features.relay.partial import OF_PROGRAM, part_of
from jaxtop.model.arrays.changes import changed_census

if TYPE_CHECKING:
    from collections.abc import Iterable

# The most agents, and the most bytes of each and of all. Beyond the bytes, only what is small is stored.
MOST_AGENTS, MOST_BYTES_EACH, MOST_BYTES = 16_384, 4 << 20, 1 << 30
# Processes that exited or cannot be reached are forgotten after this time, or if there are more of them.
AWAY_S, MOST_AWAY = 3600.0, 1024
# As the agent does for its own new viewers.
WINDOWS, OLDEST_WINDOW_S = 8, 600.0
# So many changes of a census are stored; then they are applied.
MOST_CHANGES = 64
MOST_NAMES = 10_000
# What happened once. It is not part of the last values.
ONCE = frozenset({"event", "compile"})
# Large kinds, and kinds without which a host is still shown.
BULKY = frozenset({"arrays", "arrays_change", "programs", *OF_PROGRAM, "window", "stacks"})
# The order in which a newcomer gets them; the pulse marks the end of the state.
ORDER = (
    "link", "roster", "hello", "programs", "arrays", *OF_PROGRAM, "window", "stacks",
    "nccl", "nccl_times", "tpu_cores", "activity", "pulse", "bye",
)  # fmt: skip


class _Agent:
    """What is stored of one agent. Frames have keys: their kind, and for some what tells them apart."""

    __slots__ = ("away_at", "census", "changes", "frames", "is_up", "launches", "size", "windows")

    def __init__(self) -> None:
        self.frames: dict[object, wire.Frame] = {}
        self.windows: deque[wire.Frame] = deque()
        self.census = (0, 0)
        self.changes: list[wire.Frame] = []
        self.launches: dict[str, int] = {}
        self.is_up = False
        self.away_at: float | None = None
        self.size = 0

    def put(self, key: object, frame: wire.Frame) -> None:
        before = self.frames.get(key)
        self.size += len(frame.raw) - (len(before.raw) if before is not None else 0)
        self.frames[key] = frame

    def drop_bulk(self) -> None:
        self.frames = {key: each for key, each in self.frames.items() if each.kind not in BULKY}
        self.windows.clear()
        self.changes = []
        self.size = sum(len(each.raw) for each in self.frames.values())


class Latest:
    """The last values of each agent, from its frames, mostly as they came.

    Frames of this side (no agent) are those of targets and of run files.
    """

    def __init__(self) -> None:
        self._agents: dict[str, _Agent] = {}
        self.size = 0  # the number of bytes stored
        self._left_out: set[str] = set()
        # Agents whose state is not complete: it must be requested.
        self.broken: dict[str, None] = {}
        self._stores = {
            "link": self._store_link,
            "pulse": self._store_pulse,
            "window": self._store_window,
            "arrays": self._store_census,
            "arrays_change": self._store_change,
            "programs": self._store_programs,
            **dict.fromkeys(OF_PROGRAM, self._store_of_program),
        }

    def __len__(self) -> int:
        """Return the number of agents."""
        return len(self._agents) - ("" in self._agents)

    def __contains__(self, agent: str) -> bool:
        return agent in self._agents

    @property
    def agents(self) -> list[str]:
        return list(self._agents)

    @property
    def up(self) -> int:
        """The number of agents that are heard."""
        return sum(held.is_up for held in self._agents.values())

    def unmet(self) -> list[wire.Link]:
        """Return the targets behind which no agent was met yet."""
        own = self._agents.get("", _Agent())
        found = map(wire.link_of, own.frames.values())
        return [link for link in found if link is not None and link.state != "merged"]

    @property
    def notes(self) -> list[str]:
        count = len(self._left_out)
        what = f"the relay does not hold all of {count} processes: they are too many or too large"
        return [what] if count else []

    def take(self, frame: wire.Frame) -> bool:
        """Store a frame of `poll`; return False if it cannot be read, or its agent is one too many."""
        if frame.kind in ONCE:
            return True
        held = self._agents.get(frame.agent)
        if held is None:
            if len(self._agents) >= MOST_AGENTS:
                self._leave_out(frame.agent)
                return False
            held = self._agents[frame.agent] = _Agent()
        before = held.size
        try:
            self._store(held, frame)
        except (msgspec.DecodeError, wire.Unreadable, RecursionError):
            return False
        finally:
            self.size += held.size - before
        return True

    def frames(self, agent: str, kinds: Iterable[str], now: float) -> list[wire.Frame]:
        """Return the last values of these kinds, in the order of a newcomer."""
        held = self._agents.get(agent)
        if held is None:
            return []
        found: list[wire.Frame] = []
        wanted = set(kinds)
        for kind in ORDER:
            if kind not in wanted and not (kind == "arrays" and "arrays_change" in wanted):
                continue
            if kind == "pulse":
                found += _whole_pulse(held)
            elif kind == "window":
                found += [each for each in held.windows if now - each.at < OLDEST_WINDOW_S]
            else:
                found += [each for each in held.frames.values() if each.kind == kind]
            if kind == "arrays":
                found += held.changes
        return found

    def forget(self, now: float) -> list[str]:
        """Forget processes that left long ago, or too many of them; return their agents."""
        away = sorted((held.away_at, agent) for agent, held in self._agents.items() if held.away_at)
        many = len(away) - MOST_AWAY
        gone = [agent for i, (at, agent) in enumerate(away) if i < many or now - at > AWAY_S]
        for agent in gone:
            self.size -= self._agents.pop(agent).size
            self.broken.pop(agent, None)
        return gone

    def _leave_out(self, agent: str) -> None:
        if len(self._left_out) < MOST_AGENTS:
            self._left_out.add(agent)

    def _store(self, held: _Agent, frame: wire.Frame) -> None:
        kind = frame.kind
        if kind in BULKY and (held.size > MOST_BYTES_EACH or self.size > MOST_BYTES):
            self._leave_out(frame.agent)
            held.drop_bulk()  # what cannot be renewed would soon be wrong
        elif kind in self._stores:
            self._stores[kind](held, frame)
        elif kind in ORDER:
            held.put(frame.raw if not frame.agent else kind, frame)
            if kind == "bye":
                held.away_at = held.away_at or frame.at

    def _store_link(self, held: _Agent, frame: wire.Frame) -> None:
        link: wire.Link = wire.decode_as(wire.Link, frame.raw)
        if not frame.agent:
            held.put(link.endpoint, frame)
            return
        held.put("link", frame)
        held.is_up = link.state == "up"
        if link.state in ("closed", "dead", "unreachable"):
            held.away_at = held.away_at or frame.at
        elif link.state == "up" and "bye" not in held.frames:
            held.away_at = None

    def _store_pulse(self, held: _Agent, frame: wire.Frame) -> None:
        counters = part_of("pulse", frame.raw)
        for name, count in counters.launches.items():
            if name in held.launches or len(held.launches) < MOST_NAMES:
                held.launches[name] = count
        held.put("pulse", frame)

    def _store_window(self, held: _Agent, frame: wire.Frame) -> None:
        held.windows.append(frame)
        held.size += len(frame.raw)
        if len(held.windows) > WINDOWS:
            held.size -= len(held.windows.popleft().raw)

    def _store_of_program(self, held: _Agent, frame: wire.Frame) -> None:
        part = part_of(frame.kind, frame.raw)
        held.put((part.program, part.fingerprint, frame.kind), frame)

    def _store_census(self, held: _Agent, frame: wire.Frame) -> None:
        census = part_of("arrays", frame.raw)
        serial, number = held.census
        if "arrays" in held.frames and census.serial == serial and census.number < number + len(held.changes):
            return  # a newer change has already arrived
        held.size -= sum(len(each.raw) for each in held.changes)
        held.changes = []
        held.census = census.serial, census.number
        held.put("arrays", frame)
        self.broken.pop(frame.agent, None)

    def _store_change(self, held: _Agent, frame: wire.Frame) -> None:
        change = part_of("arrays_change", frame.raw)
        serial, number = held.census
        is_next = change.serial == serial and change.number == number + len(held.changes) + 1
        if not is_next or "arrays" not in held.frames:
            return  # it is already applied, or the whole census follows
        held.changes.append(frame)
        held.size += len(frame.raw)
        if len(held.changes) >= MOST_CHANGES:
            self._apply_changes(held, frame)

    def _apply_changes(self, held: _Agent, last: wire.Frame) -> None:
        held.size -= sum(len(each.raw) for each in held.changes)
        changes, held.changes = held.changes, []
        whole = held.frames.pop("arrays")
        held.size -= len(whole.raw)
        try:
            census: Any = wire.decode("arrays", whole.raw)
            for each in changes:
                change: Any = wire.decode("arrays_change", each.raw)
                census = changed_census(census, change, change.meshes)
        except wire.Unreadable:
            self.broken[last.agent] = None
            raise
        raw = wire.encode(census)
        if len(raw) > wire.MAX_PAYLOAD:
            self.broken[last.agent] = None
            raise wire.Unreadable("a census that has grown too large to send")
        held.census = census.serial, census.number
        held.put("arrays", whole._replace(at=last.at, raw=raw))

    def _store_programs(self, held: _Agent, frame: wire.Frame) -> None:
        programs = part_of("programs", frame.raw)
        held.put("programs", frame)
        if not programs.rest:
            loaded = {(each.name, each.fingerprint) for each in programs.programs}
            loaded |= {(name, None) for name, _ in loaded}  # windows may not tell programs of a name apart
            for key in [each for each in held.frames if isinstance(each, tuple) and each[:2] not in loaded]:
                held.size -= len(held.frames.pop(key).raw)


def _whole_pulse(held: _Agent) -> list[wire.Frame]:
    """Return the last pulse, with all counters."""
    frame = held.frames.get("pulse")
    if frame is None:
        return []
    try:
        pulse = wire.decode("pulse", frame.raw)
    except wire.Unreadable:
        return []
    assert isinstance(pulse, wire.Pulse)
    whole = msgspec.structs.replace(pulse, launches={**held.launches, **pulse.launches})
    raw = wire.encode(whole)
    return [frame if len(raw) > wire.MAX_PAYLOAD else frame._replace(raw=raw)]
