"""Findings about memory: for each rule a real case that raises it, and near misses that do not."""

from __future__ import annotations

import pytest

from jaxtop import wire
from jaxtop.base.units import in_bytes, in_minutes
from jaxtop.model import RULES_BY_NAME, Severity, array_views, reported_findings
from jaxtop.model.findings.trends import trend
from jaxtop.tui.filters.arrays import understand
from tests.builders import NOW
from tests.staged.memory import (
    ALONE,
    DATA,
    GIB,
    LIMIT,
    MESH,
    MIB,
    MODEL,
    PINNED,
    RHYTHM,
    SHARDINGS,
    SPLIT,
    WHOLE,
    Run,
    array,
    census,
)

STATE = (
    array("state.params['w']", (4096, 4096), SPLIT, "parameters", "t.py:9 main"),
    array("state.opt_state[0].mu['w']", (4096, 4096), SPLIT, "optimizer", "t.py:9 main"),
    array("state.opt_state[0].nu['w']", (4096, 4096), SPLIT, "optimizer", "t.py:9 main"),
    array("batch['x']", (512, 1024), DATA, "batch", "t.py:7 main"),
)


def proves(run: Run, filter_text: str, name: str) -> bool:
    """Return whether the filter is valid on the screen of arrays, and shows this array."""
    test = understand(filter_text)
    return any(test(view) and view.name == name for view in array_views(run.cluster))


def test_a_healthy_run_has_no_findings_about_memory():
    def used(second: int, device: int) -> int:
        return 40 * GIB + (6 * GIB if (second + device) % 3 else 0)  # temporaries come and go

    run = Run(*STATE).live(150, used, lambda second, _: 4 * GIB + (second % 7) * 50 * MIB)
    assert reported_findings(run.cluster) == []
    whys = run.cluster.findings.unchecked
    assert {name for _, name in whys} & {"memory_full_soon", "array_growth", "uneven_memory"} == {
        "array_growth"
    }


class TestFullSoon:
    def test_steady_growth_to_the_limit_is_critical_shortly_before(self):
        run = Run().live(90, lambda second, _: 40 * GIB + second * 80 * MIB + (2 * GIB if second % 2 else 0))
        found = run.found("memory_full_soon")
        assert found is not None and found.severity is Severity.CRITICAL
        left = (LIMIT - (42 * GIB + 90 * 80 * MIB)) / (60 * 80 * MIB)
        assert found.cost.minutes_until_full == pytest.approx(left, rel=0.1)
        assert found.text == "device 0 (and 7 more) is full in 7 min: +4.7 GiB a minute"
        assert found.proof.screen == "memory" and found.proof.filter == "id=0"

    def test_the_first_pulses_of_a_process_have_no_figures_yet(self):
        run = Run()
        run.tell_all(wire.Pulse(at_ms=int(NOW * 1000)))
        run.live(60, lambda second, _: 40 * GIB + second * 80 * MIB)
        assert run.found("memory_full_soon") is not None

    def test_it_names_the_device_that_grows_and_the_arrays_that_do_it(self):
        log = array("losses[0]", (1024, 1024), ALONE, created="t.py:88 log")
        run = Run(*STATE, log)

        def grow(second: int) -> None:
            change = wire.ArraysChange(int(run.now * 1000), 1, 1 + second, ((4, 1 + 10 * second),))
            run.tell_all(change)

        run.live(
            60, lambda second, device: (40 * GIB + second * 40 * MIB) if device == 1 else 40 * GIB, then=grow
        )
        found = run.found("memory_full_soon")
        assert found is not None and found.severity is Severity.WARNING
        assert (found.subject.device_id, found.subject.process_index) == (1, 0)
        assert (found.subject.array, found.subject.source) == ("losses[*]", "t.py:88")
        assert found.text.endswith("a minute, by losses[*], t.py:88")
        assert run.found("array_growth") is not None
        (shown,) = [
            each
            for each in reported_findings(run.cluster)
            if each.rule in ("memory_full_soon", "array_growth")
        ]
        assert shown.rule == "memory_full_soon" and "Arrays grow" in shown.consequences

    @pytest.mark.parametrize(
        "used",
        [
            lambda second, _: 40 * GIB + min(second, 40) * 500 * MIB,  # a cache that is full after 40 s
            lambda second, _: 40 * GIB + (30 * GIB if second % 2 else 0),  # temporaries
            lambda second, _: 40 * GIB + (second % 30) * GIB,  # released from time to time
            lambda second, _: 40 * GIB + second * MIB,  # full in ten hours
        ],
    )
    def test_growth_that_ends_or_comes_back_or_is_slow_is_none(self, used):
        assert Run().live(100, used).found("memory_full_soon") is None

    def test_a_run_that_loads_its_weights_gets_a_note_only(self):
        found = Run(rhythm=None).live(70, lambda second, _: second * GIB // 2).found("memory_full_soon")
        assert found is not None and found.severity is Severity.INFO

    def test_without_limits_it_is_not_checked(self):
        run = Run(limit=None).live(60)
        assert run.why_not("memory_full_soon") == "no device reports a limit of its memory"
        assert run.why_not("will_not_fit") and run.why_not("fragmentation")


class TestArrayGrowth:
    LOG = array("history[0]", (1024, 1024), WHOLE, created="t.py:88 log")

    def grown(self, seconds: int, count, limit: int | None = None, rhythm=RHYTHM, array=LOG):
        run = Run(*STATE, array, limit=limit, rhythm=rhythm)
        numbers = iter(range(2, 10_000))

        def grow(second: int) -> None:
            if second % 4 == 0:
                now = count(second)
                run.tell_all(wire.ArraysChange(int(run.now * 1000), 1, next(numbers), ((4, now),)))

        return run.live(seconds, then=grow)

    def test_a_list_that_grows_is_named_with_the_line_that_fills_it(self):
        found = self.grown(90, lambda second: 1 + second // 2).found("array_growth")
        assert found is not None and found.severity is Severity.WARNING
        assert found.text.startswith("history[*] grows by 12")  # 30 arrays of 4 MiB a minute
        assert found.text.endswith("t.py:88")
        assert found.subject.array == "history[*]" and found.subject.source == "t.py:88"
        assert "float()" in RULES_BY_NAME["array_growth"].advice

    def test_unnamed_arrays_are_reported_by_their_line(self):
        unnamed = array(None, (1024, 1024), WHOLE, created="t.py:88 log")
        found = self.grown(90, lambda second: 1 + second // 2, array=unnamed).found("array_growth")
        assert found is not None and found.text.startswith("unnamed arrays grow by 12")
        assert found.text.endswith("t.py:88") and found.subject.array == ""

    def test_its_proof_shows_the_arrays(self):
        run = self.grown(60, lambda second: 1 + second // 2)
        found = run.found("array_growth")
        assert found is not None and proves(run, found.proof.filter, "history[0]")

    def test_it_is_reported_within_half_a_minute_first_as_a_note(self):
        run = self.grown(36, lambda second: 1 + second // 2 + (second // 8) ** 2)  # ever faster
        found = run.found("array_growth")
        assert found is not None and found.severity is Severity.INFO

    def test_fast_even_growth_is_a_warning_within_half_a_minute(self):
        found = self.grown(36, lambda second: 1 + second // 2).found("array_growth")
        assert found is not None and found.severity is Severity.WARNING and found.confidence < 0.75
        slow = self.grown(36, lambda second: 1 + second // 16).found("array_growth")
        assert slow is None or slow.severity is Severity.INFO

    def test_with_a_limit_it_is_a_warning_only_if_the_device_is_full_within_a_day(self):
        fast = self.grown(90, lambda second: 1 + second // 2, limit=80 * GIB).found("array_growth")
        slow = self.grown(90, lambda second: 1 + second // 20, limit=200 * GIB).found("array_growth")
        assert fast is not None and fast.severity is Severity.WARNING
        assert fast.cost.minutes_until_full == pytest.approx(40 * 1024 / 120, rel=0.1)
        assert slow is not None and slow.severity is Severity.INFO

    def test_a_buffer_that_is_filled_once_is_a_note_that_ends(self):
        run = self.grown(70, lambda second: min(15, 1 + second // 2))
        assert run.found("array_growth") is None or run.found("array_growth").severity is Severity.INFO
        assert self.grown(110, lambda second: min(15, 1 + second // 2)).found("array_growth") is None

    def test_arrays_that_are_set_up_before_the_first_step_are_a_note(self):
        found = self.grown(90, lambda second: 1 + second // 2, rhythm=None).found("array_growth")
        assert found is not None and found.severity is Severity.INFO

    def test_copies_that_come_and_go_do_not_grow(self):
        assert self.grown(90, lambda second: 1 + second % 3).found("array_growth") is None


class TestHostGrowth:
    def test_a_process_that_grows_until_its_machine_is_full(self):
        run = Run().live(
            100,
            rss=lambda second, process: 4 * GIB + (second * 60 * MIB if process else 0),
            machine=lambda second: 300 * GIB + second * 60 * MIB,
        )
        found = run.found("host_memory_growth")
        assert found is not None and found.severity is Severity.WARNING
        assert found.subject.process_index == 1 and found.text.startswith("host 1: memory grows by 3.")
        assert found.cost.minutes_until_full == pytest.approx((212 * 1024 - 100 * 60) / 3600, rel=0.05)

    def test_it_is_critical_shortly_before_the_end(self):
        run = Run().live(
            100,
            rss=lambda second, _: 4 * GIB + second * 300 * MIB,
            machine=lambda second: 400 * GIB + second * 300 * MIB,
        )
        found = run.found("host_memory_growth")
        assert found is not None and found.severity is Severity.CRITICAL
        assert found.text.startswith("hosts 0–1")

    def test_memory_that_fills_within_a_minute_is_reported_while_somebody_can_react(self):
        """As 800 MiB a minute in a container of 900: a warning at half of it, critical from 75 % on."""

        def used(second: int, _: int = 0) -> int:
            return 60 * GIB + max(0, second - 5) * 8 * GIB

        run = Run().live(5, rss=used, machine=used)
        seen = []
        while used(run.seconds + 1) < 512 * GIB:
            run.live(1, rss=used, machine=used)
            found = run.found("host_memory_growth")
            if found is not None:
                seen.append((found.severity, used(run.seconds) / (512 * GIB)))
        severities = [severity for severity, _ in seen]
        assert severities[0] is Severity.WARNING and seen[0][1] < 0.5
        assert seen[severities.index(Severity.CRITICAL)][1] < 0.85 and severities[-1] is Severity.CRITICAL

    def test_a_script_that_reads_a_part_of_what_is_free_is_no_fast_leak(self):
        """Data of a tenth of the machine, read within a few seconds, leaves it with most of its memory."""

        def used(second: int, _: int = 0) -> int:
            return 60 * GIB + min(max(0, second - 5), 12) * 4 * GIB

        run = Run()
        for _ in range(60):
            found = run.live(1, rss=used, machine=used).found("host_memory_growth")
            assert found is None or found.severity is Severity.INFO

    @pytest.mark.parametrize(
        "rss",
        [
            lambda second, _: 4 * GIB + min(second, 30) * 200 * MIB,  # caches that fill up
            lambda second, _: 4 * GIB + int(2 * GIB * (1 - 0.95**second)),  # ever more slowly
            lambda second, _: 4 * GIB + (second % 20) * 100 * MIB,  # a loader's buffers
            lambda second, _: 40 * GIB + second * 3 * MIB,  # less than 0.5 % a minute
        ],
    )
    def test_growth_that_ends_or_is_small_is_none(self, rss):
        run = Run().live(110, rss=rss, machine=lambda second: 100 * GIB + rss(second, 0))
        assert run.found("host_memory_growth") is None

    def test_pages_of_mapped_files_are_a_note(self):
        found = (
            Run().live(110, rss=lambda second, _: 4 * GIB + second * 600 * MIB).found("host_memory_growth")
        )
        assert found is not None and found.severity is Severity.INFO

    def test_small_growth_counts_once_it_has_lasted(self):
        """In the first minute, less than a tenth may be what a run loads as it starts."""

        def rss(second: int, _: int) -> int:
            return 600 * MIB + second * MIB

        assert Run().live(50, rss=rss).found("host_memory_growth") is None
        assert Run().live(110, rss=rss).found("host_memory_growth") is not None

    def test_memory_that_a_compilation_leaves_is_no_growth(self):
        run = Run()

        def compile_one(second: int) -> None:
            at_ms = int(run.now * 1000)
            run.tell_all(wire.Programs(at_ms, (wire.Program("jit_f", str(second)),), (at_ms,)))

        grown = (lambda second, _: 4 * GIB + second * 60 * MIB), lambda second: 90 * GIB + second * 60 * MIB
        run.live(100, rss=grown[0], machine=grown[1], then=compile_one)
        assert run.found("host_memory_growth") is None

    def test_before_the_first_step_it_is_not_checked(self):
        run = Run(rhythm=None).live(60, rss=lambda second, _: second * 60 * MIB)
        assert "no step" in (run.why_not("host_memory_growth") or "")


class TestReplicated:
    def test_optimizer_state_that_could_be_divided_over_data(self):
        state = (
            array("params['w']", (4096, 4096), SPLIT, "parameters"),
            array("opt_state[0].mu['w']", (4096, 4096), MODEL, "optimizer"),
            array("opt_state[0].nu['w']", (4096, 4096), MODEL, "optimizer"),
        )
        run = Run(*state).live(20)
        (found,) = run.all_found("replicated")
        assert found.text == (
            "optimizer state opt_state[0] is held ×2 over data: 16.0 MiB less on each device if divided"
        )
        assert found.severity is Severity.INFO and found.cost.bytes_per_device == 16 * MIB
        assert found.subject.axis == "data" and "ZeRO" in found.advice
        assert proves(run, found.proof.filter, "opt_state[0].mu['w']")

    def test_a_table_that_every_device_holds(self):
        run = Run(*STATE, array("table", (50_000, 256), WHOLE, created="t.py:3 main")).live(20)
        (found,) = run.all_found("replicated")
        assert (found.subject.array, found.subject.axis, found.subject.source) == (
            "table",
            "data, model",
            "t.py:3",
        )
        assert found.cost.bytes_per_device == pytest.approx(50_000 * 256 * 4 * 7 / 8)
        assert proves(run, found.proof.filter, "table")

    def test_it_is_a_warning_where_memory_is_scarce(self):
        run = Run(*STATE, array("table", (50_000, 256), WHOLE)).live(20, lambda *_: 75 * GIB)
        assert [each.severity for each in run.all_found("replicated")] == [Severity.WARNING]

    @pytest.mark.parametrize(
        "extra",
        [
            array("params['b']", (4096, 4096), MODEL, "parameters"),  # ordinary data parallelism
            array("scale", (4096,), WHOLE),  # small
            array("odd", (4099, 1021), WHOLE),  # nothing divides it
            array("table", (50_000, 256), SPLIT),
            array("grads['w']", (4096, 4096), MODEL, "gradients"),
            array("offloaded", (50_000, 256), PINNED),
        ],
    )
    def test_what_is_usual_small_or_cannot_be_divided_is_none(self, extra):
        assert Run(*STATE, extra).live(30).all_found("replicated") == []

    def test_a_model_without_a_usual_name_is_known_by_the_step_that_returns_it(self):
        run = Run(array("w", (4096, 4096), MODEL, None, "t.py:9 main"))
        run.tell_all(wire.Programs(int(NOW * 1000), (step_program(alias=0),)))
        assert run.live(20).all_found("replicated") == []

    def test_old_state_during_a_step_does_not_count_twice(self):
        table = array("table", (50_000, 256), WHOLE)
        run = Run()
        run.tell_all(census(NOW, *STATE, table, counts=(2, 2, 2, 1, 2)))
        (found,) = run.live(20).all_found("replicated")
        assert found.cost.bytes_per_device == pytest.approx(50_000 * 256 * 4 * 7 / 8)

    def test_a_small_share_of_what_a_device_holds_is_none(self):
        large = array("params['large']", (65_536, 65_536), SPLIT, "parameters")
        assert Run(*STATE, large, array("table", (4096, 1024), WHOLE)).live(20).all_found("replicated") == []


class TestPlacement:
    def test_an_array_left_on_one_device(self):
        def used(_second: int, device: int) -> int:
            return 60 * GIB if device == 1 else 40 * GIB

        run = Run(*STATE, array("table", (50_000, 256), ALONE, created="t.py:3 main")).live(40, used)
        (found,) = run.all_found("whole_on_one_device")
        assert found.text == "only device 1 holds table (48.8 MiB), although the mesh has 8 devices"
        assert (found.subject.device_id, found.subject.source) == (1, "t.py:3")
        assert found.consequences == ("Uneven memory",) and not run.all_found("uneven_memory")
        assert proves(run, found.proof.filter, "table")

    @pytest.mark.parametrize(
        "extra",
        [
            array("table", (1024, 1024), ALONE),  # small
            array("batch['y']", (50_000, 256), ALONE, "batch"),  # on its way to the mesh
            array("table", (50_000, 256), PINNED),
        ],
    )
    def test_small_arrays_batches_and_host_memory_are_none(self, extra):
        assert Run(*STATE, extra).live(40).all_found("whole_on_one_device") == []

    def test_without_a_mesh_devices_that_nothing_uses_are_a_note(self):
        """Host 0 has devices 0 to 3; arrays of a few bytes count, too."""
        alone = array("params", (16, 16), ALONE, "parameters")
        (found,) = Run(alone).live(40).all_found("whole_on_one_device")
        assert found.severity is Severity.INFO
        assert found.text == "all arrays and launches of host 0 are on device 1: 3 of 4 devices are unused"

    def test_a_program_on_all_devices_uses_them_whatever_its_arrays(self):
        run = Run(array("params", (50_000, 256), ALONE, "parameters"))
        program = wire.Program("jit_step", "f", 4, 4)
        run.tell_all(wire.Programs(int(NOW * 1000), programs=(program,), seen_ms=(0,)))
        assert run.live(40).all_found("whole_on_one_device") == []

    def test_before_the_first_step_arrays_are_on_their_way(self):
        run = Run(*STATE, array("table", (50_000, 256), ALONE), rhythm=None).live(40)
        assert run.why_not("whole_on_one_device") and not run.all_found("whole_on_one_device")

    def test_one_device_that_holds_far_more_than_the_others(self):
        run = Run(*STATE).live(40, lambda _, device: 72 * GIB if device == 5 else 40 * GIB)
        (found,) = run.all_found("uneven_memory")
        assert (
            found.text
            == "device 5 holds 72.0 GiB, 32.0 GiB more than the median of the 8 devices of its mesh"
        )
        assert found.severity is Severity.WARNING and found.subject.device_id == 5
        assert found.cost.bytes_per_device == 32 * GIB

    @pytest.mark.parametrize(
        "used",
        [
            lambda _, device: 40 * GIB + device * GIB,  # within a quarter
            lambda second, device: 40 * GIB + (30 * GIB if second % 5 == device else 0),  # temporaries
        ],
    )
    def test_small_differences_and_temporaries_are_none(self, used):
        assert Run(*STATE).live(40, used).all_found("uneven_memory") == []


SIZE = sum(each.bytes_per_device for each in STATE[:3])


def step_program(
    alias: int, output: int = SIZE + 64, arguments: int = SIZE + MIB, created: str = "t.py:9 main"
):
    return wire.Program("jit_step", "f1", 8, 4, 10**12, 0, arguments, output, alias, GIB, 0, created)


class TestUndonated:
    def after(self, program: wire.Program, *groups: wire.ArrayGroup) -> Run:
        run = Run(*(groups or STATE))
        run.tell_all(wire.Programs(int(NOW * 1000), (program,)))
        return run.live(30)

    def test_a_step_that_returns_its_state_beside_the_old_one(self):
        (found,) = self.after(step_program(alias=0)).all_found("undonated")
        assert found.text == (
            "step returns a new state without donation of the old one: 24.0 MiB held twice on each device"
        )
        assert found.cost.bytes_per_device == SIZE and found.severity is Severity.INFO
        assert "donate_argnums" in found.advice and found.subject.source == "t.py:9"

    def test_a_step_that_donates_only_a_part(self):
        (found,) = self.after(step_program(alias=SIZE // 3)).all_found("undonated")
        assert found.cost.bytes_per_device == SIZE - SIZE // 3

    @pytest.mark.parametrize(
        "program",
        [
            step_program(alias=SIZE),
            step_program(alias=0, output=4096),
            step_program(alias=0, arguments=MIB),  # it creates a state, and takes none
            step_program(alias=0, created="t.py:4 init"),
        ],
    )
    def test_donated_state_and_programs_that_return_none_are_none(self, program):
        assert self.after(program).all_found("undonated") == []

    def test_gradients_do_not_replace_the_parameters(self):
        params = array("params['w']", (4096, 4096), SPLIT, "parameters", "t.py:12 main")
        grads = array("grads['w']", (4096, 4096), SPLIT, "gradients", "t.py:9 main")
        program = step_program(alias=0, output=8 * MIB, arguments=9 * MIB)
        assert self.after(program, params, grads).all_found("undonated") == []

    def test_without_figures_of_the_compiler_it_is_not_checked(self):
        run = self.after(wire.Program("jit_step", "f1", created="t.py:9 main"))
        assert "no memory figures" in (run.why_not("undonated") or "")
        without_results = wire.Program("jit_step", "f1", alias_bytes=0, created="t.py:9 main")
        assert "no memory figures" in (self.after(without_results).why_not("undonated") or "")
        small = self.after(step_program(alias=0, output=4096))
        assert (small.why_not("undonated") or "").endswith("less than 8.0 MiB on a device")


class TestFragments:
    def test_much_free_memory_without_a_large_piece(self):
        run = Run().live(40, lambda *_: 50 * GIB, largest_free_bytes=3 * GIB, pool_bytes=LIMIT)
        found = run.found("fragmentation")
        assert found is not None and found.severity is Severity.INFO
        assert found.text == "device 0 has 30.0 GiB free, but at most 3.0 GiB in one piece"

    def test_it_is_a_warning_if_an_idle_program_needs_more(self):
        run = Run()
        evaluate = wire.Program("jit_evaluate", "f2", 8, 4, temp_bytes=12 * GIB)
        run.tell_all(wire.Programs(int(NOW * 1000), (evaluate, step_program(alias=SIZE))))
        run.live(40, lambda *_: 50 * GIB, largest_free_bytes=3 * GIB, pool_bytes=LIMIT)
        found = run.found("fragmentation")
        assert found is not None and found.severity is Severity.WARNING
        assert found.text.endswith("evaluate needs 12.0 GiB")

    @pytest.mark.parametrize(
        "figures",
        [
            {"largest_free_bytes": 20 * GIB, "pool_bytes": LIMIT},
            {"largest_free_bytes": 3 * GIB, "pool_bytes": 60 * GIB},  # the pool can still grow
        ],
    )
    def test_one_large_piece_or_a_pool_that_can_grow_is_none(self, figures):
        assert Run().live(40, lambda *_: 50 * GIB, **figures).found("fragmentation") is None

    def test_a_full_device_is_not_in_pieces(self):
        figures = {"largest_free_bytes": 100 * MIB, "pool_bytes": LIMIT}
        assert Run().live(40, lambda *_: 75 * GIB, **figures).found("fragmentation") is None


class TestWillNotFit:
    EVALUATE = wire.Program(
        "jit_evaluate", "f2", 8, 4, 10**12, 0, 6 * GIB, 4096, 0, 45 * GIB, 0, "t.py:140 evaluate"
    )

    def after(
        self, *programs: wire.Program, launches=None, used: int = 40 * GIB, peak: int = 45 * GIB
    ) -> Run:
        run = Run(*STATE)
        run.tell_all(wire.Programs(int(NOW * 1000), programs))
        earlier = {**(launches or {}), "step": 1}
        run.live(2, launches=earlier)
        return run.live(30, lambda *_: used, peak_bytes=peak)

    def test_a_program_that_needs_more_than_is_free(self):
        found = self.after(self.EVALUATE, step_program(alias=SIZE)).found("will_not_fit")
        assert found is not None and found.severity is Severity.WARNING
        assert found.text == (
            "a launch of evaluate adds 45.0 GiB, but 41.0 GiB are free on the fullest device"
        )
        assert found.cost.bytes_per_device == pytest.approx(4 * GIB, abs=MIB)
        assert found.subject.source == "t.py:140" and found.proof.screen == "programs"

    def test_an_evaluation_for_which_too_little_is_left_is_a_note(self):
        run = self.after(self.EVALUATE, step_program(alias=SIZE), launches={"evaluate": 3}, peak=79 * GIB)
        found = run.found("will_not_fit")
        assert found is not None and found.severity is Severity.INFO and "did fit before" in found.text

    def test_programs_that_set_the_run_up_are_none(self):
        init = wire.Program("jit_init", "f3", 8, 4, 10**9, 0, 16, 45 * GIB, 0, 0, 0, "t.py:2 main")
        for launches in ({"init": 1}, {"init": 30}):
            run = self.after(init, step_program(alias=SIZE), launches=launches, peak=79 * GIB)
            assert run.found("will_not_fit") is None

    def test_the_step_that_runs_fits_whatever_it_holds(self):
        large = step_program(alias=0, output=30 * GIB)
        assert self.after(large, used=78 * GIB).found("will_not_fit") is None

    def test_what_the_step_releases_counts_as_free(self):
        step = wire.Program("jit_step", "f1", 8, 4, 10**12, 0, GIB, GIB, GIB, 10 * GIB, 0)
        assert self.after(self.EVALUATE, step, used=40 * GIB).found("will_not_fit") is None


def test_a_trend_is_of_the_troughs_and_does_not_slow_down():
    def rising(step, count: int = 60):
        return trend([(float(i), step(i)) for i in range(count)])

    found = rising(lambda i: 10.0 * i + (500 if i % 2 else 0))
    assert found is not None and found.per_minute == pytest.approx(600, rel=0.1)
    assert rising(lambda i: 10.0 * i, 20) is None
    assert rising(lambda i: 600 * (1 - 0.9**i)) is None
    assert rising(lambda _: 5.0) is None
    assert rising(lambda i: None if i % 7 else 10.0 * i) is None


def test_amounts_in_words():
    assert [in_bytes(each) for each in (0, 999, 1000, 3 * MIB, 150.4 * MIB, 2048 * GIB)] == [
        "0 bytes", "999 bytes", "1.0 KiB", "3.0 MiB", "150 MiB", "2.0 TiB",
    ]  # fmt: skip
    assert [in_minutes(each) for each in (0.2, 12.4, 120, 60 * 24 * 3)] == [
        "12 s",
        "12 min",
        "2 h",
        "3 days",
    ]


def test_the_staged_mesh_is_what_the_shardings_say():
    assert MESH.axes == (("data", 2), ("model", 4)) and len(SHARDINGS) == 6
    assert census(NOW, *STATE).counts == (1,) * len(STATE)


def test_where_all_arrays_are_small_the_rules_about_large_ones_say_so():
    run = Run(array("params['w']", (64, 64), WHOLE, "parameters")).live(20)
    small = "no array takes 1.0 MiB on a device"
    assert run.why_not("replicated") == run.why_not("whole_on_one_device") == small
