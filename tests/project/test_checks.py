"""What arrives is bounded and consistent, or refused, counted and shown; small messages cost little."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import Cluster
from jaxtop.wire import bounds
from tests import builders
from tests.builders import NOW, agent_id, folded, frame
from tests.cases import thorough
from tests.made.every_message import MESSAGES
from tests.made.mutants import mutant, show
from tests.stage import Stage, play
from tests.staged import collectives as staged_collectives
from tests.staged import devices as staged_devices
from tests.staged import hardware as staged_hardware
from tests.stories import census

MUTANTS, SHOWN_EVERY = 1_000, 25
MOST = bounds.MAX_DEVICES
# What a message may cost beside its own size, once it is shown in all ways.
MOST_BYTES = 100 << 20

ALL = ((0, MOST),)
WHOLE = wire.Mesh((("x", MOST),), ALL)
BEYOND = 1 << 62


def meshed(*axes: tuple[str, int], ids: wire.Ids = ((0, 8),)) -> wire.Arrays:
    return census(mesh=wire.Mesh(axes, ids))


def inventory(*groups: wire.ReplicaGroups, devices: int = 8) -> wire.Inventory:
    collectives = tuple(wire.Collective(f"c{i}", "all-reduce", "f32[1]", 4, i) for i in range(len(groups)))
    return wire.Inventory(1, "jit_step", "f", devices, ((0, 4),), groups, collectives)


def cut(**more) -> wire.Arrays:
    told = census()
    return replace(told, shardings=(wire.Sharding("gspmd", "", None, ((0, 8),), None, **more),))


HELLO = builders.hello(0)
PULSE = builders.pulse(0)
REFUSED = {
    "an axis of size 0": meshed(("x", 0), ids=()),
    "an axis of negative size": meshed(("x", -2), ("y", -4)),
    "axes with fewer places than devices": meshed(("x", 2), ("y", 2)),
    "axes with more places than devices": meshed(("x", BEYOND), ("y", 8)),
    "more axes than arrays can have": meshed(*((f"a{i}", 1) for i in range(40)), ("x", 8)),
    "more devices than any mesh has": meshed(("x", MOST + 1), ids=((0, MOST + 1),)),
    "more meshes than fit": wire.Arrays(1, 1, 1, (replace(WHOLE),) * (bounds.MAX_PLACES // MOST + 1)),
    "a dimension cut into no pieces": cut(tiles=(1 << 40, -1)),
    "a sharding of too many dimensions": cut(tiles=(1,) * 100),
    "an array of too many dimensions": census(wire.ArrayGroup((1,) * 100, "f", 0, 1, 1)),
    "groups over more places than the program has": inventory(wire.ReplicaGroups((1,), ((0, 17, 1),))),
    "groups over all places again and again": inventory(
        *(wire.ReplicaGroups((1,), ((i, MOST, 1),)) for i in range(9)), devices=MOST
    ),
    "a program on too many devices": inventory(devices=BEYOND),
    "a run of less than no places": inventory(wire.ReplicaGroups((1,), ((0, BEYOND, 1), (0, -BEYOND, 1)))),
    "a time beyond all calendars": replace(PULSE, at_ms=BEYOND),
    "a time before the epoch": replace(PULSE, sampled_ms=-BEYOND),
    "a start that is no date": replace(HELLO, started_ms=BEYOND),
    "no interval": replace(HELLO, interval_ms=0),
    "a process that cannot be": replace(HELLO, process_index=BEYOND),
    "so many processes": replace(HELLO, process_count=BEYOND),
    "coordinates of too many dimensions": replace(HELLO, devices=(wire.Device(0, "", "", coords=(1,) * 99),)),
    "more bytes than a machine can name": replace(PULSE, devices=wire.DeviceSample(used_bytes=(1 << 63,))),
    "more launches than a process makes": replace(PULSE, launches={"step": BEYOND}),
}
# The largest that are believed.
ACCEPTED = {
    "a mesh of all devices": wire.Arrays(
        1, 9, 1, (WHOLE,), (wire.Sharding("named", "P('x')", 0, (), None, (("x",),)),),
        tuple(wire.ArrayGroup((MOST,), "f", 0, MOST, 1, f"a{i}") for i in range(2)), (1,) * 2,
    ),
    "arrays on all devices": wire.Arrays(
        1, 9, 1, (), (wire.Sharding("gspmd", "", None, ALL, None, None, (MOST,)),),
        tuple(wire.ArrayGroup((MOST,), "f", 0, MOST, 1, f"a{i}") for i in range(2)), (1,) * 2,
    ),
    "groups of all devices": inventory(
        *(wire.ReplicaGroups((2**i,), ((0, MOST, 1),)) for i in range(5)), devices=MOST
    ),
    "no mesh axes at all": census(mesh=wire.Mesh((), ())),
    "a scalar mesh": census(mesh=wire.Mesh((), ((0, 1),))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_before_it_is_unpacked(name):
    kind, raw = wire.kind_of(REFUSED[name]), wire.encode(REFUSED[name])
    tracemalloc.start()
    try:
        with pytest.raises(wire.Unreadable):
            wire.decode(kind, raw)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "name", [thorough(name) if name == "a mesh of all devices" else name for name in ACCEPTED]
)
def test_what_is_believed_costs_little_even_at_the_bounds(name):
    message = ACCEPTED[name]
    cluster = folded(builders.well())
    tracemalloc.start()
    try:
        cluster.feed(frame(agent_id(0), message))
        show(cluster, NOW)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
    assert not cluster.rejected


def test_a_census_stays_within_bounds_also_where_it_grows():
    """Each change is small; together they may not name more devices than one census."""
    cluster = Cluster()
    cluster.feed(frame(agent_id(0), wire.Arrays(1, 1, 1)))
    for number in range(2, 20):
        change = wire.ArraysChange(number, 1, number, meshes=(wire.Mesh((("x", MOST),), ((number, MOST),)),))
        cluster.feed(frame(agent_id(0), change))
    held = cluster.hosts[agent_id(0)].arrays
    assert len(held.meshes) == bounds.MAX_PLACES // MOST
    assert sum(cluster.rejected.values()) == 1  # after that one the changes do not follow


def test_what_was_refused_is_counted_and_shown():
    refused = frame(agent_id(0), REFUSED["an axis of size 0"])

    async def act(stage: Stage) -> None:
        assert "1 messages skipped: unreadable arrays: a mesh axis without devices" in stage.line("facts")

    play(act, *builders.well(), refused, size=(200, 50))


def test_reasons_do_not_grow_without_end():
    cluster = Cluster()
    for i in range(5_000):
        cluster.feed(wire.Frame(NOW, f"a{i}", f"kind {i}", 1, b""))
    assert len(cluster.rejected) <= 101 and sum(cluster.rejected.values()) == 5_000


def test_mutants_of_all_messages_are_refused_or_can_be_shown():
    """Well-formed messages with odd values in odd places: nothing raises, whatever comes after what."""
    dice = random.Random(20260102)
    base = [
        *staged_collectives.late(),
        *staged_collectives.standing(),
        *staged_devices.at_odds(),
        *builders.training(),
        *staged_hardware.working(4),
    ]
    told: dict[str, list[wire.Message]] = {}
    for message in (*(wire.decode(each.kind, each.raw) for each in base), *MESSAGES):
        told.setdefault(wire.kind_of(message), []).append(message)
    kinds = sorted(told)
    cluster, accepted = Cluster(), dict.fromkeys(kinds, 0)
    for number in range(MUTANTS):
        if number % 200 == 0:
            cluster = folded(base)
        kind = dice.choice(kinds)
        raw = mutant(dice.choice(told[kind]), dice)
        agent, refused = agent_id(dice.randrange(3)), sum(cluster.rejected.values())
        cluster.feed(wire.Frame(NOW + number / 1000, agent, kind, number, raw))
        accepted[kind] += sum(cluster.rejected.values()) == refused
        if number % SHOWN_EVERY == 0:
            show(cluster, NOW + number / 1000)
    assert all(accepted.values()), "of each kind some are shown, too"
    assert 0.2 * MUTANTS < sum(accepted.values()) < 0.8 * MUTANTS
