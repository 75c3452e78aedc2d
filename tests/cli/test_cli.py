"""The commands at their edges: what is wrong is said in one line with the mend in it, and quickly."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

from jaxtop import __version__
from jaxtop.base import keys
from jaxtop.cli import COMMANDS, main
from jaxtop.store import runfiles
from tests import patience
from tests.made.agents import hello_here
from tests.support import (
    JAXTOP,
    PYTHON,
    free_port,
    is_one_line,
    jaxtop,
    modules_after,
    processes,
    run,
    script,
)

HEAVY = ("jax", "jaxlib", "zmq", "textual", "rich", "numpy", "msgspec", "psutil", "pynvml", "mcap", "asyncio")
# Whether Python writes at once or only when it ends, which is where an error has nobody left to say it.
BUFFERED, UNBUFFERED = {"PYTHONUNBUFFERED": ""}, {"PYTHONUNBUFFERED": "1"}


# What an import costs


def test_help_is_fast_because_it_imports_nothing_heavy():
    asks = "from jaxtop.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert modules_after(asks).isdisjoint(HEAVY)


HELP_OF_EACH = f"""
from jaxtop.cli import main
for command in {[*COMMANDS]}:
    try: main([command, "--help"])
    except SystemExit: pass
"""


def test_help_of_help_is_that_of_jaxtop(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["help", "help"])
    assert ended.value.code == 0 and capsys.readouterr().out.startswith("usage: jaxtop [")


def test_help_of_all_commands_comes_without_jax_and_the_app():
    assert modules_after(HELP_OF_EACH).isdisjoint(("jax", "jaxlib", "textual", "rich"))


def test_importing_jaxtop_or_the_agent_costs_nothing():
    """A training script pays for the agent when it starts it, and not before."""
    assert modules_after("import jaxtop").isdisjoint({*HEAVY, "jaxtop_agent"})
    assert modules_after("import jaxtop; jaxtop.live").isdisjoint({*HEAVY, "jaxtop_agent", "IPython"})
    assert modules_after("from jaxtop import agent").isdisjoint(HEAVY)
    assert modules_after("import jaxtop_agent").isdisjoint(HEAVY)


def test_the_exporter_imports_opentelemetry_only_to_send():
    asks = "from jaxtop.cli import main\nmain(['exporter', '--alert-rules'])"
    assert modules_after(asks).isdisjoint(("opentelemetry", "requests", "prometheus_client", "textual"))


IMPORT_ALL = """
import importlib, pkgutil
for blocked in {blocked!r}:
    sys.modules[blocked] = None  # whoever imports it fails
import {package}
names = [module.name for module in pkgutil.walk_packages({package}.__path__, "{package}.")]
names = [name for name in names if not name.startswith({scripts!r})]
assert len(names) > 15, names
for name in names:
    importlib.import_module(name)
"""


def test_no_part_of_jaxtop_imports_jax():
    """It runs where the person sits, where JAX need not be installed."""
    for extra in ("aiohttp", "opentelemetry"):
        pytest.importorskip(extra, reason="imports all modules, also those that need the extras")
    blocked = ("jax", "jaxlib", "optax")
    modules_after(IMPORT_ALL.format(package="jaxtop", blocked=blocked, scripts=("jaxtop.__main__",)))


def test_no_part_of_the_agent_imports_a_terminal_library_an_exporter_or_jax():
    """JAX is found once the script has imported it; the agent never is the first."""
    blocked = (
        "textual",
        "rich",
        "jax",
        "jaxlib",
        "jaxtop.cli",
        "jaxtop.export",
        "jaxtop.model",
        "jaxtop.sources",
        "jaxtop.tui",
        "opentelemetry",
        "prometheus_client",
        "requests",
    )
    # Scripts of their own: one begins an interpreter, the others use JAX as anybody does.
    scripts = ("jaxtop_agent.boot.sitecustomize", "jaxtop_agent.demo.")
    modules_after(IMPORT_ALL.format(package="jaxtop_agent", blocked=blocked, scripts=scripts))


def test_a_project_with_an_agent_of_its_own_is_not_in_the_way(tmp_path):
    """Reinforcement-learning projects have an agent.py; both can be imported, in either order."""
    script(tmp_path, "class Agent: pass\nstart = None", name="agent.py")
    own, ours = "from agent import Agent", "from jaxtop import agent; assert callable(agent.start)"
    for i, lines in enumerate(([own, ours], [ours, own])):
        path = script(
            tmp_path, "\n".join([*lines, "import agent as mine; assert mine.start is None"]), f"train{i}.py"
        )
        assert run(PYTHON, path, cwd=tmp_path, imports_jax=True).stderr == ""
        assert jaxtop("run", path, cwd=tmp_path).stderr == ""


# What is asked for


def test_the_installed_command_and_the_module_are_the_same():
    installed = run(os.path.join(os.path.dirname(sys.executable), "jaxtop"), "--version")
    assert (installed.returncode, installed.stdout) == (0, f"jaxtop {__version__}\n")
    assert jaxtop("--version").stdout == installed.stdout
    listed = jaxtop("--help")
    assert listed.returncode == 0 and all(command in listed.stdout for command in COMMANDS)


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["bogus"], "invalid choice: 'bogus'"),
        (["--bogus"], "unrecognized arguments: --bogus; see jaxtop --help"),
        (["--"], "see jaxtop --help"),
        (["ls", "--bogus"], "unrecognized arguments: --bogus; see jaxtop ls --help"),
        (["--bogus", "ls"], "unrecognized arguments: --bogus; see jaxtop --help"),
        (["ls", "extra"], "unrecognized arguments: extra"),
        (["snapshot", "--format", "xml"], "invalid choice: 'xml'"),
        (["snapshot", "--wait"], "expected one argument"),
        (["snapshot", "--wait", "soon"], "soon is not between 0 and 3600 seconds"),
        (["snapshot", "--wait", "nan"], "nan is not between 0 and 3600 seconds"),
        (["snapshot", "--wait", "0"], "0 is not between 0 and 3600 seconds"),
        (["snapshot", "--wait=-1"], "-1 is not between 0 and 3600 seconds"),
        (["demo", "--hosts", "0"], "0 is not a number from 1 to 64"),
        (["demo", "--devices", "many"], "many is not a number from 1 to 64"),
        (["demo", "--fault", "stragler"], "did you mean straggler?"),
        (["run"], "nothing to run; usage: jaxtop run"),
        (["run", "--interval", "0", "x.py"], "0 is not a number of seconds from 0.1 to 60"),
        (["run", "--interval", "nan", "x.py"], "nan is not a number of seconds from 0.1 to 60"),
        (["run", "--interval", "soon", "x.py"], "soon is not a number of seconds from 0.1 to 60"),
        (["run", "-m"], "nothing to run; usage: jaxtop run"),
        (["run", "--", "nowhere.py"], "no script nowhere.py"),
        (["run", "nowhere.py", "--help"], "no script nowhere.py"),
        (["snapshot"], "jaxtop demo"),
        (["attach"], "jaxtop run SCRIPT"),
        ([], "jaxtop run SCRIPT"),
        (["snapshot", "a..b"], "neither a live run"),
        (["snapshot", "a.mcap"], "`jaxtop replay a.mcap` opens a recording"),
        (["attach", "./a.mcap"], "`jaxtop replay ./a.mcap` opens a recording"),
        (["snapshot", "./nowhere.json"], "is not a run file of yours"),
        (["snapshot", "127.0.0.1:0"], "a port between 1 and 65535"),
        (["snapshot", "127.0.0.1:port"], "a port between 1 and 65535"),
        (["snapshot", "127.0.0.1:99999"], "a port between 1 and 65535"),
        (
            ["snapshot", "--hostfile", "nowhere"],
            "the host file nowhere cannot be read: No such file or directory",
        ),
        (
            ["snapshot", "--hostfile", "/proc/self/exe"],
            "the host file /proc/self/exe cannot be read: it is not text",
        ),
        (["snapshot", "127.0.0.1:1", "--owner", "me"], "jaxtop doctor"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_said_in_one_line_with_the_mend_in_it(
    tmp_path, monkeypatch, capsys, words, mend
):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and is_one_line(err) and mend in err


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (("--bind", "192.0.2.1"), "--bind 192.0.2.1 cannot be served on"),
        (("--record", "/proc/nowhere"), "--record /proc/nowhere cannot be created"),
        (("--record", "/proc/self/exe"), "--record /proc/self/exe is no folder"),
    ],
)
def test_what_only_this_machine_cannot_do_is_a_warning_and_the_script_runs(words, warning):
    done = jaxtop("run", *words, "-c", "print('trained')")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert is_one_line(done.stderr) and warning in done.stderr


def test_without_a_terminal_the_app_names_the_command_for_text():
    done = jaxtop("attach", "127.0.0.1:1", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert is_one_line(done.stderr) and "`jaxtop snapshot`" in done.stderr


@pytest.mark.parametrize(("command", "closed"), [("ls", ">&-"), ("config", "<&- >&- 2>&-")])
def test_without_anywhere_to_write_nothing_is_said(command, closed):
    """As in `jaxtop ls >&-`, which cron jobs do."""
    done = run("sh", "-c", f'"$0" -m jaxtop {command} {closed}', PYTHON)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_key_that_is_none_is_said_in_one_line_that_does_not_show_it(home):
    pasted = "my password, of all things"
    wrong = jaxtop("snapshot", "127.0.0.1:1", env={**os.environ, "JAXTOP_KEY": pasted})
    assert wrong.returncode == 2 and is_one_line(wrong.stderr)
    assert "JAXTOP_KEY does not contain a jaxtop key" in wrong.stderr and pasted not in wrong.stderr
    keys.load()
    (home / ".config/jaxtop/key").chmod(0o644)
    readable = jaxtop("snapshot", "127.0.0.1:1")
    assert readable.returncode == 2 and is_one_line(readable.stderr) and "chmod 600" in readable.stderr


@pytest.mark.parametrize("silent", [False, True], ids=["nothing listens", "somebody else listens"])
def test_a_snapshot_that_reached_nobody_is_a_document_a_line_and_status_2(silent):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1] if silent else free_port()
        done = jaxtop("snapshot", f"127.0.0.1:{port}", "--wait", 4)
    assert done.returncode == 2 and is_one_line(done.stderr)
    assert f"127.0.0.1:{port}: " in done.stderr
    document = json.loads(done.stdout)
    (unmet,) = document["unmet"]
    assert document["hosts"] == [] and unmet["text"] and f": {unmet['text']}\n" in done.stderr


def test_ls_says_when_there_is_nothing_to_list():
    assert "jaxtop run SCRIPT" in jaxtop("ls").stdout
    done = jaxtop("ls", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])


@pytest.mark.parametrize("words", [["ls"], ["ls", "--json"], ["snapshot"]], ids=" ".join)
def test_where_no_run_can_be_looked_for_the_reason_is_given(words):
    env = {**os.environ, "HOME": "/proc/nohome"}
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        env.pop(name, None)
    done = jaxtop(*words, env=env)
    assert (done.returncode, done.stdout) == (2, "") and is_one_line(done.stderr)
    assert "/proc/nohome/.local/state/jaxtop/runs cannot be used: no such file or directory" in done.stderr


def test_ls_lists_the_living():
    """Two processes of a run are a line; a process that died is none."""
    runfiles.write(hello_here("a1", run="r1", process_index=0, name="my run"))
    runfiles.write(hello_here("a2", run="r1", process_index=1, name="my run"))
    runfiles.write(hello_here("dead", run="r2", process_started_ticks=1))
    (listed,) = json.loads(jaxtop("ls", "--json").stdout)
    assert (listed["id"], listed["name"], listed["processes_here"], listed["process_count"]) == (
        "r1",
        "my run",
        2,
        2,
    )
    assert listed["devices_here"] == 2 and listed["pids"] == [os.getpid()] * 2
    header, line = jaxtop("ls").stdout.splitlines()
    assert header.split()[:2] == ["NAME", "ID"] and line.startswith("my run  r1  2 of 2 ")


def test_ls_says_what_each_run_of_a_family_is_for():
    """The first process has no role of its own: it started the others."""
    runfiles.write(hello_here("a1", run="r1", name="learn", family="f"))
    runfiles.write(hello_here("a2", run="r2", name="learn", family="f", role="actor", parent_pid=7))
    runfiles.write(hello_here("a3", run="r3", name="alone", family="g"))
    listed = {run["id"]: run["role"] for run in json.loads(jaxtop("ls", "--json").stdout)}
    main, actor = {"name": "main", "is_guess": True}, {"name": "actor", "is_guess": False}
    assert listed == {"r1": main, "r2": actor, "r3": None}
    assert {line.split()[1] for line in jaxtop("ls").stdout.splitlines()} >= {"ROLE", "~main", "actor"}


# Whose screen it is


def test_a_name_that_the_terminal_cannot_write_is_no_error():
    runfiles.write(hello_here(name="训练-Zürich"))
    done = jaxtop("ls", env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u8bad\\u7ec3-Z\\xfcrich" in done.stdout


def test_a_name_cannot_steer_the_terminal():
    """What a run calls itself is shown, and does not clear the screen or colour it."""
    runfiles.write(hello_here(name="\x1b[2J\x1b[31mrun\nfake line\x07"))
    done = jaxtop("ls")
    assert len(done.stdout.splitlines()) == 2 and not set(done.stdout) & {"\x1b", "\x07"}
    assert "run" in done.stdout and "fake line" in done.stdout


@pytest.mark.parametrize(
    "words", [["ls", "--json"], ["snapshot", "127.0.0.1:1", "--wait", "1"]], ids=" ".join
)
def test_a_reader_that_has_enough_is_no_error(words):
    """As in `jaxtop ls | head -0`."""
    reading, writing = os.pipe()
    os.close(reading)
    options = {"stderr": subprocess.PIPE, "env": {**os.environ, **BUFFERED}}
    with processes([*JAXTOP, *words], stdout=writing, **options) as (process,):
        os.close(writing)
        assert process.stderr.read() == ""
        assert process.wait() == 141


@pytest.mark.parametrize("environment", [BUFFERED, UNBUFFERED], ids=["at the end", "at once"])
def test_a_disk_that_is_full_is_said_in_one_line(environment):
    with open("/dev/full", "w") as full:
        options = {
            "stdout": full,
            "stderr": subprocess.PIPE,
            "text": True,
            "env": {**os.environ, **environment},
        }
        done = subprocess.run([*JAXTOP, "ls"], check=False, **options)
    assert done.returncode == 1 and is_one_line(done.stderr) and "No space left on device" in done.stderr


def test_ctrl_c_ends_a_command_without_a_word():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        words = [*JAXTOP, "snapshot", target, "--watch", "600"]
        with processes(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as (process,):
            silent.settimeout(patience.left())
            for _ in range(2):  # it has come back, so it is under way
                silent.accept()[0].close()
            process.send_signal(signal.SIGINT)
            assert process.communicate() == ("", "")
            assert process.returncode == 130


@pytest.mark.parametrize("name", ["jaxtop.cli", "argparse", "jaxtop.cli.ls"])
def test_an_interrupt_while_it_is_imported_ends_a_command_in_silence(name):
    script = f"""
        import os, signal, sys

        class Interrupts:
            def find_spec(self, name, *_):
                if name == {name!r}:
                    os.kill(os.getpid(), signal.SIGINT)

        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.meta_path.insert(0, Interrupts())
        from jaxtop.__main__ import main
        sys.argv = ["jaxtop", "ls"]
        main()
    """
    words = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
