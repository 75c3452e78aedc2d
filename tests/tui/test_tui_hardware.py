"""The hardware and the rhythm on the screens: what is told is shown, what should worry has a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base import units
from jaxtop.model import DEVICE_FIGURES, FIGURES, HOST_FIGURES, Cluster, Unit
from jaxtop.model.devices import slowed
from jaxtop.model.figure_type import Level
from jaxtop.tui.core.metrics import METRICS
from jaxtop.tui.core.palette import DARK
from jaxtop.tui.core.text import width_of, writer
from jaxtop.tui.draw.ink import ink_of
from jaxtop.tui.draw.panes.hardware import device_lines, device_words, host_lines
from jaxtop.tui.filters.expressions import words
from jaxtop.tui.filters.figures import OF_DEVICES, OF_HOSTS, count, percent, seconds
from jaxtop.tui.screens import devices as devices_screen
from jaxtop.tui.widgets.filter import FilteredTable, FilterInput
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.cases import thorough
from tests.stage import Stage, line, play, shown_after
from tests.staged import hardware as staged_hardware
from tests.staged.hardware import FAILING, HOT, working
from tests.stories import host_sample

if TYPE_CHECKING:
    from rich.text import Text

INK = ink_of(DARK, plain=True)
QUIET = wire.Pulse(0)
KEYS = {"&": "ampersand", ">": "greater_than_sign", "=": "equals_sign", "|": "vertical_line", " ": "space"}


def plain(lines: list[Text]) -> str:
    return "\n".join(each.plain for each in lines)


async def filtered(stage: Stage, typed: str) -> list:
    """The rows that such a filter leaves."""
    stage.view_shown.query_one(FilteredTable).action_filter()
    stage.view_shown.query_one(FilterInput).value = typed
    await stage.pilot.pause()
    return list(stage.view_shown.table.shown)


class TestFilters:
    def test_a_figure_is_found_by_what_is_read_of_it(self):
        """Percent and milliseconds to the last bit; a thousand is a thousand where no bytes are counted."""
        for permille in range(1001):
            exact = f"{permille / 10:g}%"
            assert all(percent(by, exact)(permille / 1000) for by in ("=", ">=", "<=")), exact
            assert seconds("=", f"{permille}ms")(permille * 1000 / 1e6)
        assert count(">=", "1K")(1000) and not count(">", "1K")(1000)
        assert words("=", "n/a")(None) and not words("=", "n/a")("")

    def test_hosts_are_found_by_their_figures(self):
        async def act(stage: Stage) -> None:
            await stage.press("3")
            for typed, found in (
                ("cpu>80", [0, 1]),
                ("cpu>10000%", []),
                ("memory_pressure>=14", [1]),
                ("mem_wait<14", [0]),
                ("step>0.4 & p50<411ms", [0, 1]),
                ("step>1.2", []),
                ("still>=42s", [0]),
                ("index>4000", [0, 1]),
                ("state=live & process=1", [1]),
                ("memory>200G & host~node01", [1]),
                ("rss>40G node00", [0]),
                ("node01", [1]),
                ("heard<1m", [0, 1]),
            ):
                assert [row.host.process_index for row in await filtered(stage, typed)] == found, typed

        stall = wire.Stall("train_step", int((NOW - 42) * 1000), 400)
        play(
            act,
            *working(4),
            frame(agent_id(0), replace(staged_hardware.pulse(0, 0), stall=stall), sequence=899),
        )

    def test_devices_are_found_by_their_figures_and_by_where_they_stand(self):
        hot = HOT[0] * builders.DEVICES + HOT[1]
        failing = FAILING[0] * builders.DEVICES + FAILING[1]

        async def act(stage: Stage) -> None:
            await stage.press("D")
            for typed, found in (
                ("temperature>=80", [hot]),
                ("temp>=80°C", [hot]),
                ("power>0.69kW", [hot]),
                ("clock<1.2GHz | ecc>0", sorted([hot, failing])),
                ("slowed~heat", [hot]),
                ("data=1 & model=0", [2]),
                ("data=1 node00", [2, 3]),
                ("share>100", []),
                ("process=1 & id<6", [4, 5]),
            ):
                assert [row.device.id for row in await filtered(stage, typed)] == found, typed

        play(act, *working(4))

    @pytest.mark.parametrize("key", ["3", "D"])
    def test_what_means_nothing_is_said_and_the_rows_stay(self, key):
        async def act(stage: Stage) -> None:
            await stage.press(key)
            before = len(stage.view_shown.table.shown)
            assert len(await filtered(stage, "temprature>80")) == before
            assert "no field temprature" in stage.text
            assert len(await filtered(stage, "power>80parsecs")) == before
            assert "parsecs is not a unit here, try w, kw, at 7" in stage.text

        play(act, *working(4), size=(200, 50))

    def test_the_rows_stay_while_a_condition_is_typed(self):
        async def act(stage: Stage) -> None:
            await stage.press("3", "slash")
            for typed in ("cp", "u>80 & foo", ">3"):
                for key in typed:
                    await stage.press(KEYS.get(key, key))
                    assert len(stage.view_shown.table.shown) == 2, typed
                assert ("no match yet" in stage.text) is (typed != ">3")
            assert "✗ no field foo, at 10" in stage.text
            await stage.press("escape", "slash", *"foo")
            assert len(stage.view_shown.table.shown) == 2
            await stage.press("enter")
            assert not stage.view_shown.table.shown
            assert "no host matches the filter 'foo'" in stage.text and "0 of 2" in stage.text
            await stage.press("slash", "o", "tab")
            assert "no host matches the filter 'fooo'" in stage.text

        play(act, *working(4))

    def test_every_figure_has_a_name_to_ask_for_it(self):
        for figures, fields in ((HOST_FIGURES, OF_HOSTS), (DEVICE_FIGURES, OF_DEVICES)):
            for each in figures:
                assert {each.name, each.short.lower().replace(" ", "_")} <= fields.keys()

    def test_filters_have_the_names_that_they_have_always_had(self):
        of_hosts = """agent at_step compiling cores devices flops heard host idle index joules joules_token
            jax launches load memory p50 p99 peak pid power process rss run starts state step steps still
            tokens"""
        of_devices = """ecc host id kind limit local memory peak power process run share slowed source state
            temp"""
        assert set(of_hosts.split()) <= OF_HOSTS.keys() and set(of_devices.split()) <= OF_DEVICES.keys()


class TestDevices:
    def test_each_figure_that_is_reported_has_a_column(self):
        columns = {each.name for each in (*devices_screen._FIRST, *devices_screen._LATER)}
        assert columns == {each.name for each in DEVICE_FIGURES[1:]}

        async def act(stage: Stage) -> None:
            await stage.press("D")
            table = stage.view_shown.table
            shown = {column.key for column in table.columns}
            of_tpus = [each.name for each in DEVICE_FIGURES].index("queued")  # these come last
            told = {each.name for each in DEVICE_FIGURES[1:of_tpus]}
            assert shown & columns == told
            row = table.shown[HOT[0] * stage_devices + HOT[1]]
            written = {column.key: column.write(row) for column in table.columns}
            assert written["power_w"] == "!697W"
            assert written["temperature_c"] == "!89°C"
            assert written["slowed"] == "!heat, power limit"
            assert written["clock_hz"] == "1.14GHz"
            row = table.shown[FAILING[0] * stage_devices + FAILING[1]]
            assert next(each for each in table.columns if each.key == "ecc").write(row) == "!1/11"

        stage_devices = builders.DEVICES
        play(act, *working(4))

    def test_without_hardware_figures_there_are_no_columns_of_them(self):
        shown = shown_after(*builders.well(), keys="D", size=(200, 24))
        titles = line("MEMORY", shown)
        assert not {"UTIL", "POWER", "TEMP", "SLOWED", "ECC", "PEAK", "LIMIT"} & set(titles.split())
        assert "n/a" not in line("node00", shown).rstrip()[:120]

    def test_columns_stay_where_they_are_when_a_host_falls_silent_about_its_hardware(self):
        async def act(stage: Stage) -> None:
            await stage.press("D")
            before = line("TEMP", stage.text)
            held = wire.DeviceSample(*((1 << 30,) * stage_devices,) * 3)
            stage.feed.frames = [
                frame(agent_id(i), replace(staged_hardware.pulse(i), devices=held), NOW, 999)
                for i in range(2)
            ]
            await stage.paint()
            assert line("TEMP", stage.text) == before
            assert "n/a" in line("node00", stage.text)

        stage_devices = builders.DEVICES
        play(act, *working(4))

    def test_the_recent_past_is_that_of_the_figure_that_is_sorted_by(self):
        async def act(stage: Stage) -> None:
            await stage.press("D")
            assert "UTIL, RECENT" in stage.text
            table = stage.view_shown.table
            table.sort_by(next(each for each in table.columns if each.key == "power_w"))
            await stage.paint()
            await stage.paint()
            assert "POWER, RECENT" in stage.text
            assert "!697W" in stage.text.splitlines()[3]

        play(act, *working(20), size=(160, 24))

    def test_no_figure_is_too_long_for_its_column(self):
        most = {
            Unit.WATTS: 1_200.0,
            Unit.DEGREES: 105.0,
            Unit.HERTZ: 2.999e9,
            Unit.BYTES: 1.4e11,
            Unit.BYTES_PER_SECOND: 9e11,
            Unit.SECONDS: 99.9,
        }
        for figure in DEVICE_FIGURES:
            sign = 1 if figure.thresholds else 0
            assert len(writer(figure)(most.get(figure.unit, 1.0))) + sign <= width_of(figure), figure.name
            assert len(figure.short) <= width_of(figure) + 1  # a title may use the gap before it

    @pytest.mark.parametrize(("width", "last"), [(80, "TEMP"), (120, "RECENT")])
    def test_what_is_looked_for_first_is_there_on_narrow_terminals(self, width, last):
        titles = line("PROC", shown_after(*working(4), keys="D", size=(width, 24))).split()
        assert [each for each in titles if not each.startswith("+")][-1] == last


class TestHosts:
    def test_the_step_and_its_cost_have_columns(self):
        async def act(stage: Stage) -> None:
            await stage.press("3")
            table = stage.view_shown.table
            written = {column.key: column.write(table.row) for column in table.columns}
            assert (written["p50_ms"], written["p99_ms"]) == ("410ms", "566ms")
            assert written["utilization_of_peak"].startswith("~")  # an estimate
            assert written["watts"].endswith("W") and written["joules_per_step"].endswith("J")
            assert (written["cores"], written["of"]) == ("64", "machine")
            pulse = staged_hardware.pulse(0, 0)
            reported = {each.name for each in HOST_FIGURES if each.read(pulse, 0) is not None}
            assert len(reported) > 10 and reported <= written.keys()

        play(act, *working(4))

    @pytest.mark.parametrize("size", [(80, 24), (120, 40)])
    def test_while_a_run_stands_still_its_step_says_since_when(self, size):
        async def act(stage: Stage) -> None:
            assert "last step 42s ago" in stage.line("header")
            await stage.press("3")
            if size[0] > 80:  # else the pane has no room
                assert "last step 42s ago" in stage.text.split("host 0 (node00)")[1]
            stage.feed.frames = [frame(agent_id(0), staged_hardware.pulse(0, 0), sequence=900)]
            await stage.paint()
            assert "last" not in stage.line("header") and "step 410ms" in stage.line("header")

        stall = wire.Stall("train_step", int((NOW - 42) * 1000), 400)
        told = [
            frame(agent_id(i), replace(staged_hardware.pulse(i, 0), stall=stall), sequence=899)
            for i in range(2)
        ]
        play(act, *working(4), *told, size=size)

    def test_a_step_of_several_launches_says_of_how_many(self):
        rhythm = staged_hardware.pulse(0, 0).rhythm
        one = "step train_step "
        for centi, says in ((450, "step train_step, 4.5 launches"), (100, one), (0, one)):
            told = replace(staged_hardware.pulse(0, 0), rhythm=replace(rhythm, launches_centi=centi))
            shown = shown_after(*working(4), frame(agent_id(0), told, sequence=900), keys="3", size=(120, 40))
            assert says in shown

    def test_operations_that_are_a_lower_bound_have_its_sign(self):
        rhythm = staged_hardware.pulse(0, 0).rhythm
        told = replace(staged_hardware.pulse(0, 0), rhythm=replace(rhythm, flops_at_least=True))
        shown = shown_after(
            *working(4), frame(agent_id(0), told, sequence=900), keys=("3", "j", "k"), size=(200, 40)
        )
        assert "of peak ≥" in shown and "computes ≥" in shown
        assert any(cell.startswith("≥") and cell.endswith("F/s") for cell in shown.split())

    def test_what_should_worry_stands_out_below_with_a_word(self):
        shown = shown_after(*working(4), keys=("3", "j"), size=(140, 30))
        assert "container with 64 cores" in shown
        assert "memory 480G ! nearly full" in shown
        assert "memory 14% ! high" in shown
        assert "MainThread 94%  Python" in shown and "decode_0 61%  native" in shown
        assert "of peak ~" in shown and "jitter 3%" in shown

    def test_on_a_small_screen_a_sign_stands_for_the_word_and_nothing_is_cut_off(self):
        shown = shown_after(*working(4), keys=("3", "j"), size=(80, 24))
        assert "memory !480G  held back" in shown
        assert "memory !14%  disk" in shown
        assert "MainThread 94%  Python" in shown
        below = shown[shown.index("──") :]
        assert "…" not in below

    def test_a_host_without_messages_shows_no_zeros(self):
        shown = shown_after(frame("", wire.Roster(agent_id(0), (peer(),), "r1")), keys="3", size=(120, 30))
        below = shown[shown.index("──") :]
        assert "step not found yet" in below
        assert "0%" not in below and "0B" not in below

    def test_figures_of_a_host_that_died_are_no_longer_shown(self):
        shown = shown_after(*working(4), builders.trouble(1, "closed"), keys=("3", "j"), size=(140, 30))
        below = shown[shown.index("──") :]
        assert "host 1 (node01)" in below
        assert "410ms" not in below and "container" not in below

    @pytest.mark.parametrize("state", ["closed", "silent"])
    def test_the_last_step_of_a_host_that_reports_no_more_stays_and_is_past(self, state):
        shown = shown_after(*working(4), builders.trouble(1, state), keys=("3", "j"), size=(260, 30))
        table, _, below = shown.partition("──")
        row = next(line for line in table.splitlines() if line.startswith("▌"))
        assert "node01" in row and " 5,000 " in row
        assert "step train_step" in below and "last step 5,000, heard 0s ago" in below
        assert "not found" not in below and "410ms" not in below

    def test_where_the_script_numbers_no_steps_their_count_stays(self):
        last = frame(agent_id(1), replace(staged_hardware.pulse(1), step=None))
        frames = *working(4), last, builders.trouble(1, "closed")
        shown = shown_after(*frames, keys=("3", "j"), size=(120, 30))
        below = shown[shown.index("──") :]
        assert "5,000 steps, heard 0s ago" in below and "not found" not in below


def peer() -> wire.Peer:
    return wire.Peer(agent_id(0), 0, "node00", 1000, 1, "b", "pid:[1]", "t", "r")


class TestDetail:
    def test_a_device_tells_what_is_known_and_what_is_wrong(self):
        pulse = staged_hardware.pulse(HOT[0])
        told = plain(device_lines(pulse, HOT[1], INK, 37, lambda _: (1, 2, 3)))
        assert "! slowed by heat, power limit" in told
        assert "697W ! at its limit" in told and "89°C ! at its limit" in told
        wide = plain(device_lines(pulse, HOT[1], INK, 60, lambda _: (1, 2, 3)))
        assert "697W of 700W ! at its limit" in wide
        assert "queued" not in told and "n/a" not in told
        assert any("⠀" < each.rstrip()[-1:] <= "⣿" for each in told.splitlines())

    def test_memory_errors_that_were_not_corrected_are_named(self):
        pulse = staged_hardware.pulse(FAILING[0])
        assert "! ECC: 1 not corrected" in plain(device_lines(pulse, FAILING[1], INK, 37, lambda _: ()))
        assert "! ECC: 1 not corrected" in plain(device_words(pulse, FAILING[1], INK, 26))

    def test_a_device_without_figures_has_no_section_and_a_host_no_lines(self):
        assert device_lines(QUIET, 0, INK, 37, lambda _: ()) == device_words(QUIET, 0, INK, 26) == []
        assert host_lines(QUIET, INK, 37) == []

    @pytest.mark.parametrize("size", [(80, 24), thorough((120, 40)), (200, 50)])
    def test_the_mesh_shows_the_hardware_of_the_selected_device(self, size):
        shown = shown_after(*working(4), keys="2", size=size)
        assert "93%" in shown and "560W" in shown


class TestMetrics:
    def test_the_mesh_is_coloured_by_what_somebody_reports_and_by_nothing_else(self):
        async def act(stage: Stage) -> None:
            await stage.press("2")
            names = []
            for _ in METRICS:
                names.append(stage.view_shown.metric.name)
                await stage.press("m")
            assert len(names) > len(set(names)) and "queued" not in names
            assert {"utilisation", "power", "temperature", "tensor units", "links in"} <= set(names)

        play(act, *working(3))


class TestThresholds:
    def test_each_has_a_word_and_a_reason_and_a_maximum_if_it_is_a_share_of_one(self):
        for figure in FIGURES.values():
            assert all(each.reason and each.word for each in figure.thresholds)
            is_of_full = any(each.is_of_full for each in figure.thresholds)
            assert figure.full(ALL, 0) is not None or not is_of_full

    def test_what_has_no_limit_is_at_no_limit(self):
        hot = wire.Pulse(0, devices=wire.DeviceSample(temperature_c=(99,), power_mw=(900_000,)))
        assert FIGURES["temperature_c"].reached(hot) is None
        assert FIGURES["power_w"].reached(hot) is None

    def test_the_most_serious_threshold_counts(self):
        def level(degrees: int) -> Level:
            sample = wire.DeviceSample(temperature_c=(degrees,), temperature_limit_c=(90,))
            reached = FIGURES["temperature_c"].reached(wire.Pulse(0, devices=sample))
            return Level.FINE if reached is None else reached.level

        assert [level(each) for each in (60, 85, 86, 90, 95)] == [
            Level.FINE, Level.FINE, Level.WARNING, Level.BAD, Level.BAD,
        ]  # fmt: skip

    def test_why_a_device_is_slowed_is_unknown_or_nothing_or_words(self):
        def of(bits: int | None) -> object:
            return slowed(wire.Pulse(0, devices=wire.DeviceSample(slowed=(bits,))), 0)

        assert of(None) is None
        assert of(0) == ((), Level.FINE)
        assert of(0b100001) == (("clocks set by hand", "power limit"), Level.WARNING)
        assert of(0b1001) == (("power brake", "power limit"), Level.BAD)


ALL = wire.Pulse(
    0,
    devices=wire.DeviceSample(*((5,),) * len(wire.DeviceSample.__struct_fields__)),
    host=host_sample(),
)


@pytest.mark.parametrize("figure", [*DEVICE_FIGURES, *HOST_FIGURES], ids=lambda figure: figure.name)
def test_every_figure_can_be_written_and_has_a_short_name(figure):
    assert writer(figure)(None) == "n/a"
    assert writer(figure)(figure.read(ALL, 0)) != "n/a"
    assert len(figure.short) <= 8


def test_energy_reads_in_its_natural_unit():
    assert [units.joules(each) for each in (None, 0.000958, 0.0123, 35, 1200)] == [
        "n/a", "958uJ", "12mJ", "35J", "1.2kJ",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("write", "values"),
    [
        (units.joules, {999.4e-6: "999uJ", 999.6e-6: "1mJ", 0.9994: "999mJ", 0.9999: "1J", 999.7: "1.0kJ"}),
        (units.duration, {999.4: "999ms", 999.6: "1.0s"}),
        (units.micros, {999.4: "999us", 999.6: "1.0ms", 99_960: "100ms", 999_600: "1.0s", 999.96e6: "1000s"}),
        (units.rate, {99.94: "99.9/s", 99.96: "100/s"}),
        (units.size, {999.4: "999B", 999.6: "1.0K", 99.96 * 1024: "100K", 999.6 * 1024: "1.0M"}),
        (units.amount, {999.4: "999", 999.6: "1.0k", 99_960: "100k", 999_600: "1.0M"}),
        (units.hertz, {999.4e6: "999MHz", 999.6e6: "1.00GHz"}),
        (units.in_ms, {0.254: "0.254 ms", 61.24: "61.2 ms", 1234: "1.23 s", 1_234_000: "1,234 s"}),
        (units.in_bytes, {999: "999 bytes", 1023: "1.0 KiB", 1 << 20: "1.0 MiB", 100 << 20: "100 MiB"}),
        (units.plain, {99.994: "99.99", 99.996: "100", 1234: "1,234"}),
    ],
)
def test_what_is_rounded_up_to_the_next_unit_is_written_in_it(write, values):
    assert {value: write(value) for value in values} == values


def test_a_host_that_never_reported_is_unknown_and_not_zero():
    cluster = Cluster()
    cluster.apply(agent_id(0), wire.Pulse(0), NOW)
    pulse = cluster.hosts[agent_id(0)].pulse
    assert all(each.read(pulse, 0) is None for each in FIGURES.values())
