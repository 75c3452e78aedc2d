"""What differs between two compilations, on made signatures, and that what is remembered has bounds."""

from __future__ import annotations

import gc
import weakref
from functools import partial

import pytest

from jaxtop import wire
from jaxtop_agent.programs.compiles import recompilations, signatures, statics
from jaxtop_agent.programs.compiles.recompilations import CompilationSubject, Recompilations
from jaxtop_agent.programs.compiles.signatures import Identity, Leaf, Signature, difference, nearest


def step(x):
    return x


def leaf(*shape: int, dtype: str = "float32", weak: bool = False, sharding: str = "on device 0") -> Leaf:
    return Leaf(shape, dtype, weak, sharding)


def signature(function=step, n: object = 3, settings=("None",), options=0, **arrays: Leaf) -> Signature:
    arrays = arrays or {"x": leaf(4, 4), "k": leaf()}
    return Signature(
        tuple(arrays), tuple(arrays.values()), statics.parts("n", n), settings, Identity(function), options
    )


BASE = signature()


@pytest.mark.parametrize(
    ("new", "change"),
    [
        (signature(x=leaf(4, 5), k=leaf()), ("shape", "x", "float32[4,4]", "float32[4,5]")),
        (
            signature(x=leaf(4, 4, dtype="bfloat16"), k=leaf()),
            ("dtype", "x", "float32[4,4]", "bfloat16[4,4]"),
        ),
        (
            signature(x=leaf(4, 4), k=leaf(weak=True)),
            ("weak_type", "k", "strong float32[]", "weak float32[]"),
        ),
        (
            signature(x=leaf(4, 4, sharding="P('a') over a=2"), k=leaf()),
            ("sharding", "x", "on device 0", "P('a') over a=2"),
        ),
        (signature(n=4), ("static", "n", "3", "4")),
        (signature(n=(3, 4)), ("static", "n", "3", "absent")),
        (signature(lambda x: x), ("function", "", "", "")),
        (signature(options=7), ("function", "", "", "other options of jax.jit")),
        (signature(settings=("float32",)), ("setting", "precision", "None", "float32")),
        (signature(x=leaf(4, 4)), ("structure", "k", "float32[]", "absent")),
        (
            signature(x=leaf(4, 4), k=leaf(), mask=leaf(2)),
            ("structure", "mask", "absent", "float32[2]"),
        ),
    ],
)
def test_one_difference_of_each_kind(new, change):
    assert tuple(difference(new, BASE, ("precision",))[0]) == change


def test_no_difference():
    assert difference(signature(), BASE) == []
    assert difference(signature(settings=("None", "new in this version")), BASE) == []


def test_the_nearest_of_several_is_compared_and_the_latest_of_equals():
    cached = (
        signature(x=leaf(9, 9, dtype="int8"), k=leaf()),
        signature(x=leaf(4, 4), k=leaf(weak=True)),
        signature(x=leaf(4, 6), k=leaf()),
        signature(x=leaf(4, 7), k=leaf()),
    )
    (only,) = nearest(signature(x=leaf(4, 8), k=leaf()), cached) or []
    assert only.before == "float32[4,7]"
    (only,) = nearest(signature(x=leaf(4, 4), k=leaf()), cached) or []
    assert only.cause in {"weak_type", "shape"}


def test_a_signature_of_another_function_counts_only_if_there_is_none_of_the_same():
    same, other = signature(x=leaf(9), k=leaf()), signature(lambda x: x)
    found = nearest(signature(), (same, other)) or []
    assert [each.cause for each in found] == ["shape"]
    found = nearest(signature(), (other,)) or []
    assert [each.cause for each in found] == ["function"]
    assert nearest(signature(), ()) is None


def test_no_more_differences_are_described_than_are_shown_and_far_signatures_are_left_early(monkeypatch):
    def wide(dtype: str, count: int = 5000) -> Signature:
        leaves = {f"p{i}": leaf(i, 8, dtype=dtype if i < count else "float32") for i in range(5000)}
        return signature(n=dtype, **leaves)

    far = [wide(f"int{bits}") for bits in (4, 8, 16, 32)]
    found = difference(wide("float32"), far[0])
    assert len(found) == signatures.MOST_CHANGES and found.total == 5001
    assert [each.cause for each in found[:2]] == ["static", "dtype"]

    compared = []
    of_leaves = signatures._leaf_differences
    monkeypatch.setattr(
        signatures, "_leaf_differences", lambda *each: (compared.append(each), of_leaves(*each))[1]
    )
    found = nearest(wide("float32"), (*far, wide("bfloat16", 2)))
    assert found is not None and [each.argument for each in found] == ["n", "p0", "p1"]
    assert len(compared) < 20


def test_functions_are_compared_as_jax_does_and_not_kept_alive():
    class Model:
        def step(self):
            pass

    model, other = Model(), Model()
    assert Identity(model.step).is_same(Identity(model.step))
    assert not Identity(model.step).is_same(Identity(other.step))
    wrapped = partial(step, 1)
    assert Identity(wrapped).is_same(Identity(wrapped))
    assert not Identity(wrapped).is_same(Identity(partial(step, 1)))
    assert Identity(3).is_same(Identity(4))  # these cannot be followed, so no difference is claimed
    mine, gone = Identity(wrapped), weakref.ref(wrapped)
    del wrapped
    gc.collect()
    assert gone() is None and not mine.is_same(mine)


class Slotted:
    __slots__ = ("a",)


def test_values_without_a_text_of_their_own_differ_by_identity_only_if_nothing_else_does():
    values = Slotted(), Slotted()  # JAX keeps them alive
    one, another = (signature(n=value) for value in values)
    (only,) = difference(another, one)
    assert only == ("static", "n", "a Slotted", "another object: a Slotted")
    (only,) = difference(another._replace(leaves=(leaf(5), leaf())), one)
    assert only.cause == "shape"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"token": "one"}, {"token": "two"}, "a value"),
        ({"url": "a://b:c@d"}, {"url": "a://b:e@d"}, "a str of 9 characters"),
        ({"raw": b"one"}, {"raw": b"two"}, "3 bytes"),
    ],
)
def test_values_that_are_not_shown_differ_all_the_same(before, after, text):
    for others in {}, {"settings": ("float32",)}:
        change, *rest = difference(signature(n=after, **others), signature(n=before))
        assert change == ("static", f"n[{next(iter(before))!r}]", text, "another value")
        assert len(rest) == len(others)
    assert difference(signature(n=dict(before)), signature(n=before)) == []


def note(history: Recompilations, at: int, function: str = "f", new: Signature | None = BASE) -> str:
    subject = CompilationSubject(function, f"a.py:{at % 700}", (function,), new)
    return history.note(subject, at, 10, from_cache=at % 2 == 0).cause


def counted(history: Recompilations) -> int:
    """Return how many values are remembered; a tuple of settings that several signatures have counts once."""
    every = [each for one in history._signatures.values() for each in one]
    settings = {id(each.settings): each.settings for each in every}
    return sum(len(each.leaves) + len(each.statics) for each in every) + sum(map(len, settings.values()))


class TestRecompilations:
    def test_static_values_and_settings_count(self):
        """Signatures that have equal settings share one tuple of them."""
        history = Recompilations()
        for i in range(1200):
            settings = tuple(f"{j} {i if i % 3 == 0 else 0}" for j in range(200))
            note(history, i, f"f{i % 500}", signature(n=tuple(range(i, i + 64)), settings=settings))
            assert counted(history) == history._values <= recompilations.MOST_VALUES
        assert len({each.settings for one in history._signatures.values() for each in one}) == len(
            history._settings
        )

    def test_all_further_differences_are_counted(self):
        history = Recompilations()
        note(history, 1, new=signature(**{f"p{i}": leaf(i) for i in range(10_000)}))
        note(history, 2, new=signature(**{f"p{i}": leaf(i, dtype="int8", weak=True) for i in range(10_000)}))
        last = history.latest()[-1]
        assert (last.cause, last.argument, last.others) == ("dtype", "p0", 19_999)

    def test_what_is_remembered_is_bounded(self):
        history = Recompilations()
        for i in range(3000):
            wide = signature(**{f"p{j}": leaf(i) for j in range(200)})
            note(history, i, f"f{i % 900}", wide)
        assert len(history._signatures) <= recompilations.MOST_FUNCTIONS
        assert counted(history) == history._values <= recompilations.MOST_VALUES
        assert len(history.latest()) <= recompilations.MOST_FIRST + recompilations.MOST_AGAIN
        lines = history.lines(40)
        assert len(lines) == 40 and lines[-1].function == recompilations.ALL_OTHERS
        assert sum(each.times for each in lines) == 3000
        assert sum(each.duration_ms for each in lines) == 30_000
        assert sum(each.hits for each in lines) == sum(each.misses for each in lines) == 1500
        assert len(wire.encode(wire.Programs(
            0,
            compilations=tuple(wire.Compilation(*each) for each in history.latest()),
            lines=tuple(wire.CompiledLine(*each) for each in lines),
        ))) < 20_000  # fmt: skip

    def test_first_then_the_cause(self):
        history = Recompilations()
        assert note(history, 1) == signatures.FIRST
        assert note(history, 2, new=signature(x=leaf(4, 5), k=leaf())) == "shape"
        assert note(history, 3) == ""  # JAX dropped its caches
        assert note(history, 4, new=None) == ""
        assert [each.at_ms for each in history.latest()] == [1, 2, 3, 4]
        assert history.lines(40)[0].again <= 3

    def test_compilations_of_one_moment_keep_their_order(self):
        history = Recompilations()
        for from_cache in (None, True, None):
            history.note(CompilationSubject("f"), 5, 10, from_cache=from_cache)
        assert [each.from_cache for each in history.latest()] == [None, True, None]

    def test_new_functions_do_not_displace_those_compiled_again(self):
        history = Recompilations()
        note(history, 1)
        note(history, 2, new=signature(n=9))
        for i in range(3, 500):
            note(history, i, f"g{i}")
        assert next(each.cause for each in history.latest()) == "static"


@pytest.mark.parametrize(
    ("compilation", "words"),
    [
        (("first",), "not compiled before"),
        (("",), "nothing that is compared has changed"),
        (("shape", "x", "float32[4]", "float32[5]"), "shape of x changed: float32[4] → float32[5]"),
        (("weak_type", "k", "weak int32[]", "strong int32[]", 2),
         "weak type of k changed: weak int32[] → strong int32[], and 2 more"),
        (("static", "n", "3", "4"), "static value of n changed: 3 → 4"),
        (("structure", "b['m']", "absent", "float32[4]"), "b['m'] is new"),
        (("structure", "b['m']", "float32[4]", "absent"), "b['m'] is absent now"),
        (("function",), "a new function object, though its code is the same"),
        (("function", "", "", "other options of jax.jit"), "other options of jax.jit"),
        (("setting", "jax_enable_x64", "False", "True"), "the setting jax_enable_x64 changed: False → True"),
        (("setting", "", "False", "True"), "the setting of JAX changed: False → True"),
        (("of a newer agent", "x", "1", "2"), "of a newer agent of x changed: 1 → 2"),
    ],
)  # fmt: skip
def test_causes_in_words(compilation, words):
    assert wire.Compilation(0, "f", "a.py:1", 5, *compilation).why == words
