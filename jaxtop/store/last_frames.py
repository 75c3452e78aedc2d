"""The last frames of one agent by key, for viewers that arrive later or missed frames.

The agent greets its viewers and opens the files of its black box with them, a relay greets its own viewers.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import wire
from jaxtop.store.message_parts import OF_PROGRAM, part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

# The most bytes of one agent. Beyond them, the oldest large frames are dropped.
MOST_BYTES = 4 << 20
# Viewers join the windows of all processes, and wait for this many. Older ones do not describe the present.
WINDOWS, OLDEST_WINDOW_S = 4, 600.0
# At most this many changes of a census are stored; then they are applied.
MOST_CHANGES = 64
MOST_NAMES = 10_000
# Kinds of single events, which are not part of the last frames.
ONCE = frozenset({"event", "compile"})
# Large kinds, and kinds without which a host is still shown.
BULKY = frozenset({"arrays", "arrays_change", "programs", *OF_PROGRAM, "window", "stacks"})
# The order in which a newcomer gets them; the pulse marks the end of the state.
ORDER = (
    "link", "roster", "hello", "programs", "arrays", *OF_PROGRAM, "window", "stacks",
    "nccl", "nccl_times", "tpu_cores", "activity", "scalars", "curves", "ledger", "pulse", "bye",
)  # fmt: skip


class LastFrames:
    """The last frames of one agent, mostly as they came.

    `made` has kinds whose current frames the owner makes when they are requested, so that they need not
    be stored.
    """

    def __init__(self, made: Mapping[str, Callable[[], Iterable[wire.Frame]]] | None = None) -> None:
        self._made = made or {}
        self._unstored = ONCE | self._made.keys() | ({"arrays_change"} if "arrays" in self._made else set())
        # The oldest first. Keys are kinds, and what else tells frames of a kind apart.
        self._frames: dict[object, wire.Frame] = {}
        self._windows: deque[wire.Frame] = deque()
        self._census = (0, 0)
        self._changes: list[wire.Frame] = []
        self._launches: dict[str, int] = {}
        self.size = 0
        self.is_complete = True  # whether no large frame was dropped
        # Whether changes of a census were lost: the whole state must be requested.
        self.is_broken = False
        self._takes = {
            "link": self._take_link,
            "pulse": self._take_pulse,
            "window": self._take_window,
            "arrays": self._take_census,
            "arrays_change": self._take_change,
            "programs": self._take_programs,
            **dict.fromkeys(OF_PROGRAM, self._take_of_program),
        }

    def __contains__(self, kind: str) -> bool:
        return kind in self._frames

    def take(self, frame: wire.Frame) -> None:
        """Store a frame; raise `wire.Unreadable` or `msgspec.DecodeError` if it cannot be read."""
        if frame.kind in self._unstored:
            return
        if frame.kind in self._takes:
            self._takes[frame.kind](frame)
        elif frame.kind in ORDER:
            self._put(frame.kind if frame.agent else frame.raw, frame)
        while self.size > MOST_BYTES and self.drop_oldest():
            pass

    def frames(self, now: float, kinds: Collection[str] = ORDER) -> list[wire.Frame]:
        """Return the last frames of these kinds, in the order of a newcomer."""
        found: list[wire.Frame] = []
        for kind in ORDER:
            if kind not in kinds and not (kind == "arrays" and "arrays_change" in kinds):
                continue
            if kind in self._made:
                found += self._made[kind]()
            elif kind == "pulse":
                found += self._whole_pulse()
            elif kind == "window":
                found += [each for each in self._windows if now - each.at < OLDEST_WINDOW_S]
            else:
                found += [each for each in self._frames.values() if each.kind == kind]
            if kind == "arrays":
                found += self._changes
        return found

    def drop_oldest(self) -> bool:
        """Drop the oldest large frame; return False if there is none."""
        oldest = next((key for key, each in self._frames.items() if each.kind in BULKY), None)
        if oldest is not None:
            self._drop(oldest)
        elif self._windows:
            self.size -= len(self._windows.popleft().raw)
        else:
            return False
        self.is_complete = False
        return True

    def _put(self, key: object, frame: wire.Frame) -> None:
        before = self._frames.pop(key, None)
        self.size += len(frame.raw) - (len(before.raw) if before is not None else 0)
        self._frames[key] = frame

    def _drop(self, key: object) -> None:
        self.size -= len(self._frames.pop(key).raw)
        if key == "arrays":
            self._forget_changes()

    def _forget_changes(self) -> None:
        self.size -= sum(len(each.raw) for each in self._changes)
        self._changes = []

    def _take_link(self, frame: wire.Frame) -> None:
        link: wire.Link = wire.decode_as(wire.Link, frame.raw)
        self._put("link" if frame.agent else link.endpoint, frame)

    def _take_pulse(self, frame: wire.Frame) -> None:
        counters = part_of("pulse", frame.raw)
        for name, count in counters.launches.items():
            if name in self._launches or len(self._launches) < MOST_NAMES:
                self._launches[name] = count
        self._put("pulse", frame)

    def _whole_pulse(self) -> list[wire.Frame]:
        """Return the last pulse, with all counters."""
        frame = self._frames.get("pulse")
        if frame is None:
            return []
        try:
            pulse = wire.decode("pulse", frame.raw)
        except wire.Unreadable:
            return []
        assert isinstance(pulse, wire.Pulse)
        whole = msgspec.structs.replace(pulse, launches={**self._launches, **pulse.launches})
        raw = wire.encode(whole)
        return [frame if len(raw) > wire.MAX_PAYLOAD else frame._replace(raw=raw)]

    def _take_window(self, frame: wire.Frame) -> None:
        self._windows.append(frame)
        self.size += len(frame.raw)
        if len(self._windows) > WINDOWS:
            self.size -= len(self._windows.popleft().raw)

    def _take_of_program(self, frame: wire.Frame) -> None:
        part = part_of(frame.kind, frame.raw)
        self._put((part.program, part.fingerprint, frame.kind), frame)

    def _take_programs(self, frame: wire.Frame) -> None:
        programs = part_of("programs", frame.raw)
        self._put("programs", frame)
        if not programs.rest:
            loaded = {(each.name, each.fingerprint) for each in programs.programs}
            loaded |= {(name, None) for name, _ in loaded}  # windows may not tell programs of a name apart
            for key in [each for each in self._frames if isinstance(each, tuple) and each[:2] not in loaded]:
                self._drop(key)

    def _take_census(self, frame: wire.Frame) -> None:
        census = part_of("arrays", frame.raw)
        serial, number = self._census
        is_older = census.serial == serial and census.number < number + len(self._changes)
        if "arrays" in self._frames and is_older:
            return  # a newer change has already arrived
        self._forget_changes()
        self._census = census.serial, census.number
        self._put("arrays", frame)
        self.is_broken = False

    def _take_change(self, frame: wire.Frame) -> None:
        change = part_of("arrays_change", frame.raw)
        serial, number = self._census
        is_next = change.serial == serial and change.number == number + len(self._changes) + 1
        if not is_next or "arrays" not in self._frames:
            return  # it is already applied, or the whole census follows
        self._changes.append(frame)
        self.size += len(frame.raw)
        if len(self._changes) >= MOST_CHANGES:
            self._apply_changes(frame)

    def _apply_changes(self, last: wire.Frame) -> None:
        whole, changes = self._frames["arrays"], self._changes
        self._drop("arrays")
        self.is_broken = True
        census: Any = wire.decode("arrays", whole.raw)
        for each in changes:
            change: Any = wire.decode("arrays_change", each.raw)
            census = wire.changed_census(census, change, change.meshes)
        raw = wire.encode(census)
        if len(raw) > wire.MAX_PAYLOAD:
            raise wire.Unreadable("a census that has grown too large to send")
        self._census = census.serial, census.number
        self._put("arrays", whole._replace(at=last.at, raw=raw))
        self.is_broken = False
