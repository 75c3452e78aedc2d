"""`--web` in a real browser: keys, clicks, resizing, two tabs, a wrong address."""

from __future__ import annotations

import asyncio

import pytest

from tests.features.web.chromium import PROGRAM, chromium, until
from tests.features.web.test_web import apps, place_of, recording, served  # noqa: F401 - a fixture

# Quiet: a browser on a loaded machine takes minutes.
pytestmark = [
    pytest.mark.quiet,
    pytest.mark.timeout(600),
    pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed (Debian: the package chromium)"),
]

# The title of a column that no other screen has.
ON_HOSTS = "STEPS/S"


def test_the_app_works_in_a_browser(tmp_path, recording):  # noqa: F811 - a fixture
    async def act():
        async with served("replay", recording) as made, chromium(tmp_path / "profile") as browser:
            wrong = await browser.open(f"{place_of(made)}/?token=wrong")
            await until(lambda: wrong.says("used before, or is wrong"))
            assert not apps()

            first = await browser.open(made.url)
            await first.drawn("Overview")
            assert "token" not in await first.evaluate("location.href + document.referrer")
            await first.press("3")
            await first.drawn(ON_HOSTS)
            await first.click(400, 8)  # the header, beside the name of the run
            await first.drawn("earch for commands")
            await first.press("Escape")
            await first.drawn(ON_HOSTS)
            await first.resize(360, 150)
            await first.drawn("60×16")
            await first.resize(1200, 800)
            await first.drawn(ON_HOSTS)

            second = await browser.open(await first.evaluate("location.href"))
            await second.drawn("Overview")
            assert len(apps()) == 2
            await second.close()
            await until(lambda: len(apps()) == 1)
            await first.press("?")
            await first.drawn("figure past its threshold")
            await first.press("Escape")
            await first.drawn(ON_HOSTS)
            await first.press("q")
            await until(lambda: first.says("jaxtop has ended"))
            assert first.errors == second.errors == []
            await first.evaluate("document.getElementById('again').click()")
            await first.drawn("Overview")

    asyncio.run(act())
