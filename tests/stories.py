"""Short stories for the model: who said what, and when. An agent is called r1-0 after its run and index."""

from __future__ import annotations

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import ArrayView, Cluster
from jaxtop.wire import LinkState
from tests.made.every_message import HELLO

MESH = wire.Mesh((("data", 2), ("model", 4)), ((0, 4), (2048, 4)))


def hello(index: int | None, run: str | None = "r1", **more) -> wire.Hello:
    more = {"hostname": f"node{index}", "process_count": 2, "devices": (), "argv": (), **more}
    return replace(HELLO, agent=more.pop("agent", f"{run}-{index}"), run=run, process_index=index, **more)


def pulse(**more) -> wire.Pulse:
    return wire.Pulse(at_ms=more.pop("at_ms", 0), **more)


def host_sample(first: int = 1, **more) -> wire.HostSample:
    """Every figure of a host, each another number."""
    names = [
        name for name in wire.HostSample.__struct_fields__ if name not in ("is_container", "busy_threads")
    ]
    return wire.HostSample(**{name: first + i for i, name in enumerate(names)}, **more)


def link(what: str, text: str = "") -> wire.Link:
    return wire.Link(LinkState(what), "10.0.0.1:7411", text)


def peer(index: int, run: str = "r1") -> wire.Peer:
    said = hello(index, run)
    return wire.Peer(*(getattr(said, name) for name in wire.Peer.__struct_fields__))


def cluster_of(*story: tuple[float, str, wire.Message]) -> Cluster:
    """What a viewer knows after these messages: when, of which agent, what."""
    cluster = Cluster()
    tell(cluster, *story)
    return cluster


def tell(cluster: Cluster, *story: tuple[float, str, wire.Message]) -> None:
    for at, agent, message in story:
        cluster.feed(wire.Frame(at, agent, wire.kind_of(message), 1, wire.encode(message)))


def running(*indices: int, run: str = "r1", at: float = 10) -> list[tuple[float, str, wire.Message]]:
    """Hosts that have just begun to send."""
    said = [(link("up"), hello(index, run), pulse()) for index in indices]
    return [(at, message.agent, each) for one in said for message in [one[1]] for each in one]


def census(
    *groups: wire.ArrayGroup,
    mesh: wire.Mesh = MESH,
    spec: str = "P('data', None)",
    counts: tuple[int, ...] | None = None,
) -> wire.Arrays:
    sharded = wire.Sharding("NamedSharding", spec, 0, (), "device")
    alone = wire.Sharding("SingleDeviceSharding", "", None, ((0, 1),), "device")
    return wire.Arrays(
        0,
        meshes=(mesh,),
        shardings=(sharded, alone),
        groups=groups,
        counts=(1,) * len(groups) if counts is None else counts,
    )


ROSTER = wire.Roster("r1-0", (peer(0), peer(1)), run="r1", name="train", process_count=2)


def array(name="state.params['w']", **more) -> ArrayView:
    """An array of 8 floats on one device."""
    facts = {
        "run": "r1",
        "function": "train",
        "role": None,
        "created": "train.py:57 init",
        "shape": (8,),
        "dtype": "float32",
        "sharding": "P()",
        "mesh": None,
        "device_ids": (0,),
        "memory_kind": "device",
        "parts": None,
        "tiles": None,
        "groups": 1,
        "count": 1,
        "bytes_global": 32,
        "bytes_per_device": 32,
        "grown_bytes": None,
        "grown_s": None,
    }
    return ArrayView(name=name, **facts | more)
