"""No two classes of one room have one name, so that a name says which class is meant.

A room is the agent, each package of `jaxtop`, and each feature. A leading underscore makes no other name: who
reads `_Line` beside `Line` has to look up both. Classes in a class or a function do not count: the messages
of a widget are named with it, as in `MeshGrid.Moved`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import jaxtop
import jaxtop_agent

PACKAGE, AGENT = Path(jaxtop.__file__).parent, Path(jaxtop_agent.__file__).parent


def rooms() -> dict[str, Path]:
    folders = [*PACKAGE.iterdir(), *(PACKAGE / "features").iterdir(), AGENT]
    return {
        each.name: each for each in folders if (each / "__init__.py").exists() and each.name != "features"
    }


def shared(room: Path) -> dict[str, list[str]]:
    """The modules of each name that several classes of a room have."""
    found = defaultdict(list)
    for path in sorted(room.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(f"{path.relative_to(room)}:{node.lineno}")
    return {name: where for name, where in found.items() if len(where) > 1}


@pytest.mark.parametrize("name", rooms())
def test_a_name_is_one_class_in_its_room(name):
    assert shared(rooms()[name]) == {}


def test_two_classes_of_one_name_are_found(tmp_path):
    (tmp_path / "one.py").write_text("class Line: pass\nclass Other: pass\n")
    (tmp_path / "two.py").write_text("class _Line: pass\n")
    assert shared(tmp_path) == {"Line": ["one.py:1", "two.py:1"]}
