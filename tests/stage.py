"""Run the app in tests: small clusters as frames, a fixed clock, and a pilot."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, cast

import textual.app
import textual.pilot
from textual._context import active_app
from textual.widgets import ContentSwitcher, Static

from jaxtop import wire
from jaxtop.tui.app import JaxtopApp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from jaxtop.model import Cluster


async def until_idle(*_: float) -> None:
    """Wait until no callback of the event loop is ready and nothing is left to draw.

    Textual's own wait compares CPU time with wall time: a process that gets no CPU looks idle to it.
    """
    app, loop = active_app.get(), cast("Any", asyncio.get_running_loop())
    while True:
        await asyncio.sleep(0)
        while loop._ready:  # noqa: ASYNC110 - no event tells that nothing is left to run
            await asyncio.sleep(0)
        if app._resize_timer is not None:
            app._check_resize()
        elif app.screen_stack and app.screen._update_timer._active.is_set():
            app.screen._on_timer_update()
        else:
            return


for module in (textual.app, textual.pilot):
    module.wait_for_idle = until_idle  # type: ignore[attr-defined]

NOW = 1_800_000_000.0
PROCESSES, DEVICES = 2, 4


def frame(agent: str, message: wire.Message, at: float = NOW, sequence: int = 1) -> wire.Frame:
    return wire.Frame(at, agent, wire.kind_of(message), sequence, wire.encode(message))


def agent_id(index: int) -> str:
    return f"{index:016x}"


def hello(index: int, processes: int = PROCESSES, devices: int = DEVICES) -> wire.Hello:
    first = index * devices
    return wire.Hello(
        agent=agent_id(index),
        hostname=f"node{index:02}",
        pid=1000 + index,
        process_started_ticks=1,
        boot="b",
        pid_namespace="pid:[1]",
        started_ms=int(NOW * 1000),
        telemetry=f"10.0.0.{index}:7411",
        requests=f"10.0.0.{index}:7410",
        interval_ms=1000,
        jaxtop="0.1.0",
        python="3.11.7",
        name="train",
        run="r1",
        process_index=index,
        process_count=processes,
        jax="0.10.2",
        platform="cpu",
        devices=tuple(wire.Device(first + i, "cpu", "cpu", i) for i in range(devices)),
    )


def pulse(index: int, at: float = NOW, devices: int = DEVICES, launches: int = 10, **more: Any) -> wire.Pulse:
    used = tuple((index * devices + i + 1) << 20 for i in range(devices))
    return wire.Pulse(
        at_ms=int(at * 1000),
        sampled_ms=int(at * 1000),
        memory_source="arrays",
        devices=wire.DeviceSample(used_bytes=used),
        host=wire.HostSample(500, 400 << 20, 12, 250, 4 << 30, 16 << 30, 150, 1000, 1000),
        launches={"train_step": launches},
        step=wire.Step(launches, launches, {"loss": 2.5}),
        cost=wire.Cost(2000, 0, 1),
        **more,
    )


def arrays(processes: int = PROCESSES, devices: int = DEVICES) -> wire.Arrays:
    ids = wire.pack_ids(tuple(range(processes * devices)))
    mesh = wire.Mesh((("data", processes * devices // 2), ("model", 2)), ids)
    sharding = wire.Sharding("named", "P('data', None)", 0, (), "device")
    group = wire.ArrayGroup((8, 8), "float32", 0, 256, 64)
    return wire.Arrays(int(NOW * 1000), meshes=(mesh,), shardings=(sharding,), groups=(group,), counts=(1,))


# The arrays of a small training run by name: shape, dtype, sharding, role.
STATE = {
    **{
        f"state.params['Dense_{i}']['{name}']": (shape, "float32", sharding, "parameters")
        for i in range(3)
        for name, shape, sharding in (("kernel", (1024, 512), 0), ("bias", (512,), 1))
    },
    **{
        f"state.opt_state[0].{moment}['Dense_{i}']['{name}']": (shape, "float32", sharding, "optimizer")
        for moment in ("mu", "nu")
        for i in range(3)
        for name, shape, sharding in (("kernel", (1024, 512), 0), ("bias", (512,), 1))
    },
    "state.opt_state[0].count": ((), "int32", 1, "optimizer"),
    "state.step": ((), "int32", 1, None),
    "batch['image']": ((256, 784), "bfloat16", 2, "batch"),
    "batch['label']": ((256,), "int32", 2, "batch"),
}
WIDTHS = {"float32": 4, "bfloat16": 2, "int32": 4}


def census(at: float = NOW, leaked: int = 0) -> wire.Arrays:
    """Return the arrays of a training run on a 2 × 4 mesh: its state, a batch, some unnamed ones, a tail."""
    mesh = wire.Mesh((("data", 2), ("model", 4)), wire.pack_ids(tuple(range(8))))
    named = ("named", "P('data', 'model')", (("data",), ("model",))), ("named", "P()", ())
    shardings = (
        *(wire.Sharding(kind, spec, 0, (), "device", parts) for kind, spec, parts in named),
        wire.Sharding("named", "P('data',)", 0, (), "device", (("data",),)),
        wire.Sharding("single", "SingleDevice", None, ((0, 1),), "pinned_host", None, ()),
    )
    groups, counts = [], []
    for name, (shape, dtype, sharding, role) in STATE.items():
        size = math.prod(shape) * WIDTHS[dtype]
        held = size // (8, 1, 2)[sharding]
        groups.append(
            wire.ArrayGroup(shape, dtype, sharding, size, held, name, "train", role, "train.py:57 init")
        )
        counts.append(1)
    for shape, created, count in (
        ((64, 64), "train.py:88 log_metrics", 3 + leaked),
        ((128,), "train.py:88 log_metrics", 2),
        ((33,), None, 1),
    ):
        size = math.prod(shape) * 4
        groups.append(wire.ArrayGroup(shape, "float32", 3, size, size, created=created))
        counts.append(count)
    groups.append(wire.ArrayGroup((), "", 1, 40_960, 40_960, groups=37))
    counts.append(112)
    return wire.Arrays(
        int(at * 1000), 1, int(at - NOW) + 1000, (mesh,), shardings, tuple(groups), tuple(counts)
    )


def training(at: float = NOW) -> list[wire.Frame]:
    """Return the frames of `well` with the arrays of `census`, which have grown for half a minute."""
    told = [each for each in well(at) if each.kind != "arrays"]
    for index in range(PROCESSES):
        for seconds, leaked in ((30, 0), (0, 40)):
            told.append(frame(agent_id(index), census(at - seconds, leaked), at - seconds))
    return told


def well(at: float = NOW, processes: int = PROCESSES, devices: int = DEVICES) -> list[wire.Frame]:
    """Return the frames of a healthy run, shortly after the viewer has connected."""
    told: list[wire.Frame] = []
    for index in range(processes):
        agent = agent_id(index)
        told += [
            frame(agent, wire.Link("up", f"10.0.0.{index}:7411"), at - 2, 0),
            frame(agent, hello(index, processes, devices), at - 2),
            frame(agent, arrays(processes, devices), at - 2),
            frame(agent, pulse(index, at - 1, devices, 10), at - 1),
            frame(agent, pulse(index, at, devices, 20), at, 2),
        ]
    return told


def trouble(index: int, state: str) -> wire.Frame:
    return frame(agent_id(index), wire.Link(state, f"10.0.0.{index}:7411"), sequence=0)


class Feed:
    """A source for the app, filled by a test."""

    def __init__(self, *frames: wire.Frame) -> None:
        self.frames = list(frames)
        self.reason: str | None = None
        self.skipped: dict[str, int] = {}

    def drain(self) -> list[wire.Frame]:
        taken, self.frames = self.frames, []
        return taken

    def folded(self, frames: Sequence[wire.Frame], cluster: Cluster) -> None:
        """Ignore the frames."""

    def failure(self) -> str | None:
        return self.reason

    def rejected(self) -> dict[str, int]:
        return self.skipped

    def notes(self) -> list[str]:
        return []


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Stage:
    """An app in a test, with its feed and its clock."""

    def __init__(self, app: JaxtopApp, feed: Feed, clock: Clock, pilot: Any) -> None:
        self.app, self.feed, self.clock, self.pilot = app, feed, clock, pilot

    @property
    def screen(self) -> Any:
        return self.app.screen

    @property
    def view(self) -> Any:
        """The screen of the app that is shown."""
        return self.app._view

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.paint()

    async def paint(self) -> None:
        """Fold and show what has arrived, and the last of several seeks."""
        self.app._tick()
        await self.pilot.pause()
        while (self.app._is_folding or self.app._is_pausing) and self.app.is_running:
            await self.pilot.pause(0.01)

    async def until(self, check: Callable[[], bool]) -> None:
        """Wait for what takes time: results of a search come in batches, toasts by a timer."""
        while not check():
            await self.pilot.pause(0.01)

    def line(self, name: str) -> str:
        return str(self.app.query_one(f"#{name}", Static).content)

    @property
    def screen_shown(self) -> str:
        return str(self.app.query_one(ContentSwitcher).current)

    @property
    def text(self) -> str:
        """The text of the whole screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)


# A scene that hangs fails by the clock of its own event loop, whatever becomes of other timeouts.
LONGEST_PLAY = 120


def play(
    act: Callable[[Stage], Awaitable[None]],
    *frames: wire.Frame,
    size: tuple[int, int] = (120, 40),
    **more: Any,
) -> None:
    """Run the app on these frames, or on a replay if one is given, and act on it."""

    async def run() -> None:
        feed, clock = Feed(*frames), Clock()
        app = JaxtopApp(None if "replay" in more else feed, clock, **more)
        async with app.run_test(size=size) as pilot:
            stage = Stage(app, feed, clock, pilot)
            await stage.paint()
            await act(stage)

    asyncio.run(asyncio.wait_for(run(), LONGEST_PLAY))


def shown_after(*frames: wire.Frame, keys: Sequence[str], size: tuple[int, int]) -> str:
    """Return the screen as text after these keys were pressed."""
    shown: list[str] = []

    async def act(stage: Stage) -> None:
        await stage.press(*keys)
        shown.append(stage.text)

    play(act, *frames, size=size)
    return shown[0]


def line(word: str, shown: str) -> str:
    """Return the first line of a screen that contains this word."""
    return next(each for each in shown.splitlines() if word in each)
