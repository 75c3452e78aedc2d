"""The user's settings: `~/.config/jaxtop/config.toml`, and what the environment sets instead."""

from __future__ import annotations

import os
import re
import tomllib
from argparse import ArgumentTypeError
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.base import keys, private
from jaxtop.base.names import reason
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.words import amount, legible
from jaxtop.model import HOLDS_FOR, RULES, RULES_BY_NAME, Mute, Severity, Tuning
from jaxtop.tui.core.preferences import ROLES, THEMES, WITH_COLUMNS
from jaxtop.tui.notifier import FORMS as DESKTOP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

FILE = "config.toml"
# What the app saved; the file overrides it.
SAVED = "saved.toml"
FORMS = ("plain", "slack", "discord")
ALERTING = (Severity.CRITICAL.value, Severity.WARNING.value)
# The default size of the rewind buffer.
USUAL_REWIND = "256M"
# The least size of the rewind buffer, in bytes.
MIN_REWIND = 1 << 20


class Setting(NamedTuple):
    """A setting of the file: its key, default in words, meaning, and the variable that overrides it.

    `parse` checks a value of the file and raises `ValueError` with what it must be.
    """

    key: str
    default: str
    meaning: str
    parse: Callable[[Any], Any]
    variable: str = ""


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text")
    return value


def _number(least: float, most: float) -> Callable[[object], float]:
    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"must be a number from {least:g} to {most:g}")
        return float(value)

    return parse


def _choice(options: Sequence[str]) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in options:
            raise ValueError(f"must be one of {', '.join(options)}")
        return str(value)

    return parse


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004 - as for other wrong values
    return value


def _size(value: object) -> str:
    try:
        amount(str(value), MIN_REWIND)
    except ArgumentTypeError:
        raise ValueError("must be a size of at least 1 MiB, such as 100M or 2G") from None
    return str(value)


_MUTES = '["clock_offset", {rule = "straggler", run = "train"}]'


def _mutes(value: object) -> frozenset[Mute]:
    if not isinstance(value, list):
        raise ValueError("must be a list, such as " + _MUTES)  # noqa: TRY004 - as for other wrong values
    found = set()
    for each in value:
        named = {"rule": each} if isinstance(each, str) else each
        if not isinstance(named, dict) or not set(named) <= {"rule", "run"} or "rule" not in named:
            raise ValueError("has an entry that is neither the name of a rule nor {rule = …, run = …}")
        rule = str(named["rule"])
        if rule not in RULES_BY_NAME:
            raise ValueError(f"names the unknown rule {rule}{_nearest(rule, RULES_BY_NAME)}")
        found.add(Mute(rule, str(named.get("run", ""))))
    return frozenset(found)


def _colour(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"#[0-9a-fA-F]{6}", value):
        raise ValueError("must be a colour such as #00a0ff")
    return value


def _columns(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
        raise ValueError('must be a list of columns, such as ["state", "host"]')
    return tuple(value)


def _keys(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError('must be lines such as "ctrl+x" = "q"')
    found = {own.strip(): key.strip() for own, key in value.items()}
    for each in (*found, *found.values()):
        if not re.fullmatch(r"(|\S|[a-z0-9_]+|((ctrl|alt|shift)\+)+(\S|[a-z0-9_]+))", each):
            raise ValueError(f"has {each}, which is no key such as x, f5, ctrl+x or question_mark")
    return found


_OWN = (
    Setting("view.rewind", USUAL_REWIND, "size of the rewind buffer of the app", _size, "JAXTOP_REWIND"),
    Setting(
        "run.interval",
        "1",
        "`jaxtop run` and `inject`: seconds between pulses",
        _number(0.1, 60),
        "JAXTOP_INTERVAL",
    ),
    Setting(
        "run.record", "none", "`jaxtop run` and `inject`: folder for black boxes", _text, "JAXTOP_RECORD"
    ),
    Setting("run.bind", "auto", "`jaxtop run` and `inject`: address to serve on", _text, "JAXTOP_BIND"),
    Setting("findings.mute", "none", "rules that are not checked, everywhere or in a run", _mutes),
    Setting("alerts.exec", "none", "`jaxtop watch`: command to run", _text),
    Setting("alerts.webhook", "none", "`jaxtop watch`: address to post to", _text),
    Setting("alerts.form", "plain", "`jaxtop watch`: form of what is posted", _choice(FORMS)),
    Setting("alerts.bell", "false", "the app: ring the bell when a critical finding begins", _flag),
    Setting("alerts.desktop", "off", "the app: desktop notification of such findings", _choice(DESKTOP)),
    Setting("alerts.severity", "critical", "`jaxtop watch`: least severity of an alert", _choice(ALERTING)),
)


def _preference_settings() -> Iterator[Setting]:
    yield Setting("view.theme", THEMES[0], "the app: its colours", _choice(THEMES))
    for role in ROLES:
        yield Setting(f"colours.{role}", "theme's", f"the app: colour of the role {role}", _colour)
    for screen in WITH_COLUMNS:
        yield Setting(f"columns.{screen}", "all", f"the app: columns of {screen}, in this order", _columns)
    yield Setting("keys", "none", "the app: keys of your own, and those they stand for", _keys)


def _rule_settings() -> Iterator[Setting]:
    for rule in RULES:
        seconds = f"{rule.title}: seconds for which it must hold"
        yield Setting(f"rules.{rule.name}.{HOLDS_FOR}", f"{rule.holds_for:g}", seconds, _number(0, 86400))
        for number in rule.numbers:
            meaning = f"{rule.title}: {number.meaning}"
            yield Setting(
                f"rules.{rule.name}.{number.name}", f"{number.default:g}", meaning, _number(0, 1e15)
            )


SETTINGS = {each.key: each for each in (*_OWN, *_preference_settings(), *_rule_settings())}
# The first number of a rule has a shorter name, too.
SHORT = {
    f"thresholds.{rule.name}": f"rules.{rule.name}.{rule.numbers[0].name}" for rule in RULES if rule.numbers
}


@dataclass(frozen=True)
class UserSettings:
    """The settings of a file; a missing file sets nothing."""

    path: Path | None = None
    values: dict[str, Any] = field(default_factory=dict)
    # Those that the app saved and the file does not set.
    saved: frozenset[str] = frozenset()

    def get(self, key: str) -> Any:
        """Return a setting of the file, unless it is not set or the environment overrides it."""
        variable = SETTINGS[key].variable
        return None if variable and os.environ.get(variable) else self.values.get(key)

    @property
    def tuning(self) -> Tuning:
        numbers = {}
        for key, value in self.values.items():
            if key.startswith("rules."):
                _, rule, name = key.split(".")
                numbers[rule, name] = value
        return Tuning(numbers, self.values.get("findings.mute", frozenset()))


def load() -> UserSettings:
    """Read the files; raise `UserError` if one cannot be read, is broken, or sets something unknown."""
    try:
        folder = keys.config_dir()
    except keys.NoKey:  # there is no home folder, so there is no file
        return UserSettings()
    path, saved = folder / FILE, _read(folder / SAVED, is_saved=True)
    values = _read(path)
    return UserSettings(path, saved | values, frozenset(saved.keys() - values.keys()))


def _read(path: Path, *, is_saved: bool = False) -> dict[str, Any]:
    """Return the settings of a file; a missing file sets nothing.

    What a newer jaxtop saved in a home folder that machines share is left out.
    """
    try:
        content = private.read(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"{path}: {reason(error)}") from None
    try:
        tables = tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: line {content[: error.start].count(10) + 1} is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: {legible(str(error))}") from None
    values: dict[str, Any] = {}
    for key, value in _flat(tables):
        name = SHORT.get(key, key)
        if is_saved and name not in SETTINGS:
            continue
        if name in values:
            raise UserError(f"{path}: thresholds.{name.split('.')[1]} and {name} are the same setting")
        values[name] = _parsed(path, key, value)
    return values


def _flat(tables: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        key = before + name
        if isinstance(value, dict) and key not in SETTINGS:
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def _parsed(path: Path, key: str, value: object) -> Any:
    setting = SETTINGS.get(SHORT.get(key, key))
    if setting is None:
        raise UserError(legible(f"{path}: unknown setting {key}{_nearest(key, (*SETTINGS, *SHORT))}"))
    try:
        return setting.parse(value)
    except ValueError as error:
        raise UserError(legible(f"{path}: {key} {error}")) from None


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the most similar name, as the end of a sentence."""
    return f"; did you mean {get_close_matches(name, list(known), 1, 0.0)[0]}?"
