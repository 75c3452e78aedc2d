"""Before the first steps, bytes moved name the process that is slow or stuck, or nobody."""

from __future__ import annotations

import random

import pytest

from jaxtop import wire
from jaxtop_agent.machine import disks
from jaxtop_agent.machine.disks import OwnTraffic
from jaxtop_agent.machine.moved_bytes import Movement
from tests.staged.hangs import SEEDS, finding, named
from tests.staged.stalls import BEGAN, Beginning
from tests.stories import pulse

GIB = 1 << 30
LOAD = (wire.Place("train.py", 30, "restore"), wire.Place("python3.11/selectors.py", 468, "select"))


class Restoring(Beginning):
    """Processes that read a checkpoint: how much each reads, and until when, by its own counters."""

    def __init__(self, hosts):
        super().__init__(hosts)
        self.launches = dict.fromkeys(range(hosts), 0)
        self.stand(*self.launches, at=LOAD)
        self.cpu = dict.fromkeys(self.launches, 30)

    def restore(self, pace, size, way="read", seconds=60):
        """Each process moves `pace` bytes a second until it has moved `size`."""
        movements = {i: Movement() for i in self.launches}
        for second in range(seconds):
            self.now += 1
            for i in self.launches:
                done = min(size[i], pace[i] * second)
                own = OwnTraffic(
                    0, 0, *((done, 0) if way == "read" else (0, done) if way == "written" else (0, 0))
                )
                moved = movements[i].look(second, own, done if way == "received" else 0)
                at_ms = int(self.now * 1000)
                self.say(i, wire.Stacks(at_ms, (wire.Thread("MainThread", True, self.stands[i]),)))
                lull = wire.Lull("", int(BEGAN * 1000), 0, moved)
                host = wire.HostSample(process_cpu_permille=self.cpu[i])
                self.say(i, pulse(at_ms=at_ms, lull=lull, host=host))


class TestSlowRestore:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_the_process_that_is_slow_or_stuck_is_named(self, seed):
        chance = random.Random(seed)
        hosts = chance.randint(3, 12)
        run, culprit = Restoring(hosts), chance.randrange(hosts)
        sizes = {i: chance.randint(36, 44) * GIB for i in run.launches}
        paces = dict.fromkeys(run.launches, 2 * GIB)
        is_slow = chance.random() < 0.5
        if is_slow:
            paces[culprit] = chance.randint(20, 200) << 20
        else:
            sizes[culprit] = chance.randint(0, 12) * GIB
        way = chance.choice(("read", "written", "received"))
        if chance.random() < 0.3:
            run.stand(culprit, at=(wire.Place("train.py", 31, "restore"),))
        run.restore(paces, sizes, way)
        odd, text = named(run)
        assert odd == [culprit], text
        assert f"host {culprit} has {way} " in text
        assert ("slow, not stuck" if is_slow else "nothing moves now") in text
        assert run.stall_events and run.stall_events[-1][0] == "warning"
        evidence = {each["name"]: each["value"] for each in finding(run)["evidence"]}
        assert evidence[f"bytes {way}"] < evidence[f"bytes {way} by the others, median"] / 2

    @pytest.mark.parametrize("seed", SEEDS)
    def test_nobody_is_named_in_a_healthy_start(self, seed):
        chance = random.Random(seed)
        hosts = chance.randint(2, 12)
        run = Restoring(hosts)
        paces = {i: chance.randint(800, 1200) << 20 for i in run.launches}
        sizes = {i: chance.randint(36, 44) * GIB for i in run.launches}
        case = seed % 4
        if case == 1:  # all have read the same, and wait for something else
            paces = dict.fromkeys(run.launches, 8 * GIB)
        elif case == 2:  # the first reads what it sends to the others
            sizes = {i: sizes[i] if i == 0 else GIB // 4 for i in run.launches}
        elif case == 3:  # the others prepare, each for itself, and one had less to read
            sizes[hosts - 1], paces = GIB, dict.fromkeys(run.launches, 8 * GIB)
            run.cpu = dict.fromkeys(run.launches, 950)
        run.restore(paces, sizes)
        assert named(run) == ([], "")
        assert run.stall_events == []

    def test_of_two_the_one_that_still_reads_is_slow(self):
        run = Restoring(2)
        run.restore({0: 4 * GIB, 1: 50 << 20}, {0: 40 * GIB, 1: 40 * GIB})
        text = "nothing launched by hosts 0–1 for 60 s; host 1 has read 2.9 GiB, the others 40.0 GiB; "
        assert named(run) == ([1], f"{text}it goes on at 50.0 MiB/s: slow, not stuck")

    def test_of_several_that_are_slow_the_average_is_given(self):
        run = Restoring(6)
        paces = dict.fromkeys(run.launches, 4 * GIB) | {1: 40 << 20, 3: 60 << 20}
        run.restore(paces, dict.fromkeys(run.launches, 40 * GIB))
        text = "hosts 1, 3 have read 2.9 GiB on average, the others 40.0 GiB; "
        assert named(run)[0] == [1, 3]
        assert f"{text}they go on at 50.0 MiB/s on average: slow, not stuck" in named(run)[1]

    @pytest.mark.parametrize("way", ["read", "written", "received"])
    def test_while_the_others_still_move_nobody_is_named(self, way):
        run = Restoring(4)
        run.restore(
            {i: (50 << 20) if i else 5 << 20 for i in range(4)}, dict.fromkeys(range(4), 40 * GIB), way
        )
        assert named(run) == ([], "")

    def test_of_two_that_are_both_done_nobody_is_named(self):
        run = Restoring(2)
        run.restore(dict.fromkeys((0, 1), 4 * GIB), {0: 40 * GIB, 1: GIB})
        assert named(run) == ([], "")

    def test_one_that_stops_moving_is_reported_again(self):
        run = Restoring(3)
        run.restore(
            {0: 4 * GIB, 1: 50 << 20, 2: 4 * GIB}, {0: 40 * GIB, 1: 2 * GIB, 2: 40 * GIB}, seconds=120
        )
        assert ["slow" in text for _, text in run.stall_events] == [True, False]
        assert finding(run)["severity"] == "critical"

    def test_a_process_elsewhere_is_compared_too(self):
        """The others wait in a barrier of JAX, so its stack names it; its bytes say that it is slow."""
        run = Restoring(3)
        barrier = (wire.Place("train.py", 40, "main"), wire.Place("jax/_src/distributed.py", 9, "wait"))
        run.stand(0, 2, at=barrier)
        run.launches = dict.fromkeys(range(3), 0)
        run.restore({0: 4 * GIB, 1: 50 << 20, 2: 4 * GIB}, dict.fromkeys(range(3), 40 * GIB))
        assert named(run)[0] == [1]
        assert "train.py:30 restore; host 1 has read 2.9 GiB, the others 40.0 GiB" in named(run)[1]

    def test_older_agents_say_nothing_of_bytes(self):
        run = Restoring(3)
        run.lull(60)
        assert named(run) == ([], "")


class TestMovement:
    def test_totals_are_those_of_the_kernel(self, tmp_path):
        """A file that is written and read again moves so many bytes, though no disk may see them."""
        before = disks.of_process()
        (tmp_path / "file").write_bytes(bytes(5_000_000))
        (tmp_path / "file").read_bytes()
        after = disks.of_process()
        assert 5_000_000 <= after.read_in_all - before.read_in_all < 5_100_000
        assert 5_000_000 <= after.written_in_all - before.written_in_all < 5_100_000

    def test_mapped_files_are_counted_by_the_disk(self, tmp_path):
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/io").write_text("rchar: 10\nwchar: 90\nread_bytes: 4096\nwrite_bytes: 0\n")
        assert disks.of_process(str(tmp_path)) == OwnTraffic(4096, 0, 4096, 90)
        assert disks.of_process("/nowhere") == OwnTraffic()

    def test_rates_cover_ten_seconds(self):
        movement = Movement()
        for at in range(31):
            found = movement.look(at, OwnTraffic(None, None, at * 100, None), 5_000 + at * 7)
        assert found == wire.IoTotals(3000, None, 210, 100, None, 7)

    def test_a_counter_that_was_reset_has_no_rate(self):
        movement = Movement()
        movement.look(0, OwnTraffic(read_in_all=500), None)
        assert movement.look(1, OwnTraffic(read_in_all=400), None) == wire.IoTotals(400)
