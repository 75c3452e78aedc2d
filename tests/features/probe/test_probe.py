"""Why an address is silent: stopped, dead, cut off and never there are told apart."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import zmq

from jaxtop.base import keys
from jaxtop.sources.connection import Connection
from jaxtop.sources.descriptors import Descriptors
from jaxtop.transport import Outcome, ReachabilityCheck, Subscriber, client
from jaxtop.wire import LinkState
from tests import patience
from tests.real.sockets import Agent, local, noticed, outcome_of
from tests.support import PYTHON, eventually, free_port, processes

KNOCKS = 300


def test_a_process_that_runs_greets_whatever_its_python_does():
    agent = Agent(keys.throwaway())
    assert outcome_of(agent.requests) == outcome_of(agent.telemetry) == Outcome.GREETED
    agent.server.close()


def test_a_port_where_something_accepts_and_says_nothing_is_silent():
    with socket.create_server(("127.0.0.1", 0)) as quiet:
        assert outcome_of(local(quiet.getsockname()[1])) == Outcome.NOT_GREETED


def test_a_port_where_nobody_listens_is_closed():
    assert outcome_of(local(free_port())) == Outcome.CLOSED


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH_9.9\r\n"], ids=["hangs up", "another protocol"])
def test_a_port_that_belongs_to_something_else_hangs_up(said):
    with socket.create_server(("127.0.0.1", 0)) as other:
        knock = ReachabilityCheck(local(other.getsockname()[1]), time.monotonic())
        here, _ = other.accept()
        here.sendall(said)
        here.close()
        assert eventually(lambda: knock.advance(time.monotonic()), every=0.01) == Outcome.HUNG_UP


def test_an_address_that_never_answers_is_unreachable():
    """A listener whose queue is full drops what comes, as a cut line does."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        with socket.create_connection(address):
            assert outcome_of(local(address[1])) == Outcome.UNREACHABLE


@pytest.mark.parametrize(
    "nonsense", ["", ":", "nonsense", "127.0.0.1:", "127.0.0.1:0x", "127.0.0.1:70000", "127.0.0.1:-1", "[::1"]
)
def test_an_address_that_is_none_is_unreachable(nonsense):
    """Addresses come from rosters, too: a broken one must not end the viewer."""
    assert outcome_of(nonsense) == Outcome.UNREACHABLE


SERVER = """
import os, sys, time
from jaxtop.base import keys
from jaxtop.sources.connection import Connection
from jaxtop.sources.descriptors import Descriptors
from jaxtop.transport import Server
server = Server(keys.load(), frozenset)
_, telemetry = server.bind("127.0.0.1", int(sys.argv[1]))
def in_child():
    if "after_fork" in sys.argv:
        server.after_fork()
def fork(then):
    is_ready, ready = os.pipe()
    child = os.fork()
    if not child:
        in_child()
        os.write(ready, b"1")
        then()
        os._exit(0)
    os.read(is_ready, 1)
    return child
child = 0
if "fork" in sys.argv:
    assert os.waitpid(fork(lambda: None), 0)[1] == 0
    child = fork(lambda: time.sleep(600))
if "exec" in sys.argv:
    import subprocess
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False).pid
print(telemetry, child, flush=True)
while True:
    server.poll(20)
    server.publish([b"pulse", b"header", b"figures"])
"""


def test_a_stopped_process_is_silent_however_often_one_asks():
    """Those who asked in vain fill the queue of a process that does not run; it must not look cut off."""
    keys.load()
    with processes([PYTHON, "-c", SERVER, free_port()], stdout=subprocess.PIPE) as (process,):
        port = process.stdout.readline().split()[0]
        assert outcome_of(local(port)) == Outcome.GREETED
        stop(process)
        for _ in range(KNOCKS):
            socket.create_connection(("127.0.0.1", int(port)), timeout=patience.left()).close()
        assert outcome_of(local(port)) == Outcome.NOT_GREETED
        process.send_signal(signal.SIGCONT)
        assert eventually(lambda: outcome_of(local(port)) == Outcome.GREETED)


def test_a_failure_while_a_process_is_stopped_is_no_sign_of_blocked_python():
    """Nobody hears that a process is blocked because it was stopped, and runs again."""
    keys.load()
    with processes([PYTHON, "-c", SERVER, free_port()], stdout=subprocess.PIPE) as (process,):
        connection = Connection(local(process.stdout.readline().split()[0]), Descriptors())
        connection.become(LinkState.UP)
        stop(process)
        connection.change(client.NO_ANSWER, now=0)
        assert learned(connection, now=0) == "silent"
        connection.change(client.NO_ANSWER, now=10)
        process.send_signal(signal.SIGCONT)
        assert learned(connection, now=10) is None
        connection.change(client.NO_ANSWER, now=20)
        assert learned(connection, now=20) == "deaf"
        connection.close()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop it, and wait until none of its threads can greet any more."""
    process.send_signal(signal.SIGSTOP)
    threads = Path(f"/proc/{process.pid}/task")
    assert eventually(
        lambda: all(
            (each / "stat").read_text().rpartition(")")[2].split()[0] == "T" for each in threads.iterdir()
        ),
        every=0.01,
    )


def learned(connection: Connection, now: float) -> str | None:
    """What the connection learns from the probe that is due now."""
    began = time.monotonic()
    state = connection.advance(now)
    while connection.wait_with(zmq.Poller()):
        time.sleep(0.01)
        state = connection.advance(now + time.monotonic() - began)
    return state


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (["fork", "after_fork"], Outcome.CLOSED),
        (["fork"], Outcome.NOT_GREETED),
        (["exec"], Outcome.CLOSED),
    ],
    ids=["a forked child that lets go", "a forked child that does not", "a child of exec"],
)
def test_a_dead_process_is_closed_also_while_its_child_lives(words, outcome):
    """A forked child would hold the connections of its dead parent, which then looks stopped."""
    pair = keys.load()
    command = [PYTHON, "-c", SERVER, free_port(), *words]
    with processes(command, stdout=subprocess.PIPE) as (parent,):
        port, child = map(int, parent.stdout.readline().split())
        context = zmq.Context()
        viewer = Subscriber(context, pair, pair.public, queue=10)
        try:
            viewer.connect(local(port))
            # The children let go of theirs without disturbing the parent's.
            eventually(lambda: viewer.take(1), every=0.01)
            viewer.changes()
            parent.kill()
            parent.wait()
            eventually(noticed(viewer, client.DOWN))
            assert outcome_of(local(port)) == outcome
            assert psutil.pid_exists(child)
        finally:
            viewer.close()
            context.term()
            os.kill(child, signal.SIGKILL)
