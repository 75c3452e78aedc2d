"""Where the view stands in time, and how it moves: no screen, and no clock but a number."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop.model import Cluster, State, state_of
from jaxtop.tui.core.moment import Mode
from jaxtop.tui.playback import LONGEST_TICK, Playback, Start
from tests import reels
from tests.builders import NOW, agent_id, frame, hello
from tests.reels import COMPILES, DIES, LONG, WARNS, Reel, session

TOLD = session()


def replayed(seconds: float | None = None, **start) -> Playback:
    """A deck on a finished session, paused there."""
    at = None if seconds is None else NOW + seconds
    deck = Playback(None, Reel(*TOLD), Start(**{"at": at, "is_playing": False, **start}))
    deck.tick(0.0)
    return deck


def followed(seconds: int = LONG) -> tuple[Playback, Cluster, Reel]:
    """A deck on a live cluster, so long after the viewer came."""
    cluster, reel = Cluster(), Reel(is_growing=True)
    deck = Playback(cluster, reel)
    go_on(deck, cluster, reel, 0, seconds)
    return deck, cluster, reel


def go_on(deck: Playback, cluster: Cluster, reel: Reel, since: int, until: int) -> None:
    for each in TOLD:
        if since <= each.at - NOW <= until and each not in reel.frames:
            cluster.feed(each)
            reel.frames.append(each)
    deck.tick(NOW + until)


def place(deck: Playback) -> float:
    return pytest.approx(deck.position - NOW, abs=1e-3)


def launches(deck: Playback) -> int:
    return deck.moment.cluster.hosts[agent_id(0)].launches["train_step"]


class TestReplay:
    def test_it_begins_at_the_start_and_plays(self):
        deck = replayed(is_playing=True)
        assert (deck.mode, deck.is_playing, place(deck)) == (Mode.REPLAY, True, 0)
        deck.tick(1.5)
        assert place(deck) == 1.5
        assert launches(deck) == 10

    def test_it_begins_where_it_is_told_to(self):
        assert launches(replayed(50)) == 500

    @pytest.mark.parametrize("speed", [0.25, 1.0, 64.0])
    def test_its_speed_is_kept(self, speed):
        deck = replayed(is_playing=True, speed=speed)
        for tick in range(1, 9):
            deck.tick(tick / 4)
        assert place(deck) == 2 * speed

    def test_an_app_that_was_stopped_goes_on_where_it_stood(self):
        deck = replayed(is_playing=True)
        deck.tick(3600.0)
        assert place(deck) == LONGEST_TICK

    def test_a_clock_that_goes_back_moves_nothing(self):
        deck = replayed(5, is_playing=True)
        deck.tick(-3600.0)
        assert place(deck) == 5

    def test_it_pauses_at_the_end_and_then_plays_from_the_start(self):
        deck = replayed(LONG - 1, is_playing=True)
        deck.tick(2.0)
        assert (place(deck), deck.is_playing) == (LONG, False)
        deck.hold_or_play()
        assert (place(deck), deck.is_playing) == (0, True)

    def test_in_a_loop_it_goes_on_at_the_start(self):
        deck = replayed(LONG - 1, is_playing=True, loop=True)
        deck.tick(1.5)
        assert (place(deck), deck.is_playing) == (0.5, True)

    def test_while_the_reel_grows_it_waits_at_its_end_and_goes_on_with_it(self):
        reel = Reel(*session(10), is_growing=True)
        deck = Playback(None, reel, Start(at=NOW + 9.5))
        deck.tick(0.0)
        deck.tick(2.0)
        assert (place(deck), deck.is_playing) == (10, True)
        reel.frames = session(20)
        deck.tick(4.0)
        assert (place(deck), deck.is_playing) == (12, True)

    def test_a_reel_that_is_still_empty_is_waited_for(self):
        reel = Reel(is_growing=True)
        deck = Playback(None, reel)
        deck.tick(0.0)
        deck.step(-1)
        deck.to_end()
        deck.to_start()
        assert deck.to_event(1) is None
        assert not deck.moment.host_views
        reel.frames = session(10)
        deck.tick(1.0)
        assert (place(deck), deck.is_playing) == (0, True)
        assert len(deck.moment.host_views) == 2

    def test_the_end_of_a_finished_reel_is_where_it_stays(self):
        deck = replayed(is_playing=True)
        deck.to_end()
        assert (place(deck), deck.is_playing, deck.mode) == (LONG, False, Mode.REPLAY)


class TestMoving:
    def test_samples_are_the_same_from_both_sides(self):
        deck = replayed(10.4)
        seen = []
        for way in (1, 1, -1, -1, -1, 1):
            deck.step(way)
            seen.append(round(deck.position - NOW, 6))
        assert seen == [11, 12, 11, 10, 9, 10]

    def test_a_sample_is_the_shortest_interval_of_the_hosts(self):
        often = frame(agent_id(1), replace(hello(1), interval_ms=250))
        told = [often if each.kind == "hello" and each.agent == agent_id(1) else each for each in TOLD]
        deck = Playback(None, Reel(*told), Start(at=NOW + 10, is_playing=False))
        deck.tick(0.0)
        assert deck.sample == 0.25
        deck.step(1)
        assert place(deck) == 10.25

    def test_stepping_pauses_and_goes_no_further_than_there_is_something(self):
        deck = replayed(is_playing=True)
        deck.step(-1)
        assert (place(deck), deck.is_playing) == (0, False)
        deck.to_end()
        deck.step(1)
        assert place(deck) == LONG

    def test_minutes_go_no_further_than_there_is_something_and_do_not_pause(self):
        deck = replayed(30, is_playing=True)
        seen = []
        for seconds in (60, 60, 60, -60, -60, -60, -60):
            deck.skip(seconds)
            seen.append(round(deck.position - NOW))
        assert seen == [90, 150, LONG, 140, 80, 20, 0]
        assert deck.is_playing

    def test_events_are_gone_to_one_after_the_other_and_seen(self):
        deck = replayed()
        seen = []
        for way in (1, 1, 1, 1, -1, -1, -1):
            found = deck.to_event(way)
            seen.append((found and found.kind, round(deck.position - NOW)))
        assert seen == [
            ("compile", COMPILES), ("disk", WARNS), ("died", DIES), (None, DIES), ("disk", WARNS),
            ("compile", COMPILES), (None, COMPILES),
        ]  # fmt: skip
        deck.seek(NOW + DIES)
        host = deck.moment.cluster.hosts[agent_id(1)]
        assert state_of(host, deck.position) is State.DIED

    def test_events_from_before_the_history_are_not_gone_to(self):
        class Shortened(Reel):
            @property
            def span(self) -> tuple[float, float]:
                return NOW + WARNS + 1, NOW + LONG

        deck = Playback(None, Shortened(*TOLD), Start(at=NOW + WARNS + 5, is_playing=False))
        assert deck.to_event(-1) is None and place(deck) == WARNS + 5
        assert deck.to_event(1).kind == "died" and deck.to_event(-1) is None

    def test_speeds_go_from_a_quarter_to_64(self):
        deck = replayed()
        slow = []
        for _ in range(4):
            deck.faster(-1)
            slow.append(deck.speed)
        for _ in range(12):
            deck.faster(1)
        assert slow == [0.5, 0.25, 0.25, 0.25]
        assert deck.speed == 64

    def test_what_is_derived_is_kept_while_it_is_the_same_cluster_and_only_then(self):
        deck = replayed(50)
        first = deck.moment
        assert deck.moment is first
        deck.step(1)
        assert deck.moment.cluster.derived is first.cluster.derived
        deck.seek(NOW + 10)
        assert deck.moment.cluster.derived is not first.cluster.derived
        assert len(deck.moment.device_views) == 8

    def test_a_cluster_after_a_jump_back_is_as_if_nothing_later_had_been(self):
        deck = replayed(LONG)
        assert deck.moment.cluster.events
        deck.to_start()
        assert not deck.moment.cluster.events
        assert launches(deck) == 0


class TestLive:
    def test_it_follows_the_cluster(self):
        deck, cluster, _ = followed(10)
        assert (deck.mode, place(deck), deck.is_live) == (Mode.LIVE, 10, True)
        assert deck.moment.cluster is cluster

    def test_nothing_lies_after_the_present(self):
        deck, _, reel = followed(10)
        deck.step(1)
        deck.skip(60)
        assert deck.is_live
        assert not reel.asked

    def test_a_pause_holds_what_is_shown_and_its_end_is_the_present(self):
        deck, cluster, reel = followed(10)
        deck.hold_or_play()
        held = deck.moment
        go_on(deck, cluster, reel, 10, 30)
        assert (deck.mode, deck.moment, deck.lag) == (Mode.PAUSED, held, 20)
        assert launches(deck) == 100
        deck.hold_or_play()
        assert (deck.mode, launches(deck)) == (Mode.LIVE, 300)

    def test_a_pause_needs_no_reel(self):
        cluster = Cluster()
        deck = Playback(cluster)
        deck.tick(NOW)
        deck.hold_or_play()
        deck.step(-1)
        deck.skip(-60)
        deck.to_start()
        assert (deck.mode, place(deck)) == (Mode.PAUSED, 0)
        deck.to_end()
        assert deck.is_live

    def test_from_the_present_one_goes_back_while_all_that_arrives_is_taken_in(self):
        deck, cluster, reel = followed(100)
        deck.step(-1)
        assert (deck.mode, launches(deck)) == (Mode.REWIND, 990)
        deck.skip(-60)
        go_on(deck, cluster, reel, 100, LONG)
        assert launches(deck) == 390
        assert deck.span == (NOW, NOW + LONG)
        deck.to_end()
        assert (deck.mode, launches(deck)) == (Mode.LIVE, LONG * 10)

    def test_the_event_before_can_be_gone_to_from_the_present(self):
        deck, _, _ = followed()
        found = deck.to_event(-1)
        assert (found.kind, place(deck), deck.mode) == ("died", DIES, Mode.REWIND)

    def test_playing_catches_up_with_the_present_and_is_live_again(self):
        deck, cluster, reel = followed(100)
        deck.skip(-60)
        deck.hold_or_play()
        deck.faster(6)
        assert (deck.is_playing, deck.speed) == (True, 64)
        go_on(deck, cluster, reel, 100, 101)
        assert (deck.mode, deck.is_playing) == (Mode.LIVE, False)

    def test_playing_at_its_own_speed_stays_behind(self):
        deck, cluster, reel = followed(100)
        deck.skip(-60)
        deck.hold_or_play()
        go_on(deck, cluster, reel, 100, 101)
        assert (deck.mode, place(deck), deck.lag) == (Mode.REWIND, 41, 60)

    def test_a_host_that_falls_silent_turns_quiet_also_after_the_last_frame(self):
        deck, _, _ = followed(100)
        deck.tick(NOW + 110)
        deck.step(-1)
        assert set(deck.moment.states.values()) == {State.BLOCKED}


class TestMark:
    def test_a_mark_stays_as_it_was_while_the_cluster_goes_on(self):
        deck, cluster, reel = followed(100)
        deck.set_mark()
        go_on(deck, cluster, reel, 100, LONG)
        assert deck.mark.at == NOW + 100
        assert deck.mark.cluster.hosts[agent_id(0)].launches["train_step"] == 1000
        deck.drop_mark()
        assert deck.mark is None

    def test_a_mark_stays_as_it_was_while_the_reel_is_wound(self):
        deck = replayed(50)
        deck.set_mark()
        deck.skip(60)
        assert launches(deck) == 1100
        assert deck.mark.cluster.hosts[agent_id(0)].launches["train_step"] == 500


def test_a_reel_says_what_is_to_be_known_of_it():
    assert Playback(None, Reel(notes=("cut off",))).notes == ("cut off",)
    assert Playback(Cluster()).notes == ()
    assert reels.LONG > DIES
