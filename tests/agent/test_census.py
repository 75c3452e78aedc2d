"""The census as messages: what a viewer folds of the changes is what the agent has in its table."""

from __future__ import annotations

import json
import random
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from jaxtop import wire
from jaxtop.model import array_views
from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays import census, origins
from jaxtop_agent.arrays import table as tables
from jaxtop_agent.arrays.census import CensusGroup, CensusKind
from jaxtop_agent.arrays.paths import root
from jaxtop_agent.arrays.table import ArrayTable
from jaxtop_agent.arrays.watched_names import WatchedNames
from jaxtop_agent.collectors import arrays as collector
from jaxtop_agent.core.board import Board
from jaxtop_agent.service.identity import identify
from tests import patience
from tests.stories import cluster_of, running, tell
from tests.support import PYTHON, run, script

AGENT = "r1-0"


class Shardings:
    """The tables that a census grows: all on one device each."""

    def __init__(self) -> None:
        self.meshes: list[wire.Mesh] = []
        self.described: list[wire.Sharding] = []

    def grow(self, upto: int) -> None:
        while len(self.described) <= upto:
            device = len(self.described)
            self.described.append(wire.Sharding("single", "", None, ((device, 1),), "device"))


def group(name: str | None, size: int, sharding: int = 0, created: str | None = None) -> CensusGroup:
    path = None if name is None else root(name, "train")
    kind = CensusKind((size,), "int8", sharding, size, size, {}, is_on_one=True)
    return CensusGroup(kind, path, 0, created, count=1)


def send(cluster, message) -> None:
    tell(cluster, (11, AGENT, message))


def test_changes_lead_to_the_same_census_as_the_whole():
    """Whatever comes, goes, grows and is renamed; also for who meets it in the middle."""
    dice = random.Random(7)
    shardings = Shardings()
    shardings.grow(0)
    table = ArrayTable(shardings)
    groups = [group(f"a{i}" if i % 5 else None, 8 + i, i % 7, f"t.py:{i} f") for i in range(60)]
    early = cluster_of(*running(0))
    for turn in range(80):
        present = [each for each in groups if dice.random() < 0.7]
        for each in present:
            each.count = dice.randrange(1, 4)
            shardings.grow(each.kind.sharding)
            if dice.random() < 0.02:
                each.created = f"t.py:{turn} g"
        message = take(table, present)
        if message is not None:
            send(early, message)
        late = cluster_of(*running(0), (11, AGENT, table.whole()))
        assert _said(early) == _said(late)
        assert sum(view.bytes_per_device for view in array_views(early)) == sum(map(_size, present))
    assert not early.rejected and early.hosts[AGENT].arrays.number > 20


def take(table: ArrayTable, present: list[CensusGroup]):
    for each in present:
        each.size = _size(each)
    return table.take(list(present), bool)


def _said(cluster):
    held = cluster.hosts[AGENT].arrays
    return held.serial, held.number, held.meshes, held.shardings, held.groups, held.counts


def _size(each: CensusGroup) -> int:
    return each.count * each.kind.bytes_per_device


def test_nothing_is_sent_while_nothing_changes():
    shardings = Shardings()
    shardings.grow(0)
    table, present = ArrayTable(shardings), [group("a", 8)]
    assert isinstance(take(table, present), wire.Arrays)
    assert take(table, present) is None


def test_the_tail_is_summed_up_and_nothing_is_lost(monkeypatch):
    """The largest one by one; of the others the sums, by what they hang on and where they lie."""
    monkeypatch.setattr(tables, "MOST_LISTED", 10)
    shardings = Shardings()
    shardings.grow(1)
    table = ArrayTable(shardings)
    present = [group(f"v{i % 3}", 1000 - i, i % 2) for i in range(100)]
    cluster = cluster_of(*running(0))
    send(cluster, take(table, present))
    views = array_views(cluster)
    listed = [view for view in views if view.groups == 1]
    sums = [view for view in views if view.groups > 1]
    assert sorted(view.bytes_per_device for view in listed) == list(range(991, 1001))
    assert {(view.name, view.device_ids) for view in sums} == {
        (f"v{i}", (device,)) for i in range(3) for device in (0, 1)
    }
    assert sum(view.count for view in views) == 100
    assert sum(view.bytes_per_device for view in views) == sum(map(_size, present))
    present[50].count = 5
    send(cluster, take(table, present))
    assert sum(view.bytes_per_device for view in array_views(cluster)) == sum(map(_size, present))


def test_a_message_stays_within_what_may_be_sent():
    """However long the names are, and however many groups there have been."""
    shardings = Shardings()
    shardings.grow(0)
    table = ArrayTable(shardings)
    for turn in range(8):
        present = [group(f"{'x' * 190}{turn}.{i}", 8, 0, "y" * 100) for i in range(1500)]
        message = take(table, present)
        assert message is not None and len(wire.encode(message)) < wire.MAX_TELEMETRY
        assert len(wire.encode(table.whole())) < wire.MAX_TELEMETRY


def test_of_very_many_arrays_some_are_counted_at_a_time_and_none_twice(monkeypatch):
    """The list that JAX gives keeps them alive: it is dropped, and asked for again; new ones come first."""
    there = [object() for _ in range(15_000)]
    counted: list[object] = []
    monkeypatch.setattr(collector, "HOLD_S", 0.0)
    monkeypatch.setattr(collector, "LEAST_HOLD_S", 0.0)
    monkeypatch.setattr(jaxprivate, "live_arrays", there.copy)
    looking = collector.ArrayCensus(WatchedNames())
    looking._census = SimpleNamespace(count=lambda arrays, _: counted.extend(arrays))
    so_far, is_all = 0, False
    for _ in range(10_000):
        so_far, is_all = looking._count_some({}, so_far)
        if is_all:
            break
        if so_far < 1000:
            there.insert(0, object())
    assert is_all and len(counted) == len(set(map(id, counted))) == len(there)


class Client:
    """A client of JAX with one device and no arrays."""

    def local_devices(self):
        return [SimpleNamespace(id=0)]


def test_a_client_that_the_script_clears_is_freed(monkeypatch):
    """It holds the memory of its devices; without viewers no other census comes that would let it go."""
    monkeypatch.setattr(jaxprivate, "live_arrays", list)
    monkeypatch.setattr(jaxprivate, "array_type", lambda: Made)
    board, client, looking = Board(identify("run")), Client(), collector.ArrayCensus(WatchedNames())
    with ThreadPoolExecutor(1) as agents_thread:  # which walks the frames of others only
        agents_thread.submit(looking.collect, board, client).result()
    assert board.sources["arrays"] == "on"
    gone = weakref.ref(client)
    del client
    assert gone() is None
    for wakeup in board.wakeups:
        wakeup.close()


def test_a_census_that_breaks_off_holds_no_object_of_jax(monkeypatch):
    """Shardings hold devices, and these their client."""
    monkeypatch.setattr(jaxprivate, "array_type", lambda: Made)
    looking, array = collector.ArrayCensus(WatchedNames()), Made("t.py:1 init")
    looking._begin(Client())
    monkeypatch.setattr(looking._shardings, "_number", lambda _: 0)
    looking._shardings.device_counts.append(1)
    held = looking._shardings.by_id

    def places(*_):
        looking._census.kind_of(array)
        assert held
        raise RuntimeError

    monkeypatch.setattr(looking._walk, "places", places)
    with pytest.raises(RuntimeError):
        looking._count()
    assert not held


def test_what_was_made_anew_while_we_looked_has_its_name_and_the_line_that_made_it(monkeypatch):
    """Between the walk and the count a step ended, and the next one has its results already."""
    monkeypatch.setattr(origins, "created", lambda traceback: traceback)
    one_device = SimpleNamespace(number=lambda _: 0, device_counts=[1], forget_objects=lambda: None)
    counting, place = census.Census(one_device), root("params", "fit")
    first, second, third = Made("t.py:1 init"), Made("t.py:9 fit"), Made("t.py:9 fit")
    place.kind = counting.kind_of(first)
    for there in ([first], [second, third]):
        counting.begin()
        left_over = {id(first): place}
        counting.count(there, left_over)
        present = counting.end(left_over, bool)
    assert [(each.path, each.created, each.count) for each in present] == [(place, "t.py:9 fit", 2)]


@pytest.mark.parametrize(("copies", "counts"), [(2, [1, 1, 1, 1, 2]), (4, [2, 2, 2, 2])])
def test_copies_of_some_arrays_of_a_line_have_no_name(monkeypatch, copies, counts):
    """JAX holds a copy of each constant that a function closes over. Copies of all are another generation."""
    monkeypatch.setattr(origins, "created", lambda traceback: traceback)
    one_device = SimpleNamespace(number=lambda _: 0, device_counts=[1], forget_objects=lambda: None)
    counting = census.Census(one_device)
    made = [Made("t.py:5 <listcomp>") for _ in range(4 + copies)]
    places = {id(each): root(f"consts_{i}", "fit") for i, each in enumerate(made[:4])}
    for place in places.values():
        place.kind = counting.kind_of(made[0])
    counting.begin()
    counting.count(made, places)
    present = counting.end(places, bool)
    assert sorted(each.count for each in present) == counts
    assert [each.count for each in present if each.path is None] == counts[4:]


class Made:
    """An array of 8 bytes that some line made."""

    aval = SimpleNamespace(shape=(8,), dtype="int8")
    sharding, shape, dtype, nbytes = object(), (8,), "int8", 8

    def __init__(self, line: str) -> None:
        self.traceback = line

    def on_device_size_in_bytes(self) -> int:
        return self.nbytes


def change(number: int, **more) -> wire.ArraysChange:
    return wire.ArraysChange(at_ms=20, serial=5, number=number, **more)


WHOLE = wire.Arrays(
    at_ms=10,
    serial=5,
    number=3,
    shardings=(wire.Sharding("single", "", None, ((0, 1),), "device"),),
    groups=(wire.ArrayGroup((8,), "int8", 0, 8, 8, "a"),),
    counts=(2,),
)


@pytest.mark.parametrize(
    "late",
    [
        change(5, counts=((0, 9),)),
        change(3, counts=((0, 9),)),
        change(4, counts=((0, 9),)).__class__(20, 6, 4),
    ],
    ids=["one before it was lost", "known already", "of another census"],
)
def test_a_change_that_does_not_follow_changes_nothing(late):
    cluster = cluster_of(*running(0), (11, AGENT, WHOLE), (12, AGENT, late))
    assert cluster.hosts[AGENT].arrays.counts == (2,)
    send(cluster, change(4, counts=((0, 7),)))
    assert cluster.hosts[AGENT].arrays.counts == (7,)


def test_a_census_that_was_overtaken_does_not_turn_back_the_time():
    cluster = cluster_of(*running(0), (11, AGENT, WHOLE), (12, AGENT, change(4, counts=((0, 7),))))
    send(cluster, WHOLE)
    assert cluster.hosts[AGENT].arrays.counts == (7,)


@pytest.mark.parametrize(
    "wrong",
    [
        change(4, counts=((1, 1),)),
        change(4, counts=((-1, 1),)),
        change(4, groups=((2, wire.ArrayGroup((1,), "int8", 0, 1, 1)),)),
        change(4, groups=((1, wire.ArrayGroup((1,), "int8", 1, 1, 1)),)),
        change(4, shardings=(wire.Sharding("named", "P()", 0, (), None),)),
    ],
    ids=["a count too far", "a count before", "a gap", "no sharding", "no mesh"],
)
def test_a_change_that_points_nowhere_is_counted_and_changes_nothing(wrong):
    cluster = cluster_of(*running(0), (11, AGENT, WHOLE), (12, AGENT, wrong))
    assert sum(cluster.rejected.values()) == 1
    assert cluster.hosts[AGENT].arrays == WHOLE


def test_who_is_no_more_holds_nothing_while_its_run_goes_on():
    """And of a run that is over, what it held at its end stays in sight."""
    mine = wire.ArrayGroup((4,), "int8", 0, 4, 4, "mine")
    other = WHOLE.__class__(
        10, 5, 3, (), (wire.Sharding("single", "", None, ((9, 1),), "device"),), (mine,), (1,)
    )
    cluster = cluster_of(*running(0, 1), (11, AGENT, WHOLE), (11, "r1-1", other))
    assert {view.name for view in array_views(cluster)} == {"a", "mine"}
    tell(cluster, (12, "r1-1", wire.Bye(0, "ended")))
    assert {view.name for view in array_views(cluster)} == {"a"}
    tell(cluster, (13, AGENT, wire.Bye(0, "ended")))
    assert {view.name for view in array_views(cluster)} == {"a", "mine"}


def test_one_process_tells_the_names_of_what_all_hold():
    """The one that has most names for it: what has two names is still there once."""
    sharding = wire.Sharding("named", "P()", 0, (), "device")
    mesh = wire.Mesh((("x", 2),), ((0, 2),))

    def census(*names):
        groups = tuple(wire.ArrayGroup((8,), "int8", 0, 8, 8, name) for name in names)
        return wire.Arrays(10, 5, 1, (mesh,), (sharding,), groups, (1,) * len(groups))

    cluster = cluster_of(
        *running(0, 1), (11, AGENT, census("w", None)), (11, "r1-1", census("state.w", "state.b"))
    )
    assert sorted(view.name for view in array_views(cluster)) == ["state.b", "state.w"]


WATCHES = """
    import json, sys
    import jax, jax.numpy as jnp
    from jaxtop_agent.arrays.watched_names import WatchedNames
    watched, arrays = WatchedNames(), {"w": jnp.ones(3), "b": jnp.ones(2)}
    watched.watch({"params": arrays})
    heavy = ("jaxtop.wire", "jaxtop.transport", "jaxtop.recording", "zmq", "jaxtop_agent.arrays.census")
    loaded = [name for name in sys.modules if name.startswith(heavy)]
    places = {}
    watched.rename(places)
    as_arrays = sorted(str(each.key) for each in places.values()), list(watched.callables)
    watched.watch({"params": lambda: arrays})
    places = {}
    watched.rename(places)
    as_function = [str(each.key) for each in places.values()], list(watched.callables)
    watched.watch({"params": arrays["w"]})
    watched.rename(places)
    once, twice = {}, {}
    watched.watch({"state": arrays})
    watched.rename(once)
    watched.watch({"state": arrays})
    watched.rename(twice)
    again = [len(places), list(watched.callables)]
    print(json.dumps([loaded, as_arrays, as_function, again, once == twice]))
"""


@pytest.mark.jax
@pytest.mark.newest
def test_a_name_given_again_as_the_other_sort_replaces_the_first_and_loads_no_census(tmp_path):
    done = run(PYTHON, script(tmp_path, WATCHES), imports_jax=True)
    assert done.stderr == ""
    loaded, as_arrays, as_function, again, are_same = json.loads(done.stdout)
    assert loaded == []
    assert as_arrays == [["b", "w"], []] and as_function == [[], ["params"]] and again == [1, []]
    assert are_same  # a state that is registered in every step makes no places without end


LOOPS = """
import json
import threading
import jax.numpy as jnp
from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays.watched_names import WatchedNames
from jaxtop_agent.collectors.arrays import ArrayCensus
from jaxtop_agent.core.board import Board
from jaxtop_agent.service.identity import identify

ended, begun = threading.Event(), threading.Event()

def batches():
    pool = jnp.ones((35, 64))
    while not ended.wait(0.005):
        yield pool.shape

def loop():
    for _ in batches():
        begun.set()
        ended.wait(0.005)

if __name__ == "__main__":
    thread = threading.Thread(target=loop)
    thread.start()
    begun.wait()
    board = Board(identify("run"))
    census, names = ArrayCensus(WatchedNames()), [None]
    for _ in range(FEW):
        if names == [None]:
            census.collect(board, jaxprivate.default_client())
            listed = board.sampler.arrays
            # JAX may hold arrays of its own, and a group that has got a name stays listed without arrays.
            names = [
                group.name
                for group, count in zip(listed.groups, listed.counts, strict=True)
                if count and group.shape == (35, 64)
            ]
    ended.set()
    thread.join()
    print(json.dumps(names))
"""


@pytest.mark.jax
@pytest.mark.newest
def test_a_first_census_has_the_names_that_only_a_generator_knows(tmp_path):
    """Only its loop holds it, out of sight while it is suspended; the next census may be due in a minute.

    On a busy machine it may be suspended again before the census looks, so some more may try.
    """
    few = 5 if patience.factor() > 2 else 1
    done = run(PYTHON, script(tmp_path, LOOPS.replace("FEW", str(few))), imports_jax=True)
    assert (done.stderr, json.loads(done.stdout)) == ("", ["pool"])
