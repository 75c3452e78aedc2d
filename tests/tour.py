"""The animated tour of the README: a real run in which a host becomes late, as the app showed it."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.base.clock import steady
from jaxtop.model import Cluster, Severity, reported_findings
from jaxtop.tui.app import JaxtopApp
from tests.stage import Clock, Feed, Stage, notified

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from jaxtop.sources import LiveSource

SIZE = (110, 32)
# Seconds of the run before the fault, and at most until it is found.
HEALTHY, FOUND_WITHIN = 28.0, 150.0
CAPTION_HEIGHT = 64
# The scene that is shown where nothing moves.
STILL = 3


class Scene(NamedTuple):
    """What the tour shows for some seconds: a time since the finding, or since the start, keys, a caption."""

    at: float
    keys: tuple[str, ...]
    seconds: float
    caption: str
    is_since_start: bool = False


SCENES = (
    Scene(HEALTHY - 10.0, (), 2.5, "A training run of two hosts: the overview", is_since_start=True),
    Scene(HEALTHY - 8.0, (), 1.0, "A training run of two hosts: the overview", is_since_start=True),
    Scene(0.5, (), 1.2, "A finding appears: one host holds up the others"),
    Scene(4.0, (), 3.0, "A finding appears: one host holds up the others"),
    Scene(5.0, ("enter",), 4.0, "Enter opens the proof: the line in which its main thread is"),
    Scene(6.0, ("escape", "i"), 4.5, "i explains: evidence, and what to do"),
    Scene(8.0, ("i", "5"), 3.5, "5: the memory of each device, by part"),
    Scene(9.0, ("escape",), 2.5, "Esc goes back"),
)


def follow(source: LiveSource) -> tuple[list[wire.Frame], float]:
    """Return the frames of a run until some seconds after something critical was found, and when it was."""
    frames: list[wire.Frame] = []
    cluster, found_at = Cluster(), None
    begun = steady()
    while found_at is None or steady() - found_at < SCENES[-1].at + 1:
        if steady() - begun > FOUND_WITHIN:
            raise TimeoutError("the fault was not found")
        for frame in source.poll(0.25):
            cluster.feed(frame)
            frames.append(frame)
        if found_at is None and any(
            each.severity is Severity.CRITICAL for each in reported_findings(cluster)
        ):
            found_at = steady()
            for agent in cluster.hosts:
                source.request(agent, wire.Request("stacks"), lambda _: None)
    return frames, found_at


def take_tour(path: Path, source: Callable[[], LiveSource]) -> None:
    """Follow a run, and write what the app shows of it as one animated picture."""
    followed = source()
    try:
        frames, found_at = follow(followed)
    finally:
        followed.close()
    path.write_text(animated(asyncio.run(_pictures(frames, found_at)), SCENES))


async def _pictures(frames: Sequence[wire.Frame], found_at: float) -> list[str]:
    """Show the frames in the app as if they came now, and return a picture of each scene."""
    feed, clock = Feed(), Clock()
    clock.now = last = frames[0].at - 1
    app, pictures = JaxtopApp(feed, clock), []
    async with app.run_test(size=SIZE) as pilot:
        stage = Stage(app, feed, clock, pilot, notified(app))
        for scene in SCENES:
            at = scene.at + (frames[0].at if scene.is_since_start else found_at)
            feed.frames += [each for each in frames if last < each.at <= at]
            clock.now = last = at
            await stage.paint()
            await stage.press(*scene.keys)
            await pilot.pause(0.5)
            pictures.append(app.export_screenshot(title="jaxtop"))
    return pictures


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
