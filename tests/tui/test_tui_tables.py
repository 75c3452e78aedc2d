"""The screens that are tables: hosts, devices, events."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from textual.app import App
from textual.widgets import Static

from jaxtop import wire
from jaxtop.base import units
from jaxtop.model import Cluster, Severity, device_views, fullest
from jaxtop.model.finding import Finding, Ongoing, Subject
from jaxtop.model.state import LoggedEvent
from jaxtop.tui.columns.figures import curve, with_bar
from jaxtop.tui.core.moment import EMPTY, Moment, Selection
from jaxtop.tui.core.ongoing import ongoing_events
from jaxtop.tui.core.palette import DARK, PALETTES
from jaxtop.tui.draw.table import figure_column
from jaxtop.tui.screens import SCREENS
from jaxtop.tui.screens.devices import DevicesScreen
from jaxtop.tui.screens.events import EventsScreen
from jaxtop.tui.screens.hosts import HostsScreen
from jaxtop.wire import LinkState
from tests import builders

if TYPE_CHECKING:
    from jaxtop.tui.screens.base import ScreenPane

START = 1_760_000_000.0
GIB = 1 << 30


def hello(agent, index, *, devices=2, count=2, started=0, platform="cpu", **more):
    ids = range(index * devices, (index + 1) * devices)
    own = tuple(
        wire.Device(each, f"{platform} kind", platform, i, None if platform == "cpu" else (index, i))
        for i, each in enumerate(ids)
    )
    started_ms = int(START * 1000) + started
    place = {"agent": agent, "hostname": f"node{index + 1:02}", "pid": 4000 + index, "python": "3.12"}
    return builders.hello(index, count, own, started_ms=started_ms, platform=platform, **place, **more)


def pulse(second, used, **more):
    return wire.Pulse(
        at_ms=int((START + second) * 1000),
        memory_source="arrays",
        devices=wire.DeviceSample(used_bytes=used, limit_bytes=more.pop("limits", None)),
        host=wire.HostSample(
            process_cpu_permille=1234, rss_bytes=3 * GIB, machine_cpu_permille=420, load_centi=812
        ),
        launches={"step": second * 12},
        **more,
    )


def two_hosts(**more) -> Cluster:
    """Two hosts of two devices each, four seconds old: process 1 holds most."""
    cluster = Cluster()
    mesh = wire.Mesh((("data", 2), ("model", 2)), wire.pack_ids((0, 1, 2, 3)))
    for index in range(2):
        agent = f"a{index}"
        cluster.apply(agent, wire.Link(LinkState.UP, f"10.0.0.{index}:7410"), START)
        cluster.apply(agent, hello(agent, index), START)
        cluster.apply(agent, wire.Arrays(int(START * 1000), meshes=(mesh,)), START)
        for second in range(1, 5):
            used = ((1 + 2 * index) * GIB, (2 + 2 * index) * GIB)
            step = wire.Step(second * 3, second * 3)
            said = pulse(second, used, step=step, cost=wire.AgentCost(cpu_ppm=1800), **more)
            cluster.apply(agent, said, START + second)
    return cluster


NOW = START + 4.5


class Frame(App[None]):
    """A screen in an app that notes what the screen says."""

    def __init__(self, view: ScreenPane):
        super().__init__()
        for palette in PALETTES.values():
            self.register_theme(palette.theme)
        self.theme = DARK.theme.name
        self.view: Any = view
        self.said: list[tuple[str, Selection]] = []

    def compose(self):
        yield self.view

    def on_mount(self):
        self.view.first_focus.focus()

    def on_screen_pane_selected(self, message):
        self.said.append(("selected", message.selection))

    def on_screen_pane_drilled(self, message):
        self.said.append((message.screen, message.selection))

    @property
    def lines(self) -> list[str]:
        table = self.view.table
        return [table.render_line(y).text.rstrip() for y in range(table.size.height)]

    def cells(self, key: str) -> list[str]:
        """What stands in a column, row by row, from the top."""
        table = self.view.table
        column = next(each for each in table.columns if each.key == key)
        return [column.write(row).strip() for row in table.shown]


def drive(view, cluster, steps, *, size=(200, 20), now=NOW):
    async def run():
        app = Frame(view)
        async with app.run_test(size=size) as pilot:
            view.show(Moment(cluster, now))
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(run())


# Hosts


def test_a_host_is_one_line_of_figures():
    async def steps(app, _pilot):
        titles, first, second = app.lines[:3]
        assert " ".join(titles.split()) == (
            "STATE ▲PROC HOST DEV MEMORY STEPS/S CPU CPU, RECENT LAUNCH/S HEARD AT STEP COMPILING RSS MACHINE"
            " LOAD AGENT PID STARTS JAX"
        )
        assert " ".join(first.replace("⠀", " ").split()) == (
            "▌ ● live 0 node01 2 3.0G 3.00 123% ⣤⣤ 12.0 0s 12 – 3.0G 42% 8.12 0.18% 4000 1 0.10.2"
        )
        assert second.split()[:6] == ["●", "live", "1", "node02", "2", "7.0G"]

    drive(HostsScreen(), two_hosts(), steps)


@pytest.mark.parametrize(("width", "last"), [(60, "MEMORY"), (80, "CPU"), (120, "STEP"), (200, "JAX")])
def test_the_most_important_columns_of_a_host_are_there_at_every_width(width, last):
    async def steps(app, _pilot):
        titles = app.lines[0].split()
        assert [title for title in titles if not title.startswith("+")][-1] == last

    drive(HostsScreen(), two_hosts(), steps, size=(width, 20))


def test_what_is_not_known_of_a_host_is_said_to_be_unknown():
    cluster = Cluster()
    peer = wire.Peer("a7", 7, "node08", 4007, 1, "boot", "ns", "t", "r")
    cluster.apply("", wire.Roster("a0", (peer,), "r1", "train", 8), START)

    async def steps(app, _pilot):
        words = app.lines[1].split()
        assert words[:5] == ["▌", "…", "connecting", "7", "node08"]
        assert set(words[5:]) == {"n/a", "–", "4007", "1"}

    drive(HostsScreen(), cluster, steps)


def test_memory_of_a_host_is_unknown_where_that_of_a_device_is():
    cluster = two_hosts()
    cluster.apply("a0", pulse(5, (GIB, None)), START + 5)

    async def steps(app, _pilot):
        assert app.cells("memory") == ["n/a", "7.0G"]

    drive(HostsScreen(), cluster, steps, now=START + 5.5)


def test_a_host_that_died_keeps_its_line_and_claims_no_figures():
    cluster = two_hosts()
    cluster.apply("a1", wire.Link(LinkState.CLOSED, "10.0.0.1:7410"), START + 4)

    async def steps(app, pilot):
        assert app.cells("state") == ["● live", "× died"]
        for key in ("memory", "launches", "steps", "process_cpu_cores", "rss_bytes"):
            assert app.cells(key)[1] == "n/a", key
        await pilot.press(*["."] * 4)
        await pilot.press("S")
        assert app.cells("process") == ["0", "1"]  # unknown is last in either direction

    drive(HostsScreen(), cluster, steps)


def test_a_compilation_is_shown_while_it_runs():
    cluster = two_hosts()
    since = int((START - 7) * 1000)
    running = (wire.Compiling("init", since + 5000), wire.Compiling("train_step", since))
    cluster.apply("a1", pulse(5, (1, 1), compiling=running), START + 5)

    async def steps(app, _pilot):
        assert app.cells("compiling") == ["–", "12s train_step"]
        app.view.table.sort_by(next(each for each in app.view.table.columns if each.key == "compiling"))
        assert app.cells("process") == ["1", "0"]

    drive(HostsScreen(), cluster, steps, now=START + 5.5)


def test_a_process_that_was_started_again_says_so():
    cluster = two_hosts()
    cluster.apply("a1b", hello("a1b", 1, started=9000), START + 9)

    async def steps(app, _pilot):
        assert app.cells("starts") == ["1", "2"]

    drive(HostsScreen(), cluster, steps)


def test_runs_are_named_where_there_are_several():
    cluster = two_hosts()

    async def steps(app, pilot):
        assert "RUN" not in app.lines[0].split()
        cluster.apply("b0", hello("b0", 0, run="r2", name="eval"), START)
        app.view.show(Moment(cluster, NOW))
        await pilot.pause()
        assert "RUN" in app.lines[0].split()
        assert app.cells("run") == ["eval", "train", "train"]
        assert app.cells("process") == ["0", "0", "1"]

    drive(HostsScreen(), cluster, steps)


def test_no_hosts_are_explained():
    cluster = Cluster()

    async def steps(app, pilot):
        assert "no processes yet: waiting for a run" in "\n".join(app.lines)
        cluster.apply("", wire.Link(LinkState.CONNECTING, "10.0.0.9:7410"), START)
        app.view.show(Moment(cluster, NOW))
        await pilot.pause()
        assert "no processes yet: no answer from 10.0.0.9:7410" in "\n".join(app.lines)

    drive(HostsScreen(), cluster, steps)


def test_moving_over_hosts_selects_them_and_enter_leads_to_their_devices():
    async def steps(app, pilot):
        await pilot.press("j")
        assert app.said == [("selected", Selection("a1"))]
        await pilot.press("enter")
        assert app.said[-1] == ("devices", Selection("a1", 2))

    drive(HostsScreen(), two_hosts(), steps)


def test_a_device_selected_elsewhere_puts_the_cursor_on_its_host_and_is_kept():
    async def steps(app, pilot):
        app.view.select(Selection("a1", 3))
        await pilot.pause()
        assert app.view.table.row.host.agent == "a1"
        assert app.said == []
        await pilot.press("j")
        assert app.said == [("selected", Selection("a1", 3))]
        await pilot.press("k")
        assert app.said[-1] == ("selected", Selection("a0"))

    drive(HostsScreen(), two_hosts(), steps)


# Devices


def test_a_device_is_one_line_with_its_place_in_the_mesh():
    async def steps(app, _pilot):
        titles, *rows = app.lines[:5]
        assert titles.split()[:8] == ["▲ID", "HOST", "PROC", "DATA", "MODEL", "MEMORY", "OF", "LARGEST"]
        assert [row.replace("▌ ", "", row.startswith("▌")).split()[:8] for row in rows] == [
            ["0", "node01", "0", "0", "0", "1.0G", "█▌", "25%"],
            ["1", "node01", "0", "0", "1", "2.0G", "███", "50%"],
            ["2", "node02", "1", "1", "0", "3.0G", "████▌", "75%"],
            ["3", "node02", "1", "1", "1", "4.0G", "██████", "100%"],
        ]
        assert app.cells("kind") == ["cpu kind"] * 4
        assert app.cells("source") == ["arrays"] * 4
        assert "COORDS" not in titles

    drive(DevicesScreen(), two_hosts(), steps)


def test_memory_is_a_share_of_the_limit_where_there_is_one():
    async def steps(app, _pilot):
        assert "OF LIMIT" in app.lines[0]
        assert app.cells("share") == ["12%", "25%", "38%", "50%"]
        assert app.cells("limit") == ["8.0G"] * 4

    drive(DevicesScreen(), two_hosts(limits=(8 * GIB, 8 * GIB)), steps)


@pytest.mark.parametrize(("width", "last"), [(60, "MEMORY"), (80, "LARGEST"), (120, "LOCAL"), (200, "KIND")])
def test_the_most_important_columns_of_a_device_are_there_at_every_width(width, last):
    async def steps(app, _pilot):
        titles = [title for title in app.lines[0].split() if not title.startswith("+")]
        assert titles[:5] == ["▲ID", "HOST", "PROC", "DATA", "MODEL"]
        assert titles[-1] == last

    drive(DevicesScreen(), two_hosts(), steps, size=(width, 20))


def test_the_memory_in_use_is_marked_past_its_threshold_as_other_figures_are():
    cluster = two_hosts(limits=(4 * GIB, 4 * GIB))

    async def steps(app, _pilot):
        assert app.cells("memory") == ["1.0G", "2.0G", "3.0G", "!4.0G"]

    drive(DevicesScreen(), cluster, steps)


def test_devices_that_look_alike_are_equally_full():
    most = device_views(two_hosts(limits=(4 * GIB, 4 * GIB)), NOW)[-1]
    limits = most.pulse.devices.limit_bytes
    alike = replace(most, id=9, pulse=pulse(4, (0, most.used_bytes + 1), limits=limits))
    with_more_room = replace(most, id=10, pulse=pulse(4, (0, 5 * GIB), limits=(0, 9 * GIB)))
    assert [each.id for each in fullest([with_more_room, most, alike])] == [3, 9]
    assert fullest([]) == []


def test_without_a_mesh_there_are_no_columns_for_axes():
    cluster = Cluster()
    cluster.apply("a0", hello("a0", 0, platform="tpu"), START)

    async def steps(app, _pilot):
        assert app.lines[0].split()[:4] == ["▲ID", "HOST", "PROC", "MEMORY"]
        assert app.cells("coords") == ["0,0", "0,1"]
        assert set(app.cells("memory")) == set(app.cells("history")) == {"n/a"}

    drive(DevicesScreen(), cluster, steps)


def test_a_new_mesh_brings_its_axes_and_the_order_stays():
    cluster = two_hosts()

    async def steps(app, pilot):
        await pilot.press(*["."] * 5)
        assert app.view.table.sorted_by == ("memory", True)
        mesh = wire.Mesh((("expert", 4),), wire.pack_ids((3, 2, 1, 0)))
        for agent in ("a0", "a1"):
            cluster.apply(agent, wire.Arrays(int(START * 1000), meshes=(mesh,)), START + 4)
        app.view.show(Moment(cluster, NOW))
        await pilot.pause()
        assert "EXPERT" in app.lines[0] and "MODEL" not in app.lines[0]
        assert app.view.table.sorted_by == ("memory", True)
        assert app.cells("id") == ["3", "2", "1", "0"]
        assert app.cells("axis expert") == ["0", "1", "2", "3"]

    drive(DevicesScreen(), cluster, steps)


def test_devices_of_a_process_that_died_claim_no_figures_and_are_not_the_measure():
    cluster = two_hosts()
    cluster.apply("a1", wire.Link(LinkState.DEAD, "10.0.0.1:7410"), START + 4)

    async def steps(app, _pilot):
        assert app.cells("state") == ["● live", "● live", "× died", "× died"]
        assert app.cells("memory") == ["1.0G", "2.0G", "n/a", "n/a"]
        assert app.cells("share") == ["50%", "100%", "n/a", "n/a"]

    drive(DevicesScreen(), cluster, steps)


def test_a_device_is_selected_by_moving_and_opened_in_the_mesh():
    async def steps(app, pilot):
        await pilot.press("j", "j", "enter")
        assert app.said == [
            ("selected", Selection("a0", 1)),
            ("selected", Selection("a1", 2)),
            ("mesh", Selection("a1", 2)),
        ]

    drive(DevicesScreen(), two_hosts(), steps)


@pytest.mark.parametrize(("selection", "device"), [(Selection("a1", 3), 3), (Selection("a1"), 2)])
def test_a_selection_of_elsewhere_is_found_among_the_devices(selection, device):
    async def steps(app, pilot):
        app.view.select(selection)
        await pilot.pause()
        assert app.view.table.row.device.id == device

    drive(DevicesScreen(), two_hosts(), steps)


def test_devices_are_filtered_by_host_and_coordinate():
    async def steps(app, pilot):
        await pilot.press("slash", *"node02 4.0g", "enter")
        assert app.cells("id") == ["3"]

    drive(DevicesScreen(), two_hosts(), steps)


def test_no_devices_are_explained():
    cluster = Cluster()

    async def steps(app, pilot):
        assert "no devices yet: no process has reported" in "\n".join(app.lines)
        cluster.apply("a0", hello("a0", 0, devices=0), START)
        app.view.show(Moment(cluster, NOW))
        await pilot.pause()
        assert "no devices yet: JAX is not initialized in any process" in "\n".join(app.lines)

    drive(DevicesScreen(), cluster, steps)


def test_gauges_and_curves_read_as_text():
    column = with_bar(
        figure_column("share", "share", 4, lambda share: share, units.share), lambda share: share
    )
    drawn = [column.draw(share, column.width, DARK) for share in (None, 0.0, 0.5, 0.96, 1.7)]
    assert ["".join(words for words, *_ in parts).rstrip() for parts in drawn] == [
        "        n/a",
        "         0%",
        "███     50%",
        "█████▊  96%",
        "██████ 170%",
    ]
    assert curve([None, None]) == "n/a"
    assert len(curve([1, 5, None, 9])) == 14
    assert "█" not in curve([1, 9])


# Events


def eventful() -> Cluster:
    cluster = two_hosts()
    cluster.apply("a0", wire.Compile(1, "train_step", 3120), START + 1)
    cluster.apply("a1", wire.Event(1, "warning", "recompile", "train_step was compiled again"), START + 2)
    cluster.apply("a1", wire.Link(LinkState.DEAD, "10.0.0.1:7410"), START + 3)
    return cluster


def test_events_stand_newest_first_with_local_time_severity_and_host():
    async def steps(app, _pilot):
        clock = [time.strftime("%H:%M:%S", time.localtime(START + second)) for second in (3, 2, 1)]
        assert app.lines[0].split() == ["TIME▼", "SEVERITY", "KIND", "ABOUT", "WHAT", "HAPPENED"]
        assert app.cells("time") == clock
        assert app.cells("severity") == ["▲ critical", "△ warning", "· info"]
        assert app.cells("kind") == ["died", "recompile", "compile"]
        assert app.cells("host") == ["1 node02", "1 node02", "0 node01"]
        assert app.cells("text") == [
            "has died",
            "train_step was compiled again",
            "compiled train_step in 3.12 s",
        ]

    drive(EventsScreen(), eventful(), steps)


def test_of_two_findings_of_one_rule_on_one_process_the_one_that_lasts_is_marked():
    cluster = Cluster()
    for each in builders.well():
        cluster.feed(each)
    lasting, ended = (
        Finding(
            Severity.WARNING, 1.0, "grows", Subject(agent="a"), about=name, rule="memory_full_soon", run="r1"
        )
        for name in ("device 0", "device 1")
    )
    cluster.findings.ongoing = {lasting.key: Ongoing(lasting, 2.0, True, 2.0)}
    first, last = (
        LoggedEvent(at, "warning", "finding", "a", "Growth: grows", each.key)
        for at, each in ((1.0, lasting), (2.0, ended))
    )
    cluster.events.extend((first, last))
    assert ongoing_events(Moment(cluster, 3.0)) == {first}


def test_a_host_is_not_named_again_in_the_text_though_its_process_had_no_number_then():
    cluster = Cluster()
    cluster.apply("a0", structs.replace(hello("a0", 0), process_index=None), START)
    cluster.apply("a0", wire.Compile(1, "iota", 20), START + 1)
    cluster.apply("a0", hello("a0", 0), START + 2)

    async def steps(app, _pilot):
        assert app.cells("text") == ["compiled iota in 0.02 s"]

    drive(EventsScreen(), cluster, steps)


def test_a_cursor_on_top_follows_the_newest_event_and_further_down_it_stays():
    cluster = eventful()

    async def steps(app, pilot):
        table = app.view.table
        assert table.row.event.kind == "died"
        cluster.apply("a0", wire.Bye(1, "exit"), START + 4)
        app.view.show(Moment(cluster, NOW))
        assert table.row.event.kind == "ended"
        await pilot.press("j")
        cluster.apply("a0", wire.Event(1, "info", "back", "again"), START + 4)
        app.view.show(Moment(cluster, NOW))
        assert table.row.event.kind == "died"
        await pilot.press("g")
        assert table.row.event.kind == "back"

    drive(EventsScreen(), cluster, steps)


def test_an_event_selects_its_host_and_leads_there():
    async def steps(app, pilot):
        await pilot.press("G")
        assert app.said == [("selected", Selection("a0"))]
        await pilot.press("enter")
        assert app.said[-1] == ("hosts", Selection("a0"))

    drive(EventsScreen(), eventful(), steps)


def test_a_host_selected_elsewhere_puts_the_cursor_on_its_newest_event():
    async def steps(app, _pilot):
        app.view.select(Selection("a0", 1))
        assert app.view.table.row.event.kind == "compile"
        app.view.select(Selection("a1"))
        assert app.view.table.row.event.kind == "died"
        app.view.select(Selection("nobody"))
        assert app.view.table.row.event.kind == "died"

    drive(EventsScreen(), eventful(), steps)


def test_text_that_does_not_fit_stands_below_as_a_whole():
    cluster = eventful()
    long = "the shape of argument 2 changed from f32[128,512] to f32[96,512] for the third time"
    cluster.apply("a0", wire.Event(1, "warning", "recompile", long), START + 4)

    async def steps(app, pilot):
        app.view.show(Moment(cluster, NOW))
        await pilot.pause()
        whole = app.query_one("#whole", Static)
        assert "…" in app.lines[1]
        assert whole.display and str(whole.content) == long
        await pilot.press("j")
        assert str(whole.content) == "has died"
        await pilot.resize_terminal(200, 24)
        app.view.show(Moment(cluster, NOW))
        await pilot.pause()
        assert not whole.display

    drive(EventsScreen(), cluster, steps, size=(80, 24))


def test_events_are_filtered():
    async def steps(app, pilot):
        await pilot.press("slash", *"node02 WARNING", "enter")
        assert app.cells("kind") == ["recompile"]

    drive(EventsScreen(), eventful(), steps)


def test_no_events_are_explained():
    async def steps(app, pilot):
        assert "no events yet" in "\n".join(app.lines)
        await pilot.press("j", "enter")
        assert app.said == []

    drive(EventsScreen(), Cluster(), steps)


# All of them


@pytest.mark.parametrize("kind", [HostsScreen, DevicesScreen, EventsScreen])
def test_a_screen_can_be_shown_before_anything_is_known_and_before_it_is_on_screen(kind):
    async def run():
        view = kind()
        view.show(EMPTY)
        view.select(Selection("a1", 3))
        view.show(Moment(eventful(), NOW))
        app = Frame(view)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert view.first_focus.has_focus
            assert len(app.lines) > 3 and app.lines[1]

    asyncio.run(run())


def test_every_screen_has_its_key_and_every_key_of_a_table_is_explained():
    tables = {each.key: each.view for each in SCREENS if each.title in ("Hosts", "Devices", "Events")}
    assert tables == {"3": HostsScreen, "D": DevicesScreen, "8": EventsScreen}
    bindings = [each for keys in HostsScreen().table._bindings.key_to_bindings.values() for each in keys]
    assert bindings and all(each.description for each in bindings)
