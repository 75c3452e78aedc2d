"""The transport, over real sockets: who is let in, what a viewer may cost, and where it is served."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress

import psutil
import pytest
import zmq

from jaxtop.base import keys
from jaxtop.transport import Outcome, RequestConnection, Server, Subscriber, client
from jaxtop.transport.listener import ALLOWED_BYTES
from jaxtop.transport.telemetry import MAX_SENT
from tests.real.sockets import Agent, Relay, RelaySocket, local, noticed, outcome_of
from tests.support import PYTHON, SOAK, environment, eventually, free_port, processes, run

MARK = b"a figure that only the owner may read"


@pytest.fixture
def owner():
    return keys.throwaway()


@pytest.fixture
def agent(owner):
    made = Agent(owner)
    yield made
    made.server.close()


@pytest.fixture
def context():
    made = zmq.Context()
    yield made
    made.destroy(linger=0)


@pytest.fixture
def viewers(context, owner):
    """Makes viewers, and closes them afterwards."""
    made = []

    def make(agent, pair=owner, server=owner.public, endpoint=None):
        made.append(Subscriber(context, pair, server, queue=1000))
        made[-1].connect(endpoint or agent.telemetry)
        return made[-1]

    yield make
    for viewer in made:
        viewer.close()


@pytest.fixture
def relay(agent):
    made = Relay(agent.telemetry)
    yield made
    made.close()


# Who is let in


def test_the_owner_gets_telemetry_and_answers(agent, viewers, context, owner):
    viewer = viewers(agent)
    agent.until(lambda: agent.server.viewers == 1)
    assert noticed(viewer, client.UP)()
    agent.server.publish([b"pulse", b"header", MARK])
    assert agent.until(lambda: viewer.take(10)) == [[b"pulse", b"header", MARK]]
    question = RequestConnection(context, owner, owner.public, agent.requests, b"what is up?")
    agent.until(lambda: agent.asked)
    assert (agent.asked[0].is_owner, agent.asked[0].raw) == (True, b"what is up?")
    agent.server.reply(agent.asked[0].sender, [b"all", b"is", b"well"])
    assert agent.until(question.reply) == [b"all", b"is", b"well"]
    question.close()


def test_a_colleague_may_see_and_is_known_as_a_guest(agent, viewers, context, owner):
    """Listed while the run goes on: nothing needs a restart."""
    colleague = keys.throwaway()
    agent.guests = {colleague.public}
    viewer = viewers(agent, colleague)
    agent.until(lambda: agent.server.viewers == 1)
    agent.server.publish([b"pulse", b"header", MARK])
    assert agent.until(lambda: viewer.take(10))
    question = RequestConnection(context, colleague, owner.public, agent.requests, b"faster!")
    agent.until(lambda: agent.asked)
    assert not agent.asked[0].is_owner
    question.close()


def test_what_travels_is_encrypted(agent, relay, viewers):
    viewer = viewers(agent, endpoint=relay.endpoint)
    agent.until(lambda: agent.server.viewers == 1)
    agent.server.publish([b"pulse", b"header", MARK])
    assert agent.until(lambda: viewer.take(10))
    assert len(relay.sent) > len(MARK) and MARK not in relay.sent


def test_a_stranger_is_refused_and_gets_not_a_byte(agent, relay, viewers):
    """He knows the agent's public key and has one of his own; much is published meanwhile."""
    stranger = viewers(agent, keys.throwaway(), endpoint=relay.endpoint)
    listed = viewers(agent)
    agent.until(lambda: agent.server.viewers == 1)
    agent.until(noticed(stranger, client.NOT_ADMITTED))
    before = len(relay.sent)
    for _ in range(50):
        agent.server.publish([b"pulse", b"header", MARK * 100])
        agent.turn()
    assert agent.until(lambda: listed.take(1))
    agent.turn_for(0.5)
    assert stranger.take(10) == []
    # Greeting and handshake, up to the no: nothing that depends on what was published.
    assert before <= len(relay.sent) < 1000
    assert agent.server.viewers == 1


def test_a_stranger_is_let_in_once_he_is_listed(agent, viewers):
    """ZeroMQ does not knock again by itself after a no: a viewer connects anew."""
    colleague = keys.throwaway()
    viewer = viewers(agent, colleague)
    agent.until(noticed(viewer, client.NOT_ADMITTED))
    agent.guests = {colleague.public}
    viewer.disconnect(agent.telemetry)
    viewer.connect(agent.telemetry)
    agent.until(noticed(viewer, client.UP))


def test_a_viewer_with_another_owners_key_sees_that_it_is_another(agent, viewers):
    """The agent behind the address is not the one that was meant: neither learns anything of the other."""
    other = keys.throwaway()
    viewer = viewers(agent, other, other.public)
    agent.until(noticed(viewer, client.OTHER_KEY))
    assert agent.server.viewers == 0 and viewer.take(1) == []


@pytest.mark.parametrize("mechanism", ["NULL", "PLAIN"])
def test_there_is_no_way_in_without_encryption(agent, relay, context, mechanism):
    with context.socket(zmq.SUB) as plain, context.socket(zmq.DEALER) as asker:
        for each in (plain, asker):
            if mechanism == "PLAIN":
                each.plain_username, each.plain_password = b"owner", b"owner"
            each.linger = 0
        plain.subscribe(b"")
        plain.connect(f"tcp://{relay.endpoint}")
        asker.connect(f"tcp://{agent.requests}")
        asker.send(b"what is up?")
        for _ in range(50):
            agent.server.publish([b"pulse", b"header", MARK])
            agent.turn()
        agent.turn_for(0.5)
        assert plain.poll(0) == 0 and MARK not in relay.sent
        assert agent.asked == [] and agent.server.viewers == 0
        assert len(relay.sent) > 0  # it was there, and had its greeting


def test_a_strangers_question_is_not_even_read(agent, context, owner):
    question = RequestConnection(context, keys.throwaway(), owner.public, agent.requests, b"what is up?")
    agent.until(noticed(question, client.NOT_ADMITTED))
    assert agent.asked == [] and question.reply() is None
    question.close()


def test_nobody_gets_in_while_nobody_keeps_the_gate(owner, viewers):
    """Where the authenticator does not answer, nobody gets in."""
    agent = Agent(owner)
    viewer = viewers(agent)
    end = time.monotonic() + 2.5
    seen = []
    while time.monotonic() < end:
        agent.server.publish([b"pulse", b"header", MARK])
        seen += [change.what for change in viewer.changes()]
        assert viewer.take(1) == []
        time.sleep(0.05)
    assert client.NO_ANSWER in seen and client.UP not in seen
    agent.until(noticed(viewer, client.UP))  # it opens by itself, as soon as it is kept again
    agent.server.close()


@pytest.mark.parametrize("parts", [[b""], [b"a", b"b"], [b""] * 5, [b"\xff" * 65_000]], ids=len)
def test_odd_requests_harm_nobody(agent, context, owner, parts):
    odd = RequestConnection(context, owner, owner.public, agent.requests, b"first")
    odd.socket.send_multipart(parts)
    odd.socket.send(b"x" * 70_000)  # larger than any request: the connection is closed on it
    agent.turn_for(0.3)
    plain = RequestConnection(context, owner, owner.public, agent.requests, b"and now?")
    agent.until(lambda: b"and now?" in [asked.raw for asked in agent.asked])
    assert max(len(asked.raw) for asked in agent.asked) <= 65_000
    odd.close()
    plain.close()


# How many watch, and what they cost


def test_every_viewer_is_seen_to_come_and_to_go(agent, viewers):
    made = []
    for count in (1, 2, 3):
        made.append(viewers(agent))
        agent.until(lambda: agent.server.viewers == count)  # noqa: B023 - called at once
        assert agent.came == count
    for count in (2, 1, 0):
        leaving = made.pop()
        leaving.disconnect(agent.telemetry)
        agent.until(lambda: leaving.take(1) or agent.server.viewers == count)  # noqa: B023
    assert agent.came == 3


def test_an_answer_to_someone_who_left_is_dropped(agent, context, owner):
    question = RequestConnection(context, owner, owner.public, agent.requests, b"bye")
    agent.until(lambda: agent.asked)
    question.close()
    agent.turn_for(0.2)
    agent.server.reply(agent.asked[0].sender, [b"too late"])
    agent.server.reply(b"nobody", [b"too late"])


def test_the_last_words_arrive(owner, viewers):
    """Also behind larger ones that are still on their way."""
    for _ in range(5):
        agent = Agent(owner)
        viewer = viewers(agent)
        agent.until(lambda: agent.server.viewers == 1)  # noqa: B023 - called at once
        for kind in (b"arrays", b"arrays", b"bye"):
            agent.server.publish([kind, b"header", bytes(200_000)])
        agent.server.close()
        eventually(lambda: b"bye" in [parts[0] for parts in viewer.take(10)], every=0.01)  # noqa: B023


VIEWER = """
import os, sys, time, zmq
from jaxtop.base import keys
from jaxtop.transport import Subscriber
pair = keys.load()
viewer = Subscriber(zmq.Context(), pair, pair.public, queue=10)
viewer.connect(sys.argv[1])
while True:
    for parts in viewer.take(100):
        print(parts[1].decode(), flush=True)
    time.sleep(0.001)
"""
PUBLISHER = """
import os, psutil, sys
from jaxtop.base import keys
from jaxtop.transport import Server
server = Server(keys.load(), frozenset)
print(server.bind("127.0.0.1", int(sys.argv[1]))[1], flush=True)
def publish(number, size):
    server.poll(0)
    server.publish([b"pulse", b"%d" % number, os.urandom(size)])
while not server.viewers:
    server.poll(10)
for i in range(50):
    publish(i, 50_000)
input()
before = peak = psutil.Process().memory_info().rss
for i in range(50, 20_050):
    publish(i, 50_000)
    if i % 100 == 0:
        peak = max(peak, psutil.Process().memory_info().rss)
print(before, peak, server.viewers, flush=True)
while server.viewers:
    i += 1
    publish(i, 50_000)
    server.poll(10)
print("left alone", flush=True)
"""


def test_a_viewer_that_stops_reading_costs_little_and_holds_up_nobody():
    """A gigabyte is published to a viewer that sleeps; when it wakes up, it gets what is new by itself."""
    keys.load()
    pipes = {"stdout": subprocess.PIPE, "env": environment()}
    publish = subprocess.Popen([PYTHON, "-c", PUBLISHER, str(free_port())], stdin=subprocess.PIPE, **pipes)
    with publish:
        try:
            port = int(publish.stdout.readline())
            with processes([PYTHON, "-c", VIEWER, local(port)], **pipes) as (view,):
                assert int(view.stdout.readline()) < 50
                view.send_signal(signal.SIGSTOP)
                publish.stdin.write(b"\n")
                publish.stdin.flush()
                before, peak, watching = map(int, publish.stdout.readline().split())
                assert watching == 1
                assert peak - before < 16 * 2**20
                view.send_signal(signal.SIGCONT)
                assert any(int(line) > 20_050 for line in view.stdout)
                view.kill()  # and one that is gone is not published to
                assert publish.stdout.readline() == b"left alone\n"
        finally:
            publish.kill()


GUEST = """
import sys, time, zmq
from jaxtop.base import keys
owner, own = sys.argv[1].encode(), keys.KeyPair(sys.argv[2].encode(), sys.argv[3].encode())
parts, context, made = int(sys.argv[4]), zmq.Context(), []
for address in sys.argv[5:]:
    made.append(context.socket(zmq.DEALER))
    made[-1].sndhwm, made[-1].heartbeat_ivl, made[-1].heartbeat_timeout = 1000, 1, 100_000
    made[-1].curve_serverkey, made[-1].curve_publickey, made[-1].curve_secretkey = owner, *own
    made[-1].connect("tcp://" + address)
    made[-1].send(b"")
print("connected", flush=True)
sys.stdin.readline()
while True:                       # as fast as it is taken
    for each in made:
        try:
            for _ in range(parts - 1):
                each.send(bytes(3_000), zmq.NOBLOCK | zmq.SNDMORE)
            each.send(bytes(3_000), zmq.NOBLOCK)
        except zmq.Again:
            time.sleep(0.0001)
"""


@contextmanager
def flood(agent, owner, addresses, parts=1):
    """A guest that has sent one message to each address; it sends without end once its input is closed."""
    guest = keys.throwaway()
    agent.guests = {guest.public}
    words = [word.decode() for word in (owner.public, guest.public, guest.secret)]
    words = [PYTHON, "-c", GUEST, *words, str(parts), *addresses]
    with processes(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as (process,):
        os.set_blocking(process.stdout.fileno(), False)
        agent.until(process.stdout.readline)
        yield guest, process


def told(agent, viewer):
    """A new message that this viewer gets, though it may have to connect again before."""
    now = b"%d" % time.monotonic_ns()

    def taken():
        viewer.changes()
        agent.server.publish([b"pulse", now, MARK])
        return [each for each in viewer.take(1000) if each[1] == now]

    kind, _, mark = agent.until(taken)[0]
    return [kind, mark]


@pytest.mark.parametrize("which", ["telemetry", "requests", "both"])
def test_a_guest_that_sends_twice_is_refused_and_others_are_served(agent, viewers, owner, which):
    """Its messages would fill a queue, and ZeroMQ ends a process that reads on after such a peer has died."""
    viewer = viewers(agent)
    told(agent, viewer)
    addresses = [agent.telemetry, agent.requests] if which == "both" else [getattr(agent, which)]
    before = psutil.Process().memory_info().rss
    with flood(agent, owner, addresses) as (guest, process):
        process.stdin.close()
        for _ in range(5):
            agent.turn_for(0.2)
            agent.asked.clear()  # else questions that the test itself holds would count
            assert psutil.Process().memory_info().rss - before < 16 * 2**20
        agent.until(noticed(viewers(agent, guest), client.NOT_ADMITTED))
        assert told(agent, viewer) == [b"pulse", MARK]
        agent.until(lambda: agent.server.viewers == 1)
    assert told(agent, viewer) == [b"pulse", MARK]


def test_a_message_without_an_end_is_cut_off(agent, viewers, owner):
    """Its parts would be kept until the last one."""
    viewer = viewers(agent)
    before = psutil.Process().memory_info().rss
    with flood(agent, owner, [agent.telemetry], parts=10**9) as (_, process):
        process.stdin.close()
        most = 0
        for _ in range(100):
            agent.turn_for(0.05)
            most = max(most, psutil.Process().memory_info().rss - before)
        assert told(agent, viewer) == [b"pulse", MARK]
    assert most < 512 * 2**20


@pytest.mark.long
def test_an_agent_outlives_guests_that_die_while_their_queue_is_full(owner, viewers):
    """And whose signs of life are among what it has not read, and whose end is a reset."""
    agent = Agent(owner)
    for _ in range(100 if SOAK else 3):
        with flood(agent, owner, [agent.telemetry, agent.requests]) as (_, process):
            agent.until(lambda: agent.server.viewers and agent.asked)
            process.stdin.close()
            time.sleep(0.2)  # Python does not run, and the queue fills
            for _ in range(50):
                agent.server.publish([b"pulse", b"header", bytes(1000)])  # what it has not read makes a reset
            process.kill()
            process.wait()
            time.sleep(0.1)
            agent.asked.clear()
            agent.turn_for(0.2)
    assert told(agent, viewers(agent)) == [b"pulse", MARK]
    agent.server.close()


@pytest.mark.long
def test_a_relay_outlives_guests_that_die_while_it_does_not_read(owner):
    """As above; its viewers send many messages, and it reads all of them."""
    relay = RelaySocket(owner)
    before = psutil.Process().memory_info().rss
    for _ in range(100 if SOAK else 3):
        relay.asked.clear()
        with flood(relay, owner, [relay.endpoint]) as (_, process):
            relay.until(lambda: relay.asked)
            sender = relay.asked[0].sender
            process.stdin.close()
            time.sleep(0.2)
            for _ in range(50):
                relay.hub.send(sender, bytes(1000))
            process.kill()
            process.wait()
            time.sleep(0.1)
            while relay.hub.take():
                pass
    assert psutil.Process().memory_info().rss - before < 256 * 2**20
    with flood(relay, owner, [relay.endpoint]) as (_, process):
        relay.until(lambda: relay.asked)
        process.stdin.close()
    relay.hub.close()


def test_a_relay_cuts_off_who_sends_without_end(owner):
    relay = RelaySocket(owner)
    with flood(relay, owner, [relay.endpoint]) as (_, process):
        process.stdin.close()
        relay.until(lambda: sum(len(each.raw) for each in relay.asked) > ALLOWED_BYTES)
        sender = relay.asked[0].sender

        def is_gone():
            with suppress(ConnectionError):
                relay.hub.send(sender, b"")
                return False
            return True

        assert relay.until(is_gone)
    relay.hub.close()


ASKED = """
import sys, time, zmq
server = zmq.Context().socket(zmq.ROUTER)
server.sndhwm = 0
server.curve_server, server.curve_secretkey = True, sys.argv[1].encode()
print(server.bind_to_random_port("tcp://127.0.0.1"), flush=True)
sender, _ = server.recv_multipart()
for i in range(20_000):
    server.send_multipart([sender, bytes(1_000)])
print("sent", flush=True)
time.sleep(60)
"""
ASKS = """
import sys, time, zmq
from jaxtop.base import keys
from jaxtop.transport import RequestConnection
pair = keys.KeyPair(sys.argv[1].encode(), sys.argv[2].encode())
question = RequestConnection(zmq.Context(), pair, pair.public, sys.argv[3], b"a question")
print("asked", flush=True)
sys.stdin.readline()
time.sleep(1.5)                   # a heartbeat would have been due
question.close()
"""


def test_one_who_asks_survives_the_death_of_an_agent_that_answers_without_end(owner):
    """A training process asks another one for its clock: ZeroMQ must not end it with that one."""
    public, secret = owner.public.decode(), owner.secret.decode()
    pipe = subprocess.PIPE
    with processes([PYTHON, "-c", ASKED, secret], stdout=pipe) as (asked,):
        endpoint = f"127.0.0.1:{asked.stdout.readline().strip()}"
        words = [PYTHON, "-c", ASKS, public, secret, endpoint]
        with processes(words, stdin=pipe, stdout=pipe) as (asks,):
            assert asks.stdout.readline() and asked.stdout.readline() == "sent\n"
            asked.kill()
            asked.wait()
            asks.communicate("\n")
            assert asks.returncode == 0


def test_a_viewer_follows_an_agent_that_is_started_again(owner, viewers):
    """At the same address: it announces itself anew."""
    agent = Agent(owner)
    viewer = viewers(agent)
    for _ in range(3):
        agent.until(lambda: (viewer.changes(), agent.server.viewers)[1])  # noqa: B023 - called at once
        agent.server.publish([b"pulse", b"header", MARK])
        assert agent.until(lambda: viewer.take(10)) == [[b"pulse", b"header", MARK]]
        agent.server.close()
        agent = Agent(owner, first=int(agent.requests.rpartition(":")[2]))
    agent.server.close()


# Where it is served


def test_a_taken_port_is_passed_over(owner):
    """Two runs of a user on one host are neighbours, and each knows its own ports."""
    first = free_port()
    with socket.create_server(("127.0.0.1", first)):
        servers = [Server(owner, frozenset) for _ in range(3)]
        bound = [port for server in servers for port in server.bind("127.0.0.1", first)]
        for server in servers:
            server.close()
    assert bound == sorted(set(bound)) and first < bound[0] and bound[-1] < first + 2048


def test_where_no_port_is_left_it_says_so(owner):
    server = Server(owner, frozenset)
    with pytest.raises(OSError, match=r"no free port on 127\.0\.0\.1"):
        server.bind("127.0.0.1", 65535)
    server.close()


def test_ipv6_works_as_well(owner, viewers):
    agent = Agent(owner)
    first = free_port()
    try:
        socket.create_server(("::1", first), family=socket.AF_INET6).close()
    except OSError:
        agent.server.close()
        pytest.skip("this machine has no IPv6 loopback")
    _, telemetry = agent.server.bind("::1", first)
    viewers(agent, endpoint=f"[::1]:{telemetry}")
    agent.until(lambda: agent.server.viewers == 1)
    assert outcome_of(f"[::1]:{telemetry}") == Outcome.GREETED
    agent.server.close()


@pytest.mark.parametrize(("size", "stays"), [(MAX_SENT // 2, True), (MAX_SENT + 1, False)])
def test_a_viewer_that_sends_too_much_at_once_is_disconnected(agent, owner, context, size, stays):
    other = context.socket(zmq.DEALER)
    other.linger, other.reconnect_ivl = 0, -1
    other.curve_publickey, other.curve_secretkey, other.curve_serverkey = (
        owner.public,
        owner.secret,
        owner.public,
    )
    monitor = other.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    other.connect(f"tcp://{agent.telemetry}")
    other.send(b"x" * size)
    agent.until(lambda: monitor.poll(0) or (stays and agent.turn_for(0.5) is None))
    assert bool(monitor.poll(0)) != stays
    other.disable_monitor()
    monitor.close()
    other.close()


SERVER_WITHOUT_DESCRIPTORS = """
import resource, socket, time
from jaxtop import transport
from jaxtop.base import keys

server = transport.Server(keys.load(), keys.authorized)
ports = server.bind("127.0.0.1")
server.poll(5)
peers = [socket.socket() for _ in range(4)]
resource.setrlimit(resource.RLIMIT_NOFILE, (16, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for peer, port in zip(peers, ports * 2):
    peer.connect(("127.0.0.1", port))
    peer.send(b"x")
time.sleep(0.3)  # no connection can be accepted, and nobody reads that
server.close()
print("closed")
"""
VIEWER_OF_NOBODY = """
import time, zmq
from jaxtop import transport
from jaxtop.base import keys

pair, context = keys.load(), zmq.Context()
subscriber = transport.Subscriber(context, pair, pair.public, 10)
for number in range(1000):
    subscriber.connect(f"127.0.0.{1 + number % 200}:{1 + number // 200}")
time.sleep(2)  # each is tried four times a second, and nobody reads that it failed
subscriber.close()
print("closed")
"""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("program", [SERVER_WITHOUT_DESCRIPTORS, VIEWER_OF_NOBODY], ids=["server", "viewer"])
def test_sockets_close_although_nobody_has_read_their_events(program):
    """They held the GIL and waited for ever: a script with few descriptors did not end, nor did a viewer."""
    done = run(PYTHON, "-c", program)
    assert (done.stdout, done.returncode) == ("closed\n", 0), done.stderr
