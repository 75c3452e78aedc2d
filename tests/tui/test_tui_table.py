"""The table: columns that fit, order, filter, cursor, keys and mouse."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import ClassVar, NamedTuple

import pytest
from rich.cells import cell_len
from textual.app import App
from textual.widgets import Input, Static

from jaxtop.base import units
from jaxtop.tui.core.palette import DARK, LIGHT, PALETTES
from jaxtop.tui.draw import table
from jaxtop.tui.draw import table_lines as draw
from jaxtop.tui.draw.table import (
    HELD_SECONDS,
    Column,
    HeldOrder,
    figure_column,
    fit,
    in_order,
    matching,
    ordinal_column,
    words_column,
)
from jaxtop.tui.widgets.filter import FilteredTable
from jaxtop.tui.widgets.table import Table


class Item(NamedTuple):
    id: int
    name: str
    size: int | None = None
    note: str = "quiet"


COLUMNS: tuple[Column[Item], ...] = (
    ordinal_column("id", "id", 4, lambda item: item.id),
    words_column("name", "name", 8, lambda item: item.name, flexible=True),
    figure_column("size", "size", 6, lambda item: item.size, units.size),
    words_column("note", "note", 10, lambda item: item.note),
)
ITEMS = [Item(i, f"item{i}", (i * 7 % 10) * 1024, "odd" if i % 2 else "even") for i in range(100)]


class Host(App[None]):
    """A table in an app that notes what the table says."""

    BINDINGS: ClassVar = [("escape", "back", "Back")]

    def __init__(self, items=ITEMS, columns=COLUMNS, **options):
        super().__init__()
        for palette in PALETTES.values():
            self.register_theme(palette.theme)
        self.theme = DARK.theme.name
        options.setdefault("noun", "item")
        self.table: Table[Item] = Table(columns, lambda item: item.id, **options)
        self.table.update_rows(items)
        self.moved: list[int] = []
        self.chosen: list[int] = []
        self.backs = 0

    def action_back(self):
        self.backs += 1

    def compose(self):
        yield FilteredTable(self.table)

    def on_mount(self):
        self.table.focus()

    def on_table_moved(self, message):
        self.moved.append(message.row.id)

    def on_table_chosen(self, message):
        self.chosen.append(message.row.id)

    @property
    def lines(self) -> list[str]:
        return [self.table.render_line(y).text.rstrip() for y in range(self.table._height)]

    @property
    def cursor_line(self) -> int | None:
        return next((y for y, line in enumerate(self.lines) if line.startswith(draw.CURSOR)), None)


def drive(steps, *, size=(60, 12), **options):
    """Run the steps on a table in an app of this size."""

    async def run():
        app = Host(**options)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(run())


def ids(rows):
    return [row.id for row in rows]


# Columns


def test_columns_that_do_not_fit_are_left_out_whole_and_counted():
    layout = draw.lay_out(COLUMNS, 26)
    assert [slot.column.key for slot in layout.slots] == ["id", "name"]
    header = draw.draw_header(layout, None, descending=False, palette=DARK).text
    assert header.rstrip().endswith("+2▸")
    assert "SIZE" not in header and len(header) == 26


@pytest.mark.parametrize("width", range(12, 80))
def test_every_line_is_exactly_as_wide_as_the_table(width):
    layout = draw.lay_out(COLUMNS, width)
    assert draw.draw_header(layout, "name", descending=True, palette=DARK).cell_length == width
    row = draw.draw_row(layout, Item(3, "日本語のホスト名", 5), DARK, cursor=True, focused=True)
    assert row.cell_length == width == cell_len(row.text)
    assert layout.after + len(layout.slots) == len(COLUMNS)


def test_a_column_that_is_sought_stays_in_view_until_the_user_scrolls():
    """As that with the figure of a finding, while columns appear before it."""

    def columns(keys):
        return [words_column(key, key, 10, lambda _item: None) for key in keys]

    async def steps(app, pilot):
        app.table.reveal("e")
        await pilot.pause()
        assert app.table.width_of("e")
        app.table.update_columns(columns("abcjklmndfghie"))
        await pilot.pause()
        assert app.table.width_of("e")
        await pilot.press("left", "left", "left", "left", "left")
        assert not app.table.width_of("e")

    drive(steps, size=(80, 24), columns=columns("abcdfghie"))


def test_the_last_flexible_column_takes_the_rest():
    layout = draw.lay_out(COLUMNS, 60)
    assert [(slot.column.key, slot.width) for slot in layout.slots] == [
        ("id", 4),
        ("name", 8 + 60 - 36),
        ("size", 6),
        ("note", 10),
    ]


def test_pinned_columns_stay_when_the_others_move_sideways():
    layout = draw.lay_out(COLUMNS, 26, pinned=1, skipped=1)
    assert [slot.column.key for slot in layout.slots] == ["id", "size"]
    assert (layout.before, layout.after) == (1, 1)
    header = draw.draw_header(layout, None, descending=False, palette=DARK).text
    assert header.rstrip().endswith("◂1 +1▸")
    assert [layout.way_at(x) for x in (20, 23)] == [-1, 1]


def test_digits_are_aligned_to_the_right_and_words_to_the_left():
    layout = draw.lay_out(COLUMNS, 36)
    lines = [
        draw.draw_row(layout, item, DARK, cursor=False, focused=True).text
        for item in (Item(7, "a", 2048), Item(1234, "b", None))
    ]
    assert lines == [
        "     7  a           2.0K  quiet     ",
        "  1234  b            n/a  quiet     ",
    ]


def test_what_others_sent_cannot_reach_the_terminal_as_control_characters():
    assert fit("a\x1b[2Jb\nc", 10) == "a [2Jb c  "
    assert fit("a long name", 6) == "a lon…"
    assert fit("日本語", 5) == "日本…"
    assert fit("日本語", 4) == "日 …"


def test_the_sorted_column_is_marked_with_its_direction():
    layout = draw.lay_out(COLUMNS, 60)
    assert "NAME▲" in draw.draw_header(layout, "name", descending=False, palette=DARK).text
    assert "▼SIZE" in draw.draw_header(layout, "size", descending=True, palette=DARK).text


def test_the_cursor_has_a_sign_not_just_a_colour():
    layout = draw.lay_out(COLUMNS, 60)
    line = draw.draw_row(layout, ITEMS[0], LIGHT, cursor=True, focused=False).text
    assert line.startswith("▌")


# Order and filter


@pytest.mark.parametrize("descending", [False, True])
def test_unknown_comes_last_in_either_direction(descending):
    items = [Item(1, "a", None), Item(2, "b", 5), Item(3, "c", 9), Item(4, "d", None)]
    ordered = ids(in_order(items, COLUMNS[2], descending=descending))
    assert ordered == ([3, 2, 1, 4] if descending else [2, 3, 1, 4])


def test_a_filter_wants_all_its_words_in_any_column_and_any_case():
    items = [Item(1, "Alpha", 2048), Item(2, "alphabet", 4096), Item(3, "beta", 2048)]
    assert ids(matching(items, COLUMNS, "ALPHA 2.0k")) == [1]
    assert ids(matching(items, COLUMNS, "  ")) == [1, 2, 3]
    assert ids(matching(items, COLUMNS, "zeta")) == []


def test_a_filter_finds_nothing_in_a_drawing():
    drawing = replace(COLUMNS[1], searched=False)
    assert matching([Item(1, "alpha")], (COLUMNS[0], drawing), "alpha") == []


def test_a_column_that_writes_in_its_own_way_is_searched_as_written():
    column: Column[Item] = Column(
        "own", "own", 5, "left", lambda item: item.id, lambda item: f"<{item.name}>"
    )
    assert ids(matching(ITEMS, (column,), "<item7>")) == [7]


# The cursor


def test_the_cursor_stays_on_its_row_when_rows_come_go_and_change_places():
    async def steps(app, pilot):
        await pilot.press("j", "j", "j")
        assert app.table.row.id == 3
        app.table.update_rows([*reversed(ITEMS[:5]), Item(500, "new")])
        await pilot.pause()
        assert app.table.row.id == 3
        assert app.cursor_line == 2
        app.table.update_rows([item for item in ITEMS if item.id != 3])
        assert app.table.row.id != 3
        app.table.update_rows(ITEMS)
        assert app.table.row.id == 3
        assert app.moved == [1, 2, 3]

    drive(steps)


def test_the_cursor_of_nobody_is_on_the_first_row():
    async def steps(app, pilot):
        app.table.update_rows(list(reversed(ITEMS)))
        await pilot.pause()
        assert app.table.row.id == 99
        assert app.moved == []

    drive(steps)


def test_on_top_the_cursor_follows_the_newest_row_if_told_so():
    async def steps(app, pilot):
        await pilot.press("j", "g")
        app.table.update_rows([Item(200, "new"), *ITEMS])
        assert app.table.row.id == 200
        await pilot.press("j")
        app.table.update_rows([Item(201, "newer"), Item(200, "new"), *ITEMS])
        assert app.table.row.id == 0

    drive(steps, follows_top=True)


def test_a_selected_row_is_brought_into_view_also_if_it_comes_later():
    async def steps(app, pilot):
        app.table.select(60)
        await pilot.pause()
        assert app.table.row.id == 60 and app.cursor_line is not None
        app.table.select(777)
        app.table.update_rows([*ITEMS, Item(777, "late")])
        await pilot.pause()
        assert app.table.row.id == 777 and app.cursor_line is not None
        assert app.moved == []  # the person moved nothing

    drive(steps)


def test_news_do_not_pull_the_view_back_to_the_cursor():
    async def steps(app, pilot):
        await pilot.press("j")
        app.table.scroll_to(y=50, animate=False)
        await pilot.pause()
        before = app.lines
        app.table.update_rows(list(ITEMS))
        await pilot.pause()
        assert app.lines == before and app.cursor_line is None

    drive(steps)


def test_the_last_rows_stay_in_view_when_rows_go():
    async def steps(app, pilot):
        await pilot.press("G")
        app.table.update_rows(ITEMS[:5])
        await pilot.pause()
        assert app.lines[1].split()[-1] == "even" and app.lines[5].split()[-1] == "even"
        assert app.lines[6] == ""

    drive(steps)


# Keys


def test_keys_move_the_cursor():
    async def steps(app, pilot):
        for key, where in (
            ("j", 1), ("down", 2), ("k", 1), ("up", 0), ("up", 0), ("G", 99), ("j", 99), ("g", 0),
            ("pagedown", 11), ("pagedown", 22), ("pageup", 11),
        ):  # fmt: skip
            await pilot.press(key)
            assert app.table.row.id == where, key
            assert app.cursor_line is not None, key

    drive(steps)


def test_enter_opens_the_row_under_the_cursor():
    async def steps(app, pilot):
        await pilot.press("j", "enter")
        assert app.chosen == [1]

    drive(steps)


def test_comma_and_dot_choose_the_sorted_column_and_s_reverses():
    async def steps(app, pilot):
        assert app.table.sorted_by == ("id", False)
        await pilot.press(".", ".")
        assert app.table.sorted_by == ("size", True)  # large figures first
        sizes = [item.size for item in app.table.shown]
        assert sizes == sorted(sizes, reverse=True)
        await pilot.press("S")
        assert app.table.sorted_by == ("size", False)
        assert [item.size for item in app.table.shown] == sorted(sizes)
        await pilot.press(",", ",", ",")
        assert app.table.sorted_by == ("note", False)

    drive(steps, sort="id")


def test_a_column_that_is_sorted_by_comes_into_view():
    async def steps(app, pilot):
        assert "NOTE" not in app.lines[0]
        await pilot.press(",")
        await pilot.pause()
        assert "NOTE▲" in app.lines[0] and "ID" in app.lines[0]

    drive(steps, sort="id", size=(27, 12))


def test_arrows_move_the_columns_sideways_and_back():
    async def steps(app, pilot):
        assert app.lines[0].endswith("+2▸")
        await pilot.press("l", "right")
        assert "NOTE" in app.lines[0] and "NAME" not in app.lines[0]
        await pilot.press("l", "l", "l")
        assert "NOTE" in app.lines[0]
        await pilot.press("h", "left", "h")
        assert app.lines[0].endswith("+2▸") and "NAME" in app.lines[0]

    drive(steps, size=(27, 12))


# The filter


def test_slash_filters_while_it_is_typed_enter_keeps_it_and_esc_clears_it():
    async def steps(app, pilot):
        await pilot.press("slash", *"item1 odd")
        await pilot.pause()
        assert ids(app.table.shown) == [1, 11, 13, 15, 17, 19]
        assert str(app.query_one("#count", Static).content) == "6 of 100"
        await pilot.press("enter")
        await pilot.pause()
        assert app.table.has_focus
        assert app.moved == [1]
        await pilot.press("j")
        assert app.table.row.id == 11
        assert app.query_one("#filter").display
        await pilot.press("escape")
        assert len(app.table.shown) == 100 and app.table.row.id == 11
        assert not app.query_one("#filter").display
        assert app.backs == 0
        await pilot.press("escape")
        assert app.backs == 1  # nothing to clear: Esc is the app's again

    drive(steps)


def test_esc_while_typing_clears_and_gives_the_keys_back_to_the_rows():
    async def steps(app, pilot):
        await pilot.press("slash", *"q/?7", "escape")
        assert app.table.words == "" and app.table.has_focus
        assert app.query_one(Input).value == ""

    drive(steps)


def test_an_empty_filter_leaves_no_line_behind():
    async def steps(app, pilot):
        await pilot.press("slash")
        assert app.query_one("#filter").display
        await pilot.press("enter")
        await pilot.pause()
        assert not app.query_one("#filter").display

    drive(steps)


def test_the_cursor_comes_back_to_its_row_when_the_filter_goes():
    async def steps(app, pilot):
        app.table.select(50)
        await pilot.press("slash", *"item7", "escape")
        await pilot.pause()
        assert app.table.row.id == 50 and app.cursor_line is not None

    drive(steps)


def test_new_rows_are_filtered_too():
    async def steps(app, pilot):
        await pilot.press("slash", *"fresh", "enter")
        assert "no item matches the filter 'fresh'" in "\n".join(app.lines)
        app.table.update_rows([*ITEMS, Item(300, "fresh")])
        await pilot.pause()
        assert ids(app.table.shown) == [300]

    drive(steps)


def test_an_empty_table_says_why():
    async def steps(app, pilot):
        assert "no item yet" in "\n".join(app.lines)
        app.table.update_rows([], "no item yet: nobody made one")
        await pilot.pause()
        assert "no item yet: nobody made one" in "\n".join(app.lines)
        app.table.update_rows(ITEMS)
        await pilot.pause()
        app.table.update_rows([], "no item yet: they went")
        await pilot.pause()
        assert "no item yet: they went" in "\n".join(app.lines)
        await pilot.press("j", "G", "enter", "pagedown", "S", ".")
        assert app.moved == app.chosen == []

    drive(steps, items=[])


# The mouse


def test_a_click_selects_and_a_click_on_the_selected_row_opens():
    async def steps(app, pilot):
        await pilot.click(Table, offset=(5, 4))
        assert app.moved == [3] and app.chosen == []
        await pilot.click(Table, offset=(5, 4))
        assert app.chosen == [3]

    drive(steps)


def test_a_double_click_opens():
    async def steps(app, pilot):
        await pilot.double_click(Table, offset=(5, 1))
        assert app.moved == [0] and app.chosen == [0]

    drive(steps)


def test_a_click_on_a_title_sorts_and_another_one_reverses():
    async def steps(app, pilot):
        x = app.lines[0].index("SIZE")
        await pilot.click(Table, offset=(x, 0))
        assert app.table.sorted_by == ("size", True)
        await pilot.click(Table, offset=(x, 0))
        assert app.table.sorted_by == ("size", False)
        assert app.moved == []

    drive(steps)


def test_a_click_below_the_rows_does_nothing():
    async def steps(app, pilot):
        await pilot.click(Table, offset=(5, 8))
        assert app.moved == app.chosen == []

    drive(steps, items=ITEMS[:3])


def test_a_click_on_the_hint_shows_further_columns():
    async def steps(app, pilot):
        await pilot.click(Table, offset=(app.lines[0].index("+2"), 0))
        assert "SIZE" in app.lines[0] and app.table.sorted_by == (None, False)
        await pilot.click(Table, offset=(app.lines[0].index("◂"), 0))
        assert "NAME" in app.lines[0]

    drive(steps, size=(27, 12))


def test_the_filter_is_cleared_by_a_click():
    async def steps(app, pilot):
        await pilot.press("slash", *"item7", "enter")
        await pilot.click("#clear")
        assert len(app.table.shown) == 100 and app.table.has_focus

    drive(steps)


def test_the_wheel_scrolls_and_leaves_the_cursor():
    async def steps(app, pilot):
        from textual.events import MouseScrollDown

        await pilot.press("j")
        for _ in range(10):
            await pilot._post_mouse_events([MouseScrollDown], Table, (5, 5))
        await pilot.pause()
        assert app.table.scroll_offset.y > 0 and app.table.row.id == 1
        assert app.lines[0].split()[0] == "ID"  # the titles stay

    drive(steps)


# Painting


def test_only_lines_that_changed_are_painted_again():
    async def steps(app, pilot):
        painted = []
        refresh = app.table.refresh

        def note(*regions, **options):
            painted.extend(regions)
            return refresh(*regions, **options)

        app.table.refresh = note
        app.table.update_rows(list(ITEMS))
        await pilot.pause()
        assert painted == []
        app.table.update_rows([ITEMS[0], ITEMS[1]._replace(size=999), *ITEMS[2:]])
        await pilot.pause()
        assert [region.y for region in painted] == [2]
        painted.clear()
        await pilot.press("j")
        assert [region.y for region in painted] == [1, 2]

    drive(steps)


def test_rows_are_sorted_at_most_once_for_all_that_came_in_between(monkeypatch):
    async def steps(app, pilot):
        sorts = []
        real = in_order

        def count(*args, **options):
            sorts.append(1)
            return real(*args, **options)

        monkeypatch.setattr(table, "in_order", count)
        for _ in range(5):
            app.table.update_rows(list(ITEMS))
        app.table.filter_by("item")
        app.table.select(7)
        await pilot.pause()
        assert len(sorts) == 1
        await pilot.press("j", "k", "pagedown")
        assert len(sorts) == 1

    drive(steps)


def test_another_theme_is_seen_at_once_and_another_size_too():
    async def steps(app, pilot):
        before = app.table.render_line(1)
        app.theme = LIGHT.theme.name
        await pilot.pause()
        assert app.table.render_line(1) != before
        await pilot.resize_terminal(27, 8)
        await pilot.pause()
        assert app.lines[0].endswith("+2▸") and len(app.lines) == 8
        await pilot.resize_terminal(100, 20)
        await pilot.pause()
        assert "NOTE" in app.lines[0] and len(app.lines) == 20

    drive(steps)


def by_size(*sizes: int, order: HeldOrder[Item], at: float | None, sought: str = "size") -> list[int]:
    """Return the numbers of items of these sizes, the largest first, in a held order."""
    items = in_order((Item(i, "", size) for i, size in enumerate(sizes)), COLUMNS[2], descending=True)
    return [item.id for item in order.held(items, lambda item: item.id, sought, at)]


def test_the_order_of_figures_that_change_is_held_for_a_while():
    order: HeldOrder[Item] = HeldOrder()
    assert by_size(1, 2, 3, order=order, at=100.0) == [2, 1, 0]
    assert by_size(9, 2, 3, order=order, at=101.0) == [2, 1, 0]
    assert by_size(9, 2, 3, order=order, at=100.0 + HELD_SECONDS) == [0, 2, 1]
    assert by_size(1, 9, 3, order=order, at=101.0 + HELD_SECONDS) == [0, 2, 1]
    assert by_size(1, 9, 3, order=order, at=50.0) == [1, 2, 0]  # an earlier time was sought


def test_rows_that_come_or_go_another_sort_and_no_time_change_the_order_at_once():
    order: HeldOrder[Item] = HeldOrder()
    by_size(1, 2, 3, order=order, at=100.0)
    assert by_size(9, 2, 3, 4, order=order, at=100.5) == [0, 3, 2, 1]
    assert by_size(9, 2, 10, order=order, at=100.6) == [2, 0, 1]
    assert by_size(11, 2, 10, order=order, at=100.7, sought="name") == [0, 2, 1]
    assert by_size(1, 2, 10, order=order, at=None, sought="name") == [2, 1, 0]


def test_the_cursor_follows_its_row_and_a_sort_of_the_user_applies_at_once():
    async def steps(app, pilot):
        sizes = {0: 5 * 1024, 1: 9 * 1024, 2: 7 * 1024}

        async def numbers(at: float) -> list[int]:
            app.table.update_rows([Item(i, f"item{i}", size) for i, size in sizes.items()], at=at)
            await pilot.pause()
            return [row.id for row in app.table.shown]

        assert await numbers(100.0) == [1, 2, 0]
        await pilot.press("j")
        sizes[0] = 99 * 1024
        assert await numbers(101.0) == [1, 2, 0]
        assert app.cursor_line == 2
        assert await numbers(102.0) == [0, 1, 2]
        assert app.table.row.id == 2
        assert app.cursor_line == 3
        await pilot.press("S")
        assert await numbers(102.1) == [2, 1, 0]
        assert app.cursor_line == 1

    drive(steps, items=[], sort="size")
