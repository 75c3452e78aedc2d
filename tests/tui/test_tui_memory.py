"""The screen of the memory, as a person uses it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import PARTS, Part
from jaxtop.tui.core.palette import PALETTES
from jaxtop.tui.draw.bars import bar_line, lengths
from jaxtop.tui.draw.ink import ink_of
from jaxtop.tui.draw.stacked_bar import LETTERS, colour_of, legend, parts_of, stacked
from tests import builders
from tests.builders import agent_id, frame
from tests.stage import Stage, line, play
from tests.staged import devices as staged_devices
from tests.tui.test_tui_programs import seen

GIB = 1 << 30
PALETTE = next(iter(PALETTES.values()))
SIZES_OF_PARTS = (4, 2, 0, 0, 0, 0, 1, 0, 1, 8)


class TestBars:
    def test_parts_end_where_they_belong(self):
        assert lengths((1, 1, 2), 4, 8) == [2, 2, 4]
        assert lengths((1, 1, 1), 3, 10) == [3, 4, 3]
        assert lengths((1, 1), 4, 8) == [2, 2]

    def test_small_parts_together_are_as_long_as_they_are(self):
        assert sum(lengths((1,) * 10, 100, 10)) == 1

    def test_nothing_and_too_much_fit(self):
        assert lengths((0, 0), 0, 10) == [0, 0]
        assert lengths((5, 9), 4, 10) == [10, 0]
        assert lengths((5, 9), 4, 0) == [0, 0]

    @pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
    def test_each_part_has_a_letter_and_a_colour_of_its_own(self, palette):
        assert len(set(LETTERS.values())) == len(LETTERS) == len(PARTS)
        assert len({colour_of(part, palette) for part in PARTS}) == len(PARTS)

    def test_a_bar_reads_without_colours(self):
        ink = ink_of(PALETTE, plain=True)
        assert bar_line(parts_of(SIZES_OF_PARTS, PALETTE), 16, 16, ink).plain == "PPPPOOT/········"

    def test_parts_of_a_bar_with_colours_end_within_a_character(self):
        (first, second, *_) = stacked((3, 5, *(0,) * 8), 16, 4, PALETTE.theme.name, plain=False)
        assert first == ("▊", colour_of(Part.PARAMETERS, PALETTE), colour_of(Part.OPTIMIZER, PALETTE))
        assert second == ("█", colour_of(Part.OPTIMIZER, PALETTE), None)

    def test_the_legend_names_only_what_is_there(self):
        (one,) = legend(SIZES_OF_PARTS, 200, ink_of(PALETTE, plain=True))
        assert one.plain.startswith("P parameters 4B   O optimizer 2B   T temporaries (estimate) 1B")
        assert not any(part in one.plain for part in (Part.GRADIENTS, Part.BATCH, Part.UNNAMED))
        narrow = legend(SIZES_OF_PARTS, 40, ink_of(PALETTE, plain=False))
        assert len(narrow) > 1 and all(each.cell_len <= 40 for each in narrow)


class TestColumns:
    """The picture between the summary and the table."""

    def test_each_device_has_a_column_up_to_what_it_holds_and_the_limit_is_a_line(self):
        shown = seen(*staged_devices.held(), keys=("5",)).splitlines()
        at = next(i for i, row in enumerate(shown) if "Memory by device  limit 24.0G, 9.2G free" in row)
        top, *_, lowest = [row.split("┤")[1] for row in shown[at + 1 : at + 20] if "┤" in row]
        assert top.count("╌") > 40 and "█" not in top
        assert lowest.count("█") > 60
        assert "7 14.8G" in "".join(shown[at:])

    def test_a_small_terminal_has_a_bar_in_the_row_of_each_device_or_low_columns(self):
        few = seen(*staged_devices.held(), keys=("5",), size=(80, 24))
        assert "Memory by device" not in few
        assert sum("██" in row for row in few.splitlines() if "node" in row) == 8
        many = seen(*builders.well(processes=64, devices=8), keys=("5",), size=(80, 20))
        assert "Memory by device" in many and "HEADROOM" in many

    def test_without_a_limit_it_is_relative_and_keeps_its_colours(self):
        shown = seen(*staged_devices.counted(), keys=("5",))
        assert "no limit known: relative to the fullest" in shown and "╌" not in shown

    def test_there_may_be_more_devices_than_columns(self):
        shown = seen(*builders.well(processes=64, devices=8), keys=("5",))
        assert "a column is the fullest of 3" in shown

    def test_letters_name_the_parts_without_colours(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")
        shown = seen(*staged_devices.held(), keys=("5",))
        assert "PPPPPPPP" in shown and "OOOOOOOO" in shown and "█" not in shown


def test_the_cluster_stands_on_top_with_its_fullest_device():
    shown = seen(*staged_devices.held(), keys=("5",)).splitlines()[1:]  # below the tabs
    words = "8 devices hold 111G of 192G (58%), most on device 7: 14.8G; source allocator"
    at = next(i for i, row in enumerate(shown) if row.strip() == words)
    assert "█ parameters 16.0G" in shown[at + 2] and "temporaries (estimate)" in shown[at + 2] + shown[at + 3]


def test_each_device_has_its_bar_and_the_figures_of_its_allocator():
    row = line(" 7  node01", seen(*staged_devices.held(), keys=("5",)))
    assert {"14.8G", "24.0G", "15.8G", "8.0G", "2.0G", "4.0G", "256M", "512M"} <= set(row.split())
    assert "█████" in row


def test_without_allocators_it_says_so_and_claims_nothing():
    shown = seen(*staged_devices.counted(), keys=("5",))
    assert "source arrays" in shown
    assert not any(word in shown for word in ("LIMIT", "UNEXPL", "temporaries", "LARGEST FREE"))
    # The devices differ only in the fullest one's favour: its bar is the longest.
    bars = [row.count("█") for row in shown.splitlines() if "node0" in row]
    assert len(bars) == 8 and max(bars) == bars[-1]


def test_of_arrays_that_were_counted_long_ago_that_is_said():
    told = staged_devices.counted()
    assert "counted" not in seen(*told, keys=("5",))
    long_ago = builders.pulse(0, counted_ms=int((builders.NOW - 42) * 1000))
    assert "source arrays; arrays counted 42s ago" in seen(
        *told, frame(agent_id(0), long_ago, sequence=9), keys=("5",)
    )


def test_where_only_others_have_limits_the_share_is_unknown():
    """As beside a host with allocators of which nobody knows any more what they hold."""
    limits = wire.DeviceSample(limit_bytes=(24 * GIB,) * builders.DEVICES)
    unknown = replace(builders.pulse(0), devices=limits)
    shown = seen(*builders.well(), frame(agent_id(0), unknown, sequence=9), keys=("5",))
    assert "of 0B (n/a), most on device" in shown


def test_a_simulated_limit_is_called_simulated():
    told = staged_devices.counted()
    for index in range(builders.PROCESSES):
        limited = builders.pulse(index)
        sample = replace(limited.devices, limit_bytes=(GIB * 24,) * builders.DEVICES)
        hello = builders.hello(index, simulated_limit_bytes=24 * GIB)
        told += [
            frame(agent_id(index), hello, sequence=9),
            frame(agent_id(index), replace(limited, devices=sample), sequence=9),
        ]
    shown = seen(*told, keys=("5",))
    assert "of 192G (simulated)" in shown and "source arrays" in shown
    assert "free" in shown and "largest free" not in shown
    assert "the limit is simulated" in seen(*told, keys=("2",))


def test_what_grows_is_named_with_the_line_that_makes_it():
    shown = seen(*staged_devices.held(), keys=("5",))
    assert "+240M/min  unnamed  240M  train.py:88 log_metrics" in shown
    assert "nothing found" in seen(*staged_devices.counted(), keys=("5",))


def test_what_a_launch_adds_is_held_against_what_is_free():
    shown = seen(*staged_devices.held(), keys=("5",))
    assert "▲ evaluate +12.0G of 9.2G free" in shown
    assert "train_step +9.3G of 9.2G free · running" in shown and "▲ train_step" not in shown
    assert "train_step +9.3G, limit unknown" in seen(*staged_devices.counted(), keys=("5",))


def test_it_can_be_sorted_by_a_part():
    async def act(stage: Stage) -> None:
        await stage.press("5", "full_stop", "full_stop")
        rows = [row for row in stage.text.splitlines() if "node0" in row]
        assert "▼USED" in stage.text and rows[0].split()[0] == "7"

    play(act, *staged_devices.held())


def test_enter_leads_to_the_device_in_the_mesh_and_back():
    async def act(stage: Stage) -> None:
        await stage.press("5", "G", "enter")
        assert stage.screen_shown == "screen-mesh" and "device 7" in stage.text
        await stage.press("5")
        assert any(row.startswith("▌") and " 7  node01" in row for row in stage.text.splitlines())

    play(act, *staged_devices.held())


def test_a_device_that_is_gone_holds_nothing():
    shown = seen(*staged_devices.held(), builders.trouble(1, "closed"), keys=("5",))
    assert "4 devices hold" in shown and "n/a" in line(" 7×  node01", shown)


def test_where_there_is_little_room_the_devices_have_it():
    assert "HEADROOM" not in seen(*staged_devices.held(), keys=("5",), size=(60, 16))
    assert "HEADROOM" in seen(*staged_devices.held(), keys=("5",), size=(80, 24))


@pytest.mark.parametrize(
    ("typed", "ids"),
    [
        ("used>=14G & host~node", [4, 5, 6, 7]),
        ("id<3 & optimizer>1G", [0, 1, 2]),
        ("temps>0 & !(process=0)", [4, 5, 6, 7]),
        ("memory>14.6g | peak<14.1G", [0, 7]),
        ("free>1P", []),
    ],
)
def test_devices_are_filtered_by_what_holds_their_memory(typed, ids):
    shown = seen(*staged_devices.held(), keys=("5", "slash", *typed, "enter"))
    rows = (row.lstrip("▌").split() for row in shown.splitlines())
    assert [int(row[0]) for row in rows if row[1:2] in (["node00"], ["node01"])] == ids
    assert f"{len(ids)} of 8" in shown


@pytest.mark.parametrize("screen", ["D", "5"])
def test_devices_of_a_stopped_process_have_its_sign(screen):
    shown = seen(*staged_devices.held(), builders.trouble(1, "silent"), keys=(screen,), size=(60, 24))
    assert " 0  node00" in shown and " 4z  node01" in shown
