"""What a relay holds of each process, and what it sends to viewers that come late or read slowly."""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.features.relay import agent_frames as latest_values
from jaxtop.features.relay import stream
from jaxtop.features.relay.agent_frames import LastFramesByAgent
from jaxtop.features.relay.feed import ViewerFeed, batches
from jaxtop.sources.paths import DIRECT, Paths
from jaxtop.store import last_frames
from jaxtop.store.last_frames import BULKY, ORDER
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, folded, frame

if TYPE_CHECKING:
    from jaxtop.model import Cluster

AGENT = agent_id(0)
EVERYTHING = (*ORDER, *BULKY)


def kept(*frames: wire.Frame) -> LastFramesByAgent:
    latest = LastFramesByAgent()
    for each in frames:
        latest.take(each)
    return latest


def of_newcomer(latest: LastFramesByAgent) -> Cluster:
    return folded(each for agent in latest.agents for each in latest.frames(agent, EVERYTHING, NOW))


def test_the_last_values_make_the_same_hosts_as_all_frames():
    frames = [*builders.training(), frame(AGENT, builders.pulse(0, launches=30), sequence=3)]
    for agent, host in folded(frames).hosts.items():
        found = of_newcomer(kept(*frames)).hosts[agent]
        for name in ("hello", "pulse", "arrays", "programs", "inventories", "link", "peer", "bye", "run"):
            assert getattr(found, name) == getattr(host, name), name


def test_a_newcomer_gets_the_counters_that_do_not_change_any_more():
    pulses = [{"init": 1, "train_step": 5}, {"train_step": 6}, {"train_step": 7}]
    made = (replace(builders.pulse(0), launches=each) for each in pulses)
    latest = kept(*(frame(AGENT, each, sequence=i) for i, each in enumerate(made)))
    (found,) = latest.frames(AGENT, ("pulse",), NOW)
    assert wire.decode("pulse", found.raw).launches == {"init": 1, "train_step": 7}


def changes(count: int) -> list[wire.Frame]:
    """Return a census and its changes."""
    census = wire.Arrays(
        0, 7, 3, *(getattr(builders.census(), each) for each in wire.Arrays.__struct_fields__[3:])
    )
    made: list[wire.Frame] = [frame(AGENT, census)]
    for number in range(count):
        change = wire.ArraysChange(number, 7, 4 + number, ((number % 5, number),))
        made.append(frame(AGENT, change, sequence=number + 1))
    return made


@pytest.mark.parametrize("count", [0, 3, last_frames.MOST_CHANGES, 2 * last_frames.MOST_CHANGES + 9])
def test_a_census_with_its_changes_is_the_same_however_many_there_were(count):
    frames = changes(count)
    latest = kept(*frames)
    assert of_newcomer(latest).hosts[AGENT].arrays == folded(frames).hosts[AGENT].arrays
    assert len(latest.frames(AGENT, ("arrays_change",), NOW)) <= last_frames.MOST_CHANGES + 1


def test_a_change_that_does_not_follow_waits_for_the_whole_census():
    census, *rest = changes(5)
    latest = kept(census, *rest[:2], *rest[3:])
    assert [each.sequence for each in latest.frames(AGENT, ("arrays",), NOW)] == [1, 1, 2]
    late = msgspec.structs.replace(wire.decode("arrays", census.raw), number=4)
    latest.take(frame(AGENT, late))
    assert len(latest.frames(AGENT, ("arrays",), NOW)) == 3, "an older census does not replace newer changes"


def test_a_census_that_makes_no_sense_is_asked_for_again():
    census, *rest = changes(last_frames.MOST_CHANGES - 1)
    bad = wire.ArraysChange(0, 7, 3 + last_frames.MOST_CHANGES, ((10_000, 1),))
    latest = kept(census, *rest)
    assert not latest.take(frame(AGENT, bad))
    assert list(latest.broken) == [AGENT] and not latest.frames(AGENT, ("arrays",), NOW)
    latest.take(census)
    assert not latest.broken and latest.frames(AGENT, ("arrays",), NOW)


def test_programs_that_are_unloaded_take_their_collectives_with_them():
    def inventory(name):
        return frame(AGENT, wire.Inventory(0, name, "f", 1))

    def programs(*names):
        return frame(AGENT, wire.Programs(0, tuple(wire.Program(name, "f") for name in names)))

    latest = kept(programs("a", "b"), inventory("a"), inventory("b"), programs("b", "c"))
    (found,) = latest.frames(AGENT, ("inventory",), NOW)
    assert wire.decode("inventory", found.raw).program == "b"


def test_operations_of_programs_that_are_still_loaded_remain():
    def shown(name, fingerprint, launches=1):
        return frame(AGENT, wire.Operations(1, name, fingerprint, launches), NOW)

    def programs(*names):
        return frame(AGENT, wire.Programs(1, tuple(wire.Program(each, "f") for each in names)), NOW)

    latest = kept(programs("a", "b"), shown("a", "f"), shown("a", None), shown("b", "f"), shown("a", "f", 2))
    found = [wire.decode("operations", each.raw) for each in latest.frames(AGENT, ("operations",), NOW)]
    assert [(each.program, each.fingerprint, each.launches) for each in found] == [
        ("a", None, 1), ("b", "f", 1), ("a", "f", 2)
    ]  # fmt: skip
    latest.take(programs("a"))
    assert len(latest.frames(AGENT, ("operations",), NOW)) == 2


def test_what_is_held_is_bounded_and_the_oldest_large_frames_are_dropped_first(monkeypatch):
    monkeypatch.setattr(last_frames, "MOST_BYTES", 1000)
    monkeypatch.setattr(latest_values, "MAX_AGENTS", 3)
    latest = kept(*builders.well(), frame(AGENT, builders.arrays()))
    stacks = wire.Stacks(0, (wire.Thread("x" * 2000, True, ()),))
    latest.take(frame(AGENT, stacks))
    assert not latest.frames(AGENT, tuple(BULKY), NOW) and latest.frames(AGENT, ("hello", "pulse"), NOW)
    latest.take(frame(AGENT, builders.arrays()))
    assert [each.kind for each in latest.frames(AGENT, tuple(BULKY), NOW)] == ["arrays"]
    held = [each for agent in latest.agents for each in latest.frames(agent, EVERYTHING, NOW)]
    assert 0 < latest.size <= sum(len(each.raw) for each in held)
    for index in range(5):
        latest.take(frame(agent_id(10 + index), builders.hello(index)))
    assert len(latest) == 3 and "does not hold all of 3 processes" in latest.notes[0], (
        "the note is bounded, too"
    )


def test_processes_that_left_are_forgotten_after_an_hour():
    latest = kept(*builders.well(), frame(AGENT, wire.Bye(0, "ended"), NOW))
    latest.take(frame(agent_id(1), wire.Link(LinkState.CLOSED, "h:1"), NOW + 10, 0))
    assert latest.forget(NOW + 3000) == [] and len(latest) == 2 and latest.up == 1
    latest.take(frame(agent_id(1), wire.Link(LinkState.UP, "h:1"), NOW + 20, 0))
    assert latest.forget(NOW + 9000) == [AGENT] and latest.agents == [agent_id(1)]


def test_messages_that_cannot_be_read_are_not_passed_on():
    latest = LastFramesByAgent()
    for kind in ("pulse", "arrays", "arrays_change", "inventory", "operations", "programs", "link"):
        assert not latest.take(wire.Frame(NOW, AGENT, kind, 1, b"\xc1"))
    assert latest.size == 0


class Wire:
    """A connection of some bytes a second to a viewer that answers at once, in made-up time."""

    def __init__(self, latest: LastFramesByAgent, rate: float) -> None:
        self.now, self.rate, self.free_at = NOW, rate, NOW
        self.on_the_way: deque[tuple[float, bytes]] = deque()
        self.feed = ViewerFeed(latest, self.send)
        self.frames: list[wire.Frame] = []
        self.others: list[stream.Message] = []
        self.arrived = 0

    def send(self, raw: bytes) -> bool:
        self.free_at = max(self.free_at, self.now) + len(raw) / self.rate
        self.on_the_way.append((self.free_at, raw))
        return True

    def turn(self, seconds: float = 0.05) -> None:
        self.now += seconds
        while self.on_the_way and self.on_the_way[0][0] <= self.now:
            message = stream.decode(self.on_the_way.popleft()[1])
            if isinstance(message, stream.RelayedFrames):
                self.frames += [wire.Frame(self.now, *each) for each in message.frames]
                self.arrived += 1
            else:
                self.others.append(message)
        self.feed.arrived(self.arrived, self.now)
        self.feed.pump(self.now, True, (), {})


def oldest_seen(line: Wire, hosts: int) -> float:
    """How old the pulse of the host is that was heard least recently, when the last frames came."""
    newest = {
        each.agent: wire.decode("pulse", each.raw).at_ms for each in line.frames if each.kind == "pulse"
    }
    assert len(newest) == hosts
    return line.now - min(newest.values()) / 1000


@pytest.mark.parametrize(("hosts", "rate", "most"), [(64, 125e3, 6.0), (512, 125e3, 12.0), (64, 1e8, 1.2)])
def test_a_slow_connection_shows_the_present(hosts, rate, most):
    """Pulses of 700 bytes each second, and large censuses now and then."""
    draw, latest = random.Random(1), LastFramesByAgent()
    line = Wire(latest, rate)
    census = wire.Stacks(0, (wire.Thread("x" * 100_000, True, ()),))
    for turn in range(1200):
        made = []
        for index in range(turn % 20, hosts, 20):
            pulse = replace(builders.pulse(index), at_ms=int(line.now * 1000), memory_source="m" * 500)
            made.append(frame(agent_id(index), pulse, line.now, turn + 1))
            if draw.random() < 0.01:
                made.append(frame(agent_id(index), census, line.now, turn + 1))
        for each in made:
            latest.take(each)
        line.feed.offer(list(batches(made, line.now)))
        line.turn()
        if turn > 600 and not turn % 20:
            assert oldest_seen(line, hosts) < most


def test_everything_arrives_in_order_where_there_is_room():
    latest, made = LastFramesByAgent(), []
    line = Wire(latest, 1e9)
    for number in range(50):
        made.append(frame(AGENT, wire.Event(number, "info", "made", "x"), line.now, number + 1))
        line.feed.offer(list(batches(made[-1:], line.now)))
        line.turn()
    line.turn()
    assert [each.sequence for each in line.frames] == list(range(1, 51))


def test_answers_and_a_settled_state_follow_the_frames():
    latest = kept(*builders.training())
    line = Wire(latest, 2e4)
    line.feed.answer(1, None, line.now)
    while not any(isinstance(each, stream.Answer) for each in line.others):
        line.turn()
    assert len(line.frames) >= latest.size > 0 or line.feed.is_up_to_date
    settled = [isinstance(each, stream.Status) and each.is_settled for each in line.others]
    assert not any(settled[: [isinstance(each, stream.Answer) for each in line.others].index(True)])


def test_events_that_wait_are_bounded_and_the_others_are_counted(monkeypatch):
    monkeypatch.setattr("jaxtop.features.relay.feed.MAX_EVENTS", 10_000)
    line = Wire(LastFramesByAgent(), 100.0)
    for number in range(3000):
        made = [frame(AGENT, wire.Event(number, "info", "made", "x" * 100), line.now, number + 1)]
        line.feed.offer(list(batches(made, line.now)))
        line.turn(0.01)
    assert line.feed.missed > 2000
    assert sum(len(raw) for _, raw in line.on_the_way) < 200_000


def test_a_relay_says_no_more_than_a_viewer_reads():
    line = Wire(LastFramesByAgent(), 1e9)
    many = {f"{i} {'x' * 2000}": 1 for i in range(2000)}
    line.feed.pump(line.now, True, list(many), many)
    line.turn()
    (status, *_) = line.others
    assert isinstance(status, stream.Status) and len(status.notes) == 100 and len(status.rejected) == 1000
    names = [{f"{number} {'n' * 200}": 1 for number in range(i, i + 1000)} for i in range(0, 9000, 1000)]
    latest = kept(*(frame(AGENT, replace(builders.pulse(0), launches=each)) for each in names))
    (pulse,) = latest.frames(AGENT, ("pulse",), NOW)
    assert len(pulse.raw) < wire.MAX_PAYLOAD


def test_paths_prefer_the_one_that_hears_the_process_and_ignore_circles():
    paths, up, closed = (
        Paths("me"),
        wire.Link(LinkState.UP, "a:1"),
        wire.Link(LinkState.CLOSED, "a:1"),
    )
    relayed = replace(up, path=("r", "s"))
    assert paths.note(DIRECT, AGENT, wire.Link(LinkState.CONNECTING, "a:1"))[1] is False
    assert paths.note("r", AGENT, relayed) == (relayed, True)
    assert paths.note(DIRECT, AGENT, up) == (None, False), "the first path that hears it stays"
    assert paths.is_used("r", AGENT) and not paths.is_used(DIRECT, AGENT)
    assert paths.note("r", AGENT, replace(closed, path=("r",))) == (up, True)
    assert paths.note("r", AGENT, replace(up, path=("r", "me"))) == (None, False)
    assert paths.note(DIRECT, AGENT, closed) == (closed, False), "what this relay said itself proves nothing"
    assert Counter(paths.path_of(each) for each in (AGENT, "unknown")) == {DIRECT: 2}


def test_a_path_that_turns_into_a_circle_is_lost():
    paths = Paths("me")
    paths.note("r", AGENT, wire.Link(LinkState.UP, "a:1", path=("r",)))
    link, is_other = paths.note("r", AGENT, wire.Link(LinkState.UP, "a:1", path=("r", "me")))
    assert link is not None and link.state == "unreachable" and not is_other
