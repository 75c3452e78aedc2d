"""A function that is compiled when its process had been warm for a while: one is too many in a server."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import Severity
from tests import builders
from tests.staged.findings import Staged


def staged(*compilations, launches=500, steps=False, role=None, **more):
    run = Staged(1)
    run.tell(0, builders.hello(0, 1, role=role))

    def pulse(*at):
        rhythm = wire.Rhythm(1, ("generate",), 100, mean_us=9_000, samples=50, p50_us=9_000)
        said = replace(builders.pulse(*at[:2]), launches={"generate": launches}, lull=None)
        return replace(said, rhythm=rhythm if steps else None)

    run.train(3, pulse)
    listed = tuple(
        wire.Compilation(int((run.at + ago) * 1000), function, "serve.py:40", ms, *cause)
        for ago, function, ms, cause in compilations
    )
    run.tell(0, wire.Programs(int(run.at * 1000), compilations=listed, **more))
    run.train(3, pulse)
    return run


FIRST = (-300, "generate", 2_000, ("first",))
ODD = (-9, "generate", 1_800, ("shape", "tokens", "i32[1,512]", "i32[1,384]"))


def test_one_odd_request_after_the_warm_up_is_found_with_its_shape_and_its_cost():
    one = staged(FIRST, (-10.9, "zeros", 20, ("shape",)), ODD, of_jax=("jit_zeros",)).the("compiled_late")
    assert one.text == (
        "generate took 1.8 s to compile after warm-up: shape of tokens changed: i32[1,512] → i32[1,384]"
    )
    assert one.severity is Severity.WARNING and one.subject.source == "serve.py:40"
    assert [each.value for each in one.evidence] == [1.8, "i32[1,512]", "i32[1,384]", 500]


def test_where_steps_are_made_it_is_a_note():
    assert staged(FIRST, ODD, steps=True).the("compiled_late").severity is Severity.INFO
    assert staged(FIRST, ODD, steps=True, role="engine").the("compiled_late").severity is Severity.WARNING


@pytest.mark.parametrize(
    ("compilations", "launches"),
    [
        ([(-40, *FIRST[1:]), ODD], 500),  # it warms up
        ([FIRST, ODD], 19),  # it was hardly used
        ([FIRST, (*ODD[:2], 150, ODD[3])], 500),  # nobody waits for it
        ([FIRST, (*ODD[:3], ("first",))], 500),  # another function
        ([(-2000, *FIRST[1:]), (-700, *ODD[1:])], 500),  # long ago
        ([ODD], 500),  # what was before is unknown
    ],
)
def test_other_compilations_are_none(compilations, launches):
    assert staged(*compilations, launches=launches).found("compiled_late") == []


def test_functions_of_jax_are_none():
    assert staged(FIRST, ODD, of_jax=("jit_generate",)).found("compiled_late") == []
