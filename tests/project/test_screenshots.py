"""The command that makes the pictures refuses those that do not show what they are for."""

from __future__ import annotations

import pytest

from tests import gallery, screenshots
from tests.builders import well
from tests.gallery import Absent
from tests.played import tour
from tests.screenshots import NotShown, Picture, check


def drawn(*rows: str) -> str:
    return "".join(
        f'<text class="r1" x="0" y="{20 + 20 * i}" textLength="9">{row}</text>' for i, row in enumerate(rows)
    )


def test_a_picture_must_show_what_it_is_for():
    picture = Picture("mesh-8192-devices", "2", shows="1024/1024 hosts")
    check(picture, drawn("jaxtop&#160;load&#160;1024/1024&#160;hosts live"), in_readme=False)
    with pytest.raises(NotShown, match="mesh-8192-devices: '1024/1024 hosts' does not stand in it"):
        check(picture, drawn("jaxtop load 0/1024 hosts live", "CONNECTING"), in_readme=False)


@pytest.mark.parametrize("word", ["n/a", "not timed yet", "CONNECTING"])
def test_a_picture_of_the_readme_shows_nothing_unknown(word):
    row = f"train_step {word}"
    check(Picture("programs"), drawn("fine", row), in_readme=False)
    with pytest.raises(NotShown, match=f"shows .*: {row}"):
        check(Picture("arrays"), drawn("fine", row), in_readme=True)


def test_the_pictures_of_the_readme_are_known():
    assert {"arrays", "stacks", "tour"} <= screenshots.in_readme()


def test_a_picture_of_too_few_devices_is_refused(tmp_path):
    frames = well()
    shots = screenshots.Shots(tmp_path, [])
    shots.take([Picture("devices", "D", shows="node01")], frames, frames[-1].at, 8)
    assert [each.name for each in tmp_path.iterdir()] == ["devices.svg"]
    with pytest.raises(NotShown, match="8 devices instead of 16"):
        shots.take([Picture("devices", "D")], frames, frames[-1].at, 16)


def test_only_the_named_pictures_are_taken(tmp_path):
    shots = screenshots.Shots(tmp_path, ["tour"])
    assert shots.wanted((Picture("tour"),)) and not shots.wanted(screenshots.HEALTHY)
    shots.take(screenshots.HEALTHY, [], 0.0, 8)
    assert list(tmp_path.iterdir()) == []


def test_the_tour_is_about_twenty_seconds_from_healthy_to_the_cause():
    assert 18 <= sum(scene.seconds for scene in tour.SCENES) <= 22
    assert tour.SCENES[0].rule == tour.START and tour.SCENES[tour.STILL].rule == tour.LATE


def test_a_look_needs_its_screen_and_a_figure_of_it():
    gallery._check("memory", "memory", "device 0 holds 1.5G", 8)
    with pytest.raises(Absent, match="mesh is shown"):
        gallery._check("memory", "mesh", "device 0 holds 1.5G", 8)
    with pytest.raises(Absent, match="memory, 8,192 devices: no figure"):
        gallery._check("memory", "memory", "nothing is known", 8192)
