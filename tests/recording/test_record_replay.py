"""`jaxtop record` and `jaxtop replay` as a person uses them, on agents that speak over real sockets."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from subprocess import PIPE

import pytest

from tests.support import (
    JAXTOP,
    PYTHON,
    ROOT,
    environment,
    eventually,
    is_one_line,
    jaxtop,
    jaxtop_here,
    processes,
    run,
)


@contextmanager
def agents(hosts=3, devices=4, seconds=60):
    """The address of made-up agents at 1 Hz."""
    words = [PYTHON, "-m", "tests.real.load", hosts, devices, seconds, 8]
    with processes(words, stdout=PIPE, cwd=ROOT) as (process,):
        yield process.stdout.readline().strip(), process


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recording of some seconds, made once."""
    path = tmp_path_factory.mktemp("recorded") / "run.mcap"
    before = os.environ["HOME"]
    home = tmp_path_factory.mktemp("home")
    os.environ["HOME"] = str(home)
    try:
        with agents() as (address, _):
            done = jaxtop("record", address, "-o", path, "--duration", "6s")
    finally:
        os.environ["HOME"] = before
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("recorded 3 of 3 hosts, 0:0") and str(path) in done.stdout
    return path


def replay(*words):
    """Run `jaxtop replay` in this process."""
    return jaxtop_here("replay", *words)


def at(path, when, *more):
    done = replay(path, "--at", when, *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_moment_of_a_recording_is_printed_like_one_of_a_live_run(recorded):
    document = at(recorded, "1s ago")
    assert {host["state"] for host in document["hosts"]} == {"live"}
    assert [len(host["devices"]) for host in document["hosts"]] == [4, 4, 4]
    assert document["meshes"][0]["axes"] == [{"name": "data", "size": 3}, {"name": "model", "size": 4}]
    earlier = at(recorded, "+2s")
    assert earlier["at"] < document["at"]
    launches = [each["hosts"][0]["launches"]["train_step"] for each in (earlier, document)]
    assert launches[0] < launches[1]
    for form, begins in (("csv", "run,"), ("openmetrics", "# ")):
        assert replay(recorded, "--at", "+2s", "--format", form).stdout.startswith(begins)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at", "half past"], "is not a time"),
        (["--at", "+2h"], "is outside of"),
        (["--start", "1999-01-01"], "is outside of"),
        (["--speed", "100"], "is not a speed"),
        (["--at", "+1s", "--export", "csv"], "give only one"),
        (["--step", "never"], "seconds"),
        ([], "needs a terminal"),
    ],
)
def test_what_replay_cannot_do_it_says_in_one_line(recorded, words, said):
    done = replay(recorded, *words)
    assert done.returncode == 2 and not done.stdout
    assert is_one_line(done.stderr) and said in done.stderr


def test_what_is_no_recording_is_said_in_one_line(tmp_path):
    (tmp_path / "empty.mcap").touch()
    (tmp_path / "text.mcap").write_text("not a recording, but long enough to be looked at as one\n" * 10)
    (tmp_path / "folder").mkdir()
    for name in ("empty.mcap", "text.mcap", "folder", "missing.mcap"):
        done = replay(tmp_path / name, "--at", "+1s")
        assert done.returncode == 2 and is_one_line(done.stderr), (name, done.stderr)
        assert name in done.stderr


def test_a_foreign_file_in_a_folder_of_recordings_is_skipped_with_a_note(tmp_path, recorded):
    (tmp_path / "a.mcap").write_text("not a recording, but long enough to be looked at as one\n" * 10)
    done = replay(tmp_path, "--at", "+1s")
    assert done.returncode == 2 and is_one_line(done.stderr) and "a.mcap is not a recording" in done.stderr
    (tmp_path / "b.mcap").write_bytes(recorded.read_bytes())
    done = replay(tmp_path, "--at", "+1s")
    assert done.returncode == 0 and len(json.loads(done.stdout)["hosts"]) == 3
    assert is_one_line(done.stderr) and "a.mcap is not a recording" in done.stderr
    assert replay(tmp_path, tmp_path / "a.mcap", "--at", "+1s").returncode == 2  # named, so it is wanted


def test_a_cut_recording_shows_what_is_left_and_says_so(tmp_path, recorded):
    cut = tmp_path / "cut.mcap"
    whole = recorded.read_bytes()
    cut.write_bytes(whole[: whole.index(b"jaxtop.index")])  # which stands behind all frames
    done = replay(cut, "--at", "+1s")
    assert done.returncode == 0 and json.loads(done.stdout)["hosts"]
    assert is_one_line(done.stderr) and "not finished" in done.stderr


def test_a_recording_that_is_still_written_is_read_as_it_grows(tmp_path):
    path = tmp_path / "growing.mcap"
    with (
        agents() as (address, _),
        processes([*JAXTOP, "record", address, "-o", path], stdout=PIPE, stderr=PIPE) as (recorder,),
    ):

        def steps():
            done = replay(path, "--at", "0s ago")
            hosts = json.loads(done.stdout)["hosts"] if done.stdout else []
            return hosts[0]["launches"].get("train_step", 0) if hosts else 0

        first = eventually(steps)
        eventually(lambda: steps() > first)
        recorder.send_signal(signal.SIGINT)
        out, err = recorder.communicate()
    assert (recorder.returncode, err) == (0, "") and out.startswith("recorded 3 of 3 hosts")
    assert at(path, "0s ago")["hosts"][0]["launches"]["train_step"] >= first


def test_it_ends_with_the_run(tmp_path):
    """And by SIGTERM in order, as by Ctrl-C."""
    path = tmp_path / "whole.mcap"
    with (
        agents(hosts=2, seconds=150) as (address, process),
        processes([*JAXTOP, "record", address, "-o", path], stdout=PIPE, stderr=PIPE) as (recorder,),
    ):
        eventually(lambda: replay(path, "--at", "+5s").returncode == 0)  # a second beyond the end is the end
        process.kill()
        assert recorder.wait() == 0
        assert "recorded 2 of 2 hosts" in recorder.stdout.read()
    assert {host["state"] for host in at(path, "0s ago")["hosts"]} == {"died"}
    assert {host["state"] for host in at(path, "+4s")["hosts"]} == {"live"}
    with (
        agents(hosts=2) as (address, _),
        processes([*JAXTOP, "record", address, "-o", tmp_path / "2.mcap"], stdout=PIPE) as (recorder,),
    ):
        eventually(lambda: (tmp_path / "2.mcap").exists() and (tmp_path / "2.mcap").stat().st_size > 2000)
        recorder.terminate()
        assert recorder.wait() == 0 and "recorded" in recorder.stdout.read()


def test_sizes_are_kept_and_the_oldest_files_go(tmp_path):
    path = tmp_path / "rotated.mcap"
    words = [*JAXTOP, "record", "-o", path, "--max-size", "200k", "--max-files", "2"]

    def files():
        return sorted(tmp_path.glob("rotated*.mcap"))

    with (
        agents(hosts=64, devices=8, seconds=120) as (address, _),
        processes([*words, address], stdout=PIPE, stderr=PIPE) as (recording,),
    ):
        eventually(
            lambda: not path.exists() and len(files()) == 2 and files()[-1].stat().st_size > 50_000,
        )
        recording.terminate()
        said, complaints = recording.communicate()
    assert (recording.returncode, complaints) == (0, "")
    assert len(files()) == 2 and all(str(file) in said for file in files())
    document = json.loads(replay(tmp_path, "--at", "0s ago").stdout)
    assert [host["state"] for host in document["hosts"]] == ["live"] * 64
    for file in files():  # each of them stands for itself, from about its beginning on
        document = at(file, "0s ago")
        assert [len(host["devices"]) for host in document["hosts"]] == [8] * 64


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-files", "3"], "--max-size"),
        (["--max-size", "12"], "is not a size"),
        (["--max-size", "many"], "is not a size"),
        (["--duration", "soon"], "is not a duration"),
        (["--duration", "-3"], "--duration"),
        (["nobody-of-this-name"], "nobody-of-this-name"),
    ],
)
def test_what_record_cannot_do_it_says_in_one_line(words, said):
    done = jaxtop_here("record", *words)
    assert done.returncode == 2 and is_one_line(done.stderr) and said in done.stderr


def test_nothing_that_is_there_is_written_over_and_nothing_is_left_of_nothing(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "mine.mcap"
    path.write_text("mine")
    with agents(hosts=1) as (address, _):
        done = jaxtop("record", address, "-o", path, "--duration", "2")
        assert done.returncode == 2 and is_one_line(done.stderr) and "exists" in done.stderr
        done = jaxtop("record", address, "-o", folder / "no" / "such" / "folder.mcap", "--duration", "2")
        assert done.returncode == 2 and is_one_line(done.stderr) and "cannot be written" in done.stderr
        env = {**os.environ, "JAXTOP_KEY": "0" * 40}
        done = jaxtop("record", address, "-o", folder / "none.mcap", "--duration", "2", env=env)
        assert done.returncode == 2 and is_one_line(done.stderr) and "does not accept your key" in done.stderr
    assert path.read_text() == "mine"
    done = jaxtop("record", "127.0.0.1:9", "-o", folder / "none.mcap", "--duration", "2")
    assert done.returncode == 2 and is_one_line(done.stderr) and "nothing listens" in done.stderr
    assert [each.name for each in folder.iterdir()] == ["mine.mcap"]


# What a recording leaves free, as it says.
KEPT = "64 MiB stay for the run"


def test_a_disk_that_fills_ends_the_recording_and_says_what_there_is(tmp_path):
    """On a small file system of its own, where this machine can mount one."""
    full = tmp_path / "full"
    full.mkdir()
    if run("mount", "-t", "tmpfs", "-o", "size=70m", "tmpfs", full).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with agents(hosts=2) as (address, _):
            words = [*JAXTOP, "record", address, "-o", full / "run.mcap", "--duration", "30"]
            with processes(words, stdout=PIPE, stderr=PIPE) as (recording,):
                eventually((full / "run.mcap").exists)
                (full / "other").write_bytes(b"\1" * (10 << 20))  # leaves less than is left to the run
                said = recording.communicate()[1]
                assert recording.returncode == 1 and is_one_line(said)
                assert KEPT in said and "run.mcap" in said
            (full / "run.mcap").unlink()
            done = jaxtop("record", address, "-o", full / "run.mcap", "--duration", "30")
            assert done.returncode == 2 and is_one_line(done.stderr) and KEPT in done.stderr
            assert [each.name for each in full.iterdir()] == ["other"]
    finally:
        run("umount", full)


def test_help_names_the_forms_of_time():
    done = jaxtop("replay", "--help", env=environment(COLUMNS="200"))
    assert "3m ago" in done.stdout and "+90s" in done.stdout
