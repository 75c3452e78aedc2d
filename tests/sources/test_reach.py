"""What addresses prove: tunnels, ports that change hands, many addresses with few file descriptors."""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jaxtop import wire
from jaxtop.base import keys, processes
from jaxtop.model import newest_hosts, state_of
from jaxtop.sources import descriptors
from jaxtop.sources.evidence import AgentAddress, judged
from jaxtop.store import runfiles
from jaxtop.transport import Server
from jaxtop.wire import LinkState
from tests import support
from tests.real.sockets import Relay
from tests.stories import peer
from tests.support import JAXTOP, PYTHON, eventually, jaxtop, loopback_address, viewer

if TYPE_CHECKING:
    import subprocess

# As little as an agent needs: addresses, a hello and pulses.
AGENT = """
    import time, jax
    from jaxtop import agent
    agent.start(name="lonely")
    jax.devices()
    time.sleep(600)
"""


@pytest.fixture
def stack():
    with ExitStack() as opened:
        yield opened


@pytest.fixture(params=["from here", "from elsewhere"])
def looking(request, monkeypatch):
    """Where the viewer runs; elsewhere it knows nothing of the machine's processes, and needs a tunnel."""
    if request.param == "from elsewhere":
        monkeypatch.setattr(processes, "here", lambda: processes.Namespace("another boot", "pid:[1]"))
    return request.param


def start(stack: ExitStack, address: str) -> tuple[subprocess.Popen[str], wire.Hello]:
    """A process with an agent that serves at this address, and what it says of itself."""
    env = support.environment(1, JAXTOP_BIND=address)
    path = support.script(Path.home(), AGENT)
    (process,) = stack.enter_context(support.processes([PYTHON, path], env=env))
    met = eventually(lambda: [each.hello for each in runfiles.find() if each.hello.pid == process.pid])
    return process, met[0]


def tunnel(stack: ExitStack, endpoint: str, at: str = "127.0.0.1:0") -> Relay:
    made = Relay(endpoint, at)
    stack.callback(made.close)
    return made


def tunnels(stack: ExitStack, hello: wire.Hello, at: str) -> list[Relay]:
    """Tunnels to both ports of an agent, with the same numbers at another address."""
    ports = [each.rpartition(":") for each in (hello.requests, hello.telemetry)]
    return [tunnel(stack, "".join(each), f"{at}:{each[2]}") for each in ports]


def states(seen) -> list[str]:
    return [str(state_of(host, time.time())) for host in newest_hosts(seen.cluster)]


def is_met(seen) -> bool:
    """Whether the only host is live and has introduced itself; without that, an end is no death."""
    return states(seen) == ["live"] and newest_hosts(seen.cluster)[0].hello is not None


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process, and wait until its ports are closed: until then it looks like a stopped one."""
    process.kill()
    process.wait()


def kinds(seen) -> set[str]:
    return {event.kind for event in seen.cluster.events if event.severity == "critical"}


# Tunnels


@pytest.mark.newest
@pytest.mark.jax
@pytest.mark.usefixtures("looking")
def test_behind_a_tunnel_with_another_port_an_agent_is_not_reachable_and_not_gone(stack):
    """The typed address answers, so the process is alive; the port of its figures leads nowhere from here."""
    _, hello = start(stack, loopback_address())
    way = tunnel(stack, hello.requests)
    with viewer(way.endpoint) as seen:
        seen.until(lambda: states(seen) == ["unreachable"])
        seen.look(2.5)
        assert states(seen) == ["unreachable"] and not seen.cluster.unmet and not kinds(seen)


@pytest.mark.newest
@pytest.mark.jax
def test_a_snapshot_through_such_a_tunnel_says_which_port_to_forward(stack):
    _, hello = start(stack, loopback_address())
    way = tunnel(stack, hello.requests)
    done = jaxtop("snapshot", way.endpoint)
    (host,) = json.loads(done.stdout)["hosts"]
    (line,) = done.stderr.splitlines()
    assert (done.returncode, host["state"]) == (2, "unreachable")
    port = hello.telemetry.rpartition(":")[2]
    assert "is not reachable from here" in line and f"forward port {port} to the same number" in line


@pytest.mark.newest
@pytest.mark.jax
def test_a_tunnel_that_breaks_is_no_death_and_a_process_that_dies_behind_it_is(stack, monkeypatch):
    monkeypatch.setattr(processes, "here", lambda: processes.Namespace("another boot", "pid:[1]"))
    process, hello = start(stack, loopback_address())
    at = loopback_address()
    ways = tunnels(stack, hello, at)
    with viewer(ways[0].endpoint) as seen:
        seen.until(lambda: is_met(seen))
        for way in ways:
            way.close()
        seen.until(lambda: states(seen) == ["unreachable"])
        tunnels(stack, hello, at)
        seen.until(lambda: is_met(seen))
        kill(process)
        seen.until(lambda: states(seen) == ["died"])
        assert kinds(seen) == {"unreachable", "died"}


@pytest.mark.parametrize(
    ("telemetry", "endpoint", "signs", "state"),
    [
        ("10.0.0.1:7411", "10.0.0.1:7411", "", "unreachable"),
        ("10.0.0.1:7411", "10.0.0.1:7411", "neighbour", "closed"),
        ("10.0.0.1:7411", "10.0.0.1:7411", "met", "closed"),
        ("127.0.0.1:7411", "127.0.0.1:7411", "neighbour", "unreachable"),
        ("127.0.0.1:7411", "127.0.0.1:7411", "met", "unreachable"),
        ("127.0.0.1:7411", "127.0.0.1:7411", "met hung_up", "closed"),
        ("10.0.0.1:7411", "127.0.0.1:7411", "hung_up", "unreachable"),
    ],
)
def test_a_shut_door_proves_an_end_only_where_it_is_the_agents_own(telemetry, endpoint, signs, state):
    listed = wire.Peer(
        "a", 0, "node0", 7, 1, boot="its boot", pid_namespace="", telemetry=telemetry, requests=""
    )
    address = AgentAddress(listed, endpoint, is_met="met" in signs)
    found = judged(
        address, LinkState.CLOSED, is_hung_up="hung_up" in signs, has_neighbour="neighbour" in signs
    )
    assert found == state


def test_who_answers_at_another_machines_loopback_says_nothing_of_the_agent_there():
    address = AgentAddress(peer(0), "127.0.0.1:7411")
    found = [
        judged(address, each, is_hung_up=False, has_neighbour=False)
        for each in (LinkState.BLOCKED, LinkState.STOPPED, LinkState.REFUSED)
    ]
    assert found == ["unreachable"] * 3


@pytest.mark.parametrize(("has_same_network", "state"), [(True, "closed"), (False, "unreachable")])
def test_a_process_that_runs_but_listens_no_more_has_been_left_by_its_agent(
    monkeypatch, has_same_network, state
):
    """Its script has ended, and it waits for other processes before it exits."""
    place, pid = processes.here(), os.getpid()
    listed = wire.Peer(
        "a", 0, "node0", pid, processes.start_ticks(pid), place.boot, place.pid_namespace,
        telemetry="127.0.0.1:7411", requests="",
    )  # fmt: skip
    if not has_same_network:
        monkeypatch.setattr(processes, "shares_network", lambda _: False)
    address = AgentAddress(listed, "127.0.0.1:7411")
    assert judged(address, LinkState.CLOSED, is_hung_up=False, has_neighbour=False) == state


# Ports that change hands


def way_to(stack: ExitStack, hello: wire.Hello, looking: str) -> str:
    """What to type to reach an agent."""
    if looking == "from here":
        return hello.requests
    return tunnels(stack, hello, loopback_address())[0].endpoint


@pytest.mark.newest
@pytest.mark.jax
def test_a_dead_process_is_not_blocked_when_a_busy_one_takes_its_port(stack, looking):
    """The successor accepts connections and does not answer yet: its Python may still be importing."""
    process, hello = start(stack, loopback_address())
    with viewer(way_to(stack, hello, looking)) as seen:
        seen.until(lambda: is_met(seen))
        kill(process)
        seen.until(lambda: states(seen) == ["died"])
        host, _, port = hello.requests.rpartition(":")
        busy = Server(keys.load(), frozenset)
        stack.callback(busy.close)
        assert f"{host}:{busy.bind(host, int(port))[1]}" == hello.telemetry
        seen.look(5)
        assert states(seen) == ["died"] and kinds(seen) == {"died"}


@pytest.mark.newest
@pytest.mark.jax
def test_a_dead_process_is_not_blocked_though_its_port_was_taken_before_anybody_looked(stack):
    process, hello = start(stack, loopback_address())
    with viewer(hello.requests) as seen:
        seen.until(lambda: is_met(seen))
        kill(process)
        host, _, port = hello.requests.rpartition(":")
        busy = Server(keys.load(), frozenset)
        stack.callback(busy.close)
        assert f"{host}:{busy.bind(host, int(port))[1]}" == hello.telemetry
        seen.until(lambda: states(seen) != ["live"])
        seen.look(2)
        assert states(seen) == ["died"] and "blocked" not in kinds(seen)


@pytest.mark.newest
@pytest.mark.jax
def test_a_successor_at_the_port_is_met_and_the_dead_one_stays_dead(stack, looking):
    address = loopback_address()
    first, hello = start(stack, address)
    with viewer(way_to(stack, hello, looking)) as seen:
        seen.until(lambda: is_met(seen))
        kill(first)
        seen.until(lambda: states(seen) == ["died"])
        _, second = start(stack, address)
        assert second.telemetry == hello.telemetry
        seen.until(lambda: sorted(states(seen)) == ["died", "live"])
        assert kinds(seen) == {"died"} and "back" not in {event.kind for event in seen.cluster.events}


# Many addresses, few descriptors


@pytest.mark.newest
@pytest.mark.jax
def test_fifty_hosts_without_ports_are_tried_with_sixty_four_descriptors(stack, tmp_path):
    _, hello = start(stack, loopback_address())
    names = [f"127.199.0.{i}" for i in range(1, 50)]
    (tmp_path / "hosts").write_text("\n".join([*names, hello.requests.rpartition(":")[0]]))
    words = [*JAXTOP, "snapshot", "--hostfile", tmp_path / "hosts", "--wait", 30]
    done = support.run("bash", "-c", 'ulimit -n 64; exec "$@"', "-", *words)
    document = json.loads(done.stdout)
    assert ([each["state"] for each in document["hosts"]], done.returncode) == (["live"], 1)
    assert {each["state"] for each in document["unmet"]} == {"closed"} and len(document["unmet"]) == 49
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 49


@pytest.mark.newest
@pytest.mark.jax
def test_where_no_descriptor_is_left_it_says_so_and_goes_on_once_there_is(stack, monkeypatch):
    _, hello = start(stack, loopback_address())
    with monkeypatch.context() as tight:
        tight.setattr(descriptors, "RESERVE", 1 << 30)
        with viewer(hello.agent) as seen:
            seen.look(2.5)
            (note,) = seen.source.notes
            assert "1 agent is not followed" in note and "ulimit -n" in note
            assert states(seen) == ["connecting"]
            tight.undo()
            seen.until(lambda: states(seen) == ["live"])
            assert seen.source.notes == []
