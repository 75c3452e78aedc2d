"""Real runs of the demo, recorded as the frames that a viewer received: for pictures."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base import keys
from jaxtop.base.clock import steady
from jaxtop.cli import demo
from jaxtop.model import Cluster, reported_findings
from jaxtop.sources import LiveSource, Seed
from jaxtop.store import runfiles

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Sequence


class Renamed(LiveSource):
    """The processes of the demo, as if each had a host of its own: pictures do not name this machine."""

    def poll(self, timeout: float) -> list[wire.Frame]:
        return [_renamed(frame) for frame in super().poll(timeout)]


def _renamed(frame: wire.Frame) -> wire.Frame:
    if frame.kind not in ("hello", "roster"):
        return frame
    message = wire.decode(frame.kind, frame.raw)
    if isinstance(message, wire.Roster):
        message = replace(message, peers=tuple(_on_its_own(peer) for peer in message.peers))
    elif isinstance(message, wire.Hello):
        message = _on_its_own(message)
    return frame._replace(raw=wire.encode(message))


def _on_its_own(message: wire.Hello | wire.Peer) -> Any:
    return replace(message, hostname=f"node{message.process_index or 0:02}")


class RecordedRun(NamedTuple):
    """The frames of a run, and when each awaited rule was first reported."""

    frames: list[wire.Frame]
    found: dict[str, float]


def of(hosts: list[subprocess.Popen[bytes]]) -> Callable[[], LiveSource]:
    """Opens a source of these processes, whatever else runs on this machine."""
    pids = {host.pid for host in hosts}

    def open_source() -> LiveSource:
        found = [each.hello for each in runfiles.find() if each.hello.pid in pids]
        return Renamed([Seed(hello.agent, hello=hello) for hello in found], keys.load())

    return open_source


@contextmanager
def demo_run(
    devices_each: int, fault: str | None = None, after: float | None = None, *, hosts: int = 2
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The demo's own processes, until they train."""
    with ExitStack() as stack:
        errors = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(hosts)]
        more = [*demo.SAVES, *demo.fault_words(fault, after)]
        started = demo.start(hosts, devices_each, 900, errors, more=more, limit=demo.LIMIT)
        stack.callback(demo.stop, started)
        output = started[0].stdout
        assert output is not None
        for line in output:  # the run has begun when it says so
            if line.startswith(b"step"):
                break
        demo.discard_output(started[0])
        yield started


def record(
    source: LiveSource, seconds: float, awaited: Sequence[str] = (), acts: Sequence[Callable[[], Any]] = ()
) -> RecordedRun:
    """Follow a run for so long after the last awaited rule was reported, and so long again after each act.

    Stacks are asked for when the first rule is reported, as a person would.

    Raises:
        TimeoutError: A rule was not reported within 400 seconds.
    """
    frames: list[wire.Frame] = []
    found: dict[str, float] = {}
    cluster, begun, has_asked = Cluster(), steady(), False
    for act in (*acts, None):
        until = steady() + seconds
        while steady() < until:
            if missing := [rule for rule in awaited if rule not in found]:
                until = steady() + seconds
            if steady() > begun + 400 and missing:
                raise TimeoutError(f"not found: {', '.join(missing)}")
            for frame in source.poll(0.25):
                cluster.feed(frame)
                frames.append(frame)
            for each in reported_findings(cluster):
                if each.rule in awaited:
                    found.setdefault(each.rule, steady())
            if found and not has_asked:
                has_asked = True
                for agent in cluster.hosts:
                    source.request(agent, wire.Request("stacks"), lambda _: None)
        if act is not None:
            act()
    source.close()
    return RecordedRun(frames, found)
