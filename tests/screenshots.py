"""`make screenshots`: the app on a real demo run, as SVG pictures.

Pictures of a thousand hosts are of generated load, those of devices with allocators of a staged run, those of
replay of a recording that is made of the demo meanwhile.

python -m tests.screenshots [FOLDER] [--tour]    # only the animated tour
"""

from __future__ import annotations

import asyncio
import html
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from textual._compositor import Compositor

from jaxtop import wire
from jaxtop.base import keys
from jaxtop.base.clock import steady
from jaxtop.cli import demo
from jaxtop.cli.live.source_thread import SourceThread
from jaxtop.model import Cluster, device_views
from jaxtop.recording import RecordingWriter
from jaxtop.sources import LiveSource, Seed, Session, SessionRecorder, discovery
from jaxtop.store import runfiles
from jaxtop.tui.app import JaxtopApp
from jaxtop.tui.playback import Start
from tests import staged, staged_collectives, staged_hardware, tour
from tests.features.planning import staged_plan
from tests.stage import Stage, play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FOLDER = Path(__file__).parent.parent / "screenshots"
README = FOLDER.parent / "README.md"
_TEXT = re.compile(r'<text[^>]*? x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', re.DOTALL)
# What a first look at the product must not meet.
UNKNOWN = ("n/a", " yet", "CONNECTING")
WAIT = 90.0
# Long enough for rates and sparklines to have something to show.
SETTLE = 12.0
DRAWN = Compositor.render_update
# Of few rows: the least that the app takes.
TABLE = (120, 16)


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


OF_A_STRAGGLER = (Picture("overview-straggler", size=(120, 36), shows="is late"),)
OF_THE_DEMO = (
    Picture("overview", shows="Where a step goes"),
    Picture("mesh", "2", "tab", shows="data"),
    Picture("mesh-by-host", "2", shows="node01"),
    Picture("hosts", "3", size=TABLE, shows="node01"),
    Picture("devices", "D", size=(120, 16)),
    Picture("help", "question_mark"),
    Picture("mesh-light", "2", "tab", "t"),
    Picture("mesh-80x24", "2", "tab", size=(80, 24)),
)
# A filter, and one of the parameters that it leaves.
A_PARAMETER = ("4", "slash", *"bytes>1K & replication>1", "enter", "G", "up")
OF_A_DEMO_WITH_16_DEVICES = (
    Picture("arrays", *A_PARAMETER, size=(120, 34), shows="bytes>1K"),
    Picture("memory", "5", size=(120, 32), shows="2055"),
    Picture("programs", "7", size=(160, 26), shows="train_step"),
)
OF_A_STOPPED_HOST = (
    Picture("stopped-host", "2", "tab", shows="stopped"),
    Picture("stopped-host-table", "3", size=TABLE, shows="stopped"),
    Picture("events", "8", size=TABLE),
)
# Of a recording: at its end a host has died; the first moment that is marked is just before.
OF_A_RECORDING = (
    Picture("replay", shows="REPLAY"),
    Picture("replay-80x24", size=(80, 24), shows="REPLAY"),
    Picture("difference", "v", "end", "v", size=(120, 24)),
)
OF_1024_HOSTS = (Picture("mesh-8192-devices", "2", size=(200, 50), shows="1024/1024 hosts"),)
STAGED = (
    (staged.held(), Picture("memory-with-allocators", "5", size=(160, 28))),
    (staged.at_odds(), Picture("programs-that-differ", "7", "j", size=(176, 18))),
    (staged_collectives.late(), Picture("collectives", "6", size=(140, 30), shows="host 3 comes last")),
    (staged_collectives.late(), Picture("collectives-on-the-mesh", "6", "enter", size=(120, 32))),
    (staged_collectives.standing(), Picture("stacks", "9", "enter", size=(140, 18), shows="load_batch")),
    (staged_hardware.working(), Picture("devices-with-gpus", "D", *"jjjjjj", size=(160, 16))),
    (staged_hardware.working(), Picture("hosts-with-gpus", "3", "j", size=(160, 22))),
    (staged_hardware.working(), Picture("mesh-of-gpus", "2", *"jll", "m", "m", "m", "m", size=(120, 42))),
    (staged_plan.measured(), Picture("plan", "W", "j", "j", size=(140, 26))),
    (staged_hardware.working(), Picture("plot", "D", "G", "0", *"mmmmm", size=(120, 34))),
)


class Renamed(LiveSource):
    """The processes of the demo, as if each had a host of its own: pictures do not name this machine."""

    def poll(self, timeout: float) -> list[wire.Frame]:
        return [_renamed(frame) for frame in super().poll(timeout)]


def _renamed(frame: wire.Frame) -> wire.Frame:
    if frame.kind not in ("hello", "roster"):
        return frame
    told = wire.decode(frame.kind, frame.raw)
    if isinstance(told, wire.Roster):
        told = replace(told, peers=tuple(_on_its_own(peer) for peer in told.peers))
    elif isinstance(told, wire.Hello):
        told = _on_its_own(told)
    return frame._replace(raw=wire.encode(told))


def _on_its_own(told: wire.Hello | wire.Peer) -> Any:
    return replace(told, hostname=f"node{told.process_index or 0:02}")


def main() -> None:
    """Take all pictures."""
    folder = next((Path(word) for word in sys.argv[1:] if not word.startswith("-")), FOLDER)
    folder.mkdir(exist_ok=True)
    with demo_run(devices_each=4, fault="straggler", after=tour.HEALTHY) as hosts:
        tour.take_tour(folder / "tour.svg", of(hosts))
        print("tour.svg", flush=True)
        if "--tour" in sys.argv:
            return
        take(folder, OF_A_STRAGGLER, of(hosts), expected=8)
    for frames, picture in STAGED:
        stage(folder, frames, picture)
    with demo_run(devices_each=8) as hosts:
        take(folder, OF_A_DEMO_WITH_16_DEVICES, of(hosts), expected=16)
    with tempfile.TemporaryDirectory() as scratch, demo_run(devices_each=4) as hosts:
        take(folder, OF_THE_DEMO, of(hosts), expected=8)
        hosts[1].send_signal(signal.SIGSTOP)
        take(folder, OF_A_STOPPED_HOST, of(hosts), expected=4)
        path = Path(scratch) / "run.mcap"
        record(path, of(hosts), lambda: hosts[1].send_signal(signal.SIGCONT), hosts[1].kill)
        take_replay(folder, path)
    with load(1024, 8) as address:
        take(
            folder, OF_1024_HOSTS, lambda: LiveSource(discovery.seeds([address]), keys.load()), expected=8192
        )


def of(hosts: list[subprocess.Popen[bytes]]) -> Callable[[], LiveSource]:
    """Opens a source of these processes, whatever else runs on this machine."""
    pids = {host.pid for host in hosts}

    def open_source() -> LiveSource:
        found = [each.hello for each in runfiles.find() if each.hello.pid in pids]
        return Renamed([Seed(hello.agent, hello=hello) for hello in found], keys.load())

    return open_source


@contextmanager
def demo_run(
    devices_each: int, fault: str | None = None, after: float = 0.0
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The demo's own processes, until they train."""
    with ExitStack() as stack:
        errors = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)]
        hosts = demo.start(2, devices_each, 600, errors, more=demo.fault_words(fault, after))
        stack.callback(demo.stop, hosts)
        output = hosts[0].stdout
        assert output is not None
        for line in output:  # the run has begun when it says so
            if line.startswith(b"step"):
                break
        yield hosts


@contextmanager
def load(hosts: int, devices_each: int) -> Iterator[str]:
    """Generated agents; their address."""
    words = [sys.executable, "-m", "tests.load", str(hosts), str(devices_each), "300"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def stage(folder: Path, frames: Sequence[wire.Frame], picture: Picture) -> None:
    """The app on a small cluster of which everything was made up."""

    async def act(stage: Stage) -> None:
        await stage.press(*picture.keys)
        await stage.pilot.pause(1.0)
        with pytest.MonkeyPatch.context() as patched:  # the stage draws nothing
            patched.setattr(Compositor, "render_update", DRAWN)
            _save(folder, picture, stage.app)

    play(act, *frames, size=picture.size)
    print(f"{picture.name}.svg", flush=True)


def take(
    folder: Path, pictures: tuple[Picture, ...], source: Callable[[], LiveSource], expected: int
) -> None:
    """One app for a picture; the follower and so the history is the same for all."""
    for picture in pictures:
        follower = SourceThread(source)
        follower.start()
        try:
            asyncio.run(_take(folder, picture, follower, expected))
        finally:
            follower.stop()
        print(f"{picture.name}.svg", flush=True)


def record(path: Path, source: Callable[[], LiveSource], *acts: Callable[[], Any]) -> None:
    """Record this source for some time before each act, and after the last."""
    followed, cluster, writer = source(), Cluster(), RecordingWriter(path, {})
    writer.start()
    recorder = SessionRecorder(writer)
    for act in (*acts, lambda: None):
        until = time.monotonic() + SETTLE
        while time.monotonic() < until:
            frames = followed.poll(0.25)
            for frame in frames:
                cluster.feed(frame)
            recorder.take(frames, cluster, steady())
        act()
    recorder.finish(cluster)
    followed.close()


def take_replay(folder: Path, path: Path) -> None:
    """The app on a recording, paused just before the host dies."""
    for picture in OF_A_RECORDING:
        session = Session([path])
        assert session.span is not None
        start = Start(session.span[1] - SETTLE - 1, is_playing=False)
        asyncio.run(_take_replay(folder, picture, JaxtopApp(None, steady, history=session, replay=start)))
        session.close()
        print(f"{picture.name}.svg", flush=True)


async def _take_replay(folder: Path, picture: Picture, app: JaxtopApp) -> None:
    async with app.run_test(size=picture.size) as pilot:
        await pilot.pause(1.0)
        for key in picture.keys:
            await pilot.press(key)
            await pilot.pause(1.0)
        _save(folder, picture, app)


async def _take(folder: Path, picture: Picture, follower: SourceThread, expected: int) -> None:
    app = JaxtopApp(follower)
    async with app.run_test(size=picture.size) as pilot:
        end = time.monotonic() + WAIT
        while time.monotonic() < end and _known(app.moment.cluster) < expected:
            await pilot.pause(0.25)
        if (known := _known(app.moment.cluster)) < expected:
            raise NotShown(f"{picture.name}: {known:,} of {expected:,} devices after {WAIT:.0f} s")
        await asyncio.sleep(SETTLE)
        await pilot.press(*picture.keys)
        await pilot.pause(1.0)
        while time.monotonic() < end and picture.shows not in text_of(app.export_screenshot()):
            await pilot.pause(1.0)
        _save(folder, picture, app)


def _save(folder: Path, picture: Picture, app: JaxtopApp) -> None:
    drawn = app.export_screenshot(title="jaxtop")
    # Or some programs drop the spaces at the ends, and with them the indents.
    drawn = drawn.replace("<text ", '<text xml:space="preserve" ')
    check(picture, drawn, in_readme=picture.name in in_readme())
    (folder / f"{picture.name}.svg").write_text(drawn)


def _known(cluster: Cluster) -> int:
    return len(device_views(cluster, time.time()))


if __name__ == "__main__":
    try:
        main()
    except NotShown as error:
        sys.exit(f"screenshots: {error}")
