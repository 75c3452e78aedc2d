"""The user's key: one for agents and viewers alike, made by whoever comes first, shown to nobody."""

from __future__ import annotations

import os
import pickle
import subprocess
import tempfile
import textwrap
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from jaxtop.base import keys
from tests.support import PYTHON, disk_with_room_for, mode, run

GARBAGE = ["x", "#" * 40, "0" * 39, "0" * 41, "0" * 20 + "\n" + "0" * 20, "0" * 39 + "'", " "]
RACERS, ROUNDS = 6, 100
USER, FS_GROUP = 54321, 54333


def test_the_key_is_made_on_first_use_and_kept_from_everybody_else(home):
    """No setting up: the first to ask makes it, in a folder of its own; the next get the same."""
    path = home / ".config" / "jaxtop" / "key"
    assert not path.exists()
    before = os.umask(0)
    try:
        pair = keys.load()
    finally:
        os.umask(before)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert path.read_text().strip() == pair.secret.decode()
    assert zmq.curve_public(pair.secret) == pair.public
    assert keys.load() == pair
    assert [each.name for each in path.parent.iterdir()] == ["key"]


def test_two_users_have_two_keys(home, monkeypatch):
    mine = keys.load()
    monkeypatch.setenv("HOME", str(home / "other"))
    assert keys.load().public != mine.public


RACE = """
import os, sys, time, zmq
from jaxtop.base import keys
print(flush=True)
home, start = os.environ["HOME"], float(sys.stdin.readline())
for i in range(int(sys.argv[1])):
    os.environ["HOME"] = f"{home}/{i}"
    time.sleep(max(0, start + i * 0.02 - time.time()))
    print(keys.load().secret.decode())
"""


def test_processes_that_start_at_once_get_one_key(home):
    """Sixty-four hosts with a shared home may all be the first; raced again and again, each time anew."""
    command = [PYTHON, "-c", RACE, str(ROUNDS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen(command, **pipes) for _ in range(RACERS)]
    try:
        for racer in racers:
            racer.stdout.readline()
        start = time.time() + 0.1
        for racer in racers:
            racer.stdin.write(f"{start}\n")
            racer.stdin.flush()
        answers = [racer.communicate()[0].splitlines() for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
    rounds = list(zip(*answers, strict=True))
    assert len(rounds) == len({frozenset(got) for got in rounds}) == ROUNDS
    for i, got in enumerate(rounds):
        folder = home / str(i) / ".config/jaxtop"
        assert {*got} == {(folder / "key").read_text().strip()}
        assert [each.name for each in folder.iterdir()] == ["key"]


def test_the_settings_folder_may_be_elsewhere(home, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
    keys.load()
    assert (home / "settings" / "jaxtop" / "key").exists()
    assert not (home / ".config").exists()


@pytest.mark.parametrize("bits", [0o644, 0o640, 0o440, 0o604, 0o660, 0o777])
def test_a_key_that_others_can_read_is_not_used(home, bits):
    keys.load()
    path = home / ".config" / "jaxtop" / "key"
    if os.getuid() == 0:
        os.chown(path, USER, USER)  # for root's own files the rule is another one
    path.chmod(bits)
    with pytest.raises(keys.NoKey, match=f"chmod 600 {path}"):
        keys.load()
    path.chmod(0o400)
    assert keys.load()


@contextmanager
def secret_of_a_pod(mode):
    """A key file as kubelet mounts a Secret for an fsGroup: root's, read by the group, behind two links."""
    with tempfile.TemporaryDirectory() as name:
        folder, pair = Path(name), keys.throwaway()
        (folder / "..2026").mkdir()
        (folder / "..2026/key").write_bytes(pair.secret)
        (folder / "..2026/key").chmod(mode)
        (folder / "..data").symlink_to("..2026")
        (folder / "key").symlink_to("..data/key")
        os.chown(folder / "..2026/key", 0, FS_GROUP)
        folder.chmod(0o1777)
        yield folder / "key", pair


def loaded(path, user, *groups):
    """What `load` of a user says of this key file."""
    asks = textwrap.dedent(f"""
        import os, zmq
        from jaxtop.base import keys
        os.setgroups({[*groups]}); os.setgid({user}); os.setuid({user})
        try:
            print(keys.load().public.decode())
        except keys.NoKey as error:
            print(error)
    """)
    done = run(PYTHON, "-c", asks, env={**os.environ, "JAXTOP_KEY_FILE": str(path)})
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
@pytest.mark.parametrize("bits", [0o440, 0o640])
def test_a_secret_that_root_gave_to_a_group_is_read_by_that_group_alone(bits):
    with secret_of_a_pod(bits) as (path, pair):
        assert loaded(path, USER, FS_GROUP) == pair.public.decode()
        assert loaded(path, 0, FS_GROUP) == pair.public.decode()
        assert "Permission denied" in loaded(path, USER)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
@pytest.mark.parametrize("bits", [0o660, 0o644, 0o444, 0o460, 0o450])
def test_a_secret_that_is_open_to_more_is_not_used(bits):
    """What Kubernetes does by default is 0644; the answer says what to set."""
    with secret_of_a_pod(bits) as (path, _):
        said = loaded(path, USER, FS_GROUP)
        assert "chmod 600" in said and "defaultMode: 0400" in said and "\n" not in said


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_what_is_no_key_is_named_but_not_shown(home, monkeypatch, garbage):
    """It may be another secret, pasted into the wrong place."""
    path = home / "given"
    path.touch(0o600)
    path.write_text(garbage)
    for name, value in (("JAXTOP_KEY_FILE", str(path)), ("JAXTOP_KEY", garbage)):
        monkeypatch.setenv(name, value)
        with pytest.raises(keys.NoKey) as caught:
            keys.load()
        said = "".join(traceback.format_exception(caught.value))
        assert str(caught.value).startswith(f"{path if name == 'JAXTOP_KEY_FILE' else name} does not contain")
        assert "40 characters" in said and (len(garbage) < 3 or garbage not in said)


@pytest.mark.parametrize("raw", [b"\xff\xfe" * 20, "\u00e9".encode() * 40], ids=["bytes", "letters"])
def test_what_no_key_is_made_of_is_said_to_be_none(home, monkeypatch, raw):
    path = home / "given"
    path.touch(0o600)
    path.write_bytes(raw)
    monkeypatch.setenv("JAXTOP_KEY_FILE", str(path))
    with pytest.raises(keys.NoKey, match=str(path)):
        keys.load()


def test_the_key_may_come_from_the_environment(home, monkeypatch):
    """Containers may have no home: the key itself goes before a file, a file before the home."""
    of_home, in_file, in_variable = keys.load(), keys.throwaway(), keys.throwaway()
    path = home / "given"
    path.touch(0o600)
    path.write_bytes(in_file.secret)  # without a newline
    monkeypatch.setenv("JAXTOP_KEY_FILE", str(path))
    assert keys.load() == in_file
    monkeypatch.setenv("JAXTOP_KEY", f" {in_variable.secret.decode()}\n")
    assert keys.load() == in_variable
    monkeypatch.setenv("JAXTOP_KEY", "")
    monkeypatch.setenv("JAXTOP_KEY_FILE", "")
    assert keys.load() == of_home


@pytest.mark.parametrize("named", ["nowhere", ".", "x" * 5000], ids=["missing", "folder", "too long"])
def test_a_named_key_file_is_never_made_up(home, monkeypatch, named):
    """A key made where one was expected would lock the owner out without a word."""
    monkeypatch.setenv("JAXTOP_KEY_FILE", str(home / named))
    with pytest.raises(keys.NoKey, match="JAXTOP_KEY_FILE"):
        keys.load()
    assert list(home.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_said_in_one_line(home, monkeypatch):
    for base in (home / "file", "/proc/self"):
        (home / "file").touch()
        monkeypatch.setenv("XDG_CONFIG_HOME", str(base))
        with pytest.raises(keys.NoKey, match=f"{base}/jaxtop/key .*JAXTOP_KEY_FILE") as caught:
            keys.load()
        assert "\n" not in str(caught.value)


def test_a_full_disk_leaves_no_half_of_a_key(home):
    with disk_with_room_for(0), pytest.raises(keys.NoKey, match="no key could be made"):
        keys.load()
    assert not [*(home / ".config" / "jaxtop").iterdir()]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be a user whom the system does not know")
def test_a_user_without_a_home_reads_what_to_set():
    """Containers run under numbers that nobody gave a name or a home."""
    given = keys.throwaway().secret.decode()
    asks = textwrap.dedent("""
        import os, zmq
        from jaxtop.base import keys
        from jaxtop.store import runfiles
        os.setuid(54321)
        assert keys.authorized() == frozenset() and runfiles.find() == []
        try:
            print(keys.load().secret.decode())
        except keys.NoKey as error:
            print(error)
    """)
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    without = run(PYTHON, "-c", asks, env=environment)
    assert (without.stderr, "JAXTOP_KEY_FILE" in without.stdout) == ("", True)
    given_one = run(PYTHON, "-c", asks, env={**environment, "JAXTOP_KEY": given})
    assert (given_one.stderr, given_one.stdout.strip()) == ("", given)


def test_the_secret_is_never_shown():
    """Not in a repr, a format, a log line, a list of them, or an exception's text."""
    pair = keys.throwaway()
    shown = [repr(pair), str(pair), f"{pair}", f"{[pair]}", f"{(pair,)!s:.200}", f"{ {'key': pair} }"]
    for each in shown:
        assert pair.secret.decode() not in each and pair.public.decode() in each
    assert pickle.loads(pickle.dumps(pair)) == pair  # it is only shown with less, not made less


def test_colleagues_are_listed_a_key_a_line(home):
    first, second = keys.throwaway().public, keys.throwaway().public
    assert keys.authorized() == frozenset()
    path = home / ".config" / "jaxtop" / "authorized_keys"
    path.parent.mkdir(parents=True)
    path.write_bytes(
        b"# who may look\n\n  \n"
        + first
        + b" Ada\n   "
        + second
        + b"\tJos\xe9 (in Latin-1)\r\n"
        + b"short Bob\n"
    )
    assert keys.authorized() == {first, second}


def test_a_list_of_colleagues_that_cannot_be_read_admits_nobody(home):
    (home / ".config" / "jaxtop" / "authorized_keys").mkdir(parents=True)
    assert keys.authorized() == frozenset()
