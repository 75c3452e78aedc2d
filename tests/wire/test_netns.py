"""Hosts with addresses of their own: two network namespaces run one program, a viewer in a third looks on.

A fourth holds the switch between them; nothing leaves these namespaces.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from jaxtop.tui.screens import SCREENS
from tests import support
from tests.cases import thorough
from tests.real.logins import needs_sshd, sshd
from tests.real.terminals import in_a_terminal
from tests.real.written import TerminalScreen
from tests.support import JAXTOP, PYTHON, ROOT, eventually, processes, states, training

pytestmark = [pytest.mark.jax, pytest.mark.netns, pytest.mark.newest, pytest.mark.together("netns")]

SWITCH, FIRST, SECOND, VIEWER, LOGIN, LAPTOP = (
    f"jaxtop-{os.getpid()}-{name}" for name in ("switch", "first", "second", "viewer", "login", "laptop")
)
ADDRESSES = {FIRST: "10.77.0.1", SECOND: "10.77.0.2", VIEWER: "10.77.0.3", LOGIN: "10.77.0.4"}
# The laptop reaches only the login host.
AT_LOGIN, AT_LAPTOP = "10.78.0.1", "10.78.0.2"
# Free in namespaces that are all ours.
COORDINATOR = f"{ADDRESSES[FIRST]}:9911"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def within(namespace):
    """The words that run a command there."""
    return ["ip", "netns", "exec", namespace]


def add_namespace(stack, name):
    ip("netns", "add", name)
    stack.callback(lambda: subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True))
    ip("-n", name, "link", "set", "lo", "up")


def add_host(stack, name, number):
    """A namespace with one address, wired to the switch, in which the host's name stands for that address."""
    add_namespace(stack, name)
    settings = Path("/etc/netns") / name
    stack.callback(shutil.rmtree, settings, ignore_errors=True)
    settings.mkdir(parents=True)
    (settings / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESSES[name]} {socket.gethostname()}\n")
    ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"port{number}", "netns", SWITCH)
    ip("-n", SWITCH, "link", "set", f"port{number}", "master", "bridge0", "up")
    ip("-n", name, "address", "add", f"{ADDRESSES[name]}/24", "dev", "eth0")
    ip("-n", name, "link", "set", "eth0", "up")


def add_laptop(stack):
    """A namespace that is wired to the login host alone."""
    add_namespace(stack, LAPTOP)
    ip("link", "add", "eth0", "netns", LAPTOP, "type", "veth", "peer", "name", "eth1", "netns", LOGIN)
    for name, link, address in ((LOGIN, "eth1", AT_LOGIN), (LAPTOP, "eth0", AT_LAPTOP)):
        ip("-n", name, "address", "add", f"{address}/24", "dev", link)
        ip("-n", name, "link", "set", link, "up")


def remove_if_empty(folder):
    with suppress(OSError):
        folder.rmdir()


@pytest.fixture(scope="module")
def network():
    """The namespaces; gone afterwards, whatever happened."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the command ip (iproute2)")
    with ExitStack() as stack:
        stack.callback(remove_if_empty, Path("/etc/netns"))
        try:
            add_namespace(stack, SWITCH)
            ip("-n", SWITCH, "link", "add", "bridge0", "type", "bridge")
            ip("-n", SWITCH, "link", "set", "bridge0", "up")
            for number, name in enumerate(ADDRESSES):
                add_host(stack, name, number)
            add_laptop(stack)
        except (subprocess.CalledProcessError, OSError) as error:
            pytest.skip(f"this machine forbids network namespaces: {getattr(error, 'stderr', None) or error}")
        yield


@pytest.fixture(scope="module")
def run(network, tmp_path_factory):  # noqa: ARG001 - it runs there
    """One program on two hosts."""
    with training(
        tmp_path_factory.mktemp("hosts") / "home",
        coordinator=COORDINATOR,
        within=[within(FIRST), within(SECOND)],
    ) as started:
        yield started


@pytest.fixture
def elsewhere(run, home):
    """A viewer's home on another machine, with nothing but the key."""
    folder = home / ".config" / "jaxtop"
    folder.mkdir(mode=0o700, parents=True)
    shutil.copy(run.home / ".config" / "jaxtop" / "key", folder / "key")
    return home


def snapshot_from_afar(*words, at=VIEWER):
    """Exit status, document and complaints of a snapshot taken in another namespace."""
    done = support.run(*within(at), *JAXTOP, "snapshot", *words)
    return (
        done.returncode,
        json.loads(done.stdout) if done.stdout else {"hosts": []},
        done.stderr.splitlines(),
    )


def test_agents_serve_on_the_address_that_leads_to_the_others_and_never_on_all(run):
    for namespace, hello in zip((FIRST, SECOND), run.hellos(), strict=True):
        assert hello.requests.rpartition(":")[0] == ADDRESSES[namespace]
        assert hello.telemetry.rpartition(":")[0] == ADDRESSES[namespace]
        ports = {hello.requests.rpartition(":")[2], hello.telemetry.rpartition(":")[2]}
        listening = subprocess.run(
            [*within(namespace), "ss", "-tlnH"], capture_output=True, text=True, check=True
        ).stdout
        at = [line.split()[3].rpartition(":") for line in listening.splitlines()]
        hosts = {host.strip("[]").removeprefix("::ffff:") for host, _, port in at if port in ports}
        assert hosts == {"127.0.0.1", ADDRESSES[namespace]}


@pytest.mark.parametrize("of", [pytest.param(FIRST, id="first"), thorough(SECOND, id="second")])
@pytest.mark.usefixtures("elsewhere")
def test_the_key_and_the_address_of_one_host_show_all(run, of):
    """With its port, and without."""
    address = dict(zip((FIRST, SECOND), (hello.requests for hello in run.hellos()), strict=True))[of]
    for target in (address, ADDRESSES[of]):
        status, document, complaints = snapshot_from_afar(target)
        assert (status, states(document), complaints) == (0, ["live", "live"], [])
        assert [len(host["devices"]) for host in document["hosts"]] == [4, 4]
        assert [len(mesh["device_ids"]) for mesh in document["meshes"]] == [8]


@pytest.mark.usefixtures("run")
def test_without_the_key_nothing_is_shown_and_one_line_says_so():
    status, document, complaints = snapshot_from_afar(ADDRESSES[FIRST])
    assert status == 2
    assert not any(document[part] for part in ("runs", "hosts", "meshes", "arrays", "events"))
    assert len(complaints) == 1 and "does not accept your key" in complaints[0]


SNIFFER = """
import socket, sys
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # all protocols, all links
wire.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
wire.settimeout(0.2)
print("listening", flush=True)
with open(sys.argv[1], "wb") as file:
    while True:
        try:
            file.write(wire.recv(1 << 17))
        except TimeoutError:
            file.flush()
"""


@pytest.mark.usefixtures("elsewhere")
def test_a_capture_at_the_switch_has_no_plaintext_of_ours(run, tmp_path):
    """Of a viewer that asks for everything; a word that is sent in plaintext is in the capture."""
    path = tmp_path / "captured"
    with processes([*within(SWITCH), PYTHON, "-c", SNIFFER, path], stdout=subprocess.PIPE) as (sniffer,):
        sniffer.stdout.readline()
        status, document, _ = snapshot_from_afar("--watch", "3", ADDRESSES[FIRST])
        host, port = run.hellos()[0].requests.rsplit(":", 1)
        say = f"import socket; socket.create_connection(('{host}', {port})).sendall(b'a plain word')"

        def is_captured():  # said again, as the kernel drops packets that are not read in time
            support.run(*within(VIEWER), PYTHON, "-c", say)
            return b"a plain word" in path.read_bytes()

        eventually(is_captured, every=1)
    captured = path.read_bytes()
    assert status == 0 and len(captured) > 20_000
    (name,) = {each["name"] for each in document["runs"]}
    names = {each["name"] for each in document["arrays"]} | {
        each["function"] for each in document["programs"]
    }
    told = {name, *names, "hello", "pulse", "process_count"}  # the run's id is in JAX's own store
    told = {each for each in told if each and len(each) > 3}
    assert len(told) > 5 and {each for each in told if each.encode() in captured} == set()


@contextmanager
def cut(namespace=SWITCH, link="port1"):
    """The second host's link, cut at the switch, or another."""
    ip("-n", namespace, "link", "set", link, "down")
    try:
        yield
    finally:
        ip("-n", namespace, "link", "set", link, "up")


@pytest.mark.quiet
def test_a_host_whose_link_is_cut_is_unreachable_and_comes_back_by_itself(run, elsewhere):
    """Within five seconds, to who was there; and nothing is doubled when it is back."""
    path = elsewhere / "seen"
    watch = [*within(VIEWER), PYTHON, ROOT / "tests" / "programs" / "watch.py", 0, ADDRESSES[FIRST]]

    def seen():
        return json.loads(path.read_text().rpartition("\n")[0].rpartition("\n")[2] or '{"hosts": {}}')

    def seen_states():
        return {index: host["state"] for index, host in seen()["hosts"].items()}

    with path.open("w") as file, processes(watch, stdout=file):
        eventually(lambda: seen_states() == {"0": "live", "1": "live"})
        with cut():
            start = time.monotonic()
            eventually(lambda: seen_states() == {"0": "live", "1": "unreachable"}, within=5, every=0.05)
            print("unreachable after", time.monotonic() - start)
        start = time.monotonic()
        eventually(lambda: seen_states() == {"0": "live", "1": "live"})
        print("live again after", time.monotonic() - start)
        run.go_on()
        assert seen()["agents"] == 2
        with run.paused():
            expected = [run.steps()] * 2
            eventually(lambda: [host["launches"]["step"] for host in seen()["hosts"].values()] == expected)
    status, document, complaints = snapshot_from_afar(ADDRESSES[SECOND])
    assert (status, states(document), complaints) == (0, ["live", "live"], [])


@pytest.mark.usefixtures("elsewhere")
def test_who_comes_while_a_link_is_cut_reads_it(run):
    with cut():
        status, document, complaints = snapshot_from_afar(ADDRESSES[FIRST])
        assert (status, states(document), len(complaints)) == (1, ["live", "unreachable"], 1)
    run.go_on()


@pytest.fixture(scope="module")
def login(run, tmp_path_factory):
    """The target that leads the laptop to the run, which only the login host reaches."""
    folder = tmp_path_factory.mktemp("login")
    sets = (f"HOME={run.home}", f"PATH={Path(PYTHON).parent}:/usr/bin:/bin")
    with sshd(folder, AT_LOGIN, within(LOGIN), within(LAPTOP), sets) as words:
        *options, who = words[1:]
        # It notices a cut sooner than the shorthand asks for.
        options += ["-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2"]
        shorthand = folder / "ssh"
        shorthand.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {shlex.join(options)} "$@"\n')
        shorthand.chmod(0o755)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("PATH", f"{folder}:{os.environ['PATH']}")
            yield f"ssh://{who}/{ADDRESSES[FIRST]}"


@needs_sshd
def test_a_laptop_that_reaches_only_the_login_host_sees_the_run_through_ssh(login, home):
    status, document, complaints = snapshot_from_afar(login, at=LAPTOP)
    assert (status, states(document), complaints) == (0, ["live", "live"], [])
    assert not (home / ".config").exists(), "the laptop needs no key"
    status, document, complaints = snapshot_from_afar(ADDRESSES[FIRST], at=LAPTOP)
    assert status == 2 and not document["hosts"] and len(complaints) == 1, "there is no other way"


# What each screen shows of this run: the keys of all screens, and words that only that screen has.
SHOWN = {
    "2": "memory used    Tab",
    "3": "STEPS/S",
    "D": "OF LARGEST",
    "4": "['w']",
    "5": "8 devices hold",
    "6": "all-reduce",
    "O": "OPERATION",
    "7": "jit_step",
    "8": "WHAT HAPPENED",
    "9": "press p",
    "0": "alone",
    "W": "VS TODAY",
    "H": "goodput",
    "1": "mesh      ",
}


def test_every_screen_is_opened_through_ssh():
    assert SHOWN.keys() == {each.key for each in SCREENS}


@needs_sshd
@pytest.mark.usefixtures("home")
def test_through_ssh_the_app_opens_windows_are_taken_and_sessions_recorded(login, tmp_path):
    with in_a_terminal("attach", login, within=within(LAPTOP), TERM="xterm-256color") as (_, file):
        screen = TerminalScreen(file)
        assert "2/2 processes live" in screen.until("2/2 processes live")
        for key, words in SHOWN.items():
            os.write(file, key.encode())
            assert words in screen.until(words), key
        os.write(file, b"9p")
        assert "stacks of 2 of 2 processes" in screen.until("stacks of 2 of 2 processes")
        os.write(file, b"q")
    asked = support.run(*within(LAPTOP), PYTHON, ROOT / "tests" / "programs" / "ask.py", login, 2, "capture")
    assert asked.stdout.strip() == '["", ""]', asked.stderr
    file = tmp_path / "run.mcap"
    done = support.run(*within(LAPTOP), *JAXTOP, "record", login, "-o", file, "--duration", "3s")
    assert done.returncode == 0, done.stderr
    document = json.loads(support.run(*JAXTOP, "replay", file, "--at", "+3s").stdout)
    assert states(document) == ["live", "live"]


@needs_sshd
@pytest.mark.quiet
def test_through_ssh_a_cut_link_is_shown_and_heals(login, home):
    path = home / "seen"
    watch = [*within(LAPTOP), PYTHON, ROOT / "tests" / "programs" / "watch.py", 0, login]

    def seen_states():
        last = path.read_text().rpartition("\n")[0].rpartition("\n")[2]
        return {index: host["state"] for index, host in json.loads(last or '{"hosts": {}}')["hosts"].items()}

    with path.open("w") as file, processes(watch, stdout=file):
        eventually(lambda: seen_states() == {"0": "live", "1": "live"})
        with cut(LOGIN, "eth1"):
            eventually(lambda: seen_states() == {"0": "unreachable", "1": "unreachable"})
        eventually(lambda: seen_states() == {"0": "live", "1": "live"})
