"""The debug log, in a file and by the logger `jaxtop`: what the agent did and why, and nothing unasked."""

from __future__ import annotations

import os
import re
import stat
import time
import weakref
from subprocess import PIPE

import pytest

from jaxtop.base import debuglog, private
from tests.cases import thorough
from tests.real.unharmed import START, START_HOT
from tests.support import PYTHON, environment, eventually, jaxtop, processes, script, viewer

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (\d+) ")


@pytest.fixture
def log(tmp_path):
    return debuglog.DebugLog(str(tmp_path / "debug.log"))


def written(folder):
    path = folder / "debug.log"
    return path.read_text() if path.exists() else ""


class TestFile:
    def test_is_the_users_alone_and_appended_to(self, tmp_path, log):
        (tmp_path / "debug.log").write_text("before\n")
        (tmp_path / "debug.log").chmod(0o644)
        log.add(debuglog.INFO, "agent", "one", "detail")
        before, line = written(tmp_path).splitlines()
        assert before == "before" and LINE.match(line)[1] == str(os.getpid())
        assert line.endswith(" agent info: one: detail")
        assert stat.S_IMODE((tmp_path / "debug.log").stat().st_mode) == 0o600

    def test_every_line_of_a_traceback_has_the_pid_and_no_frame_is_held(self, tmp_path, log):
        class Held:
            pass

        def fail(_):
            raise ValueError("on\ntwo lines")

        held = Held()
        reference = weakref.ref(held)
        try:
            fail(held)
        except ValueError as error:
            log.add(debuglog.WARNING, "sampler", "failed", error=error)
        del held
        assert reference() is None
        lines = written(tmp_path).splitlines()
        assert [LINE.match(line)[1] for line in lines] == [str(os.getpid())] * len(lines)
        assert "raise ValueError" in written(tmp_path) and lines[-1].endswith("| two lines")

    def test_repetitions_are_counted_instead_of_written(self, tmp_path, log, monkeypatch):
        for _ in range(100):
            log.add(debuglog.WARNING, "sampler", "failed", "again")
        assert len(written(tmp_path).splitlines()) == debuglog.AT_FIRST
        log.add(debuglog.WARNING, "sampler", "something else")
        monkeypatch.setattr(time, "monotonic", lambda: 1e12)
        log.add(debuglog.WARNING, "sampler", "failed", "again")
        assert written(tmp_path).splitlines()[-1].endswith("again (97 more such lines since the last one)")

    def test_it_is_bounded(self, tmp_path, log, monkeypatch, capfd):
        monkeypatch.setattr(debuglog, "MOST_BYTES", 1 << 20)
        for number in range(1000):
            log.add(debuglog.INFO, "agent", f"{number} {'x' * 2000}")
        assert (tmp_path / "debug.log").stat().st_size <= 1 << 20
        assert capfd.readouterr().err.count("\n") == 1

    def test_lines_that_nobody_fetches_are_dropped_and_counted(self, tmp_path, log):
        log.deliver = lambda: None
        for number in range(debuglog.MOST_WAITING + 7):
            log.add(debuglog.INFO, "agent", f"line {number}")
        log.write()
        assert (
            written(tmp_path)
            .splitlines()[-1]
            .endswith("7 lines were dropped: they came faster than they can be written")
        )

    @pytest.mark.parametrize("kind", ["link", "second name", "folder", "fifo", "nowhere"])
    def test_what_is_no_file_of_the_user_is_refused_with_one_line(self, tmp_path, log, kind, capfd):
        path, other = tmp_path / "debug.log", tmp_path / "other"
        other.write_text("precious")
        match kind:
            case "link":
                path.symlink_to(other)
            case "second name":
                path.hardlink_to(other)
            case "folder":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "nowhere":
                log = debuglog.DebugLog(str(tmp_path / "no" / "debug.log"))
        for _ in range(3):
            log.add(debuglog.INFO, "agent", "one")
        assert re.fullmatch(
            r"jaxtop: JAXTOP_DEBUG=\S+debug\.log cannot be written: .+\n", capfd.readouterr().err
        )
        assert other.read_text() == "precious"

    def test_another_users_file_is_refused(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        with pytest.raises(private.Foreign):
            private.append(tmp_path / "file")


# `{prepare}` happens before the agent starts; `jax._src.array` is a private module that the census needs.
TRAINING = """
    import logging, os, sys, threading, time
    {prepare}
    {start}
    import numpy as np
    import jax
    step = jax.jit(lambda x: x * 0.5 + 1)
    x = step(np.full(8, 2.0))
    sys.modules.pop("jax._src.array")
    print("ready", flush=True)
    while not os.path.exists("go"):
        x = step(x)
        time.sleep(0.01)
    print(float(x.sum()), [each.name for each in threading.enumerate()])
    sys.exit(3)
"""
GOOD = "16.0 ['MainThread']\n"


def training(folder, prepare="pass", start=START_HOT, *, imports_jax=False, **more):
    path = script(folder, TRAINING.replace("{prepare}", prepare).replace("{start}", start))
    variables = environment(**more)
    options = {"stdout": PIPE, "stderr": PIPE, "cwd": folder, "env": variables}
    return processes([PYTHON, path], imports_jax=imports_jax, **options)


def end(process, folder):
    (folder / "go").touch()
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout) == (3, GOOD)
    return stderr


def arrays_are_off(attached):
    hello = attached.host(0).hello
    return hello and hello.sources.get("arrays", "").startswith("off")


FAILED = "sampler warning: the collector 'arrays' failed: 3 of 3 times in a row"
OFF = "the source 'arrays' is off: Missing: jax._src.array is not imported: before: on"


LIMIT = """
    import _thread
    real, started = _thread.start_new_thread, []
    def start_new_thread(target, *args):
        if {condition}:
            raise RuntimeError("can't start new thread")
        started.append(target)
        return real(target, *args)
    _thread.start_new_thread = start_new_thread
    """


@pytest.mark.jax
class TestAgent:
    @pytest.mark.newest
    def test_a_collector_that_fails_is_in_the_file_with_its_traceback(self, tmp_path):
        with training(tmp_path, imports_jax=True, JAXTOP_DEBUG="debug.log") as (process,):
            assert process.stdout.readline() == "ready\n"
            with viewer() as attached:
                attached.until(lambda: FAILED in written(tmp_path) and OFF in written(tmp_path))
            assert end(process, tmp_path) == ""
        lines = written(tmp_path).splitlines()
        assert {LINE.match(line)[1] for line in lines} == {str(process.pid)}
        assert any("in array_type" in line for line in lines)
        assert any(
            line.endswith("jaxprivate.lookup.Missing: jax._src.array is not imported") for line in lines
        )
        assert any("start info: waits until the script imports jax" in line for line in lines)
        assert any("publisher info: viewers: 1: before: 0" in line for line in lines)
        assert lines[-1].endswith("agent info: stopped: ended")
        assert stat.S_IMODE((tmp_path / "debug.log").stat().st_mode) == 0o600

    @pytest.mark.newest
    def test_the_logger_is_silent_unless_the_script_sets_it_up(self, tmp_path):
        with training(tmp_path, "logging.basicConfig(level=logging.DEBUG)") as (process,):
            assert process.stdout.readline() == "ready\n"
            with viewer() as attached:
                attached.until(lambda: arrays_are_off(attached))
            stderr = end(process, tmp_path)
        assert "jaxtop" not in stderr

    @pytest.mark.newest
    @pytest.mark.parametrize("how", ["level", thorough("handler")])
    def test_a_script_that_sets_up_the_logger_gets_the_lines(self, tmp_path, how):
        """And no thread of ours is listed by `threading`."""
        prepare = {
            "level": "logging.basicConfig(format='%(name)s %(levelname)s %(process)d %(message)s');"
            "logging.getLogger('jaxtop').setLevel('DEBUG')",
            "handler": "h = logging.FileHandler('debug.log'); h.setFormatter(logging.Formatter("
            "'%(name)s %(levelname)s %(process)d %(message)s')); logging.getLogger('jaxtop').addHandler(h)",
        }[how]
        with training(tmp_path, prepare) as (process,):
            assert process.stdout.readline() == "ready\n"
            with viewer() as attached:
                attached.until(lambda: arrays_are_off(attached))
            text = end(process, tmp_path) + written(tmp_path)
        assert f"jaxtop WARNING {process.pid} the collector 'arrays' failed: 1 of 3" in text
        assert ("jaxtop INFO" in text) == (how == "level")

    @pytest.mark.newest
    @pytest.mark.parametrize("how", ["threads", "loader", "off", "invalid", "twice"])
    def test_why_start_did_nothing_is_in_the_file(self, tmp_path, how):
        variables, prepare, start = {"JAXTOP_DEBUG": "debug.log"}, "pass", START_HOT
        match how:
            case "threads":
                # Only the threads that load the agent start.
                name = "getattr(getattr(target, '__self__', None), 'name', '')"
                prepare = LIMIT.replace("{condition}", f"{name} != 'loader'")
                text = "jaxtop.base.room.NoRoom: 0 threads are left, 16 are needed"
            case "loader":
                prepare = LIMIT.replace("{condition}", "True")
                text = "RuntimeError: can't start new thread"
            case "off":
                variables["JAXTOP"] = "0"
                text = "agent.start() did nothing: JAXTOP is set to off"
            case "invalid":
                start = START.replace(
                    "start()", "start(interval=type('', (), {'__float__': lambda _: 1 / 0})())"
                )
                text = "agent.start() did nothing: it failed"
            case "twice":
                start = START + ";" + START
                text = "agent.start() did nothing: the agent was started before"
        with training(tmp_path, prepare.strip(), start, **variables) as (process,):
            assert process.stdout.readline() == "ready\n"
            eventually(lambda: text in written(tmp_path))
            (tmp_path / "go").touch()
            stdout, stderr = process.communicate()
        assert (process.returncode, stdout, stderr) == (3, GOOD, "")

    @pytest.mark.newest
    def test_a_path_that_cannot_be_written_is_one_line_and_the_run_goes_on(self, tmp_path):
        with training(tmp_path, JAXTOP_DEBUG="no/debug.log") as (process,):
            assert process.stdout.readline() == "ready\n"
            stderr = end(process, tmp_path)
        assert re.fullmatch(
            "jaxtop: JAXTOP_DEBUG=.*/no/debug.log cannot be written: No such file or directory\n", stderr
        )

    @pytest.mark.newest
    def test_a_script_that_forks_is_unharmed_and_the_child_says_where_its_agent_is(self, tmp_path):
        prepare = (
            "import warnings; warnings.simplefilter('ignore'); "  # newer versions of Python warn of each fork
            "logging.basicConfig(filename='debug.log', level=30); logging.getLogger('jaxtop').setLevel(10)"
        )
        text = TRAINING.replace("time.sleep(0.01)", "time.sleep(0.01); fork()").replace(
            "{prepare}", FORK + prepare
        )
        path = script(tmp_path, text.replace("{start}", START_HOT))
        variables = environment(JAXTOP_DEBUG="debug.log")
        with processes([PYTHON, path], stdout=PIPE, stderr=PIPE, cwd=tmp_path, env=variables) as (process,):
            assert process.stdout.readline() == "ready\n"
            with viewer() as attached:
                attached.until(
                    lambda: written(tmp_path).count("child logs") > 20 and "arrays" in written(tmp_path)
                )
            assert end(process, tmp_path) == ""
        stays = re.findall(r"Z (\d+) fork info: the agent stays with the process (\d+)", written(tmp_path))
        assert len({child for child, _ in stays}) > 20 and {parent for _, parent in stays} == {
            str(process.pid)
        }

    @pytest.mark.newest
    @pytest.mark.thorough
    def test_it_works_for_jaxtop_run(self, tmp_path):
        text = """
            import pathlib, time
            import jax
            print(jax.jit(lambda x: x + 1)(1))
            while "publisher info: serves" not in pathlib.Path("debug.log").read_text():
                time.sleep(0.05)
        """
        path = script(tmp_path, text)
        done = jaxtop("run", path, cwd=tmp_path, env=environment(JAXTOP_DEBUG="debug.log"))
        assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
        assert "command info: jaxtop" in written(tmp_path)

    @pytest.mark.newest
    def test_messages_that_are_dropped_are_in_the_file(self, tmp_path):
        prepare = (
            "import jaxtop.wire as w; w.MAX_TELEMETRY = 10; "
            "import jaxtop_agent.core.board as b; b.Outbox.__init__.__defaults__ = (0,)"
        )
        with training(tmp_path, prepare, JAXTOP_DEBUG="debug.log") as (process,):
            assert process.stdout.readline() == "ready\n"
            with viewer() as attached:
                large = re.compile(r"dropped a message 'hello': \d+ bytes are too many")
                attached.until(lambda: large.search(written(tmp_path)))
                attached.until(lambda: "messages waited too long and were dropped: " in written(tmp_path))
            assert end(process, tmp_path) == ""


FORK = """def fork():
        pid = os.fork()
        if pid == 0:
            logging.warning("child logs")
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    """


def test_commands_say_why_they_failed(tmp_path):
    done = jaxtop("snapshot", "127.0.0.1:1", env=environment(JAXTOP_DEBUG=str(tmp_path / "debug.log")))
    assert done.returncode == 2
    assert "connection info: 127.0.0.1:1 is " in written(tmp_path)
