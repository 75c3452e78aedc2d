"""Native stacks as a viewer has them: in findings, in the tree of stacks, in JSON and in post-mortems."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.export import to_document
from jaxtop.model.findings.postmortem import postmortem_of
from jaxtop.model.findings.postmortem_words import MAX_NATIVE, facts
from jaxtop.model.liveness import State
from jaxtop.model.stalls.native import native_text
from jaxtop.model.stalls.stack_tree import search_text, stack_nodes
from jaxtop.wire.bounds import MAX_NATIVE_FRAMES
from tests import builders
from tests.builders import agent_id
from tests.staged import collectives as staged
from tests.staged.collectives import GLOO
from tests.staged.hangs import finding
from tests.staged.stalls import BEGAN, VALUE, Run
from tests.stories import pulse

READS = wire.NativeStack((wire.NativeFrame("recv", "libc.so.6"),), "", "its time is over")
TEXTS = ["libc.so.6+0x85f16", "gloo::allreduce", "python ×14"]


def cluster(**stacks):
    return builders.folded(staged.with_native(**stacks))


SINCE_MS = int(BEGAN * 1000) - 6000


def stalled(waiting=None, cause=None):
    """The evidence of a run in which two hosts wait for one that reads, whose native stacks come later."""
    run = Run(3)
    run.launches[2] -= 1
    run.stand(0, 1, at=VALUE)
    run.stand(2, at=staged.LOADS)
    run.go_on()
    for _ in range(4):
        run.now += 1
        at_ms = int(run.now * 1000)
        for index, native in enumerate((waiting, waiting, cause)):
            main = wire.Thread("MainThread", True, run.stands[index], native=native)
            stall, lull = wire.Stall("step", SINCE_MS, 1000), wire.Lull("evaluate", SINCE_MS)
            run.say(index, wire.Stacks(at_ms, (main,)), pulse(at_ms=at_ms, stall=stall, lull=lull))
    return {each["name"]: each["value"] for each in finding(run)["evidence"]}


def test_a_finding_has_the_functions_in_which_one_waits_and_in_which_the_cause_is():
    found = stalled(GLOO, replace(READS, waits_in="SSL_read"))
    assert found["native function"] == "gloo::allreduce"
    assert found["native function of the cause"] == "SSL_read"
    assert found["launched last"] == "evaluate"


def test_without_native_stacks_a_finding_has_none():
    assert not [name for name in stalled() if "native" in name]
    assert "native function of the cause" not in stalled(GLOO, READS)


def test_the_json_has_the_threads_with_native_frames_the_innermost_first():
    library = wire.Thread("tf_XLAEigen", False, (), native=READS)
    host = to_document(cluster(others=(library,)), builders.NOW)["hosts"][0]
    stacks = host["stacks"]
    assert (stacks["thread_count"], stacks["waits_in"]) == (3, "gloo::allreduce")
    main, other = stacks["threads"]
    assert main["is_main"] and main["frames"][0] == "jax/_src/array.py:631 _value"
    assert main["native"] == {
        "frames": TEXTS, "waits_in": "gloo::allreduce", "waits_for": None, "why_incomplete": None,
    }  # fmt: skip
    assert (other["name"], other["frames"], other["native"]["why_incomplete"]) == (
        "tf_XLAEigen", [], "its time is over",
    )  # fmt: skip


def test_a_process_that_sent_no_stacks_has_none_in_json():
    assert to_document(builders.folded(builders.well()), builders.NOW)["hosts"][0]["stacks"] is None


def test_a_thread_that_communicates_says_it_before_the_main_thread_that_waits_for_it():
    main = replace(GLOO, waits_in="jax::Await")
    threads = (wire.Thread("main", True, (), native=main), wire.Thread("pool", False, (), native=GLOO))
    assert wire.Stacks(0, threads).telling.wait == "in gloo::allreduce"
    assert wire.Stacks(0, threads[:1]).telling.wait == "in jax::Await"
    assert wire.Stacks(0, ()).telling.wait == ""


CHILD = wire.NativeStack((wire.NativeFrame("", "libc.so.6", 0x85F16),), waits_for="a child process")


def test_the_system_call_tells_where_no_function_does():
    main, pool = wire.Thread("main", True, (), native=CHILD), wire.Thread("pool", False, (), native=GLOO)
    assert wire.Stacks(0, (main,)).telling.wait == "for a child process"
    assert wire.Stacks(0, (main, pool)).telling.wait == "in gloo::allreduce"
    assert wire.Stacks(0, (replace(pool, native=CHILD),)).telling.wait == ""
    assert replace(GLOO, waits_for="a lock or condition").wait == "in gloo::allreduce"


def test_what_the_system_call_tells_is_everywhere_where_the_function_would_be():
    found = stalled(CHILD, replace(CHILD, waits_for="a file lock"))
    assert (found["waits for"], found["the cause waits for"]) == ("a child process", "a file lock")
    assert not [name for name in found if "native" in name]
    library = wire.Thread("pool", False, (), native=CHILD)
    state = cluster(waiting=CHILD, others=(library,))
    host = state.hosts[agent_id(0)]
    stacks = to_document(state, builders.NOW)["hosts"][0]["stacks"]
    assert (stacks["waits_in"], stacks["waits_for"]) == (None, "a child process")
    assert stacks["threads"][0]["native"]["waits_for"] == "a child process"
    lines = dict(facts(postmortem_of(state, host, State.DIED)))["native"]
    assert lines[0] == "the main thread waited for a child process:"
    main, *_, other = stack_nodes(state, {})[0].children[0].children
    assert "native, waits for a child process" in [each.label for each in main.children]
    assert (other.label, other.place) == ("thread pool", "for a child process")
    assert "a child process" in search_text(host)


def test_the_tree_has_native_frames_below_those_of_python():
    group = stack_nodes(cluster(waiting=replace(GLOO, why_incomplete="no table")), {})[0]
    host = group.children[0]
    labels = [each.label for each in host.children[0].children]
    assert labels == ["array.py:631 _value", "train.py:51 train", "train.py:120 <module>",
                      "native, incomplete: no table", *TEXTS]  # fmt: skip
    assert not any(each.is_branch or each.children for each in host.children[0].children)


def test_a_thread_of_a_library_is_at_the_function_in_which_it_waits():
    group = stack_nodes(cluster(others=(wire.Thread("pool", False, (), native=GLOO),)), {})[0]
    thread = group.children[0].children[-1]
    assert (thread.label, thread.place) == ("thread pool", "gloo::allreduce")


def test_a_filter_finds_native_frames():
    assert "gloo::allreduce" in search_text(cluster().hosts[agent_id(0)])


def test_a_postmortem_has_the_innermost_frames():
    many = replace(GLOO, frames=(wire.NativeFrame("f", "libx.so"),) * 20 + GLOO.frames)
    state = cluster(waiting=many)
    found = dict(facts(postmortem_of(state, state.hosts[agent_id(0)], State.DIED)))["native"]
    assert found[0] == "the main thread waited in gloo::allreduce:"
    assert [each.strip() for each in found[1:4]] == TEXTS
    assert len(found) == MAX_NATIVE + 2 and found[-1].strip() == "and 15 more frames"


@pytest.mark.parametrize(
    ("native", "text"),
    [
        (wire.NativeFrame("f", "libx.so"), "f"),
        (wire.NativeFrame("", "libx.so", 255), "libx.so+0xff"),
        (wire.NativeFrame("python", "python", 0, 3000), "python ×3,000"),
    ],
)
def test_a_native_frame_is_one_line(native, text):
    assert native_text(native) == text


@pytest.mark.parametrize(
    "frames",
    [
        (wire.NativeFrame("f", "libx.so"),) * (MAX_NATIVE_FRAMES + 1),
        (wire.NativeFrame("", "libx.so", -1),),
        (wire.NativeFrame("f", "libx.so", 0, 0),),
    ],
)
def test_native_frames_that_no_agent_sends_are_refused(frames):
    stacks = wire.Stacks(0, (wire.Thread("main", True, (), native=wire.NativeStack(frames)),))
    with pytest.raises(wire.Unreadable):
        wire.decode("stacks", wire.encode(stacks))


def test_stacks_of_an_older_agent_have_no_native_frames():
    """Its threads have four fields."""
    import msgspec

    older = msgspec.msgpack.encode({"type": "stacks", "at_ms": 1, "threads": [["main", True, [], 0]]})
    (thread,) = wire.decode("stacks", older).threads
    assert thread.native is None
