"""NCCL Inspector: its file as its sources write it, read in bounds, joined to the collectives of programs."""

from __future__ import annotations

import json
import os
import random
import socket
import statistics

import pytest

from jaxtop import wire
from jaxtop.export.json import to_document
from jaxtop.model.collectives import collective_views
from jaxtop.model.collectives.nccl_inspector import inspected_ops
from jaxtop.model.collectives.small_collectives import folded_views
from jaxtop.wire import NcclTime
from jaxtop_agent.core.board import Board
from jaxtop_agent.core.waiting import IDLE_S
from jaxtop_agent.hardware.libraries import inspector
from jaxtop_agent.hardware.libraries.inspector import SOURCE, Inspector, NcclTimesSender, path
from jaxtop_agent.hardware.reader import Off
from jaxtop_agent.service.identity import identify
from tests.stories import cluster_of, hello, link, pulse, tell

GROUPS = wire.ReplicaGroups((4,), ((0, 4, 1),))


def line(operation="AllReduce", size=1 << 20, us=120, ranks=4, source="kernel_gpu", **more):
    """One line of the JSON that the plugin writes."""
    timed = {
        "coll": operation, "coll_sn": 1407, "coll_msg_size_bytes": size, "coll_exec_time_us": us,
        "coll_timing_source": source, "coll_algobw_gbs": 277.2, "coll_busbw_gbs": 485.1,
    }  # fmt: skip
    return json.dumps({
        "header": {"id": "0x7f8c496ae9f661", "comm_name": "unknown", "rank": 2, "n_ranks": ranks},
        "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "", "pid": os.getpid()},
        "coll_perf": timed | more,
    }) + "\n"  # fmt: skip


P2P = (
    json.dumps({"header": {"id": "0x7", "rank": 0, "n_ranks": 2, "nnodes": 1}, "p2p_perf": {"p2p": "Send"}})
    + "\n"
)


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Where the plugin writes in this process."""
    monkeypatch.setenv("NCCL_PROFILER_PLUGIN", "/opt/nccl/libnccl-profiler-inspector.so")
    monkeypatch.setenv("NCCL_INSPECTOR_ENABLE", "1")
    monkeypatch.setenv("NCCL_INSPECTOR_DUMP_DIR", str(tmp_path))
    file = tmp_path / f"{socket.gethostname()}-pid{os.getpid()}.log"
    assert path() == str(file)
    return file


def append(file, *lines):
    with file.open("a") as writer:
        writer.write("".join(lines))


class TestTheFile:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("NCCL_PROFILER_PLUGIN", "/opt/other.so"),
            ("NCCL_INSPECTOR_ENABLE", "0"),
            ("NCCL_INSPECTOR_PROM_DUMP", "1"),
        ],
    )
    @pytest.mark.usefixtures("file")
    def test_it_is_read_only_where_the_plugin_writes_json(self, monkeypatch, name, value):
        monkeypatch.setenv(name, value)
        assert path() is None

    @pytest.mark.usefixtures("file")
    def test_its_folder_is_named_after_the_job(self, monkeypatch):
        monkeypatch.delenv("NCCL_INSPECTOR_DUMP_DIR")
        monkeypatch.setenv("SLURM_JOBID", "77")
        assert path().startswith("nccl-inspector-77/")
        monkeypatch.delenv("SLURM_JOBID")
        assert path().startswith("nccl-inspector-unknown-jobid/")

    def test_what_is_written_between_two_readings_is_summed_up(self, file):
        chance = random.Random(1)
        append(file, line(us=9))
        reader = Inspector(str(file))
        assert reader.read(1_000) is None
        times = [chance.randint(50, 500) for _ in range(301)]
        append(file, *(line(us=each) for each in times), line("AllGather", 1000, 7), P2P)
        found = reader.read(6_000)
        assert (found.at_ms, found.span_ms, found.skipped) == (6_000, 5_000, 0)
        assert found.times == (
            NcclTime("all-reduce", 4, 1 << 20, 301, statistics.median(times), sorted(times)[-4]),
            NcclTime("all-gather", 4, 4_000, 1, 7, 7),
        )
        assert reader.read(11_000) is None

    def test_a_line_that_is_not_complete_waits_for_its_end(self, file):
        append(file, "")
        reader = Inspector(str(file))
        reader.read(0)
        whole = line(us=70)
        append(file, line(), whole[:50])
        assert reader.read(1).times[0].count == 1
        append(file, whole[50:])
        assert reader.read(2).times[0].p50_us == 70

    def test_of_much_only_the_end_is_read(self, file, monkeypatch):
        monkeypatch.setattr(inspector, "MOST_BYTES", 4_000)
        append(file, "")
        reader = Inspector(str(file))
        reader.read(0)
        append(file, *(line(us=1 if i < 90 else 500) for i in range(100)))
        found = reader.read(1)
        assert found.skipped == file.stat().st_size - 4_000
        assert found.times[0].p50_us == 500 and found.times[0].count <= 10
        assert reader.read(2) is None

    def test_what_is_no_time_of_a_gpu_is_left_out(self, file):
        append(file, "")
        reader = Inspector(str(file))
        reader.read(0)
        append(
            file, line(source="collective_cpu"), line("Unknown"), line(us=-1), line(ranks=0), line(size=-5),
            line(us=1 << 60), line(size=1 << 41), "not json\n", "[" * 3000 + "\n", "\xff\n", "\n", "{}\n",
        )  # fmt: skip
        assert reader.read(1) is None

    def test_a_line_without_end_is_passed(self, file, monkeypatch):
        monkeypatch.setattr(inspector, "LONGEST_LINE", 1_000)
        append(file, "")
        reader = Inspector(str(file))
        reader.read(0)
        append(file, "x" * 5_000)
        assert reader.read(1) is None
        append(file, "\n", line())
        assert reader.read(2).times[0].count == 1

    def test_kinds_are_bounded(self, file):
        append(file, "")
        reader = Inspector(str(file))
        reader.read(0)
        append(file, *(line(size=each, us=each) for each in range(1, 300)))
        found = reader.read(1).times
        assert len(found) == inspector.MOST_TIMES and found[0].bytes == 299

    def test_a_file_that_began_anew_is_followed(self, file):
        append(file, line() * 5)
        reader = Inspector(str(file))
        reader.read(0)
        file.write_text("")
        assert reader.read(1) is None
        append(file, line())
        assert reader.read(2).times[0].count == 1

    def test_no_file_yet(self, file):
        with pytest.raises(Off, match="DUMP_THREAD_INTERVAL_MICROSECONDS sets how often"):
            Inspector(str(file)).read(0)

    def test_a_pipe_is_not_waited_for(self, file):
        os.mkfifo(file)
        with pytest.raises(Off, match="is no file"):
            Inspector(str(file)).read(0)

    def test_it_is_followed_only_while_somebody_watches(self, file, monkeypatch):
        monkeypatch.setattr(inspector, "READ_INTERVAL_S", 0.0)
        append(file, line())
        board = Board(identify("test"))
        following = NcclTimesSender(board)
        assert following.turn() == IDLE_S and SOURCE not in board.sources
        board.publisher.viewers = 1
        following.turn()
        append(file, line())
        following.turn()
        assert board.sources[SOURCE] == "on"
        assert board.outbox.take().times[0].count == 1
        board.publisher.viewers = 0
        following.turn()
        append(file, line())
        board.publisher.viewers = 1
        following.turn()
        assert board.outbox.take() is None
        for wakeup in board.wakeups:
            wakeup.close()


class TestCollectives:
    def cluster(self, *times, at_ms=10_000, more=()):
        """Two processes of two GPUs that have a program with three collectives, and more."""
        found = []
        for index in range(2):
            devices = tuple(wire.Device(index * 2 + i, "H100", "gpu", i) for i in range(2))
            collectives = (
                wire.Collective("all-reduce.1", "all-reduce", "f32[512,512]", 1 << 20, 0, 1),
                wire.Collective("all-reduce.2", "all-reduce", "f32[512,512]", 1 << 20, 0, 1),
                wire.Collective("all-gather.3", "all-gather", "f32[9]", 36, 0, 1),
                *more,
            )
            ids = wire.pack_ids((index * 2, index * 2 + 1))
            inventory = wire.Inventory(10, "jit_step", "1f", 4, ids, (GROUPS,), collectives)
            reports = [link("up"), hello(index, devices=devices), inventory]
            reports += [wire.NcclTimes(at_ms, 5_000, 0, tuple(each for each in times))] if times else []
            found += [(10.0, f"r1-{index}", each) for each in (*reports, pulse(at_ms=12_000))]
        return cluster_of(*found)

    def shown(self, cluster):
        listed = to_document(cluster, 12.0)["collectives"]
        return {
            each["op"]: (each["p50_us"], each["p99_us"], each["samples"], each["timed_by"]) for each in listed
        }

    def test_those_alike_in_kind_size_and_group_have_its_times(self):
        found = self.shown(self.cluster(NcclTime("all-reduce", 4, 1 << 20, 40, 120, 300)))
        timed = 120, 300, 40, "NCCL Inspector"
        assert found == {"all-reduce.1": timed, "all-reduce.2": timed, "all-gather.3": (None, None, 0, None)}

    @pytest.mark.parametrize(
        "other",
        [
            NcclTime("all-reduce", 2, 1 << 20, 40, 120, 300),
            NcclTime("all-reduce", 4, 1 << 19, 40, 120, 300),
            NcclTime("reduce-scatter", 4, 1 << 20, 40, 120, 300),
        ],
    )
    def test_others_have_not(self, other):
        assert {each[0] for each in self.shown(self.cluster(other)).values()} == {None}

    def test_old_times_are_not_shown(self):
        old = self.cluster(NcclTime("all-reduce", 4, 1 << 20, 40, 120, 300), at_ms=12_000 - 60_001 + 70_000)
        assert self.shown(old)["all-reduce.1"][0] == 120
        for index in range(2):
            old.feed(wire.Frame(99.0, f"r1-{index}", "pulse", 3, wire.encode(pulse(at_ms=200_000))))
        assert self.shown(old)["all-reduce.1"][0] is None

    @pytest.mark.parametrize(("state", "later"), [("closed", 1.0), ("silent", 1.0), ("up", 60.0)])
    def test_times_of_processes_that_are_dead_or_silent_are_not_shown(self, state, later):
        cluster = self.cluster(NcclTime("all-reduce", 4, 1 << 20, 40, 120, 300))
        assert inspected_ops(cluster, 12.0)
        if state != "up":
            tell(cluster, *((12.0, f"r1-{index}", link(state)) for index in range(2)))
        assert not inspected_ops(cluster, 12.0 + later)

    def test_they_are_summed_up_once(self):
        cluster = self.cluster(NcclTime("all-reduce", 4, 1 << 20, 40, 120, 300))
        found = inspected_ops(cluster, 12.0)
        tell(cluster, (12.0, "r1-0", pulse(at_ms=13_000)))
        assert inspected_ops(cluster, 12.1) is found
        tell(cluster, (12.0, "r1-0", wire.NcclTimes(13_000)))
        assert inspected_ops(cluster, 12.1) is not found

    @pytest.mark.parametrize(("times", "size"), [(2, 4 * 2 * 256 + 2 * 2 * 512), (None, None)])
    def test_a_row_of_many_counts_shared_samples_once_and_no_bytes_without_times(self, times, size):
        small = [
            wire.Collective(f"all-gather.{i}", "all-gather", "f32[64]", of_one, 0, often, line="train.py:40")
            for i, (of_one, often) in enumerate([(256, 2)] * 4 + [(512, 2), (512, times)], 10)
        ]
        timed = (
            NcclTime("all-gather", 4, 256, 40, 120, 300),
            NcclTime("all-gather", 4, 512, 7, 130, 300),
        )
        row = next(
            each
            for each in folded_views(collective_views(self.cluster(*timed, more=small), 12.0))
            if each.folded
        )
        assert (len(row.folded), row.samples, row.times) == (6, 47, None if times is None else 12)
        assert row.bytes == size
