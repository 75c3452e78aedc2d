"""What each screen looks like, in each state and at three sizes, against pictures made of text in `looks/`.

JAXTOP_LOOKS=new python -m pytest tests/test_looks.py     # draws them anew; read the diff before committing
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jaxtop import wire
from jaxtop.tui.playback import Start
from tests import stage as staging
from tests import staged, staged_collectives, staged_hardware
from tests.reels import LONG, Reel, session
from tests.stage import Stage, play

FOLDER = Path(__file__).parent / "looks"
SIZES = [(80, 24), (120, 40), (200, 50)]

WELL = staging.well()
TRAINING = staging.training()
WORKING = staged_hardware.working()
SESSION = session(start=staging.NOW - LONG)
KEYS = {"{": "left_curly_bracket", "}": "right_curly_bracket", "+": "plus"}


def replay():
    """Of the same session, paused at its start."""
    return {"history": Reel(*SESSION), "replay": Start(is_playing=False)}


# Frames, keys, and what else the app is given.
SCENES = {
    "mesh": (WELL, ()),
    "mesh-by-axes": (WELL, ("tab",)),
    "hosts": (WELL, ("2",)),
    "devices": (WELL, ("3",)),
    "memory": (staged.held(), ("5",)),
    "memory-of-arrays": (staged.counted(), ("5",)),
    "programs": (staged.at_odds(), ("7",)),
    "collectives": (staged_collectives.late(), ("6",)),
    "collectives-few-samples": (staged_collectives.few(), ("6", "j")),
    "collectives-unread": (staged_collectives.unread(), ("6",)),
    "collectives-on-the-mesh": (staged_collectives.late(), ("6", "enter")),
    "stacks": (staged_collectives.standing(), ("9", "enter", "j")),
    "stacks-nobody-asked": (WELL, ("9",)),
    "arrays": (TRAINING, ("4", "j", "j", "j", "l", "l", "l", "l")),
    "arrays-filtered": (TRAINING, ("4", "/", *"grown>0 | batch", "enter", "G")),
    "arrays-wrong": (TRAINING, ("4", "/", *"name~batch | grwn>0")),
    "events": ([*WELL, staging.trouble(1, "closed")], ("8",)),
    "stopped": ([*WELL, staging.trouble(1, "silent")], ()),
    "died": ([*WELL, staging.trouble(1, "closed")], ("2",)),
    "refused": ([staging.frame("", wire.Link("refused", "node01"))], ()),
    "connecting": ([staging.frame("", wire.Link("connecting", "node01"))], ()),
    "no-run": ([], ()),
    "paused": (WELL, ("space",)),
    "replay": ([], ("5", "}", "}", "v", "}", "+"), replay),
    "rewind": (SESSION, ("3", "{"), lambda: {"history": Reel(*SESSION, is_growing=True)}),
    "difference": ([], ("}", "v", "}", "}", "v"), replay),
    "mesh-of-gpus": (WORKING, ("down", "right", "right")),
    "hosts-with-gpus": (WORKING, ("2", "j")),
    "devices-with-gpus": (WORKING, ("3", "j", "j", "j")),
    "plot": (WORKING, ("3", "G", "0", "m", "m", "m", "m", "m")),
    "plot-of-hosts": (WORKING, ("2", "j", "0")),
    "filtered": (WELL, ("3", "/", "n", "o", "d", "e", "0", "1")),
}


pytestmark = pytest.mark.usefixtures("in_utc")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("scene", SCENES)
def test_it_looks_as_it_did(scene, size):
    frames, keys, *given = SCENES[scene]
    seen: list[str] = []

    async def act(stage: Stage) -> None:
        if keys:
            await stage.press(*(KEYS.get(key, key) for key in keys))
        await stage.paint()
        await stage.pilot.pause(0.3)
        seen.append("\n".join(line.rstrip() for line in stage.text.splitlines()) + "\n")

    play(act, *frames, size=size, **(given[0]() if given else {}))
    picture = FOLDER / f"{scene}-{size[0]}x{size[1]}.txt"
    if os.environ.get("JAXTOP_LOOKS") == "new":
        picture.write_text(seen[0])
    assert seen[0] == picture.read_text()
