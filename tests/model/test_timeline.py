"""The last windows of several hosts on one line of time: pure, from windows that were made up."""

from __future__ import annotations

from msgspec.structs import replace

from jaxtop.model.collectives import collective_views
from jaxtop.model.collectives.timeline import NO_TIMELINE, reporting_agents, timeline_of, windows_seen
from tests.made import runs as made_runs
from tests.made.windows import Made
from tests.stories import cluster_of

LATE = Made(4, 2, late=2)


def known(made, windows=4, skew=(0, 0, 0, 0)):
    """A cluster whose hosts' windows began at different moments of their own."""
    told = made_runs.windows_of(made, range(windows))
    return cluster_of(
        *made_runs.beginning(made),
        *((at, agent, _begun(window, skew[int(agent[-1])])) for at, agent, window in told),
    )


def _begun(window, later_us):
    """The same window, begun so much later: everything in it is so much earlier."""
    launches = tuple(replace(each, start_us=each.start_us - later_us) for each in window.launches)
    timed = tuple(replace(each, start_us=each.start_us - later_us) for each in window.rounds)
    return replace(window, launches=launches, rounds=timed)


def drawn(cluster, op="all-reduce.3", launches=1, anchors=("all-reduce.3",)):
    view = next(view for view in collective_views(cluster, 0) if view.op == op)
    return timeline_of(cluster, view, anchors, reporting_agents(cluster, view), launches)


def spans(found, op):
    """The first launch's time in this op, of each host."""
    return [span for strip in found.strips for span in strip.blocks[0].spans if span.op == op]


def waits(found, op):
    return [span.waited_us - span.start_us for span in spans(found, op)]


def test_ends_of_a_collective_meet_whatever_the_clocks_say():
    for skew in ((0, 0, 0, 0), (0, 70_000, -30_000, 1_000_000)):
        found = drawn(known(LATE, skew=skew))
        ends = [span.end_us for span in spans(found, found.aligned_by)]
        assert found.aligned_by == "all-reduce.3" and len(ends) == 4
        assert max(ends) - min(ends) < 2_000


def test_who_is_late_begins_late_and_does_not_wait():
    found = drawn(known(LATE))
    begun = [strip.blocks[0].start_us for strip in found.strips]
    assert begun.index(max(begun)) == 2 and max(begun) - sorted(begun)[-2] > 30_000
    waited = waits(found, "all-reduce.3")
    assert waited.index(min(waited)) == 2 and min(waited) < 2_000
    assert sorted(waited)[1] > 30_000


def test_the_same_launches_are_shown_of_all_hosts_and_the_latest():
    cluster = known(LATE)
    found = drawn(cluster, launches=2)
    ids = {tuple(block.id for block in strip.blocks) for strip in found.strips}
    assert ids == {(18, 19)}
    assert found.start_us == min(strip.blocks[0].start_us for strip in found.strips)


def test_a_host_whose_last_window_is_an_older_one_shows_its_own_launches():
    cluster = known(LATE)
    old = made_runs.windows_of(LATE, [2])[0]
    cluster.apply(old[1], old[2], 99.0)
    found = drawn(cluster)
    assert [strip.blocks[0].id for strip in found.strips] == [14, 19, 19, 19]


def test_groups_within_hosts_wait_for_their_own_members_only():
    found = drawn(known(LATE), op="all-gather.1")
    assert max(waits(found, "all-gather.1")) < 2_000


def test_shares_are_those_of_the_launches_shown():
    found = drawn(known(LATE), launches=3)
    assert all(
        0.0 < (strip.exposed_share or 0) < (strip.collective_share or 0) < 1.0 for strip in found.strips
    )


def test_without_windows_there_is_nothing():
    cluster = cluster_of(*made_runs.beginning(LATE))
    assert drawn(cluster) == NO_TIMELINE
    assert windows_seen(cluster).windows == 0 and windows_seen(cluster).newest is None


def test_windows_are_counted_once_for_all_hosts():
    assert windows_seen(known(LATE)).windows == 4
