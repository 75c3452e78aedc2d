"""Where the wall time of a process goes, from launch counters, windows and samples of the main thread."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.export.check import Checkup
from jaxtop.export.json import to_document
from jaxtop.model import Severity, keyframe
from jaxtop.model.findings.health import health_of
from jaxtop.model.findings.reducer import checked_step
from jaxtop.model.host import NO_WINDOW
from jaxtop.model.hosts import runs
from jaxtop.model.shares import NAMES, Parts
from jaxtop.model.wall_time.device_waits import step_waits
from jaxtop.model.wall_time.gaps import gap_of
from jaxtop.model.wall_time.lateness import lateness_by_run
from jaxtop.model.wall_time.launch_times import measured_in
from jaxtop.model.wall_time.parts import BusyShares, OwnParts, mean_of, own_parts, with_lateness
from jaxtop.model.wall_time.step_parts import parts_of_hosts, run_parts
from jaxtop.tui.core.moment import Moment
from jaxtop.tui.draw.overview.anatomy import about
from tests.builders import NOW, agent_id, folded, frame, pulse
from tests.made.windows import Made
from tests.staged import collectives as staged_collectives
from tests.staged.parts import EVEN, LATE, activity, of_rule, rhythm, run, two_hosts, window


def of_run(*messages, **more):
    found = parts_of_hosts(run(*messages, **more), NOW).get(agent_id(0))
    if found is not None:
        assert sum(found[: len(NAMES)]) == pytest.approx(1) and min(found[: len(NAMES)]) >= 0
    return found


def test_a_sleep_before_each_step_is_a_gap_of_the_host():
    found = of_run(window(*EVEN), activity(script=50, wait=50))
    assert (found.compute, found.communication, found.waiting) == (pytest.approx(0.5), 0, 0)
    assert (found.host_gap, found.unknown) == (pytest.approx(0.5), pytest.approx(0))
    assert found.at == NOW


def test_a_stall_every_twenty_steps_is_a_gap_though_no_window_saw_it():
    found = of_run(window((0, 98), (100, 98), (200, 98)), activity(script=50, wait=50))
    assert (found.compute, found.host_gap) == (pytest.approx(0.49), pytest.approx(0.51))


@pytest.mark.parametrize("fewer", [0, 1])
def test_a_gap_is_known_from_the_fewest_samples_that_an_agent_sends(fewer):
    samples = activity(wait=wire.FEWEST_ACTIVITY_SAMPLES - fewer)
    host = run(window(*EVEN), samples).hosts[agent_id(0)]
    assert (gap_of(host, None) is None) == bool(fewer)


def test_time_that_nothing_explains_is_unknown():
    found = of_run(window((0, 100), (100, 100), (200, 100)), activity(wait=100))
    assert (found.host_gap, found.unknown) == (0, pytest.approx(0.5))
    assert of_run(window((0, 100), (100, 100), (200, 100))).unknown == pytest.approx(0.5)


def test_a_script_that_runs_while_its_devices_compute_makes_no_gap():
    found = of_run(window((0, 198), (200, 198), (400, 198)), activity(script=80, wait=20))
    assert (found.compute, found.host_gap) == (pytest.approx(0.99), pytest.approx(0.01))


def test_steps_that_were_slower_in_a_window_fill_the_time_and_no_more():
    found = of_run(window((0, 300), (300, 300), (600, 300)), activity(script=50, wait=50))
    assert (found.compute, found.host_gap, found.unknown) == (pytest.approx(1), 0, 0)


def test_old_windows_measure_nothing_of_steps_that_became_shorter_than_their_launches():
    changed = replace(rhythm(), since_ms=int(NOW * 1000) - 100_000, before_us=320_000)
    old = window((0, 300), (300, 300), (600, 300), at=NOW - 150)
    cluster = run(old, activity(script=50, wait=50), rhythms=changed)
    assert own_parts(cluster, NOW) == {}
    assert gap_of(cluster.hosts[agent_id(0)], None).uncovered is None


@pytest.mark.parametrize(
    ("launches", "samples", "compute"),
    [
        # Ten steps a second of 63 ms, after 37 ms of input; in windows all launches take longer or shorter.
        ((63, 100), {"script": 37, "wait": 63}, 0.63),
        ((90, 127), {"script": 37, "wait": 63}, 0.71),
        ((120, 157), {"script": 37, "wait": 63}, 0.76),
        ((120, 157), {}, 0.76),
        ((50, 87), {"script": 37, "wait": 63}, 0.5),
        # The window contains a rare pause, or the script runs while its devices compute.
        ((90, 145), {"script": 4, "wait": 96}, 0.9),
        ((95, 96), {"script": 80, "wait": 20}, 0.95),
    ],
)
def test_a_busy_machine_in_a_window_does_not_hide_the_gap_that_it_shows(launches, samples, compute):
    took, apart = launches
    seen = window(*((i * apart, took) for i in range(20)))
    more = [activity(**samples)] if samples else []
    found = of_run(seen, *more, launches=100, rhythms=rhythm(per_second=10.0, p50_ms=100))
    assert found.compute == pytest.approx(compute, abs=0.03)
    assert samples.get("script") != 37 or found.host_gap == pytest.approx(0.37, abs=0.15)


def test_launches_of_a_window_are_measured_once_though_the_rhythm_has_changed():
    waited, changed = {}, replace(rhythm(), since_ms=int(NOW * 1000) - 60_000, before_us=90_000)
    cluster, agent = run(window(*EVEN), rhythms=changed), agent_id(0)
    before = measured_in(cluster, cluster.hosts[agent], waited)
    cluster.feed(frame(agent, wire.Pulse(int((NOW + 1) * 1000), rhythm=changed), NOW + 1))
    assert measured_in(cluster, cluster.hosts[agent], waited) is before


def test_launches_that_overlap_count_once():
    both = ((0, 100), (0, 100), (200, 100), (200, 100))
    found = of_run(window(*both), activity(script=50, wait=50), launches=100)
    assert found.compute == pytest.approx(0.5)


def test_exposed_communication_and_the_wait_in_it():
    found = of_run(window(*EVEN, exposed=40), activity(script=50, wait=50))
    assert (found.compute, found.communication, found.waiting) == (
        pytest.approx(0.3),
        pytest.approx(0.2),
        0,
    )


def test_an_evaluation_that_no_window_contains_is_unknown_and_a_step_that_none_contains_leaves_nothing():
    launches = {"train_step": 40, "evaluate": 2}
    found = of_run(window((0, 200), (200, 200), (400, 200)), activity(wait=90, script=10), launches=launches)
    assert (found.compute, found.unknown) == (pytest.approx(0.8), pytest.approx(0.1))
    assert of_run(window(*EVEN, program="jit_evaluate"), launches=launches) is None
    assert of_run(launches=50) is None


def test_while_the_rate_of_a_new_function_is_unknown_so_are_the_parts():
    told = wire.Rhythm(1, (), 50, 100, 200_000, 5_000, 50, 200_000, 200_000, 200_000)
    seen = window(*EVEN), activity(script=50, wait=50)
    often = wire.Pulse(int(NOW * 1000), launches={"other_step": 40}, rhythm=told)
    assert of_run(*seen, often) is None
    once = wire.Pulse(int(NOW * 1000), launches={"evaluate": 1}, rhythm=told)
    assert of_run(*seen, once).compute == pytest.approx(0.5)


def test_a_program_that_is_in_no_later_window_keeps_its_times():
    first = window((0, 500), (500, 500), program="jit_evaluate", at=NOW - 5)
    launches = {"train_step": 40, "evaluate": 4}
    found = of_run(first, window((0, 200), (200, 200), (400, 200)), activity(wait=100), launches=launches)
    assert found.compute == pytest.approx(1)


def test_windows_show_which_process_waits_for_which():
    """The others wait for host 3 for 60 of the 200 ms of a step."""
    cluster = folded(staged_collectives.run(Made(4, 4, late=3)))
    for index in range(4):
        for at, launches in ((NOW + 1, 22), (NOW + 11, 58)):
            cluster.feed(frame(agent_id(index), pulse(index, at, 4, launches, rhythm=rhythm()), at))
    found = parts_of_hosts(cluster, NOW + 11)
    early, late = found[agent_id(0)], found[agent_id(3)]
    assert early.waiting == pytest.approx(0.3, abs=0.01) and late.waiting < 0.05
    mean = mean_of(found.values())
    assert sum(mean[: len(NAMES)]) == pytest.approx(1) and late.waiting < mean.waiting < early.waiting
    assert mean_of([]) is None


def test_steps_that_have_stopped_have_no_parts():
    still = wire.Pulse(
        int(NOW * 1000), rhythm=rhythm(), stall=wire.Stall("train_step", int(NOW * 1000) - 9000, 200)
    )
    assert of_run(window(*EVEN), still) is None


def test_the_document_and_a_keyframe_have_the_parts():
    cluster = run(window(*EVEN), activity(script=50, wait=50))
    (host,) = to_document(cluster, NOW)["hosts"]
    assert host["step"]["parts"] == {
        "compute": 0.5, "communication": 0.0, "waiting": 0.0, "host_gap": 0.5, "unknown": 0.0,
    }  # fmt: skip
    again = folded(keyframe.frames(cluster, NOW))
    assert again.hosts[agent_id(0)].launches_in_windows == cluster.hosts[agent_id(0)].launches_in_windows
    assert parts_of_hosts(again, NOW)[agent_id(0)].compute == pytest.approx(0.5)


class TestWhatOthersWaitForIsTheLatenessOfOne:
    """Host 1 is in its script for 60 % of each step of 500 ms; its programs take 200 ms."""

    @pytest.mark.parametrize("took", [200, 400, 480], ids=["as now", "longer", "far longer"])
    def test_an_old_window_does_not_decide_how_long_they_wait(self, took):
        cluster = two_hosts(took=(took, 200))
        (late,) = of_rule("straggler", cluster)
        assert late.cost.share_of_step == pytest.approx(0.6)
        found = parts_of_hosts(cluster, NOW)
        early = found[agent_id(0)]
        assert early.waiting == pytest.approx(0.6) and early.compute == pytest.approx(0.4)
        assert found[agent_id(1)].host_gap == pytest.approx(0.6) and found[agent_id(1)].waiting == 0
        for each in found.values():
            assert sum(each[: len(NAMES)]) == pytest.approx(1)

    def test_the_devices_that_wait_have_the_same_wait(self):
        cluster = two_hosts(took=(200, 200))
        first, late = (view.current for view in runs(cluster, NOW)[0].hosts)
        waits = step_waits(cluster, NOW)
        assert {waits["r1", each.id] for each in first.devices} == {300_000}
        assert not any(waits.get(("r1", each.id)) for each in late.devices)
        (host, other) = to_document(cluster, NOW)["hosts"]
        assert {each["wait_us"] for each in host["devices"]} == {300_000}
        assert not any(each["wait_us"] for each in other["devices"])

    def test_the_others_do_not_wait_while_they_are_in_their_own_scripts(self):
        """Host 0 is in its script for 20 % of each step, host 1 for 60 %."""
        cluster = two_hosts(took=(400, 200), script=(8, 24))
        (late,) = of_rule("straggler", cluster)
        assert late.cost.share_of_step == pytest.approx(0.4)
        found = parts_of_hosts(cluster, NOW)
        early = found[agent_id(0)]
        assert (early.waiting, early.host_gap) == (pytest.approx(0.4), pytest.approx(0.2, abs=0.01))
        assert found[agent_id(1)].host_gap == pytest.approx(0.6)

    def test_the_parts_of_a_run_are_those_of_the_processes_that_wait(self):
        shown = run_parts(two_hosts(took=(200, 200)), NOW)
        assert (shown.processes, shown.late) == (1, (agent_id(1),))
        assert shown.parts.waiting == pytest.approx(0.6) and shown.is_enough

    def test_without_windows_the_wait_is_known_and_the_rest_is_not(self):
        """The steps became longer by 300 of 500 ms ten seconds ago, and no window was taken since."""
        slower = replace(
            rhythm(per_second=2.0, p50_ms=500), since_ms=int(NOW * 1000) - 25_000, before_us=200_000
        )
        cluster = two_hosts(took=(200, 200), rhythms=(slower,) * 2)
        for host in cluster.hosts.values():
            cluster.hosts[host.agent] = host.but(launches_in_windows={}, window=NO_WINDOW)
        cluster.changes += 1
        (late,) = of_rule("straggler", cluster)
        early = parts_of_hosts(cluster, NOW)[agent_id(0)]
        assert early.waiting == pytest.approx(late.cost.share_of_step) == pytest.approx(0.6)
        assert early.unknown == pytest.approx(0.4) and early.at is None

    @pytest.mark.parametrize(("since_s", "names"), [(3, False), (40, True)])
    def test_who_has_not_noticed_a_change_yet_is_not_compared(self, since_s, names):
        """Even input has healed: host 1, by noisier steps, still shows the samples and steps of before."""
        healed = replace(
            rhythm(per_second=4.0, p50_ms=200), since_ms=int((NOW - since_s) * 1000), before_us=500_000
        )
        cluster = two_hosts(took=(190, 190), rhythms=(healed, rhythm(per_second=4.0, p50_ms=500)),
                            span_s=since_s)  # fmt: skip
        assert bool(lateness_by_run(cluster, NOW)["r1"].scripts) is names
        assert bool(run_parts(cluster, NOW).late) is names

    def test_who_waits_less_for_a_core_is_not_late_for_that(self):
        """Both are in their scripts for half of each step; which samples of host 0 waited is unknown."""
        cluster = two_hosts(took=(250, 250), script=(20, 20))
        busy = activity(script=20, wait=20, lines=LATE, delayed_ms=6_000)
        cluster.feed(frame(agent_id(0), busy, NOW))
        found = lateness_by_run(cluster, NOW)["r1"]
        assert [each.script for each in found.gaps] == pytest.approx([0.2, 0.5])
        assert found.scripts == ()

    def test_pauses_of_one_are_waits_of_the_others(self):
        """Steps take 300 ms, and 500 ms with their part of the pauses, which come every four seconds."""
        paused = replace(rhythm(per_second=2.0, p50_ms=300), pauses=3, pauses_ms=8_000, lost_us=200_000)
        cluster = two_hosts(took=(280, 280), rhythms=(rhythm(per_second=2.0, p50_ms=300), paused),
                            script=(0, 16))  # fmt: skip
        (one,) = of_rule("pauses", cluster)
        assert one.cost.share_of_step == pytest.approx(0.4)
        assert parts_of_hosts(cluster, NOW)[agent_id(0)].waiting == pytest.approx(0.4)

    @pytest.mark.parametrize(("p50_ms", "is_late"), [(480, True), (405, False)], ids=["each step", "pauses"])
    def test_who_pauses_is_not_late_in_each_step(self, p50_ms, is_late):
        """Host 1 is in its script for a quarter of the time; pauses explain a sixth of it, or most."""
        lost = {"pauses": 4, "pauses_ms": 30_000, "lost_us": (500 - p50_ms) * 1000}
        paused = replace(rhythm(per_second=2.0, p50_ms=p50_ms), **lost)
        cluster = two_hosts(took=(375, 375), rhythms=(rhythm(per_second=2.0, p50_ms=p50_ms), paused),
                            script=(0, 10))  # fmt: skip
        assert bool(lateness_by_run(cluster, NOW)["r1"].scripts) is is_late
        assert bool(of_rule("pauses", cluster)) is not is_late

    def test_the_document_has_the_parts_of_the_run(self):
        (found,) = to_document(two_hosts(took=(200, 200)), NOW)["runs"]
        assert found["step"]["parts"]["waiting"] == pytest.approx(0.6)
        assert (found["step"]["late"], found["step"]["processes"]) == ([1], 1)

    def test_a_wait_of_an_old_window_gives_way_and_its_share_is_unknown(self):
        """The window shows 2.4 s of waits a second; the step as it is now has 0.56 s, and 0.04 s are left."""
        own = OwnParts(Parts(0.03, 0.11, 0.86, 0.0, 0.0, NOW), BusyShares(0.1, 0.3, 2.4, 0.0))
        found = with_lateness(own, 0.0, 0.0, 0.56)
        assert found[: len(NAMES)] == pytest.approx((0.1, 0.3, 0.56, 0.0, 0.04))


def test_a_straggler_costs_what_the_panel_shows_as_the_wait_for_it():
    """The paces of the processes differ a little; the median step is shorter than the time between steps."""
    rhythms = (rhythm(per_second=2.0, p50_ms=450), rhythm(per_second=1.9, p50_ms=450))
    cluster = two_hosts(took=(200, 200), script=(0, 26), rhythms=rhythms)
    cluster.check(NOW)
    (late,), shown = of_rule("straggler", cluster), checked_step(cluster, NOW)
    assert shown.wall_s == pytest.approx(1 / 1.95)
    assert late.cost.ms_per_step == pytest.approx(1000 * shown.wall_s * shown.parts.parts.waiting)
    assert f"{late.cost.ms_per_step:.0f} ms of a {1000 * shown.wall_s:.0f} ms step" in late.text


def test_a_jump_shows_the_step_of_the_last_check_as_playing_up_to_it_does():
    """The keyframe is from a second after the check, and newer figures have arrived meanwhile."""
    cluster = two_hosts(took=(200, 200), script=(0, 26))
    cluster.check(NOW)
    slower = replace(cluster.hosts[agent_id(0)].pulse, rhythm=rhythm(per_second=1.0))
    cluster.feed(frame(agent_id(0), slower, NOW + 1))
    again = folded(keyframe.frames(cluster, NOW + 1))
    assert checked_step(again, NOW + 1) == checked_step(cluster, NOW + 1) == checked_step(cluster, NOW)
    cluster.check(NOW + 2)
    assert checked_step(again, NOW + 1) != checked_step(cluster, NOW + 2)


@pytest.mark.parametrize(
    ("delayed_ms", "severity"),
    [(0, Severity.CRITICAL), (2_400, Severity.WARNING), (7_800, Severity.WARNING), (11_400, Severity.INFO)],
)
def test_work_in_python_on_all_hosts_is_one_gap_in_the_panel_and_in_the_finding(delayed_ms, severity):
    """Both processes tokenise for 300 of 500 ms; the main threads wait for a core for some of it."""
    cluster = two_hosts(took=(200, 200), script=(24, 24), at=NOW, delayed_ms=delayed_ms)
    (found,), shown = of_rule("input_bound", cluster), run_parts(cluster, NOW)
    assert (shown.processes, shown.late) == (2, ())
    assert shown.parts.host_gap == pytest.approx(0.6) == pytest.approx(found.cost.share_of_step)
    share = delayed_ms / 20_000 / 0.6
    assert shown.parts.delayed / shown.parts.host_gap == pytest.approx(share)
    assert found.text.startswith("all hosts launch nothing for 300 of 500 ms a step (60%")
    panel = about(Moment(cluster, NOW), shown)
    said = f"{share:.0%} of the gap waits for a core" if share else ""
    assert panel == said
    assert (f", of which {share:.0%} waits for a core)" in found.text) == bool(share)
    assert found.severity is severity


@pytest.mark.parametrize(
    ("took", "verdict"),
    [(74, "not enough measured: 63% of a step is unknown"), (120, "healthy")],
)
def test_a_run_is_healthy_only_if_most_of_its_time_is_explained(took, verdict):
    """Launches of 74 ms, five a second, are 37 % of the time; nothing says what the rest is."""
    cluster = run(window(*((took * i, took) for i in range(4))), activity(wait=100))
    cluster.findings.unchecked = {}
    assert Checkup.of(cluster, NOW).verdict.startswith(verdict)
    moment = Moment(cluster, NOW)
    sentence, role = health_of(cluster, moment.host_views, moment.findings, now=NOW)
    assert sentence.lower().startswith(verdict)
    assert role == ("good" if verdict == "healthy" else "muted")
