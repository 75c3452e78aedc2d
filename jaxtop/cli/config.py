"""`jaxtop config`: print the settings and where each comes from."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from jaxtop.cli import settings
from jaxtop.cli.text.words import aligned, legible, note

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

# Variables that the file cannot set. The key itself is never printed.
VARIABLES = (
    "JAXTOP", "JAXTOP_NAME", "JAXTOP_COLLECTIVES", "JAXTOP_RECORD_MINUTES", "JAXTOP_LEDGER", "JAXTOP_LINEAGE",
    "JAXTOP_PEAK_FLOPS", "JAXTOP_SCRAPE",
    "JAXTOP_SIMULATED_LIMIT", "JAXTOP_END_IF_STUCK", "JAXTOP_REPORT_TO", "JAXTOP_READONLY", "JAXTOP_KEY_FILE",
    "JAXTOP_DEBUG", "NO_COLOR",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def main(arguments: argparse.Namespace) -> int:
    loaded = settings.load()
    rows = list(_rows(loaded))
    if arguments.json:
        names = ("setting", "value", "origin", "meaning")
        document = {
            "file": None if loaded.path is None else str(loaded.path),
            "settings": [dict(zip(names, row, strict=True)) for row in rows],
        }
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        _print_ignored()
        return 0
    there = "" if loaded.path is not None and loaded.path.exists() else " (not there)"
    print(f"file: {loaded.path or 'none, because there is no home folder'}{there}\n")
    print("\n".join(aligned([("SETTING", "VALUE", "FROM", "MEANING"), *rows])))
    _print_ignored()
    return 0


def _print_ignored() -> None:
    """Print the variables of the agent whose values cannot be used."""
    from jaxtop_agent.core import settings as of_agent  # the part of the agent that needs no JAX

    sys.stdout.flush()
    for each in of_agent.read().ignored:
        note(each)


def _rows(loaded: settings.UserSettings) -> Iterator[tuple[str, str, str, str]]:
    for key, setting in settings.SETTINGS.items():
        if setting.variable and (given := os.environ.get(setting.variable)):
            value, origin = given, setting.variable
        elif key in loaded.values:
            value, origin = _shown(key, loaded.values[key]), "saved" if key in loaded.saved else "file"
        else:
            value, origin = setting.default, "default"
        yield key, legible(value), origin, setting.meaning
    for name in VARIABLES:
        if given := os.environ.get(name):
            yield name, legible(given), "environment", "see docs/scripting.md"


def _shown(key: str, value: Any) -> str:
    if key == "alerts.webhook":  # the rest of the address is a password
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.hostname or ''}/…"
    if isinstance(value, frozenset):
        return ", ".join(sorted(f"{each.rule} in {each.run}" if each.run else each.rule for each in value))
    if isinstance(value, dict):
        return ", ".join(f"{own} = {key or 'off'}" for own, key in value.items())
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
