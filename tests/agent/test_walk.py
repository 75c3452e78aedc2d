"""The walk from variables to arrays: every container that people use, and no code of theirs run."""

from __future__ import annotations

import math
import types
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from jaxtop_agent.arrays import walk as walking
from jaxtop_agent.arrays.walk import MAX_OBJECTS_WITHOUT_ARRAY, MOST_ARRAYS, MOST_CONTAINERS, Walk


@dataclass(eq=False)
class Array:
    """Stands for an array: all that the walk asks of one."""

    aval: object = field(default_factory=object)


Moments = namedtuple("Moments", ["mu", "nu"])  # noqa: PYI024 - as Optax makes them


@dataclass
class State:
    params: Any
    opt_state: Any = None
    step: int = 0


@dataclass(frozen=True, slots=True)
class Slotted:
    value: Any
    unset: Any = field(default=None)


class Module:
    """A user's class that would notice being touched."""

    def __init__(self, **children: Any) -> None:
        self.__dict__.update(children)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"__getattr__({name!r}) was called")

    @property
    def expensive(self) -> Any:
        raise AssertionError("a property was called")

    def __iter__(self) -> Any:
        raise AssertionError("it was iterated over")


class Stubborn(dict):
    """A mapping whose own ways must not be used."""

    def items(self) -> Any:
        raise AssertionError("items() was called")

    __iter__ = keys = values = __getitem__ = get = items


class Settings:
    """A class that holds arrays itself."""

    table = Array()
    layers: ClassVar = {"w": Array()}


class Strange(type):
    """A metaclass that would notice being asked."""

    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError(f"{name!r} was asked of a class")


class Stored(metaclass=Strange):
    """A class whose own ways must not be used."""

    table = Array()


class Key:
    """A key that would notice being hashed or printed anew."""

    armed = False

    def __hash__(self) -> int:
        assert not Key.armed, "a key was hashed"
        return 1

    def __repr__(self) -> str:
        raise AssertionError("a key was printed")


def names(value: Any, name: str = "s", *, breath: bool = False) -> dict[str, int]:
    """How many arrays are found under each name; with `breath`, as if the script ran on at every moment."""
    walk = Walk(Array, lambda _: None, lambda: breath, bool)
    found: dict[str, int] = {}
    for path in walk.places_in(name, value).values():
        found[path.name] = found.get(path.name, 0) + 1
    return found


A = Array
HOLDERS = {
    "an array": (A(), {"s": 1}),
    "dicts": ({"a": A(), "b": {"c": A(), 3: A()}}, {"s['a']": 1, "s['b']['c']": 1, "s['b'][3]": 1}),
    "sequences": ([A(), (A(), [A()])], {"s[0]": 1, "s[1][0]": 1, "s[1][1][0]": 1}),
    "named tuples": (Moments(A(), [A()]), {"s.mu": 1, "s.nu[0]": 1}),
    "dataclasses": (State({"w": A()}, (A(),)), {"s.params['w']": 1, "s.opt_state[0]": 1}),
    "slots": (Slotted([A()]), {"s.value[0]": 1}),
    "objects": (Module(layer=Module(w=A())), {"s.layer.w": 1}),
    "other mappings": (
        {"o": OrderedDict(a=A()), "d": defaultdict(list, b=[A()])},
        {"s['o']['a']": 1, "s['d']['b'][0]": 1},
    ),
    "queues": (deque([A(), A()]), {"s[0]": 1, "s[1]": 1}),
    "namespaces": (types.SimpleNamespace(x=A()), {"s.x": 1}),
    "classes": ({"settings": Settings}, {"s['settings'].table": 1, "s['settings'].layers['w']": 1}),
    "classes with ways of their own": (Stored, {"s.table": 1}),
    "mappings with ways of their own": (Stubborn(a=A(), b=[A()]), {"s['a']": 1, "s['b'][0]": 1}),
    "keys of tuples": ({("a", 1): A()}, {"s[('a', 1)]": 1}),
    "what holds no array": ({"a": 1, "b": [2.0, "c", None], "f": len, "t": dict}, {}),
    "many arrays": ([A() for _ in range(MOST_ARRAYS + 1)], {"s[*]": MOST_ARRAYS + 1}),
    "as many as have names": ([A() for _ in range(MOST_ARRAYS)], {f"s[{i}]": 1 for i in range(MOST_ARRAYS)}),
    "many containers": (
        {"l": [{"w": A(), "b": [A()]} for _ in range(MOST_CONTAINERS + 50)]},
        {"s['l'][*]['w']": MOST_CONTAINERS + 50, "s['l'][*]['b'][0]": MOST_CONTAINERS + 50},
    ),
    "very many arrays": ({"history": [A() for _ in range(5000)]}, {"s['history'][*]": 5000}),
    "much that is no array": ([1] * 100_000, {}),
    "a large table beside a state": (
        Module(table={f"word {i}": [[i], [i + 1]] for i in range(5000)}, state={"w": A()}),
        {"s.state['w']": 1},
    ),
}


@pytest.mark.parametrize("breath", [False, True], ids=["at once", "with breaths"])
@pytest.mark.parametrize("what", HOLDERS)
def test_arrays_are_found_wherever_people_put_them(what, breath):
    value, expected = HOLDERS[what]
    assert names(value, breath=breath) == expected


def test_an_array_in_two_places_has_one_name():
    """That of the place that is met first, and so the same at each census."""
    shared = A()
    state = {"params": shared, "also": [shared]}
    assert names(state) == {"s['params']": 1}


def test_a_circle_has_an_end():
    inner: dict[str, Any] = {"w": A()}
    inner["self"] = {"parent": inner, "v": A()}
    assert names(inner) == {"s['w']": 1, "s['self']['v']": 1}
    assert names(inner, breath=True) == {"s['w']": 1, "s['self']['v']": 1}


def test_keys_of_the_user_are_neither_hashed_nor_printed():
    value = {Key(): A(), "plain": A()}
    Key.armed = True
    try:
        assert names(value) == {"s[*]": 1, "s['plain']": 1}
    finally:
        Key.armed = False


def test_attributes_that_run_code_are_not_read():
    class Liar:
        @property
        def __dict__(self) -> Any:
            raise AssertionError("a property was called")

    assert names([Liar(), A()]) == {"s[1]": 1}


def test_names_are_the_same_objects_at_each_census():
    """Walking a state again makes nothing new: what is made counts towards a garbage collection."""
    state = State({"w": A()}, Moments(A(), A()))
    walk = Walk(Array, lambda _: None, bool, bool)
    before = set(map(id, walk.places_in("s", state).values()))
    assert set(map(id, walk.places_in("s", State({"w": A()}, Moments(A(), A()))).values())) == before


@pytest.mark.parametrize(
    ("value", "roles"),
    [
        (State({"w": A()}, Moments({"params": A()}, A())), {"parameters", "optimizer"}),
        ({"params": A(), "grads": {"params": A()}, "batch": (A(),), "thing": A()},
         {"parameters", "gradients", "batch", None}),
        ({"opt_state": {"model": A()}}, {"optimizer"}),
        ({"svi_state": {"optim_state": (A(), [A()])}}, {"optimizer"}),
        ({"decode_state": {"kv_cache": [{"k": A(), "v": A()}]}}, {"other"}),
        ({"model": {"_jax_state": {"trainable_variables": [A()], "optimizer_variables": [A()]}}},
         {"parameters", "optimizer"}),
        ({"model": {"_jax_state": {"non_trainable_variables": [A()], "metrics_variables": [A()]},
                    "_loss_tracker": [A()], "_compile_metrics": [A()]}}, {"other"}),
    ],
    ids=["a state", "a dict", "a model-shaped state", "NumPyro", "a cache of keys and values", "Keras",
         "the rest of Keras"],
)  # fmt: skip
def test_roles_come_from_the_names_on_the_way(value, roles):
    walk = Walk(Array, lambda _: None, bool, bool)
    assert {path.role for path in walk.places_in("s", value).values()} == roles


def test_the_optimizer_of_an_object_refers_to_its_model():
    class Object:
        def __init__(self, **held: Any) -> None:
            self.__dict__ |= held

    optimizer = Object(_variables=[A()], _trainable_variables=[A()], moments=Object(model=A()))
    walk = Walk(Array, lambda _: None, bool, bool)
    roles = {path.name: path.role for path in walk.places_in("s", {"optimizer": optimizer}).values()}
    assert roles == {
        "s['optimizer']._variables[0]": "optimizer",
        "s['optimizer']._trainable_variables[0]": "parameters",
        "s['optimizer'].moments.model": "optimizer",  # it has the shape of the model
    }


def test_a_variable_without_arrays_is_looked_at_again_soon_and_then_ever_more_rarely(monkeypatch):
    crowd = [[] for _ in range(MAX_OBJECTS_WITHOUT_ARRAY + 1)]
    walk, walked, walk_from = Walk(Array, lambda _: None, bool, bool), [], Walk._walk

    def spy(self: Walk, path: Any) -> int:
        if path.name == "crowd":
            walked.append(self._census)
        return walk_from(self, path)

    def look() -> bool:
        return any(path.name.startswith("crowd") for path in walk.places([]).values())

    monkeypatch.setattr(Walk, "_walk", spy)
    # The frames of the test runner hold all tests: their paths would soon be too many, and all be forgotten.
    monkeypatch.setattr(walking, "MOST_PATHS", math.inf)
    for _ in range(39):
        assert not look()
    assert walked == [1, 3, 6, 11, 20, 31]
    crowd.append([A()])
    assert not look() and any(look() for _ in range(3))


def test_nothing_is_held_while_the_script_may_run():
    """What it drops during a breath is gone at once, however deep in it the walk is."""
    state = {"layers": [{"w": A(), "b": [A()]} for _ in range(20)]}
    watched = [weakref.ref(layer[key]) for layer in state["layers"] for key in ("w",)]
    turns = iter(range(10_000))
    alive_after_drop: list[int] = []

    def release_gil() -> None:
        if next(turns) == 8:
            state["layers"].clear()
            alive_after_drop.append(sum(each() is not None for each in watched))

    walk = Walk(Array, lambda _: None, lambda: True, release_gil)
    walk.places_in("s", state)
    assert alive_after_drop == [0]
