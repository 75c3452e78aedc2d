"""Notebooks: the handle of the agent, `jaxtop.live()`, names of variables, in a real kernel."""

from __future__ import annotations

import os
import queue
import shlex
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from jaxtop.features.notebook import live as notebook
from jaxtop.features.notebook.summary import MAX_FINDINGS, summary
from jaxtop.model import Cluster, array_views
from jaxtop_agent.handle import Handle
from tests import patience
from tests.builders import NOW, folded, two_processes
from tests.support import (
    PYTHON,
    environment,
    eventually,
    processes,
    run,
    script,
    snapshot,
    until_a_run_is_found,
    viewer,
)


class TestHandle:
    def of(self, **more: object) -> Handle:
        usual = {"pid": os.getpid(), "failure": "", "is_over": False, "address": "", "name": "<i>\x1b[1m"}
        return Handle(SimpleNamespace(**usual | {"ignored": (), "waits": False} | more))

    def test_it_says_where_and_how_to_watch(self):
        handle = self.of(address="127.0.0.1:7410")
        assert (handle.state, handle.address) == ("serves", "127.0.0.1:7410")
        assert "jaxtop attach 127.0.0.1:7410" in repr(handle) and "jaxtop.live()" in repr(handle)
        html = handle._repr_html_()
        assert "<code>jaxtop attach 127.0.0.1:7410</code>" in html and "&lt;i&gt;" in html
        assert "\x1b" not in html + repr(handle) and "<i>" not in html

    def test_otherwise_it_says_why_not(self):
        for handle, state, words in (
            (self.of(waits=True), "waits", "until jax is used"),
            (self.of(), "starts", "starts"),
            (self.of(failure="no <threads>\nat all"), "failed", "no <threads>"),
            (self.of(is_over=True, address="127.0.0.1:7410"), "stopped", "stopped"),
            (self.of(pid=1, address="127.0.0.1:7410"), "stopped", "stays with process 1"),
            (Handle(None, "JAXTOP is set to off"), "off", "JAXTOP is set to off"),
        ):
            assert (handle.state, handle.address) == (state, None)
            assert words in repr(handle) and "\n" not in repr(handle)
            assert "<threads>" not in handle._repr_html_()

    @pytest.mark.jax
    @pytest.mark.newest
    def test_the_command_that_start_prints_finds_the_run(self, tmp_path):
        """It is printed before the agent serves, so the run has its name alone."""
        code = """
            import jax, sys
            from jaxtop import agent
            print(agent.start(), flush=True)
            jax.devices()
            sys.stdin.readline()
        """
        file = script(tmp_path, code, "my run.py")
        with subprocess.Popen(
            [PYTHON, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        ) as started:
            assert started.stdout is not None
            line = started.stdout.readline()
            until_a_run_is_found()
            command = shlex.split(line.partition("watch it with ")[2].partition(" in a terminal")[0])
            assert command == ["jaxtop", "attach", "my run"]
            status, document = snapshot(command[2])
            started.communicate("\n")
        assert status == 0 and document["runs"]

    def test_start_returns_it_whatever_happens(self):
        code = "from jaxtop import agent; print(agent.status())\n"
        code += "print(agent.start(), agent.start(), agent.status())"
        waits = (
            "<jaxtop agent: waits until jax is used, then serves python – watch it with "
            "jaxtop attach python in a terminal, or jaxtop.live() in a notebook>"
        )
        done = run(PYTHON, "-c", code)
        assert done.stdout.splitlines() == [
            "<jaxtop agent: off: agent.start() was not called>",
            f"{waits} {waits} {waits}",
        ]
        done = run(PYTHON, "-c", code, env=environment(JAXTOP="off"))
        assert done.stdout.count("off: JAXTOP is set to off") == 3
        code = "from jaxtop import agent; agent.start(); agent.stop(); print(agent.status().why)"
        assert run(PYTHON, "-c", code).stdout == "agent.stop() was called\n"


class TestSummary:
    def made(self) -> Cluster:
        return folded(two_processes(died_at=20))

    def test_it_says_who_is_live_and_what_is_wrong(self):
        found = summary(self.made(), NOW + 60)
        text, html = found.to_text(), found.to_html()
        assert "processes live" in text and "▲ Host lost: " in text and "next step: " in text
        assert "processes live" in html and "▲ Host lost" in html

    def test_everything_of_others_is_escaped_and_long_lists_are_cut(self):
        found = summary(self.made(), NOW + 60)
        (finding, *_) = found.findings
        hostile = found._replace(
            title="<script>",
            findings=tuple(
                replace(finding, text=f"<img onerror=x> {i}\x1b[2J") for i in range(MAX_FINDINGS + 3)
            ),
        )
        html, text = hostile.to_html(), hostile.to_text()
        assert "<script>" not in html and "<img" not in html and "\x1b" not in html + text
        assert "and 3 more" in html and "and 3 more" in text


class Cells:
    """The cells of a notebook with a real kernel."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.messages: list[tuple[str, dict]] = []

    def run(self, code: str) -> list[tuple[str, dict]]:
        """Run a cell to its end; return its outputs."""
        asked = self._client.execute(code)
        end, found = patience.deadline(), []
        while end.left() > 0:
            message = self.read(1.0)
            if message is None or message["parent_header"].get("msg_id") != asked:
                continue
            content = message["content"]
            assert message["msg_type"] != "error", content
            if message["msg_type"] in ("execute_result", "display_data", "stream"):
                found.append((message["msg_type"], content))
            if content.get("execution_state") == "idle":
                return found
        raise AssertionError(f"the cell has not ended: {code}")

    def read(self, seconds: float) -> dict | None:
        try:
            message = self._client.get_iopub_msg(timeout=seconds)
        except queue.Empty:
            return None
        self.messages.append((message["msg_type"], message["content"]))
        return message

    def until_shown(self, words: str) -> dict:
        """Wait for an update of a display that has these words."""
        end, read = patience.deadline(), 0
        while end.left() > 0:
            for kind, content in self.messages[read:]:
                if kind == "update_display_data" and words in content["data"]["text/plain"]:
                    return content
            read = len(self.messages)
            self.read(0.5)
        raise AssertionError(f"never shown: {words}")


def is_ready(client: Any) -> bool:
    """Whether the kernel answers; the client takes one that has not begun to listen for dead."""
    with suppress(RuntimeError):
        client.wait_for_ready(timeout=10)
        return True
    return False


@contextmanager
def kernel(folder):
    from jupyter_client.blocking import (
        BlockingKernelClient,
    )  # not where tests of the oldest JAX are collected
    from jupyter_client.connect import write_connection_file

    file = folder / "kernel.json"
    write_connection_file(str(file))
    command = [PYTHON, "-m", "ipykernel_launcher", "-f", file]
    variables = {
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "JPY_SESSION_NAME": "lab/<b>.ipynb",
    }
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with processes(command, env=environment(**variables), **quiet) as (process,):
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels()
        try:
            eventually(lambda: is_ready(client))
            yield Cells(client), process
        finally:
            client.stop_channels()


def followers(process) -> list[psutil.Process]:
    return [
        each
        for each in psutil.Process(process.pid).children()
        if "jaxtop.features.notebook.cell" in each.cmdline()
    ]


TRAIN = """
import time
step = jax.jit(lambda w: w * 1.01)
for _ in range(100):
    params["w"] = step(params["w"])
    time.sleep(0.01)
"""


@pytest.mark.jax
@pytest.mark.newest
def test_a_notebook_shows_its_run_and_variables_have_their_own_names(tmp_path):
    with kernel(tmp_path) as (cells, process):
        ((kind, content),) = cells.run("from jaxtop import agent; agent.start()")
        assert kind == "execute_result" and "waits until jax is used" in content["data"]["text/html"]
        cells.run("import jax, jaxtop, jax.numpy as jnp")
        cells.run("params = {'w': jnp.ones((11, 64))}; x = jnp.ones((10, 64))")

        def status():
            ((_, content),) = cells.run("agent.status()")
            return content["data"]["text/html"]

        eventually(lambda: "serves &lt;b&gt; at <code>127.0.0.1:" in status())
        ((kind, content),) = cells.run("shown = jaxtop.live(every=0.5)\nshown")
        first = content["transient"]["display_id"]
        assert kind == "display_data"
        cells.run(TRAIN)
        content = cells.until_shown("1 of 1 processes live")
        assert content["transient"]["display_id"] == first and "&lt;b&gt;" in content["data"]["text/html"]

        with viewer() as attached:

            def names():
                return {(view.name, view.function) for view in array_views(attached.cluster)}

            attached.until(lambda: names() == {("x", "<module>"), ("params['w']", "<module>")})

        cells.run("jaxtop.live(every=0.5, idle=0.5)")  # ends the first, and then itself
        assert cells.until_shown("stopped")["transient"]["display_id"] == first
        assert cells.until_shown("no cell ran for 0.5 s")["transient"]["display_id"] != first
        eventually(lambda: not followers(process))
        cells.run("shown = jaxtop.live(every=0.5)")
        (follower,) = eventually(lambda: followers(process))
        assert os.getpgid(follower.pid) != os.getpgid(process.pid), "Jupyter interrupts the kernel's group"
        asked = "import sys, threading; shown.stop(); agent.stop()\n"
        asked += "threads = [each.name for each in threading.enumerate() if 'jaxtop' in each.name]\n"
        asked += "print(threads, sorted({'textual', 'jaxtop.cli', 'jaxtop.model'} & {*sys.modules}), shown)"
        (output,) = cells.run(asked)
        assert output[1]["text"] == "[] [] <jaxtop.live: stopped>\n"
        eventually(lambda: not followers(process))


def test_outside_a_notebook_it_is_text(tmp_path):
    path = script(
        tmp_path, "import jaxtop; shown = jaxtop.live('no-such-run'); shown._worker.join(3600); print(shown)"
    )
    done = run(PYTHON, path)
    first, *_, last = done.stdout.splitlines()
    assert "no-such-run" in first and first.startswith("jaxtop: ") and last.startswith("<jaxtop.live: ")
    assert (done.returncode, done.stderr) == (0, "")


def test_text_is_printed_when_more_than_figures_changes(capsys):
    place = notebook._Text()
    for text, gist in (("step 1", "a"), ("step 2", "a"), ("step 3", "b")):
        place.show({"text": text, "html": "", "gist": gist})
    place.end("the run has ended")
    assert capsys.readouterr().out == "jaxtop: step 1\njaxtop: step 3\njaxtop: the run has ended\n"
