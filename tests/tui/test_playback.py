"""Where the view stands in time, and how it moves: no screen, and no clock but a number."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop.model import Cluster, State, state_of
from jaxtop.tui.core.moment import Mode
from jaxtop.tui.playback import LONGEST_TICK, Playback, Start
from tests.builders import NOW, agent_id, frame, hello
from tests.played import reels
from tests.played.reels import COMPILES, DIES, LONG, WARNS, Reel, session

FRAMES = session()


def replayed(seconds: float | None = None, **start) -> Playback:
    """A playback on a finished session, paused there."""
    at = None if seconds is None else NOW + seconds
    playback = Playback(None, Reel(*FRAMES), Start(**{"at": at, "is_playing": False, **start}))
    playback.tick(0.0)
    return playback


def followed(seconds: int = LONG) -> tuple[Playback, Cluster, Reel]:
    """A playback on a live cluster, so long after the viewer came."""
    cluster, reel = Cluster(), Reel(is_growing=True)
    playback = Playback(cluster, reel)
    go_on(playback, cluster, reel, 0, seconds)
    return playback, cluster, reel


def go_on(playback: Playback, cluster: Cluster, reel: Reel, since: int, until: int) -> None:
    for each in FRAMES:
        if since <= each.at - NOW <= until and each not in reel.frames:
            cluster.feed(each)
            reel.frames.append(each)
    playback.tick(NOW + until)


def place(playback: Playback) -> float:
    return pytest.approx(playback.position - NOW, abs=1e-3)


def launches(playback: Playback) -> int:
    return playback.moment.cluster.hosts[agent_id(0)].launches["train_step"]


class TestReplay:
    def test_it_begins_at_the_start_and_plays(self):
        playback = replayed(is_playing=True)
        assert (playback.mode, playback.is_playing, place(playback)) == (Mode.REPLAY, True, 0)
        playback.tick(1.5)
        assert place(playback) == 1.5
        assert launches(playback) == 10

    def test_it_begins_where_it_should(self):
        assert launches(replayed(50)) == 500

    @pytest.mark.parametrize("speed", [0.25, 1.0, 64.0])
    def test_its_speed_is_kept(self, speed):
        playback = replayed(is_playing=True, speed=speed)
        for tick in range(1, 9):
            playback.tick(tick / 4)
        assert place(playback) == 2 * speed

    def test_an_app_that_was_stopped_goes_on_where_it_stood(self):
        playback = replayed(is_playing=True)
        playback.tick(3600.0)
        assert place(playback) == LONGEST_TICK

    def test_a_clock_that_goes_back_moves_nothing(self):
        playback = replayed(5, is_playing=True)
        playback.tick(-3600.0)
        assert place(playback) == 5

    def test_it_pauses_at_the_end_and_then_plays_from_the_start(self):
        playback = replayed(LONG - 1, is_playing=True)
        playback.tick(2.0)
        assert (place(playback), playback.is_playing) == (LONG, False)
        playback.hold_or_play()
        assert (place(playback), playback.is_playing) == (0, True)

    def test_in_a_loop_it_goes_on_at_the_start(self):
        playback = replayed(LONG - 1, is_playing=True, loop=True)
        playback.tick(1.5)
        assert (place(playback), playback.is_playing) == (0.5, True)

    def test_while_the_reel_grows_it_waits_at_its_end_and_goes_on_with_it(self):
        reel = Reel(*session(10), is_growing=True)
        playback = Playback(None, reel, Start(at=NOW + 9.5))
        playback.tick(0.0)
        playback.tick(2.0)
        assert (place(playback), playback.is_playing) == (10, True)
        reel.frames = session(20)
        playback.tick(4.0)
        assert (place(playback), playback.is_playing) == (12, True)

    def test_a_reel_that_is_still_empty_is_waited_for(self):
        reel = Reel(is_growing=True)
        playback = Playback(None, reel)
        playback.tick(0.0)
        playback.step(-1)
        playback.to_end()
        playback.to_start()
        assert playback.to_event(1) is None
        assert not playback.moment.host_views
        reel.frames = session(10)
        playback.tick(1.0)
        assert (place(playback), playback.is_playing) == (0, True)
        assert len(playback.moment.host_views) == 2

    def test_the_end_of_a_finished_reel_is_where_it_stays(self):
        playback = replayed(is_playing=True)
        playback.to_end()
        assert (place(playback), playback.is_playing, playback.mode) == (LONG, False, Mode.REPLAY)


class TestMoving:
    def test_samples_are_the_same_from_both_sides(self):
        playback = replayed(10.4)
        seen = []
        for way in (1, 1, -1, -1, -1, 1):
            playback.step(way)
            seen.append(round(playback.position - NOW, 6))
        assert seen == [11, 12, 11, 10, 9, 10]

    def test_a_sample_is_the_shortest_interval_of_the_hosts(self):
        often = frame(agent_id(1), replace(hello(1), interval_ms=250))
        frames = [often if each.kind == "hello" and each.agent == agent_id(1) else each for each in FRAMES]
        playback = Playback(None, Reel(*frames), Start(at=NOW + 10, is_playing=False))
        playback.tick(0.0)
        assert playback.sample == 0.25
        playback.step(1)
        assert place(playback) == 10.25

    def test_stepping_pauses_and_goes_no_further_than_there_is_something(self):
        playback = replayed(is_playing=True)
        playback.step(-1)
        assert (place(playback), playback.is_playing) == (0, False)
        playback.to_end()
        playback.step(1)
        assert place(playback) == LONG

    def test_minutes_go_no_further_than_there_is_something_and_do_not_pause(self):
        playback = replayed(30, is_playing=True)
        seen = []
        for seconds in (60, 60, 60, -60, -60, -60, -60):
            playback.skip(seconds)
            seen.append(round(playback.position - NOW))
        assert seen == [90, 150, LONG, 140, 80, 20, 0]
        assert playback.is_playing

    def test_events_are_gone_to_one_after_the_other_and_seen(self):
        playback = replayed()
        seen = []
        for way in (1, 1, 1, 1, -1, -1, -1):
            found = playback.to_event(way)
            seen.append((found and found.kind, round(playback.position - NOW)))
        assert seen == [
            ("compile", COMPILES), ("disk", WARNS), ("died", DIES), (None, DIES), ("disk", WARNS),
            ("compile", COMPILES), (None, COMPILES),
        ]  # fmt: skip
        playback.seek(NOW + DIES)
        host = playback.moment.cluster.hosts[agent_id(1)]
        assert state_of(host, playback.position) is State.DIED

    def test_events_from_before_the_history_are_not_gone_to(self):
        class Shortened(Reel):
            @property
            def span(self) -> tuple[float, float]:
                return NOW + WARNS + 1, NOW + LONG

        playback = Playback(None, Shortened(*FRAMES), Start(at=NOW + WARNS + 5, is_playing=False))
        assert playback.to_event(-1) is None and place(playback) == WARNS + 5
        assert playback.to_event(1).kind == "died" and playback.to_event(-1) is None

    def test_speeds_go_from_a_quarter_to_64(self):
        playback = replayed()
        slow = []
        for _ in range(4):
            playback.faster(-1)
            slow.append(playback.speed)
        for _ in range(12):
            playback.faster(1)
        assert slow == [0.5, 0.25, 0.25, 0.25]
        assert playback.speed == 64

    def test_what_is_derived_is_kept_while_it_is_the_same_cluster_and_only_then(self):
        playback = replayed(50)
        first = playback.moment
        assert playback.moment is first
        playback.step(1)
        assert playback.moment.cluster.derived is first.cluster.derived
        playback.seek(NOW + 10)
        assert playback.moment.cluster.derived is not first.cluster.derived
        assert len(playback.moment.device_views) == 8

    def test_a_cluster_after_a_jump_back_is_as_if_nothing_later_had_been(self):
        playback = replayed(LONG)
        assert playback.moment.cluster.events
        playback.to_start()
        assert not playback.moment.cluster.events
        assert launches(playback) == 0


class TestLive:
    def test_it_follows_the_cluster(self):
        playback, cluster, _ = followed(10)
        assert (playback.mode, place(playback), playback.is_live) == (Mode.LIVE, 10, True)
        assert playback.moment.cluster is cluster

    def test_nothing_lies_after_the_present(self):
        playback, _, reel = followed(10)
        playback.step(1)
        playback.skip(60)
        assert playback.is_live
        assert not reel.asked

    def test_a_pause_holds_what_is_shown_and_its_end_is_the_present(self):
        playback, cluster, reel = followed(10)
        playback.hold_or_play()
        held = playback.moment
        go_on(playback, cluster, reel, 10, 30)
        assert (playback.mode, playback.moment, playback.lag) == (Mode.PAUSED, held, 20)
        assert launches(playback) == 100
        playback.hold_or_play()
        assert (playback.mode, launches(playback)) == (Mode.LIVE, 300)

    def test_a_pause_needs_no_reel(self):
        cluster = Cluster()
        playback = Playback(cluster)
        playback.tick(NOW)
        playback.hold_or_play()
        playback.step(-1)
        playback.skip(-60)
        playback.to_start()
        assert (playback.mode, place(playback)) == (Mode.PAUSED, 0)
        playback.to_end()
        assert playback.is_live

    def test_from_the_present_one_goes_back_while_all_that_arrives_is_taken_in(self):
        playback, cluster, reel = followed(100)
        playback.step(-1)
        assert (playback.mode, launches(playback)) == (Mode.REWIND, 990)
        playback.skip(-60)
        go_on(playback, cluster, reel, 100, LONG)
        assert launches(playback) == 390
        assert playback.span == (NOW, NOW + LONG)
        playback.to_end()
        assert (playback.mode, launches(playback)) == (Mode.LIVE, LONG * 10)

    def test_the_event_before_can_be_gone_to_from_the_present(self):
        playback, _, _ = followed()
        found = playback.to_event(-1)
        assert (found.kind, place(playback), playback.mode) == ("died", DIES, Mode.REWIND)

    def test_playing_catches_up_with_the_present_and_is_live_again(self):
        playback, cluster, reel = followed(100)
        playback.skip(-60)
        playback.hold_or_play()
        playback.faster(6)
        assert (playback.is_playing, playback.speed) == (True, 64)
        go_on(playback, cluster, reel, 100, 101)
        assert (playback.mode, playback.is_playing) == (Mode.LIVE, False)

    def test_playing_at_its_own_speed_stays_behind(self):
        playback, cluster, reel = followed(100)
        playback.skip(-60)
        playback.hold_or_play()
        go_on(playback, cluster, reel, 100, 101)
        assert (playback.mode, place(playback), playback.lag) == (Mode.REWIND, 41, 60)

    def test_a_host_that_falls_silent_turns_quiet_also_after_the_last_frame(self):
        playback, _, _ = followed(100)
        playback.tick(NOW + 110)
        playback.step(-1)
        assert set(playback.moment.states.values()) == {State.BLOCKED}


class TestMark:
    def test_a_mark_stays_as_it_was_while_the_cluster_goes_on(self):
        playback, cluster, reel = followed(100)
        playback.set_mark()
        go_on(playback, cluster, reel, 100, LONG)
        assert playback.mark.at == NOW + 100
        assert playback.mark.cluster.hosts[agent_id(0)].launches["train_step"] == 1000
        playback.drop_mark()
        assert playback.mark is None

    def test_a_mark_stays_as_it_was_while_the_reel_is_wound(self):
        playback = replayed(50)
        playback.set_mark()
        playback.skip(60)
        assert launches(playback) == 1100
        assert playback.mark.cluster.hosts[agent_id(0)].launches["train_step"] == 500


def test_a_reel_says_what_is_to_be_known_of_it():
    assert Playback(None, Reel(notes=("cut off",))).notes == ("cut off",)
    assert Playback(Cluster()).notes == ()
    assert reels.LONG > DIES
