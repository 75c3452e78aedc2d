"""Every field of the JSON is on the page of fields, and every field on the page is in the JSON."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from jaxtop import wire
from jaxtop.export import to_document
from jaxtop.model import FIGURES
from jaxtop.wire import LinkState
from tests import builders
from tests.features.operations import staged_operations
from tests.made import ledgers as made_ledgers
from tests.made.clusters import NOW, cluster, everything
from tests.made.runs import run_of
from tests.made.windows import Made
from tests.pages import DOCS
from tests.staged import collectives as staged_collectives
from tests.staged import devices as staged_devices
from tests.staged import hardware as staged_hardware
from tests.staged import memory as memory_runs
from tests.staged import stalls as staged_stalls
from tests.staged.findings import Staged
from tests.stories import cluster_of, running

# Objects whose fields are names that the run chooses, or kinds that other pages list.
BY_NAME = {
    "rejected", "hosts[].launches", "hosts[].sources", "hosts[].step.metrics", "hosts[].ledger.seconds",
    "hosts[].memory_growth.bytes_per_minute", "hosts[].memory_growth.bytes_per_step",
    "programs[].time_by_kind",
}  # fmt: skip
OF_FIGURES = {"hosts[].machine", "hosts[].step", "hosts[].devices[]"}


PEAK = wire.Peak(
    1, "jit_step", "f1", argument_bytes=4096, temporary_bytes=8192, alive_bytes=8000,
    buffers=(wire.Buffer("argument", 4096, "w.1", "parameter", "f32[1024]", "", "w"),),
)  # fmt: skip
DOT = wire.Operation("dot.1", "matmul", "train.py:12", 600, 2, 2 * 10**8, 10**6)


def documents():
    """Yield documents that have each object at least once."""
    yield to_document(cluster(), NOW)
    yield to_document(everything(), NOW)
    yield to_document(run_of(Made(hosts=3, devices=2, late=1), windows=5), 11.0)
    for frames in (
        builders.well(),
        builders.training(),
        [*builders.well(), builders.trouble(1, "closed")],
        [builders.frame("", wire.Link(LinkState.REFUSED, "node01"))],
        staged_devices.held(),
        staged_devices.at_odds(),
        staged_collectives.late(),
        staged_hardware.working(),
        made_ledgers.run(saves=(made_ledgers.SAVED,)),
    ):
        yield to_document(builders.folded(frames), builders.NOW)

    learner = builders.hello(0, 1, family="f1", role="learner")
    yield to_document(builders.folded([builders.frame(learner.agent, learner)]), builders.NOW)

    compiled = wire.Compilation(12_000, "step", "train.py:9", 700, "first")
    lines = (wire.CompiledLine("step", "train.py:9", 1, 700),)
    programs = wire.Programs(13_000, compilations=(compiled,), lines=lines)
    empty = wire.Window(at_ms=18_000, duration_us=900_000, unassigned_permille=400)
    yield to_document(cluster_of(*running(0), (13, "r1-0", programs), (14, "r1-0", empty)), 20.0)

    peak = Staged(2)
    peak.tell(0, wire.Programs(int(peak.at * 1000), (wire.Program("jit_step", "f1", 2, 1),), (0,)))
    peak.tell(0, PEAK)
    peak.train(3)
    yield to_document(peak.cluster, peak.at)

    scalars = Staged(1)
    risen = wire.Scalar("loss", 850, 7.0, rise=wire.Rise(838, 7.2, 845, 2.3, 2.6, 2.4, "grad_norm", 12))
    scalars.tell(0, wire.Scalars(5_000, (risen,)))
    yield to_document(scalars.cluster, scalars.at)

    operations = wire.Operations(5_000, staged_operations.NAME, "f1", launches=2, operations=(DOT,))
    yield to_document(staged_operations.cluster_of(operations), 1.0)

    memory = memory_runs.Run(memory_runs.array("params['w']", (8, 8), memory_runs.WHOLE))
    memory.live(30, rss=lambda second, _: (4 + second) * memory_runs.GIB, peak_bytes=1 << 30)
    memory.live(30, rss=lambda second, _: (4 + second) * memory_runs.GIB, peak_bytes=1 << 31)
    yield to_document(memory.cluster, memory.now)
    stalled = staged_stalls.Run(2)
    stalled.compiling = {1: "step"}
    stalled.stand(0, at=staged_stalls.VALUE)
    stalled.go_on()
    native = wire.NativeStack((wire.NativeFrame("gloo::allreduce", "libjax_common.so"),), "gloo::allreduce")
    stalled.say(1, wire.Stacks(int(stalled.now * 1000), (wire.Thread("main", True, (), native=native),)))
    yield to_document(stalled.cluster, stalled.now)


@pytest.fixture(scope="module")
def in_documents():
    """The names in each object, by its path."""
    found: dict[str, set[str]] = defaultdict(set)

    def look(value, path):
        if isinstance(value, dict):
            for name, inner in value.items():
                found[path].add(name)
                look(inner, f"{path}.{name}" if path else name)
        elif isinstance(value, list | tuple):
            for each in value:
                look(each, f"{path}[]")

    for each in documents():
        look(each, "")
    return {path: names for path, names in found.items() if path not in BY_NAME}


@pytest.fixture(scope="module")
def on_the_page():
    """The names in each row of the page, by the path of the object."""
    found = {}
    for head, text in re.findall(r"^\| (.*?) \| (.*) \|$", (DOCS / "json.md").read_text(), re.MULTILINE):
        names = set(re.findall(r"`(\w+)`", text))
        for path in re.findall(r"`([^`]+)`", head) or ([""] if head == "the document" else []):
            found[path] = names
    return found


def test_every_object_has_a_row(in_documents, on_the_page):
    assert set(in_documents) == set(on_the_page)


def test_every_field_is_in_the_row_of_its_object(in_documents, on_the_page):
    figures = {each.name.rpartition(".")[2] for each in FIGURES.values()}
    missing = {
        f"{path}.{name}".lstrip(".")
        for path, names in in_documents.items()
        for name in names - on_the_page.get(path, set()) - (figures if path in OF_FIGURES else set())
    }
    assert missing == set(), "add them to docs/json.md"


def test_no_row_has_a_field_that_is_not_there(in_documents, on_the_page):
    # Values that the page lists, too.
    values = {"orbax", "phase", "stack"}
    gone = {
        f"{path}.{name}".lstrip(".")
        for path, names in on_the_page.items()
        for name in names - in_documents.get(path, set()) - values
    }
    assert gone == set()
