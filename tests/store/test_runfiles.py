"""Run files: a run is found as long as it lives, and only its own machine can tell that it died."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jaxtop import sources, wire
from jaxtop.base import keys, processes
from jaxtop.cli import targets
from jaxtop.cli.errors import UserError
from jaxtop.cli.reading import gather
from jaxtop.sources import discovery
from jaxtop.store import runfiles
from jaxtop.wire import LinkState
from tests.made.agents import hello_here
from tests.support import PYTHON, jaxtop_here, mode, run
from tests.support import processes as started

if TYPE_CHECKING:
    from jaxtop.store.runfiles import RunFile

SLEEPS = [PYTHON, "-c", "print(flush=True); import time; time.sleep(600)"]


@pytest.fixture(scope="module")
def dead():
    """The hello of a process that has been killed."""
    with started(SLEEPS, stdout=subprocess.PIPE) as (process,):
        process.stdout.readline()
        return hello_here("dead", process.pid, run="r-dead")


def agents(found: list[RunFile]) -> list[str]:
    return [each.hello.agent for each in found]


def test_a_run_file_is_for_its_user_alone(home):
    before = os.umask(0)
    try:
        runfiles.write(hello_here())
    finally:
        os.umask(before)
    (path,) = (each.path for each in runfiles.find())
    assert path == home / ".local/state/jaxtop/runs/a1.json"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]


def test_a_run_file_holds_no_secret():
    secret = keys.load().secret
    runfiles.write(hello_here())
    assert secret not in runfiles.find()[0].path.read_bytes()


def test_what_an_agent_wrote_is_found_and_renewed():
    runfiles.write(hello_here(name="first"))
    runfiles.write(hello_here(name="second"))
    (found,) = runfiles.find()
    assert (found.hello, found.is_stale) == (hello_here(name="second"), False)
    runfiles.remove("a1")
    runfiles.remove("a1")
    assert runfiles.find() == []


def test_arguments_that_are_no_unicode_hide_no_run():
    runfiles.write(hello_here(argv=(os.fsdecode(b"caf\xe9.py"),)))
    assert runfiles.find()[0].hello.argv == ("caf\\udce9.py",)


def test_a_reader_never_meets_half_a_file():
    """Written again and again while it is read: every reading finds it, whole."""
    enough = threading.Event()
    said = hello_here(argv=("x" * 150,) * 20)
    runfiles.write(said)

    def renew():
        while not enough.is_set():
            runfiles.write(said)

    writer = threading.Thread(target=renew)
    writer.start()
    try:
        seen = [runfiles.find() for _ in range(300)]
    finally:
        enough.set()
        writer.join()
    assert {tuple(agents(found)) for found in seen} == {("a1",)}


def test_runs_are_listed_newest_first():
    for agent, at in (("a", 10), ("b", 30), ("c", 20)):
        runfiles.write(hello_here(agent, started_ms=at))
    assert agents(runfiles.find()) == ["b", "c", "a"]


def test_sessions_that_name_different_folders_find_each_other(home, monkeypatch):
    """A run that was started from a desktop session is found over ssh, where less is set, and vice versa."""
    runfiles.write(hello_here("plain"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "runtime"))
    runfiles.write(hello_here("desktop"))
    assert (home / "runtime/jaxtop/desktop.json").exists()
    assert sorted(agents(runfiles.find())) == ["desktop", "plain"]


def test_where_one_folder_cannot_be_written_the_next_is_taken(home, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/self")
    runfiles.write(hello_here())
    assert agents(runfiles.find()) == ["a1"]
    (home / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    runfiles.write(hello_here("a2"))  # nowhere to write to: the run goes on, and is reached by its address
    runfiles.remove("a2")
    assert runfiles.find() == []


def test_a_killed_process_is_known_to_be_gone_and_its_file_is_removed(dead):
    runfiles.write(dead)
    (found,) = runfiles.find()
    assert found.is_stale
    assert runfiles.tidy([found]) == []
    assert not found.path.exists()
    (past,) = runfiles.past()
    assert (past.hello.agent, past.is_dead) == (dead.agent, True)
    (path,) = found.path.parent.glob(f"*{runfiles.DIED}")
    os.utime(path, (0, 0))
    assert runfiles.past() == [] and not path.exists()


@pytest.mark.parametrize("name", ["train", "team/train"])
def test_a_run_whose_processes_all_died_is_found_by_its_name_to_be_checked(dead, name):
    runfiles.write(replace(dead, name=name, run="r1"))
    with pytest.raises(discovery.NotFound, match=f"'{name}' has ended"):
        discovery.seeds([name])
    (seed,) = discovery.seeds([name], with_ended=True)
    assert seed.exited is LinkState.DEAD and seed.hello.agent == dead.agent
    done = jaxtop_here("check", name)
    assert done.returncode == 2 and "Host lost: process 1 has died" in done.stdout
    assert "died at an unknown time, exit status n/a" in done.stdout
    assert "since" not in done.stdout  # the moment of the check is not that of the death
    document = json.loads(jaxtop_here("check", name, "--format", "json").stdout)
    assert document["findings"][0]["since"] is None and document["runs"][0]["ended_at"] is None


@pytest.mark.parametrize("command", ["check", "snapshot", "attach"])
def test_the_next_run_of_a_name_is_waited_for_where_one_has_ended(dead, command, monkeypatch):
    """What the earlier one left, `check` shows only where no other one starts."""
    runfiles.write(replace(dead, name="train", run="r1"))
    waits = "jaxtop: the run of this name has ended: waiting for the next one"
    done = jaxtop_here(command, "train", "--wait", "0.1")
    assert done.stderr.splitlines()[0] == waits
    last = "1 critical" in done.stdout if command == "check" else "'train' has ended" in done.stderr
    assert last

    def start_the_next_one(_):
        runfiles.write(hello_here("a2", name="train", run="r2", started_ms=2))

    def opened(seeds, *_, **__):
        raise UserError(f"opened {[each.target for each in seeds]}")

    monkeypatch.setattr(targets, "time", SimpleNamespace(monotonic=time.monotonic, sleep=start_the_next_one))
    monkeypatch.setattr(sources, "LiveSource", opened)
    assert jaxtop_here(command, "train", "--wait", "60").stderr.splitlines() == [
        waits,
        "jaxtop: opened ['a2']",
    ]


@pytest.mark.parametrize(("count", "others"), [(None, False), (1, False), (2, True)])
def test_only_a_run_of_several_processes_waits_for_others_in_its_exit(count, others, monkeypatch):
    """And what holds up an exit is guessed at once it takes long."""
    monkeypatch.setattr(gather, "LONGEST_GATHERING_S", 0.1)  # the other process of two never comes
    for name, seconds in (("just", 0), ("long", 60)):
        at = int((time.time() - seconds) * 1000)
        runfiles.leave(hello_here(name, name=name, run=name, process_count=count), wire.Bye(at, "ended"))
    just, long = (jaxtop_here("check", name).stderr for name in ("just", "long"))
    assert "is still in its exit" in just and "does not end" not in just
    assert "a thread or child of the script does not end" in long
    assert ("jax.distributed" in long) == others and "jax.distributed" not in just


def test_a_zombie_is_gone_though_its_number_is_still_taken():
    with started(SLEEPS, stdout=subprocess.PIPE) as (process,):
        process.stdout.readline()
        said = hello_here("zombie", process.pid)
        runfiles.write(said)
        assert not runfiles.find()[0].is_stale
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{process.pid}").exists()
        assert runfiles.find()[0].is_stale


def test_a_number_that_was_given_to_another_process_is_not_mistaken_for_it():
    """Told apart by when the process started."""
    mine = processes.start_ticks(os.getpid())
    runfiles.write(hello_here(process_started_ticks=mine - 1))
    assert runfiles.find()[0].is_stale


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"boot": "another"},
        {"boot": ""},
        {"pid_namespace": "pid:[1]"},
        {"pid_namespace": ""},
        {"process_started_ticks": None},
    ],
    ids=str,
)
def test_a_file_of_another_machine_is_never_removed(dead, elsewhere):
    """Homes are shared between hosts and containers: a process that is not here may well be there."""
    runfiles.write(replace(dead, **elsewhere))
    (found,) = runfiles.find()
    assert not found.is_stale
    assert runfiles.tidy([found]) == [found]
    assert found.path.exists()


def test_a_dead_process_of_a_live_run_is_kept_as_a_witness(dead):
    """A viewer that comes later can say who died; once the whole run is gone, so is the file."""
    runfiles.write(replace(dead, run="r1"))
    runfiles.write(hello_here("alive", run="r1"))
    assert sorted(agents(runfiles.tidy(runfiles.find()))) == ["alive", "dead"]
    runfiles.remove("alive")
    assert runfiles.tidy(runfiles.find()) == []
    assert runfiles.find() == []


def test_two_processes_without_a_run_are_no_witnesses_of_each_other(dead):
    runfiles.write(replace(dead, run=None))
    runfiles.write(hello_here("alive", run=None))
    assert agents(runfiles.tidy(runfiles.find())) == ["alive"]


def test_what_is_no_run_file_is_passed_by(home):
    runfiles.write(hello_here())
    folder = home / ".local/state/jaxtop/runs"
    for name, content in {
        "empty.json": b"",
        "half.json": b'{"type": "hello", "agent": "x"',
        "other.json": b'{"type": "hello", "agent": "x"}',
        "list.json": b"[" * 100_000,
        "bytes.json": b"\xff\xfe\x00",
        "a2.draft": b"{}",
        "notes.txt": b"mine",
    }.items():
        (folder / name).write_bytes(content)
    (folder / "folder.json").mkdir()
    (folder / "dangling.json").symlink_to(folder / "nowhere")
    assert agents(runfiles.tidy(runfiles.find())) == ["a1"]
    assert len(list(folder.iterdir())) == 10  # and nothing of it is removed


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give a file to another user")
def test_a_file_of_another_user_is_not_believed():
    runfiles.write(hello_here())
    os.chown(runfiles.find()[0].path, 54321, 54321)
    assert runfiles.find() == []


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be a user for whom a folder is read-only")
def test_a_stale_file_that_cannot_be_removed_is_passed_by():
    """A home may be mounted read-only."""
    home = Path(tempfile.mkdtemp())
    try:
        folder = home / "jaxtop/runs"
        folder.mkdir(parents=True)
        (folder / "dead.json").write_bytes(b"")
        for path in (home, home / "jaxtop", folder, folder / "dead.json"):
            os.chown(path, 54321, 54321)
        lists = textwrap.dedent("""
            import os
            from jaxtop.store import runfiles
            from tests.made.agents import hello_here
            os.setuid(54321)
            folder = runfiles.folders()[0]
            said = hello_here("dead", process_started_ticks=1)
            runfiles.write(said)
            folder.chmod(0o500)
            print(len(runfiles.find()), runfiles.tidy(runfiles.find()))
            runfiles.remove("dead")
        """)
        done = run(PYTHON, "-c", lists, env={**os.environ, "XDG_STATE_HOME": str(home)})
        assert (done.stdout, done.stderr) == ("1 []\n", "")
        assert (folder / "dead.json").exists()
    finally:
        shutil.rmtree(home)


def test_a_process_of_any_name_has_a_start_time():
    """The kernel cuts names at 15 bytes, also within a letter; brackets and spaces are letters, too."""
    asks = textwrap.dedent("""
        import ctypes, os
        from jaxtop.base import processes
        before = processes.start_ticks(os.getpid())
        for name in (b") R 1 (", b"a b", b"\\xe6\\x97\\xa5\\xe6\\x9c", b"\\xff\\n"):
            ctypes.CDLL(None).prctl(15, name)
            assert processes.start_ticks(os.getpid()) == before > 0
    """)
    done = run(PYTHON, "-c", asks)
    assert done.stderr == ""


def test_an_ended_run_hides_no_host_of_its_name(monkeypatch):
    read: list[int] = []
    endings = runfiles.endings

    def counted():
        read.append(1)
        return endings()

    monkeypatch.setattr(runfiles, "endings", counted)
    for number, name in enumerate(("localhost", "no-such.invalid")):
        runfiles.leave(hello_here(f"a{number}", run=f"r{number}", name=name), wire.Bye(1, "ended"))
    (seed,) = discovery.seeds(["localhost"])
    assert seed.hello is None and seed.endpoints and not read
    with pytest.raises(discovery.NoTarget, match="has ended"):
        discovery.seeds(["no-such.invalid"])
    read.clear()
    found = discovery.seeds(["no-such.invalid", "127.0.0.1", "127.0.0.2"], with_ended=True)
    assert [each.target for each in found] == ["a1", "127.0.0.1", "127.0.0.2"] and len(read) == 1
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        monkeypatch.setattr(discovery, "PORTS_TRIED", (port,))
        assert discovery.seeds(["localhost"], with_ended=True)[0].hello is None
    assert discovery.seeds(["localhost"], with_ended=True)[0].hello.agent == "a0"  # nothing answers there


def test_inside_a_job_its_own_run_is_meant_and_else_the_newest_with_a_note(monkeypatch):
    """Home directories are shared: the newest run may be that of another job."""
    notes: list[str] = []

    def meant(**how: bool) -> str:
        notes.clear()
        return discovery.seeds([], show=notes.append, **how)[0].hello.agent

    runfiles.write(hello_here("alone", run="r0", started_ms=1))
    runfiles.write(hello_here("first", run="r1", job="SLURM_JOB_ID 1", started_ms=2))
    runfiles.write(hello_here("second", run="r2", name="train", job="SLURM_JOB_ID 2", started_ms=3))
    assert meant() == "second"
    assert notes == ["3 live runs: showing train (r2), the newest; `jaxtop ls` lists all of them"]
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    assert meant() == meant(stays_in_job=True) == "first" and "(r1), of this job" in notes[0]
    monkeypatch.setenv("SLURM_JOB_ID", "3")
    assert meant() == "alone" and "(r0), the newest" in notes[0]
    runfiles.remove("alone")
    assert meant() == "second"
    (note,) = notes
    assert "no live run of yours in this job (SLURM_JOB_ID 3): showing train (r2)" in note
    with pytest.raises(discovery.NoTarget, match=r"no live run of yours in this job \(SLURM_JOB_ID 3\)"):
        meant(stays_in_job=True)
    runfiles.remove("first")
    assert meant() == "second" and "showing train (r2)" in notes[0]  # also where there is only one
    monkeypatch.delenv("SLURM_JOB_ID")
    assert meant() == "second" and not notes
