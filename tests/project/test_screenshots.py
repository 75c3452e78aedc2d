"""The command that makes the pictures refuses those that do not show what they are for."""

from __future__ import annotations

import pytest

from tests import screenshots
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
