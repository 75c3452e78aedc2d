"""What is on disk is the user's alone, whatever the umask, and nobody can lead us to write elsewhere."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from jaxtop.base import private
from jaxtop.recording import compact
from jaxtop.store import runfiles, saved_probe
from tests.made import sessions as made_sessions
from tests.made.agents import hello_here
from tests.made.sessions import Made
from tests.played.recordings import record, written
from tests.staged.probe import probe
from tests.support import JAXTOP, PYTHON, environment, eventually, jaxtop, processes, script, snapshot

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
VICTIM, ATTACKER = 54321, 54322


@contextmanager
def umask(bits):
    before = os.umask(bits)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> set[int]:
    """The permissions of all that is in a folder, and its own; links aside."""
    found = (folder, *folder.rglob("*"))
    return {stat.S_IMODE(each.stat().st_mode) | (each.is_dir() and 0o1000) for each in found}


OWN = {0o600, 0o1700}


@pytest.mark.parametrize("bits", [0, 0o022, 0o277])
def test_what_is_written_is_for_its_user_alone(tmp_path, monkeypatch, bits):
    """Recordings of every form, run files, the probe's result, and missing folders above them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "new/state"))
    with umask(bits):
        private.make(tmp_path / "boxes/of/a/run")
        record(tmp_path / "boxes/of/a/run/a.mcap", Made(seconds=2))
        written(tmp_path / "boxes/b.mcap", made_sessions.frames(Made(seconds=2))).finish()
        compact(tmp_path / "boxes/b.mcap")
        assert runfiles.write(hello_here()) is None
        assert saved_probe.keep(probe()) is not None
    assert modes(tmp_path / "boxes") == OWN
    assert modes(tmp_path / "new") == OWN
    assert [each.hello.agent for each in runfiles.find()] == ["a1"]


def test_folders_of_an_earlier_jaxtop_lose_the_permissions_of_others(home):
    """Folders that the user chose for recordings keep theirs."""
    folder = home / ".local/state/jaxtop"
    (folder / "runs").mkdir(parents=True)
    (home / "boxes").mkdir()
    for each in (folder, folder / "runs", home / "boxes"):
        each.chmod(0o777)
    runfiles.write(hello_here())
    private.make(home / "boxes/new")
    assert modes(folder) == OWN
    assert modes(home / "boxes") == {0o1777, 0o1700}


@pytest.mark.jax
@pytest.mark.newest
def test_a_black_box_and_a_recording_are_for_their_user_alone(tmp_path):
    """As a user meets them: `run --record` and `record`, under a umask that hides nothing."""
    text = script(tmp_path, "import jax, time\njax.numpy.ones(3)\ntime.sleep(600)\n")
    env = environment(1)
    with (
        umask(0),
        processes([*JAXTOP, "run", "--name", "mine", "--record", tmp_path / "boxes", text], env=env),
    ):
        eventually(lambda: snapshot("mine", "--wait", "2")[0] == 0)
        done = jaxtop("record", "mine", "-o", tmp_path / "a.mcap", "--duration", "1s")
    assert done.returncode == 0, done.stderr
    assert modes(tmp_path / "boxes") == OWN and len(modes(tmp_path / "a.mcap")) == 1
    assert stat.S_IMODE((tmp_path / "a.mcap").stat().st_mode) == 0o600
    assert modes(tmp_path / ".local/state/jaxtop") == OWN
    assert modes(tmp_path / ".config/jaxtop") == OWN


# Two users


@contextmanager
def shared_place():
    """A folder like /tmp, and a home of the victim."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        for part, mode, user in (("tmp", 0o1777, 0), ("home", 0o700, VICTIM)):
            (place / part).mkdir()
            (place / part).chmod(mode)
            os.chown(place / part, user, user)
        yield place


def as_user(user: int, text: str, place: Path) -> str:
    """What a script prints that this user runs."""
    head = (
        "import os\nfrom jaxtop.store import runfiles\nfrom jaxtop.cli import doctor\n"
        "from tests.made.agents import hello_here\n"  # what a user without a home cannot read
        f"os.setgroups([]); os.setgid({user}); os.setuid({user})\n"
    )
    env = {**os.environ, "XDG_RUNTIME_DIR": str(place / "tmp"), "HOME": str(place / "home")}
    done = subprocess.run([PYTHON, "-c", head + text], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


WRITE = 'print(runfiles.write(hello_here("a1")), *(each.path for each in runfiles.find()))'


@needs_root
@pytest.mark.parametrize("mode", [0o777, 0o755, 0o711])
def test_a_runtime_folder_of_another_user_is_refused(mode):
    """The next folder is used; nothing is written through a link that waits there."""
    with shared_place() as place:
        folder, precious = place / "tmp/jaxtop", place / "home/precious"
        folder.mkdir()
        precious.write_text("mine")
        os.chown(precious, VICTIM, VICTIM)
        for name in ("a1.draft", "a1.json", ".a1.json"):
            (folder / name).symlink_to(precious)
        folder.chmod(mode)
        os.chown(folder, ATTACKER, ATTACKER)
        expected = place / "home/.local/state/jaxtop/runs/a1.json"
        assert as_user(VICTIM, WRITE, place) == f"None {expected}"
        assert precious.read_text() == "mine" and len([*folder.iterdir()]) == 3


@needs_root
def test_a_link_of_another_user_is_not_followed():
    with shared_place() as place:
        link = place / "tmp/jaxtop"
        link.symlink_to(place / "home")
        os.chown(link, ATTACKER, ATTACKER, follow_symlinks=False)
        as_user(VICTIM, WRITE, place)
        assert not (place / "home/a1.json").exists()
        assert (place / "home/.local/state/jaxtop/runs/a1.json").exists()


@needs_root
def test_a_link_of_the_user_is_followed():
    """State is put elsewhere where homes are small."""
    with shared_place() as place:
        (place / "tmp/mine").mkdir()
        (place / "tmp/jaxtop").symlink_to(place / "tmp/mine")
        for each in ("mine", "jaxtop"):
            os.chown(place / "tmp" / each, VICTIM, VICTIM, follow_symlinks=False)
        assert as_user(VICTIM, WRITE, place) == f"None {place / 'tmp/jaxtop/a1.json'}"


@needs_root
def test_a_file_that_waits_is_replaced_and_not_followed():
    """In a folder of the user's own that was open to all until now."""
    with shared_place() as place:
        folder, precious = place / "tmp/jaxtop", place / "home/precious"
        folder.mkdir()
        folder.chmod(0o777)
        os.chown(folder, VICTIM, VICTIM)
        precious.write_text("mine")
        (folder / "a1.json").symlink_to(precious)
        as_user(VICTIM, WRITE, place)
        assert precious.read_text() == "mine"
        assert modes(folder) == OWN


@needs_root
def test_where_all_folders_are_of_others_the_reason_is_reported():
    with shared_place() as place:
        for each in (place / "tmp/jaxtop", place / "home/.local/state/jaxtop"):
            each.mkdir(parents=True)
            os.chown(each, ATTACKER, ATTACKER)
        told = as_user(VICTIM, WRITE, place)
        assert told == f"{place}/home/.local/state/jaxtop/runs cannot be used: it belongs to user {ATTACKER}"
        assert told in as_user(VICTIM, "for each in doctor._run_files(): print(each)", place)


@needs_root
def test_a_recording_is_not_written_through_a_link(tmp_path):
    """Neither by the writer nor where a finished one is written anew."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "a.mcap").symlink_to(precious)
    with suppress(AssertionError):
        record(tmp_path / "a.mcap", Made(seconds=1))
    assert precious.read_text() == "mine"
    made = tmp_path / "b.mcap"
    written(made, made_sessions.frames(Made(seconds=2))).finish()
    (tmp_path / ".b.mcap.compacting").symlink_to(precious)
    compact(made)
    assert precious.read_text() == "mine"


@needs_root
def test_a_file_that_is_no_file_is_not_waited_for(home):
    """A pipe with the name of a run file."""
    runfiles.write(hello_here())
    os.mkfifo(home / ".local/state/jaxtop/runs/pipe.json")
    assert [each.hello.agent for each in runfiles.find()] == ["a1"]
