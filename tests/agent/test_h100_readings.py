"""What NVML, JAX's allocators, NCCL's RAS service and NCCL Inspector answered on an H100, read again."""

from __future__ import annotations

import json
import sys
from collections import defaultdict, deque
from types import ModuleType, SimpleNamespace

import pynvml
import pytest

from jaxtop.model.hardware.allocators import largest_block
from jaxtop.wire import Device
from jaxtop_agent.collectors.memory import AllocatorMemory
from jaxtop_agent.hardware.libraries import ras_answers
from jaxtop_agent.hardware.libraries.inspector import Inspector
from jaxtop_agent.hardware.libraries.ras import RasAnswer
from jaxtop_agent.hardware.nvidia import Nvidia
from tests.made.allocators import Board, Client, Silent, sampled
from tests.made.h100 import FOLDER

NVML = json.loads((FOLDER / "nvml.json").read_text())
MEMORY = json.loads((FOLDER / "memory_stats.json").read_text())
GIB = 1 << 30


class Recorded(ModuleType):
    """NVIDIA's binding, whose functions answer as they did, in the order in which they were called."""

    def __init__(self, calls):
        super().__init__("pynvml")
        self._answers = defaultdict(deque)
        for each in calls:
            if "call" in each:
                self._answers[each["call"]].append(each)

    def __getattr__(self, name):
        if name not in self._answers:
            return getattr(pynvml, name)
        return lambda *arguments: self._answer(self._answers[name].popleft(), arguments)

    def _answer(self, entry, arguments):
        if "error" in entry:
            raise pynvml.NVMLError(entry["error"])
        for place, (metric, status, value) in enumerate(entry.get("metrics", ())):
            asked = arguments[0].metrics[place]
            assert asked.metricId == metric
            asked.nvmlReturn, asked.value = status, value
        result = entry["result"]
        if isinstance(result, str) and result.startswith("<LP_struct_"):  # a handle
            return getattr(pynvml, result[len("<LP_struct_") : -1])()
        return SimpleNamespace(**result) if isinstance(result, dict) else result


def test_nvml_gives_the_figures_that_it_gave(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", Recorded(NVML["calls"]))
    monkeypatch.setattr(pynvml, "nvmlGpmSampleFree", lambda _: None)
    reader = Nvidia([Device(0, "NVIDIA H100 80GB HBM3", "gpu", local_id=0)], lambda *_: None)
    read = [reader.read(second)[0] for second in range(len(NVML["figures"]))]
    assert read == NVML["figures"]
    last = read[-1]
    assert (last["utilization_permille"], last["tensor_permille"], last["dram_permille"]) == (990, 220, 585)
    assert last["power_mw"] == 616_112 and last["driver_used_bytes"] == 64_425_361_408


class TestAllocators:
    def test_a_pool_that_was_taken_at_the_start_has_its_largest_block(self):
        first, full, freed, *_ = MEMORY["bfc"]
        assert first["largest_free_block_bytes"] == first["pool_bytes"] == 0
        held, less = sampled(full), sampled(freed)
        assert (held.used_bytes, held.limit_bytes) == ((GIB,), (63_763_906_560,))
        assert largest_block(held, 0) == pytest.approx(full["bytes_limit"] - GIB, abs=1024)
        assert less.used_bytes == (GIB // 2,) and less.peak_bytes == (full["peak_bytes_in_use"],)

    def test_the_asynchronous_one_knows_neither_a_block_nor_a_limit(self):
        _, full, *_ = MEMORY["cuda_async"]
        assert "pool_bytes" not in full
        sample = sampled(full)
        assert sample.used_bytes == (GIB,) and sample.limit_bytes is None
        assert largest_block(sample, 0) is None

    def test_that_of_the_platform_counts_nothing(self):
        assert set(MEMORY["platform"]) == {None}
        board = Board()
        AllocatorMemory().collect(board, Client(Silent("gpu")))
        assert not any(board.sampler.devices.used_bytes or ())


def test_the_ras_service_counts_the_same_operations_on_both_ranks():
    read = ras_answers.read(RasAnswer((FOLDER / "ras.json").read_bytes(), is_json=True), 1000)
    assert (read.nccl.version, read.nccl.communicators, read.nccl.differing) == ("2.30.7", 1, ())
    assert read.pids == {1972, 1973}


@pytest.mark.parametrize("late", [1, 30])
def test_ras_names_the_rank_that_launched_less(late):
    found = json.loads((FOLDER / "ras.json").read_text())
    found["communicators"][0]["ranks"][1]["collective_counts"]["AllGather"] -= late
    (differing,) = ras_answers.read(RasAnswer(json.dumps(found).encode(), is_json=True), 1000).nccl.differing
    assert (
        differing.operation == "AllGather" and [each.launched for each in differing.counts][-1] == 766 - late
    )


def test_inspector_has_the_times_of_three_collectives_a_launch(tmp_path):
    file = tmp_path / "log"
    file.write_bytes(b"")
    inspector = Inspector(str(file))
    assert inspector.read(0) is None
    file.write_bytes((FOLDER / "inspector.log").read_bytes())
    read = inspector.read(1000)
    times = {each.kind: each for each in read.times}
    assert {kind: (each.bytes, each.count) for kind, each in times.items()} == {
        "all-reduce": (4_194_308, 20),
        "all-gather": (524_288, 20),
        "reduce-scatter": (8_388_608, 20),
    }
    assert 4_400 < times["all-gather"].p50_us < 4_600 and 2_500 < times["reduce-scatter"].p50_us < 2_600
