"""The instructions and expressions of unwind tables: what they mean, and that nonsense is an error."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from jaxtop_agent.native.cursor import Cursor
from jaxtop_agent.native.entries import CommonEntry, UnwindEntry
from jaxtop_agent.native.memory import UnwindError
from jaxtop_agent.native.rules import (
    AT,
    AT_EXPRESSION,
    IS,
    IS_EXPRESSION,
    RBP,
    RBX,
    REGISTER,
    RETURN,
    RSP,
    UNDEFINED,
    UnknownRegister,
    evaluate,
    rules_at,
)
from tests.cases import thorough

# The frame is rsp + 8, and the return address lies at its end: what all entries of x86-64 begin with.
FIRST = bytes([0x0C, RSP, 8, 0x80 | RETURN, 1])
START = 0x1000


def entry(*instructions, first=FIRST):
    code = b"".join(bytes([each]) if isinstance(each, int) else each for each in instructions)
    return UnwindEntry(START, START + 0x100, code, CommonEntry(1, -8, RETURN, first, 0x1B, True, False))


# push rbp; mov rbp, rsp; push rbx; ...; leave: as compilers write it.
FUNCTION = entry(
    0x41, 0x0E, 16, 0x80 | RBP, 2,  # after 1 byte: the frame is rsp + 16, rbp lies at -16
    0x43, 0x0D, RBP,  # after 3 more: rbp + 16
    0x02, 0x10, 0x80 | RBX, 3,  # after 16 more: rbx at -24
    0x0A, 0x03, b"\x40\x00", 0x0C, RSP, 8,  # after 64 more, in an early return: rsp + 8
    0x41, 0x0B,  # and after that as before
)  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "register", "distance", "saved"),
    [
        (0, RSP, 8, {}),
        (1, RSP, 16, {RBP: -16}),
        (4, RBP, 16, {RBP: -16}),
        (19, RBP, 16, {RBP: -16}),
        (20, RBP, 16, {RBP: -16, RBX: -24}),
        (83, RBP, 16, {RBP: -16, RBX: -24}),
        (84, RSP, 8, {RBP: -16, RBX: -24}),
        (85, RBP, 16, {RBP: -16, RBX: -24}),
        (255, RBP, 16, {RBP: -16, RBX: -24}),
    ],
)
def test_the_frame_of_a_function_is_known_at_each_of_its_instructions(offset, register, distance, saved):
    rules = rules_at(FUNCTION, START + offset)
    assert (rules.register, rules.offset, rules.expression) == (register, distance, b"")
    assert rules.registers == {RETURN: (AT, -8), **{each: (AT, at) for each, at in saved.items()}}


@pytest.mark.parametrize(
    ("instructions", "rule"),
    [
        ((0x05, RBX, 4), (AT, -32)),
        ((0x11, RBX, 0x7C), (AT, 32)),
        ((0x2F, RBX, 4), (AT, 32)),
        ((0x14, RBX, 4), (IS, -32)),
        ((0x15, RBX, 0x7C), (IS, 32)),
        ((0x09, RBX, 12), (REGISTER, 12)),
        ((0x07, RBX), (UNDEFINED, 0)),
        ((0x10, RBX, 2, 0x77, 8), (AT_EXPRESSION, b"\x77\x08")),
        ((0x16, RBX, 2, 0x77, 8), (IS_EXPRESSION, b"\x77\x08")),
        ((0x80 | RBX, 2, 0x08, RBX), None),
        ((0x80 | RBX, 2, 0xC0 | RBX), None),
        ((0x80 | RBX, 2, 0x06, RBX), None),
        ((0x2E, 0x80, 0x01, 0x80 | RBX, 2), (AT, -16)),
    ],
)
def test_each_way_to_save_a_register_is_understood(instructions, rule):
    assert rules_at(entry(*instructions), START).registers.get(RBX) == rule


def test_a_frame_may_be_an_expression():
    rules = rules_at(entry(0x0F, 3, b"\x76\x78\x06"), START)
    word = {0x2000 - 8: 0x3000}.__getitem__
    assert evaluate(rules.expression, {RBP: 0x2000}, word) == 0x3000


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (b"\x35", 5),
        (b"\x08\xff\x09\xff\x22", 254),
        (b"\x0a\x00\x01\x38\x1c", 248),
        (b"\x10\x80\x01\x11\x7f\x22", 127),
        # The frame of an entry of a linkage table: 8 more from the eleventh byte on.
        (b"\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22", 0x7008 + 8),
        (b"\x92\x07\x10", 0x7010),
        (b"\x31\x12\x22\x23\x05", 7),
        (b"\x31\x1f", (1 << 64) - 1),
    ],
)
def test_an_expression_has_its_value(expression, value):
    assert evaluate(expression, {RSP: 0x7000, 16: 0x100B}, lambda _: 0) == value


def test_a_value_that_depends_on_an_unknown_register_says_which():
    with pytest.raises(UnknownRegister, match="r12 is unknown"):
        evaluate(b"\x7c\x00", {RSP: 1}, lambda _: 0)


@pytest.mark.parametrize(
    ("instructions", "words"),
    [
        ((0x0B,), "recalls"),
        ((0x3F,), "unknown instruction"),
        ((0x0C, RSP), "too early"),
        ((0x10, RBX, 0x7F, 1), "too early"),
        ((0x0A,) * 100, "remembers too much"),
        ((0x00,) * 5000, "too many instructions"),
        ((0x0C, b"\xff" * 12), "no end"),
    ],
)
def test_instructions_that_make_no_sense_are_an_error(instructions, words):
    with pytest.raises(UnwindError, match=words):
        rules_at(entry(*instructions), START)


@pytest.mark.parametrize("expression", [b"", b"\x06", b"\x22", b"\xe0", b"\x31" * 200, b"\x12", b"\x77"])
def test_expressions_that_make_no_sense_are_an_error(expression):
    with pytest.raises(UnwindError):
        evaluate(expression, {RSP: 1}, lambda _: 0)


@pytest.mark.parametrize("seed", [*range(4), *map(thorough, range(4, 40))])
def test_random_bytes_are_rules_or_an_error(seed):
    dice = random.Random(seed)
    for _ in range(500):
        noise = dice.randbytes(dice.randrange(40))
        with suppress(UnwindError):
            rules_at(entry(noise), START + dice.randrange(256))
        with suppress(UnwindError):
            evaluate(noise, dict.fromkeys(range(17), dice.getrandbits(64)), lambda at: at)
        with suppress(UnwindError):
            Cursor(noise).encoded(dice.randrange(256))
