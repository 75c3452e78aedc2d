"""Shorthands of targets become exactly these commands; what is wrong with one is said in a line."""

from __future__ import annotations

import argparse
import shlex

import pytest

from jaxtop.cli import ways
from jaxtop.cli.errors import UserError
from jaxtop.features.relay import command as relay
from jaxtop.features.relay.stream import Open
from tests.support import JAXTOP, PYTHON, ROOT, jaxtop_here, run

SSH = ("ssh", "-T", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
SRUN = ("--overlap", "--nodes=1", "--ntasks=1", "--quiet", "--unbuffered")


@pytest.mark.parametrize(
    ("target", "command", "targets"),
    [
        ("ssh://login01", (*SSH, "--", "login01"), ()),
        ("ssh://me@login01/demo", (*SSH, "--", "me@login01"), ("demo",)),
        ("ssh://login01:2222/node3:7411", (*SSH, "-p", "2222", "--", "login01"), ("node3:7411",)),
        ("ssh://me@[fd00::1]:22/", (*SSH, "-p", "22", "--", "me@fd00::1"), ()),
        ("slurm://4711", ("srun", "--jobid", "4711", *SRUN), ()),
        ("slurm://4711_3", ("srun", "--jobid", "4711_3", *SRUN), ()),
        ("k8s://ml/trainer-0", ("kubectl", "exec", "-i", "-n", "ml", "trainer-0", "--"), ()),
    ],
)
def test_a_shorthand_is_one_command(target, command, targets):
    assert ways.find(None, [target]) == (command, targets, "")


def test_via_takes_any_command_and_the_targets_of_the_other_side():
    assert ways.find("docker exec -i 'my box'", ["demo"]) == (
        ("docker", "exec", "-i", "my box"),
        ("demo",),
        "",
    )
    assert ways.find(None, ["demo", "host:7410"]) is None
    assert ways.find(None, []) is None


@pytest.mark.parametrize(
    ("via", "names", "why"),
    [
        (None, ["ssh://"], "is not ssh://"),
        (None, ["ssh://-oProxyCommand=evil"], "is not ssh://"),
        (None, ["ssh://-oProxyCommand=evil@h"], "is not ssh://"),
        (None, ["ssh://[-oProxyCommand=evil]"], "is not ssh://"),
        (None, ["ssh://me@-oProxyCommand=evil"], "is not ssh://"),
        (None, ["ssh://me@[login01]"], "is not ssh://"),
        (None, ["ssh://login01:123456"], "is not ssh://"),
        (None, ["ssh://a b"], "is not ssh://"),
        ("ssh a", ["ssh://b"], "both name a way"),
        (None, ["slurm://4711; rm"], "is not slurm://JOBID"),
        (None, ["k8s://ml"], "is not k8s://"),
        (None, ["k8s://ml/--kubeconfig"], "is not k8s://"),
        (None, ["ssh://a", "b"], "must be the only target"),
        ("", [], "needs a command"),
        ("ssh 'a", [], "is not a command"),
    ],
)
def test_what_is_no_way_is_said_in_a_line(via, names, why):
    with pytest.raises(UserError, match=why) as error:
        ways.find(via, names)
    assert "\n" not in str(error.value)


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A stand-in that writes down how it was called, and answers with the files `out` and `status`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/called\ncat {tmp_path}/out\nexit $(cat {tmp_path}/status)\n'
    )
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def answer(text: str, status: int = 0):
        (tmp_path / "out").write_text(text)
        (tmp_path / "status").write_text(str(status))
        return tmp_path / "called"

    return answer


GET = "get pods -n ml -l app=trainer --field-selector status.phase=Running -o name"


def test_a_label_of_kubernetes_is_its_first_running_pod_at_each_connection(kubectl):
    called = kubectl("pod/trainer-0\npod/trainer-1\n")
    way = ways.find(None, ["k8s://ml/app=trainer"])
    for _ in range(2):
        run(*way.command, "jaxtop", "relay", "--stdio", env=None)
    assert called.read_text() == f"{GET}\nexec -i -n ml pod/trainer-0 -- jaxtop relay --stdio\n" * 2


@pytest.mark.parametrize(
    ("out", "status", "why"), [("", 0, "no running pod in ml has the label app=trainer"), ("", 1, "ended")]
)
def test_a_label_without_a_pod_is_one_line(kubectl, out, status, why):
    kubectl(out, status)
    done = jaxtop_here("snapshot", "k8s://ml/app=trainer")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("jaxtop: `k8s://ml/app=trainer` ended") and why in done.stderr


def test_without_kubectl_a_label_is_one_line(monkeypatch, tmp_path):
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    done = jaxtop_here("snapshot", "k8s://ml/app=trainer")
    assert "kubectl is not installed" in done.stderr and done.stderr.count("\n") == 1


def test_the_command_line_in_a_pod_is_this_one(kubectl):
    called = kubectl("", 5)
    done = jaxtop_here("snapshot", "k8s://ml/trainer-0")
    assert called.read_text() == "exec -i -n ml trainer-0 -- jaxtop relay --stdio\n"
    assert done.returncode == 2 and done.stderr.startswith(
        "jaxtop: `kubectl exec -i -n ml trainer-0 --` ended"
    )


def test_a_relay_on_a_terminal_or_without_stdio_says_what_it_is_for():
    done = jaxtop_here("relay")
    assert done.returncode == 2 and "--stdio" in done.stderr and done.stderr.count("\n") == 1
    done = run("sh", "-c", shlex.join([*JAXTOP, "relay", "--stdio"]) + " <&-")
    assert done.returncode == 2 and "--via" in done.stderr and done.stderr.count("\n") == 1


def test_a_relay_with_a_fixed_run_refuses_another():
    def used(targets: list[str], owner: str | None, wanted: Open) -> tuple[list[str], str | None]:
        arguments = argparse.Namespace(target=targets, hostfile=None, owner=owner)
        relay._use(wanted, arguments)
        return arguments.target, arguments.owner

    assert used([], None, Open(("a",), "k")) == (["a"], "k")
    assert used(["a"], "k", Open()) == (["a"], "k")
    assert used(["a"], "k", Open(("a",), "k")) == (["a"], "k")
    for wanted in (Open(("b",)), Open((), "l")):
        with pytest.raises(UserError, match="leave yours out"):
            used(["a"], "k", wanted)


def test_a_host_file_is_read_here(tmp_path):
    (tmp_path / "hosts").write_text("host1\nnothing\n")
    far = shlex.join([str(PYTHON), str(ROOT / "tests" / "programs" / "far.py"), "1", "1"])
    done = jaxtop_here("snapshot", "--hostfile", tmp_path / "hosts", "--via", f"sh -c {shlex.quote(far)} sh")
    assert done.returncode == 2 and "there is nothing like it" in done.stderr


def test_a_recording_is_not_checked_through_a_way(tmp_path):
    (tmp_path / "a.mcap").touch()
    done = jaxtop_here("check", tmp_path / "a.mcap", "--via", "ssh login01")
    assert done.returncode == 3 and "either recordings or a live run" in done.stderr


def test_every_command_that_takes_a_target_takes_a_way_and_a_map():
    from jaxtop.cli import attach, check, record, snapshot
    from jaxtop.features.alerts import command as watch
    from jaxtop.features.metrics import command as exporter

    for command in (attach, check, exporter, record, snapshot, watch):
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        required = ["--exec", "true"] if command is watch else []
        assert parser.parse_args(["--via", "ssh login01", *required]).via == "ssh login01"
        assert parser.parse_args(["--map", "a=b", "--map", "c:1=d:2", *required]).map == ["a=b", "c:1=d:2"]


def test_a_command_that_only_repeats_the_status_does_not_hide_why(tmp_path):
    """Slurm and Kubernetes add a line about the exit status, before or after the one that says why."""
    for text in (
        "srun: error: n1: task 0: Exited with exit code 2\nslurmstepd: error: execve(): jaxtop: No such file",
        "slurmstepd: error: execve(): jaxtop: No such file\nsrun: error: n1: task 0: Exited with exit code 2",
        'exec: "jaxtop": executable file not found in $PATH\ncommand terminated with exit code 126',
    ):
        (tmp_path / "text").write_text(f"{text}\n")
        done = jaxtop_here("snapshot", "--via", f"sh -c 'cat {tmp_path}/text >&2; exit 2'")
        assert done.returncode == 2 and "finds no jaxtop on the other side" in done.stderr, done.stderr
