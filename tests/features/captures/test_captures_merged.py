"""The files of a capture: our reader of traces beside JAX's, the merged trace read by Perfetto's protobuf."""

from __future__ import annotations

import io
import json
import stat
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import jax
import msgspec
import pytest
from msgspec import structs
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from jaxtop import traces, wire
from jaxtop.base.protobuf import Malformed, bytes_field, number_field, text_field
from jaxtop.features.captures import perfetto
from jaxtop.features.captures.clocks import AlignedMachine, Machine, aligned
from jaxtop.features.captures.comparison import compared
from jaxtop.features.captures.finish import ProcessesAtStart, TakenTrace, clocks, finish, known
from jaxtop.features.captures.folder import CaptureFolder, file_name, file_names
from jaxtop.features.captures.merged_trace import Durations, MergedTrace, TracedHost, merge
from jaxtop.features.captures.perfetto import MAX_LANES, Slice, lanes
from jaxtop.traces.xspace import Trace
from tests import builders
from tests.made import runs as made_runs
from tests.made import windows as made_windows
from tests.made.traces import PLATFORMS, PROGRAM, REDUCE, Made, launches
from tests.made.xspace import Event, plane, space
from tests.support import ROOT, disk_with_room_for

TRACES = ROOT / "tests" / "data" / "traces"
VERSIONS = ("0.10.2", "0.8.0")
# The groups of the collectives of the program in `data/traces/capture.py`; a device id is its ordinal there.
DATA, MODEL = ((0, 2048), (1, 2049)), ((0, 1), (2048, 2049))


def path(version, index):
    return TRACES / f"cpu-jax-{version}-process-{index}.pb"


def groups_of(_, op):
    return DATA if op == "psum.15" else MODEL


def late(raw, nanoseconds):
    """The trace as a machine would have taken it whose clock is ahead by this."""
    began = Trace(raw).started_ns
    assert raw.count(number_field(3, began)) == 1
    return raw.replace(number_field(3, began), number_field(3, began + nanoseconds))


def merged(*hosts, groups=groups_of):
    file = io.BytesIO()
    result = merge(hosts, groups, file)
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(file.getvalue())
    return result, Read(trace)


def traced(number, path, machine="one", platform="cpu", **more):
    return TracedHost(f"process {number}", path, platform, machine, traces.WantedCollectives(), **more)


class Read:
    """A trace as Perfetto reads it: tracks with parents, slices in the time of the trace, flows."""

    def __init__(self, trace):
        self.processes, self.tracks, self.parents = {}, {}, {}
        self.slices, self.flows = [], Counter()
        clocks, names, stacks = {}, {}, {}
        for packet in trace.packet:
            sequence = packet.trusted_packet_sequence_id
            if packet.HasField("clock_snapshot"):
                at = {each.clock_id: each.timestamp for each in packet.clock_snapshot.clocks}
                clocks[sequence] = at[6] - at[64]
            if packet.HasField("interned_data"):
                for each in packet.interned_data.event_names:
                    names[sequence, each.iid] = each.name
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                self.parents[track.uuid] = track.parent_uuid
                if track.HasField("process"):
                    self.processes[track.uuid] = track.process.process_name
                else:
                    self.tracks[track.uuid] = track.name
            if packet.HasField("track_event"):
                event, at = packet.track_event, packet.timestamp + clocks[sequence]
                stack = stacks.setdefault(event.track_uuid, [])
                if event.type == event.TYPE_SLICE_END:
                    track, name, began = stack.pop()
                    self.slices.append((track, name, began, at))
                else:
                    name = names[sequence, event.name_iid]
                    self.flows.update(event.flow_ids)
                    if event.type == event.TYPE_SLICE_BEGIN:
                        stack.append((event.track_uuid, name, at))
        assert not any(stacks.values()), "every slice has an end"

    def on_devices(self, process=""):
        """Slices below a device: name, device and duration; of processes whose name begins like this."""
        found = []
        for track, name, began, end in self.slices:
            device = self.parents[track]
            of_device = self.tracks.get(device, "").startswith("device")
            if of_device and self.processes[self.parents[device]].startswith(process):
                found.append((name, self.tracks[device], end - began))
        return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("index", [0, 1])
def test_our_reader_reads_what_jax_reads(version, index):
    raw = path(version, index).read_bytes()
    ours, theirs = Trace(raw), jax.profiler.ProfileData.from_serialized_xspace(raw)
    assert [each.name for each in ours.planes] == [each.name for each in theirs.planes]
    for our_plane, their_plane in zip(ours.planes, theirs.planes, strict=True):
        assert [each.name for each in our_plane.lines] == [each.name for each in their_plane.lines]
        for our_line, their_line in zip(our_plane.lines, their_plane.lines, strict=True):
            for our, their in zip(our_line.events, their_line.events, strict=True):
                assert (our.name, our.start_ns, our.duration_ns) == (
                    their.name, their.start_ns, their.duration_ns
                )  # fmt: skip
                assert dict(our.stats) == dict(their.stats)


def test_bytes_that_are_no_trace_are_refused_and_never_hang():
    raw = path("0.10.2", 0).read_bytes()
    with pytest.raises(Malformed):
        Trace(raw[:-20])
    for at in range(0, len(raw), 61):
        for harmed in (raw[:at], raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]):
            with suppress(Malformed):
                traces.read("cpu", Trace(harmed), traces.WantedCollectives(), {})


@pytest.mark.parametrize("version", VERSIONS)
class TestTheMergedTrace:
    def test_it_has_a_process_per_host_and_a_track_per_device(self, version):
        _, read = merged(*(traced(i, path(version, i)) for i in (0, 1)))
        assert [*read.processes.values()] == ["process 0", "process 1"]
        devices = Counter(
            (read.processes[read.parents[track]], name)
            for track, name in read.tracks.items()
            if name.startswith("device")
        )
        ids = (0, 1, 2048, 2049)
        assert devices == Counter((f"process {i // 2}", f"device {each}") for i, each in enumerate(ids))

    def test_operations_last_as_long_as_the_profiler_says(self, version):
        _, read = merged(*(traced(i, path(version, i)) for i in (0, 1)))
        ours = Counter(read.on_devices())
        theirs = Counter()
        for index in (0, 1):
            for its in jax.profiler.ProfileData.from_file(str(path(version, index))).planes:
                for line in its.lines:
                    for event in line.events:
                        said = dict(event.stats)
                        if "hlo_op" in said:
                            theirs[event.name, f"device {said['device_ordinal']}"] += 1
        assert Counter((name, device) for name, device, _ in ours.elements()) == theirs
        took = sorted(took for name, _, took in ours.elements() if name == "psum.15")
        with_their = []
        for index in (0, 1):
            profile = jax.profiler.ProfileData.from_file(str(path(version, index)))
            events = [e for p in profile.planes for line in p.lines for e in line.events]
            with_their += [event.duration_ns for event in events if event.name == "psum.15"]
        assert took == pytest.approx(sorted(with_their), abs=1.0)

    def test_members_of_a_collective_are_joined_by_arrows(self, version):
        _, read = merged(*(traced(i, path(version, i)) for i in (0, 1)))
        # Three launches, in each psum.15 and ppermute.3 once and psum.13 three times, in two groups of two.
        assert Counter(read.flows.values()) == Counter({2: 3 * 5 * 2})
        _, unknown = merged(*(traced(i, path(version, i)) for i in (0, 1)), groups=lambda *_: None)
        assert not unknown.flows, "where groups are unknown nothing is joined"

    @pytest.mark.parametrize("ahead", [0, 250_000_000, -3_000_000_000])
    def test_clocks_that_differ_are_aligned_by_shared_collectives(self, version, ahead, tmp_path):
        other = tmp_path / "other.pb"
        other.write_bytes(late(path(version, 1).read_bytes(), ahead))
        result, read = merged(traced(0, path(version, 0), "a"), traced(1, other, "b"))
        first, second = result.clocks
        assert first == AlignedMachine(0) and second.shared == 6
        # Both ran on one machine: what is left is how far apart members leave a collective.
        assert abs(second.shift_ns + ahead) < 1_000_000 and second.apart_ns < 1_000_000
        ends = {}
        for track, name, _, end in read.slices:
            if name == "psum.15":
                ends.setdefault(read.tracks[read.parents[track]], []).append(end)
        for one, another in (("device 0", "device 2048"), ("device 1", "device 2049")):
            for a, b in zip(sorted(ends[one]), sorted(ends[another]), strict=True):
                assert abs(a - b) < 5_000_000

    def test_hosts_of_one_machine_keep_its_clock(self, version):
        result, _ = merged(*(traced(i, path(version, i)) for i in (0, 1)))
        assert result.clocks == [AlignedMachine(0), AlignedMachine(0)]


class TestClocks:
    def instance(self, number):
        return "jit_step", number, "psum", 0, 0

    def test_a_machine_that_shares_nothing_with_the_first_follows_another(self):
        one = {self.instance(i): 1000 * i for i in range(5)}
        two = {self.instance(i): 1000 * i + 70 for i in range(3, 9)}
        three = {self.instance(i): 1000 * i - 400 for i in range(6, 9)}
        alone = {self.instance(99): 5}
        found = aligned([Machine(one), Machine(alone, 33), Machine(three), Machine(two)])
        assert [each.shift_ns for each in found] == [0, 33, 400, -70]
        assert [each.shared for each in found] == [0, 0, 3, 2]

    def test_without_collectives_machines_are_placed_by_their_distance_from_the_first(self):
        """Both are 5 s behind process 0, which is not captured: they agree with each other."""
        found = aligned([Machine({}, 5_000), Machine({}, 5_000), Machine({}, 2_000)])
        assert [each.shift_ns for each in found] == [0, 0, -3_000]

    def test_one_odd_collective_does_not_shift_a_machine(self):
        one = {self.instance(i): 1000 * i for i in range(9)}
        two = {key: end + 50 for key, end in one.items()} | {self.instance(4): 999_999}
        assert aligned([Machine(one), Machine(two)])[1] == AlignedMachine(-50, 9, 0)


@pytest.mark.parametrize("is_numbered", [True, False])
def test_traces_of_gpus_and_tpus_have_their_devices_lines_and_arrows(tmp_path, is_numbered):
    """Arrows between hosts only where the host notes the number of the launch, as JAX 0.10 does."""
    said = {"run_id": 7, "_ct": 5, "_c": 9}
    noted = {"_pt": 5, "_p": 9} | ({"run_id": -3} if is_numbered else {})
    host = {"python": [Event("CommonPjRtLoadedExecutable::Execute (jit_step)", 1, 8, noted)]}
    for index in (0, 1):
        lines = {
            "XLA Modules": [Event("jit_step(123)", 10, 50, said)],
            "XLA Ops": [
                Event("%fusion.1 = f32[8] fusion()", 11, 20, {}),
                Event("%all-reduce.1 = f32[8]", 35, 20, {}),
            ],
        }
        raw = space(plane("/device:TPU:0", lines), plane("/host:CPU", host))
        (tmp_path / f"{index}.pb").write_bytes(raw)
    hosts = [
        traced(
            i,
            tmp_path / f"{i}.pb",
            platform="tpu",
            ordinals={0: 4 * i},
            names={4 * i: f"device {4 * i} · v5e"},
        )
        for i in (0, 1)
    ]
    result, read = merged(*hosts, groups=lambda *_: ((0, 4),))
    assert sorted(name for name in read.tracks.values() if "device" in name) == [
        "device 0 · v5e",
        "device 4 · v5e",
    ]
    assert Counter(read.flows.values()) == Counter({2: 1} if is_numbered else {1: 2})
    once_or_twice = [20_000] * (1 if is_numbered else 2)
    assert result.durations.collectives == {("jit_step", "all-reduce.1"): once_or_twice}
    assert result.durations.launches == {"jit_step": [50_000, 50_000]}


def test_a_trace_with_too_many_events_is_left_out_and_named(monkeypatch):
    monkeypatch.setattr("jaxtop.features.captures.merged_trace.MAX_EVENTS", 50)
    result, read = merged(*(traced(i, path("0.10.2", i)) for i in (0, 1)))
    assert result.too_large == ["process 0", "process 1"] and not read.slices


class TestLanes:
    def test_slices_that_overlap_are_on_tracks_of_their_own(self):
        inside, overlapping, after = Slice(2, 5, "in"), Slice(8, 12, "over"), Slice(10, 11, "after")
        outer, instant = Slice(0, 10, "out"), Slice(12, None, "now")
        found = [[outer, inside, after, instant], [overlapping]]
        assert lanes([overlapping, instant, inside, after, outer]) == (found, 0)

    def test_events_that_cross_too_many_others_are_left_out_and_counted(self):
        found, crossing = lanes(Slice(start, start + 1000, "x") for start in range(200))
        assert len(found) == MAX_LANES and crossing == 200 - MAX_LANES

    def test_what_begins_when_another_ends_is_after_it(self):
        file = io.BytesIO()
        sequence = perfetto.Sequence(file, 1)
        file.write(perfetto.header(1, 0))
        slices = [Slice(0, 5, "a"), Slice(5, 5, "b"), Slice(5, 9, "c")]
        ((lane,), _) = lanes(slices)
        sequence.slices(sequence.track(0, "x"), lane)
        trace = perfetto_trace_pb2.Trace()
        trace.ParseFromString(file.getvalue())
        assert [(name, a, b) for _, name, a, b in Read(trace).slices] == [
            ("a", 0, 5),
            ("b", 5, 5),
            ("c", 5, 9),
        ]


class TestTheClocksInWords:
    def words(self, *placed):
        hosts = [traced(i, path("0.10.2", 0), machine=str(i)) for i in range(len(placed))]
        return clocks(hosts, MergedTrace([*placed], Durations({}, {}), []))

    def test_the_distance_is_called_a_median_and_a_clock_alone_is_named(self):
        assert self.words(AlignedMachine(0), AlignedMachine(-50, 9, 41_000)) == (
            "aligned by 9 shared collectives: their ends are a median of 41 µs apart"
        )
        assert self.words(AlignedMachine(0), AlignedMachine(5)) == (
            "no shared collective for 1 of 2 machines: placed by clock alone"
        )
        several = self.words(AlignedMachine(0), AlignedMachine(1, 2, 3000), AlignedMachine(1, 2, 41_000))
        assert "a median of up to 41 µs" in several


class TestTheComparison:
    WINDOW = wire.Window(
        1, 1, 0, (("jit_step", "f"),), ("psum.1",),
        (wire.Launch(0, 1, 0, 4000), wire.Launch(0, 2, 0, 6000)), (wire.Round(0, 0, 0, 0, (90, 110)),),
    )  # fmt: skip

    def test_medians_are_compared_with_short_windows(self):
        durations = Durations(
            {"jit_step": [7_500_000], "jit_other": [1]}, {("jit_step", "psum.1"): [150_000]}
        )
        step, other, psum = compared(durations, [self.WINDOW])
        assert (step.capture_us, step.window_us, step.factor, step.samples, step.window_samples) == (
            7500, 5000, 1.5, 1, 2
        )  # fmt: skip
        assert (psum.op, psum.window_us, psum.window_samples) == ("psum.1", 90, 1)
        assert (other.window_us, other.factor) == (None, None), "unknown is not 1"

    def test_a_collective_takes_as_long_as_on_the_last_to_arrive_of_all_processes(self):
        """The others waited: 90 and 110 µs in one process, 300 in another, whose launch is the same."""
        other = structs.replace(self.WINDOW, rounds=(wire.Round(0, 0, 0, 0, (300, None)),))
        alone = structs.replace(other, launches=(wire.Launch(0, None, 0, 4000),))
        captured = Durations({}, {("jit_step", "psum.1"): [150_000]})
        (psum,) = compared(captured, [self.WINDOW, other])
        assert (psum.window_us, psum.window_samples) == (90, 1)
        (psum,) = compared(captured, [self.WINDOW, alone])
        assert (psum.window_us, psum.window_samples) == (195, 2)

    def test_of_a_late_device_and_those_that_wait_the_late_one_counts(self, tmp_path):
        made = Made(launches(4, 6, late=2))
        (tmp_path / "0.pb").write_bytes(PLATFORMS["rocm"][1](made))
        result, _ = merged(traced(0, tmp_path / "0.pb", platform="rocm"))
        assert result.durations.collectives == {(PROGRAM, REDUCE): [1_500_000] * 6}


def kept(folder):
    """The traces of a folder."""
    return [*folder.run.glob("*.xplane.pb")]


def run(processes):
    """The agents of a run, and what is known of them."""
    cluster = builders.folded(builders.well(processes=processes))
    agents = [builders.agent_id(index) for index in range(processes)]
    return agents, known(cluster, agents)


def test_groups_of_collectives_come_from_the_programs_of_the_run():
    cluster = made_runs.run_of(made_windows.Made(2, 2), 1)
    about = known(cluster, [*cluster.hosts])
    program = made_windows.PROGRAM
    assert about.groups[program, "all-reduce.3"] == ((0, 2), (1, 3))
    assert about.groups[program, "all-gather.1"] == ((0, 1), (2, 3))
    assert about.windows


class TestTheFolder:
    def test_it_has_the_layout_of_xprof_and_is_the_user_s_alone(self, tmp_path):
        folders = [CaptureFolder(tmp_path / "captures") for _ in range(2)]
        assert folders[0].run.parent == tmp_path / "captures" / "plugins" / "profile"
        assert folders[0].name != folders[1].name, "two in one second"
        with folders[0].draft("a_0.xplane.pb") as file:
            file.write(b"x")
        assert not [*folders[0].run.glob("*.xplane.pb")], "a draft is no trace yet"
        kept = folders[0].keep("a_0.xplane.pb")
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
        folders[1].draft("a_0.xplane.pb").close()
        folders[1].drop_drafts()
        assert not folders[1].run.exists() and kept.exists()
        kept.unlink()
        folders[0].drop_drafts()
        assert not (tmp_path / "captures").exists(), "nothing is left of a capture without traces"

    def test_the_summary_has_each_process_and_what_is_not_known_is_null(self, tmp_path):
        agents, about = run(2)
        folder = CaptureFolder(tmp_path / "captures")
        with folder.draft(about.file_name(agents[0])) as file:
            file.write(path("0.10.2", 0).read_bytes())
        folder.draft(about.file_name(agents[1])).close()
        taken = [
            TakenTrace(agents[0], True, "", 15_000, 1_000_000),
            TakenTrace(agents[1], False, "did not answer"),
        ]
        result = finish(folder, about, taken, began_ms=5, progress=lambda _: None)
        document = json.loads(folder.summary.read_text())
        first, second = document["hosts"]
        assert first["file"] == about.file_name(agents[0]) and first["lasted_us"] == 1_000_000
        assert (second["file"], second["bytes"], second["note"]) == (None, None, "did not answer")
        assert document["options"] == {"python_tracer": False, "host_tracer_level": 2, "programs": True}
        rows = {(each["program"], each["op"]): each for each in document["durations"]}
        assert rows["jit_on_each_device", None]["window_us"] is None
        assert [each.name for each in kept(folder)] == [first["file"]] and folder.perfetto.stat().st_size
        assert result.clocks == "one machine, one clock" and not result.why_not_merged

    def test_a_disk_without_room_for_the_merged_trace_keeps_the_others(self, tmp_path):
        (agent,), about = run(1)
        folder = CaptureFolder(tmp_path / "captures")
        with folder.draft(about.file_name(agent)) as file:
            file.write(path("0.10.2", 0).read_bytes())
        with disk_with_room_for(4096):
            result = finish(folder, about, [TakenTrace(agent, True)], began_ms=5, progress=lambda _: None)
        assert result.why_not_merged == "it cannot be written: file too large"
        assert kept(folder) and folder.summary.exists() and not folder.perfetto.exists()

    def test_a_trace_that_cannot_be_read_is_kept_and_said(self, tmp_path):
        (agent,), about = run(1)
        folder = CaptureFolder(tmp_path / "captures")
        with folder.draft(about.file_name(agent)) as file:
            file.write(b"\x0a\xff")
        result = finish(folder, about, [TakenTrace(agent, True)], began_ms=5, progress=lambda _: None)
        assert result.why_not_merged.startswith("a trace cannot be read") and not folder.perfetto.exists()
        assert kept(folder)

    @pytest.mark.parametrize(
        "raw",
        [
            # A double of two bytes, which are the last of the trace.
            bytes_field(1, text_field(2, "Task Environment") + bytes_field(6, b"\x11ab")),
            space(plane("/device:GPU:" + "1" * 5000, {"Stream #1": [Event("x", 1, 2, {})]})),
            space(
                plane("/device:TPU:0", {"XLA Modules": [Event("jit_f(1)", 1, 2, {"_ct": 12, "_c": "many"})]})
            ),
        ],
        ids=["double", "number", "context"],
    )
    def test_a_trace_with_odd_values_is_kept_and_said_in_one_line(self, tmp_path, raw):
        (agent,), about = run(1)
        host = about.hosts[agent]
        hello = msgspec.structs.replace(host.hello, platform="tpu")
        about = ProcessesAtStart({agent: replace(host, hello=hello)})
        folder = CaptureFolder(tmp_path / "captures")
        with folder.draft(about.file_name(agent)) as file:
            file.write(raw)
        result = finish(folder, about, [TakenTrace(agent, True)], began_ms=5, progress=lambda _: None)
        assert result.why_not_merged.startswith("a trace cannot be read: ")
        assert "\n" not in result.why_not_merged and len(result.why_not_merged) < 200
        assert json.loads(folder.summary.read_text())["not_merged"] == [result.why_not_merged]

    def test_a_host_that_the_merged_trace_lacks_is_a_note(self, tmp_path, monkeypatch):
        agents, about = run(2)
        folder = CaptureFolder(tmp_path / "captures")
        for agent, raw in zip(agents, (path("0.10.2", 0).read_bytes(), space()), strict=True):
            with folder.draft(about.file_name(agent)) as file:
                file.write(raw)
        monkeypatch.setattr("jaxtop.features.captures.merged_trace.MAX_EVENTS", 50)
        taken = [TakenTrace(agent, True) for agent in agents]
        result = finish(folder, about, taken, began_ms=5, progress=lambda _: None)
        label = about.hosts[agents[0]].label
        assert result.notes == [f"not in the merged trace, because of too many events: {label}"]

    def test_processes_of_one_name_and_index_have_files_of_their_own(self):
        host = run(1)[1].hosts[builders.agent_id(0)]
        names = file_names({"a": host, "b": host, "c": host})
        assert len({*names.values()}) == 3 and names["a"] == file_name(host)
        assert all(each.endswith(".xplane.pb") for each in names.values())
