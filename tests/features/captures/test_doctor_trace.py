"""`jaxtop doctor --trace`: what a captured profile contains, or why it cannot be read."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
from dataclasses import replace

import pytest

from jaxtop.base.protobuf import bytes_field, number_field
from jaxtop.traces import files
from jaxtop.traces.contents import contents
from jaxtop.traces.protos import programs
from jaxtop.traces.xspace import Trace
from tests.made.programs import Instruction, along, iota, kept, listed, paired, reducing
from tests.made.programs import program as made_program
from tests.made.traces import PLATFORMS, PROGRAM, REDUCE, Launch, Made, launches, tpu
from tests.made.xspace import Event, plane, space
from tests.support import SOAK, jaxtop_here, run


def saved(tmp_path, raw, name="host.xplane.pb"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def document(path):
    done = jaxtop_here("doctor", "--trace", path, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def program(path, name=PROGRAM):
    (found,) = (each for each in document(path)["programs"] if each["name"] == name)
    return found


def refused(path):
    """The reason why nothing was read: one line on standard error."""
    done = jaxtop_here("doctor", "--trace", path)
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("jaxtop: ")
    return done.stderr.rstrip().partition(f"{path} ")[2]


def core(*launched, wait="barrier-cores"):
    """A TPU core: for each launch the operation, arrival, start of the transfer and end, in microseconds."""
    modules, ops, waits = [], [], []
    for op, arrival, start, end in launched:
        modules.append(Event("jit_step(7)", arrival - 100, end - arrival + 100, {}))
        waits.append(Event(wait, arrival, start - arrival, {}))
        ops.append(Event(f"%{op} = f32[8]{{0}} {op}(%p)", start, end - start, {}))
    return {"XLA Modules": modules, "XLA Ops": ops, "XLA TraceMe": waits}


class TestContents:
    @pytest.mark.parametrize("platform", PLATFORMS)
    def test_launches_and_waits_are_those_planted(self, tmp_path, platform):
        made = Made(launches(4, 6, late=2))
        _, make = PLATFORMS[platform]
        path = saved(tmp_path, make(made))
        found = program(path)
        assert document(path)["unassigned"] == 0 and document(path)["problems"] == []
        assert (found["launches"], found["devices_per_launch"]) == (6, [4] * 6)
        assert found["devices"] == [0, 1, 2, 3] and found["cut"] == []
        for waits, launch in zip(found["waits_ms"], made.launches, strict=True):
            truth = [wait / 1000 for _, wait in sorted(launch.waits().items())]
            assert waits == pytest.approx(truth, rel=0.01, abs=0.001)

    @pytest.mark.parametrize(
        ("name", "said", "platform", "kind"),
        [
            ("/device:TPU:0", {"device_type_string": "TPU v6 Lite"}, "tpu", "TPU v6 Lite"),
            ("/device:GPU:0", {"device_vendor": "AMD", "core_count": 304}, "rocm", "AMD, 304 cores"),
            (
                "/device:GPU:0",
                {"device_vendor": "Nvidia", "compute_cap_major": 9, "compute_cap_minor": 0},
                "cuda",
                "Nvidia, compute capability 9.0",
            ),
            ("/device:GPU:0", {"device_vendor": "Nvidia", "gpu_device_name": "H100"}, "cuda", "H100"),
            ("/device:GPU:0", {}, "gpu", None),
        ],
    )
    def test_platform_and_kind_are_those_of_the_planes(self, tmp_path, name, said, platform, kind):
        found = document(saved(tmp_path, space(plane(name, {}, said), plane("/host:CPU", {}))))
        assert found["platform"] == platform
        assert found["devices"] == [{"number": 0, "kind": kind}]
        assert found["unassigned"] is None and found["programs"] == []

    def test_a_trace_without_devices_is_one_of_the_cpu(self, tmp_path):
        found = document(saved(tmp_path, space(plane("/host:CPU", {}))))
        assert (found["platform"], found["devices"]) == ("cpu", [])

    def test_planes_of_idle_gpus_are_no_problem(self, tmp_path):
        _, make = PLATFORMS["rocm"]
        idle = space(*(plane(f"/device:GPU:{device}", {}) for device in range(1, 8)))
        found = document(saved(tmp_path, make(Made(launches(1, 3))) + idle))
        assert len(found["devices"]) == 8 and found["problems"] == []
        assert found["programs"][0]["devices"] == [0]

    @pytest.mark.parametrize("platform", PLATFORMS)
    def test_lines_that_are_there_twice_count_once(self, tmp_path, platform):
        _, make = PLATFORMS[platform]
        raw = make(Made(launches(4, 5, late=2)))
        once, twice = document(saved(tmp_path, raw)), document(saved(tmp_path, raw + raw))
        (problem,) = twice.pop("problems")
        assert problem.endswith("lines are in the trace twice: their copies were left out")
        assert once.pop("problems") == [] and once == twice

    def test_what_the_profiler_dropped_is_a_problem(self, tmp_path):
        """The host ran the program on more devices, or more often, than kernels are in the trace."""
        _, make = PLATFORMS["rocm"]
        ran = [Event(f"{PROGRAM}:XLA GPU module", 100 * i, 50, {}) for i in range(10)]
        warned = bytes_field(3, b"dropped 5 events")
        raw = make(Made(launches(2, 3))) + space(plane("/host:CPU", {"main": ran})) + warned
        assert document(saved(tmp_path, raw))["problems"] == [
            "the profiler said: dropped 5 events",
            f"the host ran {PROGRAM} on devices 10 times; 6 are in the trace",
        ]

    def test_a_single_device_measures_no_wait(self, tmp_path):
        """Those it waited for are in other traces."""
        made = Made(launches(1, 3), runs_on=(0, 1))
        path = saved(tmp_path, PLATFORMS["rocm"][1](made))
        found = program(path)
        assert found["waits_ms"] == [None] * 3 and found["collectives_per_launch"] == [1] * 3
        assert document(path)["waits_unknown"] == {"not all devices that meet are in the trace": 3}

    def test_a_barrier_shows_the_wait_for_devices_of_other_processes(self, tmp_path):
        first = launches(1, 3)
        late = [Launch(each.arrivals, until=each.arrivals[0] + 9_000) for each in first]
        found = document(saved(tmp_path, tpu(Made(late, runs_on=(0, 1)))))
        (its,) = found["programs"]
        assert its["waits_ms"] == [[pytest.approx(7.5)]] * 3 and found["waits_unknown"] == {}
        assert found["problems"] == [
            f"other processes run {PROGRAM} too: the trace does not have their devices"
        ]

    def test_a_launch_that_some_devices_lack_measures_no_wait(self, tmp_path):
        made = Made(launches(4, 4, late=1))
        *whole, last = made.launches
        cut = replace(made, launches=[*whole, Launch({0: last.arrivals[0], 1: last.arrivals[1]})])
        path = saved(tmp_path, tpu(cut))
        assert program(path)["waits_ms"][3] is None and None not in program(path)["waits_ms"][:3]
        assert (program(path)["cut"], document(path)["cut_launches"]) == ([3], 1)
        (problem,) = document(path)["problems"]
        assert problem == "the trace cuts off 1 launch (11.000 ms of operations): no waits"

    def test_waits_are_those_of_the_collective_in_which_a_device_waited_longest(self, tmp_path):
        first = core(("all-reduce.1", 1000, 1500, 1600), ("all-reduce.2", 9000, 9100, 9200))
        second = core(("all-reduce.1", 1500, 1500, 1600), ("all-reduce.2", 9100, 9100, 9200))
        once = [Event("jit_step(7)", 500, 9000, {})]
        cores = [{**each, "XLA Modules": once} for each in (first, second)]
        path = saved(tmp_path, space(*(plane(f"/device:TPU:{i}", each) for i, each in enumerate(cores))))
        found = program(path)
        assert (found["waits_ms"], found["waits_in"]) == ([[0.5, 0.0]], ["all-reduce.1"])
        assert found["collectives_per_launch"] == [2]

    def test_time_that_belongs_to_no_launch_is_given_with_the_reason(self, tmp_path):
        _, make = PLATFORMS["rocm"]
        found = document(saved(tmp_path, make(Made(launches(1, 8), lost=0.4, seed=5))))
        (why,) = found["unassigned_ms"]
        assert why == "nothing in the trace names the launch"
        left = found["unassigned_ms"][why]
        assert found["unassigned"] == pytest.approx(left / (left + found["assigned_ms"]))
        assert any(why in each for each in found["problems"])

    def test_what_is_said_is_the_same_as_text(self, tmp_path):
        made = Made(launches(4, 20, late=2), has_host=False)
        done = jaxtop_here("doctor", "--trace", saved(tmp_path, tpu(made)))
        lines = done.stdout.splitlines()
        assert lines[0].startswith("tpu, 4 × kind unknown") and "0.0%" in lines[0]
        assert any(line.split()[:4] == [PROGRAM, "20", "0", "4"] for line in lines)
        assert "in 8 of 20 launches, those with the longest waits" in done.stdout
        assert lines[-1].startswith("problem: the host's launches are not in the trace")


PAIRS = ((0, 2), (1, 3))


class TestGroups:
    @pytest.mark.parametrize("platform", PLATFORMS)
    def test_waits_are_those_in_the_groups_of_the_program(self, tmp_path, platform):
        """Though all leave at one time: device 0 waits for 2 alone, and 1 for 3."""
        _, make = PLATFORMS[platform]
        begin = 20_000.0
        arrivals = {0: begin, 1: begin + 50, 2: begin + 400, 3: begin + 450}
        made = Made([Launch(arrivals, groups=PAIRS), *launches(4, 5, late=2, groups=PAIRS)[1:]])
        found = program(saved(tmp_path, make(made)))
        for waits, launch in zip(found["waits_ms"], made.launches, strict=True):
            truth = [wait / 1000 for _, wait in sorted(launch.waits().items())]
            assert waits == pytest.approx(truth, rel=0.01, abs=0.001)

    @pytest.mark.parametrize("platform", ["rocm", "nvidia"])
    def test_without_the_program_no_wait_is_known(self, tmp_path, platform):
        _, make = PLATFORMS[platform]
        found = document(saved(tmp_path, make(Made(launches(4, 5, late=2), has_programs=False))))
        assert found["programs"][0]["waits_ms"] == [None] * 5
        assert found["waits_unknown"] == {"the trace does not say which devices meet": 5}
        assert found["problems"] == [
            "the waits in 5 collectives are unknown: the trace does not say which devices meet"
        ]

    def test_of_two_programs_of_a_name_with_other_groups_none_are_known(self, tmp_path):
        made = Made(launches(4, 2, groups=PAIRS))
        other = reducing(PROGRAM, REDUCE, ((0, 1), (2, 3)), range(4))
        found = program(saved(tmp_path, PLATFORMS["rocm"][1](made) + space(other)))
        assert found["waits_ms"] == [None] * 2

    def test_devices_are_those_with_the_ids_of_the_cores(self, tmp_path):
        """The trace of one of several processes numbers its cores from 0 on."""
        made = Made(launches(4, 3, late=0), has_programs=False)
        raw = PLATFORMS["tpu"][1](made).replace(b"barrier-cores", b"barrier-c0res")
        known = reducing(PROGRAM, REDUCE, ((4, 5, 6, 7), (0, 1, 2, 3)), range(8))
        ids = b"".join(
            bytes_field(1, plane(f"/device:TPU:{number}", {}, {"core_details": number_field(6, 7 - number)}))
            for number in range(4)
        )
        without = program(saved(tmp_path, raw + space(known)))
        found = program(saved(tmp_path, raw + space(known) + ids))
        assert without["waits_ms"] == [None] * 3 and None not in found["waits_ms"]

    def test_members_that_left_at_other_times_show_no_wait(self, tmp_path):
        """Some of them are of another launch, or the program is another one."""
        apart = replace(Made(launches(4, 3, groups=PAIRS)), has_programs=False)
        apart.launches[1] = Launch({0: 80_000, 1: 95_000, 2: 80_100, 3: 95_100}, groups=PAIRS)
        known = reducing(PROGRAM, REDUCE, ((0, 1), (2, 3)), range(4))
        path = saved(tmp_path, PLATFORMS["rocm"][1](apart) + space(known))
        assert program(path)["waits_ms"][1] is None
        assert document(path)["waits_unknown"] == {"devices that meet left it at different times": 1}

    def test_where_a_device_lacks_rounds_of_a_loop_no_round_is_known(self, tmp_path):
        """Nothing says which one it lost."""
        rounds = [[(100 + 1000 * i, 400) for i in range(4)], [(300 + 1000 * i, 200) for i in range(4)]]
        del rounds[1][1]
        planes = []
        for device, its in enumerate(rounds):
            ops = [Event("%all-reduce.1 = f32[] all-reduce(%p)", at, us, {}) for at, us in its]
            lines = {"XLA Modules": [Event("jit_step(7)", 50, 4_000, {})], "XLA Ops": ops}
            planes.append(plane(f"/device:TPU:{device}", lines))
        known = reducing(PROGRAM, REDUCE, ((0, 1),), range(2))
        path = saved(tmp_path, space(*planes, known))
        assert program(path)["waits_ms"] == [None]
        assert document(path)["waits_unknown"] == {"the trace lacks it on some devices in some rounds": 4}

    def test_the_round_of_a_loop_is_named(self, tmp_path):
        planes = []
        for device in range(2):
            at = [(100 + 1000 * i + 50 * i * device, 400 - 50 * i * device) for i in range(4)]
            ops = [Event("%all-reduce.1 = f32[] all-reduce(%p)", start, us, {}) for start, us in at]
            lines = {"XLA Modules": [Event("jit_step(7)", 50, 4_000, {})], "XLA Ops": ops}
            planes.append(plane(f"/device:TPU:{device}", lines))
        known = reducing(PROGRAM, REDUCE, ((0, 1),), range(2))
        found = program(saved(tmp_path, space(*planes, known)))
        assert (found["waits_ms"], found["waits_in"]) == ([[0.15, 0.0]], ["all-reduce.1, round 4"])

    @pytest.mark.parametrize("lost", [{0, 1, 2, 3}, {1}])
    def test_where_cores_lost_their_barriers_no_wait_is_known(self, tmp_path, lost):
        """Also where all of them did: the program says that there is a barrier."""
        head, *rest = PLATFORMS["tpu"][1](Made(launches(4, 3, late=1))).split(b"/device:TPU:")
        for number, part in enumerate(rest):
            if number in lost:
                rest[number] = part.replace(b"barrier-cores", b"barrier-c0res")
        found = document(saved(tmp_path, b"/device:TPU:".join([head, *rest])))
        assert found["programs"][0]["waits_ms"] == [None] * 3
        assert found["waits_unknown"] == {"the trace lacks the barrier before it on some devices": 3}

    @pytest.mark.parametrize(
        ("form", "groups"),
        [
            (listed([(0, 2), (1, 3)]), ((0, 2), (1, 3))),
            (iota(2, 2, (2, 2), (1, 0), field=87), ((0, 2), (1, 3))),
            (iota(2, 2, (2, 2), (1, 0), field=92), ((0, 2), (1, 3))),
            (iota(2, 2, (4,), field=92), ((0, 1), (2, 3))),
            (along({"a": 2, "b": 2}, 0), ((0, 2), (1, 3))),
            (along({"a": 4}, (0, 1, 2)), ((0, 2), (1, 3))),
            (listed([]), ((0, 1, 2, 3),)),
            (listed([(0, 9)]), None),
            (iota(2, 2, (5,), field=92), None),
            (iota(1, 1 << 40, (1 << 40,), field=92), None),
            (along({"a": 2}, 5), None),
            (along({"a": 4}, (0, 3, 2)), None),
        ],
    )
    def test_groups_in_all_forms_are_ids_of_devices(self, form, groups):
        """The assignment has the devices in the order of the mesh."""
        proto = made_program(
            "jit_f", [[Instruction("all-reduce.1", "all-reduce", groups=form)]], (7, 5, 6, 4)
        )
        found = programs(Trace(space(kept({"jit_f": proto})))).collectives["jit_f", "all-reduce.1"]
        order = (7, 5, 6, 4)
        assert found.groups == (groups and tuple(tuple(order[each] for each in group) for group in groups))

    def test_those_that_send_to_each_other_are_a_group(self):
        permute = Instruction("permute.1", "collective-permute", groups=paired([(0, 1), (1, 0), (2, 3)]))
        found = programs(Trace(space(kept({"jit_f": made_program("jit_f", [[permute]], range(4))}))))
        assert found.collectives["jit_f", "permute.1"].groups == ((0, 1), (2, 3))
        assert not found.wanted.meets("jit_f", "permute.1")


class TestPrograms:
    def compiled(self, *instructions):
        """A program of two devices: name, opcode, and the number of an operand of each instruction."""
        both = ((0, 1),)
        listed = [
            Instruction(name, opcode, *(((operand,), both) if operand is not None else ()))
            for name, opcode, operand in instructions
        ]
        return kept({"jit_step": made_program("jit_step", [listed], range(2))})

    def test_a_collective_in_a_chain_of_fusions_is_that_of_its_last(self, tmp_path):
        """Each fusion of the chain repeats it: the first starts it, the last waits for it."""
        inside = [
            [
                Instruction(f"all-gather.{part}", "all-gather", groups=[(0, 1)], channel=4, config=chained),
                *calls,
            ]
            for part, chained, calls in (
                (1, "", [Instruction("start", "custom-call", target="AsyncCollectiveStart")]),
                (2, '"async_collective_fusion_config":{}', []),
                (3, "", [Instruction("done", "custom-call", target="AsyncCollectiveDone")]),
            )
        ]
        entry = [Instruction(f"fusion.{part}", "fusion", calls=(part,)) for part in (1, 2, 3)]
        chain = kept({"jit_step": made_program("jit_step", [*inside, entry], range(2))})
        planes = []
        for device in range(2):
            names = [("fusion.1", 1000, 100), ("fusion.2", 1100, 900)]
            names.append(("fusion.3", 2000 + 400 * device, 1000 - 400 * device))
            ops = [Event(f"%{name} = f32[] fusion(%p)", at, us, {}) for name, at, us in names]
            lines = {"XLA Modules": [Event("jit_step(7)", 900, 2_200, {})], "XLA Ops": ops}
            planes.append(plane(f"/device:TPU:{device}", lines))
        found = program(saved(tmp_path, space(*planes, chain)))
        assert (found["waits_ms"], found["waits_in"]) == ([[0.4, 0.0]], ["fusion.1"])
        assert found["collectives_per_launch"] == [1]

    def test_a_collective_fused_with_other_work_is_its_fusion(self, tmp_path):
        inside = [
            Instruction("all-reduce.9", "all-reduce", groups=[(0, 1)]),
            Instruction("s", "dynamic-slice"),
        ]
        entry = [Instruction("fusion.7", "fusion", calls=(1,))]
        proto = made_program("jit_step", [inside, entry], range(2))
        cores = [core(("fusion.7", 1000, 2000, 3000)), core(("fusion.7", 2000, 2000, 3000))]
        planes = [plane(f"/device:TPU:{i}", each) for i, each in enumerate(cores)]
        found = program(saved(tmp_path, space(*planes, kept({"jit_step": proto}))))
        assert (found["waits_ms"], found["waits_in"]) == ([[1.0, 0.0]], ["fusion.7"])

    def test_a_collective_with_another_name_is_known_from_the_program_in_the_trace(self, tmp_path):
        cores = [core(("exchange.4", 1000, 2000, 3000)), core(("exchange.4", 2000, 2000, 3000))]
        planes = [plane(f"/device:TPU:{i}", each) for i, each in enumerate(cores)]
        without = program(saved(tmp_path, space(*planes)))
        known = self.compiled(("p", "parameter", None), ("exchange.4", "all-reduce", 0))
        found = program(saved(tmp_path, space(*planes, known)))
        assert (without["waits_ms"], found["waits_ms"]) == ([None], [[1.0, 0.0]])

    def test_an_operation_that_ends_one_has_its_name(self, tmp_path):
        cores = [core(("wait.1", 1000, 2000, 3000)), core(("wait.1", 2000, 2000, 3000))]
        planes = [plane(f"/device:TPU:{i}", each) for i, each in enumerate(cores)]
        known = self.compiled(("exchange.1", "all-gather-start", 9), ("wait.1", "all-gather-done", 0))
        assert program(saved(tmp_path, space(*planes, known)))["waits_ms"] == [[1.0, 0.0]]

    def test_a_program_that_cannot_be_read_leaves_the_names_of_operations(self, tmp_path):
        odd = plane("/host:metadata", {}, programs={"jit_step(7)": b"\xff\xff", "jit_f(8)": b""})
        found = program(saved(tmp_path, tpu(Made(launches(2, 2))) + space(odd)))
        assert None not in found["waits_ms"]


class TestFiles:
    def test_a_compressed_profile_and_one_in_a_folder_are_the_same(self, tmp_path):
        raw = tpu(Made(launches(2, 2)))
        plain = document(saved(tmp_path, raw, "a/host.xplane.pb"))
        packed = saved(tmp_path, gzip.compress(raw), "b/plugins/profile/2026/host.xplane.pb.gz")
        assert plain["programs"] == document(packed)["programs"] == document(tmp_path / "b")["programs"]
        assert document(tmp_path / "b")["file"] == str(packed)

    def test_of_several_in_a_folder_one_must_be_named(self, tmp_path):
        for name in ("one", "two"):
            saved(tmp_path, tpu(Made(launches(1, 1))), f"{name}.xplane.pb")
        assert refused(tmp_path).startswith("has 2 profiles: name one of them, such as")

    def test_what_is_no_profile_is_refused_in_one_line(self, tmp_path):
        raw = tpu(Made(launches(2, 3)))
        for content, why in [
            (b"", "is empty"),
            (b"hello, world\n" * 99, "is no profile"),
            (b"\n\n\nhello, world\n" * 99, "is no"),
            (bytes(4096), "is no profile"),
            (b"\x0a\x02" + bytes(2), "is no whole profile: a field without a number"),
            (raw[: len(raw) // 2], "is no whole profile: a field that is longer than its message"),
            (space(plane("text", {})), "is no profile: it has no planes"),
            (gzip.compress(raw)[:-100], "is compressed, and cannot be unpacked"),
            (gzip.compress(b"hello"), "is no profile"),
            (gzip.compress(b""), "is empty"),
            (b"\x1f\x8bhello", "is compressed, and cannot be unpacked"),
        ]:
            assert refused(saved(tmp_path, content)).startswith(why)

    def test_an_empty_folder_and_what_is_no_file_are_refused(self, tmp_path):
        assert refused(tmp_path) == "has no profile (*.xplane.pb) in it"
        os.mkfifo(tmp_path / "pipe")
        assert refused(tmp_path / "pipe") == "is not a file"
        assert refused(tmp_path / "none") == "cannot be read: no such file or directory"

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
    def test_a_file_of_others_is_refused(self, tmp_path):
        path = saved(tmp_path, b"")
        path.chmod(0)
        assert refused(path) == "cannot be read: permission denied"

    def test_a_file_that_is_too_large_is_refused_before_it_is_read(self, tmp_path, monkeypatch):
        path = saved(tmp_path, b"\x0a")
        os.truncate(path, 2_000_000_000)
        assert refused(path) == "is larger than 1.0 GiB, which is not read"
        monkeypatch.setattr(files, "MOST_BYTES", 1000)
        packed = saved(tmp_path, gzip.compress(tpu(Made(launches(2, 3)))), "packed.xplane.pb")
        assert refused(packed) == "is larger than 1.0 GiB, which is not read"

    def test_a_trace_with_too_many_events_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(files, "MOST_EVENTS", 50)
        path = saved(tmp_path, tpu(Made(launches(2, 20))))
        assert refused(path) == "has more than 50 events, which are not read"
        events = plane("/host:CPU", {"main": [Event("one", 0, 1, {})] * 60})
        assert refused(saved(tmp_path, space(events))) == "has more than 50 events, which are not read"
        assert refused(saved(tmp_path, b"\x0a\x00" * 60)) == "has more than 50 events, which are not read"

    @pytest.mark.long
    @pytest.mark.parametrize("platform", PLATFORMS)
    def test_damaged_profiles_give_an_answer_or_a_reason(self, tmp_path, platform):
        _, make = PLATFORMS[platform]
        raw, dice = make(Made(launches(2, 3))), random.Random(3)
        for _ in range(150 if SOAK else 50):
            damaged = bytearray(raw)
            for _ in range(dice.choice([1, 3, 30])):
                damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            done = jaxtop_here("doctor", "--trace", saved(tmp_path, bytes(damaged)))
            if done.returncode == 0:
                assert done.stdout and not done.stderr
            else:
                assert done.stderr.startswith("jaxtop: ") and done.stderr.count("\n") == 1


def test_no_jax_is_imported(tmp_path):
    path = saved(tmp_path, tpu(Made(launches(2, 2))))
    code = (
        "import sys\nfrom jaxtop.cli import main\n"
        f"status = main(['doctor', '--trace', {str(path)!r}])\n"
        "sys.exit(status or any(each in sys.modules for each in ('jax', 'jaxlib')))"
    )
    assert run(sys.executable, "-c", code).returncode == 0


@pytest.mark.parametrize(("partitions", "waits"), [(2, (10_000, 0)), (4, None)])
def test_of_a_program_that_other_processes_run_too_no_wait_is_known(partitions, waits):
    """Whoever came last may be one of them; the program and the host say on how many devices it runs."""
    sizes = {"num_replicas": 1, "num_partitions": partitions, "num_addressable_devices": 2}
    said = {"name": "jit_f", "run_id": 3, **sizes}
    begin = [Event("CommonPjRtLoadedExecutable::Execute (jit_f)", 0, 50, {**said, "_pt": 5, "_p": 3})]
    lines = {"python": begin}
    for device in range(2):
        on = {"run_id": 3, "device_ordinal": device, "hlo_module": "jit_f"}
        lines[f"tf_XLAPjRtCpuClient/{device}"] = [
            Event(f"[{device}] CommonPjRtLoadedExecutable::Execute (jit_f)", 5, 40, {"_ct": 5, "_c": 3}),
            Event("all-reduce.1", 10 + 10 * device, 30 - 10 * device, on),
            Event("ThunkExecutor::Execute (wait for completion)", 6, 36, on),
        ]
    known = reducing("jit_f", "all-reduce.1", [range(partitions)], range(partitions))
    trace = Trace(space(plane("/host:CPU", lines), known))
    (found,) = contents(trace, programs(trace)).programs
    assert found.launches[0].waits == waits and found.is_shared == (partitions == 4)
