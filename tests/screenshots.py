"""`make screenshots`: the app on a real demo run, and on generated load where that is said, as SVG pictures.

python -m tests.screenshots [FOLDER]
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop import discovery, keys
from jaxtop.cli import demo
from jaxtop.cli.following import Follower
from jaxtop.cluster import Cluster, devices
from jaxtop.sources import LiveSource
from jaxtop.tui.app import JaxtopApp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = Path(__file__).parent.parent / "screenshots"
WAIT = 90.0
# Long enough for rates and sparklines to have something to show.
SETTLE = 12.0


class Picture:
    """A picture to be taken: the keys that lead there, and the size of the terminal."""

    def __init__(self, name: str, *keys_pressed: str, size: tuple[int, int] = (120, 36)) -> None:
        self.name = name
        self.keys = keys_pressed
        self.size = size


OF_THE_DEMO = (
    Picture("mesh", "tab"),
    Picture("mesh-by-host"),
    Picture("hosts", "2"),
    Picture("devices", "3"),
    Picture("events", "8"),
    Picture("help", "question_mark"),
    Picture("mesh-light", "tab", "t"),
    Picture("mesh-80x24", "tab", size=(80, 24)),
)
OF_A_STOPPED_HOST = (Picture("stopped-host", "tab"), Picture("stopped-host-table", "2"))
OF_1024_HOSTS = (Picture("mesh-8192-devices", size=(200, 50)),)


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(exist_ok=True)
    with demo_run() as hosts:
        take(folder, OF_THE_DEMO, lambda: LiveSource(discovery.seeds([]), keys.load()), expected=8)
        hosts[1].send_signal(signal.SIGSTOP)
        take(folder, OF_A_STOPPED_HOST, lambda: LiveSource(discovery.seeds([]), keys.load()), expected=4)
    with load(1024, 8) as address:
        take(
            folder, OF_1024_HOSTS, lambda: LiveSource(discovery.seeds([address]), keys.load()), expected=8192
        )


@contextmanager
def demo_run() -> Iterator[list[subprocess.Popen[bytes]]]:
    """The demo's own processes, until they train."""
    with ExitStack() as stack:
        errors = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)]
        hosts = demo.start(2, 4, 600, errors)
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


def take(
    folder: Path, pictures: tuple[Picture, ...], source: Callable[[], LiveSource], expected: int
) -> None:
    """One app for a picture; the follower and so the history is the same for all."""
    for picture in pictures:
        follower = Follower(source)
        follower.start()
        try:
            asyncio.run(_take(folder, picture, follower, expected))
        finally:
            follower.stop()
        print(f"{picture.name}.svg", flush=True)


async def _take(folder: Path, picture: Picture, follower: Follower, expected: int) -> None:
    app = JaxtopApp(follower)
    async with app.run_test(size=picture.size) as pilot:
        end = time.monotonic() + WAIT
        while time.monotonic() < end and _known(app.moment.cluster) < expected:
            await pilot.pause(0.25)
        await asyncio.sleep(SETTLE)
        await pilot.press(*picture.keys)
        await pilot.pause(1.0)
        (folder / f"{picture.name}.svg").write_text(app.export_screenshot(title="jaxtop"))


def _known(cluster: Cluster) -> int:
    return len(devices(cluster, time.time()))


if __name__ == "__main__":
    main()
