"""A real Slurm of one machine: what srun starts is watched through `slurm://JOB`. Only in `make soak`."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from jaxtop.cli import ways
from jaxtop.features.relay.stream import Open
from jaxtop.features.relay.viewer_end import RelaySource
from jaxtop.model import Cluster
from jaxtop.model.hosts import newest_hosts
from jaxtop.wire import Request
from tests import patience
from tests.real.terminals import in_a_terminal, read_until
from tests.support import JAXTOP, PYTHON, SOAK, environment, eventually, free_port, run

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "squeue")
SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
LACKING = [name for name in NEEDED if not shutil.which(name, path=SBIN)]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not SOAK, reason="runs in `make soak`"),
    pytest.mark.skipif(bool(LACKING), reason=f"Slurm is not installed here: {', '.join(LACKING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="slurmd needs root"),
]

CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=500
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdTimeout=300
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


@pytest.fixture(scope="module")
def slurm():
    """The environment in which the commands of Slurm find a cluster of this machine."""
    # Sockets have short paths; munged refuses folders that others could write to.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    folder.chmod(0o755)
    for name in ("munge", "state", "spool", "home"):
        (folder / name).mkdir(mode=0o755)
    (folder / "munge" / "key-file").write_bytes(os.urandom(1024))
    (folder / "munge" / "key-file").chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    (folder / "slurm.conf").write_text(
        CONFIG.format(folder=folder, host=host, ports=(free_port(), free_port()), cpus=os.cpu_count())
    )
    env = {
        **environment(2),
        "PATH": f"{Path(PYTHON).parent}:{SBIN}",
        "SLURM_CONF": str(folder / "slurm.conf"),
        "HOME": str(folder / "home"),
    }
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        munge = folder / "munge"
        files = ("socket", "key-file", "pid-file", "log-file", "seed-file")
        daemon(
            stack, env, "munged", "--foreground", "--force", *(f"--{each}={munge}/{each}" for each in files)
        )
        eventually((munge / "socket").exists)
        daemon(stack, env, "slurmctld", "-D")
        daemon(stack, env, "slurmd", "-D", "-N", host)
        eventually(lambda: run("sinfo", "-h", "-o", "%T", env=env).stdout.strip() == "idle")
        yield env


def daemon(stack, env, *words):
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)


@contextmanager
def job(env, folder, *words):
    """Start a script as two tasks of a job; yield its id, once it runs."""
    name = f"job-{time.monotonic_ns()}"
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(
            ["srun", "--job-name", name, "--ntasks=2", "--overcommit", *words],
            env=env, cwd=folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        asks = ["squeue", "-h", "-t", "R", "-n", name, "-o", "%i"]
        yield eventually(lambda: run(*asks, env=env).stdout.split()[:1])[0]
    finally:
        process.terminate()
        process.wait()
        run("scancel", "--full", "--signal=KILL", "--name", name, env=env)
        eventually(lambda: not run("squeue", "-h", "-n", name, "-o", "%i", env=env).stdout.strip())


TRAIN = """
import sys, time
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.distributed.initialize()
spread = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
ones = np.ones((256, 8), np.float32)
weights = jax.make_array_from_callback(ones.shape, spread, ones.__getitem__)
step = jax.jit(lambda weights: (weights * 0.999, weights.sum()))
while True:
    weights, total = step(weights)
    total.block_until_ready()
    time.sleep(0.05)
"""


@contextmanager
def training(env, folder, name):
    """A job with two tasks that train; yield its number."""
    (folder / f"{name}.py").write_text(TRAIN)
    with job(env, folder, "jaxtop", "run", f"{name}.py") as number:
        yield number


def live(env, target):
    """The document of a snapshot, once both processes of the run are live."""
    done = run(*JAXTOP, "snapshot", target, env=env)
    document = json.loads(done.stdout) if done.stdout.strip() else {"hosts": []}
    states = [host["state"] for host in document["hosts"]]
    return document if states == ["live", "live"] else None


def name_of(document) -> str:
    (run_,) = document["runs"]
    return run_["name"]


def test_a_job_is_watched_through_its_number(slurm, tmp_path):
    with training(slurm, tmp_path, "first") as first:
        document = eventually(lambda: live(slurm, f"slurm://{first}"), every=1)
        assert [host["process_index"] for host in document["hosts"]] == [0, 1]
        assert document["arrays"] and document["programs"]
        assert name_of(document) == "first"


def test_each_job_has_its_own_run(slurm, tmp_path):
    """In one home directory, on one node, and the other one is newer."""
    with training(slurm, tmp_path, "first") as first:
        eventually(lambda: live(slurm, f"slurm://{first}"), every=1)
        with training(slurm, tmp_path, "second") as second:
            document = eventually(lambda: live(slurm, f"slurm://{second}"), every=1)
            assert name_of(document) == "second"
            assert name_of(live(slurm, f"slurm://{first}")) == "first"


def test_the_app_shows_the_run_of_a_job(slurm, tmp_path):
    with training(slurm, tmp_path, "first") as number:
        eventually(lambda: live(slurm, f"slurm://{number}"), every=1)
        variables = {name: value for name, value in slurm.items() if name not in ("LINES", "COLUMNS")}
        with in_a_terminal("attach", f"slurm://{number}", **variables) as (process, screen):
            assert "2/2 processes live" in read_until(screen, "2/2 processes live")
            os.write(screen, b"q")
            process.wait()


def test_frames_come_through_srun_when_they_are_sent(slurm, tmp_path, monkeypatch):
    """And requests pass: srun must not keep what has no line end."""
    for name, value in slurm.items():
        monkeypatch.setenv(name, value)
    with training(slurm, tmp_path, "first") as number:
        eventually(lambda: live(slurm, f"slurm://{number}"), every=1)
        source = RelaySource(ways.find(None, [f"slurm://{number}"]).command, Open())
        cluster = Cluster()
        ages = []

        def follow(check):
            end = patience.deadline()
            while not check():
                assert end.left() > 0, source.notes
                for frame in source.poll(0.1):
                    cluster.feed(frame)
                ages.extend(
                    time.time() - host.pulse.sampled_ms / 1000
                    for host in newest_hosts(cluster)
                    if host.pulse.sampled_ms
                )

        try:
            follow(
                lambda: (
                    len(newest_hosts(cluster)) == 2
                    and all(host.window.at_ms for host in newest_hosts(cluster))
                )
            )
            replies = []
            for host in newest_hosts(cluster):
                source.request(host.agent, Request("capture"), replies.append)
            follow(lambda: len(replies) == 2)
            assert [reply and reply.error for reply in replies] == ["", ""]
            ages.clear()
            follow(lambda: len(ages) > 100)
            print(f"ages of figures: {sorted(ages)[len(ages) // 2]:.2f} s, at most {max(ages):.2f} s")
        finally:
            source.close()


def test_what_goes_wrong_is_one_line(slurm, tmp_path):
    done = run(*JAXTOP, "snapshot", "slurm://99999", env=slurm)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "nvalid job id" in done.stderr
    with job(slurm, tmp_path, "sleep", "100") as number:
        done = run(*JAXTOP, "snapshot", f"slurm://{number}", env=slurm)
        assert done.returncode == 2 and done.stderr.count("\n") <= 2 and "no live run" in done.stderr
        bare = {**slurm, "PATH": SBIN}
        done = run(*JAXTOP, "snapshot", f"slurm://{number}", env=bare)
        assert done.returncode == 2 and "finds no jaxtop on the other side" in done.stderr
