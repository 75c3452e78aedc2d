"""`jaxtop mcp`: the library's own client asks it over a real pipe, about a real run."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import asynccontextmanager
from importlib.util import find_spec

import pytest

from jaxtop import wire
from jaxtop.export.json import to_document
from jaxtop.features.mcp.command_runner import CommandRunner, NoReply
from jaxtop.features.mcp.size_limit import LEFT_OUT, MAX_BYTES, fitted, page, size
from jaxtop.features.mcp.tools import PARTS, Tools
from tests import builders
from tests.builders import NOW
from tests.played.recordings import recorded, written
from tests.support import PYTHON, eventually, jaxtop_here, processes, script, snapshot

needs_mcp = pytest.mark.skipif(find_spec("mcp") is None, reason="the library mcp is not installed")

LOOP = """
    import time
    from jaxtop import agent
    agent.start(name="asked")
    import jax, numpy as np
    step = jax.jit(lambda x: x * 0.5 + 1)
    x = step(np.ones(64))
    while True:
        x = step(x)
        time.sleep(0.05)
"""


@asynccontextmanager
async def client(*words):

    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "jaxtop", "mcp", *map(str, words)], env={**os.environ}
    )
    async with Client(stdio_client(server)) as connected:
        yield connected


async def asked(connected, tool, **arguments):
    """Return whether it is an error, and the text or the document of the answer."""
    result = await connected.call_tool(tool, arguments)
    (content,) = result.content
    assert len(content.text) <= 2 * MAX_BYTES
    return (True, content.text) if result.is_error else (False, json.loads(content.text))


@needs_mcp
@pytest.mark.jax
@pytest.mark.newest
@pytest.mark.usefixtures("home")
def test_an_assistant_asks_about_a_live_run(tmp_path):
    path = script(tmp_path, LOOP)
    with processes([PYTHON, path]):
        eventually(lambda: snapshot()[0] == 0)

        async def ask():
            async with client() as connected:
                tools = {each.name for each in (await connected.list_tools()).tools}
                assert tools == {"runs", "status", "findings", "snapshot", "compare", "plan"}
                _, runs = await asked(connected, "runs")
                assert [each["name"] for each in runs["items"]] == ["asked"]
                _, status = await asked(connected, "status", target="asked")
                assert status["processes_by_state"] == {"live": 1} and 0 <= status["age_s"] < 30
                assert status["parts"]["hosts"] == 1
                _, found = await asked(connected, "findings", wait_s=1)
                assert found["verdict"] and found["total"] == len(found["items"]) and found["unchecked"]
                _, hosts = await asked(connected, "snapshot", part="hosts", limit=1)
                assert hosts["items"][0]["state"] == "live" and hosts["next_offset"] is None
                _, programs = await asked(connected, "snapshot", part="programs")
                assert programs["total"] >= 1

                is_error, text = await asked(connected, "snapshot", part="secrets")
                assert is_error and "there is no part 'secrets'; there are runs" in text
                began = time.monotonic()
                is_error, text = await asked(connected, "status", target="no-such-run")
                assert is_error and "'no-such-run' is neither a live run" in text
                assert time.monotonic() - began < 30
                for target in ("ssh://elsewhere", "k8s://a/b"):
                    is_error, text = await asked(connected, "status", target=target)
                    assert is_error and "only `jaxtop mcp TARGET` itself" in text
                is_error, text = await asked(connected, "status", target="--via=touch harmed")
                assert is_error and "is neither a live run" in text

        asyncio.run(ask())


def stepping(path, step_ms):
    """Record a process that makes steps of this length for a minute."""
    frames = [builders.frame("r1-0", builders.hello(0))]
    for second in range(1, 60):
        at_ms, steps, us = int((NOW + second) * 1000), second * 1000 // step_ms, step_ms * 1000
        rhythm = wire.Rhythm(1, ("train_step",), steps, 100, us, 10**9 // us, 50, us, us, us)
        pulse = wire.Pulse(at_ms, at_ms, launches={"train_step": steps}, rhythm=rhythm)
        frames.append(builders.frame("r1-0", pulse, NOW + second, second))
    written(path, frames).finish()
    return path


@needs_mcp
@pytest.mark.usefixtures("home")
def test_an_assistant_asks_about_recordings(tmp_path):
    """What it is told is what the command prints, with its age."""
    a, b = stepping(tmp_path / "a.mcap", 100), stepping(tmp_path / "b.mcap", 150)
    program = wire.Program("jit_train_step", "f1", 8, 4, 1 << 30, argument_bytes=1 << 22, temp_bytes=1 << 20)
    programs = wire.Programs(int(NOW * 1000), (program,))
    said = (builders.frame(builders.agent_id(i), programs, NOW + 5, 9) for i in range(2))
    planned = recorded(tmp_path / "plan.mcap", [*builders.training(), *said])

    async def ask():
        async with client(a) as connected:
            _, found = await asked(connected, "findings")
            printed = json.loads(jaxtop_here("check", a, "--json").stdout)
            assert (found["verdict"], found["at"]) == (printed["verdict"], printed["at"])
            is_error, compared = await asked(connected, "compare", a=str(a), b=str(b))
            printed = json.loads(jaxtop_here("compare", a, b, "--json").stdout)
            assert not is_error and {**compared, **printed} == compared and compared["age_s"] is not None
            is_error, plan = await asked(connected, "plan", target=str(planned), meshes=["data=8"])
            printed = json.loads(jaxtop_here("plan", planned, "--mesh", "data=8", "--json").stdout)
            assert not is_error and plan["candidates"] == printed["candidates"]

    asyncio.run(ask())


@pytest.mark.skipif(find_spec("mcp") is not None, reason="the library mcp is installed")
@pytest.mark.usefixtures("home")
def test_without_the_library_it_says_what_to_install():
    done = jaxtop_here("mcp")
    assert done.returncode == 2
    assert done.stderr == "jaxtop: `jaxtop mcp` needs mcp 2 or newer: pip install 'jaxtop[mcp]'\n"


def test_a_document_of_any_size_fits_into_an_answer():
    long = {
        "events": [{"text": "x" * 5000, "launches": {f"f{i}": i for i in range(5000)}}] * 3000,
        "at": "now",
    }
    found = fitted(long)
    assert size(found) <= MAX_BYTES and found["at"] == "now"
    rest = found["events"][-1][LEFT_OUT]
    assert len(found["events"]) - 1 + rest == 3000
    assert fitted({"a": [1, 2]}) == {"a": [1, 2]}
    assert size(fitted("x" * 10**6)) <= MAX_BYTES


@pytest.mark.parametrize("each", [{"text": "y" * 300}, {"lists": [["z" * 100] * 100] * 100}])
def test_pages_have_every_entry_once(each):
    items, seen, offset = [{**each, "i": i} for i in range(257)], [], 0
    while offset is not None:
        found = page(items, offset, 100)
        assert found["total"] == 257 and found["items"] and size(found["items"]) <= MAX_BYTES + 1000
        seen += [item["i"] for item in found["items"]]
        offset = found["next_offset"]
    assert seen == list(range(257))


def test_the_parts_are_the_lists_of_a_snapshot():
    document = to_document(builders.folded(builders.well()), builders.NOW)
    lists = {name for name, value in document.items() if isinstance(value, list)} - {"checked"}
    assert lists == set(PARTS)


@pytest.mark.usefixtures("home")
def test_a_command_that_does_not_answer_is_ended(monkeypatch):
    monkeypatch.setattr("jaxtop.features.mcp.command_runner.BEYOND_S", 0.0)
    with pytest.raises(NoReply, match="has not answered for 0 s"):
        asyncio.run(CommandRunner().run("snapshot"))


def test_a_target_of_the_server_is_for_questions_that_name_none():
    tools = Tools(["ssh://login/run"], ["--owner=x"])
    assert tools._words("") == ["--owner=x", "--", "ssh://login/run"]
    assert tools._words("other") == ["--owner=x", "--", "other"]
