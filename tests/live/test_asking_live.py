"""The app's questions to real processes: who answered, what came of it, and why not."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from jaxtop.base import keys
from jaxtop.cli.live.source_thread import SourceThread
from jaxtop.model import Cluster, newest_hosts
from jaxtop.model.stalls.stack_tree import stack_nodes
from jaxtop.sources import LiveSource, Seed
from tests.support import eventually, training

if TYPE_CHECKING:
    from jaxtop.cli.live.broadcast import Broadcast

pytestmark = pytest.mark.jax


class Followed:
    """A follower of a run, and the cluster that its frames make."""

    def __init__(self, run, colleague: keys.KeyPair | None) -> None:
        owner = keys.load()
        self.follower = SourceThread(
            lambda: LiveSource(
                [Seed(each.agent, hello=each) for each in run.hellos()], colleague or owner, owner.public
            )
        )
        self.cluster = Cluster()

    def look(self) -> Cluster:
        for frame in self.follower.drain():
            self.cluster.feed(frame)
        return self.cluster

    def ask(self, what: str, interval_ms: int | None = None) -> Broadcast:
        """Ask all, and wait for the last answer."""
        agents = [host.agent for host in newest_hosts(self.look())]
        request = self.follower.request(what, agents, interval_ms)
        eventually(lambda: request.is_done)
        return request


@pytest.fixture
def follow(monkeypatch):
    started = []

    def start(run, colleague: keys.KeyPair | None = None) -> Followed:
        monkeypatch.setenv("HOME", str(run.home))
        for name in [name for name in os.environ if name.startswith("XDG_")]:
            monkeypatch.delenv(name)
        if colleague is not None:
            (keys.config_dir() / "authorized_keys").write_bytes(colleague.public + b" a colleague\n")
        followed = Followed(run, colleague)
        started.append(followed)
        followed.follower.start()
        eventually(lambda: len([host for host in followed.look().hosts.values() if host.hello]) == 2)
        return followed

    yield start
    for each in started:
        each.follower.stop()


@pytest.mark.newest
def test_all_processes_answer_a_request_for_their_stacks(tmp_path, follow):
    with training(tmp_path) as run:
        followed = follow(run)
        request = followed.ask("stacks")
        assert (request.requested, request.replied, request.silent) == (2, 2, 0)
        eventually(lambda: all(host.stacks.threads for host in followed.look().hosts.values()))
        nodes = stack_nodes(followed.cluster, {})
        assert sum(len(node.hosts) for node in nodes) == 2
        assert any(node.group.place and node.group.place.file == "train.py" for node in nodes)
        before = run.steps()
        eventually(lambda: run.steps() > before + 2)  # nobody was held up


@pytest.mark.newest
def test_a_window_that_is_asked_for_comes_from_every_process(tmp_path, follow):
    with training(tmp_path) as run:
        followed = follow(run)
        asked_ms = time.time() * 1000
        eventually(lambda: followed.ask("window").replied == 2)  # at first their devices may not be known

        seen = set()  # later windows, which nobody asked for, take the place of these

        def have_all() -> bool:
            hosts = followed.look().hosts.values()
            seen.update(
                host.agent for host in hosts if host.window.slot is None and host.window.at_ms > asked_ms
            )
            return len(seen) == 2

        eventually(have_all, every=0.05)


@pytest.mark.newest
def test_a_run_that_reports_once_a_minute_changes_to_a_shorter_interval_at_once(tmp_path, follow):
    with training(tmp_path, JAXTOP_INTERVAL="60") as run:
        followed = follow(run)
        request = followed.ask("pace", 500)
        assert (request.replied, dict(request.refused)) == (2, {})
        sampled = {host.agent: host.pulse.sampled_ms or 0 for host in newest_hosts(followed.look())}

        def is_followed(host) -> bool:
            return host.hello.interval_ms == 500 and (host.pulse.sampled_ms or 0) > sampled[host.agent]

        eventually(lambda: all(map(is_followed, newest_hosts(followed.look()))))
        sampled = {host.agent: host.pulse.sampled_ms for host in newest_hosts(followed.look())}
        eventually(lambda: all(map(is_followed, newest_hosts(followed.look()))))
        steps = {host.agent: host.steps.last for host in newest_hosts(followed.look())}
        eventually(lambda: all(host.steps.last > steps[host.agent] for host in newest_hosts(followed.look())))


@pytest.mark.newest
def test_a_run_that_is_read_only_says_so(tmp_path, follow):
    with training(tmp_path, JAXTOP_READONLY="1") as run:
        request = follow(run).ask("window")
        assert dict(request.refused) == {"this run is read-only (JAXTOP_READONLY=1)": 2}


@pytest.mark.newest
def test_a_colleague_may_look_but_not_act(tmp_path, follow):
    with training(tmp_path) as run:
        followed = follow(run, keys.throwaway())
        request = followed.ask("stacks")
        assert (request.replied, dict(request.refused)) == (2, {})
        for what in ("capture", "pace", "peaks", "profile", "profile_part", "profile_end", "still"):
            request = followed.ask(what, 500)
            assert dict(request.refused) == {"only the owner of the run may do this": 2}, what


@pytest.mark.newest
def test_a_stopped_process_gives_no_answer_and_holds_up_nobody(tmp_path, follow):
    with training(tmp_path) as run:
        followed = follow(run)
        run.processes[1].send_signal(signal.SIGSTOP)
        eventually(lambda: psutil.Process(run.processes[1].pid).status() == psutil.STATUS_STOPPED)
        request = followed.ask("stacks")
        assert (request.replied, request.silent) == (1, 1)
