"""A run that only SSH reaches: real sshd, real agents, every kind of request, cut and healed."""

from __future__ import annotations

import json
import os
import shlex
import time
from pathlib import Path

import pytest

from jaxtop.features.relay.stream import Open
from jaxtop.features.relay.viewer_end import RelaySource
from jaxtop.model import Cluster, state_of
from jaxtop.model.hosts import newest_hosts
from jaxtop.wire import Request
from tests import patience
from tests.real.logins import needs_sshd, sshd
from tests.support import JAXTOP, PYTHON, run

pytestmark = [pytest.mark.jax, pytest.mark.newest]


@pytest.fixture(scope="module")
def login(pair, tmp_path_factory):
    """The words that log in, with the home of the run and jaxtop on the other side."""
    with sshd(tmp_path_factory.mktemp("sshd")) as words:
        yield [*words, f"HOME={pair.home}", f"PATH={Path(PYTHON).parent}:$PATH"]


@needs_sshd
def test_a_snapshot_through_ssh_is_that_of_the_other_side(pair, login, tmp_path):
    near = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = run(*JAXTOP, "snapshot", "--via", shlex.join(login), env=near)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [host["state"] for host in document["hosts"]] == ["live", "live"]
    assert {host["pid"] for host in document["hosts"]} == {process.pid for process in pair.processes}
    assert document["arrays"] and document["programs"]
    assert not (tmp_path / "jaxtop").exists(), "this side needs no key"


SRUN = """#!/bin/sh
# Like srun, it gives the step the variables of its job.
echo "$@" > {folder}/called
while [ "${{1#--}}" != "$1" ]; do
    [ "$1" = --jobid ] && shift
    shift
done
HOME={home} SLURM_JOB_ID=4711 SLURM_JOB_NODELIST=localhost exec "$@"
"""


def test_a_job_of_slurm_is_watched_through_srun(pair, tmp_path):
    srun = tmp_path / "srun"
    srun.write_text(SRUN.format(folder=tmp_path, home=pair.home))
    srun.chmod(0o755)
    path = f"{tmp_path}:{Path(PYTHON).parent}:{os.environ['PATH']}"
    done = run(*JAXTOP, "snapshot", "slurm://4711", env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["hosts"]) == 2
    options = "--jobid 4711 --overlap --nodes=1 --ntasks=1 --quiet --unbuffered"
    assert (tmp_path / "called").read_text() == f"{options} jaxtop relay --stdio\n"


@needs_sshd
def test_requests_pass_and_a_cut_connection_heals(login):
    source = RelaySource(login, Open())
    cluster = Cluster()

    def follow(check):
        end = patience.deadline()
        while not check():
            assert end.left() > 0, [str(state_of(host, time.time())) for host in newest_hosts(cluster)]
            for frame in source.poll(0.1):
                cluster.feed(frame)

    def states():
        return sorted(str(state_of(host, time.time())) for host in newest_hosts(cluster))

    try:
        follow(lambda: states() == ["live", "live"])
        windows = {host.agent: host.window.at_ms for host in newest_hosts(cluster)}
        replies = []
        for agent in windows:
            source.request(agent, Request("capture"), replies.append)
        follow(lambda: len(replies) == 2)
        assert [reply and reply.error for reply in replies] == ["", ""]
        follow(lambda: all(host.window.at_ms > windows[host.agent] for host in newest_hosts(cluster)))
        source._process._popen.kill()
        follow(lambda: states() == ["unreachable", "unreachable"])
        assert "was lost" in source.notes[0]
        follow(lambda: states() == ["live", "live"])
        assert source.notes == []
    finally:
        source.close()


@needs_sshd
def test_a_recording_through_ssh_can_be_checked(login, tmp_path):
    via = shlex.join(login)
    file = tmp_path / "pair.mcap"
    done = run(*JAXTOP, "record", "--via", via, "-o", file, "--duration", "5s")
    assert done.returncode == 0, done.stderr
    done = run(*JAXTOP, "check", file, "--json")
    assert done.returncode in (0, 1, 2), done.stderr
    assert len(json.loads(run(*JAXTOP, "replay", file, "--at", "+4s").stdout)["hosts"]) == 2


@needs_sshd
def test_another_side_without_jaxtop_or_with_another_run_is_one_line(login):
    bare = [word for word in login if not word.startswith("PATH=")]
    done = run(*JAXTOP, "snapshot", "--via", shlex.join(bare))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "finds no jaxtop on the other side" in done.stderr
    done = run(*JAXTOP, "snapshot", "no-such-run.invalid", "--via", shlex.join(login))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "neither a live run" in done.stderr
