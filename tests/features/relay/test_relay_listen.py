"""Relays at an address: viewers dial them like agents, and see each process behind them once."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from contextlib import ExitStack

import pytest
import zmq

from jaxtop import cli, wire
from jaxtop.base import keys
from jaxtop.features.relay import relay_listener, stream
from jaxtop.features.relay.conversation import Conversation, NoRelay
from jaxtop.features.relay.relay_connections import DialledRelays
from jaxtop.model.hosts import newest_hosts
from jaxtop.sources import discovery, peers
from jaxtop.sources.descriptors import Descriptors
from jaxtop.sources.requests import RequestPool
from jaxtop.transport import RelayConnection
from tests.made.agents import Agent, Relay, Viewer, closing
from tests.support import JAXTOP, environment, eventually, free_port, jaxtop, started

PAIR = keys.throwaway()


@pytest.fixture
def stack():
    """Everything that is put here is closed at the end, the last first."""
    with ExitStack() as opened:
        yield lambda thing: opened.enter_context(closing(thing)) and thing


@pytest.fixture
def agents(stack):
    return [stack(Agent(PAIR, index)) for index in range(3)]


def live(*agents):
    return dict.fromkeys(agents, "live")


def test_one_address_shows_all_agents_and_who_comes_late_gets_the_last_values(stack, agents):
    relay = stack(Relay(PAIR, *(each.requests for each in agents)))
    for _ in range(2):
        viewer = stack(Viewer(PAIR, relay.at))
        viewer.until_states(live(*agents))
        viewer.until_settled()
        for host in newest_hosts(viewer.cluster):
            assert set(host.launches) == {"warm_up", "train_step"}, (
                "counters that do not change any more, too"
            )
            assert host.arrays.groups and host.link.path == (relay.id,)
        assert not viewer.cluster.unmet and not viewer.cluster.rejected and not viewer.source.notes


def test_requests_reach_their_agent_and_the_answers_come_back(stack, agents):
    relay = stack(Relay(PAIR, *(each.requests for each in agents)))
    viewer = stack(Viewer(PAIR, relay.at))
    viewer.until_states(live(*agents))
    assert viewer.ask(agents[2].agent, "capture") == wire.Reply("capture", at_ms=2)
    assert viewer.ask("f" * 16, "capture") is None
    assert [("capture", True) in each.asked for each in agents] == [False, False, True]
    before = sum(asked == ("state", True) for each in agents for asked in each.asked)
    assert viewer.ask(agents[0].agent, "state") is not None
    assert before == sum(asked == ("state", True) for each in agents for asked in each.asked)


def test_guests_may_look_and_only_the_owner_may_act(stack, agents):
    guest = keys.throwaway()
    relay = stack(Relay(PAIR, agents[0].requests, guests=frozenset({guest.public})))
    viewer = stack(Viewer(guest, relay.at, owner=PAIR.public))
    viewer.until_states(live(agents[0]))
    assert viewer.ask(agents[0].agent, "stacks") == wire.Reply("stacks", at_ms=0)
    for what in ("capture", "pace", "a command of a later version"):
        reply = viewer.ask(agents[0].agent, what)
        assert reply is not None and "only the owner" in reply.error
    assert {what for what, _ in agents[0].asked} <= {"roster", "state", "stacks"}


def test_a_wrong_key_is_said(stack, agents):
    relay = stack(Relay(PAIR, agents[0].requests))
    viewer = stack(Viewer(keys.throwaway(), relay.at))
    viewer.until(
        lambda: any("does not accept your key" in each.why for each in viewer.cluster.unmet.values())
    )
    assert not viewer.cluster.hosts


def test_relays_of_relays_show_each_process_once_even_in_a_circle(stack, agents):
    port = free_port()
    near = stack(Relay(PAIR, agents[0].requests, f"127.0.0.1:{port}"))
    far = stack(Relay(PAIR, agents[1].requests, near.at, port=port))
    top = stack(Relay(PAIR, near.at, far.at))
    viewer = stack(Viewer(PAIR, top.at, near.at))
    viewer.until_states(live(*agents[:2]))
    assert viewer.ask(agents[1].agent, "capture") == wire.Reply("capture", at_ms=1)
    assert len(agents[1].asked) == len(set(agents[1].asked)), "a request arrives once"
    agents[1].close()
    viewer.until(lambda: viewer.states()[agents[1].agent] == "died")


def test_a_relay_that_is_pointed_at_itself_says_so(stack, agents):
    port = free_port()
    relay = stack(Relay(PAIR, agents[0].requests, f"127.0.0.1:{port}", port=port))
    viewer = stack(Viewer(PAIR, relay.at))
    viewer.until_states(live(agents[0]))
    viewer.until(lambda: any("it is this relay" in note for note in viewer.source.notes))


def test_a_process_with_two_paths_is_shown_once_and_keeps_living_without_one(stack, agents):
    port = free_port()
    relay = Relay(PAIR, *(each.requests for each in agents), port=port)
    with closing(relay):
        viewer = stack(Viewer(PAIR, relay.at, agents[0].requests))
        viewer.until_states(live(*agents))
        viewer.until(lambda: len([each for each in viewer.frames if each.kind == "pulse"]) > 20)
        pulses = [(each.agent, each.sequence) for each in viewer.frames if each.kind == "pulse"]
        assert len(pulses) - len(set(pulses)) <= len(agents), "only the last values may come twice"
    viewer.until_states({agents[0]: "live", agents[1]: "unreachable", agents[2]: "unreachable"})
    assert any("was lost" in note for note in viewer.source.notes)
    stack(Relay(PAIR, *(each.requests for each in agents), port=port))
    viewer.until_states(live(*agents))
    assert not viewer.source.notes and not viewer.cluster.unmet


def test_what_the_relay_cannot_reach_is_shown_with_the_relay(stack):
    nothing = f"127.0.0.1:{free_port()}"
    relay = stack(Relay(PAIR, nothing))
    viewer = stack(Viewer(PAIR, relay.at))
    shown = f"{nothing} behind {relay.at}"
    viewer.until(lambda: shown in viewer.cluster.unmet)
    viewer.until(lambda: "nothing listens there" in viewer.cluster.unmet[shown].why)
    assert list(viewer.cluster.unmet) == [shown] and viewer.source.is_settled


def test_an_agent_that_ended_is_shown_as_ended(stack):
    agent = Agent(PAIR, 7, says_goodbye=True)
    with closing(agent):
        relay = stack(Relay(PAIR, agent.requests))
        viewer = stack(Viewer(PAIR, relay.at))
        viewer.until_states(live(agent))
    viewer.until_states({agent: "ended"})
    late = stack(Viewer(PAIR, relay.at))
    late.until_states({agent: "ended"})


def test_the_next_run_at_an_address_is_found_however_long_ago_the_last_one_ended(stack, monkeypatch):
    for name, value in (("TIDY_EVERY", 0.1), ("FEWEST_ENDED", 0), ("ENDED_SECONDS", 0.0)):
        monkeypatch.setattr(peers, name, value)
    first = Agent(PAIR, 7)
    with closing(first):
        relay = stack(Relay(PAIR, first.requests))
        viewer = stack(Viewer(PAIR, relay.at))
        viewer.until_states({first: "live"})
    viewer.until_states({first: "died"})
    viewer.until(lambda: viewer.cluster.unmet)
    second = stack(Agent(PAIR, 8, port=first.port))
    viewer.until_states({first: "died", second: "live"})


def test_viewers_are_bounded_and_one_too_many_is_refused_with_the_reason(stack, agents, monkeypatch):
    monkeypatch.setattr(relay_listener, "MOST_VIEWERS", 1)
    relay = stack(Relay(PAIR, agents[0].requests))
    with closing(Viewer(PAIR, relay.at)) as (first,):
        first.until_states(live(agents[0]))
        second = stack(Viewer(PAIR, relay.at))
        second.until(lambda: any("1 viewers, and takes no more" in note for note in second.source.notes))
    second.until_states(live(agents[0]))


def test_a_relay_refuses_a_viewer_of_another_version(stack, agents):
    relay = stack(Relay(PAIR, agents[0].requests))
    viewer = stack(Viewer(PAIR, relay.at))
    viewer.until_states(live(agents[0]))
    context = zmq.Context()
    dialogue = RelayConnection(context, PAIR, PAIR.public, relay.at)
    dialogue.send(stream.encode(stream.Open(version=wire.VERSION - 1)))
    (answer,) = eventually(lambda: [stream.decode(each) for each in dialogue.take(9)])
    dialogue.close()
    context.destroy(linger=0)
    assert isinstance(answer, stream.RelayRefused)
    assert f"speaks version {wire.VERSION - 1}" in answer.why and "install the same jaxtop" in answer.why


def test_a_viewer_leaves_a_relay_of_another_version():
    conversation = Conversation("the relay at node:7410", [].append, 0.0)
    with pytest.raises(NoRelay, match=r"node:7410 speaks version 99, .* install the same jaxtop"):
        conversation.process(stream.Opened("9.9", 99), 0.0)


def test_senseless_messages_do_no_harm(stack, agents):
    relay = stack(Relay(PAIR, agents[0].requests))
    context = zmq.Context()
    for raw in (
        b"",
        b"\xc1",
        stream.encode(stream.Alive(1 << 60)),
        stream.encode(stream.Status()),
        bytes(60_000),
    ):
        dialogue = RelayConnection(context, PAIR, PAIR.public, relay.at)
        dialogue.send(raw)
        dialogue.send(stream.encode(stream.Open(version=wire.VERSION)))
        dialogue.send(raw)
        eventually(lambda sent=dialogue: sent.take(10), every=0.05)
        dialogue.close()
    context.destroy(linger=0)
    viewer = stack(Viewer(PAIR, relay.at))
    viewer.until_states(live(agents[0]))


def test_relays_and_requests_wait_if_no_socket_is_left():
    context, at, answers = zmq.Context(), "127.0.0.1:7410", []
    context.max_sockets = 1
    relays = DialledRelays(context, PAIR, PAIR.public, Descriptors(), lambda *_: None)
    requests = RequestPool(context, PAIR, PAIR.public, Counter(), Descriptors())
    with context.socket(zmq.DEALER):
        assert not relays.found("far", at, "id", 0.0)
        requests.send(at, wire.Request("roster"), 0.0, lambda *answer: answers.append(answer))
        requests.take(60.0)
    requests.close()
    context.destroy()
    assert not answers


@pytest.fixture
def own_key(home):
    """The pair of this user, in the home of the test."""
    folder = home / ".config" / "jaxtop"
    folder.mkdir(parents=True)
    (folder / "key").write_bytes(PAIR.secret)
    (folder / "key").chmod(0o600)


@pytest.mark.usefixtures("own_key")
def test_the_command_says_what_it_serves_and_ends_with_sigterm(agents):
    at = f"127.0.0.1:{free_port()}"
    words = [*JAXTOP, "relay", "--listen", at, *(each.requests for each in agents)]
    with started(words, stderr=subprocess.PIPE, text=True, env=environment()) as relay:
        assert relay.stderr is not None
        assert f"listens on {at}: `jaxtop attach {at}`" in relay.stderr.readline()
        assert "serves 3 processes" in relay.stderr.readline()
        done = jaxtop("snapshot", at)
        assert done.returncode == 0 and not done.stderr, done.stderr
        again = jaxtop("relay", "--listen", at, agents[0].requests)
        assert (again.returncode, again.stderr.count("\n")) == (2, 1) and "in use" in again.stderr
        relay.send_signal(signal.SIGTERM)
        assert relay.wait() == 0 and not relay.stderr.read()


@pytest.mark.usefixtures("own_key")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--listen", "192.0.2.1:7410", "127.0.0.1:1"), "cannot listen on 192.0.2.1:7410"),
        (("--listen", "no-such-host.invalid", "127.0.0.1:1"), "can be resolved"),
        (("--listen", "127.0.0.1:x", "127.0.0.1:1"), "x is not a port"),
        (("--listen", ":0", "no-such-run.invalid"), "neither a live run"),
        (("--listen", ":0", "--stdio"), "not allowed with"),
        (("--listen", ":0", "--map", "a:1=b"), "is not HOST:PORT=HOST:PORT"),
    ],
)
def test_what_cannot_be_served_is_one_line(words, why, capsys):
    before = signal.getsignal(signal.SIGTERM)
    status = cli.main(["relay", *words])
    signal.signal(signal.SIGTERM, before)
    said = [line for line in capsys.readouterr().err.splitlines() if "listens on" not in line]
    assert status == 2 and len(said) == 1 and why in said[0]


@pytest.mark.parametrize("has_ports", [True, False])
def test_a_forwarded_port_is_dialled_in_place_of_the_address(stack, has_ports):
    agent = stack(Agent(PAIR, 5, advertised="192.0.2.9"))
    ports = [each.rpartition(":")[2] for each in (agent.requests, agent.telemetry)]
    entries = [f"node05:{port}=localhost:{port}" for port in ports] if has_ports else ["node05=localhost"]
    viewer = stack(Viewer(PAIR, f"node05:{ports[0]}", address_map=discovery.forwards(entries)))
    viewer.until_states(live(agent))
    (host,) = newest_hosts(viewer.cluster)
    assert host.link.endpoint == f"127.0.0.1:{ports[1]}" and host.hello.telemetry == f"192.0.2.9:{ports[1]}"
