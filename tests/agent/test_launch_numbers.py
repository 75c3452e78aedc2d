"""Launches of accelerators in several processes: their numbers, and the tests of these numbers."""

from __future__ import annotations

import json
import random
from functools import cache
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from jaxtop import traces, wire
from jaxtop.export import to_json
from jaxtop.model.collectives import doubts_about, waits_by_device
from jaxtop.model.collectives.verdict import ENOUGH_WINDOWS
from jaxtop.traces.xspace import Trace
from jaxtop_agent.core.board import Board, Topology
from jaxtop_agent.hooks.launches import NumberedLaunch
from jaxtop_agent.profiler.numbers import numbers
from jaxtop_agent.profiler.reading import TraceReader
from jaxtop_agent.profiler.session import ProfiledTrace
from jaxtop_agent.programs.loaded_executables import LoadedExecutable
from tests import builders
from tests.made.traces import FINGERPRINT, PLATFORMS, PROGRAM, Launch, Made, launches
from tests.made.xspace import Event, plane, space
from tests.stories import cluster_of, hello, tell
from tests.support import SOAK

KEY = ("r1", "jit_step", None)
BEGAN_NS = 5_000_000_000
BOTH = wire.ReplicaGroups((4,), ((0, 4, 1),))
PSUM = wire.Collective("all-reduce.1", "all-reduce", "f32[1000]", 4000, 0, 1, source="psum")


def seen_of(made, platform="tpu"):
    name, make = PLATFORMS[platform]
    return traces.read(name, Trace(make(made)), traces.WantedCollectives({}), {})


def noted(made, first=0, late_us=30.0, function="step"):
    """What the hook notes: shortly after the host's `Execute`, whether or not the trace has that."""
    return [
        NumberedLaunch(BEGAN_NS + round((made.called(place) + 300 + late_us) * 1000), function, first + place)
        for place in range(len(made.launches))
    ]


def numbered(made, notes, platform="tpu"):
    found = numbers(seen_of(made, platform), notes, BEGAN_NS)
    return [found.get(("jit_step", run)) for run in range(len(made.launches))]


@pytest.mark.parametrize("platform", PLATFORMS)
class TestNumbers:
    def test_they_count_all_launches_of_the_process(self, platform):
        made = Made(launches(2, 5))
        assert numbered(made, noted(made, 40), platform) == [40, 41, 42, 43, 44]

    def test_a_launch_from_before_the_trace_has_the_number_of_its_place(self, platform):
        made = Made(launches(2, 5), ahead=2)
        assert numbered(made, noted(made, 40), platform) == [40, 41, 42, 43, 44]

    def test_first_calls_are_noted_before_the_launch(self, platform):
        made = Made(launches(2, 3))
        notes = noted(made, 0)
        early = notes[0]._replace(at=BEGAN_NS + round((made.called(0) - 20) * 1000))
        assert numbered(made, [early, *notes[1:]], platform) == [0, 1, 2]

    @pytest.mark.parametrize("off_ms", [-30, -15, 15, 30])
    def test_clocks_that_are_apart_give_no_numbers(self, platform, off_ms):
        """With 40 ms from launch to launch, a note may seem to belong to the launch beside its own."""
        made = Made(launches(2, 5))
        notes = [each._replace(at=each.at + off_ms * 1_000_000) for each in noted(made, 40)]
        assert numbered(made, notes, platform) == [None] * 5

    def test_a_launch_that_the_hook_missed_takes_all_numbers_away(self, platform):
        made = Made(launches(2, 5))
        notes = noted(made, 40)
        assert numbered(made, notes[:2] + notes[3:], platform) == [None] * 5

    def test_other_functions_are_counted_apart(self, platform):
        made = Made(launches(2, 3))
        others = [each._replace(function="evaluate", number=7) for each in noted(made)]
        assert numbered(made, others + noted(made, 3), platform) == [3, 4, 5]


def test_where_the_host_notes_a_number_it_is_taken_and_the_hook_is_not_asked():
    """As JAX 0.10 does. The number begins anywhere, and may be negative."""

    def run(place):
        executed = {"_pt": 5, "_p": 900 + place, "run_id": -7 + place}
        return Event("CommonPjRtLoadedExecutable::Execute (jit_step)", 100 * place, 20, executed)

    def module(place):
        at, context = 100 * place + 50, {"_ct": 5, "_c": 900 + place}
        return Event("jit_step(1)", at, 30, context)

    cores = plane("/device:TPU:0", {"XLA Modules": [module(place) for place in range(4)]})
    raw = space(cores, plane("/host:CPU", {"python": [run(place) for place in range(1, 4)]}))
    seen = traces.read("tpu", Trace(raw), traces.WantedCollectives({}), {})
    assert numbers(seen, [], BEGAN_NS) == {("jit_step", place): -7 + place for place in range(4)}


def test_without_notes_or_without_the_host_there_are_no_numbers():
    """As after `jaxtop inject`, which comes at any moment."""
    made = Made(launches(2, 3))
    assert numbered(made, []) == [None] * 3
    hostless = Made(launches(2, 3), has_host=False)
    assert numbered(hostless, noted(hostless)) == [None] * 3


def device(index):
    return wire.Device(index, "tpu", "TPU v6 lite", index % 2)


def inventory(index):
    return wire.Inventory(1, "jit_step", None, 4, ((2 * index, 2),), groups=(BOTH,), collectives=(PSUM,))


def cluster():
    story = []
    for index in range(2):
        devices = (device(2 * index), device(2 * index + 1))
        said = hello(index, devices=devices, platform="tpu"), inventory(index)
        story += [(1.0, f"r1-{index}", each) for each in said]
    return cluster_of(*story)


@cache
def board_of(index):
    """A board has descriptors: one for all windows of a process."""
    return Board(builders.hello(index))


def window(made, index, first=0, offset_s=0.0, slot=7):
    """What the agent of a process sends of its trace; its launches have these numbers."""
    board, devices = board_of(index), (device(2 * index), device(2 * index + 1))
    board.registrar.clock_offset, board.registrar.clock_error = offset_s, 0.0005
    topology = Topology(index, 2, "tpu", devices, None)
    reader = TraceReader(board, SimpleNamespace(parse=Trace), lambda: noted(made, first))
    at_ms = 5_000 + 10_000 * slot
    taken = ProfiledTrace(
        at_ms, 1.0, 0.0, PLATFORMS["tpu"][1](made), False, BEGAN_NS / 1e9, 1_000.0 - offset_s
    )
    found, _ = reader.read(topology, taken, wire.Window(at_ms, 1_000_000, slot=slot), lambda: None)
    return found


def split(all_launches):
    """The launches of four devices as two processes see them: each has two."""
    return [
        [
            Launch(
                {device - 2 * index: at for device, at in each.arrivals.items() if device // 2 == index},
                each.leaves,
            )
            for each in all_launches
        ]
        for index in range(2)
    ]


class TestJoined:
    def test_processes_that_count_alike_are_joined_whatever_their_run_ids(self):
        made = launches(4, 6, late=3)
        first, second = split(made)
        seen = cluster()
        tell(seen, (2, "r1-0", window(Made(first, alone=4), 0, 30)))
        tell(seen, (3, "r1-1", window(Made(second), 1, 30)))
        truth = made[0].waits()
        found = waits_by_device(seen, 3)
        assert {device for _, device in found} == {0, 1, 2, 3}
        assert found["r1", 0] == pytest.approx(truth[0], rel=0.1) and found["r1", 3] == 0
        assert doubts_about(seen).unmatched == 0

    def test_clocks_that_differ_between_machines_are_taken_into_account(self):
        first, second = split(launches(4, 6, late=3))
        seen = cluster()
        tell(seen, (2, "r1-0", window(Made(first), 0, 30)))
        tell(seen, (3, "r1-1", window(Made(second), 1, 30, offset_s=12.5)))
        assert doubts_about(seen).unmatched == 0 and len(waits_by_device(seen, 3)) == 4

    @pytest.mark.parametrize("other", [29, 31, 33])
    def test_processes_that_count_differently_are_not_joined_and_it_is_said(self, other):
        """One of them launched the program once on its own."""
        first, second = split(launches(4, 6, late=3))
        seen = cluster()
        tell(seen, (2, "r1-0", window(Made(first), 0, 30)))
        tell(seen, (3, "r1-1", window(Made(second), 1, other)))
        assert not waits_by_device(seen, 3)
        assert doubts_about(seen).unmatched == 6 - abs(other - 30)
        assert json.loads(to_json(seen, 3))["windows"]["unmatched_launches"] == 6 - abs(other - 30)

    def test_without_a_common_clock_launches_are_matched_by_the_order_of_programs(self):
        """One process launched the evaluation once more, before: its second is the first of the other."""
        programs = (("jit_step", None), ("jit_eval", None))

        def taken(*launched):
            rows = tuple(wire.Round(place, 0, 0, 0, (100, 100)) for place in range(len(launched)))
            listed = tuple(
                wire.Launch(program, number, 1_000 * place, 500)
                for place, (program, number) in enumerate(launched)
            )
            return wire.Window(5_000, 1_000_000, 7, programs, (PSUM.op,), listed, rows)

        first = taken((0, 30), (1, 4), (0, 31), (0, 32))
        alike, other = taken((0, 30), (1, 4), (0, 31), (0, 32)), taken((0, 30), (0, 31), (1, 4), (0, 32))
        for second, unmatched in ((alike, 0), (other, 3)):
            seen = cluster()
            tell(seen, (2, "r1-0", first), (3, "r1-1", second))
            assert doubts_about(seen).unmatched == unmatched

    def test_a_window_that_lost_all_barriers_shows_no_wait_where_an_earlier_one_had_them(self):
        """The collectives themselves take equally long on all cores: a wait of 0 would be wrong."""
        board, made = board_of(0), Made(launches(2, 4, late=1))
        board.programs.loaded = (LoadedExecutable(PROGRAM, None, None, None),)
        reader = TraceReader(board, SimpleNamespace(parse=Trace))
        topology = Topology(0, 1, "tpu", (device(0), device(1)), None)
        raw = PLATFORMS["tpu"][1](made)
        lost = raw.replace(b"barrier-cores", b"barrier-c0res")
        found = []
        for place, each in enumerate((lost, raw, lost)):
            taken = ProfiledTrace(place, 1.0, 0.0, each, False, BEGAN_NS / 1e9, 1_000.0)
            window, _ = reader.read(topology, taken, wire.Window(place, 1_000_000, slot=place), lambda: None)
            found.append([row.durations_us for row in window.rounds])
        board.programs.loaded = ()
        unknown, known, lost_again = found
        assert len({each for row in unknown for each in row}) == 1
        assert all(row[0] > row[1] for row in known)
        assert lost_again == [(None, None)] * 4

    def test_launches_without_numbers_are_measured_within_their_process(self):
        first, second = split(launches(4, 6, late=3))
        seen = cluster()
        groups = wire.ReplicaGroups((2,), ((0, 4, 1),))
        for index in range(2):
            tell(seen, (1.5, f"r1-{index}", replace(inventory(index), groups=(groups,))))
        tell(seen, (2, "r1-0", window(Made(first, has_host=False), 0)))
        tell(seen, (3, "r1-1", window(Made(second, has_host=False), 1)))
        found = waits_by_device(seen, 3)
        assert found["r1", 3] == 0 and found["r1", 2] == pytest.approx(6_000, rel=0.1)
        assert found["r1", 0] < 400 and found["r1", 1] < 400

    def test_launches_without_numbers_say_nothing_across_processes(self):
        first, second = split(launches(4, 6, late=3))
        seen = cluster()
        tell(seen, (2, "r1-0", window(Made(first, has_host=False), 0)))
        tell(seen, (3, "r1-1", window(Made(second, has_host=False), 1)))
        assert not waits_by_device(seen, 3)


def test_the_fingerprint_of_a_module_tells_programs_of_one_name_apart():
    made = Made(launches(2, 3))
    raw = PLATFORMS["tpu"][1](made)
    other = raw.replace(str(FINGERPRINT).encode(), str(FINGERPRINT + 1).encode())
    seen = traces.read("tpu", Trace(raw + other), traces.WantedCollectives({}), {})
    assert len({span.run for span in seen.spans}) == 6


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200 if SOAK else 2))
def test_no_straggler_is_named_but_the_one_that_is_planted(seed):
    """Two processes, several windows; one may count differently, lack its host, or lose events."""
    dice, times_named = random.Random(seed), 0
    planted = [(dice.choice([None, 0, 1, 2, 3]), dice.choice([0, 0, 0, 1, -2])) for _ in range(4)]
    for late, other in (*planted, (2, 0), (1, 0)):
        seen = cluster()
        for number in range(16):
            all_launches = launches(4, 5, late=late, late_us=60_000.0, seed=dice.randrange(10**6))
            for index, own in enumerate(split(all_launches)):
                made = Made(
                    own,
                    alone=dice.choice([0, 3]),
                    has_host=dice.random() < 0.9,
                    lost=dice.choice([0.0, 0.0, 0.2]),
                    seed=dice.randrange(10**6),
                )
                first = 100 + 5 * number + (other if index else 0)
                tell(seen, (2 + number, f"r1-{index}", window(made, index, first, slot=number)))
        found = seen.windows.programs[KEY]
        named = {each.unit.agent for ones in found.late.values() for each in ones}
        assert named <= ({f"r1-{late // 2}"} if late is not None else set()), (seed, late, other)
        joined = {each.window_number for each in found.timings.get("all-reduce.1", ())}
        times_named += late is not None and len(joined) > ENOUGH_WINDOWS and bool(named)
    assert times_named
