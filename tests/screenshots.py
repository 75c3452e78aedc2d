"""`make screenshots`: the app on recorded runs of the real demo, as SVG pictures.

Pictures of a thousand hosts are of generated load, those of devices with allocators of a staged run.

python -m tests.screenshots [FOLDER] [NAME ...] [--tour]    # all, only these, only the animated tour
"""

from __future__ import annotations

import asyncio
import html
import re
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base.clock import steady
from jaxtop.model import Cluster, device_views
from jaxtop.recording import RecordingWriter
from jaxtop.sources import Session, SessionRecorder
from jaxtop.tui.app import JaxtopApp
from jaxtop.tui.playback import Start
from tests.builders import NOW
from tests.features.planning import staged_plan
from tests.made import ledgers as made_ledgers
from tests.made import sessions as made_sessions
from tests.played import tour
from tests.played.demo_runs import demo_run, of, record
from tests.played.frame_player import playing
from tests.staged import collectives as staged_collectives
from tests.staged import devices as staged_devices
from tests.staged import hardware as staged_hardware

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop import wire

FOLDER = Path(__file__).parent.parent / "screenshots"
README = FOLDER.parent / "README.md"
_TEXT = re.compile(r'<text[^>]*? x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', re.DOTALL)
# What a first look at the product must not meet.
UNKNOWN = ("n/a", " yet", "CONNECTING")
# Long enough for rates and sparklines to have something to show.
SETTLE = 12.0
# Of the tour: so long after the last fault was found, its causes are shown, too.
AFTER = 8.0


class Picture:
    """A picture to be taken: the keys that lead there, and the size of the terminal.

    `shows` is what must stand in it.
    """

    def __init__(
        self, name: str, *keys_pressed: str, size: tuple[int, int] = (120, 36), shows: str = ""
    ) -> None:
        self.name = name
        self.keys = keys_pressed
        self.size = size
        self.shows = shows


class NotShown(Exception):
    """A picture does not show what it is for."""


def text_of(svg: str) -> str:
    """Return the text of a picture, row by row."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, content in _TEXT.findall(svg):
        rows.setdefault(float(y), []).append((float(x), html.unescape(content).replace("\xa0", " ")))
    return "\n".join("".join(part for _, part in sorted(rows[y])) for y in sorted(rows))


def check(picture: Picture, svg: str, *, in_readme: bool) -> None:
    """Raise `NotShown` if a picture lacks what it is for, or if one of the README shows what is unknown."""
    text = text_of(svg)
    if picture.shows not in text:
        raise NotShown(f"{picture.name}: {picture.shows!r} does not stand in it")
    unknown = next((word for word in UNKNOWN if in_readme and word in text), None)
    if unknown is not None:
        row = next(row for row in text.splitlines() if unknown in row)
        raise NotShown(f"{picture.name}: a picture of the README shows {unknown!r}: {row.strip()}")


def in_readme() -> set[str]:
    """Return the names of the pictures that the README shows."""
    return set(re.findall(r"\(screenshots/([\w-]+)\.svg\)", README.read_text()))


# Of the tour of the demo, by what has happened a moment before.
HEALTHY = (
    Picture("overview", shows="step"),
    Picture("mesh", "2", "tab", shows="data"),
    Picture("mesh-by-host", "2", shows="node01"),
    Picture("hosts", "3", shows="node01"),
    Picture("devices", "D", shows="64.0M"),
    Picture("help", "question_mark"),
    Picture("mesh-light", "2", "tab", "t", shows="data"),
    Picture("mesh-80x24", "2", "tab", size=(80, 24), shows="data"),
)
OF_A_STRAGGLER = (Picture("overview-straggler", shows="is late"),)
OF_RECOMPILATION = (Picture("programs", "7", shows="train_step"),)
OF_GROWTH = (Picture("memory", "5", shows="simulated"),)
# A filter, and one of the parameters that it leaves.
A_PARAMETER = ("4", "slash", *"bytes>1K & replication>1", "enter", "G", "up")
OF_16_DEVICES = (Picture("arrays", *A_PARAMETER, shows="bytes>1K"),)
OF_A_STOPPED_HOST = (
    Picture("stopped-host", "2", "tab", shows="stopped"),
    Picture("stopped-host-table", "3", shows="stopped"),
    Picture("events", "8", shows="stopped"),
)
# Of a recording: at its end a host has died; the first moment that is marked is just before.
OF_A_RECORDING = (
    Picture("replay", shows="REPLAY"),
    Picture("replay-80x24", size=(80, 24), shows="REPLAY"),
    Picture("difference", "v", "end", "v", size=(120, 24)),
)
OF_1024_HOSTS = (Picture("mesh-8192-devices", "2", size=(200, 50), shows="1024/1024 hosts"),)
STAGED = (
    (staged_devices.held(), Picture("memory-with-allocators", "5", size=(160, 28))),
    (staged_devices.at_odds(), Picture("programs-that-differ", "7", "j", size=(176, 18))),
    (staged_collectives.late(), Picture("collectives", "6", size=(140, 30), shows="host 3 comes last")),
    (staged_collectives.late(), Picture("collectives-on-the-mesh", "6", "enter", size=(120, 32))),
    (staged_collectives.standing(), Picture("stacks", "9", "enter", size=(140, 18), shows="load_batch")),
    (staged_hardware.working(), Picture("devices-with-gpus", "D", *"jjjjjj", size=(160, 16))),
    (staged_hardware.working(), Picture("hosts-with-gpus", "3", "j", size=(160, 22))),
    (staged_hardware.working(), Picture("mesh-of-gpus", "2", *"jll", "m", "m", "m", "m", size=(120, 42))),
    (made_ledgers.run(saves=(made_ledgers.SAVED,)), Picture("ledger", "H", size=(140, 28), shows="goodput")),
    (staged_plan.measured(), Picture("plan", "W", "j", "j", size=(140, 26))),
    (staged_hardware.working(), Picture("plot", "D", "G", "0", *"mmmmm", size=(120, 34))),
)


class Shots:
    """Writes those pictures into a folder that are wanted."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        """Take the names of the wanted pictures; none means all."""
        self._folder = folder
        self._names = frozenset(names)

    def wanted(self, *groups: Sequence[Picture]) -> bool:
        return any(self._wants(each.name) for group in groups for each in group)

    def take(
        self, pictures: Sequence[Picture], frames: Sequence[wire.Frame], at: float, devices: int
    ) -> None:
        """Show the frames until `at` in an app for each picture, which must have this many devices."""
        for picture in pictures:
            if self._wants(picture.name):
                asyncio.run(self._take(picture, frames, at, devices))

    async def _take(self, picture: Picture, frames: Sequence[wire.Frame], at: float, devices: int) -> None:
        async with playing(frames, picture.size) as player:
            await player.play_until(at)
            app = player.stage.app
            if (known := len(device_views(app.moment.cluster, at))) != devices:
                raise NotShown(f"{picture.name}: {known:,} devices instead of {devices:,}")
            await player.stage.press(*picture.keys)
            self.save(picture, await player.picture())

    def replay(self, path: Path, before_end: float) -> None:
        """Show a recording in the app, paused so long before its end."""
        for picture in OF_A_RECORDING:
            if self._wants(picture.name):
                session = Session([path])
                assert session.span is not None
                start = Start(session.span[1] - before_end, is_playing=False)
                asyncio.run(self._replay(picture, JaxtopApp(None, steady, history=session, replay=start)))
                session.close()

    async def _replay(self, picture: Picture, app: JaxtopApp) -> None:
        async with app.run_test(size=picture.size) as pilot:
            await pilot.pause(1.0)
            for key in picture.keys:
                await pilot.press(key)
                await pilot.pause(1.0)
            self.save(picture, app.export_screenshot(title="jaxtop"))

    def save(self, picture: Picture, drawn: str) -> None:
        check(picture, drawn, in_readme=picture.name in in_readme())
        (self._folder / f"{picture.name}.svg").write_text(drawn)
        print(f"{picture.name}.svg", flush=True)

    def write(self, name: str, drawn: str) -> None:
        (self._folder / f"{name}.svg").write_text(drawn)
        print(f"{name}.svg", flush=True)

    def _wants(self, name: str) -> bool:
        return not self._names or name in self._names


def main() -> None:
    """Take all pictures, or those that are named."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    known = {each.name for each in _all()} | {"tour"}
    names = [word for word in words if word in known] + ["tour"] * ("--tour" in sys.argv)
    folder = next((Path(word) for word in words if word not in known), FOLDER)
    folder.mkdir(exist_ok=True)
    shots = Shots(folder, names)
    if shots.wanted(HEALTHY, OF_A_STRAGGLER, OF_RECOMPILATION, OF_GROWTH, (Picture("tour"),)):
        of_tour(shots)
    if shots.wanted(OF_16_DEVICES):
        with demo_run(devices_each=8) as hosts:
            run = record(of(hosts)(), 3 * SETTLE)
        shots.take(OF_16_DEVICES, run.frames, run.frames[-1].at, 16)
    if shots.wanted(OF_A_STOPPED_HOST, OF_A_RECORDING):
        of_a_lost_host(shots)
    for frames, picture in STAGED:
        last = max(frame.at for frame in frames)
        shots.take((picture,), frames, last, len(device_views(_folded(frames), last)))
    if shots.wanted(OF_1024_HOSTS):
        frames = made_sessions.frames(made_sessions.Made(1024, 8, seconds=30, start=NOW, has_trouble=False))
        shots.take(OF_1024_HOSTS, frames, frames[-1].at, 8192)


def of_tour(shots: Shots) -> None:
    """Take the pictures of a run with one fault after the other."""
    with demo_run(4, tour.FAULT, tour.HEALTHY) as hosts:
        run = record(of(hosts)(), AFTER, [scene.rule for scene in tour.SCENES if scene.rule])
    take = partial(shots.take, frames=run.frames, devices=8)
    take(HEALTHY, at=run.frames[0].at + tour.SCENES[1].at)
    take(OF_A_STRAGGLER, at=run.found[tour.LATE] + AFTER)
    take(OF_RECOMPILATION, at=run.found[tour.COMPILES] + AFTER)
    take(OF_GROWTH, at=run.found[tour.GROWS] + AFTER)
    if shots.wanted((Picture("tour"),)):
        shots.write("tour", asyncio.run(tour.take_tour(run)))


def of_a_lost_host(shots: Shots) -> None:
    """Take the pictures of a run of which a host is stopped, goes on, and is killed."""
    with demo_run(4) as hosts:
        second = hosts[1]
        run = record(
            of(hosts)(),
            SETTLE,
            acts=(
                lambda: second.send_signal(signal.SIGSTOP),
                lambda: second.send_signal(signal.SIGCONT),
                second.kill,
            ),
        )
    begun = run.frames[0].at
    shots.take(OF_A_STOPPED_HOST, run.frames, begun + 2 * SETTLE - 1, 8)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "run.mcap"
        _write(path, run.frames)
        shots.replay(path, SETTLE + 1)


def _write(path: Path, frames: Sequence[wire.Frame]) -> None:
    """Write frames as a recording."""
    cluster, writer = Cluster(), RecordingWriter(path, {})
    writer.start()
    recorder = SessionRecorder(writer)
    for frame in frames:
        cluster.feed(frame)
        recorder.take([frame], cluster, frame.at)
    recorder.finish(cluster)


def _folded(frames: Sequence[wire.Frame]) -> Cluster:
    cluster = Cluster()
    for frame in frames:
        cluster.feed(frame)
    return cluster


def _all() -> Iterable[Picture]:
    yield from (*HEALTHY, *OF_A_STRAGGLER, *OF_RECOMPILATION, *OF_GROWTH, *OF_16_DEVICES)
    yield from (*OF_A_STOPPED_HOST, *OF_A_RECORDING, *OF_1024_HOSTS)
    yield from (picture for _, picture in STAGED)


if __name__ == "__main__":
    try:
        main()
    except (NotShown, tour.Unfit, TimeoutError) as error:
        sys.exit(f"screenshots: {error}")
