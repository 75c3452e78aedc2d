"""NCCL's RAS service names the process whose ranks lag, or nobody: a stand-in that speaks its protocol."""

from __future__ import annotations

import os
import random
import socket
import threading

import pytest
from msgspec.structs import replace

from jaxtop_agent.core.board import Topology
from jaxtop_agent.core.waiting import IDLE_S
from jaxtop_agent.hardware.libraries import stuck
from tests.staged import hangs as staged_hangs
from tests.staged.hangs import SEEDS, asked, devices, finding, named, stalled, watched
from tests.standin import ras

VERSIONS = (2, 24, 3), (2, 26, 2), (2, 28, 3), (2, 28, 7), (2, 29, 2)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    staged_hangs.tick(monkeypatch)


class TestNccl:
    @pytest.fixture
    def job(self, monkeypatch):
        with ras.serving(ras.Job([])) as job:
            monkeypatch.setenv("NCCL_RAS_ADDR", f"localhost:{job.port}")
            yield job

    def ranks(self, job, run, each, chance):
        """One communicator of all GPUs, each of which has launched the same."""
        usual = {"AllReduce": chance.randint(100, 9000), "AllGather": chance.randint(9, 50)}
        job.ranks = [
            ras.Rank(i * each + gpu, run.cluster.hosts[f"r1-{i}"].pid, f"10.0.0.{i}", gpu, dict(usual))
            for i in run.launches
            for gpu in range(each)
        ]

    def story(self, run, each):
        run.go_on()
        topology = Topology(0, len(run.launches), "cuda", devices(0, each), None)
        messages, states = asked(topology, "nvidia")
        run.say(0, *messages)
        run.go_on()
        return states

    @pytest.mark.parametrize("seed", SEEDS)
    def test_the_process_whose_rank_lags_is_named(self, job, seed):
        chance = random.Random(seed)
        each = chance.choice((1, 1, 4))
        run = stalled(chance, each)
        job.version = VERSIONS[seed % len(VERSIONS)]
        self.ranks(job, run, each, chance)
        culprit, kind = chance.choice(list(run.launches)), chance.choice(("AllReduce", "AllGather"))
        late = [rank for rank in job.ranks if rank.pid == run.cluster.hosts[f"r1-{culprit}"].pid]
        fewer = chance.randint(1, 3)
        for rank in late:
            rank.counts[kind] -= fewer
        others = next(rank for rank in job.ranks if rank not in late)
        assert self.story(run, each) == {"nccl": "on"}
        odd, text = named(run)
        assert odd == [culprit], text
        has_kinds = job.version >= ras.KINDS_SINCE
        launched, most = ((r.counts[kind] if has_kinds else r.total) for r in (late[0], others))
        operations = f"{kind if has_kinds else 'NCCL'} operations"
        assert f"; host {culprit} launched {launched:,} {operations}, the others {most:,}" in text
        evidence = {each["name"]: each["value"] for each in finding(run)["evidence"]}
        assert evidence[f"{operations} launched"] == launched
        assert finding(run)["text"] == text

    @pytest.mark.parametrize("seed", SEEDS)
    def test_nobody_is_named_where_all_have_launched_the_same(self, job, seed):
        chance = random.Random(seed)
        run = stalled(chance, 2)
        job.version = VERSIONS[seed % len(VERSIONS)]
        self.ranks(job, run, 2, chance)
        assert self.story(run, 2) == {"nccl": "on"}
        odd, text = named(run)
        assert odd == [] and "which one blocks the others is unknown" in text

    def test_the_rank_is_mapped_to_the_device(self, job):
        run = stalled(random.Random(1), 4)
        self.ranks(job, run, 4, random.Random(1))
        job.ranks[6].counts["AllReduce"] -= 1
        self.story(run, 4)
        assert named(run)[1].endswith("(NCCL rank 6, device 6)")
        assert named(run)[0] == [1]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_process_that_does_not_answer_nccl_is_named(self, job, version):
        run = stalled(random.Random(2), 1)
        job.version = version
        self.ranks(job, run, 1, random.Random(2))
        job.ranks[2].state = "silent"
        self.story(run, 1)
        assert named(run)[0] == [2]
        assert "host 2 does not answer NCCL (NCCL rank 2, device 2)" in named(run)[1]

    def test_several_that_do_not_answer_and_are_unknown_here_are_a_plural(self, job):
        run = stalled(random.Random(2), 1, hosts=6)
        self.ranks(job, run, 1, random.Random(2))
        for rank in job.ranks[2:4]:
            rank.state, rank.pid = "silent", 7
        self.story(run, 1)
        assert "; NCCL rank 2 (pid 7 on 10.0.0.2) and 1 more do not answer NCCL" in named(run)[1]

    def test_of_several_with_different_counts_the_least_lag_is_named(self, job):
        run = stalled(random.Random(2), 1, hosts=6)
        self.ranks(job, run, 1, random.Random(2))
        for rank, fewer in ((1, 2), (3, 5)):
            job.ranks[rank].counts["AllReduce"] -= fewer
        self.story(run, 1)
        most = job.ranks[0].counts["AllReduce"]
        text = f"; hosts 1, 3 are at least 2 AllReduce operations behind the others, which launched {most:,}"
        assert named(run)[0] == [1, 3]
        assert named(run)[1].endswith(text)
        evidence = {each["name"]: each["value"] for each in finding(run)["evidence"]}
        assert evidence["AllReduce operations launched, at most"] == most - 2

    @pytest.mark.parametrize("version", VERSIONS)
    def test_of_two_ranks_the_one_that_launched_less_is_named(self, job, version):
        run = stalled(random.Random(2), 1, hosts=2)
        job.version = version
        self.ranks(job, run, 1, random.Random(2))
        job.ranks[1].counts["AllReduce"] -= 1
        self.story(run, 1)
        assert named(run)[0] == [1]

    def test_a_rank_that_has_left_the_communicator_is_no_outlier(self, job):
        run = stalled(random.Random(3), 1)
        self.ranks(job, run, 1, random.Random(3))
        job.ranks[1].state = "left"
        self.story(run, 1)
        assert named(run)[0] == []

    def test_counts_that_still_change_name_nobody(self, job):
        run = stalled(random.Random(4), 1)
        self.ranks(job, run, 1, random.Random(4))
        run.go_on()
        topology = Topology(0, len(run.launches), "cuda", devices(0, 1), None)
        with watched(topology) as (board, asking):
            for _ in range(2):
                job.ranks[1].counts["AllReduce"] -= 1
                asking.turn("nvidia")
                run.say(0, board.outbox.take())
        run.go_on()
        assert named(run)[0] == []

    def test_one_rank_ahead_of_all_others_is_not_called_late(self, job):
        run = stalled(random.Random(5), 1)
        self.ranks(job, run, 1, random.Random(5))
        job.ranks[1].counts["AllReduce"] += 1
        self.story(run, 1)
        assert named(run)[0] == []

    def test_containers_with_the_same_process_numbers_are_distinguished_by_address(self, job):
        run = stalled(random.Random(6), 1)
        for i in run.launches:
            said = run.cluster.hosts[f"r1-{i}"].hello
            run.say(i, replace(said, pid=os.getpid()))
        self.ranks(job, run, 1, random.Random(6))
        job.ranks[2].counts["AllReduce"] -= 1
        self.story(run, 1)
        assert named(run)[0] == [2]
        for rank in job.ranks:
            rank.host = f"192.168.7.{rank.rank}"  # addresses that no agent has
        self.story(run, 1)
        assert named(run)[0] == []
        assert f"NCCL rank 2 (pid {os.getpid()} on 192.168.7.2) launched " in named(run)[1]

    def test_the_service_of_another_job_is_not_believed(self, job):
        run = stalled(random.Random(7), 1)
        self.ranks(job, run, 1, random.Random(7))
        for version in ((2, 29, 2), (2, 26, 2)):
            job.version = version
            job.ranks = [rank for rank in job.ranks if rank.pid != os.getpid()]
            assert "belongs to another job" in self.story(run, 1)["nccl"]

    def test_it_is_asked_only_by_process_0_of_a_stuck_run_that_is_watched(self, job):
        for index, viewers, is_stuck in ((1, 1, True), (0, 0, True), (0, 1, False)):
            topology = Topology(index, 2, "cuda", devices(0, 1), None)
            with watched(topology, viewers=viewers, is_stuck=is_stuck) as (_, asking):
                assert asking.turn("nvidia") == asking.turn("amd") == IDLE_S
        assert job.asked == []

    def test_it_is_asked_twice_and_then_rarely(self, job, monkeypatch):
        monkeypatch.setattr(stuck, "SECOND_REQUEST_S", 5.0)
        job.ranks = [ras.Rank(0, os.getpid())]
        with watched(Topology(0, 1, "cuda", devices(0, 1), None)) as (_, asking):
            assert 0 < asking.turn("nvidia") <= 5
            assert 0 < asking.turn("nvidia") <= 5  # woken early
        assert job.asked.count("VERBOSE STATUS") == 1

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (b"", "it is not NCCL's RAS service"),
            (b"SSH-2.0-OpenSSH_9.6\r\n", "it is not NCCL's RAS service"),
            (b"x" * 5000, "it is not NCCL's RAS service"),
            (b'SERVER PROTOCOL 2\nOK\nOK\n{"communicators": [{"ranks": [', "its answer cannot be read"),
            (b"SERVER PROTOCOL 2\nOK\nOK\n[" + b"[" * 9000, "its answer cannot be read"),
            (
                b'SERVER PROTOCOL 2\nOK\nOK\n{"communicators": [{"size": 99999999999999999999999}]}',
                "its answer cannot be read",
            ),
            (b"SERVER PROTOCOL 2\nOK\nERROR: Unknown command\nhello\n", "its answer cannot be read"),
        ],
    )
    def test_bad_answers_are_one_line(self, monkeypatch, answer, words):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            monkeypatch.setenv("NCCL_RAS_ADDR", f"127.0.0.1:{listener.getsockname()[1]}")

            def speak():
                other, _ = listener.accept()
                with other:
                    other.sendall(answer)
                    other.shutdown(socket.SHUT_WR)
                    while other.recv(4096):
                        pass

            thread = threading.Thread(target=speak)
            thread.start()
            messages, states = asked(Topology(0, 1, "cuda", devices(0, 1), None), "nvidia", times=1)
            thread.join()
        assert messages == [] and states["nccl"].startswith("off: ") and words in states["nccl"]

    def test_where_nothing_answers_the_source_says_so(self, monkeypatch):
        monkeypatch.setenv("NCCL_RAS_ADDR", "127.0.0.1:1")
        _, states = asked(Topology(0, 1, "cuda", devices(0, 1), None), "nvidia", times=1)
        assert states == {"nccl": "off: 127.0.0.1:1: Connection refused"}

    def test_an_agent_that_stops_does_not_wait_for_an_answer(self, job):
        job.hold.clear()
        with watched(Topology(0, 1, "cuda", devices(0, 1), None)) as (board, asking):
            board.stopping = True
            asking.turn("nvidia")
            assert board.sources["nccl"] == "off: no answer in time"
