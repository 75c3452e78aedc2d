"""What holds memory at the peak of a program: against bytes counted by hand, and the compiler's own sums."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import combinations
from types import SimpleNamespace

import pytest

from jaxtop import wire
from jaxtop.base.protobuf import Malformed
from jaxtop.export.json import to_document
from jaxtop.model import keyframe
from jaxtop_agent.programs.buffers import assignment, schedule
from jaxtop_agent.programs.buffers.assignment import (
    ARGUMENT,
    RESULT,
    TEMPORARY,
    Allocation,
    Held,
    PlacedBuffer,
)
from jaxtop_agent.programs.buffers.liveness import Liveness
from jaxtop_agent.programs.buffers.schedule import Computation, ModuleSchedule, ScheduledInstruction, Shape
from tests import builders
from tests.stage import play, shown_after
from tests.staged.findings import Staged
from tests.support import (
    PYTHON,
    environment,
    eventually,
    jaxtop_here,
    processes,
    run,
    script,
    snapshot,
    until_a_run_is_found,
)

ARRAY = Shape("f32[1024]")
PAIR = Shape("tuple", (ARRAY, ARRAY))
MAIN, BODY, CONDITION = 1, 2, 3


class Made:
    """A schedule that a test writes down."""

    def __init__(self) -> None:
        self.schedule = ModuleSchedule(MAIN, {}, {})

    def add(self, computation, number, opcode, *operands, shape=ARRAY, called=(), of=0):
        number += computation << 32
        found = self.schedule.computations.setdefault(computation, Computation(number))
        found.order.append(number)
        found.root = number
        self.schedule.instructions[number] = ScheduledInstruction(
            number,
            f"{opcode}.{number & 0xFF}",
            opcode,
            shape,
            list(operands),
            list(called),
            of,
            "",
            None,
            None,
        )
        return number


def alive(made, *allocations):
    found = assignment.peak(allocations, made.schedule)
    names = {each.spot: made.schedule.instructions[each.spot[0]].name for each in found.held if each.spot}
    return [(names[each.spot], each.bytes) for each in found.held if each.kind == TEMPORARY], found


def placed(number, offset, size=4096):
    return PlacedBuffer((number, ()), offset, size)


def test_a_buffer_is_alive_from_its_definition_to_its_last_reader():
    """x → a → b → c, and c is added to a: while c is made, a, b and c are needed."""
    made = Made()
    x = made.add(MAIN, 0, "parameter")
    a = made.add(MAIN, 1, "dot", x)
    b = made.add(MAIN, 2, "dot", a)
    c = made.add(MAIN, 3, "dot", b)
    made.add(MAIN, 4, "add", a, c)
    temporaries = Allocation(TEMPORARY, 12288, (placed(a, 0), placed(b, 4096), placed(c, 8192)))
    argument = Allocation(ARGUMENT, 4096, (placed(x, 0),))
    result = Allocation(RESULT, 4096, (placed(made.schedule.computations[MAIN].root, 0),))
    names, found = alive(made, temporaries, argument, result)
    assert sorted(names) == [("dot.1", 4096), ("dot.2", 4096), ("dot.3", 4096)]
    assert made.schedule.instructions[found.at].name == "dot.3"
    assert sum(each.bytes for each in found.held) == 5 * 4096
    spans = Liveness(made.schedule, {(a, ()), (b, ()), (c, ())}).spans()
    assert spans == {(a, ()): (1, 4), (b, ()): (2, 3), (c, ()): (3, 4)}


def test_a_buffer_in_the_place_of_another_counts_once():
    made = Made()
    x = made.add(MAIN, 0, "parameter")
    a = made.add(MAIN, 1, "dot", x)
    b = made.add(MAIN, 2, "negate", a)
    made.add(MAIN, 3, "dot", b)
    names, _ = alive(made, Allocation(TEMPORARY, 4096, (placed(a, 0), placed(b, 0))))
    assert names == [("dot.1", 4096)]


def test_what_a_loop_reads_in_each_round_is_alive_until_it_ends():
    """A loop carries (i, w). Its body reads w first and makes a temporary afterwards: w is needed again."""
    made = Made()
    w = made.add(MAIN, 1, "dot")
    start = made.add(MAIN, 0, "constant")
    carried = made.add(MAIN, 2, "tuple", start, w, shape=PAIR)
    loop = made.add(MAIN, 3, "while", carried, shape=PAIR, called=(BODY, CONDITION))
    made.add(MAIN, 4, "get-tuple-element", loop, of=0)
    given = made.add(BODY, 0, "parameter", shape=PAIR)
    i = made.add(BODY, 1, "get-tuple-element", given, of=0)
    w_inside = made.add(BODY, 2, "get-tuple-element", given, of=1)
    first = made.add(BODY, 3, "add", i, w_inside)
    second = made.add(BODY, 4, "dot", first)
    made.add(BODY, 5, "tuple", second, w_inside, shape=PAIR)
    made.add(CONDITION, 0, "parameter", shape=PAIR)
    made.add(CONDITION, 1, "compare", CONDITION << 32)
    spans = Liveness(made.schedule, {(w, ()), (first, ()), (second, ())}).spans()
    assert spans[w, ()][1] > spans[second, ()][0] > spans[first, ()][0]  # not only until `first` is made
    names, _ = alive(
        made, Allocation(TEMPORARY, 12288, (placed(w, 0), placed(first, 4096), placed(second, 8192)))
    )
    assert sorted(names) == [("add.3", 4096), ("dot.1", 4096), ("dot.4", 4096)]


def test_without_a_schedule_each_allocation_is_one_buffer():
    temporaries = Allocation(TEMPORARY, 12288, (placed(1, 0), placed(2, 4096)))
    found = assignment.peak([temporaries], None)
    assert (found.at, found.held) == (None, (Held(TEMPORARY, 12288, (1, ())),))


@pytest.mark.parametrize("raw", [b"", b"\x08", b"\xff" * 20, b"\x1a\x02\x10\x05"])
def test_damaged_messages_are_refused_or_empty(raw):
    for read in (assignment.read, schedule.read):
        with suppress(Malformed):
            assert len(read(raw) or ()) <= 1


REAL = """
import json, sys
import jax, jax.numpy as jnp
import msgspec
from jaxtop_agent import jaxprivate
from jaxtop_agent.programs import executable_summary
from jaxtop_agent.programs.buffers import assignment, peaks, schedule
from jaxtop_agent.programs.buffers.liveness import Liveness

@jax.jit
def chain(x, w):
    a = jnp.sort(x, axis=1)
    b = jnp.sort(a @ w, axis=0)
    c = b @ w
    return (a * jnp.sort(c, axis=1)).sum()

@jax.jit
def layers(x, ws):
    def layer(h, w):
        return jnp.tanh(h @ w), None
    def loss(x):
        return (jax.lax.scan(layer, x, ws)[0] ** 2).sum()
    return jax.grad(loss)(x)

@jax.jit
def choose(x, p):
    return jax.lax.cond(p > 0, lambda x: (x @ x).sum(), lambda x: jnp.sin(x @ x @ x).sum(), x)

def donated(x):
    return x * 2 + 1
donated = jax.jit(donated, donate_argnums=0)

chain(jnp.ones((256, 512)), jnp.ones((512, 512)))
layers(jnp.ones((256, 256)), jnp.ones((4, 256, 256)))
choose(jnp.ones((128, 128)), 1.0)
donated(jnp.ones((512, 512)))
found = {}
for executable in jaxprivate.live_executables():
    program, _ = executable_summary.describe(executable, alone=True)
    if program is None or program.name.removeprefix("jit_") not in ("chain", "layers", "choose", "donated"):
        continue
    program = executable_summary.with_memory(program, executable)
    peak = peaks.read(peaks.PeakSource.of(executable), program, lambda: None)
    plan = schedule.read(jaxprivate.module_message(jaxprivate.module(executable)))
    allocations = assignment.read(jaxprivate.buffer_assignment(executable))
    spans = Liveness(plan, {each.spot for one in allocations for each in one.buffers}).spans()
    found[program.name] = {
        "program": msgspec.structs.asdict(program), "peak": msgspec.to_builtins(peak),
        "placed": [
            [number, each.offset, each.bytes, *spans[each.spot]]
            for number, one in enumerate(allocations) for each in one.buffers if each.spot in spans
        ],
        "lost": sum(
            each.spot not in spans for one in allocations if one.kind != "constant" for each in one.buffers
        ),
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    path = script(tmp_path_factory.mktemp("buffers"), REAL)
    done = run(PYTHON, path, env=environment(1))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), path.read_text().splitlines()


def peak_of(real, name):
    peak = {**real[0][f"jit_{name}"]["peak"]}
    peak.pop("type", None)
    return wire.decode(
        "peak",
        wire.encode(wire.Peak(**{**peak, "buffers": [wire.Buffer(*each) for each in peak["buffers"]]})),
    )


NAMES = ("chain", "layers", "choose", "donated")


@pytest.mark.jax
@pytest.mark.parametrize("name", NAMES)
def test_sums_are_those_of_the_compiler(real, name):
    program, peak = real[0][f"jit_{name}"]["program"], peak_of(real, name)
    assert not peak.why_not and not peak.note
    assert peak.argument_bytes == program["argument_bytes"]
    assert peak.temporary_bytes == program["temp_bytes"]
    assert peak.result_bytes == program["output_bytes"] - program["alias_bytes"]
    listed = sum(each.bytes for each in peak.buffers) + peak.rest_bytes
    assert listed == peak.argument_bytes + peak.result_bytes + peak.constant_bytes + peak.alive_bytes
    # What is alive fills the memory that the compiler reserved, except for alignment.
    assert 0.99 * peak.temporary_bytes - 512 <= peak.alive_bytes <= peak.temporary_bytes


@pytest.mark.jax
@pytest.mark.parametrize("name", NAMES)
def test_no_two_buffers_that_are_alive_at_once_overlap(real, name):
    """The compiler's places are the judge: were a buffer taken as alive for too long, it would overlap."""
    one = real[0][f"jit_{name}"]
    assert one["lost"] == 0
    for (number, at, size, begin, end), (other, at2, size2, begin2, end2) in combinations(one["placed"], 2):
        if number == other and at != at2 and begin < end2 and begin2 < end:
            assert at + size <= at2 or at2 + size2 <= at


@pytest.mark.jax
def test_the_buffers_of_a_chain_of_products_are_those_counted_by_hand(real):
    """While c is made, a, b and c are alive: 256 × 512 × 4 bytes each."""
    peak, text = peak_of(real, "chain"), real[1]
    large = [each for each in peak.buffers if each.bytes >= 4096]
    assert sorted(each.bytes for each in large if each.kind == TEMPORARY) == [524288] * 3
    assert sorted(each.bytes for each in large if each.kind == ARGUMENT) == [524288, 1048576]
    lines = {1 + next(i for i, line in enumerate(text) if f"{name} = " in line) for name in "abc"}
    assert {each.source for each in large if each.kind == TEMPORARY} == {
        f"script.py:{line}" for line in lines
    }
    assert peak.source == f"script.py:{max(lines)}"
    assert {each.shape for each in large} == {"f32[256,512]", "f32[512,512]"}


@pytest.mark.jax
def test_the_activations_that_a_scan_keeps_for_its_gradient_are_named(real):
    """4 layers of 256 × 256 × 4 bytes are stacked for the backward pass."""
    stacked = [each for each in peak_of(real, "layers").buffers if each.bytes == 4 * 256 * 256 * 4]
    assert {each.shape for each in stacked if each.kind == TEMPORARY} == {"f32[4,256,256]"}
    assert any(each.source.startswith("script.py:") for each in stacked if each.kind == TEMPORARY)


@pytest.mark.jax
def test_a_result_in_the_place_of_a_donated_argument_counts_once(real):
    peak = peak_of(real, "donated")
    assert (peak.argument_bytes, peak.result_bytes, peak.alive_bytes) == (1 << 20, 0, 0)


# The model, JSON and the screen, on a staged message

PEAK = wire.Peak(
    int(builders.NOW * 1000), "jit_step", "f1", argument_bytes=4096, result_bytes=16, temporary_bytes=8192,
    alive_bytes=8000, op="sort.7", source="train.py:12", rest=2, rest_bytes=16,
    buffers=(
        wire.Buffer(ARGUMENT, 4096, "w.1", "parameter", "f32[1024]", "", "w"),
        wire.Buffer(TEMPORARY, 8000, "sort.7", "sort", "f32[2000]", "train.py:12", "jit(step)/sort"),
    ),
)  # fmt: skip
UNKNOWN = wire.Peak(int(builders.NOW * 1000), "jit_step", "f1", why_not="reading it would delay the script")


def staged(peak):
    run = Staged(2)
    run.tell(0, wire.Programs(int(run.at * 1000), (wire.Program("jit_step", "f1", 2, 1),), (0,)))
    run.tell(0, peak)
    run.train(3)
    return run


def test_json_has_the_peak_of_the_program_that_sent_it():
    run = staged(PEAK)
    (program,) = to_document(run.cluster, run.at)["programs"]
    peak = program["peak"]
    assert (peak["argument_bytes"], peak["alive_bytes"], peak["op"], peak["rest"]) == (
        4096,
        8000,
        "sort.7",
        2,
    )
    assert peak["buffers"][1]["source"] == "train.py:12" and peak["why_not"] is None


def test_what_is_not_known_is_null_with_the_reason():
    run = staged(UNKNOWN)
    (program,) = to_document(run.cluster, run.at)["programs"]
    assert program["peak"]["why_not"] == UNKNOWN.why_not
    assert program["peak"]["alive_bytes"] is None and program["peak"]["buffers"] is None


def test_a_program_that_nobody_asked_about_has_none():
    run = staged(wire.Peak(0, "jit_other", None))
    assert to_document(run.cluster, run.at)["programs"][0]["peak"] is None


def test_a_recording_has_the_peak_also_in_its_keyframes_until_the_program_is_unloaded():
    run = staged(PEAK)
    again = builders.folded(keyframe.frames(run.cluster, run.at))
    assert again.hosts[builders.agent_id(0)].peaks == {("jit_step", "f1"): PEAK}
    run.tell(0, wire.Programs(int(run.at * 1000)))
    assert run.cluster.hosts[builders.agent_id(0)].peaks == {}


def test_the_programs_screen_lists_the_largest_buffers():
    shown = shown_after(*staged(PEAK).frames, keys=["7"], size=(120, 40))
    assert "at its peak (sort.7 train.py:12)" in shown and "sort.7 train.py:12  jit(step)/sort" in shown
    shown = shown_after(*staged(UNKNOWN).frames, keys=["7"], size=(120, 40))
    assert "its buffers are unknown: reading it would delay the script" in shown
    shown_after(*staged(PEAK).frames, keys=["7"], size=(40, 10))


def test_the_key_asks_one_live_process_of_the_program():
    asked = []

    def ask(what, agents, _interval_ms):
        asked.append((what, list(agents)))
        return SimpleNamespace(requested=1, replied=1, silent=0, refused={})

    async def act(stage):
        await stage.press("7", "B")
        assert asked == [("peaks", [builders.agent_id(0)])]

    play(act, *staged(PEAK).frames, request_sender=ask)


LIVE = """
    import time
    import jax, jax.numpy as jnp
    from jaxtop import agent
    agent.start(name="peaks")
    @jax.jit
    def step(x, w):
        a = jnp.sort(x, axis=1)
        return (a * jnp.sort(a @ w, axis=0)).sum()
    mesh = jax.sharding.Mesh(jax.devices(), "data")
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    x, w = jax.device_put((jnp.ones((256, 512)), jnp.ones((512, 512))), whole)
    while True:
        step(x, w).block_until_ready()
        time.sleep(0.05)
"""


@pytest.mark.jax
def test_a_snapshot_asks_a_live_process_for_its_peaks(tmp_path):
    with processes([PYTHON, script(tmp_path, LIVE)], env=environment(1)):
        until_a_run_is_found()

        def peak():
            document = snapshot("peaks", "--peaks", "--wait", "20")[1]
            found = [each["peak"] for each in document["programs"] if each["name"] == "jit_step"]
            return found[0] if found else None

        found = eventually(peak)
        asked = ("--peaks", "--mesh", "data=2", "--shard", "x:data", "--wait", "1", "--json")
        planned = json.loads(jaxtop_here("plan", "peaks", *asked).stdout)["candidates"]
    (halved,) = (each for each in planned if each["mesh"] == {"data": 2})
    sources = [each["source"] for each in halved["basis"] if each["figure"] == "temporaries"]
    assert "by the shapes of buffers" in sources[0]
    large = [each["bytes"] for each in found["buffers"] if each["bytes"] > 4096]
    assert sorted(large) == [524288, 524288, 524288, 1048576]  # x, a, a @ w or its sorted copy; w
    assert found["argument_bytes"] == 524288 + 1048576
