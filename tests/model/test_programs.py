"""The programs of a cluster: each once, with who has it, and who has another one under its name."""

from __future__ import annotations

from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from jaxtop import wire
from jaxtop.base.names import function_of, program_of
from jaxtop.export.json import to_document
from jaxtop.export.openmetrics import to_openmetrics
from jaxtop.model import program_views
from jaxtop.model.programs.loaded_programs import differing
from jaxtop_agent.programs.compiles.compilations import FunctionCompilations
from tests.stories import cluster_of, hello, pulse, running, tell

STEP = wire.Program(
    "jit_step", "f1", devices=8, local_devices=4, flops=1000, argument_bytes=100, output_bytes=60,
    alias_bytes=50, temp_bytes=30, created="train.py:57 <module>",
)  # fmt: skip
LOCAL = wire.Program(
    "jit_init", "f9", devices=1, local_devices=1, argument_bytes=8, output_bytes=8, temp_bytes=0
)


def programs_message(*listed: wire.Program, at_ms: int = 1000, seen_ms: int = 1000, **more) -> wire.Programs:
    columns = {"seen_ms": (seen_ms,) * len(listed), "compile_ms": (250,) * len(listed)}
    return wire.Programs(at_ms, listed, **{**columns, **more})


def pair(first: wire.Programs, second: wire.Programs, at_ms: int = 60_000, **more):
    """Two processes that told of their programs, and were last heard at this time of their clocks."""
    return cluster_of(
        *running(0, 1),
        (11, "r1-0", first),
        (11, "r1-1", second),
        (12, "r1-0", pulse(at_ms=at_ms)),
        (12, "r1-1", pulse(at_ms=at_ms, **more)),
    )


def only(cluster):
    (view,) = program_views(cluster, 0)
    return view


def test_a_program_of_several_processes_appears_once():
    cluster = pair(programs_message(STEP, compile_ms=(250,)), programs_message(STEP, compile_ms=(400,)))
    view = only(cluster)
    assert view.agents == ("r1-0", "r1-1") and view.function == "step"
    assert (view.compile_ms, view.differs, view.variants) == (400, (), 1)


def test_programs_of_two_runs_are_not_one():
    cluster = cluster_of(
        *running(0),
        *running(0, run="r2"),
        (11, "r1-0", programs_message(LOCAL)),
        (11, "r2-0", programs_message(LOCAL)),
    )
    assert [view.run for view in program_views(cluster, 0)] == ["r1", "r2"]


def test_variants_of_one_name_are_counted():
    cluster = pair(
        programs_message(STEP, replace(STEP, fingerprint="f2")),
        programs_message(STEP, replace(STEP, fingerprint="f2")),
    )
    assert [view.variants for view in program_views(cluster, 0)] == [2, 2]


def test_a_program_that_vanished_is_not_shown():
    cluster = pair(programs_message(STEP), programs_message(STEP))
    tell(cluster, (13, "r1-0", programs_message()), (13, "r1-1", programs_message()))
    assert program_views(cluster, 0) == []


def test_views_are_merged_again_only_after_a_new_message():
    cluster = pair(programs_message(STEP), programs_message(STEP))
    program_views(cluster, 0)
    merged = cluster.derived.last("programs")
    tell(cluster, (13, "r1-0", pulse(at_ms=61_000)))
    program_views(cluster, 0)
    assert merged is not None and cluster.derived.last("programs") is merged
    tell(cluster, (13, "r1-0", programs_message(STEP, LOCAL)))
    assert [view.agents for view in program_views(cluster, 0)] == [("r1-0", "r1-1"), ("r1-0",)]


class TestLaunches:
    def test_they_are_those_of_the_function_on_the_process_that_is_ahead(self):
        cluster = pair(programs_message(STEP, compiles={"jit_step": 2}), programs_message(STEP))
        tell(cluster, (13, "r1-0", pulse(at_ms=61_000, launches={"step": 7})))
        tell(cluster, (13, "r1-1", pulse(at_ms=61_000, launches={"step": 9, "other": 3})))
        assert (only(cluster).launches, only(cluster).compiles) == (9, 2)

    def test_programs_that_share_a_name_in_a_process_do_not_each_have_all_launches_of_the_function(self):
        other = replace(STEP, fingerprint="f2")
        for first, second, launches in (
            (programs_message(STEP, other), programs_message(STEP, other), [None, None]),
            (
                programs_message(STEP),
                programs_message(other),
                [7, 9],
            ),  # each process has one: its launches are that program's
            (
                programs_message(STEP, STEP),
                programs_message(STEP, STEP),
                [9],
            ),  # loaded twice, it is still one program
        ):
            cluster = pair(first, second)
            tell(cluster, (13, "r1-0", pulse(at_ms=61_000, launches={"step": 7})))
            tell(cluster, (13, "r1-1", pulse(at_ms=61_000, launches={"step": 9})))
            views = sorted(program_views(cluster, 0), key=lambda view: view.program.fingerprint)
            assert [view.launches for view in views] == launches
            assert {view.function_launches for view in views} == ({9} if len(first.programs) > 1 else {7, 9})
            shown = [each["launches"] for each in to_document(cluster, 0)["programs"]]
            assert sorted(map(str, shown)) == sorted(map(str, launches))

    def test_names_that_are_no_module_names_are_matched_as_jax_writes_them(self):
        assert program_of("<lambda>") == "jit__lambda"
        assert program_of("<unnamed function>") == "jit__unnamed_function"
        assert function_of(program_of("step")) == "step"

    def test_per_second_is_taken_over_ten_seconds_and_more(self):
        cluster = cluster_of(*running(0), (11, "r1-0", programs_message(STEP)))
        for second in range(1, 31):
            tell(cluster, (second, "r1-0", pulse(at_ms=second * 1000, launches={"step": second * 4})))
        assert only(cluster).launches_per_second == 4.0

    def test_a_function_that_stopped_has_no_launches_per_second(self):
        cluster = cluster_of(*running(0), (11, "r1-0", programs_message(STEP)))
        for second in range(1, 41):
            tell(cluster, (second, "r1-0", pulse(at_ms=second * 1000, launches={"step": min(5, second)})))
        assert only(cluster).launches_per_second == 0.0

    def test_unknown_where_nobody_counted(self):
        view = only(pair(programs_message(STEP), programs_message(STEP)))
        assert (view.launches, view.launches_per_second, view.compiles) == (None, None, None)


class TestMemory:
    def test_what_it_needs_and_what_a_launch_adds(self):
        view = only(pair(programs_message(STEP), programs_message(STEP)))
        assert view.adds_bytes == 60 + 30 - 50
        assert view.needs_bytes == 100 + 60 + 30 - 50
        assert view.headroom_bytes is None

    def test_headroom_is_that_of_the_fullest_device(self):
        cluster = pair(programs_message(STEP), programs_message(STEP))
        sample = wire.DeviceSample(used_bytes=(100, 900), limit_bytes=(1000, 1000))
        tell(cluster, (13, "r1-1", pulse(at_ms=61_000, devices=sample, memory_source="allocator")))
        assert (only(cluster).free_bytes, only(cluster).headroom_bytes) == (100, 60)

    def test_unknown_figures_make_unknown_sums(self):
        view = only(pair(programs_message(replace(STEP, temp_bytes=None)), programs_message()))
        assert (view.needs_bytes, view.adds_bytes) == (None, None)


class TestDifferences:
    other = replace(STEP, fingerprint="f2")

    def named(self, cluster):
        return [(each[0].program.name, tuple(one.agents for one in each)) for each in differing(cluster)]

    def test_two_programs_of_one_name_that_each_lack_a_process_are_reported(self):
        cluster = pair(programs_message(STEP), programs_message(self.other))
        assert self.named(cluster) == [("jit_step", (("r1-0",), ("r1-1",)))]
        assert {view.program.fingerprint: view.differs for view in program_views(cluster, 0)} == {
            "f1": ("r1-1",),
            "f2": ("r1-0",),
        }

    def test_not_before_it_lasts(self):
        assert self.named(pair(programs_message(STEP), programs_message(self.other, seen_ms=55_000))) == []

    def test_not_while_one_of_them_compiles_that_function(self):
        compiling = (wire.Compiling("step", 59_000),)
        assert (
            self.named(pair(programs_message(STEP), programs_message(self.other), compiling=compiling)) == []
        )

    def test_variants_that_all_processes_have_are_ordinary(self):
        assert self.named(pair(programs_message(STEP, self.other), programs_message(self.other, STEP))) == []

    def test_what_each_process_does_by_itself_may_differ(self):
        alone = replace(STEP, devices=4)
        assert (
            self.named(pair(programs_message(alone), programs_message(replace(alone, fingerprint="f2"))))
            == []
        )

    def test_a_process_that_has_not_sent_its_programs_yet_is_no_difference(self):
        assert self.named(pair(programs_message(STEP), programs_message())) == []

    def test_stages_of_a_pipeline_differ_and_are_whole(self):
        cluster = cluster_of(
            *((10, f"r1-{i}", hello(i, process_count=4)) for i in range(4)),
            *((11, f"r1-{i}", programs_message(STEP if i < 2 else self.other)) for i in range(4)),
            *((12, f"r1-{i}", pulse(at_ms=60_000)) for i in range(4)),
        )
        assert self.named(cluster) == []

    def test_nothing_is_said_while_a_process_that_might_have_it_is_silent(self):
        cluster = cluster_of(
            *((10, f"r1-{i}", hello(i, process_count=4)) for i in range(2)),
            (11, "r1-0", programs_message(STEP)),
            (11, "r1-1", programs_message(self.other)),
            *((12, f"r1-{i}", pulse(at_ms=60_000)) for i in range(2)),
        )
        assert self.named(cluster) == []

    def test_unknown_fingerprints_and_sizes_are_no_difference(self):
        nameless = replace(STEP, fingerprint=None)
        assert self.named(pair(programs_message(nameless), programs_message(self.other))) == []
        unsized = replace(STEP, devices=None)
        assert (
            self.named(pair(programs_message(unsized), programs_message(replace(unsized, fingerprint="f2"))))
            == []
        )


class TestStorms:
    def compiled(self, *seconds: float, **more) -> FunctionCompilations:
        found = FunctionCompilations("step")
        for second in seconds:
            found = found.again(int(second * 1000), 100, **more)
        return found

    def test_five_compilations_within_a_minute_are_one(self):
        storm = self.compiled(0, 10, 20, 30, 40)
        assert storm.is_storm(40_000) and not self.compiled(0, 10, 20, 30).is_storm(30_000)
        assert storm.storm_text(40_000).startswith("step was compiled 5 times in 40 s: ")

    def test_a_storm_that_goes_on_is_reported_soon(self):
        often = [second / 4 for second in range(40)]
        assert self.compiled(*often).is_storm(10_000)

    def test_what_is_compiled_for_each_layer_at_the_start_is_none(self):
        assert not self.compiled(0, 1, 2, 3, 4, 5, 6).is_storm(6000)
        layers = range(0, 40, 2)
        assert not self.compiled(*layers, initializes=True).is_storm(38_000)
        assert self.compiled(*layers, 40, 42, initializes=True).is_storm(42_000)

    def test_of_functions_of_jax_none_is_counted(self):
        assert not self.compiled(0, 10, 20, 30, 40, of_jax=True).is_storm(40_000)
        assert self.compiled(0, 10, 20, 30, 40, of_jax=None).is_storm(40_000)

    def test_a_line_that_calls_one_of_jax_with_a_new_shape_in_each_step_is_one(self):
        """Not while the script warms up, and not if each line has a few shapes."""
        seconds = range(0, 50, 2)
        one = self.compiled(*seconds, of_jax=True, place="train.py:7")
        assert one.is_eager_storm(48_000, 0) and not one.is_eager_storm(48_000, 20_000)
        assert not self.compiled(*seconds[:20], of_jax=True, place="train.py:7").is_eager_storm(38_000, 0)
        assert one.storm_text(48_000).startswith("step was compiled 25 times in 48 s: ")
        fast = [second / 10 for second in range(450)]
        storm = self.compiled(*fast, of_jax=True, place="train.py:7")
        assert storm.is_eager_storm(45_000, 0) and storm.count == 450
        assert storm.storm_text(45_000).startswith("step was compiled 450 times in 44 s: ")
        many = FunctionCompilations("add")
        for second in seconds:
            many = many.again(second * 1000, 100, of_jax=True, place=f"train.py:{second % 18}")
        assert not many.is_eager_storm(48_000, 0)

    def test_it_is_over_when_they_become_rare(self):
        assert not self.compiled(0, 10, 20, 30, 40).is_storm(60_000)
        assert not self.compiled(0, 20, 40, 60, 80).is_storm(80_000)

    def test_it_is_over_when_they_end(self):
        often = [second / 4 for second in range(40)]
        assert not self.compiled(*often).is_storm(40_000)

    def test_functions_without_a_name_are_many(self):
        """Those of one line are one function, which a loop makes anew; the others are different ones."""
        nameless, unknown, one = (
            FunctionCompilations("<lambda>"),
            FunctionCompilations("<lambda>"),
            FunctionCompilations("<lambda>"),
        )
        for second in range(9):
            nameless = nameless.again(second * 1000, 100, place=f"<lambda> at train.py:{second}")
            unknown = unknown.again(second * 1000, 100)
            one = one.again(second * 1000, 100, place="<lambda> at train.py:7")
        assert not nameless.is_storm(9000) and not unknown.is_storm(9000)
        assert one.is_storm(9000) and one.storm_text(9000).startswith("<lambda> was compiled 9 times in 8 s")

    def test_the_program_says_so(self):
        cluster = pair(programs_message(STEP, recompiling=("jit_step",)), programs_message(STEP))
        assert only(cluster).is_recompiling


def test_the_document_has_the_program_with_the_processes_that_loaded_it():
    cluster = pair(programs_message(STEP), programs_message(TestDifferences.other))
    first, _ = to_document(cluster, 13)["programs"]
    assert first["name"] == "jit_step" and first["function"] == "step" and first["fingerprint"] == "f1"
    assert (first["flops"], first["argument_bytes"], first["output_bytes"], first["temp_bytes"]) == (
        1000,
        100,
        60,
        30,
    )
    assert (first["launches"], first["collectives"]) == (None, None)
    assert (first["hosts"], first["differs"], first["created"]) == ([0], [1], "train.py:57 <module>")


def test_openmetrics_has_the_programs_as_prometheus_reads_them():
    cluster = pair(
        programs_message(STEP, LOCAL, compiles={"jit_step": 2}), programs_message(TestDifferences.other)
    )
    families = {each.name: each for each in text_string_to_metric_families(to_openmetrics(cluster, 13))}
    (compiles,) = families["jaxtop_compiles"].samples
    assert (compiles.labels["program"], compiles.value) == ("jit_step", 2)
    flops = {each.labels["fingerprint"]: each.value for each in families["jaxtop_program_flops"].samples}
    assert flops == {"f1": 1000, "f2": 1000}
    differs = {each.labels["fingerprint"]: each.value for each in families["jaxtop_program_differs"].samples}
    assert differs == {"f1": 1, "f2": 1, "f9": 0}
