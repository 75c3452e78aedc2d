"""Rules about time: what makes steps slow, each with a case that raises it and one that nearly does."""

from __future__ import annotations

import dataclasses
from functools import partial

import msgspec
import pytest

from jaxtop import wire
from jaxtop.model import EMPTY_HOST, RULES_BY_NAME, Cluster, Severity, Tuning, keyframe, runs
from jaxtop.model.collectives.verdict import LAST_IN_SHARE, LATE_MS, LATE_MS_ON_CPU, MIN_SHARE_OF_LAUNCH
from jaxtop.model.findings.rule import RunFacts, Unmeasured
from jaxtop.model.shares import Parts
from jaxtop.model.wall_time import step_parts
from jaxtop.model.wall_time.gaps import LATE_SCRIPT_SHARE, PAUSE_SHARE, Gap
from jaxtop.model.wall_time.late_scripts import LATE_SCRIPT_MS, POSSIBLY_LATE_SHARE, late_script_gaps
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, folded, frame, hello
from tests.made import windows as made_windows
from tests.made.windows import Made
from tests.staged import collectives as staged_collectives
from tests.staged.parts import EVEN, LINE, activity, rhythm, run, two_hosts, window

SAVES = wire.ActiveLine(wire.Place("train.py", 90, "save_checkpoint"), wire.SCRIPT, 50)
READS = wire.ActiveLine(wire.Place("train.py", 61, "train"), wire.WAIT, 70)
FULL = ((0, 98), (100, 98), (200, 98))


def found(name, cluster, at=NOW):
    """What a rule yields, or the reason why it cannot be checked."""
    yielded = []
    try:
        for each in RULES_BY_NAME[name].findings(RunFacts(cluster, runs(cluster, at)[0], at)):
            yielded.append(each)  # noqa: PERF402
    except Unmeasured as missing:
        return str(missing)
    return yielded


def only(name, cluster, at=NOW):
    (one,) = found(name, cluster, at)
    assert len(one.text) <= 130 and one.subject.agent in (*cluster.hosts, "")
    return one


class TestGapsOfTheHost:
    def test_slow_input_is_found_with_its_line_and_its_cost(self):
        one = only("input_bound", run(window(*EVEN), activity(script=50, wait=50)))
        assert one.text == "the process launches nothing for 100 of 200 ms a step (50%): train.py:54 load"
        assert one.subject.source == "train.py:54" and one.severity is Severity.CRITICAL
        assert one.cost.ms_per_step == pytest.approx(100) and one.cost.share_of_step == pytest.approx(0.5)

    @pytest.mark.parametrize(
        ("launches", "seen"),
        [
            (((0, 190), (200, 190), (400, 190)), activity(script=80, wait=20)),  # input is prefetched
            (EVEN, activity(wait=95, script=5)),  # nothing shows that the script is the reason
            (EVEN, activity(script=40, compiling=40, wait=20)),  # the first minute
            (EVEN, activity(script=12, wait=12)),  # too few samples
            (EVEN, activity(script=50, wait=50, at=NOW - 60)),  # of an earlier time
        ],
        ids=["prefetched", "waits", "compiles", "few", "old"],
    )
    def test_a_script_that_does_not_hold_up_the_devices_is_not_found(self, launches, seen):
        assert found("input_bound", run(window(*launches), seen)) in ([], NOT_LONG)

    def test_without_windows_idle_devices_show_the_gap(self):
        cluster = run(activity(script=70, wait=30))
        busy = wire.DeviceSample(utilization_permille=(300,) * 4)
        frames = partial(wire.Pulse, int(NOW * 1000), rhythm=rhythm())
        cluster.feed(frame(agent_id(0), frames(devices=busy), NOW))
        assert only("input_bound", cluster).cost.share_of_step == pytest.approx(0.7)
        busy = wire.DeviceSample(utilization_permille=(950,) * 4)
        cluster.feed(frame(agent_id(0), frames(devices=busy), NOW))
        assert found("input_bound", cluster) == []

    def test_a_stall_every_twenty_steps_is_a_pause_and_not_slow_input(self):
        cluster = stalling(pauses=3, pauses_ms=8_000)
        assert found("input_bound", cluster) == []
        one = only("pauses", cluster)
        assert one.severity is Severity.WARNING and one.subject.source == "train.py:54"
        assert one.cost.ms_per_step == pytest.approx(100)
        assert one.text == "the process pauses for 2 s every 20 steps, 50% of the time: train.py:54 load"
        figures = {each.name: each.value for each in one.evidence}
        assert figures["median step"] == pytest.approx(0.1)
        assert figures["a step, pauses included"] == pytest.approx(0.2)
        assert only("pauses", stalling(pauses=2, pauses_ms=11_000)).cost.share_of_step == pytest.approx(0.5)

    def test_a_period_that_the_agent_counted_goes_before_one_that_follows_from_times(self):
        one = only("pauses", stalling(pauses=3, pauses_ms=8_200, pause_steps=20))
        assert "for 2 s every 20 steps" in one.text

    @pytest.mark.parametrize(
        ("empty", "full", "words"),
        [
            (46, 1, "; its queue empty in 92% of looks"),
            (2, 40, "; its queue full in 80% of looks"),
            (20, 20, ""),
        ],
        ids=["empty", "full", "neither"],
    )
    def test_how_full_the_queue_of_the_input_is_says_whether_the_loader_is_slow(self, empty, full, words):
        queue = wire.InputQueue("threads", 0, 4, 50, empty, full)
        one = only("input_bound", run(window(*EVEN), activity(script=50, wait=50, input_queue=queue)))
        assert (
            one.text
            == f"the process launches nothing for 100 of 200 ms a step (50%): train.py:54 load{words}"
        )
        figures = {each.name: each.value for each in one.evidence}
        assert (figures["input queue empty"], figures["input queue full"]) == (empty / 50, full / 50)

    @pytest.mark.parametrize(
        ("waits", "kind", "words", "advice"),
        [
            (0.03, "multiprocessing", "; 2 × actor wait for input 3% of the time", "start more of them"),
            (0.5, "multiprocessing", "; 2 × actor wait for input 50% of the time", "they take turns"),
            (0.03, "threads", "; its queue empty in 96% of looks", ""),
        ],
        ids=["busy", "in turns", "a loader"],
    )
    def test_who_keeps_a_learner_waiting_is_said_where_its_input_comes_from_processes(
        self, waits, kind, words, advice
    ):
        queue = wire.InputQueue(kind, 0, 4, 50, 48, 0)
        seen = activity(script=50, wait=50, input_queue=queue)
        cluster = run(window(*EVEN), seen, hello(0, 1, family="f"))
        kinds = [each == "input" for each in wire.SPENT_ON]
        for index, agent in enumerate(("b0", "b1"), start=1):
            actor = hello(index, 1, agent=agent, run=f"r{agent}", family="f", role="actor", parent_pid=7)
            at_ms = int(NOW * 1000)
            spent = [tuple(round(each * part * 60_000) for each in kinds) for part in (1, 1 + waits)]
            ledger = wire.Ledger(
                at_ms, at_ms - 120_000, spent[1], past=(wire.LedgerPoint(at_ms - 60_000, spent[0]),)
            )
            for each in (
                wire.Link(LinkState.UP, f"10.0.0.{index}:7411"),
                actor,
                wire.Pulse(at_ms),
                ledger,
            ):
                cluster.feed(frame(agent, each, NOW))
        (one,) = found("input_bound", cluster)
        assert (
            one.text
            == f"the process launches nothing for 100 of 200 ms a step (50%): train.py:54 load{words}"
        )
        assert advice in one.advice and bool(advice) == bool(one.advice) and len(one.text) <= 130
        assert one.severity is Severity.CRITICAL

    def test_a_queue_that_few_looks_have_seen_says_nothing(self):
        queue = wire.InputQueue("threads", 0, 4, 5, 5, 0)
        one = only("input_bound", run(window(*EVEN), activity(script=50, wait=50, input_queue=queue)))
        assert "queue" not in one.text

    @pytest.mark.parametrize("seen", [{"pauses": 1}, {"pauses": 2, "pauses_ms": 40_000}], ids=["one", "two"])
    def test_one_checkpoint_or_two_in_a_minute_are_no_pauses(self, seen):
        assert [found(name, stalling(**seen)) for name in GAPS] == [[]] * len(GAPS)

    def test_steps_that_differ_much_are_no_pauses(self):
        """What the mean is longer than the median would be 80 ms for each gap that is long."""
        assert found("pauses", stalling(lost_ms=20, pauses=12, pauses_ms=11 * 4 * 120)) == []
        assert only("pauses", stalling(lost_ms=20, pauses=12, pauses_ms=11 * 20 * 120))

    @pytest.mark.parametrize(("script", "is_pause"), [(60, False), (30, True)], ids=["each step", "pauses"])
    def test_pauses_are_not_what_is_in_each_step(self, script, is_pause):
        """A busy machine makes the mean step 300 ms and the median 200, of which the script sleeps 160."""
        uneven = {"lost_us": 100_000, "pauses": 5, "pauses_ms": 50_000}
        steps = msgspec.structs.replace(rhythm(p50_ms=200, per_second=1000 / 300), **uneven)
        seen = activity(script=script, wait=100 - script)
        cluster = run(window((0, 40), (200, 40), (400, 40)), seen, rhythms=steps, launches=33)
        assert bool(found("pauses", cluster)) is is_pause
        assert bool(found("input_bound", cluster)) is not is_pause
        if not is_pause:
            assert 160 / 300 <= only("input_bound", cluster).cost.share_of_step <= 0.75

    def test_pauses_never_hide_a_straggler(self):
        """The late host's mean step is longer than its median, as on a busy machine."""
        uneven = {"p50_us": 300_000, "lost_us": 85_000, "pauses": 5, "pauses_ms": 50_000}
        cluster = of_late_host(script=70, **uneven)
        assert only("straggler", cluster, NOW + 11).subject.process_index == 3
        assert found("pauses", cluster, NOW + 11) == []

    def test_saving_is_a_note_unless_it_takes_long(self):
        cluster = stalling(lost_ms=20, script=20, lines=(SAVES,), pauses=3, pauses_ms=6_000)
        assert found("pauses", cluster) == []
        assert only("checkpoint_pauses", cluster).severity is Severity.INFO
        cluster = stalling(lines=(SAVES,), pauses=3, pauses_ms=8_000)
        assert only("checkpoint_pauses", cluster).severity is Severity.WARNING

    def test_an_evaluation_on_the_devices_is_no_pause(self):
        launches = {"train_step": 45, "evaluate": 1}
        cluster = run(
            window((0, 200), (200, 200), (400, 200)), activity(wait=95, script=5),
            launches=launches, rhythms=rhythm(per_second=4.5),
        )  # fmt: skip
        assert [found(name, cluster) for name in GAPS] == [[]] * len(GAPS)

    def test_reading_the_loss_in_each_step_costs_only_if_devices_are_idle(self):
        idle = run(window(*((200 * i, 140) for i in range(20))), activity(wait=90, script=10, lines=(READS,)))
        one = only("blocking_reads", idle)
        assert one.severity is Severity.WARNING and one.subject.source == "train.py:61"
        assert one.cost.ms_per_step == pytest.approx(60, rel=0.05)
        busy = run(window((0, 195), (200, 195), (400, 195)), activity(wait=90, script=10, lines=(READS,)))
        assert found("blocking_reads", busy) == []

    def test_thousands_of_tiny_launches_are_found_and_one_large_is_not(self):
        tiny = window(*((i, 0.02) for i in range(100)), program="jit_add_one")
        tiny = wire.Window(
            tiny.at_ms, tiny.duration_us, 1, tiny.programs,
            launches=tuple(wire.Launch(0, i, i * 100, 20, 0, 0) for i in range(100)),
        )  # fmt: skip
        many = {"train_step": 50, "add_one": 50_000}
        both = (window((0, 50), (200, 50), (400, 50)), tiny)
        cluster = run(*both, activity(launch=70, script=20, wait=10), launches=many)
        one = only("launch_bound", cluster)
        assert "1,001 programs a step" in one.text and one.cost.share_of_step == pytest.approx(0.65, abs=0.02)
        assert found("input_bound", cluster) == []
        assert found("launch_bound", run(window(*EVEN), activity(launch=60, wait=40))) == []
        each = rhythm("add_one", per_second=5000, p50_ms=0)
        cluster = run(tiny, activity(launch=90, wait=10), launches={"add_one": 50_000}, rhythms=each)
        one = only("launch_bound", cluster)
        assert one.severity is Severity.INFO and "5,000 a second" in one.text

    def test_launches_a_step_are_those_of_the_same_seconds(self):
        """The pace lags behind: 5 a second while the step was launched 100 times a second, with 19 others."""
        seen = activity(launch=70, script=20, wait=10)
        one = only("launch_bound", run(seen, launches={"train_step": 1_000, "add": 19_000}))
        assert one.severity is Severity.INFO and "2,000 a second" in one.text

    def test_launches_are_counted_where_they_are_too_many_for_a_window(self):
        seen = activity(launch=70, script=20, wait=10)
        one = only("launch_bound", run(seen, launches={"train_step": 50, "add_one": 50_000}))
        assert one.text.endswith("1,001 programs a step, and Python launches for 70% of the time")
        assert one.cost.ms_per_step == pytest.approx(140)
        assert {each.name: each.value for each in one.evidence}["host gap"] is None, "no window measured it"
        assert found("launch_bound", run(seen, launches={"train_step": 50, "add_one": 500})) == []

    def test_who_reads_each_result_prepares_the_next_step_only_afterwards(self):
        cluster = run(window(*((200 * i, 120) for i in range(20))), activity(
            wait=60, script=40, lines=(wire.ActiveLine(LINE, wire.SCRIPT, 40), READS)))  # fmt: skip
        assert only("blocking_reads", cluster).cost.ms_per_step == pytest.approx(80, rel=0.05)
        assert found("input_bound", cluster) == []

    def test_a_main_thread_that_waits_for_a_core_is_not_the_scripts_fault(self):
        for kind, launches in (("input_bound", EVEN), ("pauses", FULL)):
            steps = rhythm(p50_ms=200)
            if kind == "pauses":
                steps = msgspec.structs.replace(
                    rhythm(p50_ms=100), pauses=3, pauses_ms=8_000, lost_us=100_000
                )
            slow = run(window(*launches), activity(script=50, wait=50, delayed_ms=2_000), rhythms=steps)
            busy = run(window(*launches), activity(script=50, wait=50, delayed_ms=9_000), rhythms=steps)
            if kind == "pauses":
                assert only(kind, slow).cost.ms_per_step == pytest.approx(80, rel=0.05)
                assert found(kind, busy) == []
                continue
            # 100 of 200 ms, as the panel shows; 2 of 20 s are a fifth of it, 9 of 20 nearly all.
            for cluster, part, severity in ((slow, "20%", Severity.WARNING), (busy, "90%", Severity.INFO)):
                one = only(kind, cluster)
                (parts,) = step_parts.parts_of_hosts(cluster, NOW).values()
                assert one.cost.share_of_step == pytest.approx(parts.host_gap) == pytest.approx(0.5)
                assert f"(50%, of which {part} waits for a core)" in one.text
                assert parts.delayed / parts.host_gap == pytest.approx(float(part[:-1]) / 100)
                assert one.severity is severity

    def test_a_server_and_a_worker_may_be_idle_and_a_trainer_may_not(self):
        """A server waits for requests, an actor for its environment: that costs no step of the run."""
        seen = activity(script=50, wait=50)
        of_server = hello(0, 1, family="f", role="Server")
        one = only("input_bound", run(window(*EVEN), seen, of_server))
        assert (one.severity, one.cost.share_of_step) == (Severity.INFO, None)
        assert one.text.endswith("it serves requests")
        one = only("pauses", stalling(of_server, pauses=12, pauses_ms=11 * 20 * 120))
        assert (one.severity, one.cost.share_of_step) == (Severity.INFO, None)
        reads = activity(wait=60, script=40, lines=(wire.ActiveLine(LINE, wire.SCRIPT, 40), READS))
        assert only("blocking_reads", run(window(*EVEN), reads)).severity is Severity.WARNING
        one = only("blocking_reads", run(window(*EVEN), reads, of_server))
        assert (one.severity, one.cost.share_of_step) == (Severity.INFO, None)
        cluster = run(window(*EVEN), seen, hello(0, 1, family="f", role="actor", parent_pid=7))
        assert only("input_bound", cluster).severity is Severity.CRITICAL, "it is alone"
        learner = hello(1, 1, agent="b0", run="r0", family="f")
        for each in (
            wire.Link(LinkState.UP, "10.0.0.9:7411"),
            learner,
            wire.Pulse(int(NOW * 1000), rhythm=rhythm()),
        ):
            cluster.feed(frame("b0", each, NOW))
        cluster.check(NOW)
        (one,) = [
            each.finding for each in cluster.findings.ongoing.values() if each.finding.rule == "input_bound"
        ]
        assert one.severity is Severity.INFO and one.text.endswith("it works for the main run")

    def test_a_late_host_with_slow_input_is_a_straggler_with_its_line(self):
        cluster = of_late_host()
        assert found("input_bound", cluster, NOW + 11) == []
        one = only("straggler", cluster, NOW + 11)
        assert (one.subject.process_index, one.subject.source) == (3, "train.py:54")
        assert one.text.startswith("host 3 is late: the others wait") and one.text.endswith(
            "train.py:54 load"
        )
        assert RULES_BY_NAME["straggler"].makes_event(one)

    @pytest.mark.parametrize(("script", "is_noted"), [(82, True), (40, False)], ids=["most", "less"])
    def test_a_late_host_whose_devices_nothing_measures_is_a_note(self, script, is_noted):
        """Steps became shorter, as a busy machine calmed down, and no window was taken since."""
        cluster = folded([])
        shorter = msgspec.structs.replace(
            rhythm(per_second=2.0, p50_ms=500), since_ms=int(NOW * 1000) - 60_000, before_us=800_000
        )
        for index in range(2):
            for message in (hello(index), wire.Pulse(int(NOW * 1000), rhythm=shorter)):
                cluster.feed(frame(agent_id(index), message))
            share = script if index else 2
            cluster.feed(frame(agent_id(index), activity(script=share, wait=100 - share)))
        assert found("blocking_reads", cluster) == found("input_bound", cluster) == NOT_LONG
        if is_noted:
            one = only("straggler", cluster)
            assert (one.subject.process_index, one.severity, one.cost.share_of_step) == (
                1,
                Severity.INFO,
                None,
            )
            assert one.text == (
                "host 1 may be late: 82% of a 500 ms step in its script, unlike the others: train.py:54 load"
            )
        else:
            assert found("straggler", cluster) == "no collectives were measured"

    @pytest.mark.parametrize(("pauses", "is_late"), [(0, True), (1, False)], ids=["none", "one"])
    def test_steps_that_waver_hide_a_late_host_only_with_pauses(self, pauses, is_late):
        """The median step is 70 % of the mean, as on a busy machine."""
        cluster = of_late_host(script=40, p50_us=270_000, pauses=pauses)
        found_late = [each for each in found("straggler", cluster, NOW + 11) if not each.subject.collective]
        assert [each.subject.process_index for each in found_late] == [3] * is_late

    def test_a_read_of_few_hosts_is_no_matter_of_reads(self):
        """All others wait for what that host does after it."""
        cluster = of_late_host(script=40)
        lines = (wire.ActiveLine(LINE, wire.SCRIPT, 40), READS)
        cluster.feed(frame(agent_id(3), activity(script=40, wait=60, lines=lines, at=NOW + 11), NOW + 11))
        assert found("blocking_reads", cluster, NOW + 11) == []
        assert only("straggler", cluster, NOW + 11).subject.process_index == 3

    def test_slow_input_on_most_hosts_makes_no_straggler(self):
        cluster = of_late_host(slow=(1, 2, 3))
        assert only("input_bound", cluster, NOW + 11).text.startswith("hosts 1–3 launch nothing for")
        late = found("straggler", cluster, NOW + 11)[0]
        assert late.text.startswith("hosts 1–3 are equally late") and late.subject.source == "train.py:54"
        assert "straggler" in only("input_bound", cluster, NOW + 11).explains
        assert not RULES_BY_NAME["straggler"].makes_event(late)  # the collective has an event of its own

    @pytest.mark.parametrize(("others", "is_even"), [(58, True), (20, False)], ids=["as slow", "room left"])
    def test_where_others_would_be_late_too_nobody_is_blamed_alone(self, others, is_even):
        """Host 3 comes last in the collectives; the scripts of the others take nearly as long as its own."""
        cluster = of_late_host(others=others)
        one = found("straggler", cluster, NOW + 11)[0]
        if is_even:
            assert one.text.startswith("hosts 0–3 are equally late: no launch for")
            assert (one.severity, one.subject.process_index) == (Severity.WARNING, None)
            assert one.cost == only("input_bound", cluster, NOW + 11).cost  # and it tells of all, too
        else:
            # Windows from before it was late measured a wait of 61 ms: that is not close to this.
            assert one.text.startswith("host 3 is late:") and one.severity is Severity.CRITICAL
            assert one.cost.share_of_step == pytest.approx(0.4, abs=0.01)

    def test_a_wait_that_windows_measured_is_better_than_what_samples_show(self):
        """They show an excess of 15 % to 21 %; the collectives wait 61 of 385 ms."""
        cluster = of_late_host(script=40, others=20)
        one = found("straggler", cluster, NOW + 11)[0]
        assert "60.8 ms of a 385 ms step (16%)" in one.text, one.text

    def test_a_step_that_became_longer_shows_the_cost_before_a_window_comes(self):
        """Steps of 200 ms have taken 500 ms for five seconds, and a window is of before."""
        since = {"since_ms": int((NOW - 5) * 1000), "before_us": 200_000}
        slower = msgspec.structs.replace(rhythm(per_second=2.0, p50_ms=500), **since)
        seen = wire.Activity(
            int(NOW * 1000), 5_000, (20, 0, 10, 0), (wire.ActiveLine(LINE, wire.SCRIPT, 20),)
        )
        one = only("input_bound", run(window(*EVEN, at=NOW - 20), seen, rhythms=slower))
        assert one.cost.ms_per_step == pytest.approx(300)
        of_both = wire.Activity(int(NOW * 1000), 20_000, seen.samples, seen.lines)
        assert found("input_bound", run(window(*EVEN, at=NOW - 20), of_both, rhythms=slower)) == NOT_LONG


def stalling(*more, lost_ms=100, lines=None, script=50, **pauses):
    """A process with steps of 100 ms, of which each loses so much time by pauses."""
    paused = msgspec.structs.replace(
        rhythm(p50_ms=100, per_second=1000 / (100 + lost_ms)), lost_us=lost_ms * 1000, **pauses
    )
    seen = activity(script=script, wait=100 - script, lines=lines)
    launches = round(10_000 / (100 + lost_ms))
    return run(window(*FULL), seen, *more, rhythms=paused, launches=launches)


NOT_LONG = "the main threads, or launches of the step, were not measured for long enough"
GAPS = ("input_bound", "launch_bound", "blocking_reads", "pauses", "checkpoint_pauses")


def of_late_host(slow=(3,), script=60, others=5, **of_rhythm):
    cluster = folded(staged_collectives.run(Made(4, 4, late=3)))
    for index in range(4):
        share = script if index in slow else others
        steps = msgspec.structs.replace(rhythm(per_second=2.6, p50_ms=380), **of_rhythm)
        for at, launches in ((NOW + 1, 22), (NOW + 11, 50)):
            seen = builders.pulse(index, at, 4, launches, rhythm=steps)
            cluster.feed(frame(agent_id(index), seen, at))
        cluster.feed(frame(agent_id(index), activity(script=share, wait=100 - share, at=NOW + 11), NOW + 11))
    return cluster


@pytest.mark.parametrize(("in_script", "late"), [((10, 10, 11, 17), []), ((10, 10, 11, 20), [3])])
def test_few_samples_of_equal_scripts_make_no_straggler(in_script, late):
    """Of 40 samples each: 17 may be chance where the others have 10, and 20 are not."""
    gaps = [
        Gap(
            dataclasses.replace(EMPTY_HOST, activity=activity(script=count, wait=40 - count)),
            *(0.4, 0.4, 500.0, 0.5, True),
            *(count / 40, 0.0, 1 - count / 40, 0.0, 0.0),
            in_steps=count / 40,
        )
        for count in in_script
    ]
    assert [gaps.index(each) for each in late_script_gaps(gaps, 4, LATE_SCRIPT_MS.default)] == late


class TestGarbage:
    def test_long_collections_are_found_and_explain_the_gap(self):
        seen = activity(script=50, wait=50, gc_runs=60, gc_us=6_000_000, gc_longest_us=120_000)
        one = only("gc_pauses", run(window(*EVEN), seen))
        assert one.severity is Severity.WARNING and "input_bound" in one.explains
        assert one.cost.ms_per_step == pytest.approx(60) and "120 ms at once" in one.text

    def test_they_explain_communication_only_if_they_take_as_long(self):
        seen = activity(script=50, wait=50, gc_runs=60, gc_us=6_000_000)
        assert "communication_bound" in only("gc_pauses", run(window(*EVEN), seen)).explains
        cluster = run(window(*EVEN), seen)
        communicates = dict.fromkeys(cluster.hosts, Parts(0.1, 0.7, 0.0, 0.2, 0.0))
        facts = RunFacts(cluster, runs(cluster, NOW)[0], NOW)
        facts.parts = communicates
        (one,) = RULES_BY_NAME["gc_pauses"].check(facts)
        assert "communication_bound" not in one.explains

    def test_short_ones_and_those_that_hold_up_nothing_are_not(self):
        seen = activity(script=10, wait=90, gc_runs=60, gc_us=400_000)
        assert found("gc_pauses", run(window(*EVEN), seen)) == []
        seen = activity(script=10, wait=90, gc_runs=60, gc_us=2_000_000)
        one = only("gc_pauses", run(window((0, 198), (200, 198), (400, 198)), seen))
        assert one.severity is Severity.INFO

    def test_imports_before_the_first_step_make_garbage_that_costs_no_step(self):
        cluster = run(activity(script=90, gc_runs=300, gc_us=6_000_000))
        cluster.feed(frame(agent_id(0), wire.Pulse(int((NOW + 1) * 1000)), NOW + 1))
        assert found("gc_pauses", cluster, NOW + 1).startswith("no step was found yet")

    def test_where_devices_are_cores_they_cost_what_steps_take_longer(self):
        """The devices never idle, but steps of 100 ms have taken 200 ms since the collections began."""
        seen = activity(script=10, wait=90, gc_runs=60, gc_us=18_000_000)
        slower = msgspec.structs.replace(
            rhythm(per_second=5.0, p50_ms=200), since_ms=int((NOW - 5) * 1000), before_us=100_000
        )
        one = only("gc_pauses", run(window((0, 198), (200, 198), (400, 198)), seen, rhythms=slower))
        assert one.cost.ms_per_step == pytest.approx(100) and one.severity is Severity.WARNING

    @pytest.mark.parametrize(("before_ms", "costs_ms"), [(140, 60), (195, 100)])
    def test_gaps_of_before_are_no_part_of_what_they_cost(self, before_ms, costs_ms):
        """The devices idle for half of each step, of which collections may have added 60 ms, but not 5."""
        seen = activity(script=50, wait=50, gc_runs=60, gc_us=18_000_000)
        slower = msgspec.structs.replace(
            rhythm(per_second=5.0, p50_ms=200), since_ms=int((NOW - 5) * 1000), before_us=before_ms * 1000
        )
        one = only("gc_pauses", run(window(*EVEN), seen, rhythms=slower))
        assert one.cost.ms_per_step == pytest.approx(costs_ms)

    def test_the_threshold_is_the_user_s(self):
        cluster = run(window(*EVEN), activity(script=10, wait=90, gc_runs=60, gc_us=2_000_000))
        assert found("gc_pauses", cluster)
        cluster.tuning = Tuning({("gc_pauses", "share"): 0.5})
        assert found("gc_pauses", cluster) == []


class TestCompilations:
    def test_a_function_that_is_compiled_again_and_again_is_found(self):
        sizes = (wire.Program("jit_train_step", f"f{i}", 4, 4, argument_bytes=i, created="t.py:9 main")
                 for i in range(6))  # fmt: skip
        said = wire.Programs(
            int(NOW * 1000), tuple(sizes), compiles={"jit_train_step": 6}, recompiling=("jit_train_step",)
        )
        one = only("recompilation", run(said, activity(compiling=40, wait=60)))
        often = "train_step was compiled 6 times on process 0"
        assert one.text == f"{often}: its arguments have 6 different sizes"
        assert (one.subject.program, one.subject.source) == ("jit_train_step", "t.py:9")
        assert one.cost.ms_per_step == pytest.approx(80)
        busy = window((0, 160), (200, 160), (400, 160))
        hidden = run(busy, said, activity(compiling=40, wait=60))
        assert only("recompilation", hidden).cost.share_of_step == pytest.approx(0.2, abs=0.01), "computes on"
        uncounted = run(msgspec.structs.replace(said, compiles={}), activity(compiling=40, wait=60))
        assert "compiled 6 times" in only("recompilation", uncounted).text, "as many programs as are loaded"

    def test_the_cause_and_the_line_are_named(self):
        """The most frequent of the causes, with the last example of it."""
        listed = [("first",), ("shape", "batch", "f32[8]", "f32[7]"), ("static", "n", "1", "2"),
                  ("shape", "batch", "f32[7]", "f32[6]"), ("",)]  # fmt: skip
        of_others = wire.Compilation(9, "init", "t.py:3", 70, "dtype", "x", "f32[]", "f16[]")
        said = wire.Programs(
            int(NOW * 1000),
            compiles={"jit_train_step": 5},
            recompiling=("jit_train_step",),
            compilations=(
                *(wire.Compilation(i, "train_step", f"t.py:{i}", 90, *each) for i, each in enumerate(listed)),
                of_others,
            ),
            lines=(
                wire.CompiledLine("train_step", "t.py:3", 4, 500),
                wire.CompiledLine("train_step", "", 1, 90),
            ),
        )
        one = only("recompilation", run(said, activity(compiling=40, wait=60)))
        assert one.text == (
            "train_step was compiled 5 times on process 0: "
            "shape of batch changed: f32[7] → f32[6] (2 of 3 times)"
        )
        assert one.subject.source == "t.py:3" and one.advice.startswith("Pad the argument")
        evidence = {each.name: each.value for each in one.evidence}
        assert evidence["changed"] == "shape of batch" and evidence["time lost"] == pytest.approx(0.59)

    def test_functions_that_are_compiled_in_turn_share_what_compilations_cost(self):
        """Of 40 % of the time one takes 3 of 4 parts; what was compiled at the start is none of it."""
        now = int(NOW * 1000)
        listed = [(200_000, "init", 60_000), *((10_000 * i, "step", 900) for i in range(5))]
        listed += [(10_000 * i + 10, "loss", 300) for i in range(5)]
        said = wire.Programs(
            now, compiles={"jit_step": 5, "jit_loss": 5}, recompiling=("jit_step", "jit_loss"),
            compilations=tuple(wire.Compilation(now - ago, name, "t:3", took) for ago, name, took in listed),
        )  # fmt: skip
        both = found("recompilation", run(said, activity(compiling=40, wait=60)))
        costs = {each.subject.program: each.cost.share_of_step for each in both}
        assert costs == {"jit_step": pytest.approx(0.3), "jit_loss": pytest.approx(0.1)}

    @pytest.mark.parametrize(
        ("variants", "every_s", "compiling"), [(4, 15, 60), (3, 9, 60), (4, 15, 5), (4, 1, 60)]
    )
    def test_long_compilations_are_found_if_they_go_on(self, variants, every_s, compiling):
        listed = tuple(
            wire.Program("jit_train_step", f"f{i}", 4, 4, created="t.py:9") for i in range(variants)
        )
        seen = tuple(int((NOW - i * every_s) * 1000) for i in range(variants))
        said = wire.Programs(int(NOW * 1000), listed, seen_ms=seen)
        cluster = run(said, activity(compiling=compiling, wait=100 - compiling))
        assert len(found("recompilation", cluster)) == ((variants, every_s, compiling) == (4, 15, 60))

    @pytest.mark.parametrize(
        ("ages_s", "is_found"),
        [((40, 5), True), ((40, 39, 5), True), ((40,), False), ((14, 5), False), ((200, 180), False)],
        ids=["again", "twice at first", "once more", "at the start", "long ago"],
    )
    def test_a_step_that_ran_for_a_while_and_is_being_compiled_again_is_found_early(self, ages_s, is_found):
        listed = tuple(wire.Program("jit_train_step", f"f{i}", 4, 4, created="t.py:9") for i in ages_s)
        seen = tuple(int((NOW - age) * 1000) for age in ages_s)
        said = wire.Programs(int(NOW * 1000), listed, seen_ms=seen)
        compiles = wire.Pulse(int(NOW * 1000), rhythm=rhythm(),
                              compiling=(wire.Compiling("train_step", int(NOW * 1000) - 900),))  # fmt: skip
        if ages_s == (200, 180):
            compiles = wire.Pulse(int(NOW * 1000), rhythm=rhythm())
        cluster = run(said, activity(compiling=40, wait=60), compiles)
        assert bool(found("recompilation", cluster)) is is_found
        if len(ages_s) == 2:  # more than that are many, however often the function is launched
            rarely = run(said, activity(compiling=40, wait=60), compiles, launches=12)
            assert found("recompilation", rarely) == []

    def test_programs_that_are_not_loaded_any_more_count(self):
        """A function that is made anew in each step takes its program with it."""
        function = "a new function object, though its code is the same"
        said = wire.Programs(
            int(NOW * 1000),
            compiles={"jit__lambda": 9},
            compilations=tuple(
                wire.Compilation(int((NOW - age) * 1000), "<lambda>", f"t.py:{line}", 5_000, cause)
                for age, line, cause in (
                    *((20 * i, 7, "function" if i < 3 else "first") for i in reversed(range(4))),
                    *((70, 90 + i, "first") for i in range(5)),
                )
            ),
            lines=(wire.CompiledLine("<lambda>", "t.py:7", 4, 20_000, 3),),
        )
        one = only("recompilation", run(said, activity(compiling=40, wait=60)))
        assert one.text == f"<lambda> at t.py:7 was compiled 4 times on process 0: {function} (3 of 3 times)"
        assert one.subject.source == "t.py:7" and one.advice.startswith("Make the function")
        elsewhere = [msgspec.structs.replace(each, source=f"t.py:{i}")
                     for i, each in enumerate(said.compilations)]  # fmt: skip
        other = msgspec.structs.replace(said, compilations=tuple(elsewhere))
        assert found("recompilation", run(other, activity(compiling=40, wait=60))) == []

    def test_operations_outside_of_jit_are_none(self):
        """A script that evaluates two sets has the same operation in several shapes."""
        listed = tuple(wire.Program("jit_add", f"f{i}", 4, 4, created="t.py:16") for i in range(4))
        seen = tuple(int((NOW - i * 15) * 1000) for i in range(4))
        said = wire.Programs(int(NOW * 1000), listed, seen_ms=seen, of_jax=("jit_add",))
        assert found("recompilation", run(said, activity(compiling=60, wait=40))) == []
        of_script = msgspec.structs.replace(said, of_jax=())
        assert found("recompilation", run(of_script, activity(compiling=60, wait=40)))

        again = tuple(
            wire.Compilation(int((NOW - i) * 1000), "add", "t.py:16", 30, "shape", "x", "f32[4]", "f32[5]")
            for i in reversed(range(9))
        )
        line = wire.CompiledLine("add", "t.py:16", 57, 9_000, 56)
        storm = msgspec.structs.replace(said, recompiling=("jit_add",), compilations=again, lines=(line,))
        one = only("recompilation", run(storm, activity(compiling=60, wait=40)))
        assert one.text.startswith("add at t.py:16 was compiled 57 times on process 0: shape of x changed")

    def test_each_function_once_is_not(self):
        said = wire.Programs(int(NOW * 1000), compiles={f"jit_{i}": 1 for i in range(50)})
        assert found("recompilation", run(said, activity(compiling=90, wait=10))) == []


class TestCommunication:
    def cluster(self, exposed, platform="gpu"):
        cluster = Cluster()
        devices = tuple(wire.Device(i, "H100", platform, i) for i in range(4))
        for each in staged_collectives.run(Made(2, 4, noise_us=100)):
            if each.kind != "window":
                cluster.feed(each)
        for index in range(2):
            own = tuple(wire.Device(index * 4 + i, "H100", platform, i) for i in range(len(devices)))
            cluster.feed(frame(agent_id(index), hello(index, 2, own, platform=platform), NOW))
            for number in range(4):
                at = NOW - 12 + 3 * number
                made = made_windows.window(Made(2, 4, noise_us=100), index, number, at_ms=int(at * 1000))
                launches = tuple(
                    wire.Launch(each.program, each.number, each.start_us, each.duration_us,
                                each.collective_us, round(each.duration_us * exposed))
                    for each in made.launches
                )  # fmt: skip
                made = wire.Window(made.at_ms, made.duration_us, made.slot, made.programs, made.ops,
                                   launches, made.rounds)  # fmt: skip
                cluster.feed(frame(agent_id(index), made, NOW))
            for at, count in ((NOW + 1, 25), (NOW + 11, 75)):
                seen = builders.pulse(index, at, 4, count, rhythm=rhythm())
                cluster.feed(frame(agent_id(index), seen, at))
        return cluster

    def change(self, cluster, at):
        """Let the steps of both processes have another rhythm since this time."""
        for index in range(2):
            slower = msgspec.structs.replace(rhythm(), since_ms=int(at * 1000), before_us=100_000)
            for later, count in ((NOW + 12, 80), (NOW + 22, 130)):
                seen = builders.pulse(index, later, 4, count, rhythm=slower)
                cluster.feed(frame(agent_id(index), seen, later))

    def test_launches_of_before_the_steps_changed_do_not_count(self):
        cluster = self.cluster(0.6)
        self.change(cluster, NOW)  # later than all windows
        assert found("communication_bound", cluster, NOW + 22) == (
            "no window was taken since the time of a step changed"
        )
        cluster = self.cluster(0.6)
        self.change(cluster, NOW - 4)  # before the last window
        assert only("communication_bound", cluster, NOW + 22).cost.share_of_step == pytest.approx(
            0.5, abs=0.1
        )

    def test_exposed_communication_names_the_collective_and_its_axis(self):
        one = only("communication_bound", self.cluster(0.6), NOW + 11)
        assert one.severity is Severity.WARNING
        assert (one.subject.collective, one.subject.axis) == ("all-reduce.3", "data")
        assert one.cost.share_of_step == pytest.approx(0.5, abs=0.1)
        assert only("communication_bound", self.cluster(0.6, "cpu"), NOW + 11).severity is Severity.INFO

    def test_communication_behind_other_work_is_not_found(self):
        assert found("communication_bound", self.cluster(0.1), NOW + 11) == []


class TestSteps:
    def times(self, *means, platform="gpu"):
        cluster, agent = Cluster(), agent_id(0)
        cluster.feed(frame(agent, wire.Link(LinkState.UP, "10.0.0.1:7411"), NOW - 5, 0))
        devices = (wire.Device(0, "H100", platform, 0),)
        cluster.feed(frame(agent, hello(0, 1, devices, platform=platform), NOW - 5))
        for i, mean in enumerate(means):
            at = NOW + i
            cluster.feed(frame(agent, wire.Pulse(int(at * 1000), rhythm=rhythm(p50_ms=mean)), at))
        self.at = NOW + len(means) - 1
        return cluster

    def test_steps_that_became_slower_are_found(self):
        cluster = self.times(*[100] * 40, *[130] * 10)
        one = only("slower_than_before", cluster, self.at)
        assert one.text == "a step takes 130 ms, 30% longer than in the best half minute (100 ms)"
        assert one.cost.ms_per_step == 30 and one.severity is Severity.WARNING
        cluster = self.times(*[100] * 40, *[130] * 10, platform="cpu")
        assert only("slower_than_before", cluster, self.at).severity is Severity.INFO

    def test_one_fast_moment_a_little_more_and_another_step_are_not(self):
        assert found("slower_than_before", self.times(*[100, 3, 100, 110] * 12), self.at) == []
        assert found("slower_than_before", self.times(*[100] * 40, *[115] * 10), self.at) == []
        assert "half minute" in found("slower_than_before", self.times(*[100] * 10, *[200] * 10), self.at)


class TestMachines:
    def cluster(self, devices=None, platform="gpu", **figures):
        cluster = Cluster()
        own = tuple(wire.Device(i, "H100", platform, i) for i in range(4))
        cluster.feed(frame(agent_id(0), wire.Link(LinkState.UP, "10.0.0.1:7411"), NOW - 5, 0))
        cluster.feed(frame(agent_id(0), hello(0, 1, own, platform=platform), NOW - 5))
        seen = wire.Pulse(
            int(NOW * 1000), host=wire.HostSample(**figures), devices=devices or wire.DeviceSample()
        )
        cluster.feed(frame(agent_id(0), seen, NOW))
        return cluster

    def test_a_container_that_is_held_back(self):
        assert only("held_back", self.cluster(held_back_permille=300)).severity is Severity.WARNING
        assert (
            only("held_back", self.cluster(held_back_permille=300, platform="cpu")).severity is Severity.INFO
        )
        assert found("held_back", self.cluster(held_back_permille=20)) == []
        assert "no host" in found("held_back", self.cluster())

    def test_cores_that_others_use(self):
        busy = {"cpu_pressure_permille": 700, "machine_cpu_permille": 990, "cores_milli": 2000}
        one = only("cpu_contention", self.cluster(**busy, process_cpu_permille=300))
        assert one.severity is Severity.INFO
        assert one.text.startswith("other processes use the CPU of process 0")
        assert found("cpu_contention", self.cluster(**busy, process_cpu_permille=1900)) == []

    def test_processes_of_one_machine_are_one_finding_with_one_subject(self):
        cluster = Cluster()
        for index in range(2):
            cluster.feed(frame(agent_id(index), wire.Link(LinkState.UP, f"10.0.0.1:741{index}"), NOW - 5, 0))
            own = (wire.Device(index, "cpu", "cpu", 0),)
            cluster.feed(frame(agent_id(index), hello(index, 2, own, platform="cpu", boot="b"), NOW - 5))

        def report(at, own, *pressures):
            for index, pressure in enumerate(pressures):
                sample = wire.HostSample(
                    cpu_pressure_permille=pressure, machine_cpu_permille=1000, cores_milli=2000,
                    process_cpu_permille=own,
                )  # fmt: skip
                seen = wire.Pulse(int(at * 1000), host=sample, rhythm=rhythm())
                cluster.feed(frame(agent_id(index), seen, at))
            return found("cpu_contention", cluster, at)

        # At first they are busy with each other.
        assert [report(NOW + i, 800, 900, 900) for i in range(30)] == [[]] * 30
        for i in range(10):
            (one,) = report(NOW + 30 + i, 400, *((700, 800), (450, 800), (800, 700))[i % 3])
            assert one.text.startswith("other processes use the CPU of hosts 0–1: ")
            assert one.subject.process_index == 0
        assert one.cost.share_of_step == pytest.approx(0.5)

    def test_others_cost_no_more_than_the_time_in_which_a_core_is_wanted(self):
        """For 60 % of each step the scripts do something else; then their processes use less CPU."""
        cluster = two_hosts(took=(200, 200), script=(24, 24), at=NOW - 20)
        for index in range(2):
            own = (wire.Device(index, "cpu", "cpu", 0),)
            cluster.feed(frame(agent_id(index), hello(index, 2, own, platform="cpu", boot="b"), NOW))
        for i in range(30):
            own = 900 if i < 16 else 100
            for index in range(2):
                sample = wire.HostSample(
                    cpu_pressure_permille=800, machine_cpu_permille=1000, cores_milli=2000,
                    process_cpu_permille=own,
                )  # fmt: skip
                last = cluster.hosts[agent_id(index)].pulse
                at_ms = int((NOW + i / 10) * 1000)
                seen = msgspec.structs.replace(last, at_ms=at_ms, host=sample)
                cluster.feed(frame(agent_id(index), seen, NOW + i / 10))
        (one,) = found("cpu_contention", cluster, NOW + 3)
        assert 0.2 < one.cost.share_of_step < 0.45, "what is left of a step is the most that it can be"

    def test_memory_and_disks(self):
        assert (
            only("memory_pressure", self.cluster(memory_pressure_permille=150)).severity is Severity.WARNING
        )
        assert found("memory_pressure", self.cluster(memory_pressure_permille=50)) == []
        assert only("disk_waits", self.cluster(io_pressure_permille=400)).severity is Severity.INFO
        assert found("disk_waits", self.cluster(io_pressure_permille=100)) == []

    @pytest.mark.parametrize(("written", "severity"), [(0, Severity.INFO), (10**6, Severity.WARNING)])
    def test_disks_hold_up_only_a_process_that_uses_them(self, written, severity):
        sample = wire.HostSample(
            io_pressure_permille=400, process_read_bytes_per_s=0, process_written_bytes_per_s=written
        )
        cluster = run(window(*EVEN), activity(script=50, wait=50))
        cluster.feed(frame(agent_id(0), wire.Pulse(int(NOW * 1000), host=sample, rhythm=rhythm()), NOW))
        assert only("disk_waits", cluster).severity is severity

    def test_heat_is_a_warning_and_a_power_limit_a_note(self):
        hot = wire.DeviceSample(
            slowed=(0, 2, 0, 0), clock_mhz=(1980, 1200, 1980, 1980), clock_max_mhz=(1980,) * 4,
            temperature_c=(60, 89, 60, 60),
        )  # fmt: skip
        one = only("throttled", self.cluster(hot))
        assert one.severity is Severity.WARNING and one.subject.device_id == 1
        assert one.text.endswith("slower because of heat: device 1, 1,200 of 1,980 MHz, 89 °C")
        capped = wire.DeviceSample(slowed=(1, 1, 1, 1))
        note = only("throttled", self.cluster(capped))
        assert note.severity is Severity.INFO
        assert {each.name: each.value for each in note.evidence}["clock, of its maximum"] is None
        assert found("throttled", self.cluster(wire.DeviceSample(slowed=(0, 0, 0, 0)))) == []
        assert "no driver" in found("throttled", self.cluster())

    def test_memory_errors(self):
        assert (
            only(
                "memory_errors", self.cluster(wire.DeviceSample(ecc_uncorrected=(0, 2, 0, 0)))
            ).subject.device_id
            == 1
        )
        assert found("memory_errors", self.cluster(wire.DeviceSample(ecc_uncorrected=(0, 0, 0, 0)))) == []
        assert "no driver" in found("memory_errors", self.cluster(wire.DeviceSample(ecc_uncorrected=(None,))))


def collective(op, kind, size, groups, times=1, source=""):  # noqa: PLR0917 - as the message has them
    return wire.Collective(op, kind, f"f32[{size // 4}]", size, groups, times, source=source)


def of_collectives(
    listed,
    took_us,
    *,
    launches=50,
    windows=4,
    devices=4,
    exposed_us=1000,
    platform="gpu",
    slice_of=lambda _: None,
):
    """Two processes of so many GPUs on a mesh (data, model); each collective takes so many microseconds."""
    cluster, total = Cluster(), 2 * devices
    ids = wire.pack_ids(tuple(range(total)))
    mesh = wire.Mesh((("data", 2), ("model", devices)), ids)
    sharding = wire.Sharding("named", "P('data', 'model')", 0, (), "device")
    group = wire.ArrayGroup((8, 8), "float32", 0, 256, 64)
    census = wire.Arrays(int(NOW * 1000), meshes=(mesh,), shardings=(sharding,), groups=(group,), counts=(1,))
    for index in range(2):
        agent = agent_id(index)
        own = tuple(
            wire.Device(index * devices + i, "H100", platform, i, slice_index=slice_of(index))
            for i in range(devices)
        )
        along_model = wire.ReplicaGroups((devices,), ((0, total, 1),))
        along_data = wire.ReplicaGroups((2,), tuple((i, 2, devices) for i in range(devices)))
        of_all = wire.ReplicaGroups((total,), ((0, total, 1),))
        inventory = wire.Inventory(
            1, "jit_train_step", "f", total, ((index * devices, devices),), (along_model, along_data, of_all),
            tuple(listed),
        )  # fmt: skip
        for each in (
            wire.Link(LinkState.UP, f"10.0.0.{index}:7411"),
            hello(index, 2, own, platform=platform),
            census,
            wire.Programs(1, (wire.Program("jit_train_step", "f", total, devices),)),
            inventory,
        ):
            cluster.feed(frame(agent, each, NOW - 20))
    for number in range(windows):
        for index in range(2):
            took = [
                took_us(index, op) if callable(took_us) else (took_us,) * devices for op in range(len(listed))
            ]
            cluster.feed(frame(agent_id(index), timed(listed, took, number, exposed_us), NOW - 10 + number))
    for index in range(2):
        for i in (0, 1):
            seen = wire.Pulse(
                int((NOW - 10 + 10 * i) * 1000), launches={"train_step": 7 + i * launches}, rhythm=rhythm()
            )
            cluster.feed(frame(agent_id(index), seen, NOW - 10 + 10 * i))
    return cluster


def timed(listed, took, number, exposed_us):
    launches, rows = [], []
    for i in range(5):
        launches.append(wire.Launch(0, number * 5 + i, i * 200_000, 180_000, exposed_us, exposed_us))
        for op, each in enumerate(listed):
            turns = range(min(each.times or 1, 3))
            rows += [wire.Round(i, op, turn, i * 200_000, took[op]) for turn in turns]
    return wire.Window(
        int((NOW - 10 + number) * 1000), 10**6, number, (("jit_train_step", "f"),),
        tuple(each.op for each in listed), tuple(launches), tuple(rows),
    )  # fmt: skip


class TestCollectives:
    def test_many_small_ones_from_one_place_are_found(self):
        many = [collective(f"all-reduce.{i}", "all-reduce", 64, 1, source="psum") for i in range(40)]
        one = only("small_collectives", of_collectives(many, 500))
        assert "40 all-reduces of at most 64 bytes from psum" in one.text
        assert one.cost.ms_per_step == pytest.approx(20, rel=0.05)
        turns = of_collectives(
            many, lambda index, op: (500, 1500) * 2 if (index + op) % 2 else (1500, 500) * 2
        )
        assert only("small_collectives", turns).cost.ms_per_step == pytest.approx(40, rel=0.05)
        loop = [collective("all-reduce.1", "all-reduce", 64, 1, 100, "psum")]
        assert "100 all-reduces" in only("small_collectives", of_collectives(loop, 500)).text

    def test_what_small_ones_cost_contains_the_few_that_take_far_longer_than_the_median(self):
        many = [collective(f"all-reduce.{i}", "all-reduce", 64, 1, source="psum") for i in range(40)]
        one = only("small_collectives", of_collectives(many, 500, exposed_us=32_000))
        assert one.cost.ms_per_step == pytest.approx(32, rel=0.05)
        late = of_collectives(many, lambda index, _: (500 if index else 30_500,) * 4, exposed_us=2_000_000)
        assert only("small_collectives", late).cost.ms_per_step == pytest.approx(20, rel=0.05)
        large = [collective(f"all-gather.{i}", "all-gather", 1 << 20, 1) for i in range(10)]
        mixed = of_collectives(
            [*many, *large], lambda _, op: (500 if op < 40 else 4000,) * 4, exposed_us=90_000
        )
        assert only("small_collectives", mixed).cost.ms_per_step == pytest.approx(30, rel=0.05)

    def test_few_large_and_short_ones_are_not(self):
        few = [collective(f"all-reduce.{i}", "all-reduce", 64, 1) for i in range(10)]
        assert found("small_collectives", of_collectives(few, 2000)) == []
        large = [collective(f"all-reduce.{i}", "all-reduce", 1 << 20, 1) for i in range(40)]
        assert found("small_collectives", of_collectives(large, 2000)) == []
        short = [collective(f"all-reduce.{i}", "all-reduce", 64, 1) for i in range(40)]
        assert found("small_collectives", of_collectives(short, 20)) == []

    def test_a_device_that_computes_longer_than_its_siblings_is_found_and_a_late_process_is_not(self):
        ops = [collective("all-reduce.1", "all-reduce", 64, 0)]

        def one_device(index, _op):
            return (30_000, 30_000, 30_000, 500) if index == 1 else (500,) * 4

        one = only("uneven_work", of_collectives(ops, one_device, windows=6))
        assert (one.subject.process_index, one.subject.device_id) == (1, 7) and "straggler" in one.explains
        assert one.cost.ms_per_step == pytest.approx(29.5, rel=0.05)

        def others_wait_longer(index, op):
            return one_device(index, op) if index == 1 else (40_000,) * 4

        over_all = [collective("all-reduce.1", "all-reduce", 64, 2)]
        one = only("uneven_work", of_collectives(over_all, others_wait_longer, windows=6))
        assert " computes 29.5 ms " in one.text
        assert one.cost.ms_per_step == pytest.approx(39.5, rel=0.05), "what the panel has as waiting"

        def one_process(index, _op):
            return (500,) * 4 if index == 1 else (30_000,) * 4

        late = of_collectives([collective("all-reduce.1", "all-reduce", 64, 1)], one_process, windows=6)
        assert found("uneven_work", late) == [] and len(found("straggler", late)) == 1

    def test_a_heavy_axis_across_hosts_is_found_if_the_other_could_take_its_place(self):
        heavy = [
            collective("all-reduce.1", "all-reduce", 64 << 20, 1),
            collective("all-gather.2", "all-gather", 1 << 20, 0),
        ]
        one = only("axis_crosses_hosts", of_collectives(heavy, 40_000, devices=2))
        assert one.subject.axis == "data" and one.severity is Severity.WARNING
        assert "64 times the bytes of model" in one.text
        assert one.cost.share_of_step == pytest.approx(0.2, rel=0.05)
        # The links of a slice of TPUs, and those of an NVLink fabric, join its hosts.
        for platform, slices in (("tpu", None), ("tpu", 0), ("gpu", 0)):
            joined = of_collectives(
                heavy, 40_000, devices=2, platform=platform, slice_of=lambda _, at=slices: at
            )
            assert found("axis_crosses_hosts", joined) == []
        apart = of_collectives(heavy, 40_000, devices=2, platform="tpu", slice_of=lambda host: host)
        assert "axis data crosses slices" in only("axis_crosses_hosts", apart).text
        assert found("axis_crosses_hosts", of_collectives(heavy, 40_000, devices=4)) == []  # of other sizes
        light = [
            collective("all-reduce.1", "all-reduce", 1 << 20, 1),
            collective("all-gather.2", "all-gather", 1 << 20, 0),
        ]
        assert found("axis_crosses_hosts", of_collectives(light, 40_000, devices=2)) == []


def test_the_best_step_survives_a_keyframe():
    cluster = TestSteps().times(*[100] * 40, *[130] * 10)
    again = folded(keyframe.frames(cluster, NOW + 50))
    assert again.hosts[agent_id(0)].best == cluster.hosts[agent_id(0)].best
    assert again.hosts[agent_id(0)].best.best_us == 100_000


def test_the_straggler_rule_states_its_thresholds():
    threshold = RULES_BY_NAME["straggler"].threshold
    assert f"last in {LAST_IN_SHARE * 100:.0f} % of the samples" in threshold
    assert f"for {LATE_SCRIPT_SHARE * 100:.0f} % of each step" in threshold
    details = "\n".join(RULES_BY_NAME["straggler"].details)
    assert f"more than {LATE_MS.default:.0f} ms ({LATE_MS_ON_CPU.default:.0f} ms on CPU)" in details
    assert f"{MIN_SHARE_OF_LAUNCH * 100:.0f} % of the launch" in details
    assert f"a note from {POSSIBLY_LATE_SHARE * 100:.0f} % on" in details


def test_a_number_that_knows_its_rule_is_one_of_its_numbers():
    for number in (LATE_MS, LATE_MS_ON_CPU, LATE_SCRIPT_MS, PAUSE_SHARE):
        assert number in RULES_BY_NAME[number.rule].numbers
