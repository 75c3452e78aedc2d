"""The screen of the operations, as a person uses it."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.features.operations.kinds_bar import bar_line
from jaxtop.tui.core.palette import DARK
from jaxtop.tui.draw.ink import ink_of
from jaxtop.tui.draw.panes.peak import peak_lines
from jaxtop.wire import Buffer, Operation, Operations
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.cases import thorough
from tests.features.operations.staged_operations import cluster_of
from tests.features.operations.staged_operations import shown as shown_time
from tests.made import windows as made_windows
from tests.made.windows import FINGERPRINT, PROGRAM, Made
from tests.stage import Stage, line, play, shown_after
from tests.staged import collectives as staged_collectives
from tests.staged.probe import of_device, probe

DOT = Operation("dot_general.12", "matmul", "train.py:57", 600_000, 20, 2 * 10**9, 10**7)
COPY = Operation("copy.3", "copy", "train.py:58", 100_000, 20, 0, 10**7)
REDUCE = Operation("all-reduce.3", "collective", "train.py:60", 200_000, 20, 10**6, 10**7)


def shown_in_window(*operations: Operation, **more) -> list[wire.Frame]:
    message = Operations(int(NOW * 1000) - 5000, PROGRAM, FINGERPRINT, 20, operations, **more)
    return [frame(agent_id(i), message, NOW - 1) for i in range(staged_collectives.HOSTS)]


FRAMES = [
    *staged_collectives.in_step(),
    *shown_in_window(DOT, REDUCE, COPY, idle_us=60_000, rest=12, rest_us={"fusion": 40_000}),
]


def seen(*keys, frames=FRAMES, size=(200, 50), **more) -> str:
    return shown_after(*frames, keys=("O", *keys), size=size, **more)


def test_each_operation_has_a_line_with_its_share_and_its_source():
    shown = seen()
    row = line("dot_general.12", shown).split()
    row = row[row.index("dot_general.12") :]
    assert row[:5] == ["dot_general.12", "60%", "30.0ms", "matmul", "train.py:57"]
    assert {"2.0G", "9.5M", "1", "jit_train_step"} <= set(row)
    assert "4%" in line("(not listed)", shown) and "6%" in line("(idle)", shown)
    assert line("all-reduce.3", shown).count("communication") == 1
    assert "memory" in line("copy.3", shown).split()


def test_the_bar_and_its_legend_show_the_kinds(monkeypatch):
    kinds = ("matmul 60%", "collective 20%", "copy 10%", "fusion 4%", "idle 6%")
    shown = seen()
    assert line("████", shown).count("█") > 100 and all(f"█ {each}" in shown for each in kinds)
    monkeypatch.setenv("NO_COLOR", "1")
    shown = seen()
    assert line("MMMM", shown).count("M") > 100
    assert all(f"{letter} {each}" in shown for letter, each in zip("MCYF·", kinds, strict=True))


def test_without_rates_of_the_device_it_says_what_to_do():
    assert "measure the device with `jaxtop probe`" in seen()
    assert "communication-bound" in seen("j")


@pytest.mark.parametrize("more", [{}, {"probe": probe(devices=[of_device(0)])}])
def test_without_flops_it_does_not_advise_a_probe(more):
    tanh = Operation("tanh.1", "elementwise", "train.py:59", 900_000, 20, 0, 4 << 20)
    shown = seen(frames=[*staged_collectives.in_step(), *shown_in_window(tanh)], **more)
    assert "its bound is unknown: XLA counts no flops for it" in shown and "jaxtop probe" not in shown


def test_with_a_probe_it_says_by_how_much():
    shown: list[str] = []

    async def act(stage: Stage) -> None:
        await stage.press("O")
        shown.append(stage.text)

    play(act, *FRAMES, size=(200, 50), probe=probe(devices=[of_device(0)]))
    assert "compute-bound, 110 times the time of its memory; it reaches ~3% of that rate" in shown[0]
    assert "device 2.0TF/s  memory 1.0T/s  probed" in shown[0]


def test_the_roofline_has_the_ridge_and_the_operation_under_the_cursor():
    shown: list[str] = []

    async def act(stage: Stage) -> None:
        await stage.press("O")
        shown.append(stage.text)

    play(act, *FRAMES, size=(120, 40), probe=probe(devices=[of_device(0)]))
    assert "Roofline  2.0TF/s, 1.0T/s" in shown[0] and "flops a byte   ▲ ridge 1.82" in shown[0]
    assert shown[0].count("◆") == 1 and "●" not in shown[0]  # of three, one has flops and is no collective
    assert "not drawn: what the device can do in a second is unknown" in seen().replace("│", " ")


def test_where_the_roofline_has_no_room_a_line_shows_on_which_side_of_the_ridge_operations_are():
    moved = Operation("slice.4", "slice", "train.py:61", 500_000, 20, 10**6, 10**8)
    others = [replace(COPY, op=f"copy.{i}") for i in range(10)]
    frames = [*staged_collectives.in_step(), *shown_in_window(DOT, moved, *others)]
    found: list[str] = []

    async def act(stage: Stage) -> None:
        for key in ("O", "j"):
            await stage.press(key)
            found.append(line("memory ─", stage.text))

    play(act, *frames, size=(80, 24), probe=probe(devices=[of_device(0)]))
    compute, memory = found
    assert compute.index("▲") < compute.index("◆") and compute.index("●") < compute.index("▲")
    assert memory.index("◆") < memory.index("▲") < memory.index("●")


def test_a_window_without_operations_says_what_is_missing():
    assert "no operations yet" in seen(frames=staged_collectives.in_step())
    off = staged_collectives.run(Made(4, 4), windows=0, sources={"collectives": "off: why"})
    assert "no operations yet: no times: off: why" in seen(frames=off)


def test_a_filter_finds_them_by_kind_and_bound():
    shown = seen("slash", *"bound=memory", "enter")
    assert "copy.3" in shown and "dot_general.12" not in shown


@pytest.mark.parametrize(("keys", "screen"), [((), "Programs"), (("j",), "Collectives")])
def test_enter_leads_to_the_program_or_to_the_waits(keys, screen):
    assert re.search(rf"\d {screen}\b", seen(*keys, "enter", size=(120, 24)).splitlines()[-1])


def test_enter_leads_to_the_collective_of_that_program():
    """Another program has a collective of the same name, with waits."""
    made, other = Made(staged_collectives.HOSTS, staged_collectives.DEVICES), "jit_evaluate"
    again = replace(REDUCE, time_us=1000)
    more = []
    for i in range(made.hosts):
        program = made_windows.program(made)
        listed = wire.Programs(2, (program, replace(program, name=other, fingerprint="e7")))
        inventory = replace(made_windows.inventory(made, i), program=other, fingerprint="e7")
        operations = Operations(int(NOW * 1000) - 5000, other, "e7", 20, (again,))
        more += [frame(agent_id(i), each, NOW - 1) for each in (listed, inventory, operations)]
    shown = seen("slash", *"program~evaluate", "enter", "enter", frames=[*FRAMES, *more])
    assert f"{REDUCE.op}  {other}" in shown
    assert f"{REDUCE.op}  {PROGRAM}" not in shown


def test_programs_show_the_bar_and_lead_here():
    async def act(stage: Stage) -> None:
        await stage.press("7")
        assert "█ matmul 60%" in stage.text
        await stage.press("z")
        assert "dot_general.12" in stage.text and "▌ dot_general.12" in stage.text

    play(act, *FRAMES, size=(160, 40))


@pytest.mark.parametrize("size", [(60, 16), thorough((80, 24)), thorough((120, 40)), (250, 80)])
def test_it_fits(size):
    shown = seen(size=size)
    assert "dot_general.12" in shown and "60%" in shown
    assert all(len(each) <= size[0] for each in shown.splitlines())


def test_names_of_a_trace_cannot_control_the_terminal():
    bad = Operation("\x1b[31mdot", "matmul", "\x1b]0;x", 600_000, 20)
    shown = seen(frames=[*staged_collectives.in_step(), *shown_in_window(bad)])
    assert "[31mdot" in shown and "\x1b" not in shown


def test_kinds_of_an_agent_cannot_control_the_terminal():
    bad = Operation("dot", "\x1b[31mmat", "train.py:1", 600_000, 20)
    window = Operations(1000, PROGRAM, FINGERPRINT, 20, (bad,))
    time = shown_time(cluster_of(wire.Programs(1, (wire.Program(PROGRAM, FINGERPRINT),)), window))
    held = Buffer("\x1b[31marg", 5 << 20)
    peak = wire.Peak(1, PROGRAM, FINGERPRINT, argument_bytes=5 << 20, buffers=(held,))
    for drawn in (bar_line(time, 100, ink_of(DARK, plain=False)), *peak_lines(peak, DARK)):
        assert drawn.plain.isprintable()


def test_two_programs_keep_their_own_shares():
    other = Operations(int(NOW * 1000), "jit_other", "f2", 1, (Operation("add.1", "elementwise", "", 50, 1),))
    hello = frame(agent_id(0), builders.hello(0, 4, 4), NOW - 20)
    both = wire.Programs(1, (wire.Program(PROGRAM, FINGERPRINT), wire.Program("jit_other", "f2")))
    more = [hello, frame(agent_id(0), both, NOW - 2), frame(agent_id(0), other, NOW - 1)]
    shown = seen(frames=[*FRAMES, *more])
    assert "100%" in line("add.1", shown) and "60%" in line("dot_general.12", shown)
