"""The TPU runtime names the process whose cores stand apart, or nobody: a stand-in speaks its protocol."""

from __future__ import annotations

import random

import pytest

from jaxtop import wire
from jaxtop_agent.core.board import Topology
from tests.staged import hangs as staged_hangs
from tests.staged.hangs import SEEDS, asked, devices, finding, named, stalled
from tests.staged.stalls import VALUE
from tests.standin.tpu import core, found_by_the_agent, status


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    staged_hangs.tick(monkeypatch)


class TestTpu:
    EACH = 4

    @pytest.fixture(autouse=True)
    def whole_machine(self, monkeypatch):
        for name in ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES", "TPU_PROCESS_BOUNDS"):
            monkeypatch.delenv(name, raising=False)

    @pytest.fixture
    def service(self, monkeypatch):
        with found_by_the_agent(monkeypatch) as service:
            yield service

    def story(self, service, run, cores_of):
        run.go_on()
        for i in run.launches:
            service.status = status(*(cores_of(i, i * self.EACH + place) for place in range(self.EACH)))
            topology = Topology(i, len(run.launches), "tpu", devices(i, self.EACH, "tpu"), None)
            messages, states = asked(topology, "tpu")
            assert states == {"tpu cores": "on"}
            run.say(i, *messages)
        run.go_on()

    @pytest.mark.parametrize("seed", SEEDS)
    def test_the_process_whose_cores_stand_apart_is_named(self, service, seed):
        chance = random.Random(seed)
        run = stalled(chance, self.EACH, "tpu")
        culprit, how = chance.choice(list(run.launches)), chance.choice(("idle", "place", "program"))
        different: dict[str, dict[str, object]] = {
            "idle": {"pc": 0, "queued": 0},
            "place": {"place": "%fusion.12"},
        }
        apart = different.get(how, {"program": b"\x01"})
        only_one = chance.random() < 0.5

        def cores_of(index, number):
            is_apart = index == culprit and (not only_one or number % self.EACH == 2)
            return core(number, **{"pc": 0x3F2 + chance.randint(0, 9), **(apart if is_apart else {})})

        self.story(service, run, cores_of)
        odd, text = named(run)
        assert odd == [culprit], text
        assert {"idle": "runs nothing", "place": "%fusion.12", "program": "another program"}[how] in text
        evidence = {each["name"]: each["value"] for each in finding(run)["evidence"]}
        assert evidence["place of most cores"] == "%all-reduce.7"
        assert evidence["TPU core"] // self.EACH == culprit

    @pytest.mark.parametrize("seed", SEEDS)
    def test_nobody_is_named_where_all_cores_stand_alike(self, service, seed):
        chance = random.Random(seed)
        run = stalled(chance, self.EACH, "tpu")
        self.story(service, run, lambda _, number: core(number, pc=0x3F2 + chance.randint(0, 9)))
        odd, text = named(run)
        assert odd == [] and "which one blocks the others is unknown" in text

    def test_a_core_with_an_error_is_named(self, service):
        run = stalled(random.Random(1), self.EACH, "tpu")
        self.story(service, run, lambda _, number: core(number, error="HBM parity" if number == 9 else ""))
        assert named(run)[0] == [2]
        assert named(run)[1].endswith("host 2 reports of TPU core 9: HBM parity")

    def test_half_that_run_nothing_hold_up_the_other_half(self, service):
        run = stalled(random.Random(1), self.EACH, "tpu")
        run.launches = {0: 50, 1: 50}
        run.cluster.hosts = {
            agent: host for agent, host in run.cluster.hosts.items() if agent in ("r1-0", "r1-1")
        }
        run.stands = dict.fromkeys(run.launches, VALUE)
        self.story(service, run, lambda i, number: core(number, pc=0 if i else 5, queued=0))
        assert named(run)[0] == [1]
        assert (
            "runs nothing on TPU core 4, device 4, and nothing is queued; the others stand at "
            in named(run)[1]
        )

    @pytest.mark.parametrize(
        ("apart", "words"),
        [
            (
                {"pc": 0, "queued": 1},
                "hosts 1–2 run nothing on cores such as TPU core 4, device 4, with 1 program queued; ",
            ),
            (
                {"pc": 5, "place": "%fusion.12"},
                "hosts 1–2 stand at %fusion.12 (for example TPU core 4, device 4, pc 0x5); ",
            ),
        ],
    )
    def test_several_processes_are_a_plural(self, service, apart, words):
        run = stalled(random.Random(1), self.EACH, "tpu", hosts=6)
        self.story(service, run, lambda i, number: core(number, **(apart if i in (1, 2) else {"pc": 5})))
        assert words in named(run)[1]

    def test_sparse_cores_do_not_count(self, service):
        run = stalled(random.Random(1), self.EACH, "tpu")
        self.story(service, run, lambda _, number: core(number, kind=1))
        service.status = status(*(core(number) for number in range(4)), core(90, kind=3, pc=0))
        messages, _ = asked(Topology(0, 3, "tpu", devices(0, 4, "tpu"), None), "tpu")
        run.say(0, *messages)
        assert named(run)[0] == []
        assert [each.is_tensor_core for each in messages[-1].cores] == [True] * 4 + [False]

    @pytest.mark.parametrize(
        ("environ", "ids", "cores", "expected"),
        [
            ({}, (0, 1), range(4), [(0, 0), (1, 0), (2, 1), (3, 1)]),  # two cores a device
            ({}, (8, 9), (8, 9), [(8, 8), (9, 9)]),
            ({}, (8, 9), (0, 1), [(0, 8), (1, 9)]),  # numbers on the machine
            ({}, (8, 9), (0, 1, 2), [(0, None), (1, None), (2, None)]),
            ({"TPU_VISIBLE_CHIPS": "1"}, (1,), range(4), [(1, 1)]),
            ({"TPU_VISIBLE_CHIPS": "1"}, (8,), range(4), None),  # whose cores are these?
            ({"TPU_VISIBLE_CHIPS": "1"}, (1,), (2, 2), None),  # a chip of two cores
        ],
    )
    def test_cores_are_matched_to_devices(self, service, monkeypatch, *, environ, ids, cores, expected):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        service.status = status(*map(core, cores))
        own = tuple(wire.Device(each, "TPU v4", "tpu", i) for i, each in enumerate(ids))
        messages, states = asked(Topology(0, 1, "tpu", own, None), "tpu", times=1)
        if expected is None:
            assert "no cores that can be matched" in states["tpu cores"]
        else:
            assert [(each.core, each.device) for each in messages[0].cores] == expected

    @pytest.mark.usefixtures("service")
    def test_an_older_runtime_cannot_say(self):
        _, states = asked(Topology(0, 1, "tpu", devices(0, 1, "tpu"), None), "tpu", times=1)
        assert "does not report the state of its cores" in states["tpu cores"]

    def test_bytes_that_are_no_answer(self, service):
        service.status = b"\x0a\x09abc"
        _, states = asked(Topology(0, 1, "tpu", devices(0, 1, "tpu"), None), "tpu", times=1)
        assert "a field that is longer than its message" in states["tpu cores"]

    def test_the_place_in_the_hlo_is_asked_for(self, service):
        """As Google's own message says it."""
        pb2 = pytest.importorskip(
            "tpu_info.proto.tpu_metric_service_pb2", reason="Google's tpu-info is not installed"
        )
        service.status = status(core(3, queued=2), core(4, pc=0))
        asked(Topology(0, 1, "tpu", devices(0, 1, "tpu"), None), "tpu", times=1)
        assert pb2.GetTpuRuntimeStatusRequest.FromString(service.asked[-1]).include_hlo_info
        theirs = pb2.GetTpuRuntimeStatusResponse.FromString(service.status)
        state = theirs.core_states[3]
        assert state.sequencer_info[0].hlo_location == "%all-reduce.7"
        assert (state.core_id.global_core_id, len(state.queued_program_info)) == (3, 2)
        service.status = theirs.SerializeToString()
        messages, _ = asked(
            Topology(0, 1, "tpu", (*devices(3, 1, "tpu"), *devices(4, 1, "tpu")), None), "tpu"
        )
        assert [(each.device, each.pc, each.queued, each.program) for each in messages[-1].cores] == [
            (3, 0x3F2, 2, "abcd"), (4, 0, 1, ""),
        ]  # fmt: skip
