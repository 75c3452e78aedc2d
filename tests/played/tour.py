"""The animated tour of the README: a real run with several faults in turn, as the app showed it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tests.played.frame_player import playing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.played.demo_runs import RecordedRun

SIZE = (120, 36)
CAPTION_HEIGHT = 64
# The scene that is shown where nothing moves.
STILL = 2
# Readers of the README load it.
MOST_BYTES = 2_000_000
FAULT = "tour"
# Seconds of the run before its first fault; the recording begins a few after the first step.
HEALTHY = 32.0
# The rules that this fault lets be reported, or the start of the run.
START, LATE, COMPILES, GROWS = "", "straggler", "recompilation", "array_growth"


class Scene(NamedTuple):
    """What the tour shows for some seconds: keys, a caption, a text in it.

    `at` are seconds since the rule was first reported, or since the start.
    """

    rule: str
    at: float
    keys: tuple[str, ...]
    seconds: float
    caption: str
    shows: str


SCENES = (
    Scene(START, HEALTHY - 12.0, (), 2.0, "A healthy training run of two hosts", "2/2 hosts"),
    Scene(START, HEALTHY - 10.0, (), 1.0, "A healthy training run of two hosts", "2/2 hosts"),
    Scene(LATE, 4.0, (), 3.0, "A finding appears: one host holds up the others", "is late"),
    Scene(
        LATE, 5.0, ("enter",), 3.0, "Enter opens the proof: the line in which its main thread is", "slow.py"
    ),
    Scene(LATE, 6.0, ("escape", "i"), 3.0, "i explains: evidence, and what to do", "slow.py"),
    Scene(COMPILES, 2.0, ("i",), 2.5, "It heals; then the step is compiled again", "compiled"),
    Scene(COMPILES, 3.0, ("enter",), 2.5, "Enter: what was compiled, and why", "train_step"),
    Scene(
        GROWS, 4.0, ("escape", "5"), 3.0, "Memory grows: what, how fast, and made at which line", "history"
    ),
)


class Unfit(Exception):
    """The tour does not show what it is for."""


async def take_tour(run: RecordedRun) -> str:
    """Return what the app shows of a run as one animated picture."""
    pictures = []
    async with playing(run.frames, SIZE) as player:
        for scene in SCENES:
            since = run.found[scene.rule] if scene.rule else run.frames[0].at
            await player.play_until(since + scene.at)
            await player.stage.press(*scene.keys)
            if scene.shows not in player.stage.text:
                raise Unfit(f"tour: {scene.shows!r} does not stand in the scene {scene.caption!r}")
            pictures.append(await player.picture())
    drawn = animated(pictures, SCENES)
    if len(drawn) > MOST_BYTES:
        raise Unfit(f"tour: {len(drawn):,} bytes are more than {MOST_BYTES:,}")
    return drawn


def animated(pictures: Sequence[str], scenes: Sequence[Scene]) -> str:
    """Return one picture that shows these in turn, each with its caption, and begins again."""
    width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', pictures[0])[0])
    total = sum(scene.seconds for scene in scenes)
    styles, groups, begin = [], [], 0.0
    for i, (picture, scene) in enumerate(zip(pictures, scenes, strict=True)):
        style, body = _parts(picture, f"s{i}")
        end = begin + scene.seconds
        shown = f"{100 * begin / total:.2f}%,{100 * end / total - 0.01:.2f}%{{visibility:visible}}"
        hidden = f"{100 * end / total:.2f}%,100%{{visibility:hidden}}"
        before = "0%{visibility:hidden}" if begin else ""
        still = "visible" if i == STILL else "hidden"
        styles.append(f"{style}#s{i}{{visibility:{still};animation:s{i} {total:g}s step-end infinite}}")
        styles.append(f"@keyframes s{i}{{{before}{shown}{hidden}}}")
        caption = f'<text class="caption" x="{width / 2:g}" y="{height + 42:g}">{scene.caption}</text>'
        groups.append(f'<g id="s{i}">{body}{caption}</g>')
        begin = end
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height + CAPTION_HEIGHT:g}">'
        "<style>text{font-family:Fira Code,Menlo,Consolas,monospace;font-size:20px;white-space:pre}"
        ".caption{font-family:arial;font-size:28px;text-anchor:middle;fill:#f2b84b}"
        f"{''.join(styles)}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="#101418"/>{"".join(groups)}</svg>\n'
    )


def _parts(picture: str, name: str) -> tuple[str, str]:
    """Return the colours and the drawing of one picture, in as few bytes as possible."""
    (prefix,) = set(re.findall(r"terminal-\d+", picture))
    (style,) = re.findall(r"<style>(.*?)</style>", picture, re.DOTALL)
    colours = re.findall(rf"\.{prefix}-(r\d+) {{(.*?)}}", style)
    rules = "".join(f".{name}{number}{{{rule.strip()}}}" for number, rule in colours)
    body = picture.partition("</defs>")[2].rpartition("</svg>")[0]
    body = re.sub(r' clip-path="url\([^"]*\)"', "", body).replace(f"{prefix}-r", f"{name}r")
    body = re.sub(r">\s+<", "><", body.strip()).replace("&#160;", "\N{NO-BREAK SPACE}")
    return rules, re.sub(rf' class="{prefix}-\w+"', "", body)
