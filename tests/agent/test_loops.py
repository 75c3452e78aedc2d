"""The rounds of loops whose compiler does not state them, as that of TPUs."""

from __future__ import annotations

import pytest

from jaxtop_agent.programs import hlo
from tests.made.hlo_texts import module, work_of

REDUCED = "%sum = f32[64]{0:T(128)} all-reduce(%x), replica_groups={}, to_apply=%add"
NEXT = "%next = s32[]{:T(128)} add(%i, %one)"
TEST = "ROOT %lt = pred[]{:T(512)} compare(%j, %most), direction=LT"
TUPLE = "(s32[]{:T(128)}, f32[64]{0:T(128)}, s32[]{:T(128)})"
BEGIN = "%begin = s32[]{:T(128)} constant(0)"


def looped(
    *, body: str = NEXT, test: str = TEST, begin: str = BEGIN, most: str = "13", carried: str = "%n"
) -> str:
    """A loop with a collective; it carries a counter, an array, and another number."""
    before = f"""%body (p: {TUPLE}) -> {TUPLE} {{
  %p = {TUPLE} parameter(0)
  %one = s32[]{{:T(128)}} constant(1)
  %i = s32[]{{:T(128)}} get-tuple-element(%p), index=0
  %x = f32[64]{{0:T(128)S(1)}} get-tuple-element(%p), index=1
  %n = s32[]{{:T(128)}} get-tuple-element(%p), index=2
  {REDUCED}
  {body}
  ROOT %t = {TUPLE} tuple(%next, %sum, {carried})
}}

%condition (q: {TUPLE}) -> pred[] {{
  %most = s32[]{{:T(128)}} constant({most})
  %q = {TUPLE} parameter(0)
  %j = s32[]{{:T(128)}} get-tuple-element(%q), index=0
  %k = s32[]{{:T(128)}} get-tuple-element(%q), index=2
  {test}
}}

"""
    return module(
        "%a = f32[64]{0:T(128)} parameter(0)",
        begin,
        "%five = s32[]{:T(128)} constant(5)",
        f"%start = {TUPLE} tuple(%begin, %a, %five)",
        f"%w = {TUPLE} while(%start), condition=%condition, body=%body",
        before=before,
    )


def rounds(**parts: str) -> int | None:
    (collective,) = hlo.read(looped(**parts)).collectives
    return collective.times


def test_a_counter_from_0_to_a_constant():
    assert rounds() == 13


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"test": TEST.replace("LT", "LE")}, 14),
        ({"test": TEST.replace("LT", "NE")}, 13),
        ({"test": TEST.replace("%j, %most", "%most, %j").replace("LT", "GT")}, 13),
        ({"test": TEST.replace("%most", "%k")}, 5),  # a bound that the loop carries
        ({"begin": BEGIN.replace("0)", "10)")}, 3),
        ({"begin": "%zero = s32[] constant(0)\n  %begin = s32[]{:T(128)} copy(%zero)"}, 13),
        ({"body": NEXT.replace("add(%i, %one)", "add(%n, %i)"), "test": TEST}, None),  # the step may change
        ({"body": f"%half = {NEXT[8:]}\n  %next = s32[] add(%half, %one)"}, 7),  # two rounds in one
        ({"begin": BEGIN.replace("0)", "20)")}, 0),
        ({"body": NEXT.replace("add", "subtract")}, None),  # it never gets there
        (
            {
                "body": NEXT.replace("add", "subtract"),
                "begin": BEGIN.replace("0)", "20)"),
                "test": TEST.replace("LT", "GE"),
            },
            8,
        ),
        ({"most": "-4"}, 0),
        ({"test": TEST.replace("%most", "%k"), "carried": "%next"}, None),  # the bound moves
        ({"body": NEXT.replace("add", "multiply")}, None),
        ({"begin": "%begin = s32[]{:T(128)} parameter(1)"}, None),
        ({"test": TEST.replace("LT", "EQ")}, None),
        ({"test": "%not = pred[] constant(true)"}, None),
        ({"body": NEXT.replace("%i, %one", "%next, %one")}, None),  # garbled: it adds to itself
    ],
)
def test_other_counters(parts: dict[str, str], expected: int | None):
    assert rounds(**parts) == expected


def test_a_long_chain_of_sums_is_read_once_each():
    """Each sum uses the one before twice: without what is known, 2 to the 16 of them would be read."""
    chain = "\n  ".join(f"%s{i} = s32[] add(%s{i - 1}, %s{i - 1})" for i in range(1, 200))
    assert rounds(body=f"%s0 = s32[] constant(0)\n  {chain}\n  %next = s32[] add(%i, %s199)") is None


def test_what_the_compiler_states_comes_first():
    stated = 'body=%body, backend_config={"known_trip_count":{"n":"7"}}'
    (collective,) = hlo.read(looped().replace("body=%body", stated)).collectives
    assert collective.times == 7


def test_the_work_of_a_launch_counts_each_round():
    """64 additions of the collective and one of the counter in each round, and 14 comparisons."""
    found, unknown = work_of(looped()), work_of(looped(test=TEST.replace("LT", "EQ")))
    assert found is not None and unknown is not None
    assert (found.operations, found.at_least) == (13 * 65 + 14, False)
    assert (unknown.operations, unknown.at_least) == (65 + 1, True)
