"""The program of two processes with NCCL, as the compiler for GPUs left it: each collective counts once.

Its asynchronous starts wrap the operations under whose names the profiler shows the kernels.
"""

from __future__ import annotations

import json

import pytest

from jaxtop.traces import protos
from jaxtop.traces.xspace import Trace
from jaxtop_agent.programs import hlo
from tests.made import h100
from tests.made.hlo_texts import members
from tests.support import PYTHON, run, script

STARTED = {
    "all-reduce-start": "all-reduce.2",
    "all-gather-start": "all_gather.3.1",
    "reduce-scatter-start": "reduce_scatter.7.1",
}
# The operation, its line, and its bytes: NCCL's own Inspector counts what one device gives to an all-gather,
# 262144, and what it gets of a reduce-scatter, 4194304, which is twice as much for both devices.
COLLECTIVES = {
    "all-reduce.2": ("all-reduce", "pair.py:11", 4 * (1024 * 1024 + 1)),
    "all_gather.3.1": ("all-gather", "pair.py:12", 2 * 262144),
    "reduce_scatter.7.1": ("reduce-scatter", "pair.py:13", 2 * 4194304),
}


def test_the_text_has_each_once():
    reading = hlo.read((h100.FOLDER / "pair.hlo").read_text(), started=STARTED)
    found = {each.op: (each.kind, each.line, each.bytes) for each in reading.collectives}
    assert (found, len(reading.collectives), reading.unread) == (COLLECTIVES, 3, 0)
    assert all(each.is_async and each.times == 1 for each in reading.collectives)
    assert {members(reading.groups[each.groups]) for each in reading.collectives} == {((0, 1),)}
    dones = {start.replace("start", "done"): op for start, op in STARTED.items()}
    assert reading.ends == STARTED | dones


def test_without_the_names_inside_it_has_those_of_the_starts():
    reading = hlo.read((h100.FOLDER / "pair.hlo").read_text())
    found = {STARTED[each.op]: (each.kind, each.line, each.bytes) for each in reading.collectives}
    assert (found, len(reading.collectives)) == (COLLECTIVES, 3)


def test_the_message_has_the_names_inside():
    assert protos.started(h100.message("jit_body")) == STARTED
    found = protos.programs(Trace(h100.profile(h100.PAIR[1])))
    assert {op for program, op in found.collectives if program == "jit_body"} == COLLECTIVES.keys()
    assert found.names["jit_body"].items() >= STARTED.items()
    assert {each.groups for each in found.collectives.values()} == {((0, 1),)}


READ = """
import json, pathlib, sys
import jax
from jaxtop_agent.programs import inventories
try:
    from jaxlib import _hlo
except ImportError:
    from jaxlib import _jax as _hlo

module = _hlo.XlaComputation(pathlib.Path(sys.argv[1]).read_bytes()).get_hlo_module()
source = inventories._Source(None, module, "", (0,), total=2)
reading = inventories._reading(source, 1000)
while True:
    try:
        next(reading)
    except StopIteration as done:
        found, per_launch = done.value
        break
collectives = {each.op: (each.kind, each.line, each.bytes) for each in found.collectives}
json.dump([collectives, found.ends, sorted(per_launch.executed)], sys.stdout)
"""


@pytest.mark.jax
def test_jax_gives_the_names_inside(tmp_path):
    """Instruction by instruction, or in older versions from the text and the message of the module."""
    (tmp_path / "module.pb").write_bytes(h100.message("jit_body"))
    done = run(PYTHON, script(tmp_path, READ), tmp_path / "module.pb")
    assert done.returncode == 0, done.stderr
    collectives, ends, executed = json.loads(done.stdout)
    lines = {line for _, line, _ in collectives.values()}  # older versions do not read those of newer ones
    assert lines in ({""}, {line for _, line, _ in COLLECTIVES.values()})
    assert {op: (kind, size) for op, (kind, _, size) in collectives.items()} == {
        op: (kind, size) for op, (kind, _, size) in COLLECTIVES.items()
    }
    assert ends.items() >= STARTED.items()
    assert set(executed) >= COLLECTIVES.keys() and not set(executed) & STARTED.keys()
