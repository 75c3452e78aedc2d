"""How the user wants the app to look: from `config.toml`, chosen in the app, saved for the next time."""

from __future__ import annotations

import json
import tomllib

import pytest
from textual.widgets import SelectionList

from jaxtop.base import keys
from jaxtop.cli import settings
from jaxtop.cli.errors import UserError
from jaxtop.cli.preferences import preferences_of
from jaxtop.tui.core.palette import PALETTES, Palette
from jaxtop.tui.core.preferences import ROLES, THEMES, WITH_COLUMNS
from jaxtop.tui.screens import SCREENS
from jaxtop.tui.screens.tables import TablePane
from tests import builders
from tests.cli.test_config import config  # noqa: F401 - a fixture
from tests.stage import Stage, play
from tests.support import jaxtop

FILE = """
[view]
theme = "light"
[colours]
good = "#00aa00"
[keys]
"x" = "3"
"ctrl+t" = "t"
"q" = ""
[columns]
hosts = ["host", "memory", "nonsense"]
"""


def test_names_are_those_of_themes_roles_and_screens():
    own = {"jaxtop-own"}
    assert PALETTES.keys() - own == {f"jaxtop-{name}" for name in THEMES}
    assert set(ROLES) == {name for name, kind in Palette.__annotations__.items() if kind == "str"}
    with_tables = {each.name for each in SCREENS if issubclass(each.view, TablePane)}
    assert set(WITH_COLUMNS) <= with_tables


def test_the_file_sets_theme_colours_keys_and_columns(config):  # noqa: F811 - a fixture
    config(FILE)
    preferences = preferences_of(settings.load())

    async def act(stage: Stage) -> None:
        assert stage.app.palette.good == "#00aa00"
        assert stage.app.palette.background == PALETTES["jaxtop-light"].background
        assert stage.app.current_theme.success == "#00aa00"
        await stage.press("q", "x")
        assert stage.app.is_running and stage.screen_shown == "screen-hosts"
        assert [each.key for each in stage.view_shown.table.columns] == ["host", "memory"]
        assert " x Host" in stage.line("tabs")
        await stage.press("slash", "x")
        assert stage.app.focused.value == "x", "typed text is taken as it is"
        await stage.press("escape", "ctrl+t")
        assert stage.app.theme != "jaxtop-own"

    play(act, *builders.well(), preferences=preferences)


def test_columns_are_chosen_in_the_app_and_saved_with_the_theme(config):  # noqa: F811 - a fixture
    config('[view]\nrewind = "1G"\n')

    async def act(stage: Stage) -> None:
        await stage.press("t", "3")
        offered = [each.key for each in stage.view_shown.table.columns]
        commands = {each.title: each for each in stage.app.get_system_commands(stage.screen)}
        commands["Columns of this screen"].callback()
        await stage.paint()
        listed = stage.screen.query_one(SelectionList)
        listed.deselect_all()
        listed.select(offered[3])
        await stage.press("escape")
        assert [each.key for each in stage.view_shown.table.columns] == [offered[0], offered[3]]
        commands["Save theme and columns"].callback()
        await stage.paint()

    play(act, *builders.well(), preferences=preferences_of(settings.load()))
    file = keys.config_dir() / settings.SAVED
    saved = tomllib.loads(file.read_text())
    assert saved["view"] == {"theme": THEMES[1]} and len(saved["columns"]["hosts"]) == 2
    assert file.stat().st_mode & 0o077 == 0
    loaded = settings.load()
    assert loaded.get("view.rewind") == "1G" and preferences_of(loaded).theme == THEMES[1]
    rows = {each["setting"]: each for each in json.loads(jaxtop("config", "--json").stdout)["settings"]}
    assert (rows["view.theme"]["value"], rows["view.theme"]["origin"]) == ("light", "saved")
    assert rows["view.rewind"]["origin"] == "file"


def test_the_file_precedes_what_was_saved(config):  # noqa: F811 - a fixture
    config('[view]\ntheme = "high-contrast"\n')
    preferences = preferences_of(settings.load())
    assert preferences.save is not None
    assert "config.toml precedes it for view.theme" in preferences.save("dark", {"hosts": ("host",)})
    again = preferences_of(settings.load())
    assert (again.theme, again.columns) == ("high-contrast", {"hosts": ("host",)})


def test_where_nothing_can_be_saved_it_says_so(config, monkeypatch):  # noqa: F811 - a fixture
    config("")
    preferences = preferences_of(settings.load())
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/nowhere")
    assert preferences.save is not None and preferences.save("dark", {}).startswith("not saved: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[view]\ntheme = 'blue'", "view.theme must be one of dark, light"),
        ("[colours]\ngood = 'green'", "colours.good must be a colour such as #00a0ff"),
        ("[colours]\nnice = '#000000'", "unknown setting colours.nice"),
        ("[columns]\nhosts = 'host'", "columns.hosts must be a list of columns"),
        ("[columns]\nhosts = []", "columns.hosts must be a list of columns"),
        ("[columns]\nplot = ['x']", "unknown setting columns.plot"),
        ("[keys]\nx = 1", 'keys must be lines such as "ctrl+x" = "q"'),
        ("keys = 'x'", 'keys must be lines such as "ctrl+x" = "q"'),
        ("[keys]\nx = 'Ctrl and x'", "keys has Ctrl and x, which is no key"),
    ],
)
def test_mistakes_are_one_line(config, text, said):  # noqa: F811 - a fixture
    config(text)
    with pytest.raises(UserError) as error:
        settings.load()
    assert said in str(error.value) and "\n" not in str(error.value)
