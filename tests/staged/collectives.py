"""More for the stage: windows of the profiler, and stacks."""

from __future__ import annotations

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.made import windows as made_windows
from tests.made.windows import Made

HOSTS, DEVICES = 4, 4


def run(made: Made, *, windows: int = 5, inventory: bool = True, sources=None) -> list[wire.Frame]:
    """A run whose programs were read, and of which so many windows have arrived, the last 6 seconds ago."""
    frames = []
    sharding = wire.Sharding("named", "P('data', 'model')", 0, (), "device")
    ids = wire.pack_ids(tuple(range(made.hosts * made.devices)))
    mesh = wire.Mesh((("data", made.hosts), ("model", made.devices)), ids)
    group = wire.ArrayGroup((8, 8), "float32", 0, 256, 64)
    arrays = wire.Arrays(int(NOW * 1000), meshes=(mesh,), shardings=(sharding,), groups=(group,), counts=(1,))
    for index in range(made.hosts):
        agent = agent_id(index)
        hello = builders.hello(index, made.hosts, made.devices)
        frames += [
            frame(agent, wire.Link(LinkState.UP, f"10.0.0.{index}:7411"), NOW - 20, 0),
            frame(agent, replace(hello, sources=sources or {"collectives": "on"}), NOW - 20),
            frame(agent, arrays, NOW - 20),
            frame(agent, wire.Programs(1, (made_windows.program(made),)), NOW - 20),
        ]
        if inventory:
            frames.append(frame(agent, made_windows.inventory(made, index), NOW - 20))
        for seconds in (1, 0):
            pulse = builders.pulse(index, NOW - seconds, made.devices, 20 - 10 * seconds)
            frames.append(frame(agent, pulse, NOW - seconds))
    for number in range(windows):
        at = NOW - 6 - 10 * (windows - 1 - number)
        for index in range(made.hosts):
            seen = made_windows.window(made, index, number, at_ms=int(at * 1000))
            frames.append(frame(agent_id(index), seen, at))
    return frames


def late() -> list[wire.Frame]:
    """The last of four processes comes late."""
    return run(Made(HOSTS, DEVICES, late=3))


def in_step() -> list[wire.Frame]:
    """Nobody is late."""
    return run(Made(HOSTS, DEVICES, noise_us=300))


def few() -> list[wire.Frame]:
    """One window only: not enough to tell who is late."""
    return run(Made(HOSTS, DEVICES, late=3), windows=1)


def of_one_line() -> list[wire.Frame]:
    """Six small collectives come from one line, and a large one was added for a sharding."""
    frames = never_timed()
    small = tuple(
        wire.Collective(
            f"all-gather.{i}", "all-gather", "f32[64]", 256, 0, 2, source="add", line="train.py:40"
        )
        for i in range(6)
    )
    large = wire.Collective(
        "all-gather.9", "all-gather", "f32[1048576]", 4 << 20, 1, 1, source="dot_general", line="train.py:12",
        name_stack="jit(train_step)/layer/dot_general", added="resharding", operand="params['w']",
        has="cut along dimension 0 in 4", wants="whole along dimension 0",
    )  # fmt: skip
    for i, each in enumerate(frames):
        if each.kind == "inventory":
            inventory = wire.decode("inventory", each.raw)
            raw = wire.encode(replace(inventory, collectives=(large, *small)))
            frames[i] = each._replace(raw=raw)
    return frames


def unread() -> list[wire.Frame]:
    """Windows have arrived of programs whose text nobody could read."""
    return run(Made(HOSTS, DEVICES, late=3), inventory=False)


def never_timed(sources=None) -> list[wire.Frame]:
    """Programs were read, windows were not taken."""
    return run(Made(HOSTS, DEVICES), windows=0, sources=sources)


WAITS = (
    wire.Place("train.py", 120, "<module>"),
    wire.Place("train.py", 51, "train"),
    wire.Place("jax/_src/array.py", 631, "_value"),
)
LOADS = (
    wire.Place("train.py", 120, "<module>"),
    wire.Place("train.py", 48, "train"),
    wire.Place("data.py", 88, "load_batch"),
    wire.Place("python3.11/socket.py", 706, "readinto"),
)
WORKS = (wire.Place("python3.11/threading.py", 327, "wait"), wire.Place("data.py", 30, "prefetch"))


def stacks(frames: tuple[wire.Place, ...], ago: float = 2.0) -> wire.Stacks:
    threads = (wire.Thread("MainThread", True, frames), wire.Thread("prefetch", False, WORKS))
    return wire.Stacks(int((NOW - ago) * 1000), threads)


def standing(hosts: int = HOSTS, devices: int = DEVICES) -> list[wire.Frame]:
    """All wait for the last process, which reads data."""
    frames = builders.well(processes=hosts, devices=devices)
    since = int((NOW - 9) * 1000)
    for index in range(hosts):
        is_last = index == hosts - 1
        stall = wire.Stall("train_step", since, 1000)
        launches = 19 if is_last else 20
        pulse = builders.pulse(index, NOW, devices, launches, stall=stall)
        frames.append(frame(agent_id(index), pulse, NOW, 3))
        frames.append(frame(agent_id(index), stacks(LOADS if is_last else WAITS)))
    return frames


GLOO = wire.NativeStack(
    (
        wire.NativeFrame("python", "python", 0, 14),
        wire.NativeFrame("gloo::allreduce", "libjax_common.so"),
        wire.NativeFrame("", "libc.so.6", 0x85F16),
    ),
    "gloo::allreduce",
)


def with_native(
    waiting: wire.NativeStack | None = None,
    cause: wire.NativeStack | None = None,
    others: tuple[wire.Thread, ...] = (),
) -> list[wire.Frame]:
    """Three hosts wait, and the last one reads; their stacks have native frames."""
    frames = standing()
    for index in range(HOSTS):
        is_last = index == HOSTS - 1
        told = stacks(LOADS if is_last else WAITS, ago=1.0)
        main, *rest = told.threads
        main = replace(main, native=cause if is_last else waiting or GLOO)
        frames.append(frame(agent_id(index), replace(told, threads=(main, *rest, *others)), sequence=9))
    return frames
