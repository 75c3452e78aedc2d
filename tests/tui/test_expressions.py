"""The language of filters: what it finds, and what it says when it makes no sense."""

from __future__ import annotations

import random

import pytest

from jaxtop.tui.filters.arrays import understand
from jaxtop.tui.filters.expressions import MAX_NESTED, Wrong
from tests.stories import array

KERNEL = array(
    "state.params['Dense_0']['kernel']",
    role="parameters",
    shape=(1024, 512),
    sharding="P('data', None)",
    device_ids=tuple(range(8)),
    bytes_global=2 << 30,
    bytes_per_device=1 << 30,
    grown_bytes=0,
)
MOMENT = array(
    "state.opt_state[0].mu['kernel']",
    role="optimizer",
    shape=(1024, 512),
    dtype="bfloat16",
    memory_kind="pinned_host",
    bytes_global=3 << 29,
    bytes_per_device=3 << 29,
)
LEAK = array(None, function=None, shape=(64,), count=40, grown_bytes=5000, bytes_per_device=10_000)
TAIL = array(None, function=None, created=None, shape=(), dtype="", groups=37)
ALL = {"kernel": KERNEL, "moment": MOMENT, "leak": LEAK, "tail": TAIL}


def found(text):
    test = understand(text)
    return " ".join(name for name, view in ALL.items() if test(view))


def refusal(text):
    try:
        found(text)
    except Wrong as wrong:
        return wrong
    return None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("bytes>1G", "moment"),
        ("bytes>=1G & replication>1", "kernel"),
        ("bytes > 1.4g", "moment"),
        ("bytes<9.8K", "leak tail"),
        ("bytes=10000", "leak"),
        ("bytes>1GiB", "moment"),
        ("global>=2G", "kernel"),
        ("count>=10", "leak"),
        ("count!=1", "leak"),
        ("grown>0", "leak"),
        ("grown>-1", "kernel leak"),
        ("devices==8", "kernel"),
        ("dims=0", ""),
        ("dtype=bfloat16", "moment"),
        ("dtype=bf16", "moment"),
        ("dtype~float", "kernel moment leak"),
        ("dtype=key<fry>", ""),
        ("role=parameters | role=optimizer", "kernel moment"),
        ("role=PARAMETERS", "kernel"),
        ("role=n/a", "leak tail"),
        ("role!=n/a", "kernel moment"),
        ("name~kernel", "kernel moment"),
        ("name!~kernel", "leak tail"),
        ("name~['Dense_0']", "kernel"),
        ("function=train", "kernel moment"),
        ("kind=pinned_host", "moment"),
        ("spec~data", "kernel"),
        ("spec=\"P('data', None)\"", "kernel"),
        ("spec=P('data', None)", "kernel"),
        ("shape~1024", "kernel moment"),
        ("shape~102", ""),
        ("shape~1024,512", "kernel moment"),
        ("shape~512x1024", ""),
        ("shape=64", "leak"),
        ("shape=(1024, 512)", "kernel moment"),
        ("shape!=1024×512", "leak tail"),
        ("created~:57", "kernel moment leak"),
    ],
)
def test_conditions_find_what_they_say(text, names):
    assert found(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("count>10 | role=optimizer & bytes>2G", "leak"),
        ("(count>10 | role=optimizer) & bytes>1G", "moment"),
        ("(count>10||role=optimizer)&&bytes>1G", "moment"),
        ("!role=n/a", "kernel moment"),
        ("!(role=parameters | count>10)", "moment tail"),
        ("!!count>10", "leak"),
        ("! ! ! count>10", "kernel moment tail"),
        ("kernel & bytes>1G", "moment"),
        ("kernel bytes>1G", "moment"),
        ("kernel !bfloat16", "kernel"),
        ("kernel | grown>0", "kernel moment leak"),
        ("'dense_0' | count>10", "kernel leak"),
    ],
)
def test_conditions_and_words_go_together(text, names):
    assert found(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("KERNEL", "kernel moment"),
        ("kernel pinned", "moment"),
        ("P('data', None)", "kernel"),
        ("['Dense_0']", "kernel"),
        ("1024×512", "kernel moment"),
        ("train.py:57 64", "leak"),
        ("37 kinds", "tail"),
        ("it's", ""),
        ("((", ""),
        ("  ", "kernel moment leak tail"),
    ],
)
def test_words_without_operators_are_words_whatever_they_hold(text, names):
    assert found(text) == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bytes>", "a value is missing after >, at 7"),
        ("bytes> & x", "a value is missing after >, at 8"),
        ("bytes>big", "big is not a number, at 7"),
        ("bytes~1", "~ does not work with numbers, at 7"),
        ("name>3", "> does not work with names, at 6"),
        ("shape>3", "> does not work with shapes, at 7"),
        ("shape=big", "big is not a shape, at 7"),
        ("x & byts>1", "no field byts, try bytes, at 5"),
        ("zzz=1", "no field zzz, at 1"),
        (">1", "a condition is missing, at 1"),
        ("count>1 &", "a condition is missing, at 10"),
        ("count>1 | | x", "a condition is missing, at 11"),
        ("(count>1", ") is missing, at 9"),
        ("count>1)", "unexpected ), at 8"),
        ("a>1>2", "no field a, at 1"),
        ("count>1>2", "1>2 is not a number, at 7"),
        ("count>1 >2", "unexpected >, at 9"),
        ("shape=(8, 1", "( is not closed, at 7"),
        ("name~'kern", "' is not closed, at 6"),
        ("!", "a condition is missing, at 2"),
        ("()&x", "a condition is missing, at 2"),
    ],
)
def test_what_makes_no_sense_is_said_with_its_place(text, said):
    with pytest.raises(Wrong) as caught:
        understand(text)
    assert str(caught.value) == said


@pytest.mark.parametrize("text", ["(" * 5000 + "x=1", "!" * 5000 + "count>1", "(" * MAX_NESTED + "count>1"])
def test_no_number_of_brackets_brings_it_down(text):
    wrong = refusal(text)
    assert wrong is None or "bracket" in wrong.why or ")" in wrong.why


def test_anything_at_all_is_either_understood_or_refused():
    dice = random.Random(1)
    pieces = [
        "bytes",
        "name",
        "shape",
        ">",
        "=",
        "~",
        "!",
        "&",
        "|",
        "(",
        ")",
        "'",
        '"',
        "1G",
        "8,8",
        " ",
        "é\x1b",
    ]
    for _ in range(3000):
        text = "".join(dice.choices(pieces, k=dice.randint(0, 9)))
        wrong = refusal(text)
        assert wrong is None or (0 <= wrong.at <= len(text) and wrong.why)
