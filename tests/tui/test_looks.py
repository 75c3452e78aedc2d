"""What each screen looks like, in each state and at three sizes, against pictures made of text in `looks/`.

JAXTOP_LOOKS=new python -m pytest tests/tui/test_looks.py     # draws them anew; read the diff
"""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING

import pytest

from jaxtop import wire
from jaxtop.features.planning.screen import PlanScreen
from jaxtop.tui.playback import Start
from jaxtop.wire import LinkState
from tests import builders
from tests.features.planning import staged_plan
from tests.made import ledgers as made_ledgers
from tests.played.reels import LONG, Reel, session
from tests.stage import Stage, play
from tests.staged import collectives as staged_collectives
from tests.staged import devices as staged_devices
from tests.staged import hardware as staged_hardware
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FOLDER = ROOT / "tests" / "looks"
SIZES = [(80, 24), (120, 40), (200, 50)]

WELL = builders.well()
TRAINING = builders.training()
WORKING = staged_hardware.working()
SESSION = session(start=builders.NOW - LONG)
KEYS = {"{": "left_curly_bracket", "}": "right_curly_bracket", "+": "plus"}


def replay():
    """Of the same session, paused at its start."""
    return {"history": Reel(*SESSION), "replay": Start(is_playing=False)}


def asked():
    """With somebody to ask, as in a live run."""
    return {"request_sender": lambda *_: None}


# Frames, keys, and what else the app is given.
SCENES = {
    "overview": (WELL, ()),
    "overview-of-gpus": (WORKING, ()),
    "overview-late": (staged_collectives.late(), ()),
    "overview-explained": ([*WELL, builders.trouble(1, "closed")], ("i",)),
    "mesh": (WELL, ("2",)),
    "mesh-by-axes": (WELL, ("2", "tab")),
    "hosts": (WELL, ("3",)),
    "devices": (WELL, ("D",)),
    "memory": (staged_devices.held(), ("5",)),
    "memory-of-arrays": (staged_devices.counted(), ("5",)),
    "programs": (staged_devices.at_odds(), ("7",)),
    "collectives": (staged_collectives.late(), ("6",)),
    "collectives-few-samples": (staged_collectives.few(), ("6", "j")),
    "collectives-unread": (staged_collectives.unread(), ("6",)),
    "collectives-on-the-mesh": (staged_collectives.late(), ("6", "enter")),
    "stacks": (staged_collectives.standing(), ("9", "enter", "j"), asked),
    "stacks-nobody-asked": (WELL, ("9",), asked),
    "arrays": (TRAINING, ("4", "j", "j", "j", "l", "l", "l", "l")),
    "arrays-filtered": (TRAINING, ("4", "/", *"grown>0 | batch", "enter", "G")),
    "arrays-wrong": (TRAINING, ("4", "/", *"name~batch | grwn>0")),
    "ledger": (made_ledgers.run(saves=(made_ledgers.SAVED,)), ("H",)),
    "events": ([*WELL, builders.trouble(1, "closed")], ("8",)),
    "stopped": ([*WELL, builders.trouble(1, "silent")], ()),
    "died": ([*WELL, builders.trouble(1, "closed")], ("3",)),
    "refused": ([builders.frame("", wire.Link(LinkState.REFUSED, "node01"))], ()),
    "connecting": ([builders.frame("", wire.Link(LinkState.CONNECTING, "node01"))], ()),
    "no-run": ([], ()),
    "paused": (WELL, ("space",)),
    "replay": ([], ("5", "}", "}", "v", "}", "+"), replay),
    "rewind": (SESSION, ("D", "{"), lambda: {"history": Reel(*SESSION, is_growing=True)}),
    "difference": ([], ("}", "v", "}", "}", "v"), replay),
    "mesh-of-gpus": (WORKING, ("2", "down", "right", "right")),
    "hosts-with-gpus": (WORKING, ("3", "j")),
    "devices-with-gpus": (WORKING, ("D", "j", "j", "j")),
    "plot": (WORKING, ("D", "G", "0", "m", "m", "m", "m", "m")),
    "plot-of-hosts": (WORKING, ("3", "j", "0")),
    "plan": (WELL, ("W",)),
    "plan-explained": (WELL, ("W",)),
    "plan-of-nothing-named": (WELL, ("W",)),
    "filtered": (WELL, ("D", "/", "n", "o", "d", "e", "0", "1")),
}
# Where the arrow keys lead here depends on the size: the app is started anew for each.
BY_SIZE = {"mesh-of-gpus"}

# The keys that follow once a made-up plan is shown.
PLANNED = {"plan": ("j", "j"), "plan-explained": ("j", "enter")}

pytestmark = pytest.mark.usefixtures("in_utc")


@pytest.mark.parametrize("scene", SCENES)
def test_it_looks_as_it_did(scene):
    """In a terminal that becomes larger."""
    frames, keys, *given = SCENES[scene]
    seen: dict[Path, str] = {}

    async def act(stage: Stage, sizes: Sequence[tuple[int, int]]) -> None:
        await stage.press(*(KEYS.get(key, key) for key in keys))
        if scene in PLANNED:
            stage.view_shown.on_plan_screen_planned(PlanScreen.Planned(staged_plan.plan(), "", 0.0))
            await stage.press(*PLANNED[scene])
        for width, height in sizes:
            await stage.pilot.resize_terminal(width, height)
            await stage.paint()
            text = "\n".join(line.rstrip() for line in stage.text.splitlines()) + "\n"
            text = re.sub(r"\d\d of \d\d rules", "## of ## rules", text)  # a new rule changes no picture
            seen[FOLDER / f"{scene}-{width}x{height}.txt"] = text

    for sizes in [[size] for size in SIZES] if scene in BY_SIZE else [SIZES]:
        play(partial(act, sizes=sizes), *frames, size=sizes[0], **(given[0]() if given else {}))
    if os.environ.get("JAXTOP_LOOKS") == "new":
        for picture, text in seen.items():
            picture.write_text(text)
    assert seen == {picture: picture.read_text() for picture in seen}, "JAXTOP_LOOKS=new draws them anew"
