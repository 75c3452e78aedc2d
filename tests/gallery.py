"""`make looks`: each screen at four sizes, with 1 to 8,192 devices, as pictures on one page.

Eight devices are those of a recorded run of the demo; the others are of generated sessions. With a revision,
its pictures stand beside the present ones: it draws the same frames with its own code.

python -m tests.gallery [FOLDER] [--before REV] [--screens NAME ...] [--devices N ...] [--sizes WxH ...]
"""

from __future__ import annotations

import argparse
import asyncio
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jaxtop.model import device_views
from jaxtop.tui.screens import SCREENS
from jaxtop.wire import Frame
from tests.made import sessions as made_sessions
from tests.played.frame_player import playing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "looks"
SIZES = ((80, 24), (120, 40), (200, 50), (300, 90))
# The generated sessions, by their number of devices.
MADE = {
    1: made_sessions.Made(1, 1, has_trouble=False),
    64: made_sessions.Made(8, 8),
    8192: made_sessions.Made(1024, 8, seconds=30, has_trouble=False),
}
OF_THE_DEMO = 8
DEVICES = tuple(sorted((*MADE, OF_THE_DEMO)))
# Seconds of the demo's run after it was found that a host is late.
LATE = 15.0
# Seconds between two paints while frames arrive.
EVERY = 5.0
# A figure that each screen must show, in any form; the others may have none to show.
FIGURES = {
    "overview": r"\d ?ms|\d ?s\b|\d/s",
    "mesh": r"\d",
    "hosts": r"\d\.\d",
    "devices": r"\d[KMG]",
    "arrays": r"\d ?[KMGT]",
    "memory": r"\d[KMGT]",
    "programs": r"\d ?[KMGT]",
    "events": r"\d\d:\d\d",
    "plot": r"\d",
}
# What the revision before needs to draw with its own code.
DRAWS = ("tests/gallery.py", "tests/played/frame_player.py")


class Absent(Exception):
    """A picture lacks what it is for."""


def main() -> None:
    """Draw all pictures, or those that are asked for, and write the page."""
    asked = _arguments()
    folder: Path = asked.folder
    (folder / "now").mkdir(parents=True, exist_ok=True)
    frames = folder / "demo.frames"
    if OF_THE_DEMO in asked.devices and not frames.exists():
        print("recording a run of the demo", flush=True)
        _record(frames)
    if asked.draw is not None:
        _draw(asked, asked.draw, is_checked=False)
        return
    if asked.before is not None:
        _draw_before(asked)
    _draw(asked, folder / "now", is_checked=True)
    (folder / "index.html").write_text(_page(folder, asked.before))
    print(folder / "index.html")


def _arguments() -> argparse.Namespace:
    names = [each.name for each in SCREENS]
    parser = argparse.ArgumentParser(prog="python -m tests.gallery", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--before", metavar="REV", help="draw this revision beside")
    parser.add_argument("--screens", nargs="*", choices=names, default=names, metavar="NAME")
    parser.add_argument("--devices", nargs="*", type=int, choices=DEVICES, default=DEVICES, metavar="N")
    parser.add_argument("--sizes", nargs="*", type=_size, default=SIZES, metavar="WxH")
    parser.add_argument("--draw", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _size(text: str) -> tuple[int, int]:
    width, height = text.split("x")
    return int(width), int(height)


def _record(path: Path) -> None:
    """Record a run of the demo in which a host becomes late."""
    # Imported here: an earlier revision that draws has a file of frames already, and may lack this module.
    from tests.played.demo_runs import demo_run, of, record

    with demo_run(4, "straggler") as hosts:
        run = record(of(hosts)(), LATE, ["straggler"])
    path.write_bytes(msgspec.msgpack.encode(run.frames))


def _frames(devices: int, folder: Path) -> list[Frame]:
    if devices in MADE:
        return made_sessions.frames(MADE[devices])
    stored = msgspec.msgpack.decode((folder / "demo.frames").read_bytes())
    return [Frame(*each) for each in stored]


def _draw(asked: argparse.Namespace, into: Path, *, is_checked: bool) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for devices in asked.devices:
        frames = _frames(devices, asked.folder)
        asyncio.run(_pictures(frames, devices, asked, into, is_checked=is_checked))


async def _pictures(
    frames: Sequence[Frame], devices: int, asked: argparse.Namespace, into: Path, *, is_checked: bool
) -> None:
    """Draw the screens of an app that has received these frames, in a terminal that changes its size."""
    async with playing(frames, asked.sizes[0]) as player:
        stage, at, last = player.stage, frames[0].at, frames[-1].at
        while at < last:
            at = min(last, at + EVERY)
            await player.play_until(at)
        known = len(device_views(stage.app.moment.cluster, last))
        if known != devices:
            raise Absent(f"{known:,} devices instead of {devices:,}")
        for screen in (each for each in SCREENS if each.name in asked.screens):
            await stage.press(screen.key)
            for width, height in asked.sizes:
                await stage.pilot.resize_terminal(width, height)
                await stage.paint()
                if is_checked:
                    _check(screen.name, stage.app.navigation.open, stage.text, devices)
                (into / _name(screen.name, devices, (width, height))).write_text(await player.picture())
            await stage.press("escape")
        print(f"{into.name}: {devices:,} devices", flush=True)


def _check(wanted: str, shown: str, text: str, devices: int) -> None:
    """Raise `Absent` if another screen is shown, or one without its figures."""
    if shown != wanted:
        raise Absent(f"{wanted}, {devices:,} devices: {shown} is shown")
    if (figure := FIGURES.get(wanted)) is not None and not re.search(figure, text):
        raise Absent(f"{wanted}, {devices:,} devices: no figure is shown")


def _draw_before(asked: argparse.Namespace) -> None:
    """Draw the same frames with the code of another revision, in a work tree of it."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", tree, asked.before], cwd=ROOT, check=True)
        try:
            for each in DRAWS:
                (tree / each).parent.mkdir(exist_ok=True)
                shutil.copy(ROOT / each, tree / each)
            words = ["--screens", *asked.screens, "--devices", *map(str, asked.devices)]
            sizes = ["--sizes", *(f"{width}x{height}" for width, height in asked.sizes)]
            draws = [sys.executable, "-m", "tests.gallery", asked.folder.absolute()]
            subprocess.run(
                [*draws, "--draw", (asked.folder / "before").absolute(), *words, *sizes],
                cwd=tree,
                env={**os.environ, "PYTHONPATH": f"{tree}:{tree / 'agent'}"},
                check=True,
            )
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def _name(screen: str, devices: int, size: tuple[int, int]) -> str:
    return f"{screen}-{devices}-{size[0]}x{size[1]}.svg"


# The page

STYLE = (
    "body{background:#181a1f;color:#d7dae0;font-family:sans-serif;margin:1em}a{color:#7db3ff}"
    "h2{position:sticky;top:0;background:#181a1f;margin:0;padding:.4em 0}figure{display:inline-block;"
    "margin:.5em;vertical-align:top}img{max-width:100%;border:1px solid #333}nav a{margin-right:1em}"
    ".pair{display:flex;gap:1em}.pair figure{flex:1}"
)


def _page(folder: Path, before: str | None) -> str:
    """Return the page of all pictures that are there, also those of earlier calls."""
    links = " ".join(f'<a href="#{each.name}">{each.title}</a>' for each in SCREENS)
    body = "".join(_section(folder, each.name, each.title, before) for each in SCREENS)
    return (
        f'<!doctype html><meta charset="utf-8"><title>jaxtop: looks</title><style>{STYLE}</style>'
        f"<h1>Screens</h1><nav>{links}</nav>{body}\n"
    )


def _section(folder: Path, screen: str, title: str, before: str | None) -> str:
    rows = []
    for devices in DEVICES:
        for size in SIZES:
            shown = list(_shown(folder, _name(screen, devices, size), before))
            if shown:
                label = f"{devices:,} device{'s' * (devices > 1)}, {size[0]} × {size[1]}"
                rows.append(f'<h3>{label}</h3><div class="pair">{"".join(shown)}</div>')
    return f'<h2 id="{screen}">{html.escape(title)}</h2>{"".join(rows)}' if rows else ""


def _shown(folder: Path, name: str, before: str | None) -> Iterator[str]:
    for which, caption in (("before", f"before: {before}"), ("now", "now")):
        if (which == "now" or before is not None) and (folder / which / name).exists():
            image = f'<img loading="lazy" src="{which}/{name}" alt="{html.escape(name)}">'
            yield f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>"


if __name__ == "__main__":
    try:
        main()
    except Absent as error:
        sys.exit(f"looks: {error}")
